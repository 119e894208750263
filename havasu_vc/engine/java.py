"""The Java that Spark starts, and that may end at any time: killed, or for want of memory.

Py4J, by which PySpark talks with it, logs tracebacks of what it raises in any case; a command
tells of it in one line.
"""

import logging
import os
import re
import shutil
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from havasu_vc.errors import EngineError, MissingProgramError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = [
    "OLDEST_JAVA",
    "ended",
    "ended_here",
    "is_gone",
    "keep_quiet",
    "require_java",
    "spare_tests",
    "stop",
]

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


def keep_quiet() -> None:
    """Keep off the terminal what Py4J logs of Ctrl-C, and of a Java that has ended."""
    logging.getLogger().addFilter(_not_of_py4j)  # some of it goes to the root's log
    if not (theirs := logging.getLogger("py4j")).level:  # else somebody looks for something
        theirs.setLevel(logging.CRITICAL + 1)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def spare_tests() -> None:
    """Spare the first call of Java half a second or more, half of all that a driver does.

    To look whether an argument is NumPy's, PySpark 4.1 loads its own tests, and pandas with them.
    """
    from pyspark.sql import types

    for name, is_theirs in (
        ("NumpyArrayConverter", _is_array),
        ("NumpyScalarConverter", _is_scalar),
    ):
        converter: Any = getattr(types, name, None)
        if converter is not None:
            converter.can_convert = is_theirs


def _is_array(_: object, value: object) -> bool:
    # Where NumPy is not loaded nothing is an array.
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.ndim == 1


def _is_scalar(_: object, value: object) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def is_gone(error: BaseException) -> bool:
    """Return whether an error is that Java, with which this process talks, is there no more."""
    if isinstance(error, ConnectionError):
        return True
    # Where Java answers, what it says comes along.
    of_py4j = type(error).__name__ in ("Py4JError", "Py4JNetworkError")
    return of_py4j and "Trace:" not in str(error)


def ended(what: str) -> EngineError:
    """Return what to tell of a Java that ended."""
    return EngineError(
        f"Spark's Java ended in the middle of {what}",
        hints=(
            "the system may have stopped it for want of memory: run again when there is more, "
            "or with `--engine local`",
        ),
    )


def ended_here(error: BaseException | None) -> bool:
    """Return whether an error is that the Java which this process started has ended."""
    if error is None or not is_gone(error):
        return False
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(2)
    return process.returncode is not None


def stop(started: "SparkSession | SparkContext") -> None:
    """Stop a session or a context; nothing need be done where its Java has ended."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)
        try:
            started.stop()
        except Exception as error:
            if not is_gone(error):
                raise
