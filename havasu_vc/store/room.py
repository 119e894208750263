"""Room for what the catalog derives: the oldest files go, and never one that was just wanted.

Whoever hands out the names of such files touches them first, under the lock. Files that are
being written have no name yet.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from havasu_vc.store.locks import exclusive_lock, shared_lock

__all__ = ["WANTED_SECONDS", "make_room", "want"]

DERIVED = ("tables", "feeds")
"""The folders of what can be made again."""

WANTED_SECONDS = 6 * 3600.0
"""So long a file stays that was wanted."""
_LOCK = "lock"
_PATIENCE = 60.0
_REASON = "another process drops what is derived"


def want(root: Path, files: Iterable[str]) -> bool:
    """Note that files below a folder are wanted now, and return whether all are there."""
    with shared_lock(root / _LOCK, patience=_PATIENCE):
        try:
            for file in files:
                os.utime(file)
        except FileNotFoundError:
            return False
    return True


def make_room(
    root: Path, most: int, *, seconds: float = WANTED_SECONDS, dry_run: bool = False
) -> int:
    """Delete the oldest files until what is left has few enough bytes; return how many went.

    A file that was wanted in the last `seconds` stays, however many there are.
    """
    if not root.is_dir():
        return 0
    oldest = time.time() - max(seconds, WANTED_SECONDS)
    with exclusive_lock(root / _LOCK, patience=_PATIENCE, reason=_REASON, dry_run=dry_run):
        found = []
        for folder in DERIVED:
            for place, _, names in os.walk(root / folder):
                for name in names:
                    path = os.path.join(place, name)
                    with contextlib.suppress(FileNotFoundError):
                        status = os.lstat(path)
                        found.append((status.st_mtime, path, status.st_size))
        held, gone = sum(size for _, _, size in found), 0
        for moment, path, size in sorted(found):
            if moment > oldest or held - gone <= most:
                break
            if not dry_run:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            gone += size
    return gone
