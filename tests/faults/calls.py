"""The system calls that change files, or read them: their numbers, and what they are about."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from tests.faults.seccomp import Notice, memory

__all__ = ["Call", "Kind", "describe", "watched"]

_MACHINE = 1 if platform.machine() == "aarch64" else 0
_CHANGING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CLONES = (0x40049409, 0x4020940D)
"""The requests of `ioctl` that share the blocks of another file."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One system call."""

    numbers: tuple[int | None, int | None]
    """Its number on x86-64 and on ARM64."""
    files: tuple[tuple[int | None, int | None], ...]
    """Where it names files: the argument that is a descriptor, and the one that is a path."""
    bits: tuple[int, int] | None = None
    """An argument, and the bits of which one must be set for the call to count."""
    reads: bool = False
    """Whether it only reads."""
    room: bool = True
    """Whether it can fail because the disk is full."""


KINDS = {
    "write": Kind((1, 64), ((0, None),)),
    "pwrite64": Kind((18, 68), ((0, None),)),
    "writev": Kind((20, 66), ((0, None),)),
    "pwritev": Kind((296, 70), ((0, None),)),
    "pwritev2": Kind((328, 287), ((0, None),)),
    "sendfile": Kind((40, 71), ((0, None),)),
    "copy_file_range": Kind((326, 285), ((2, None),)),
    "splice": Kind((275, 76), ((2, None),)),
    "open": Kind((2, None), ((None, 0),), (1, _CHANGING_FLAGS)),
    "creat": Kind((85, None), ((None, 0),)),
    "openat": Kind((257, 56), ((0, 1),), (2, _CHANGING_FLAGS)),
    "openat2": Kind((437, 437), ((0, 1),)),
    "ftruncate": Kind((77, 46), ((0, None),)),
    "truncate": Kind((76, 45), ((None, 0),)),
    "fallocate": Kind((285, 47), ((0, None),)),
    "fsync": Kind((74, 82), ((0, None),)),
    "fdatasync": Kind((75, 83), ((0, None),)),
    "sync_file_range": Kind((277, 84), ((0, None),)),
    "rename": Kind((82, None), ((None, 0), (None, 1))),
    "renameat": Kind((264, 38), ((0, 1), (2, 3))),
    "renameat2": Kind((316, 276), ((0, 1), (2, 3))),
    "link": Kind((86, None), ((None, 0), (None, 1))),
    "linkat": Kind((265, 37), ((0, 1), (2, 3))),
    "symlink": Kind((88, None), ((None, 1),)),
    "symlinkat": Kind((266, 36), ((1, 2),)),
    "unlink": Kind((87, None), ((None, 0),), room=False),
    "unlinkat": Kind((263, 35), ((0, 1),), room=False),
    "mkdir": Kind((83, None), ((None, 0),)),
    "mkdirat": Kind((258, 34), ((0, 1),)),
    "rmdir": Kind((84, None), ((None, 0),), room=False),
    "chmod": Kind((90, None), ((None, 0),), room=False),
    "fchmod": Kind((91, 52), ((0, None),), room=False),
    "fchmodat": Kind((268, 53), ((0, 1),), room=False),
    "fchmodat2": Kind((452, 452), ((0, 1),), room=False),
    "utimensat": Kind((280, 88), ((0, 1),), room=False),
    "utime": Kind((132, None), ((None, 0),), room=False),
    "utimes": Kind((235, None), ((None, 0),), room=False),
    "futimesat": Kind((261, None), ((0, 1),), room=False),
    "mknod": Kind((133, None), ((None, 0),)),
    "mknodat": Kind((259, 33), ((0, 1),)),
    "ioctl": Kind((16, 29), ((0, None),)),
    "openat (read)": Kind((257, 56), ((0, 1),), reads=True),
    "open (read)": Kind((2, None), ((None, 0),), reads=True),
    "read": Kind((0, 63), ((0, None),), reads=True),
    "pread64": Kind((17, 67), ((0, None),), reads=True),
    "readv": Kind((19, 65), ((0, None),), reads=True),
    "getdents64": Kind((217, 61), ((0, None),), reads=True),
}
WRITES = frozenset({"write", "pwrite64", "writev"})
SYNCS = frozenset({"fsync", "fdatasync", "sync_file_range"})


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is about a file below the folder that is watched."""

    name: str
    path: str
    """The file that it changes, relative to the folder."""
    room: bool
    """Whether it takes room on the disk."""


def watched(*, reads: bool) -> dict[int, tuple[int, int] | None]:
    """Return the numbers to stop at: of calls that change files, or of those that read them."""
    found: dict[int, tuple[int, int] | None] = {}
    for name, kind in KINDS.items():
        number = kind.numbers[_MACHINE]
        if number is not None and kind.reads is reads:
            # Only clones of all that `ioctl` does; their numbers share a bit with few others.
            found[number] = (1, 0x40000000) if name == "ioctl" else kind.bits
    return found


_BY_NUMBER = {
    reads: {
        kind.numbers[_MACHINE]: (name, kind)
        for name, kind in KINDS.items()
        if kind.reads is reads and kind.numbers[_MACHINE] is not None
    }
    for reads in (False, True)
}


def describe(notice: Notice, root: str, *, reads: bool) -> Call | None:
    """Return what a call is about; None if that is nothing below `root`."""
    name, kind = _BY_NUMBER[reads][notice.number]
    if name == "ioctl" and notice.arguments[1] & 0xFFFFFFFF not in _CLONES:
        return None
    path = ""
    for descriptor, text in kind.files:
        found = _path(notice, descriptor, text)
        if found is not None and found.startswith(root):
            path = found
    if not path:
        return None
    return Call(name, path[len(root) :].lstrip("/"), kind.room)


def _path(notice: Notice, descriptor: int | None, text: int | None) -> str | None:
    below = None
    if descriptor is not None:
        number = notice.arguments[descriptor] & 0xFFFFFFFF
        try:
            if number == 0xFFFFFF9C:  # AT_FDCWD
                below = os.readlink(f"/proc/{notice.process}/cwd")
            else:
                below = os.readlink(f"/proc/{notice.process}/fd/{number}")
        except OSError:
            return None
    if text is None:
        return below
    name = _string(notice.process, notice.arguments[text])
    if name.startswith("/"):
        return os.path.normpath(name)
    if below is None:
        try:
            below = os.readlink(f"/proc/{notice.process}/cwd")
        except OSError:
            return None
    return os.path.normpath(Path(below, name))


def _string(process: int, address: int) -> str:
    """Return the text at an address; it may end anywhere in a page."""
    data = b""
    while b"\0" not in data and len(data) < 8192:
        place = address + len(data)
        more = memory(process, place, 4096 - place % 4096)
        if not more:
            break
        data += more
    return os.fsdecode(data.split(b"\0", 1)[0])
