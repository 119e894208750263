"""A Kart dataset in one git tree, seen as a table.

Opening one reads its meta items. Rows are read by tasks over folders that do not meet;
a diff walks the trees of two versions and reads only the blobs that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kart import diff as diffing
from havasu_vc.datasets.kart.edit import KartEdit
from havasu_vc.datasets.kart.kernels import Files, Form, batches, scan, scan_files
from havasu_vc.datasets.kart.trees import (
    Blobs,
    Objects,
    StoredFolder,
    count_features,
    leaves,
    objects_of,
    subtrees,
)
from havasu_vc.datasets.protocol import Dataset, Predicate, TreeEdit
from havasu_vc.datasets.schemas import remembered_schema
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import CorruptDatasetError, StorageError
from havasu_vc.formats.kart.columns import (
    GENERATED_KEYS,
    GeneratedKeys,
    Legend,
    parse_columns,
    parse_generated_keys,
    parse_legend,
    parse_schema,
)
from havasu_vc.formats.kart.paths import PathStructure, parse_path_structure
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.names import TABLE_MARKER
from havasu_vc.model.schema import KeySpec, Schema
from havasu_vc.model.task import Task, task_of
from havasu_vc.records import dataclass
from havasu_vc.store.durability import replace_file
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.store.trees import read_entries

__all__ = ["HIDDEN", "HIDDEN_FOLDERS", "KartDataset"]

TASKS = 64
"""How many folders a scan is cut into at least, if it has so many."""
ROW_BYTES = 160
"""What a row is taken to have before any is read."""
HIDDEN = ("schema.json", "path-structure.json", GENERATED_KEYS)
"""Meta items that are Kart's own business, or shown in another form."""
HIDDEN_FOLDERS = ("legend/", "metadata/")


@dataclass(frozen=True)
class KartDataset:
    """A read-only view of one Kart dataset in one git tree."""

    path: str
    """Where it is in the repository."""
    folder: TreeFolder
    """Its `.table-dataset`."""
    storage: Storage
    """Where an edit writes features, and row counts are kept."""
    revision: str = "HEAD"
    """What the tree is called in errors."""
    marker: str = TABLE_MARKER
    """The name of its folder: another one in V2."""
    kind: str = field(default="kart", init=False)
    """The kind of dataset."""

    # Documents

    def where(self, name: str) -> str:
        """Return how a person finds a document or a feature."""
        return f"{self.path}/{self.marker}/{name} at {self.revision}"

    def check_guard(self) -> None:
        """Raise `CorruptDatasetError` when what its rows are read by cannot be read itself.

        A Kart dataset has no sums that could be off.
        """
        _ = self.schema, self.structure, self.legends

    @cached_property
    def _meta(self) -> Mapping[str, bytes]:
        """Every meta item as stored, by name."""
        return {name: self.folder.read_blob(blob) for name, blob in self.folder.blobs("meta")}

    @cached_property
    def schema(self) -> Schema:
        """Its columns."""
        data = self._meta.get("schema.json")
        if data is None:
            raise CorruptDatasetError(f"{self.path} at {self.revision}", "it has no schema.json")
        return remembered_schema(parse_schema, data, self.where("meta/schema.json"))

    @property
    def key(self) -> KeySpec:
        """Its key columns."""
        return self.schema.key

    @cached_property
    def structure(self) -> PathStructure:
        """How the paths of its features are made."""
        name = "path-structure.json"
        where = self.where(f"meta/{name}")
        return parse_path_structure(self._meta.get(name), self.schema, where)

    @cached_property
    def legends(self) -> Mapping[str, Legend]:
        """The legends, by name."""
        return {
            name.removeprefix("legend/"): parse_legend(data, self.where(f"meta/{name}"))
            for name, data in self._meta.items()
            if name.startswith("legend/")
        }

    @cached_property
    def crs(self) -> Mapping[str, str]:
        """Coordinate reference systems as WKT, by name."""
        return {
            name.removeprefix("crs/").removesuffix(".wkt"): data.decode(errors="replace")
            for name, data in self._meta.items()
            if name.startswith("crs/") and name.endswith(".wkt")
        }

    @property
    def generated_keys(self) -> GeneratedKeys | None:
        """The keys that rows of its source were given; None where they had their own."""
        data = self._meta.get(GENERATED_KEYS)
        if data is None:
            return None
        return parse_generated_keys(data, self.where(f"meta/{GENERATED_KEYS}"))

    @property
    def items(self) -> Mapping[str, bytes]:
        """The meta items that people see as stored, without the schema."""
        return {
            name: data
            for name, data in self._meta.items()
            if name not in HIDDEN and not name.startswith(HIDDEN_FOLDERS)
        }

    @cached_property
    def header(self) -> DatasetHeader:
        """What it says of itself."""
        meta: dict[str, Any] = {}
        for name, data in self.items.items():
            meta[name] = _json(data) if name.endswith(".json") else data.decode(errors="replace")
        data = self._meta.get("schema.json", b"")
        meta["schema.json"] = parse_columns(data, self.where("meta/schema.json"))
        return DatasetHeader(self.path, self.kind, self.schema, dict(sorted(meta.items())))

    # Features

    @cached_property
    def objects(self) -> Objects:
        """Where its features are read from, many at a time."""
        return objects_of(self.folder.source)

    @cached_property
    def features(self) -> str:
        """The tree of its features; empty when there are none."""
        return self.folder.tree_id("feature")

    def form(self, schema: Schema | None = None) -> Form:
        """Return what it takes to read its features, in other columns if wanted."""
        return Form(
            (f"{self.path}/{self.marker}/feature/", f" at {self.revision}"),
            schema or self.schema,
            tuple(sorted(self.legends.items())),
            self.structure,
        )

    @cached_property
    def rows(self) -> int:
        """How many rows it has; counted once for each tree of features."""
        kept = self.storage.keys.parent / "kart" / f"{self.features or EMPTY_TREE}.rows"
        with suppress(OSError, ValueError):
            return int(kept.read_text("ascii"))
        count = count_features(self.objects, self.features)
        if isinstance(self.objects, StoredFolder):
            with suppress(OSError, StorageError):  # it only spares counting again
                kept.parent.mkdir(parents=True, exist_ok=True)
                replace_file(kept, str(count).encode())
        return count

    @cached_property
    def size(self) -> int:
        """Bytes of its features, guessed from how folders branch on one way down."""
        if not self.features:
            return 0
        count, tree = 1, self.features
        for _ in range(self.structure.levels + 1):
            entries = read_entries(self.folder.source, tree)
            count *= len(entries)
            inside = [identity for mode, _, identity in entries if mode == b"40000"]
            if not inside:
                break
            tree = inside[len(inside) // 2].hex()
        return count * ROW_BYTES

    def scan(
        self, columns: Sequence[str] | None = None, where: Predicate | None = None
    ) -> list[Task]:
        """Return tasks that yield the rows, in the order of folders."""
        schema = None if columns is None else self.schema.select(tuple(columns))
        form = self.form(schema)
        if where is not None and where.keys is not None:
            files = self.files_of(where.keys)
            return [task_of(scan_files, files, form)] if files.names else []
        objects = self.objects
        found = subtrees(objects, self.features, TASKS)
        if not isinstance(objects, StoredFolder):
            given = batches(objects, leaves(objects, found), form)
            return [task_of(scan_files, files, form) for files in given]
        step = max(len(found) // TASKS, 1)
        return [
            task_of(scan, objects, tuple(found[start : start + step]), form)
            for start in range(0, len(found), step)
        ]

    def files_of(self, keys: Sequence[tuple[Any, ...]]) -> Files:
        """Return the features with some keys, given in the order of the key's columns."""
        ids = [field.id for field in self.key.fields]
        order = [ids.index(number) for number in self.schema.identifier_ids]
        columns = [[key[place] for key in keys] for place in order]
        folders, names = self.structure.paths(columns) if keys else ([], [])
        found = self.find(folders, names)
        there = [index for index, identity in enumerate(found) if identity is not None]
        return Files(
            [folders[index] for index in there],
            [names[index] for index in there],
            Blobs.of(self.objects, [identity for identity in found if identity is not None]),
        )

    def find(self, folders: Sequence[bytes], names: Sequence[bytes]) -> list[bytes | None]:
        """Return the blob at each path, None where there is none."""
        known: dict[bytes, dict[bytes, bytes]] = {}
        trees: dict[bytes, dict[bytes, bytes]] = {}
        found: list[bytes | None] = []
        for folder, name in zip(folders, names, strict=True):
            entries = known.get(folder)
            if entries is None:
                entries = known[folder] = self._folder(folder, trees)
            found.append(entries.get(name))
        return found

    def _folder(self, folder: bytes, trees: dict[bytes, dict[bytes, bytes]]) -> dict[bytes, bytes]:
        """Return what a folder of features holds; `trees` remembers those on the way."""
        if not self.features:
            return {}
        path, tree = b"", self.features
        for part in folder.split(b"/"):
            inside = trees.get(path)
            if inside is None:
                found = read_entries(self.folder.source, tree)
                inside = trees[path] = {n: i for m, n, i in found if m == b"40000"}
            below = inside.get(part)
            if below is None:
                return {}
            path, tree = path + part + b"/", below.hex()
        return {n: i for m, n, i in read_entries(self.folder.source, tree) if m != b"40000"}

    def emptied(self) -> KartDataset:
        """Return the dataset without rows."""
        return replace(self, folder=_Featureless(self.folder.source, self.folder.tree))

    # Dataset

    def diff(self, new: Dataset) -> list[Task]:
        """Return tasks that yield, in key order, the changes from this view to `new`."""
        if not isinstance(new, KartDataset) or not diffing.can_pair(self, new):
            raise TypeError("datasets of two kinds or keys are compared by history")
        return diffing.plan_diff(self, new)

    def apply(self, changes: Iterator[ChangeBatch]) -> TreeEdit:
        """Return the edit that makes the changes, after checking each `old` row."""
        with KartEdit(self) as edit:
            edit.collect(changes)
            return edit.finish()


class _Featureless(TreeFolder):
    """The folder of a dataset, without its features."""

    __slots__ = ()

    def tree_id(self, path: str) -> str:
        """Return the id of the tree at a path; empty when there is none."""
        return "" if path == "feature" else TreeFolder.tree_id(self, path)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode(errors="replace")
