"""The folders that features stand in, and walks of them: of one version, or of two at once.

A walk reads trees a level at a time and many together; where two versions have the same
tree, neither is read.

Kernels over features: what tasks over disjoint folders, or over changed files, run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.pairing import pair_rows
from havasu_vc.errors import CorruptDatasetError, HavasuError, NotFoundError
from havasu_vc.formats.kart.columns import Legend
from havasu_vc.formats.kart.features import FeatureDecoder
from havasu_vc.formats.kart.paths import KeyColumns, PathStructure, parse_keys, parse_whole_keys
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import keeps_python_busy, kernel
from havasu_vc.records import dataclass
from havasu_vc.store.bulk import bulk_reader, fetch_promised
from havasu_vc.store.objects import ObjectSource, StoredObjects
from havasu_vc.store.trees import TREE, entry_pairs, parse_tree

if TYPE_CHECKING:
    pass

__all__ = [
    "Blobs",
    "ChangedFiles",
    "Files",
    "Form",
    "Leaf",
    "Objects",
    "SourceObjects",
    "StoredFolder",
    "Subtree",
    "batches",
    "changed_files",
    "count_apart",
    "count_features",
    "diff_files",
    "leaves",
    "objects_of",
    "read_rows",
    "scan",
    "scan_files",
    "subtrees",
]

Subtree = tuple[bytes, bytes]
"""A folder's path below `feature/`, with a slash after it where it is not empty; its tree's id."""

_CHUNK = 256
_MANY = 8192
"""Folders of a level: where more differ, features are counted rather than what differs."""
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
    for _ in _levels(old, new, before, after, found):
        pass
    return found


def count_apart(objects: Objects, before: str, after: str) -> int | None:
    """Return how many more features one tree has than another; None where much differs."""
    found = ChangedFiles()
    if any(folders > _MANY for folders in _levels(objects, objects, before, after, found)):
        return None
    return found.old.count(None) - found.new.count(None)


def _levels(
    old: Objects, new: Objects, before: str, after: str, found: ChangedFiles
) -> Iterator[int]:
    """Find what differs, level by level; yield how many folders differ before each is read."""
    start = [bytes.fromhex(tree) if tree else None for tree in (before, after)]
    level: list[_Pair] = [(b"", start[0], start[1])] if before != after else []
    for _ in range(_DEEPEST):
        if not level:
            return
        yield len(level)
        below: list[_Pair] = []
        for at in range(0, len(level), _CHUNK):
            _compare(old, new, level[at : at + _CHUNK], found, below)
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


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace") or "feature"


# Getting at very many blobs: by id from a repository, or as they were given.
#
# `Blobs` is a plain value that tasks carry. From a repository it holds ids and where to
# look; of a tree in the making, which no other process can see, the bytes themselves.
# What a partial clone lacks is asked from its remote at once, and only when it is needed.


class Objects(Protocol):
    """Somewhere that objects are read from, many at a time."""

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of each object."""


@dataclass(frozen=True, slots=True)
class StoredFolder:
    """The objects of a repository, in any process."""

    folder: str
    """The folder `objects` of a git directory."""

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of each object; what a partial clone lacks is fetched."""
        reader = bulk_reader(self.folder)
        found = reader.read(ids)
        missing = [ids[index] for index, data in enumerate(found) if data is None]
        if missing:
            _fetch(Path(self.folder), missing)
            found = reader.read(ids)
        if None in found:
            return [_there(data, identity) for data, identity in zip(found, ids, strict=True)]
        return cast(list[bytes], found)


def _there(data: bytes | None, identity: bytes) -> bytes:
    if data is None:
        raise CorruptDatasetError(f"git object {identity.hex()}", "it is missing")
    return data


def _fetch(folder: Path, missing: Sequence[bytes]) -> None:
    """Fetch what a partial clone left with its remote."""
    what = f"{len(missing):,} rows or folders of rows are not in this partial clone"
    try:
        fetch_promised(folder.parent, missing)
    except HavasuError as error:
        raise NotFoundError(
            f"{what}, and its remote does not give them: {error.message}", hints=error.hints
        ) from error


@dataclass(frozen=True, slots=True)
class SourceObjects:
    """Objects of any source, in this process."""

    source: ObjectSource
    """Where they are."""

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of each object."""
        return [self.source.read(identity.hex())[1] for identity in ids]


def objects_of(source: ObjectSource) -> Objects:
    """Return the fastest way to read many objects of a source."""
    if isinstance(source, StoredObjects):
        return StoredFolder(str(source.folder))
    return SourceObjects(source)


@dataclass(frozen=True, slots=True)
class Blobs:
    """Some blobs, for tasks."""

    objects: StoredFolder | None
    """Where they are; None when they are given."""
    ids: bytes = b""
    """Their ids, 20 bytes each."""
    given: tuple[bytes, ...] = ()
    """The blobs themselves."""

    @classmethod
    def of(cls, objects: Objects, ids: Sequence[bytes]) -> Blobs:
        """Return blobs for a task that may run elsewhere."""
        if isinstance(objects, StoredFolder):
            return cls(objects, b"".join(ids))
        return cls(None, given=tuple(objects.read(ids)))

    def read(self) -> list[bytes]:
        """Return the bytes of each."""
        if self.objects is None:
            return list(self.given)
        ids = self.ids
        return self.objects.read([ids[at : at + 20] for at in range(0, len(ids), 20)])


BATCH_ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class Form:
    """The documents by which the features of one version of a dataset are read."""

    where: tuple[str, str]
    """The text of errors before the path of a feature and after it."""
    schema: Schema
    """Its columns, or those that are wanted."""
    legends: tuple[tuple[str, Legend], ...]
    """All legends, by name."""
    structure: PathStructure
    """How paths are made of keys."""

    def place(self, path: bytes) -> str:
        """Return how a person finds a feature."""
        return path.decode("utf-8", "replace").join(self.where)

    def decoder(self) -> FeatureDecoder:
        """Return what turns features into rows."""
        return FeatureDecoder(self.schema, dict(self.legends))


@dataclass(frozen=True, slots=True)
class Files:
    """Some features, in any order."""

    folders: list[bytes]
    """The folder of each."""
    names: list[bytes]
    """Its name."""
    blobs: Blobs
    """Its bytes."""
    numbers: npt.NDArray[np.int64] | None = None
    """The whole numbers that names spell, where they are known; whether folders fit is not."""

    def place(self, form: Form, index: int) -> str:
        """Return how a person finds one of them."""
        return form.place(self.folders[index] + b"/" + self.names[index])

    def here(self, objects: StoredFolder) -> Files:
        """Return those that a partial clone has."""
        ids = self.blobs.ids
        wanted = [ids[at : at + 20] for at in range(0, len(ids), 20)]
        found = bulk_reader(objects.folder).read(wanted)
        there = [index for index, data in enumerate(found) if data is not None]
        return Files(
            [self.folders[index] for index in there],
            [self.names[index] for index in there],
            Blobs(None, given=tuple(data for data in found if data is not None)),
        )

    def keys(self, form: Form) -> KeyColumns:
        """Return their keys; raises where a path is not that of its key."""
        keys = _keys(self.folders, self.names, form, self.numbers)
        if keys is not None:
            return keys
        for index, (folder, name) in enumerate(zip(self.folders, self.names, strict=True)):
            if _keys([folder], [name], form) is None:
                raise CorruptDatasetError(self.place(form, index), "its path does not match a key")
        raise CorruptDatasetError(
            self.place(form, 0), "its key has more or fewer values than that of others"
        )

    def rows(self, form: Form, decoder: FeatureDecoder) -> pa.RecordBatch:
        """Return their rows, in their order."""
        keys = self.keys(form)
        return decoder.decode(keys, self.blobs.read(), lambda index: self.place(form, index))


def _keys(
    folders: list[bytes],
    names: list[bytes],
    form: Form,
    numbers: npt.NDArray[np.int64] | None = None,
) -> KeyColumns | None:
    """Return the keys that paths spell, perhaps parsed already; None if one spells none."""
    if form.structure.scheme == "int":
        numbers = parse_whole_keys(names) if numbers is None else numbers
        if numbers is not None:
            fits = form.structure.folders_of_whole(numbers) == folders
            return [numbers.tolist()] if fits else None
    try:
        keys = parse_keys(names)
        found = form.structure.paths(keys)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return keys if found == (folders, names) else None


@keeps_python_busy
@kernel
def scan(
    objects: StoredFolder, folders: tuple[Subtree, ...], form: Form, here: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all features below some folders, or of those that are here."""
    decoder = form.decoder()
    for files in batches(objects, leaves(objects, folders), form):
        yield (files.here(objects) if here else files).rows(form, decoder)


@kernel
def scan_keys(
    objects: StoredFolder, folders: tuple[Subtree, ...], form: Form
) -> Iterator[pa.RecordBatch]:
    """Yield the keys of all features below some folders, as their names spell them."""
    schema = arrow_schema(form.schema)
    for files in batches(objects, leaves(objects, folders), form):
        found = dict(zip(form.schema.identifier_ids, files.keys(form), strict=True))
        columns = [
            pa.array(found[field.id], type_)
            for field, type_ in zip(form.schema.fields, schema.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


@kernel
def scan_files(files: Files, form: Form) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some features."""
    if files.names:
        yield files.rows(form, form.decoder())


def read_rows(objects: Objects, found: Iterator[Leaf], form: Form) -> Iterator[pa.RecordBatch]:
    """Yield the rows of features, a batch at a time."""
    decoder = form.decoder()
    for files in batches(objects, found, form):
        yield files.rows(form, decoder)


def batches(objects: Objects, found: Iterator[Leaf], form: Form) -> Iterator[Files]:
    """Yield features in groups that are read together."""
    some: list[Leaf] = []
    count = 0
    for leaf in found:
        some.append(leaf)
        count += len(leaf.names)
        if count >= BATCH_ROWS:
            yield _together(objects, some, form)
            some, count = [], 0
    if count:
        yield _together(objects, some, form)


def _together(objects: Objects, some: Sequence[Leaf], form: Form) -> Files:
    """Return the features of some folders, in each by key where folders go by key too."""
    sizes = [len(leaf.names) for leaf in some]
    folders = [leaf.folder for leaf in some for _ in leaf.names]
    names = [name for leaf in some for name in leaf.names]
    ids = [identity for leaf in some for identity in leaf.ids]
    numbers = parse_whole_keys(names) if form.structure.scheme == "int" else None
    if numbers is None:
        # What is wrong is said when rows are read.
        return Files(folders, names, Blobs.of(objects, ids))
    order = np.lexsort((numbers, np.repeat(np.arange(len(some)), sizes)))
    places = order.tolist()
    blobs = Blobs.of(objects, [ids[at] for at in places])
    return Files(folders, [names[at] for at in places], blobs, numbers[order])


@keeps_python_busy
@kernel
def diff_files(
    old: Files, new: Files, before: Form, after: Form, equal_ones: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the changes between features of two versions that have the same keys.

    With `equal_ones` a feature in which no value differs is one as well.
    """
    was, becomes = old.rows(before, before.decoder()), new.rows(after, after.decoder())
    for changes in pair_rows(was, becomes, before.schema, after.schema, equal_ones=equal_ones):
        yield changes.data
