"""Changing a dataset of lines: rows are checked as Arrow, and written anew as lines."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.pairing import check_order, conform, describe_key, equal_rows, partners
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.errors import PatchError
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.store.trees import Change
from tests.third_kind.form import COLUMNS, ROWS, Line, format_columns, format_lines, lines_of

if TYPE_CHECKING:
    from tests.third_kind.view import LinesDataset


class LinesEdit(AbstractContextManager["LinesEdit"]):
    """Collects changes, perhaps under another schema with the same key."""

    def __init__(self, dataset: "LinesDataset", schema: Schema) -> None:
        self.dataset = dataset
        self.schema = schema
        self.counts = ChangeCounts()
        self.documents: dict[str, bytes | None] = {}
        if schema != dataset.schema:
            self.documents[COLUMNS] = format_columns(schema, dataset.last_column_id)
        self._changed: dict[tuple[Any, ...], Line | None] = {}
        self._last: pa.RecordBatch | None = None

    def __exit__(self, *_: object) -> None:
        self._changed.clear()

    def add_documents(self, documents: Mapping[str, bytes | None]) -> None:
        self.documents.update(documents)

    def collect(self, changes: Iterator[ChangeBatch]) -> None:
        for batch in changes:
            if len(batch):
                self._last = check_order(batch, self._last, self.dataset.schema, self.schema)
                self._collect(batch)
                self.counts += batch.counts

    def _collect(self, batch: ChangeBatch) -> None:
        view, before, after = self.dataset, self.dataset.schema, self.schema
        gone, come = conform(batch.old_rows(), before), conform(batch.new_rows(), after)
        there = partners(view.batch, gone, before, before)
        if (there < 0).any():
            key = self._key(gone, int(np.flatnonzero(there < 0)[0]), before)
            raise PatchError(f"{view.path} has no row {key}")
        same = equal_rows(pc.take(view.batch, pa.array(there)), gone, before, before)
        if not same.all():
            key = self._key(gone, int(np.flatnonzero(~same)[0]), before)
            raise PatchError(f"row {key} of {view.path} is not what the change says it was")
        known = partners(view.batch, come, before, after)
        leaving = partners(gone, come, before, after)
        if ((known >= 0) & (leaving < 0)).any():
            at = int(np.flatnonzero((known >= 0) & (leaving < 0))[0])
            raise PatchError(f"{view.path} already has a row {self._key(come, at, after)}")
        for line in lines_of(gone, before):
            self._changed[self._key_of(line)] = None
        for line in lines_of(come, after):
            self._changed[self._key_of(line)] = line

    @staticmethod
    def _key(rows: pa.RecordBatch, at: int, schema: Schema) -> str:
        return describe_key(tuple(rows.column(name)[at].as_py() for name in schema.key.names))

    def _key_of(self, line: Line) -> tuple[Any, ...]:
        return tuple(line[str(field.id)] for field in self.schema.key.fields)

    def spell(self, rows: Iterable[Mapping[str, Any]]) -> None:
        pass

    def join(self, theirs: Dataset) -> bool:
        return False

    def adopt_rows(self, base: Dataset, theirs: Dataset) -> bool:
        return False

    def take_alone(self, base: Dataset, theirs: Dataset) -> None:
        return None

    def finish(self, *, fold: bool = True) -> TreeEdit:
        view = self.dataset
        blobs: dict[str, Change] = {
            name: data for name, data in self.documents.items() if view.folder.read(name) != data
        }
        if self._changed:
            lines = {self._key_of(line): line for line in view.lines} | self._changed
            left = {key: line for key, line in lines.items() if line is not None}
            blobs[ROWS] = format_lines(left[key] for key in sorted(left))
        return TreeEdit(view.path, blobs, counts=self.counts, marker=view.marker)
