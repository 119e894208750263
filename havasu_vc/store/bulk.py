"""Reading very many small git objects: from their packs at once, not one by one.

An object's place is looked up in the pack indexes with one search for a whole batch, and
objects are read in the order in which they lie in a pack. What is a delta, loose or in
an alternate is left to libgit2. A reader sees packs that come later when it misses an
object. It is made of a path, so that tasks in other processes and threads have their
own; what it keeps per object of a pack are the 12 bytes that order it.
"""

from __future__ import annotations

import functools
import mmap
import os
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pygit2

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.store.durability import reporting_storage_errors

__all__ = ["BulkReader", "bulk_reader"]

_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_LARGE = np.uint32(1 << 31)
_DELTAS = (6, 7)
_MOST_OBJECT = 1 << 31


class _Pack:
    """One pack and its index, mapped into memory."""

    def __init__(self, index: Path) -> None:
        with open(index, "rb") as file:
            self._index = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with open(index.with_suffix(".pack"), "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._index[:8] != _MAGIC or self._data[:8] != b"PACK\0\0\0\2":
            raise ValueError(f"{index} is not of version 2")
        self._fan = np.frombuffer(self._index, ">u4", 256, 8).astype(np.int64)
        count = int(self._fan[-1])
        start = 8 + 1024
        ids = np.frombuffer(self._index, np.uint8, count * 20, start).reshape(count, 20)
        self._heads = np.ascontiguousarray(ids[:, :8]).view(">u8").ravel()
        self._tails = ids[:, 8:]
        short = np.frombuffer(self._index, ">u4", count, start + count * 24)
        self._offsets = short.astype(np.int64)
        large = (short & _LARGE) != 0
        if large.any():
            places = (short[large] & ~_LARGE).astype(np.int64)
            wide = np.frombuffer(self._index, ">u8", int(places.max()) + 1, start + count * 28)
            self._offsets[large] = wide[places].astype(np.int64)
        self._ends = np.append(np.sort(self._offsets), len(self._data) - 20)
        self.view = memoryview(self._data)

    def find(self, ids: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Return the offset of each object, -1 where it is not here."""
        heads = np.ascontiguousarray(ids[:, :8]).view(">u8").ravel()
        place = np.searchsorted(self._heads, heads)
        place = np.minimum(place, len(self._heads) - 1)
        if not len(self._heads):
            return np.full(len(ids), -1, np.int64)
        here = (self._heads[place] == heads) & (self._tails[place] == ids[:, 8:]).all(axis=1)
        return np.where(here, self._offsets[place], -1)

    def ends(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return where the objects after some offsets begin."""
        found: npt.NDArray[np.int64] = self._ends[np.searchsorted(self._ends, offsets, "right")]
        return found


class BulkReader:
    """Reads objects of one repository by many ids at once."""

    def __init__(self, objects: Path) -> None:
        """Read from the folder `objects` of a git directory."""
        self._folder = objects
        self._packs: dict[str, _Pack] = {}
        self._lock = threading.Lock()
        self._database = pygit2.Odb(str(objects))
        self._refresh()

    def read(self, ids: Sequence[bytes]) -> list[bytes | None]:
        """Return the bytes of each object, in the order asked; None where one is not here."""
        found: list[bytes | None] = [None] * len(ids)
        if not ids:
            return found
        rest = self._read_packed(ids, found, np.arange(len(ids)))
        if len(rest):
            rest = self._read_others(ids, found, rest)
        if len(rest) and self._refresh():
            rest = self._read_packed(ids, found, rest)
            self._read_others(ids, found, rest)
        return found

    def _read_packed(
        self, ids: Sequence[bytes], found: list[bytes | None], wanted: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Read what packs hold whole; return the positions of what is left."""
        keys = np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 20)
        left = []
        for pack in tuple(self._packs.values()):
            offsets = pack.find(keys[wanted])
            here = offsets >= 0
            if not here.any():
                continue
            chosen, starts = wanted[here], offsets[here]
            order = np.argsort(starts, kind="stable")
            chosen, starts = chosen[order], starts[order]
            left += _expanded(pack, starts, chosen.tolist(), found)
            wanted = wanted[~here]
            if not len(wanted):
                break
        return np.concatenate([wanted, np.array(left, np.int64)]) if left else wanted

    def _read_others(
        self, ids: Sequence[bytes], found: list[bytes | None], wanted: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Read deltas, loose objects and those of alternates; return what is left."""
        missing = []
        for index in wanted.tolist():
            try:
                found[index] = self._database.read(pygit2.Oid(raw=ids[index]))[1]
            except KeyError:
                missing.append(index)
            except (pygit2.GitError, ValueError, OSError) as error:
                raise CorruptDatasetError(
                    f"git object {ids[index].hex()}", f"it cannot be read ({error})"
                ) from error
        return np.array(missing, np.int64)

    def _refresh(self) -> bool:
        """Look for packs that are new; return whether there are any."""
        with self._lock, reporting_storage_errors(self._folder):
            try:
                names = {name for name in os.listdir(self._folder / "pack") if name[-4:] == ".idx"}
            except FileNotFoundError:
                names = set()
            fresh = names - self._packs.keys()
            packs = {name: pack for name, pack in self._packs.items() if name in names}
            for name in sorted(fresh):
                try:
                    packs[name] = _Pack(self._folder / "pack" / name)
                except (ValueError, OSError):
                    continue  # libgit2 says what is wrong with it, or it has just gone
            # Also libgit2 looks for packs only when it is asked anew.
            self._database = pygit2.Odb(str(self._folder))
            self._packs = packs
            return bool(fresh)


def _expanded(
    pack: _Pack,
    starts: npt.NDArray[np.int64],
    positions: list[int],
    found: list[bytes | None],
) -> list[int]:
    """Expand objects of a pack into their places; return the positions of deltas."""
    view, decompress = pack.view, zlib.decompress
    deltas = []
    ends = pack.ends(starts).tolist()
    for index, start, end in zip(positions, starts.tolist(), ends, strict=True):
        byte = view[start]
        if byte >> 4 & 7 in _DELTAS:
            deltas.append(index)
            continue
        size, shift, start = byte & 15, 4, start + 1
        while byte & 0x80:
            byte = view[start]
            size |= (byte & 0x7F) << shift
            shift, start = shift + 7, start + 1
        try:
            data = decompress(view[start:end], 15, min(size, _MOST_OBJECT) or 1)
        except zlib.error:
            deltas.append(index)  # libgit2 says what is wrong
            continue
        if len(data) != size:
            deltas.append(index)
            continue
        found[index] = data
    return deltas


@functools.lru_cache(maxsize=8)
def bulk_reader(objects: str) -> BulkReader:
    """Return the reader of a folder of objects, the same for all that ask in this process."""
    return BulkReader(Path(objects))
