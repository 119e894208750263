"""The answer to `kart --version`.

The version comes first, as programs look for it there, then that of what it stands on.
"""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import version
from sqlite3 import sqlite_version

__all__ = ["kart_version"]

_KART = "0.17.2"
"""The version of Kart whose command line this is."""


def kart_version(ours: str) -> str:
    """Return the lines that Kart has; of libraries those that we use, and `ours` for its name."""
    lines = (
        {"Git": _said_by("git", "version"), "Git LFS": _said_by("git", "lfs", "version")},
        {name: version(name.lower()) for name in ("PyGit2", "PyArrow", "Shapely", "PyProj")},
        {"SQLite": sqlite_version},
    )
    told = (
        "; ".join(f"{name} v{number}" for name, number in line.items() if number) for line in lines
    )
    first = f"Kart v{_KART}, in the words of {ours}"
    return "\n".join((first, *(f"» {line}" for line in told)))


def _said_by(*command: str) -> str | None:
    """Return the version in what a program says of itself; None where it is not there."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"\d+(\.\d+)+", said)
    return found and found[0]
