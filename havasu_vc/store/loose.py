"""Loose git objects that were cut short, found before libgit2 reads them: it would never end.

Where a file ends before its object does, libgit2 asks zlib for the rest again and again. So
what loose files there are is looked at once, before the first object is read, those of
alternates too: each is inflated. A commit adds few of them, and of many

    <common git directory>/havasu/loose     JSON: `boot`, and `folders`, to each folder of
                                            objects the time up to which all in it is whole

is remembered, until the machine starts anew: what was not yet durable may be cut then. The file
is derived and goes with anything else of `havasu/`.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from functools import cached_property
from pathlib import Path

import pygit2

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.store.disk import replace_file

__all__ = ["BROUGHT_ANEW", "LooseObjects"]

_NAME = "loose"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_HEX = frozenset("0123456789abcdef")
_MANY = 32
"""So many that had to be looked at are worth remembering."""
_TICK = 2_000_000_000
"""Nanoseconds in which a folder may change again without its time telling."""
_LARGE = 1 << 24
"""Texts of more bytes are looked at when they are asked for."""
BROUGHT_ANEW = (
    "`git fsck` names each such object; without their files below .git/objects "
    "`git fetch --refetch` brings them from a remote",
)
"""The way on where git has lost an object."""
_PIECE = 1 << 16
_DEPTH = 5
"""Alternates of alternates that git follows."""


class LooseObjects:
    """The loose files of a folder of objects, as far as they are not whole."""

    def __init__(self, folder: Path) -> None:
        """Look at a repository's `objects`."""
        self._folder = folder
        self._besides: tuple[Path, ...] = ()

    def add(self, folder: Path) -> None:
        """Look at another folder too."""
        self._besides += (folder,)
        self.__dict__.pop("_found", None)

    @property
    def damaged(self) -> frozenset[str]:
        """The ids of those that are not whole."""
        return self._found[0]

    def instead(self, object_id: str) -> tuple[int, bytes] | None:
        """Return a damaged object as a pack holds it too; None for what libgit2 may read.

        It would read the loose file, so it is asked for the packs alone.
        """
        damaged, large, folders = self._found
        if object_id not in damaged and (object_id not in large or _is_whole(large[object_id])):
            return None
        for folder in folders:
            with contextlib.suppress(KeyError, ValueError, OSError, pygit2.GitError):
                kind, data = pygit2.OdbBackendPack(folder).read(object_id)
                return kind, data
        for folder in folders:
            file = Path(folder, object_id[:2], object_id[2:])
            if file.exists() and not os.access(file, os.R_OK):
                raise CorruptDatasetError(
                    f"git object {object_id}",
                    "it cannot be read: permission denied",
                    hints=(f"let yourself read what is in {folder}",),
                )
        raise CorruptDatasetError(
            f"git object {object_id}",
            "it cannot be read: its file is damaged or cut short",
            hints=BROUGHT_ANEW,
        )

    @cached_property
    def _found(self) -> tuple[frozenset[str], dict[str, str], list[str]]:
        memory = self._folder.parent / "havasu" / _NAME
        boot, now, known = _boot(), time.time_ns(), {}
        with contextlib.suppress(
            OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError
        ):
            said = json.loads(memory.read_bytes())
            if boot and said["boot"] == boot:
                known = {str(name): int(when) for name, when in said["folders"].items()}
        damaged: set[str] = set()
        large: dict[str, str] = {}
        times: dict[str, int] = {}
        count = 0
        for folder in _with_alternates((self._folder, *self._besides)):
            newest = known.get(folder, 0)
            times[folder] = newest
            for place, changed in _fans(folder):
                if changed <= newest:
                    continue
                settled = changed if changed < now - _TICK else changed - _TICK
                times[folder] = max(times[folder], settled)
                for identity, path in _objects(place):
                    count += 1
                    whole = _is_whole(path, _LARGE)
                    if whole is None:
                        large[identity] = path
                    elif not whole:
                        damaged.add(identity)
        if count > _MANY and not damaged and not large and boot:
            # It only spares work next time; the repository may be read-only.
            with contextlib.suppress(OSError):
                memory.parent.mkdir(exist_ok=True)
                replace_file(memory, json.dumps({"boot": boot, "folders": times}).encode())
        return frozenset(damaged), large, list(times)


def _boot() -> str:
    with contextlib.suppress(OSError):
        return _BOOT.read_text("ascii").strip()
    return ""


def _with_alternates(folders: tuple[Path, ...]) -> list[str]:
    """Return folders of objects, and those that their `info/alternates` name."""
    found: dict[str, None] = {}
    waiting = [(os.path.abspath(folder), 0) for folder in folders]
    for folder, depth in waiting:
        if folder in found:
            continue
        found[folder] = None
        with contextlib.suppress(OSError):
            with open(os.path.join(folder, "info", "alternates"), "rb") as file:
                lines = file.read(_PIECE).split(b"\n") if depth < _DEPTH else []
            waiting += [
                (os.path.normpath(os.path.join(folder, os.fsdecode(line))), depth + 1)
                for line in lines
                if line and not line.startswith(b"#") and b"\0" not in line
            ]
    return list(found)


def _fans(folder: str) -> list[tuple[str, int]]:
    """Return the folders of loose objects, and when each changed last."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if len(entry.name) == 2 and _HEX.issuperset(entry.name):
                with contextlib.suppress(OSError):
                    found.append((entry.path, entry.stat().st_mtime_ns))
    return found


def _objects(place: str) -> list[tuple[str, str]]:
    with contextlib.suppress(OSError):
        return [
            (place[-2:] + name, f"{place}/{name}")
            for name in os.listdir(place)
            if len(name) == 38 and _HEX.issuperset(name)
        ]
    return []


def _is_whole(path: str, most: int | None = None) -> bool | None:
    """Whether a file holds the object that its head speaks of; None for more than `most`."""
    try:
        with open(path, "rb") as file:
            inflating = zlib.decompressobj()
            data = inflating.decompress(file.read(_PIECE), 64)
            head, zero, text = data.partition(b"\0")
            size = int(head.partition(b" ")[2]) if zero else -1
            if size < 0:
                return False
            if most is not None and size > most:
                return None
            left = size - len(text)
            while not inflating.eof and left >= 0:
                waiting = inflating.unconsumed_tail or file.read(_PIECE)
                piece = inflating.decompress(waiting, _PIECE)
                if not waiting and not piece:
                    return False
                left -= len(piece)
            return left == 0
    except FileNotFoundError:
        return True  # it has just gone: packed, or pruned
    except (OSError, ValueError, zlib.error):
        return False
