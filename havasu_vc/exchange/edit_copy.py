"""Copies of datasets to edit in QGIS: a GeoPackage that remembers its commit.

Written as a whole or not at all. Read back, each layer is a source with the schema
and the exact values of its dataset, so a copy that nobody edited has no changes. Rows
that are gone were deleted, rows with new ids are new; columns that were added, dropped
or renamed are a new schema. A key of one whole number is the feature id; with any
other key the feature id is a column of its own that the dataset does not have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import InvalidArgumentError, StorageError, UnsupportedTypeError
from havasu_vc.exchange.edit_reading import EditedLayer, open_edited_layer
from havasu_vc.exchange.edit_state import (
    LayerState,
    open_state,
    read_states,
    srid_column,
    write_exact,
    write_state,
)
from havasu_vc.exchange.edit_values import (
    EditForm,
    edit_form,
    exact_values,
    free_name,
    integer_key,
    refuse_equal_names,
)
from havasu_vc.exchange.export import Written, replacing
from havasu_vc.exchange.export_columns import Notes, outgoing_geometry
from havasu_vc.exchange.gdal import write_stream
from havasu_vc.exchange.gdal_writer import geometry_options, layer_metadata
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

__all__ = ["EditCopy", "EditedLayer", "LayerToEdit", "read_edit_copy", "write_edit_copy"]


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

        options = {"FID": self._fid, **layer_metadata(self._header, self._table)}
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
