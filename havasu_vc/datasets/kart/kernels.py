"""Kernels over features: what tasks over disjoint folders, or over changed files, run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.kart.trees import Blobs, Leaf, Objects, StoredFolder, Subtree, leaves
from havasu_vc.datasets.pairing import pair_rows
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.kart.columns import Legend
from havasu_vc.formats.kart.features import FeatureDecoder, RawRows, decode_raw
from havasu_vc.formats.kart.paths import KeyColumns, PathStructure, parse_keys
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import keeps_python_busy, kernel
from havasu_vc.records import dataclass

__all__ = ["Files", "Form", "batches", "diff_files", "read_rows", "scan", "scan_files"]

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

    def place(self, form: Form, index: int) -> str:
        """Return how a person finds one of them."""
        return form.place(self.folders[index] + b"/" + self.names[index])

    def keys(self, form: Form) -> KeyColumns:
        """Return their keys; raises where a path is not that of its key."""
        keys = _keys(self.folders, self.names, form)
        if keys is not None:
            return keys
        for index, (folder, name) in enumerate(zip(self.folders, self.names, strict=True)):
            if _keys([folder], [name], form) is None:
                raise CorruptDatasetError(self.place(form, index), "its path does not match a key")
        raise CorruptDatasetError(
            self.place(form, 0), "its key has more or fewer values than that of others"
        )

    def read(self, form: Form) -> tuple[KeyColumns, RawRows]:
        """Return their keys and what they hold."""
        keys = self.keys(form)
        return keys, decode_raw(self.blobs.read(), lambda index: self.place(form, index))

    def rows(self, form: Form, decoder: FeatureDecoder) -> pa.RecordBatch:
        """Return their rows, in their order."""
        keys, raw = self.read(form)
        return decoder.rows(keys, raw, lambda index: self.place(form, index))


def _keys(folders: list[bytes], names: list[bytes], form: Form) -> KeyColumns | None:
    """Return the keys that paths spell; None if one of them spells none."""
    try:
        keys = parse_keys(names)
        found = form.structure.paths(keys)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return keys if found == (folders, names) else None


@keeps_python_busy
@kernel
def scan(
    objects: StoredFolder, folders: tuple[Subtree, ...], form: Form
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all features below some folders."""
    yield from read_rows(objects, leaves(objects, folders), form)


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
    folders: list[bytes] = []
    names: list[bytes] = []
    ids: list[bytes] = []
    for leaf in found:
        order = _key_order(leaf, form)
        folders += [leaf.folder] * len(leaf.names)
        names += [leaf.names[index] for index in order]
        ids += [leaf.ids[index] for index in order]
        if len(names) >= BATCH_ROWS:
            yield Files(folders, names, Blobs.of(objects, ids))
            folders, names, ids = [], [], []
    if names:
        yield Files(folders, names, Blobs.of(objects, ids))


def _key_order(leaf: Leaf, form: Form) -> Sequence[int]:
    """Return the features of a folder by key, where folders go by key too."""
    if form.structure.scheme != "int":
        return range(len(leaf.names))
    try:
        (keys,) = parse_keys(leaf.names)
        order: list[int] = np.argsort(np.array(keys, np.int64), kind="stable").tolist()
    except (ValueError, TypeError, OverflowError):
        return range(len(leaf.names))  # what is wrong is said when rows are read
    return order


@keeps_python_busy
@kernel
def diff_files(old: Files, new: Files, before: Form, after: Form) -> Iterator[pa.RecordBatch]:
    """Yield the changes between features of two versions that have the same keys."""
    was, becomes = old.rows(before, before.decoder()), new.rows(after, after.decoder())
    for changes in pair_rows(was, becomes, before.schema, after.schema):
        yield changes.data
