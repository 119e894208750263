"""The lock between commits and garbage collection.

A commit holds `<common git directory>/havasu/lock` shared, from the first file that it
stores or reuses until its ref is moved; gc holds it exclusively. The system drops the
lock of a process that dies, so nothing is ever left locked. Who holds one alone writes into
it who it is (process, when that began, machine), for those who wait to be told.
"""

import contextlib
import fcntl
import hashlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from havasu_vc.errors import LockedError
from havasu_vc.store.durability import reporting_storage_errors

__all__ = ["exclusive_lock", "has_ended", "shared_lock", "this_process"]

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
                        reason + _owner(number), hints=("wait until it has ended, then try again",)
                    ) from error
                time.sleep(_PAUSE)
        if kind == fcntl.LOCK_EX:
            _sign(number, f"{os.getpid()} {_began(os.getpid())} {socket.gethostname()}\n")
        try:
            yield
        finally:
            if kind == fcntl.LOCK_EX:
                _sign(number, "")
    finally:
        os.close(number)


def _sign(number: int, text: str) -> None:
    # A full disk is no reason not to hold it.
    with contextlib.suppress(OSError):
        os.ftruncate(number, 0)
        os.pwrite(number, text.encode(), 0)


def _owner(number: int) -> str:
    """Return who holds a lock alone; nothing if it is not known, or was somebody before."""
    try:
        process, began, machine = os.pread(number, 500, 0).decode("utf-8", "replace").split()
    except (OSError, ValueError):
        return ""
    if machine != socket.gethostname():
        return f" (process {process} on {machine})"
    alive = process.isdecimal() and _began(int(process)) == began
    return f" (process {process})" if alive else ""


def this_process() -> str:
    """Return a line that names this process, for `has_ended` to tell."""
    return f"{_machine()} {os.getpid()} {_began(os.getpid())}"


def has_ended(line: str) -> bool:
    """Whether a process that is named was of this machine and is no more; False if in doubt."""
    machine, _, rest = line.strip().partition(" ")
    process, _, began = rest.partition(" ")
    if machine != _machine() or not process.isdecimal() or began in ("", "-"):
        return False
    return _began(int(process)) != began


def _machine() -> str:
    """Return a name of what counts processes: this machine since it started, or a container."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii"))
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _began(process: int) -> str:
    """Return when a process began, as the system counts; `-` where it does not tell."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            # Its name stands in parentheses and may hold anything.
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "-"
