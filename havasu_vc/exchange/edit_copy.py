"""Copies of datasets to edit in QGIS: a GeoPackage that remembers its commit.

Written as a whole or not at all. Read back, each layer is a source with the schema
and the exact values of its dataset, so a copy that nobody edited has no changes. Rows
that are gone were deleted, rows with new ids are new; columns that were added, dropped
or renamed are a new schema. A key of one whole number is the feature id; with any
other key the feature id is a column of its own that the dataset does not have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import (
    InvalidArgumentError,
    InvalidFileError,
    StorageError,
    UnsupportedTypeError,
)
from havasu_vc.exchange.edit_state import (
    LayerState,
    TableColumn,
    exact_columns,
    open_state,
    read_columns,
    read_exact,
    read_states,
    srid_column,
    write_exact,
    write_state,
)
from havasu_vc.exchange.edit_values import (
    EditForm,
    edit_form,
    edited_rows,
    exact_values,
    free_name,
    integer_key,
    refuse_equal_names,
    restore_exact,
)
from havasu_vc.exchange.export import Written
from havasu_vc.exchange.export_columns import Notes, outgoing_geometry
from havasu_vc.exchange.gdal import open_stream, write_stream
from havasu_vc.exchange.gdal_writer import geometry_options, layer_metadata
from havasu_vc.exchange.ogr import open_layer
from havasu_vc.exchange.ogr_formats import find_vector_files, quoted, read_only
from havasu_vc.exchange.ogr_values import ValueCheck, refuse_odd_values
from havasu_vc.exchange.replacing import replacing
from havasu_vc.exchange.source import MOST_BATCH_ROWS, SourceOptions
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

__all__ = [
    "EditCopy",
    "EditedLayer",
    "LayerToEdit",
    "edited_cells",
    "open_edited_layer",
    "read_edit_copy",
    "write_edit_copy",
]


@dataclass(frozen=True, slots=True)
class LayerToEdit:
    """A dataset to be copied."""

    header: DatasetHeader
    """The dataset at the commit."""
    batches: Iterator[pa.RecordBatch]
    """Its rows in stored types; read once."""


@dataclass(frozen=True, slots=True)
class EditCopy:
    """A copy that comes back."""

    commit: str
    """The commit it was taken from."""
    layers: tuple[EditedLayer, ...]
    """Its layers that are still there."""
    missing: tuple[str, ...]
    """Datasets whose layers are not there any more."""


def write_edit_copy(
    path: Path, layers: Sequence[LayerToEdit], commit_id: str, *, overwrite: bool = False
) -> Written:
    """Write a copy of some datasets and return how many rows it has."""
    if path.suffix.lower() != ".gpkg":
        raise InvalidArgumentError(
            f"{path.name} is not the name of a GeoPackage", hints=("end it in .gpkg",)
        )
    tables = table_names([layer.header.path for layer in layers])
    rows = 0
    with replacing(path, overwrite=overwrite) as temporary:
        losses = temporary.with_suffix(".exact")
        for number, (layer, table) in enumerate(zip(layers, tables, strict=True)):
            writer = _LayerWriter(layer.header, table)
            try:
                with _Losses(losses) as kept:
                    rows += writer.write(temporary, layer.batches, kept, append=number > 0)
            except sqlite3.Error as error:
                raise StorageError(f"{path.name} cannot be written: {error}") from error
            with open_state(temporary) as database:
                writer.remember(database, commit_id, losses)
            losses.unlink()
    return Written(rows)


def read_edit_copy(path: Path) -> EditCopy:
    """Read what a copy remembers, and open its layers."""
    states = read_states(path)
    layers = [(state, open_edited_layer(path, state)) for state in states]
    return EditCopy(
        states[0].commit,
        tuple(layer for _, layer in layers if layer is not None),
        tuple(state.dataset for state, layer in layers if layer is None),
    )


class _Losses:
    """Cells that the layer cannot hold, put aside while GDAL has the file open."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE exact (column_name, fid, value)")

    def __enter__(self) -> _Losses:
        return self

    def __exit__(self, *_: object) -> None:
        with closing(self._database):
            self._database.commit()

    def add(self, column: str, fids: pa.Array, values: pa.Array) -> None:
        self._database.executemany(
            "INSERT INTO exact VALUES (?, ?, ?)",
            (
                (column, fid, value)
                for fid, value in zip(fids.to_pylist(), values.to_pylist(), strict=True)
            ),
        )


class _LayerWriter:
    """Writes one dataset as a layer."""

    def __init__(self, header: DatasetHeader, table: str) -> None:
        self._header = header
        self._table = table
        self._schema = header.schema
        refuse_equal_names(self._schema)
        self._main = self._schema.geometries[0] if self._schema.geometries else None
        self._key = integer_key(self._schema)
        self._fid = self._key or free_name("fid", self._schema.names)
        self._forms: dict[str, EditForm] = {
            field.name: edit_form(field) for field in self._schema.fields if field.geometry is None
        }

    def write(
        self, path: Path, batches: Iterator[pa.RecordBatch], losses: _Losses, *, append: bool
    ) -> int:
        """Write the rows and return how many there are."""
        arrow = pa.schema(self._arrow_fields())
        count = [0]

        def outgoing() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.num_rows:
                    yield self._outgoing(batch, count[0], losses, arrow)
                count[0] += batch.num_rows

        options = {"FID": self._fid, **layer_metadata(self._header, self._table, path)}
        how: dict[str, Any] = {
            "layer": self._table, "driver": "GPKG", "append": append, "layer_options": options,
        }  # fmt: skip
        if self._main is not None:
            geometry = outgoing_geometry(self._main, self._header.crs, None, Notes())
            announced = self._main.geometry.shape if self._main.geometry is not None else None
            how |= geometry_options(geometry, announced)
            options["GEOMETRY_NAME"] = self._main.name
        write_stream(str(path), arrow, outgoing(), how)
        return count[0]

    def _arrow_fields(self) -> list[pa.Field]:
        fields = [] if self._key else [pa.field(self._fid, pa.int64())]
        for field in self._schema.fields:
            if field == self._main:
                type_ = pa.binary()
            else:
                type_ = self._forms[field.name].type if field.name in self._forms else pa.string()
            if field.name == self._key:
                type_ = pa.int64()
            fields.append(pa.field(field.name, type_))
        return fields

    def _outgoing(
        self, batch: pa.RecordBatch, start: int, losses: _Losses, arrow: pa.Schema
    ) -> pa.RecordBatch:
        if self._key is not None:
            fids = batch.column(self._key).cast(pa.int64())
            if pc.any(pc.equal(fids, -1)).as_py():
                raise UnsupportedTypeError(
                    self._key, "GeoPackage cannot have the key -1, and a row has it"
                )
        else:
            fids = pa.array(np.arange(start + 1, start + 1 + batch.num_rows))
        columns = [] if self._key else [fids]
        for field, values in zip(self._schema.fields, batch.columns, strict=True):
            if field.name == self._key:
                # A copy: GDAL writes into the ids that it is given.
                columns.append(pa.array(np.array(fids)))
            elif field.geometry is not None:
                columns.append(self._geometry(field, values, fids, losses))
            else:
                rows, texts = exact_values(field, values)
                losses.add(field.name, fids.take(rows), texts)
                columns.append(self._forms[field.name].encode(values))
        return pa.RecordBatch.from_arrays(columns, schema=arrow)

    def _geometry(
        self, field: Field, values: pa.Array, fids: pa.Array, losses: _Losses
    ) -> pa.Array:
        if field.geometry is None:
            raise ValueError(f"{field.name!r} is no geometry column")
        encoding = field.geometry.encoding
        wkb, srids = geometry_bytes.to_canonical(values, encoding.value)
        if srids is not None:
            rows = pa.array(np.flatnonzero(srids))
            texts = pa.array(srids[srids != 0]).cast(pa.string())
            losses.add(srid_column(field.name), fids.take(rows), texts)
        if field == self._main:
            return wkb
        return geometry_bytes.from_canonical(wkb, None, "wkt")

    def remember(self, database: sqlite3.Connection, commit_id: str, losses: Path) -> None:
        """Write what the copy must remember of this layer."""
        unique = [quoted(name) for name in self._schema.key.names if name != self._key]
        if unique:
            index = quoted(f"{self._table}_key")
            database.execute(
                f"CREATE UNIQUE INDEX {index} ON {quoted(self._table)} ({', '.join(unique)})"
            )
        source = sqlite3.connect(losses)
        try:
            for column, fid, value in source.execute("SELECT column_name, fid, value FROM exact"):
                write_exact(database, self._table, column, [(fid, value)])
        finally:
            source.close()
        state = LayerState(
            self._table, self._header.path, commit_id, self._schema, self._header.crs, self._fid,
            (),
        )  # fmt: skip
        write_state(database, state)


def table_names(paths: Sequence[str]) -> list[str]:
    """Return a layer name for each dataset: its path with `__` between its parts."""
    names: list[str] = []
    for path in paths:
        name = free_name(path.replace("/", "__"), names) if names else path.replace("/", "__")
        names.append(name)
    if not names:
        raise StorageError("there is no dataset to copy")
    return names


# Layers of an edit copy that comes back, as sources with the schema of their datasets.


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
