"""Kart's index of a merge that waits, of which only what is of conflicts is read and written.

It has an entry for each row of each dataset, as git's index has for each file, sorted by path, and
those of conflicts stand in folders whose names begin with a dot, so near its beginning. What
comes behind is copied as it stands. Where that cannot be, as in another form of git's, git itself
reads and writes it.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from havasu_vc.store.disk import reporting_storage_errors

__all__ = ["CONFLICTS", "RESOLVES", "FileEntry", "add_entries", "read_entries_of_conflicts"]

CONFLICTS, RESOLVES = ".conflicts/", ".resolves/"
_OF_CONFLICTS = CONFLICTS.encode(), RESOLVES.encode()
_FIRST, _BEYOND = CONFLICTS.encode(), b".resolves0"
"""Between them stand entries of conflicts, and some others."""
_HEADER = Struct(">4sLL")
_FORMS = (2, 3)
"""Forms of an index whose entries stand alone."""
_FIXED, _MODE, _BLOB, _FLAGS = 62, 24, 40, 60
_EXTENDED = 0x4000
_LONGEST = 0xFFF
_MOST = 10_000
"""Entries that may stand before those of conflicts."""
_SUM = 20
_END = Struct(">4sLL20s")
"""The extension that says where entries end."""
_EMPTY = hashlib.sha1(b"").digest()


class FileEntry(NamedTuple):
    """One file of an index."""

    mode: str
    """git's mode."""
    blob: str
    """Its content, or 40 zeros for none."""
    path: str
    """Where it is."""


def read_entries_of_conflicts(path: Path) -> list[FileEntry] | None:
    """Return the entries of conflicts and of how they were resolved; None where git must read."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        run = _run(data)
        if run is None:
            return None
        return [
            FileEntry(
                f"{int.from_bytes(data[at + _MODE : at + _MODE + 4]):o}",
                data[at + _BLOB : at + _FLAGS].hex(),
                name.decode("utf-8", "surrogateescape"),
            )
            for at, _, name in run[2]
            if name.startswith(_OF_CONFLICTS)
        ]


_Run = tuple[int, int, list[tuple[int, int, bytes]]]
"""Where the entries that may be of conflicts begin and end, and where each does, with its name."""


def _run(data: mmap.mmap) -> _Run | None:
    if len(data) < _HEADER.size:
        raise ValueError("the index is cut short")
    sign, form, count = _HEADER.unpack_from(data)
    if sign != b"DIRC" or form not in _FORMS:
        return None
    begin = end = _HEADER.size
    found = []
    for number, (at, end_of_it, name) in enumerate(_entries(data, count)):
        if name >= _BEYOND:
            break
        end = end_of_it
        if name < _FIRST:
            if number >= _MOST:
                return None
            begin = end
        else:
            found.append((at, end, name))
    return begin, end, found


def _entries(data: mmap.mmap, count: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield where each entry begins and ends, and its name."""
    at = _HEADER.size
    for _ in range(count):
        flags = int.from_bytes(data[at + _FLAGS : at + _FIXED])
        start = at + _FIXED + (2 if flags & _EXTENDED else 0)
        stop = data.find(b"\0", start)
        if stop < 0:
            raise ValueError("the index is cut short")
        # A name ends with one to eight zeros, so that the next entry begins at a multiple of 8.
        end = at + (stop - at + 8) // 8 * 8
        yield at, end, data[start:stop]
        at = end


def add_entries(path: Path, entries: Iterable[FileEntry]) -> bool:
    """Put entries of conflicts into an index; return whether that could be, else it is as it was.

    What git noted for its own speed of the trees is left out, as they are others now.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        run, stop = _run(data), _end_of_entries(data)
        if run is None or stop is None:
            return False
        begin, end, there = run
        with memoryview(data) as view:
            if hashlib.sha1(view[:-_SUM]).digest() != data[-_SUM:]:
                return False
        items = {name: data[at:until] for at, until, name in there}
        before = len(items)
        for entry in entries:
            name = entry.path.encode("utf-8", "surrogateescape")
            items[name] = _formatted(entry, name)
        middle = b"".join(items[name] for name in sorted(items))
        count = _HEADER.unpack_from(data)[2] + len(items) - before
        header = _HEADER.pack(b"DIRC", _HEADER.unpack_from(data)[1], count)
        grown = stop + len(middle) - (end - begin)
        tail = _END.pack(b"EOIE", _END.size - 8, grown, _EMPTY)
        with memoryview(data) as view, reporting_storage_errors(path):
            pieces = (header, view[_HEADER.size : begin], middle, view[end:stop], tail)
            _replace(path, pieces)
            for piece in (pieces[1], pieces[3]):
                piece.release()
    return True


def _end_of_entries(data: mmap.mmap) -> int | None:
    """Return where entries end; None where the index does not say."""
    with suppress(Exception):
        at = len(data) - _SUM - _END.size
        sign, size, end, _ = _END.unpack_from(data, at)
        if (sign, size) == (b"EOIE", _END.size - 8) and _HEADER.size <= end <= at:
            return int(end)
    return None


def _formatted(entry: FileEntry, name: bytes) -> bytes:
    head = bytes(_MODE) + int(entry.mode, 8).to_bytes(4) + bytes(_BLOB - _MODE - 4)
    flags = min(len(name), _LONGEST).to_bytes(2)
    data = head + bytes.fromhex(entry.blob) + flags + name
    return data.ljust((len(data) + 8) // 8 * 8, b"\0")


def _replace(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write an index anew with the sum at its end; readers see the old one or the new one."""
    sum_ = hashlib.sha1()
    number, name = tempfile.mkstemp(prefix="merging-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            for piece in pieces:
                sum_.update(piece)
                file.write(piece)
            file.write(sum_.digest())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
