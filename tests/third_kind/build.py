"""A new dataset of lines: its rows are taken in and written as one document."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from havasu_vc.datasets.pairing import conform, describe_key
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import InvalidArgumentError, KeyViolationError
from havasu_vc.model.columns import schema_of
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.store.trees import Change
from tests.third_kind import MARKER
from tests.third_kind.form import COLUMNS, ROWS, Line, format_columns, format_lines, lines_of

if TYPE_CHECKING:
    from tests.third_kind.view import LinesDataset


class NewLines:
    """A dataset in the making."""

    def __init__(
        self, path: str, schema: Schema, *, meta: Mapping[str, bytes], last: int = 0
    ) -> None:
        if not schema.key:
            raise InvalidArgumentError(
                f"{path}: a dataset of lines needs a key", hints=("name one with --primary-key",)
            )
        self._path = path
        self.schema = schema
        self._blobs: dict[str, Change] = {**meta, COLUMNS: format_columns(schema, last)}
        self._lines: dict[tuple[Any, ...], Line] = {}

    @property
    def files(self) -> None:
        return None

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        ids = [str(field.id) for field in self.schema.key.fields]
        for batch in batches:
            for line in lines_of(conform(batch, self.schema), self.schema):
                key = tuple(line[id] for id in ids)
                if key in self._lines:
                    raise KeyViolationError(
                        f"{self._path}: the key {describe_key(key)} comes twice"
                    )
                self._lines[key] = line

    def finish(self) -> TreeEdit:
        lines = format_lines(self._lines[key] for key in sorted(self._lines))
        blobs = {**self._blobs, ROWS: lines} if lines else self._blobs
        counts = ChangeCounts(inserts=len(self._lines))
        return TreeEdit(self._path, blobs, fresh=True, counts=counts, marker=MARKER)


def new_table(
    path: str,
    schema: Schema,
    storage: Storage,
    *,
    meta: Mapping[str, bytes],
    hilbert: int | None = None,
) -> NewLines:
    """Return a new dataset in the making."""
    return NewLines(path, schema, meta=meta)


def schema_of_items(columns: list[Any]) -> Schema:
    """Return the schema that a list of columns means."""
    return schema_of(columns)


def crs_document(wkt: str) -> bytes:
    """Return the definition of a coordinate reference system as a document."""
    return wkt.encode()


def remade(old: "LinesDataset", schema: Schema) -> NewLines:
    """Return what takes in the rows of another version of a dataset."""
    return NewLines(old.path, schema, meta={}, last=old.last_column_id)


def rekeyed(
    old: "LinesDataset",
    schema: Schema,
    meta: Mapping[str, bytes | None],
    rows: Iterable[pa.RecordBatch],
) -> TreeEdit:
    """Return the edit that gives a dataset another key; `rows` are all, in its columns."""
    items = {**{f"meta/{name}": data for name, data in old.items.items()}, **meta}
    kept = {name: data for name, data in items.items() if data is not None and name != COLUMNS}
    new = NewLines(old.path, schema, meta=kept, last=old.last_column_id)
    new.write(rows)
    return replace(new.finish(), counts=ChangeCounts())
