"""Calls that systems have in forms of their own: files opened, read, locked and made read-only.

Nothing else of the package names what POSIX alone has (`fcntl`, `os.pread`, `O_NOFOLLOW`), so
that what it stands on elsewhere is written here and nowhere else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path
from typing import Any

_fcntl: Any = None
with contextlib.suppress(ImportError):  # Windows
    import fcntl

    _fcntl = fcntl

__all__ = [
    "WINDOWS",
    "clone_blocks",
    "hold_file",
    "host_name",
    "is_mine",
    "lives",
    "open_binary",
    "open_folder",
    "read_at",
    "set_mode",
    "sync_file",
    "write_at",
]

WINDOWS = os.name == "nt"
"""Whether files behave as they do there: an open or read-only one stays where it is."""
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_CLONE = 0x40049409
"""FICLONE of Linux."""
_LOCKED_BYTE = 1 << 40
"""The byte that stands for a file where a lock is of bytes, which nobody else may read then."""
_turn = threading.Lock()


def open_binary(path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Open a file of bytes, waiting for nobody; unless told to follow, a link is an error."""
    if not follow and not _NO_FOLLOW and os.path.islink(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    if WINDOWS:
        return _open_on_windows(path, flags)
    return os.open(path, flags | _BINARY | _NO_WAIT | (0 if follow else _NO_FOLLOW), 0o666)


def _open_on_windows(path: str | Path, flags: int) -> int:
    # There, nobody removes or renames a file that another has open, unless it was opened so.
    import ctypes
    import msvcrt

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined,unused-ignore]
    kernel.CreateFileW.restype = ctypes.c_void_p
    reads = flags & (os.O_WRONLY | os.O_RDWR) != os.O_WRONLY
    writes = flags & (os.O_WRONLY | os.O_RDWR) != os.O_RDONLY
    access = (0x80000000 if reads else 0) | (0x40000000 if writes else 0)
    if flags & os.O_CREAT:
        how = 1 if flags & os.O_EXCL else 2 if flags & os.O_TRUNC else 4
    else:
        how = 5 if flags & os.O_TRUNC else 3
    handle = kernel.CreateFileW(os.fspath(path), access, 7, None, how, 0x80, None)
    if handle == ctypes.c_void_p(-1).value:
        code = ctypes.get_last_error()  # type: ignore[attr-defined,unused-ignore]
        reason = ctypes.FormatError(code)  # type: ignore[attr-defined,unused-ignore]
        raise OSError(None, reason, os.fspath(path), code)
    kept = flags & (os.O_APPEND | os.O_WRONLY | os.O_RDWR)
    return int(msvcrt.open_osfhandle(handle, kept | _BINARY))  # type: ignore[attr-defined,unused-ignore]


def read_at(number: int, size: int, offset: int) -> bytes:
    """Read bytes at a place of an open file."""
    if hasattr(os, "pread"):
        return os.pread(number, size, offset)
    with _turn:
        before = os.lseek(number, 0, os.SEEK_CUR)
        try:
            os.lseek(number, offset, os.SEEK_SET)
            return os.read(number, size)
        finally:
            os.lseek(number, before, os.SEEK_SET)


def write_at(number: int, data: bytes, offset: int) -> None:
    """Write all of some bytes at a place of an open file."""
    rest = memoryview(data)
    while rest:
        if hasattr(os, "pwrite"):
            done = os.pwrite(number, rest, offset)
        else:
            with _turn:
                os.lseek(number, offset, os.SEEK_SET)
                done = os.write(number, rest)
        rest, offset = rest[done:], offset + done


def hold_file(number: int, *, shared: bool = False, wait: bool = False) -> None:
    """Hold an open file until it is closed; raises `BlockingIOError` where another holds it."""
    if _fcntl is not None:
        kind = _fcntl.LOCK_SH if shared else _fcntl.LOCK_EX
        _fcntl.flock(number, kind if wait else kind | _fcntl.LOCK_NB)
        return
    import ctypes
    import msvcrt

    # Whether it ended is written there; the byte that is held is one behind the end of any file.
    where = (ctypes.c_uint64 * 4)(0, 0, _LOCKED_BYTE, 0)
    handle = ctypes.c_void_p(msvcrt.get_osfhandle(number))  # type: ignore[attr-defined,unused-ignore]
    how = (0 if shared else 2) | (0 if wait else 1)
    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    if not kernel.LockFileEx(handle, how, 0, 1, 0, ctypes.byref(where)):
        raise BlockingIOError(errno.EAGAIN, "another process holds it")


def host_name() -> str:
    """Return what this machine calls itself; `socket`, which tells it too, is half a megabyte."""
    if WINDOWS:
        import socket

        return socket.gethostname()
    return os.uname().nodename


def open_folder(folder: str | Path) -> int | None:
    """Open a folder, to be locked or synced; None where folders are not opened."""
    return os.open(folder, os.O_RDONLY | _FOLDER) if _FOLDER else None


def set_mode(number: int | None, path: str | Path, mode: int) -> None:
    """Say who may read and write a file, open or not, where a read-only one can be removed."""
    if WINDOWS:
        mode |= 0o200
    if number is not None and hasattr(os, "fchmod"):
        os.fchmod(number, mode)
    else:
        os.chmod(path, mode)


def sync_file(path: str | Path) -> None:
    """Make the bytes of a file durable that somebody wrote and closed."""
    # Windows does so only for who may write.
    number = os.open(path, (os.O_RDWR if WINDOWS else os.O_RDONLY) | _BINARY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def is_mine(status: os.stat_result) -> bool:
    """Whether who asks owns a file and nobody may write to it; False where nobody can tell."""
    return hasattr(os, "geteuid") and not status.st_mode & 0o222 and status.st_uid == os.geteuid()


def clone_blocks(source: int, target: int) -> None:
    """Have an open file share the blocks of another; raises OSError where that cannot be."""
    if _fcntl is None:
        raise OSError(errno.EOPNOTSUPP, "blocks are not shared on this system")
    _fcntl.ioctl(target, _CLONE, source)


def lives(process: int) -> bool:
    """Whether a process of this machine lives."""
    if WINDOWS:
        return _lives_on_windows(process)
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _lives_on_windows(process: int) -> bool:
    # There, the signal 0 is Ctrl-C.
    import ctypes

    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    handle = kernel.OpenProcess(0x1000, False, process)  # enough to ask how it ended
    if not handle:
        return False
    code = ctypes.c_ulong()
    kernel.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel.CloseHandle(handle)
    return code.value == 259  # it has not
