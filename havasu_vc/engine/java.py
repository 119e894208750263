"""Whether there is a Java that Spark can start with."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from havasu_vc.errors import MissingProgramError

__all__ = ["OLDEST_JAVA", "require_java"]

OLDEST_JAVA = 17
_HINTS = (
    "install a JDK 17 and point JAVA_HOME at it",
    "or use `--engine local`, which needs none, for all but `sql` and `shell`",
)
_VERSION = re.compile(r'version "(\d+)')


def require_java() -> str:
    """Return the path of the Java that Spark will start; raise if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise MissingProgramError(
            "Spark needs Java, and there is none on this machine", hints=_HINTS
        )
    try:
        # Asked, not only looked for: macOS has a `java` that only says where to get one.
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        where = "JAVA_HOME says it is" if home else "it should be"
        raise MissingProgramError(
            f"Spark needs Java, and there is none where {where}: {java}", hints=_HINTS
        ) from error
    found = _VERSION.search(asked.stderr)
    if asked.returncode != 0 or found is None:
        raise MissingProgramError(f"Spark needs Java, and {java} does not run", hints=_HINTS)
    if int(found[1]) < OLDEST_JAVA:
        raise MissingProgramError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is Java {found[1]}", hints=_HINTS
        )
    return java
