"""JGit, which merges at Gerrit and elsewhere, as a process that is told trees and tells trees."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["JGit", "fetched", "running"]

VERSION = "6.10.0.202406032230-r"
_JARS = (
    f"org.eclipse.jgit:org.eclipse.jgit:{VERSION}",
    "org.slf4j:slf4j-api:1.7.36",
    "com.googlecode.javaewah:JavaEWAH:1.2.3",
)


class JGit:
    """A JGit that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def merge(self, base: str, ours: str, theirs: str) -> str | None:
        """Merge trees; return the tree, or None where it stops."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{base} {ours} {theirs}\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        if said == "stopped":
            return None
        if len(said) != 40:
            raise AssertionError(f"JGit says {said!r}")
        return said


def fetched(folder: Path) -> list[Path] | None:
    """Return its jars, fetched by Maven; None where they cannot be had."""
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        return None
    for jar in _JARS:
        command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={jar}"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={folder}", "-Dmdep.useBaseVersion=true"],
            capture_output=True,
            check=False,
            cwd=folder,
        )
        if done.returncode:
            return None
    return sorted(folder.glob("*.jar"))


@contextmanager
def running(jars: list[Path], repository: Path) -> Iterator[JGit]:
    """Run it over a repository."""
    source = Path(__file__).with_name("JGitMerge.java")
    command = ["java", "-cp", ":".join(map(str, jars)), str(source), str(repository)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield JGit(process)
        finally:
            process.kill()
