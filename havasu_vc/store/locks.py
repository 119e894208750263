"""The lock between commits and garbage collection.

A commit holds `<common git directory>/havasu/lock` shared, from the first file that it
stores or reuses until its ref is moved; gc holds it exclusively. The system drops the
lock of a process that dies, so nothing is ever left locked.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from havasu_vc.errors import LockedError
from havasu_vc.store.durability import reporting_storage_errors

__all__ = ["exclusive_lock", "shared_lock"]

_PAUSE = 0.02


@contextlib.contextmanager
def shared_lock(path: Path, *, patience: float = 60.0) -> Iterator[None]:
    """Hold the lock together with other commits; wait as many seconds for gc to end."""
    with _held(path, fcntl.LOCK_SH, patience, "garbage is being collected in this repository"):
        yield


@contextlib.contextmanager
def exclusive_lock(
    path: Path,
    *,
    patience: float = 10.0,
    reason: str = "another process is committing to this repository",
) -> Iterator[None]:
    """Hold the lock alone; wait as many seconds for others, by default commits, to end."""
    with _held(path, fcntl.LOCK_EX, patience, reason):
        yield


@contextlib.contextmanager
def _held(path: Path, kind: int, patience: float, reason: str) -> Iterator[None]:
    with reporting_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(number, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise LockedError(
                        reason, hints=("wait until it has ended, then try again",)
                    ) from error
                time.sleep(_PAUSE)
        yield
    finally:
        os.close(number)
