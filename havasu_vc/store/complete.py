"""Which commits have all of their data files here, so that a fetch looks only at newer ones.

    <common git directory>/havasu/complete     commits, one per line

Every data file of a listed commit, and of its whole history, was here when it was listed.
Whoever removes data files forgets the list first, and holds the lock that keeps others
from writing it meanwhile.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

from havasu_vc.store.durability import replace_file, reporting_storage_errors

__all__ = ["MOST", "forget_complete", "read_complete", "write_complete"]

MOST = 1000
"""No more commits than these are listed; what is forgotten is looked at again, no more."""

_NAME = "complete"
_COMMIT = re.compile(r"[0-9a-f]{40}")


def read_complete(folder: Path) -> list[str]:
    """Return the commits that are listed in a data folder."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return _COMMIT.findall((folder / _NAME).read_text("ascii"))
    return []


def write_complete(folder: Path, commits: Iterable[str]) -> None:
    """List commits, and no others."""
    lines = sorted(set(commits))[:MOST]
    replace_file(folder / _NAME, "".join(f"{line}\n" for line in lines).encode())


def forget_complete(folder: Path) -> None:
    """List no commit any more."""
    with reporting_storage_errors(folder / _NAME):
        (folder / _NAME).unlink(missing_ok=True)
