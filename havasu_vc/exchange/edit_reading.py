"""Layers of an edit copy that comes back, as sources with the schema of their datasets."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import InvalidFileError, UnsupportedTypeError
from havasu_vc.exchange.edit_state import (
    LayerState,
    TableColumn,
    exact_columns,
    read_columns,
    read_exact,
    srid_column,
)
from havasu_vc.exchange.edit_values import edit_form, edited_rows, restore_exact
from havasu_vc.exchange.gdal import open_stream
from havasu_vc.exchange.ogr import open_layer
from havasu_vc.exchange.ogr_formats import find_vector_files, quoted, read_only
from havasu_vc.exchange.ogr_values import ValueCheck, refuse_odd_values
from havasu_vc.exchange.source import MOST_BATCH_ROWS, SourceOptions
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

__all__ = ["EditedLayer", "edited_cells", "open_edited_layer"]


@dataclass(frozen=True, slots=True)
class _Reading:
    """The task's knowledge of a layer."""

    path: str
    state: LayerState
    schema: Schema
    names: tuple[tuple[str, str], ...]
    """Columns that were there before: the name now, and then."""
    plain: tuple[str, ...]
    """Columns that are new."""
    plain_tasks: tuple[Task, ...]
    """How new columns are read: as from any GeoPackage."""
    checks: tuple[ValueCheck, ...]
    """Checks that values are held against."""


@dataclass(frozen=True)
class EditedLayer:
    """A layer that comes back; a source of its rows."""

    dataset: str
    """The dataset it is a copy of."""
    commit: str
    """The commit it was taken from."""
    base: Schema
    """The dataset's schema then."""
    schema: Schema
    """Its schema now: columns keep their ids, whatever they are called."""
    added: tuple[str, ...]
    """Columns that are new; their ids are the next ones, for the caller to change."""
    dropped: tuple[str, ...]
    """Columns that are gone."""
    renamed: Mapping[str, str]
    """New names by old ones."""
    name: str
    crs: Mapping[str, str]
    rows: int | None
    input_bytes: int
    reading: _Reading
    title: str | None = None
    description: str | None = None
    key_hint: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return the one task that reads the layer."""
        schema = self.schema if columns is None else self.schema.select(tuple(columns))
        return [task_of(read_edited_layer, replace(self.reading, schema=schema))]


def open_edited_layer(path: Path, state: LayerState) -> EditedLayer | None:
    """Open a layer; None when it is not there any more."""
    now = read_columns(path, state.table)
    if not now:
        return None
    (file,) = find_vector_files(path)
    source = open_layer(file, state.table, SourceOptions(primary_key=()))
    before = state.columns
    renamed = _renamed(before, now, path, state.table)
    names_now = {column.name for column in now}
    kept: list[Field] = []
    dropped = []
    for field in state.schema.fields:
        name = renamed.get(field.name, field.name)
        if name not in names_now:
            dropped.append(field.name)
        elif name == field.name:
            kept.append(field)
        else:
            kept.append(replace(field, name=name, physical_name=field.stored_name))
    known = {field.name for field in kept} | {state.fid, renamed.get(state.fid, state.fid)}
    added = [field for field in source.schema.fields if field.name not in known]
    last = state.schema.last_id
    numbered = [replace(field, id=last + 1 + index) for index, field in enumerate(added)]
    ids = {field.id for field in kept}
    key = state.schema.identifier_ids if ids.issuperset(state.schema.identifier_ids) else ()
    schema = Schema((*kept, *numbered), key)
    back = {new: old for old, new in renamed.items()}
    names = tuple((field.name, back.get(field.name, field.name)) for field in kept)
    reading = _Reading(
        str(path), state, schema, names, tuple(field.name for field in added),
        tuple(source.tasks([field.name for field in added])) if added else (),
        source.reading.checks,
    )  # fmt: skip
    return EditedLayer(
        dataset=state.dataset,
        commit=state.commit,
        base=state.schema,
        schema=schema,
        added=tuple(field.name for field in added),
        dropped=tuple(dropped),
        renamed={old: new for old, new in renamed.items() if old in state.schema.by_name},
        name=state.dataset,
        crs=state.crs | dict(source.crs),
        rows=source.rows,
        input_bytes=source.input_bytes,
        reading=reading,
        notes=source.notes,
    )


def _renamed(
    before: Sequence[TableColumn], now: Sequence[TableColumn], path: Path, table: str
) -> dict[str, str]:
    """Return new names by old ones, told by place and type where a name is gone.

    A column that is renamed keeps its place, and one that is added comes last. Where others were
    added, one without a value in any row is new rather than renamed.
    """
    if len(before) > len(now):
        return {}
    names_before = {column.name for column in before}
    names_now = {column.name for column in now}
    found: dict[str, str] = {}
    for old, new in zip(before, now, strict=False):
        if old.type == new.type and old.name not in names_now and new.name not in names_before:
            found[old.name] = new.name
        elif old.name != new.name and len(before) < len(now):
            return {}  # one is gone, so places say nothing
    if found and len(before) < len(now):
        empty = _empty_columns(path, table, tuple(found.values()))
        found = {old: new for old, new in found.items() if new not in empty}
    return found


def _empty_columns(path: Path, table: str, names: Sequence[str]) -> set[str]:
    """Return those of some columns that hold no value, of a table with rows."""
    with closing(sqlite3.connect(read_only(str(path)), uri=True)) as database:

        def holds(name: str | None) -> bool:
            wanted = "1" if name is None else f"{quoted(name)} IS NOT NULL"
            sql = f"SELECT 1 FROM {quoted(table)} WHERE {wanted} LIMIT 1"
            return database.execute(sql).fetchone() is not None

        return {name for name in names if not holds(name)} if holds(None) else set()


@kernel
def read_edited_layer(reading: _Reading) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a layer in the dataset's stored types."""
    state = reading.state
    then = dict(reading.names)
    plain = _plain_columns(reading)
    refuse_odd_values(reading.path, state.table, reading.checks, None)
    with (
        closing(sqlite3.connect(read_only(reading.path), uri=True)) as database,
        open_stream(
            reading.path, state.table, return_fids=True, batch_size=MOST_BATCH_ROWS
        ) as stream,
    ):
        for batch in stream:
            if not batch.num_rows:
                continue
            fids = batch.column(0)
            columns = []
            added = plain.take(batch.num_rows) if plain is not None else {}
            for field in reading.schema.fields:
                if field.name in added:
                    columns.append(added[field.name])
                    continue
                base = state.schema.by_name[then[field.name]]
                values = batch.column(batch.schema.get_field_index(field.name))
                columns.append(_restored(reading, database, base, values, fids))
            yield pa.RecordBatch.from_arrays(columns, schema=arrow_schema(reading.schema))


def _restored(
    reading: _Reading,
    database: sqlite3.Connection,
    field: Field,
    values: pa.Array,
    fids: pa.Array,
) -> pa.Array:
    """Return a column as the dataset has it, with the exact values that are remembered."""
    ids = np.asarray(fids)
    first, last = int(ids.min()), int(ids.max())
    table = reading.state.table
    values = _plain(values)
    if field.geometry is not None:
        srids = read_exact(database, table, srid_column(field.name), first, last)
        return _geometry(field, values, ids, srids)
    try:
        values = edit_form(field).decode(values)
    except (ValueError, pa.ArrowInvalid) as error:
        raise UnsupportedTypeError(
            field.name,
            f"a value is not a {field.type}: {str(error).splitlines()[0]}",
            hints=("mend it in the copy",),
        ) from error
    exact = read_exact(database, table, field.name, first, last)
    return restore_exact(field, values, fids, exact)


def _plain(values: pa.Array) -> pa.Array:
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _geometry(
    field: Field, values: pa.Array, ids: np.ndarray, srids: Mapping[int, str]
) -> pa.Array:
    if field.geometry is None:
        raise ValueError(f"{field.name!r} is no geometry column")
    binary = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    wkb, _ = geometry_bytes.to_canonical(values, "wkb" if binary else "wkt")
    own = None
    if srids:
        own = np.array([int(srids.get(int(fid), 0)) for fid in ids], np.int32)
    return geometry_bytes.from_canonical(wkb, own, field.geometry.encoding.value)


def edited_cells(layer: EditedLayer) -> dict[str, list[int]]:
    """Return the rows whose exact value is one no longer, by the column's name then.

    What is remembered of them must be forgotten when the layer is taken in, or a later
    edit to what the exact value reads as would bring it back.
    """
    reading = layer.reading
    path, table = reading.path, reading.state.table
    found: dict[str, list[int]] = {}
    with closing(sqlite3.connect(read_only(path), uri=True)) as database:
        there = exact_columns(database, table)
        columns = {now: then for now, then in reading.names if then in there}
        if not columns:
            return found
        how = {"columns": list(columns), "read_geometry": False, "return_fids": True}
        with open_stream(path, table, **how) as stream:
            for batch in stream:
                if not batch.num_rows:
                    continue
                fids = batch.column(0)
                first, last = pc.min(fids).as_py(), pc.max(fids).as_py()
                for now, then in columns.items():
                    field = reading.state.schema.by_name[then]
                    values = edit_form(field).decode(_plain(batch.column(now)))
                    exact = read_exact(database, table, then, first, last)
                    found.setdefault(then, []).extend(edited_rows(field, values, fids, exact))
    return found


class _Plain:
    """New columns, read beside the others in pieces of the same length."""

    def __init__(self, batches: Iterator[pa.RecordBatch], path: str) -> None:
        self._batches = batches
        self._held: list[pa.RecordBatch] = []
        self._path = path

    def take(self, rows: int) -> dict[str, pa.Array]:
        """Return the next rows."""
        while sum(batch.num_rows for batch in self._held) < rows:
            batch = next(self._batches, None)
            if batch is None:
                raise InvalidFileError(self._path, "it changed while it was read")
            self._held.append(batch)
        table = pa.Table.from_batches(self._held)
        self._held = table.slice(rows).combine_chunks().to_batches()
        head = table.slice(0, rows)
        return {name: _one(head.column(name)) for name in head.column_names}


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def _plain_columns(reading: _Reading) -> _Plain | None:
    wanted = set(reading.plain) & set(reading.schema.names)
    if not wanted:
        return None
    return _Plain((batch for task in reading.plain_tasks for batch in run_task(task)), reading.path)
