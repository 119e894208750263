"""Trees of many files, or folders, whose names have one length, looked up and edited as they are.

A table's markers lie in 256 such folders of some hundred files, of which a commit touches a
few each, and Kart's rows in folders of 64 folders: to take every entry out and put it back in
would cost more than the rest of the commit. Entries of one length stand at multiples of it, so
one is found by bisection, and pieces between those that change are copied.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from operator import lt
from struct import Struct

__all__ = ["FlatTree", "flat_pairs"]

_FILE, _FOLDER = b"100644", b"40000"
_ID = 20
_FEWEST = 2
"""One file is read as quickly as any tree is: a pattern would have to be made for it first."""


class FlatTree:
    """The entries of one tree, where all have one length; `read` says whether they have."""

    __slots__ = ("_data", "_mode", "_size")

    def __init__(self, data: bytes, mode: bytes, size: int) -> None:
        """Take a tree's bytes, and the mode and the length of an entry."""
        self._data = data
        self._mode = mode
        self._size = size

    @property
    def data(self) -> bytes:
        """Its bytes."""
        return self._data

    @property
    def of_files(self) -> bool:
        """Whether its entries are files, and not folders."""
        return self._mode == _FILE

    @classmethod
    def read(cls, data: bytes) -> FlatTree | None:
        r"""Return the tree of some bytes; None where entries differ in length or mode.

        >>> FlatTree.read(b"100644 ab\0" + bytes(20) + b"100644 c\0" + bytes(20))
        """
        found = _form(data)
        if found is None:
            return None
        mode, size = found
        names = _namer(size, len(data) // size, len(mode) + 1).unpack(data)
        if not all(map(lt, names, islice(names, 1, None))):
            return None
        # The names are cut out again where they are asked for: a commit of 1,000 rows looks one
        # up in each of as many trees, and all names would take more memory than these.
        return cls(data, mode, size)

    def _names(self) -> Sequence[bytes]:
        """Return all names, in order."""
        data, size = self._data, self._size
        return _namer(size, len(data) // size, len(self._mode) + 1).unpack(data)

    def _place(self, name: bytes) -> int:
        """Return where an entry of that name stands, or would."""
        data, size, start = self._data, self._size, len(self._mode) + 1
        end = size - 1 - _ID
        return bisect_left(
            range(len(data) // size),
            name,
            key=lambda place: data[place * size + start : place * size + end],
        )

    def _is_at(self, place: int, name: bytes) -> bool:
        """Whether the entry at a place has that name."""
        start, end = place * self._size + len(self._mode) + 1, (place + 1) * self._size - 1 - _ID
        return start < len(self._data) and self._data[start:end] == name

    def get(self, name: bytes) -> tuple[bytes, bytes] | None:
        """Return mode and raw id of an entry."""
        at = self._place(name)
        if not self._is_at(at, name):
            return None
        end = (at + 1) * self._size
        return self._mode, self._data[end - _ID : end]

    def items(self) -> dict[bytes, tuple[bytes, bytes]]:
        """Return mode and raw id of every entry."""
        ends = range(self._size, len(self._data) + 1, self._size)
        return {
            name: (self._mode, self._data[end - _ID : end])
            for name, end in zip(self._names(), ends, strict=True)
        }

    def texts(self) -> list[tuple[str, str]]:
        """Return name and id of every entry, in order."""
        names = [name.decode("utf-8", "surrogateescape") for name in self._names()]
        ends = range(self._size, len(self._data) + 1, self._size)
        return list(zip(names, [self._data[end - _ID : end].hex() for end in ends], strict=True))

    def edited(self, changes: Mapping[bytes, tuple[bytes, bytes] | None]) -> bytes | None:
        """Return the bytes of the tree with other entries, or without some.

        None where entries would no longer have one length.
        """
        length = self._size - len(self._mode) - 2 - _ID
        pieces: list[bytes] = []
        done = 0
        for name in sorted(changes):
            new = changes[name]
            if len(name) != length or (new is not None and new[0] != self._mode):
                return None
            at = self._place(name)
            there = self._is_at(at, name)
            pieces.append(self._data[done : at * self._size])
            if new is not None:
                pieces.append(b"%s %s\0%s" % (self._mode, name, new[1]))
            done = (at + there) * self._size
        pieces.append(self._data[done:])
        return b"".join(pieces)


def _form(data: bytes) -> tuple[bytes, int] | None:
    """Return mode and length of each entry of a tree; None where they differ in one."""
    mode = _FILE if data.startswith(_FILE) else _FOLDER
    end = data.find(b"\0")
    size = end + 1 + _ID
    length = end - len(mode) - 1
    if length <= 0 or len(data) % size or len(data) < _FEWEST * size:
        return None
    return (mode, size) if _entries_of(mode, length).fullmatch(data) else None


def flat_pairs(
    old: bytes, new: bytes
) -> list[tuple[bytes, list[tuple[bytes, bytes] | None]]] | None:
    """Return the entries that differ between two trees: name and both leaves, in order.

    None where not all entries are of one length. Markers are compared so, and folders of rows;
    the name of a folder ends with a slash.
    """
    found = _form(old)
    if found is None or len(new) % found[1] or not new:
        return None
    mode, size = found
    before, after = _entries(old, size), _entries(new, size)
    come = after - before
    # What stands in both is an entry as those of the old tree are.
    start, end = len(mode) + 1, size - 1 - _ID
    if come and _entries_of(mode, end - start).fullmatch(b"".join(come)) is None:
        return None
    slash = b"" if mode == _FILE else b"/"
    pairs: dict[bytes, list[tuple[bytes, bytes] | None]] = {
        entry[start:end] + slash: [(mode, entry[-_ID:]), None] for entry in before - after
    }
    for entry in come:
        leaf = (mode, entry[-_ID:])
        if (pair := pairs.get(name := entry[start:end] + slash)) is None:
            pairs[name] = [None, leaf]
        else:
            pair[1] = leaf
    return sorted(pairs.items())


@lru_cache(maxsize=64)
def _entries_of(mode: bytes, length: int) -> re.Pattern[bytes]:
    """Return the pattern of a tree of entries of one mode whose names have one length."""
    return re.compile(rb"(?:%s [^\0/]{%d}\0.{%d})+" % (mode, length, _ID), re.DOTALL)


def _entries(data: bytes, size: int) -> set[bytes]:
    return set(_cutter(size, len(data) // size).unpack(data))


@lru_cache(maxsize=1024)
def _namer(size: int, count: int, head: int) -> Struct:
    # One call cuts all names out of a tree.
    foot = 1 + _ID
    return Struct(f"{head}x{size - head - foot}s{foot}x" * count)


@lru_cache(maxsize=1024)
def _cutter(size: int, count: int) -> Struct:
    # One call cuts a tree.
    return Struct(f"{size}s" * count)
