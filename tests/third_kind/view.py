"""A dataset of lines in one git tree, seen as a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import pyarrow as pa

from havasu_vc.datasets.base import StoredDataset
from havasu_vc.datasets.chosen import ChosenKeys
from havasu_vc.datasets.folder import Folder, TreeFolder, edited
from havasu_vc.datasets.pairing import pair_rows, same_key
from havasu_vc.datasets.protocol import (
    Dataset,
    EarlierImport,
    Predicate,
    Reading,
    RunTasks,
    TreeEdit,
)
from havasu_vc.datasets.storage import Storage
from havasu_vc.geo.crs import parse_crs
from havasu_vc.model import compute as pc
from havasu_vc.model.columns import columns_of, schema_of
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.evolution import BLOCK, field_ids
from havasu_vc.model.schema import KeySpec, Schema
from havasu_vc.model.task import Task, task_of
from havasu_vc.store.objects import Draft
from havasu_vc.store.trees import edit_tree
from havasu_vc.testing.kernels import given_rows
from tests.third_kind import MARKER
from tests.third_kind.build import NewLines, rekeyed, remade
from tests.third_kind.edit import LinesEdit
from tests.third_kind.form import COLUMNS, ROWS, Line, format_columns, parse_columns, parse_lines
from tests.third_kind.form import rows_of as rows_of_lines


@dataclass(frozen=True)
class LinesDataset(StoredDataset):
    """A read-only view of one dataset of lines."""

    path: str
    folder: Folder
    storage: Storage
    revision: str = "HEAD"
    marker: str = MARKER
    kind: str = field(default="lines", init=False)

    def where(self, name: str) -> str:
        return f"{self.path}/{self.marker}/{name} at {self.revision}"

    def check_guard(self) -> None:
        _ = self.schema

    @cached_property
    def _columns(self) -> tuple[Schema, int]:
        return parse_columns(self.folder.read(COLUMNS), self.where(COLUMNS))

    @property
    def schema(self) -> Schema:
        return self._columns[0]

    @property
    def last_column_id(self) -> int:
        return self._columns[1]

    @property
    def key(self) -> KeySpec:
        return self.schema.key

    @property
    def items(self) -> Mapping[str, bytes]:
        return {name: self.folder.read_blob(blob) for name, blob in self.folder.blobs("meta")}

    @property
    def crs(self) -> Mapping[str, str]:
        return self.header.crs

    @cached_property
    def header(self) -> DatasetHeader:
        texts: dict[str, Any] = {n: data.decode() for n, data in self.items.items()}
        meta = {**texts, "schema.json": columns_of(self.schema)}
        return DatasetHeader(self.path, self.kind, self.schema, dict(sorted(meta.items())))

    def columns_item(self, schema: Schema) -> list[Any]:
        return columns_of(schema)

    def crs_item(self, definition: str) -> bytes:
        return parse_crs(definition).wkt.encode()

    def schema_of_items(self, columns: list[Any], *, keep_ids: bool = False) -> Schema:
        last = self.last_column_id
        kept = range(last + 1, last + 2 * BLOCK) if keep_ids else range(0)
        return schema_of(columns, self.schema, new_id=field_ids(last), kept_ids=kept)

    @property
    def identity(self) -> None:
        return None

    @cached_property
    def lines(self) -> list[Line]:
        """Its rows as they are stored, by key."""
        return parse_lines(self.folder.read(ROWS), self.where(ROWS))

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """All of its rows, by key."""
        return rows_of_lines(self.lines, self.schema, self.where(ROWS))

    @property
    def rows(self) -> int:
        return len(self.lines)

    @property
    def size(self) -> int:
        return len(self.folder.read(ROWS) or b"")

    @property
    def keeps_dropped(self) -> bool:
        return False

    @property
    def in_files(self) -> None:
        return None

    def emptied(self) -> Self:
        return self._with(folder=edited(self.folder, TreeEdit(self.path, {ROWS: None})))

    def after(self, edit: TreeEdit, revision: str | None = None) -> Self:
        folder = self.folder
        if isinstance(folder, TreeFolder):
            sink = self.storage.sink or Draft(folder.source)
            base = None if edit.fresh else folder.tree
            new: Folder = TreeFolder(sink, edit_tree(sink, base, edit.blobs))
        else:
            new = edited(folder, edit)
        return self._with(folder=new, revision=revision or self.revision)

    def scan(
        self, columns: Sequence[str] | None = None, where: Predicate | None = None
    ) -> list[Task]:
        batch = self.batch
        if where is not None and where.keys is not None:
            names = self.key.names
            wanted = set(where.keys)
            there = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
            batch = batch.filter(pa.array([key in wanted for key in there], pa.bool_()))
        if columns is not None:
            batch = batch.select(self.schema.select(tuple(columns)).names)
        return [task_of(given_rows, batch)] if batch.num_rows else []

    def rows_with_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        wanted = {tuple(row.values()) for row in keys.select(self.key.names).to_pylist()}
        there = self.batch.select(self.key.names).to_pylist()
        mask = pa.array([tuple(row.values()) in wanted for row in there], pa.bool_())
        return pc.filter(self.batch, mask)

    def compare(self, new: Dataset) -> "Plan | None":
        if not isinstance(new, LinesDataset) or not same_key(self.schema, new.schema):
            return None
        return Plan(self, new)

    def plan_chosen(self, new: Dataset, chosen: ChosenKeys, *, live: bool) -> Reading:
        old, rows = (view.rows_with_keys(chosen.of(view.schema)) for view in (self, new))
        differ = any(len(b) for b in pair_rows(old, rows, self.schema, new.schema))
        return Reading.ROWS if differ else Reading.NOTHING

    def remade(
        self, schema: Schema, *, has_key: bool = True, earlier: EarlierImport | None = None
    ) -> NewLines:
        return remade(self, schema)

    def rekeyed(
        self, schema: Schema, meta: Mapping[str, bytes | None], rows: Iterable[pa.RecordBatch]
    ) -> TreeEdit:
        return rekeyed(self, schema, meta, rows)

    def edit(self) -> LinesEdit:
        return LinesEdit(self, self.schema)

    def evolved(self, schema: Schema) -> tuple[dict[str, bytes], LinesEdit]:
        edit = LinesEdit(self, schema)
        return {name: data for name, data in edit.documents.items() if data is not None}, edit

    def revived(
        self, schema: Schema, back: frozenset[int], run: RunTasks
    ) -> tuple[Dataset, dict[str, bytes | None]]:
        documents: dict[str, bytes | None] = {COLUMNS: format_columns(schema, self.last_column_id)}
        return self.after(TreeEdit(self.path, documents)), documents


@dataclass(frozen=True)
class Plan:
    """Two versions, both in memory."""

    old: LinesDataset
    new: LinesDataset
    dealt: bool = False
    unverified: tuple[str, ...] = ()

    @property
    def old_schema(self) -> Schema:
        return self.old.schema

    @property
    def new_schema(self) -> Schema:
        return self.new.schema

    def tasks(self) -> list[Task]:
        found = pair_rows(self.old.batch, self.new.batch, self.old.schema, self.new.schema)
        return [task_of(given_rows, changes.data) for changes in found if len(changes)]

    def halves(self) -> tuple[list[Task], list[Task], list[Task]]:
        return [], [], []

    def sides(self) -> tuple[tuple[()], tuple[()]]:
        return (), ()

    def pair(self, old: Sequence[Task], new: Sequence[Task], half_paired: Sequence[Task]) -> Task:
        raise NotImplementedError("rows are paired in memory")


def open_view(
    path: str, folder: Folder, storage: Storage, revision: str, marker: str
) -> LinesDataset:
    """Return the dataset in a folder, unchecked."""
    return LinesDataset(path, folder, storage, revision, marker)
