"""The folders that features stand in: walking them, and changing very many at once.

A walk reads trees a level at a time and many together. Changes are collected as arrays,
sorted by path and written bottom up in one pass, so that each folder that changes is
written once, however many rows do, and what is kept in memory per row is its path, its
name and its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from havasu_vc.datasets.kart.reading import Objects
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.store.edits import ObjectSink
from havasu_vc.store.trees import (
    BLOB,
    TREE,
    entry_pairs,
    format_tree,
    parse_tree,
    read_entries,
)

__all__ = [
    "ChangedFiles",
    "FeatureChanges",
    "Leaf",
    "Subtree",
    "changed_files",
    "count_features",
    "leaves",
    "subtrees",
]

Subtree = tuple[bytes, bytes]
"""A folder's path below `feature/`, with a slash after it where it is not empty; its tree's id."""

_NONE = bytes(20)
_CHUNK = 256
_DEEPEST = 40
# Folders in the order of the numbers that they spell, not of their letters.
_DIGITS = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", bytes(range(64))
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """The features of one folder."""

    folder: bytes
    """Its path below `feature/`."""
    names: list[bytes]
    """Their names."""
    ids: list[bytes]
    """Their blobs."""


def leaves(objects: Objects, folders: Sequence[Subtree]) -> Iterator[Leaf]:
    """Yield the features of some folders and all below them, in the order of their digits."""
    yield from _leaves(objects, folders, 0)


def _leaves(objects: Objects, folders: Sequence[Subtree], depth: int) -> Iterator[Leaf]:
    if depth > _DEEPEST:
        raise CorruptDatasetError(_text(folders[0][0]), "folders of features nest too deeply")
    for start in range(0, len(folders), _CHUNK):
        below: list[Subtree] = []
        for path, inside, leaf in _opened(objects, folders[start : start + _CHUNK]):
            if leaf is not None:
                yield from _leaves(objects, below, depth + 1)
                below = []
                yield leaf
            below += [(path + name + b"/", identity) for name, identity in inside]
        yield from _leaves(objects, below, depth + 1)


def _opened(
    objects: Objects, folders: Sequence[Subtree]
) -> Iterator[tuple[bytes, list[tuple[bytes, bytes]], Leaf | None]]:
    """Yield the path of each folder, the folders in it, and its features if it has any."""
    for (path, _), data in zip(folders, objects.read([f[1] for f in folders]), strict=True):
        try:
            entries = parse_tree(data)
        except ValueError as error:
            raise CorruptDatasetError(f"folder {_text(path)}", f"as a tree, {error}") from error
        inside = [(name, identity) for mode, name, identity in entries if mode == TREE]
        inside.sort(key=_order)
        leaf = None
        if len(inside) < len(entries):
            found = [(name, identity) for mode, name, identity in entries if mode != TREE]
            leaf = Leaf(path[:-1], [name for name, _ in found], [each for _, each in found])
        yield path, inside, leaf


def _order(entry: tuple[bytes, bytes]) -> bytes:
    return entry[0].translate(_DIGITS)


def subtrees(objects: Objects, tree: str, wanted: int) -> list[Subtree]:
    """Return at least so many folders that together hold all features, if there are."""
    level: list[Subtree] = [(b"", bytes.fromhex(tree))] if tree else []
    while 0 < len(level) < wanted:
        below: list[Subtree] = []
        for path, inside, leaf in _opened(objects, level):
            if leaf is not None:
                return level
            below += [(path + name + b"/", identity) for name, identity in inside]
        level = below
    return level


def count_features(objects: Objects, tree: str) -> int:
    """Return how many features there are."""
    if not tree:
        return 0
    return sum(len(leaf.names) for leaf in leaves(objects, [(b"", bytes.fromhex(tree))]))


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """Feature files that differ between two versions."""

    folders: list[bytes] = field(default_factory=list)
    """The folder of each, below `feature/`."""
    names: list[bytes] = field(default_factory=list)
    """Its name."""
    old: list[bytes | None] = field(default_factory=list)
    """Its blob in the first version."""
    new: list[bytes | None] = field(default_factory=list)
    """Its blob in the second version."""


_Pair = tuple[bytes, bytes | None, bytes | None]
"""A folder's path with a slash after it, and its tree in both versions."""


def changed_files(old: Objects, new: Objects, before: str, after: str) -> ChangedFiles:
    """Return what differs between two trees of features; equal folders are not read."""
    found = ChangedFiles()
    start = [bytes.fromhex(tree) if tree else None for tree in (before, after)]
    level: list[_Pair] = [(b"", start[0], start[1])] if before != after else []
    for _ in range(_DEEPEST):
        below: list[_Pair] = []
        for at in range(0, len(level), _CHUNK):
            _compare(old, new, level[at : at + _CHUNK], found, below)
        if not below:
            return found
        level = below
    raise CorruptDatasetError(_text(level[0][0]), "folders of features nest too deeply")


def _compare(
    old: Objects, new: Objects, folders: list[_Pair], found: ChangedFiles, below: list[_Pair]
) -> None:
    """Compare some folders: files that differ are `found`, folders come in `below`."""
    sides = _read_some(old, [each[1] for each in folders])
    others = _read_some(new, [each[2] for each in folders])
    for (path, _, _), was, becomes in zip(folders, sides, others, strict=True):
        try:
            pairs = entry_pairs(was, becomes)
        except ValueError as error:
            raise CorruptDatasetError(f"folder {_text(path)}", f"as a tree, {error}") from error
        for name, (first, second) in pairs:
            if name.endswith(b"/"):
                below.append((path + name, first and first[1], second and second[1]))
            elif (first and first[1]) != (second and second[1]):
                found.folders.append(path[:-1])
                found.names.append(name)
                found.old.append(first and first[1])
                found.new.append(second and second[1])


def _read_some(objects: Objects, ids: Sequence[bytes | None]) -> list[bytes]:
    """Return the bytes of each object, none of what is not there."""
    data = iter(objects.read([identity for identity in ids if identity is not None]))
    return [b"" if identity is None else next(data) for identity in ids]


class FeatureChanges:
    """Features that come and go, until the trees that hold them are written."""

    def __init__(self) -> None:
        self._folders: list[npt.NDArray[np.bytes_]] = []
        self._names: list[bytes] = []  # of a batch, joined by line feeds, which none holds
        self._ids: list[bytes] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(
        self, folders: Sequence[bytes], names: Sequence[bytes], ids: Sequence[bytes | None]
    ) -> None:
        """Put features at paths, or remove them where the id is None."""
        if not names:
            return
        self._folders.append(np.array(folders))
        self._names.append(b"\n".join(names))
        self._ids.append(b"".join([identity or _NONE for identity in ids]))
        self._count += len(names)

    def write(self, sink: ObjectSink, tree: str) -> str:
        """Write the folders that change, and return the tree of all; empty if nothing is left.

        ValueError, with the name as its argument, if one comes twice.
        """
        if not self._count:
            return tree
        paths = np.concatenate(self._folders)
        order = np.argsort(paths, kind="stable")
        cuts = np.flatnonzero(np.append(True, paths[order][1:] != paths[order][:-1])).tolist()
        names = [name for piece in self._names for name in piece.split(b"\n")]
        ids = b"".join(self._ids)
        root = _Folder(sink, bytes.fromhex(tree) if tree else None)
        stack: list[tuple[bytes, _Folder]] = [(b"", root)]
        for start, stop in zip(cuts, [*cuts[1:], self._count], strict=True):
            stack = _moved(sink, stack, bytes(paths[order[start]]))
            folder, seen = stack[-1][1], set()
            for index in order[start:stop].tolist():
                name, identity = names[index], ids[20 * index : 20 * index + 20]
                if name in seen:
                    raise ValueError(name)
                seen.add(name)
                folder.put(name, BLOB, None if identity == _NONE else identity)
        while len(stack) > 1:
            _close(sink, stack)
        written = root.write(sink)
        return "" if written is None else written.hex()

    def paths(self) -> Iterator[tuple[str, bytes]]:
        """Yield the path of each change below `feature/`, and its id, empty where it goes."""
        for folders, joined, ids in zip(self._folders, self._names, self._ids, strict=True):
            names = joined.split(b"\n")
            for at, (folder, name) in enumerate(zip(folders.tolist(), names, strict=True)):
                identity = ids[20 * at : 20 * at + 20]
                yield (folder + b"/" + name).decode(), b"" if identity == _NONE else identity


class _Folder:
    """One folder while what is in it changes."""

    __slots__ = ("_before", "_items")

    def __init__(self, sink: ObjectSink, tree: bytes | None) -> None:
        self._before = tree
        self._items: dict[bytes, tuple[bytes, bytes]] = {}
        if tree is not None:
            self._items = {n: (m, i) for m, n, i in read_entries(sink, tree.hex())}

    def put(self, name: bytes, mode: bytes, identity: bytes | None) -> None:
        if identity:
            self._items[name] = (mode, identity)
        else:
            self._items.pop(name, None)

    def tree(self, name: bytes) -> bytes | None:
        found = self._items.get(name)
        return found[1] if found is not None and found[0] == TREE else None

    def write(self, sink: ObjectSink) -> bytes | None:
        if not self._items:
            return None
        return bytes.fromhex(sink.write("tree", format_tree(self._items)))


def _moved(
    sink: ObjectSink, stack: list[tuple[bytes, _Folder]], path: bytes
) -> list[tuple[bytes, _Folder]]:
    """Close folders that are done with and open those on the way to a path."""
    parts = path.split(b"/")
    common = 0
    while common < len(parts) and common + 1 < len(stack) and stack[common + 1][0] == parts[common]:
        common += 1
    while len(stack) > common + 1:
        _close(sink, stack)
    for part in parts[common:]:
        stack.append((part, _Folder(sink, stack[-1][1].tree(part))))
    return stack


def _close(sink: ObjectSink, stack: list[tuple[bytes, _Folder]]) -> None:
    name, folder = stack.pop()
    stack[-1][1].put(name, TREE, folder.write(sink))


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace") or "feature"
