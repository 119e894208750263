"""CSV files out: geometries as WKT, a null as nothing, an empty text as two quotes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv

from havasu_vc.errors import StorageError
from havasu_vc.exchange.export_columns import (
    Notes,
    Outgoing,
    OutgoingGeometry,
    outgoing,
)
from havasu_vc.exchange.formats import ExportFormat
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.store.disk import reason_of

__all__ = ["write_csv", "write_rows"]


def write_rows(
    path: Path,
    header: DatasetHeader,
    geometries: Mapping[str, OutgoingGeometry],
    batches: Iterator[pa.RecordBatch],
    *,
    format: ExportFormat,
    notes: Notes,
    form: object,
) -> int:
    """Write the rows of a dataset, as the registry of formats calls it."""
    return write_csv(path, header.schema, geometries, batches, notes=notes)


def write_csv(
    path: Path,
    schema: Schema,
    geometries: Mapping[str, OutgoingGeometry],
    batches: Iterator[pa.RecordBatch],
    *,
    notes: Notes,
) -> int:
    """Write a file and return the number of rows."""
    columns = []
    for field in schema.fields:
        geometry = geometries.get(field.name)
        if geometry is None:
            columns.append(outgoing(field, ExportFormat.CSV, notes))
        else:
            columns.append(Outgoing(field.name, pa.string(), _Wkt(geometry)))
    arrow = pa.schema([pa.field(column.name, column.type) for column in columns])
    delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
    rows = 0
    try:
        with pacsv.CSVWriter(
            path, arrow, write_options=pacsv.WriteOptions(delimiter=delimiter)
        ) as writer:
            for batch in batches:
                arrays = [
                    column.convert(values)
                    for column, values in zip(columns, batch.columns, strict=True)
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=arrow))
                rows += batch.num_rows
    except OSError as error:
        raise StorageError(f"{path.name} cannot be written: {reason_of(error)}") from error
    return rows


class _Wkt:
    """Turns stored geometries into WKT."""

    def __init__(self, geometry: OutgoingGeometry) -> None:
        self._geometry = geometry

    def __call__(self, column: pa.Array) -> pa.Array:
        return geometry_bytes.from_canonical(self._geometry.canonical(column), None, "wkt")
