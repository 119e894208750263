"""Keeping `git gc` away while a commit is made, by the file with which it keeps itself away.

A commit's objects are reached by no ref until its branch moves, and `git gc --prune=now`
would remove them just then. git reads `gc.pid`: while it names a process that lives, no
other gc begins.
"""

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from havasu_vc.errors import LockedError
from havasu_vc.store.durability import reporting_storage_errors

__all__ = ["without_git_gc"]

PATIENCE = 300.0
"""Seconds that a gc of git is waited for."""


@contextlib.contextmanager
def without_git_gc(common: Path) -> Iterator[None]:
    """Let no gc of git begin in a repository, after one that is going on has ended."""
    place = common / "gc.pid"
    mine = f"{os.getpid()} {socket.gethostname()}"
    temporary = common / f"havasu/gc-{secrets.token_hex(8)}"
    deadline = time.monotonic() + PATIENCE
    with reporting_storage_errors(place):
        temporary.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(mine, "utf-8")
            while not _linked(temporary, place):
                if not _holds(place):
                    place.unlink(missing_ok=True)
                elif time.monotonic() >= deadline:
                    raise LockedError(
                        "`git gc` is running in this repository",
                        hints=("wait until it has ended, then try again",),
                    )
                else:
                    time.sleep(0.05)
        finally:
            temporary.unlink(missing_ok=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if place.read_text("utf-8") == mine:
                place.unlink()


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def _holds(place: Path) -> bool:
    """Whether the process that a file names lives, as git tells it."""
    try:
        process, _, machine = place.read_text("utf-8", "replace").strip().partition(" ")
        if time.time() - place.stat().st_mtime > 12 * 3600 or not process.isdecimal():
            return False
        if machine != socket.gethostname():
            return True
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
