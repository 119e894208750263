"""Features that come and go, until the folders that hold them are written.

Changes are collected as arrays: of a row its folder, its name and its id. What is more
than a run is sorted by folder and waits in a file. In the end the runs are gathered
range by range, and folders are written bottom up in one pass: each that changes is
written once, however many rows do, and memory holds a range, however many rows there are.

Giving free memory back to the system, where large and small things came and went.

glibc keeps what is free between things that stay. Work that makes large arrays for a
moment, over and over beside what it collects, would hold far more than it uses.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from havasu_vc.datasets.kart.folders import FOLDERS_TOGETHER, Folders
from havasu_vc.records import dataclass
from havasu_vc.store.spill import Spill
from havasu_vc.store.trees import BLOB, TREE, Leaf, Named, ObjectSink, changed_tree, read_named

__all__ = ["FeatureChanges", "Inside", "release_free_memory"]

RUN = 1 << 14
"""Changes that are sorted together; more are sorted in runs on disk."""
_SAMPLE = 256
"""Of so many folders of a run one is kept in memory."""
APART = 1 << 19
"""Bytes from which on memory is asked of the system; glibc would raise it with what is freed."""
_MMAP_THRESHOLD = -3
_NONE = bytes(20)

_Folders = npt.NDArray[np.bytes_]

Inside = Callable[[str], Named]
"""Tells what is in a tree, by its name."""


class FeatureChanges:
    """Features that come and go, until the trees that hold them are written."""

    def __init__(self) -> None:
        self._pending: list[_Rows] = []
        self._waiting = 0
        self._runs: list[_Run] = []
        self._spill: Spill | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(
        self, folders: Sequence[bytes], names: Sequence[bytes], ids: Sequence[bytes | None]
    ) -> None:
        """Put features at paths, or remove them where the id is None."""
        if not names:
            return
        joined = b"".join([identity or _NONE for identity in ids])
        self._pending.append(_Rows.of(np.array(folders), names, joined))
        self._waiting += len(names)
        self._count += len(names)
        if self._waiting >= RUN:
            self._spill = self._spill or Spill("havasu-features-")
            self._runs.append(_Run(self._spill, _joined(self._pending).by_folder()))
            self._pending, self._waiting = [], 0
            release_free_memory()

    def write(self, sink: ObjectSink, tree: str, folders: Folders | None = None) -> str:
        """Write the folders that change, and return the tree of all; empty if nothing is left.

        `folders` looks into those that stand. ValueError, with the name as its argument, if one
        comes twice.
        """
        if not self._count:
            return tree
        there = _There.of(sink, folders)
        root = _Folder(there.inside, bytes.fromhex(tree) if tree else None)
        stack: list[tuple[bytes, _Folder]] = [(b"", root)]
        for rows in self._ranges():
            stack = _put(sink, there, stack, rows)
            if self._runs:
                release_free_memory()
        while len(stack) > 1:
            _close(sink, stack)
        written = root.write(sink)
        return "" if written is None else written.hex()

    def paths(self) -> Iterator[tuple[str, bytes]]:
        """Yield the path of each change below `feature/`, and its id, empty where it goes."""
        for rows in self._ranges():
            for at, folder in enumerate(rows.folders.tolist()):
                identity = rows.id(at)
                yield (
                    (folder + b"/" + rows.name(at)).decode(),
                    b"" if identity == _NONE else (identity),
                )

    def _ranges(self) -> Iterator[_Rows]:
        """Yield all changes by folder; those of one folder come together."""
        rest = _joined(self._pending).by_folder() if self._pending else None
        if not self._runs:
            if rest is not None:
                yield rest
            return
        starts = [0] * len(self._runs)
        for cut in [*_cuts(self._runs), None]:
            stops = [run.after(cut) for run in self._runs]
            pieces = [
                run.read(start, stop)
                for run, start, stop in zip(self._runs, starts, stops, strict=True)
                if stop > start
            ]
            if rest is not None:
                side = len(rest) if cut is None else rest.after(cut)
                pieces.append(rest.slice(0, side))
                rest = rest.slice(side, len(rest))
            starts = stops
            if any(map(len, pieces)):
                yield _joined(pieces).by_folder()


@dataclass(frozen=True, slots=True)
class _There:
    """The folders that stand, as they are looked into."""

    inside: Inside
    taken: Inside
    """Of a folder of rows, which is looked into for the last time."""
    bring: Callable[[Sequence[bytes]], None] | None

    @classmethod
    def of(cls, sink: ObjectSink, folders: Folders | None) -> _There:
        if folders is None:
            read = partial(read_named, sink)
            return cls(read, read, None)
        return cls(folders.inside, folders.taken, folders.bring)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Changes as arrays."""

    folders: _Folders
    ends: npt.NDArray[np.int64]
    """Where each name begins and, one more, where the last ends."""
    names: bytes
    ids: bytes

    @classmethod
    def of(cls, folders: _Folders, names: Sequence[bytes], ids: bytes) -> _Rows:
        ends = np.zeros(len(names) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, names), np.int64, len(names)), out=ends[1:])
        return cls(folders, ends, b"".join(names), ids)

    def __len__(self) -> int:
        return len(self.folders)

    def name(self, at: int) -> bytes:
        return self.names[self.ends[at] : self.ends[at + 1]]

    def id(self, at: int) -> bytes:
        return self.ids[20 * at : 20 * at + 20]

    def slice(self, start: int, stop: int) -> _Rows:
        names = self.names[self.ends[start] : self.ends[stop]]
        ends = self.ends[start : stop + 1] - self.ends[start]
        return _Rows(self.folders[start:stop], ends, names, self.ids[20 * start : 20 * stop])

    def after(self, cut: bytes) -> int:
        """Return how many stand in folders up to one, in rows by folder."""
        return int(np.searchsorted(self.folders, np.array(cut), "right"))

    def by_folder(self) -> _Rows:
        """Return them in the order of their folders."""
        if (self.folders[1:] >= self.folders[:-1]).all():
            return self
        order = np.argsort(self.folders, kind="stable")
        names, ends = self.names, self.ends.tolist()
        chosen = [names[ends[at] : ends[at + 1]] for at in order.tolist()]
        ids = np.frombuffer(self.ids, np.uint8).reshape(-1, 20)[order].tobytes()
        return _Rows.of(self.folders[order], chosen, ids)


def _joined(pieces: Sequence[_Rows]) -> _Rows:
    if len(pieces) == 1:
        return pieces[0]
    sizes = np.concatenate([np.diff(piece.ends) for piece in pieces])
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return _Rows(
        np.concatenate([piece.folders for piece in pieces]),
        ends,
        b"".join(piece.names for piece in pieces),
        b"".join(piece.ids for piece in pieces),
    )


class _Run:
    """Changes by folder, in a file."""

    def __init__(self, spill: Spill, rows: _Rows) -> None:
        self._spill = spill
        self._count = len(rows)
        self._type = rows.folders.dtype
        self.sample: _Folders = rows.folders[::_SAMPLE].copy()
        parts = (rows.folders.tobytes(), rows.ends.tobytes(), rows.ids, rows.names)
        self._starts = [spill.append(part) for part in parts]

    def after(self, cut: bytes | None) -> int:
        """Return how many stand in folders up to one; None for all."""
        if cut is None:
            return self._count
        block = max(int(np.searchsorted(self.sample, np.array(cut), "right")) - 1, 0) * _SAMPLE
        near = self._folders(block, min(block + _SAMPLE, self._count))
        return block + int(np.searchsorted(near, np.array(cut), "right"))

    def read(self, start: int, stop: int) -> _Rows:
        """Return some of the changes."""
        ends = np.frombuffer(self._part(1, 8 * start, 8 * (stop + 1)), np.int64)
        ids = self._part(2, 20 * start, 20 * stop)
        names = self._part(3, int(ends[0]), int(ends[-1]))
        return _Rows(self._folders(start, stop), ends - ends[0], names, ids)

    def _folders(self, start: int, stop: int) -> _Folders:
        size = self._type.itemsize
        return np.frombuffer(self._part(0, size * start, size * stop), self._type)

    def _part(self, number: int, start: int, stop: int) -> bytes:
        return self._spill.read(self._starts[number] + start, stop - start)


def _cuts(runs: Iterable[_Run]) -> list[bytes]:
    """Return folders between which about as many changes lie as a run holds."""
    sample = np.sort(np.concatenate([run.sample for run in runs]))
    # Not `np.unique`, which loads numpy's masked arrays: 2 MB.
    return sorted(set(sample[:: RUN // _SAMPLE][1:].tolist()))


class _Folder:
    """One folder while what is in it changes."""

    __slots__ = ("_changes", "_there")

    def __init__(self, inside: Inside, tree: bytes | None) -> None:
        self._there: Named = {} if tree is None else inside(tree.hex())
        self._changes: dict[bytes, Leaf | None] = {}

    def put_files(self, names: Sequence[bytes], ids: Sequence[bytes]) -> None:
        """Put files in, of which those with no id are to go."""
        if len(set(names)) < len(names):
            raise ValueError(next(name for name, count in Counter(names).items() if count > 1))
        leaves = [(BLOB, each) if each != _NONE else None for each in ids]
        self._changes.update(zip(names, leaves, strict=True))

    def put_folder(self, name: bytes, tree: bytes | None) -> None:
        self._changes[name] = (TREE, tree) if tree else None

    def tree(self, name: bytes) -> bytes | None:
        found = self._changes[name] if name in self._changes else self._there.get(name)
        return found[1] if found is not None and found[0] == TREE else None

    def write(self, sink: ObjectSink) -> bytes | None:
        data = changed_tree(self._there, self._changes)
        return bytes.fromhex(sink.write("tree", data)) if data else None


_Stack = list[tuple[bytes, _Folder]]
"""The folders that are open, from the outermost in, by name."""


def _put(sink: ObjectSink, there: _There, stack: _Stack, rows: _Rows) -> _Stack:
    """Put changes by folder into their folders."""
    folders, ends = rows.folders, rows.ends.tolist()
    names = [rows.names[start:stop] for start, stop in pairwise(ends)]
    ids = [rows.ids[at : at + 20] for at in range(0, 20 * len(rows), 20)]
    cuts = [0, *(np.flatnonzero(folders[1:] != folders[:-1]) + 1).tolist()]
    for place, (start, stop) in enumerate(pairwise([*cuts, len(rows)])):
        if there.bring is not None and place % FOLDERS_TOGETHER == 0:
            there.bring(folders[cuts[place : place + FOLDERS_TOGETHER]].tolist())
        stack = _moved(sink, there, stack, bytes(folders[start]))
        stack[-1][1].put_files(names[start:stop], ids[start:stop])
    return stack


def _moved(sink: ObjectSink, there: _There, stack: _Stack, path: bytes) -> _Stack:
    """Close folders that are done with and open those on the way to a path."""
    parts = path.split(b"/")
    common = 0
    while common < len(parts) and common + 1 < len(stack) and stack[common + 1][0] == parts[common]:
        common += 1
    while len(stack) > common + 1:
        _close(sink, stack)
    for depth, part in enumerate(parts[common:], common + 1):
        inside = there.taken if depth == len(parts) else there.inside
        stack.append((part, _Folder(inside, stack[-1][1].tree(part))))
    return stack


def _close(sink: ObjectSink, stack: _Stack) -> None:
    name, folder = stack.pop()
    stack[-1][1].put_folder(name, folder.write(sink))


def release_free_memory() -> None:
    """Give back what is free; takes about a millisecond. Other C libraries need no asking."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """Return what gives memory back; from then on large arrays stand apart, not between others."""
    try:
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, APART)
        return library.malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
