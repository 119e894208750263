"""A Kart dataset in one git tree, seen as a table.

Opening one reads its meta items. Rows are read by tasks over folders that do not meet;
a diff walks the trees of two versions and reads only the blobs that differ.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from havasu_vc.datasets.base import StoredDataset, remembered_schema
from havasu_vc.datasets.chosen import ChosenKeys
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kart import diff as diffing
from havasu_vc.datasets.kart.folders import Folders
from havasu_vc.datasets.kart.trees import (
    Blobs,
    Files,
    Form,
    Objects,
    StoredFolder,
    batches,
    count_apart,
    count_features,
    leaves,
    objects_of,
    scan,
    scan_files,
    scan_keys,
    subtrees,
)
from havasu_vc.datasets.protocol import (
    Dataset,
    EarlierImport,
    Predicate,
    Reading,
    RunTasks,
    TreeEdit,
)
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import CorruptDatasetError, HavasuError, StorageError
from havasu_vc.formats.kart.columns import (
    GENERATED_KEYS,
    GeneratedKeys,
    Legend,
    as_all_declared,
    columns_of_schema,
    format_columns,
    format_wkt,
    kart_schema,
    parse_columns,
    parse_generated_keys,
    parse_legend,
    parse_schema,
    schema_of_columns,
)
from havasu_vc.formats.kart.features import values_of
from havasu_vc.formats.kart.paths import PathStructure, parse_keys, parse_path_structure
from havasu_vc.geo.crs import parse_crs
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.names import OLD_TABLE_MARKER, TABLE_MARKER, unsafe_reason
from havasu_vc.model.schema import KeySpec, Schema
from havasu_vc.model.task import Task, task_of
from havasu_vc.records import dataclass
from havasu_vc.store.disk import replace_file
from havasu_vc.store.objects import EMPTY_TREE, Draft
from havasu_vc.store.trees import edit_tree, read_entries

if TYPE_CHECKING:
    from havasu_vc.datasets.kart.build import NewKartDataset
    from havasu_vc.datasets.kart.edit import KartEdit

__all__ = ["KartDataset", "open_view"]

TASKS = 64
"""How many folders a scan is cut into at least, if it has so many."""
ROW_BYTES = 160
"""The size of a row, as long as none was read."""
HIDDEN = ("schema.json", "path-structure.json", GENERATED_KEYS)
"""Meta items that are Kart's own business, or shown in another form."""
HIDDEN_FOLDERS = ("legend/", "metadata/")
OLD_METADATA = "metadata/dataset.json"
_TRIED = 4
"""So many trees that were counted last may be those that this one came of."""
_ITEM = re.compile(r"(crs/(?=[^/]+$)[A-Za-z0-9:]*)?[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}")


@dataclass(frozen=True)
class KartDataset(StoredDataset):
    """A read-only view of one Kart dataset in one git tree."""

    path: str
    """Where it is in the repository."""
    folder: TreeFolder
    """Its `.table-dataset`."""
    storage: Storage
    """Where an edit writes features, and row counts are kept."""
    revision: str = "HEAD"
    """The name of the tree in errors."""
    marker: str = TABLE_MARKER
    """The name of its folder: another one in V2."""
    as_shown: bool = False
    """Whether a diff from it has what people see of it, and no merge: features written anew."""
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

    def takes_item(self, name: str) -> bool:
        """Whether a name may be that of an item which only other programs know."""
        known = name in HIDDEN or name.startswith(HIDDEN_FOLDERS)
        return not known and _ITEM.fullmatch(name) is not None and unsafe_reason(name) is None

    def columns_item(self, schema: Schema) -> list[Any]:
        """Return the item `schema.json` that it would have under another schema."""
        found: list[Any] = json.loads(format_columns(columns_of_schema(schema)))
        return found

    def fitted(self, schema: Schema, declared: Mapping[str, str] | None = None) -> Schema:
        """Return another schema with the key of this dataset; its own where Kart keeps no more."""
        found = Schema(schema.fields, self.schema.identifier_ids)
        found = as_all_declared(found, declared or {})
        return self.schema if kart_schema(found) == self.schema else found

    def crs_item(self, definition: str) -> bytes:
        """Return the definition of a coordinate reference system as the item that it keeps."""
        known = parse_crs(definition)
        is_wkt = definition.lstrip()[:1].isalpha() and "[" in definition
        return format_wkt(definition if is_wkt else known.wkt)

    def schema_of_items(self, columns: list[Any], *, keep_ids: bool = False) -> Schema:
        """Return the schema that its item `schema.json` means when it is set to some columns.

        Ids are Kart's own, which columns always keep.
        """
        named = [dict(column) if isinstance(column, dict) else column for column in columns]
        for column in named:
            if isinstance(column, dict) and not column.get("id"):
                column["id"] = str(uuid.uuid4())
        return schema_of_columns(named)

    @property
    def identity(self) -> None:
        """None: a Kart dataset is what stands at its path."""
        return None

    @property
    def last_column_id(self) -> int:
        """The highest id of its columns, whose ids are made of Kart's."""
        return self.schema.last_id

    @property
    def items(self) -> Mapping[str, bytes]:
        """The meta items that people see and set, as stored, without the columns."""
        return {
            name: data
            for name, data in self._meta.items()
            if name not in HIDDEN and not name.startswith(HIDDEN_FOLDERS)
        }

    @cached_property
    def header(self) -> DatasetHeader:
        """Its description of itself."""
        meta: dict[str, Any] = {}
        for name, data in self.items.items():
            meta[name] = _json(data) if name.endswith(".json") else data.decode(errors="replace")
        data = self._meta.get("schema.json", b"")
        meta["schema.json"] = parse_columns(data, self.where("meta/schema.json"))
        version = None
        if self.marker == OLD_TABLE_MARKER:  # as Kart shows one of V2
            version = 2
            for name in meta.keys() & {f"crs/{crs}.wkt" for crs in self.crs}:
                meta[name] = format_wkt(meta[name]).decode()
            if (data := self._meta.get(OLD_METADATA, b"")) != b"":
                meta[OLD_METADATA] = _json(data)
        sorted_meta = dict(sorted(meta.items()))
        return DatasetHeader(self.path, self.kind, self.schema, sorted_meta, version)

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
        count = self._known_rows
        if count is None:
            count = self._rows_since()
            if count is None:
                count = count_features(self.objects, self.features)
            self._keep_rows(self.features, count)
        return count

    def _rows_since(self) -> int | None:
        """How many rows it has by what differs from what was counted last.

        Commits that Kart made are told so, as long as little differs.
        """
        if not (self.features and isinstance(self.objects, StoredFolder)):
            return None
        with suppress(HavasuError, OSError, ValueError):
            counted = self._place_of_rows(self.features).parent.glob("*.rows")
            trees = (path for path in counted if path.stem != EMPTY_TREE)
            for known in nlargest(_TRIED, trees, key=lambda path: path.stat().st_mtime_ns):
                apart = count_apart(self.objects, known.stem, self.features)
                if apart is not None:
                    return int(known.read_text("ascii")) + apart
        return None

    @property
    def _known_rows(self) -> int | None:
        """How many rows it has, where that was counted before."""
        with suppress(OSError, ValueError):
            return int(self._place_of_rows(self.features).read_text("ascii"))
        return None

    def _place_of_rows(self, features: str) -> Path:
        return self.storage.keys.parent / "kart" / f"{features or EMPTY_TREE}.rows"

    def _keep_rows(self, features: str, count: int) -> None:
        kept = self._place_of_rows(features)
        if isinstance(self.objects, StoredFolder):
            with suppress(OSError, StorageError):  # it only spares counting again
                kept.parent.mkdir(parents=True, exist_ok=True)
                replace_file(kept, str(count).encode())

    def keep_count(self, rows: int) -> None:
        """Keep how many rows it has where they were not counted yet."""
        if self._known_rows is None:
            self._keep_rows(self.features, rows)

    def note_rows(self, features: str, counts: ChangeCounts) -> None:
        """Keep how many rows a tree of features has that these changes made of this one's."""
        known = self._known_rows
        if known is not None:
            self._keep_rows(features, known + counts.inserts - counts.deletes)

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
        parts = [tuple(found[start : start + step]) for start in range(0, len(found), step)]
        if columns is not None and set(columns) == set(self.key.names):
            return [task_of(scan_keys, objects, part, form) for part in parts]
        here = where is not None and where.here
        return [task_of(scan, objects, part, form, here) for part in parts]

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

    def keys_named(self, names: Sequence[bytes]) -> pa.RecordBatch:
        """Return the keys that features of these names have."""
        ids = self.schema.identifier_ids
        values = parse_keys(names) if names else [[] for _ in ids]
        found = dict(zip(ids, values, strict=True))
        schema = arrow_schema(self.schema.select(self.key.names))
        columns = [
            pa.array(found[field.id], type_)
            for field, type_ in zip(self.key.fields, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def find(self, folders: Sequence[bytes], names: Sequence[bytes]) -> list[bytes | None]:
        """Return the blob at each path, None where there is none."""
        return self.folders.find(folders, names)

    @cached_property
    def folders(self) -> Folders:
        """A look into its folders of features."""
        writes = self.storage.sink is not None
        return Folders(self.objects, self.folder.source, self.features, again=writes)

    def emptied(self) -> KartDataset:
        """Return it with the same columns and no rows."""
        return replace(self, folder=_Featureless(self.folder.source, self.folder.tree))

    # Dataset

    @property
    def keeps_dropped(self) -> bool:
        """Yes: features keep what they were stored with, and so Kart merges them."""
        return True

    @property
    def in_files(self) -> None:
        """None: its rows stand in git one by one."""
        return None

    def after(self, edit: TreeEdit, revision: str | None = None) -> Self:
        """Return it as an edit makes it; `revision` is what errors call that."""
        sink = self.storage.sink or Draft(self.folder.source)
        folder = TreeFolder(sink, edit_tree(sink, self.folder.tree, edit.blobs))
        return replace(self, folder=folder, revision=revision or self.revision)

    def rows_with_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows whose keys are among some, in no particular order."""
        columns = [keys.column(name).to_pylist() for name in self.key.names]
        wanted = [key for key in zip(*columns, strict=True) if None not in key]
        rows = list(scan_files(self.files_of(wanted), self.form()))
        return rows[0] if rows else pa.RecordBatch.from_pylist([], arrow_schema(self.schema))

    def shown(self) -> KartDataset:
        """Return it as people see what became of it."""
        return replace(self, as_shown=True)

    def compare(self, new: Dataset) -> diffing.KartPlan | None:
        """Return how to find the changes from this view to `new`.

        None for another kind, and where a path means another key.
        """
        if not isinstance(new, KartDataset) or not diffing.can_pair(self, new):
            return None
        return diffing.KartPlan(self, new)

    def compare_rows(self, new: Dataset, keys: Sequence[tuple[Any, ...]]) -> list[Task] | None:
        """Return tasks that yield the changes of rows with some keys, reading no others.

        None where paths do not tell which those are.
        """
        plan = self.compare(new)
        if plan is None or not {type(value) for key in keys for value in key} <= {int, str}:
            return None
        return diffing.rows_diff(self, plan.new, keys)

    def plan_chosen(self, new: Dataset, chosen: ChosenKeys, *, live: bool) -> Reading:
        """Return that rows are looked up, unless their features are the same, unread."""
        same = (
            isinstance(new, KartDataset)
            and diffing.can_pair(self, new)
            and self._features_of(chosen) == new._features_of(chosen)
        )
        return Reading.NOTHING if same else Reading.ROWS

    def _features_of(self, chosen: ChosenKeys) -> Files:
        keys = chosen.of(self.schema)
        columns = [keys.column(name).to_pylist() for name in self.key.names]
        return self.files_of(list(zip(*columns, strict=True)))

    def listing_order(self, keys: pa.RecordBatch, schema: Schema) -> pa.Array | None:
        """Return the order in which Kart lists rows: that of their paths."""
        fields = [schema.by_id[number] for number in schema.identifier_ids]
        values = [values_of(keys.column(field.name), field) for field in fields]
        paths = list(zip(*self.structure.paths(values), strict=True))
        return pa.array(sorted(range(len(paths)), key=paths.__getitem__), pa.int64())

    @property
    def keys_item(self) -> str | None:
        """The document that remembers generated keys; None where rows had their own."""
        return f"meta/{GENERATED_KEYS}" if GENERATED_KEYS in self._meta else None

    def columns_of_source(self, incoming: Schema) -> Schema:
        """Return its columns as a source may have them: without a key made for its rows."""
        if self.generated_keys is None or len(self.key.fields) != 1:
            return self.schema
        (key,) = self.key.fields
        if key.name in incoming.by_name:
            return self.schema
        return Schema(tuple(f for f in self.schema.fields if f.id != key.id), ())

    def remade(
        self, schema: Schema, *, has_key: bool = True, earlier: EarlierImport | None = None
    ) -> NewKartDataset:
        """Return what takes in the rows of another version of it."""
        from havasu_vc.datasets.kart.build import remade

        return remade(self, schema, has_key=has_key, earlier=earlier)

    def rekeyed(
        self, schema: Schema, meta: Mapping[str, bytes | None], rows: Iterable[pa.RecordBatch]
    ) -> TreeEdit:
        """Return the edit that gives it another key; `rows` are all, in the columns of `schema`."""
        from havasu_vc.datasets.kart.build import rekeyed_kart

        return rekeyed_kart(self, schema, meta, rows)

    def edit(self) -> KartEdit:
        """Return an edit of it; use that as a context manager."""
        from havasu_vc.datasets.kart.edit import KartEdit

        return KartEdit(self)

    def evolved(self, schema: Schema) -> tuple[dict[str, bytes], KartEdit]:
        """Return its documents under another schema, and an edit that writes them."""
        from havasu_vc.datasets.kart.edit import KartEdit

        edit = KartEdit(self, schema=schema)
        return {n: d for n, d in edit.documents.items() if d is not None}, edit

    def revived(
        self, schema: Schema, back: frozenset[int], run: RunTasks
    ) -> tuple[KartDataset, dict[str, bytes | None]]:
        """Return it under the columns: features show what they were stored with."""
        return self, {}


def open_view(
    path: str, folder: TreeFolder, storage: Storage, revision: str, marker: str
) -> KartDataset:
    """Return the dataset in a folder, unchecked."""
    return KartDataset(path, folder, storage, revision, marker)


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
