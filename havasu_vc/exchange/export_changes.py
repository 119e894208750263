"""The changes between two versions as a file of rows: a change-only export.

Each row says in `_change_type` what it is: `insert`, `delete`, or `update_before` and
`update_after` side by side, as in a change data feed. Rows of both versions stand in
one table: columns are matched by id, carry the newer name and type, and are null where
a version does not have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, UnsupportedTypeError
from havasu_vc.exchange.export import ExportFormat, Written, format_of, write_file
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive

__all__ = ["CHANGE_TYPE", "write_changes"]

CHANGE_TYPE = "_change_type"
"""The column that says what a row is."""
_FORMATS = (
    ExportFormat.GEOPARQUET,
    ExportFormat.PARQUET,
    ExportFormat.GPKG,
    ExportFormat.GEOJSON,
    ExportFormat.GEOJSONSEQ,
    ExportFormat.CSV,
)


def write_changes(
    path: Path,
    diff: DatasetDiff,
    *,
    format: ExportFormat | None = None,
    overwrite: bool = False,
) -> Written:
    """Write the row changes of a dataset; reads the diff's stream once."""
    chosen = format or format_of(path)
    if chosen not in _FORMATS:
        raise InvalidArgumentError(
            f"changes cannot be exported to {chosen.label}",
            hints=("export them to .parquet, .gpkg, .geojson or .csv",),
        )
    schema = _schema(diff)
    meta = {**(diff.old.meta if diff.old else {}), **(diff.new.meta if diff.new else {})}
    header = DatasetHeader(diff.path, diff.header.kind, schema, meta)
    counts: list[ChangeCounts] = []
    rows = _rows(diff, schema, counts)
    written = write_file(path, header, rows, format=chosen, overwrite=overwrite)
    total = sum(counts, ChangeCounts())
    return Written(written.rows, (*_moved(diff), *written.notes), total)


def _moved(diff: DatasetDiff) -> tuple[str, ...]:
    """Return a note for each geometry column whose reference system changed."""
    if diff.old is None or diff.new is None:
        return ()
    old = {field.id: field.geometry for field in diff.old.schema.geometries}
    return tuple(
        f"rows before the change have column {field.name!r} in {before.crs or 'an unknown system'}"
        for field in diff.new.schema.geometries
        if field.geometry is not None
        and (before := old.get(field.id)) is not None
        and before.crs != field.geometry.crs
    )


def _schema(diff: DatasetDiff) -> Schema:
    """Return the columns of both versions, by id, with `_change_type` first and no key."""
    newer = diff.header.schema.fields
    ids = {field.id for field in newer}
    older = diff.old.schema.fields if diff.old is not None else ()
    names = {field.name for field in newer}
    gone = [
        replace(field, name=field.name if field.name not in names else f"{field.name}_before")
        for field in older
        if field.id not in ids
    ]
    every = [*newer, *gone]
    if any(field.name == CHANGE_TYPE for field in every):
        raise UnsupportedTypeError(
            CHANGE_TYPE, "the changes have a column of that name of their own"
        )
    last = max((schema.last_id for schema in _schemas(diff)), default=0)
    kind = Field(last + 1, CHANGE_TYPE, Primitive.STRING, required=True)
    return Schema((kind, *(replace(field, required=False) for field in every)))


def _schemas(diff: DatasetDiff) -> list[Schema]:
    return [side.schema for side in (diff.old, diff.new) if side is not None]


def _rows(
    diff: DatasetDiff, schema: Schema, counts: list[ChangeCounts]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the file; `counts` takes what they are, batch by batch."""
    for changes in diff.changes:
        if len(changes):
            counts.append(changes.counts)
            yield _interleaved(changes, diff, schema)


def _interleaved(changes: ChangeBatch, diff: DatasetDiff, schema: Schema) -> pa.RecordBatch:
    """Return the rows before and after, each change's side by side."""
    old, new = changes.old_rows(), changes.new_rows()
    left = np.asarray(pc.is_valid(changes.old))
    came = np.asarray(pc.is_valid(changes.new))
    both = left & came
    positions = np.concatenate([np.flatnonzero(left) * 2, np.flatnonzero(came) * 2 + 1])
    order = pa.array(np.argsort(positions))
    kinds = np.concatenate(
        [
            np.where(both[left], "update_before", "delete"),
            np.where(both[came], "update_after", "insert"),
        ]
    )
    sides = [_aligned(old, diff.old, schema), _aligned(new, diff.new, schema)]
    columns = [pa.array(kinds.tolist(), pa.string()).take(order)]
    for before, after in zip(*sides, strict=True):
        columns.append(pa.concat_arrays([before, after]).take(order))
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


def _aligned(rows: pa.RecordBatch, header: DatasetHeader | None, schema: Schema) -> list[pa.Array]:
    """Return the columns of one version in the order and types of both."""
    names = {field.id: field.name for field in header.schema.fields} if header else {}
    columns = []
    for field, wanted in zip(schema.fields[1:], arrow_schema(schema).remove(0), strict=True):
        if field.id not in names or not rows.num_rows:
            columns.append(pa.nulls(rows.num_rows, wanted.type))
            continue
        column = rows.column(names[field.id])
        columns.append(column if column.type == wanted.type else column.cast(wanted.type))
    return columns
