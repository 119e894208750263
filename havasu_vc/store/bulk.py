"""Reading very many small git objects: from their packs at once, not one by one.

An object's place is looked up in the pack indexes with one search for a whole batch, or in
a large one, as long as few were asked for, where an id should stand among evenly spread
ones. Small packs, which hold what is new, are asked first; objects are read in the order
in which they lie in a pack. What is a delta, loose or in an alternate is left to libgit2. A
reader sees packs that come later when it misses an object. It is made of a path, so that
tasks in other processes and threads have their own; what it keeps per object of a pack
that is small, or of which very many were asked for, are the 8 bytes by which ids are
searched. Packs that are not sound are left to libgit2 too, which says why.
"""

from __future__ import annotations

import functools
import mmap
import os
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pygit2

from havasu_vc.errors import CorruptDatasetError, NotFoundError
from havasu_vc.store.command import run_git
from havasu_vc.store.disk import reporting_storage_errors
from havasu_vc.store.loose import LooseObjects
from havasu_vc.store.system import open_binary, read_at

__all__ = ["BulkReader", "bulk_reader", "fetch_promised"]


_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_LARGE = 1 << 31
_DELTAS = (6, 7)
_FEW, _MANY = 1 << 14, 1 << 17
"""Up to so many ids, in all, are looked up one by one in an index of more than so many."""
_AROUND = 64
"""Entries of an index that are read on both sides of where an id should stand."""
_GAP, _BLOCK, _TAIL = 1 << 14, 1 << 22, 1 << 11
"""Bytes between objects, of a block, and after the beginning of its last object."""
_KEPT = 1 << 11
"""Up to so many objects that were read last are kept: a commit looks at what it changes twice."""
_MOST_OBJECT = 1 << 20
"""Larger objects are left to libgit2."""
_TOGETHER = 32
"""From so many objects on, those that are not compressed are looked for at once."""
_STORED = b"\x78\x01\x01"
"""How zlib begins what it does not compress and holds in one block; lengths follow."""
_AROUND_STORED = 16
"""Bytes after a block that may be looked at."""


class _Pack:
    """One pack, read from its files.

    Its index is mapped into memory where it is large, once very many objects are asked for.
    Before, that would count every page around what is read.
    """

    def __init__(self, index: Path) -> None:
        self._index_file = open_binary(index, follow=True)
        weakref.finalize(self, os.close, self._index_file)
        head = read_at(self._index_file, 1032, 0)
        if head[:8] != _MAGIC or len(head) < 1032:
            raise ValueError(f"{index} is not of version 2")
        self._file = open_binary(index.with_suffix(".pack"), follow=True)
        weakref.finalize(self, os.close, self._file)
        # Looked at for each id that is asked for alone.
        self._fan: list[int] = np.frombuffer(head, ">u4", 256, 8).tolist()
        self.count = self._fan[-1]
        """How many objects it holds."""
        self._asked = 0
        self._heads: npt.NDArray[np.uint64] | None = None
        if os.fstat(self._index_file).st_size < 1032 + self.count * 28 + 40:
            raise ValueError(f"{index} is cut off")

    @cached_property
    def _index(self) -> mmap.mmap:
        return mmap.mmap(self._index_file, 0, access=mmap.ACCESS_READ)

    def find(self, ids: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Return the offset of each object, -1 where it is not here."""
        if not self.count:
            return np.full(len(ids), -1, np.int64)
        self._asked += len(ids)
        if self._asked < _FEW and self.count > _MANY and self._heads is None:
            data = ids.tobytes()
            places = [self._place(data[at : at + 20]) for at in range(0, len(data), 20)]
            return np.array([-1 if at < 0 else self._offset(at) for at in places], np.int64)
        found = self._places(ids)
        here = found >= 0
        found[here] = self._offsets(found[here])
        return found

    def _place(self, identity: bytes) -> int:
        """Return where an id stands in the index."""
        first = self._fan[identity[0] - 1] if identity[0] else 0
        last = self._fan[identity[0]]
        while last - first > 2 * _AROUND:
            # Ids are as good as random, so a few hundred bytes around the guess hold most.
            guess = first + (last - first) * int.from_bytes(identity[1:5]) // (1 << 32)
            low, high = max(guess - _AROUND, first), min(guess + _AROUND, last)
            near = read_at(self._index_file, 20 * (high - low), 1032 + 20 * low)
            if identity < near[:20]:
                last = low
            elif identity > near[-20:]:
                first = high
            else:
                return _standing(identity, near, low)
            middle = (first + last) // 2
            there = read_at(self._index_file, 20, 1032 + 20 * middle)
            first, last = (first, middle) if identity < there else (middle, last)
        near = read_at(self._index_file, 20 * (last - first), 1032 + 20 * first)
        return _standing(identity, near, first)

    def _offset(self, place: int) -> int:
        """Return the offset of the object at a place of the index."""
        start = 1032 + self.count * 24
        offset = int.from_bytes(read_at(self._index_file, 4, start + 4 * place))
        if not offset & _LARGE:
            return offset
        at = start + 4 * self.count + 8 * (offset & ~_LARGE)
        return int.from_bytes(read_at(self._index_file, 8, at))

    def _places(self, ids: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        table = self._part(np.uint8, self.count * 20, 1032).reshape(-1, 20)
        if self._heads is None:
            self._heads = np.ascontiguousarray(table[:, :8]).view(">u8").ravel().astype(np.uint64)
        heads = np.ascontiguousarray(ids[:, :8]).view(">u8").ravel().astype(np.uint64)
        # Looked for in their order, neighbours are near each other: half the time.
        order = np.argsort(heads)
        sorted_places = np.searchsorted(self._heads, heads[order])
        sorted_places = np.minimum(sorted_places, self.count - 1)
        same = (table[sorted_places] == ids[order]).all(axis=1)
        places = np.empty(len(heads), np.int64)
        places[order] = np.where(same, sorted_places, -1)
        return places

    def _offsets(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        start = 1032 + self.count * 24
        short = self._part(">u4", self.count, start)[places].astype(np.int64)
        large = np.flatnonzero(short & _LARGE)
        if len(large):
            size = os.fstat(self._index_file).st_size
            rest = (size - start - self.count * 4 - 40) // 8
            wide = self._part(">u8", rest, start + self.count * 4)
            short[large] = wide[short[large] & ~_LARGE].astype(np.int64)
        return short

    def _part(self, type_: npt.DTypeLike, count: int, start: int) -> npt.NDArray[Any]:
        """Return numbers of the index; a large one is mapped."""
        if self.count > _MANY:
            return np.frombuffer(self._index, type_, count, start)
        size = count * np.dtype(type_).itemsize
        return np.frombuffer(read_at(self._index_file, size, start), type_)

    def block(self, start: int, size: int) -> bytes:
        """Return bytes of the file, fewer at its end."""
        return read_at(self._file, size, start)


def _standing(identity: bytes, near: bytes, start: int) -> int:
    """Return where an id stands in a piece of an index that begins at `start`; -1 if nowhere."""
    at = near.find(identity)
    while at % 20 and at >= 0:
        at = near.find(identity, at + 1)
    return start + at // 20 if at >= 0 else -1


class BulkReader:
    """Reads objects of one repository by many ids at once."""

    def __init__(self, objects: Path) -> None:
        """Read from the folder `objects` of a git directory."""
        self._folder = objects
        self._packs: dict[str, _Pack] = {}
        self._last: tuple[Sequence[bytes], list[bytes | None]] = ((), [])
        self._lock = threading.Lock()
        self._database = pygit2.Odb(str(objects))
        self._loose = LooseObjects(objects)
        self._refresh()

    def read(self, ids: Sequence[bytes]) -> list[bytes | None]:
        """Return the bytes of each object, in the order asked; None where one is not here."""
        before, there = self._last
        if len(ids) == len(before) and ids == before:
            return list(there)
        found: list[bytes | None] = [None] * len(ids)
        if not ids:
            return found
        rest = self._read_packed(ids, found, np.arange(len(ids)))
        if len(rest):
            rest = self._read_others(ids, found, rest)
        if len(rest) and self._refresh():
            rest = self._read_packed(ids, found, rest)
            rest = self._read_others(ids, found, rest)
        if len(ids) <= _KEPT and not len(rest):
            self._last = list(ids), list(found)
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
            damaged = self._loose.instead(ids[index].hex())
            if damaged is not None:
                found[index] = damaged[1]
                continue
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
            self._packs = dict(sorted(packs.items(), key=lambda item: item[1].count))
            return bool(fresh)


def _runs(starts: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield stretches of sorted offsets that are read from the file at once."""
    gaps = (np.flatnonzero(np.diff(starts) > _GAP) + 1).tolist()
    for first, stop in pairwise((0, *gaps, len(starts))):
        while first < stop:
            most = int(np.searchsorted(starts[first:stop], starts[first] + _BLOCK, "right"))
            yield first, first + most
            first += most


def _expanded(
    pack: _Pack,
    starts: npt.NDArray[np.int64],
    positions: Sequence[int],
    found: list[bytes | None],
) -> list[int]:
    """Expand objects of a pack into their places; return the positions of the others."""
    left = []
    for first, stop in _runs(starts):
        offsets = starts[first:stop] - starts[first]
        begin, last = int(starts[first]), int(offsets[-1])
        block = pack.block(begin, last + _TAIL)
        if (size := _most(block, last)) > _TAIL:
            block = pack.block(begin, last + size)
        for index, data in zip(positions[first:stop], _objects_at(block, offsets), strict=True):
            found[index] = data
            if data is None:
                left.append(index)
    return left


def _most(block: bytes, start: int) -> int:
    """Return how many bytes the object that begins there takes at most."""
    size, shift, at = 0, -3, start
    while at < len(block):
        # The first byte has its type where others have more of the size.
        size |= (block[at] & 0x7F) << shift if shift > 0 else block[at] & 15
        if not block[at] & 0x80:
            break
        shift, at = shift + 7, at + 1
    return 0 if size > _MOST_OBJECT else size + (size >> 6) + 64


def _objects_at(block: bytes, offsets: npt.NDArray[np.int64]) -> Sequence[bytes | None]:
    """Return the objects that stand whole in a block; None for deltas and others."""
    if len(offsets) < _TOGETHER or offsets[-1] >= len(block):
        return list(_inflated(block, offsets.tolist()))
    found = _stored(block, offsets)
    rest = [index for index, data in enumerate(found) if data is None]
    if rest:
        for index, data in zip(rest, _inflated(block, offsets[rest].tolist()), strict=True):
            found[index] = data
    return found


def _stored(block: bytes, offsets: npt.NDArray[np.int64]) -> list[bytes | None]:
    """Return the objects that are in a pack without being compressed; None for others.

    An import writes rows so, which hardly get smaller. Their content is found in the bytes of
    all of them at once, which takes a fifth of the time.
    """
    data = np.frombuffer(block + bytes(_AROUND_STORED), np.uint8)
    head = data[offsets]
    size, more, at = (head & 15).astype(np.int64), head >= 0x80, offsets + 1
    for shift in (4, 11):
        byte = data[at]
        size |= np.where(more, (byte & 0x7F).astype(np.int64) << shift, 0)
        at = at + more
        more &= byte >= 0x80
    start = at + len(_STORED) + 4
    end = start + size
    plain = ~more & (head >> 4 & 7 < min(_DELTAS)) & (end + 4 <= len(block))
    for place, spelled in enumerate(_STORED):
        plain &= data[at + place] == spelled
    length = data[start - 4] | data[start - 3].astype(np.int64) << 8
    other = data[start - 2] | data[start - 1].astype(np.int64) << 8
    plain &= (length == size) & (other == length ^ 0xFFFF)
    rows = np.flatnonzero(plain)
    sums = data[end[rows][:, None] + np.arange(4)].view(">u4").ravel()
    found: list[bytes | None] = [None] * len(offsets)
    checksum = zlib.adler32
    for index, first, stop, known in zip(
        rows.tolist(), start[rows].tolist(), end[rows].tolist(), sums.tolist(), strict=True
    ):
        content = block[first:stop]
        if checksum(content) == known:
            found[index] = content
    return found


def _inflated(block: bytes, offsets: Sequence[int]) -> Iterator[bytes | None]:
    """Yield the objects that stand whole in a block, one by one; None for deltas and others."""
    decompress, view = zlib.decompress, memoryview(block)
    for start in offsets:
        try:
            byte, at = block[start], start + 1
            if byte >> 4 & 7 in _DELTAS:
                yield None
                continue
            size, shift = byte & 15, 4
            while byte & 0x80:
                byte = block[at]
                size |= (byte & 0x7F) << shift
                shift, at = shift + 7, at + 1
            if size > _MOST_OBJECT:
                yield None
                continue
            data = decompress(view[at : at + size + (size >> 6) + 64], 15, size or 1)
            yield data if len(data) == size else None
        except (IndexError, zlib.error):
            yield None  # it goes on beyond the block, or libgit2 says what is wrong


@functools.lru_cache(maxsize=8)
def bulk_reader(objects: str) -> BulkReader:
    """Return the reader of a folder of objects, the same for all that ask in this process."""
    return BulkReader(Path(objects))


# What a partial clone left with its remote: asking for many objects at once.
#
# git fetches promised objects one by one when it meets them. For very many that takes
# hours, so they are asked for in one go, as git itself does where it can.


def fetch_promised(git_directory: Path, ids: Sequence[bytes]) -> None:
    """Fetch objects from the remote that promised them; raises if there is none."""
    promisors = run_git(
        ["config", "--null", "--name-only", "--get-regexp", r"^remote\..*\.promisor$", "true"],
        git_directory=git_directory,
        check=False,
    )
    if promisors.code:
        raise NotFoundError(
            f"git object {ids[0].hex()} is missing, and there is no remote that would have it",
            hints=("`git fsck` tells what else is missing",),
        )
    name = promisors.text.split("\0")[0]
    remote = name.removeprefix("remote.").removesuffix(".promisor")
    options = "--quiet --no-tags --no-write-fetch-head --recurse-submodules=no --filter=blob:none"
    run_git(
        ["-c", "fetch.negotiationAlgorithm=noop", "fetch", remote, *options.split(), "--stdin"],
        git_directory=git_directory,
        stdin=b"".join(identity.hex().encode() + b"\n" for identity in ids),
    )
