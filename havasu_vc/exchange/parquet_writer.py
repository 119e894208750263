"""GeoParquet and Parquet files out.

Columns get the types back that they first came as. GeoParquet describes geometries
in its `geo` document, plain Parquet by the GEOMETRY and GEOGRAPHY logical types. What
a file said of a geometry column when it was imported (edges, epoch, orientation, boxes
of its rows) is said again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.exchange.export_columns import Notes, OutgoingGeometry, type_name
from havasu_vc.exchange.formats import ExportFormat
from havasu_vc.exchange.geoarrow import NATIVE, NativeColumn
from havasu_vc.exchange.geoparquet import (
    BOX,
    VERSIONS,
    WrittenColumn,
    boxes_of,
    covering_columns,
    format_geo,
)
from havasu_vc.exchange.layout import JSON
from havasu_vc.exchange.native_tables import arrow_schema_text, file_crs, logical_type, projjson
from havasu_vc.geo.bounds import bounds_of, globe_row_bounds, united_globe_bounds
from havasu_vc.geo.buffers import byte_column
from havasu_vc.geo.extent import extents
from havasu_vc.geo.layout import scan
from havasu_vc.geo.text import geometry_types
from havasu_vc.model.arrow import source_type
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.evolution import to_source
from havasu_vc.model.rasters import without_gaps
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reason_of

__all__ = ["ParquetForm", "row_groups_of", "write_parquet", "write_rows"]

_GROUP_ROWS = 65_536
_GROUP_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ParquetForm:
    """How a file describes its geometries."""

    with_geo: bool = True
    """By the `geo` document of GeoParquet; else by Parquet's own types."""
    version: str = VERSIONS[-1]
    """The version of GeoParquet; by default the newest."""
    covering: bool | None = None
    """In GeoParquet write the box of each row to a column `bbox`, by which readers skip rows; by
    default as the dataset came."""
    native: bool = True
    """In GeoParquet, how geometries that came in a native encoding go out, by default in it."""

    def check(self) -> None:
        """Refuse what contradicts itself."""
        if self.covering and (not self.with_geo or self.version == VERSIONS[0]):
            raise InvalidArgumentError(
                "columns of bounding boxes are described by GeoParquet 1.1 alone",
                hints=("write --to geoparquet, without --geoparquet-version 1.0",),
            )


class _Seen:
    """Measures of one geometry column while it was written."""

    def __init__(
        self, geometry: OutgoingGeometry, covering: str | None, native: NativeColumn | None
    ) -> None:
        self.geometry = geometry
        self.covering = covering
        self.native = native
        self.codes: set[int] = set()
        self.area: tuple[float, float, float, float] | None = None
        self.heights: tuple[float, float] | None = None

    def look(self, wkb: pa.Array) -> None:
        codes = geometry_types(wkb)
        self.codes |= codes
        if any(code // 1000 in (1, 3) for code in codes):
            self._look_at_heights(wkb)
        edges = self.geometry.field.edges
        if edges is not None:
            known = [] if self.area is None else [self.area]
            rows = globe_row_bounds(wkb, "wkb", edges)
            self.area = united_globe_bounds(np.vstack([*known, rows]))
            return
        found = bounds_of(wkb, "wkb")
        if found is not None:
            box = found if self.area is None else Bounds(*self.area).union(found)
            self.area = (box.xmin, box.ymin, box.xmax, box.ymax)

    def _look_at_heights(self, wkb: pa.Array) -> None:
        z = extents(scan(byte_column(wkb))).envelopes[:, 4:]
        z = z[~np.isnan(z).any(axis=1)]
        if len(z):
            low, high = self.heights or (np.inf, -np.inf)
            self.heights = min(low, float(z[:, 0].min())), max(high, float(z[:, 1].max()))

    def _box(self) -> tuple[float, ...] | None:
        if self.area is None:
            return None
        low, high = self.heights or (None, None)
        west, south, east, north = self.area
        corners = (west, south, low, east, north, high)
        box = tuple(each for each in corners if each is not None)
        return box if all(map(math.isfinite, box)) else None

    def written(self, notes: Notes) -> WrittenColumn:
        names = tuple(type_name(code) for code in self.codes)
        if any(code >= 2000 for code in self.codes):
            notes.say(
                f"column {self.geometry.field.name!r} has M values, which GeoParquet does not know"
            )
            names = ()
        said = dict(self.geometry.field.extra)
        moved = self.geometry.source != self.geometry.target
        return WrittenColumn(
            names,
            projjson(self.geometry.target),
            self._box(),
            _edges(self.geometry),
            self.covering,
            # Coordinates of another system are of no epoch that is known.
            None if moved else _number(said.get("epoch")),
            said.get("orientation"),
            "WKB" if self.native is None else self.native.encoding,
        )


def write_rows(
    path: Path,
    header: DatasetHeader,
    geometries: Mapping[str, OutgoingGeometry],
    batches: Iterator[pa.RecordBatch],
    *,
    format: ExportFormat,
    notes: Notes,
    form: ParquetForm,
) -> int:
    """Write the rows of a dataset, as the registry of formats calls it."""
    return write_parquet(path, header.schema, geometries, batches, notes=notes, form=form)


def write_parquet(
    path: Path,
    schema: Schema,
    geometries: Mapping[str, OutgoingGeometry],
    batches: Iterator[pa.RecordBatch],
    *,
    notes: Notes,
    form: ParquetForm,
) -> int:
    """Write a file and return the number of rows."""
    form.check()
    natives = _natives(geometries, form)
    fields = [_field(field, geometries, natives, form) for field in schema.fields]
    boxes = _boxes(schema, geometries, form)
    fields += [pa.field(name, BOX) for name in boxes.values()]
    arrow = pa.schema(fields)
    for name, geometry in geometries.items():
        _note_edges(name, geometry, notes)
    seen = {
        name: _Seen(geometry, boxes.get(name), natives.get(name))
        for name, geometry in geometries.items()
    }
    rows = 0
    try:
        with pq.ParquetWriter(path, arrow, compression="zstd", store_schema=False) as writer:
            for group in row_groups_of(batches):
                table = [_converted(batch, schema, arrow, seen) for batch in group]
                writer.write_table(pa.Table.from_batches(table, arrow), _GROUP_ROWS)
                rows += sum(batch.num_rows for batch in group)
            common: dict[str, bytes] = {}
            if form.with_geo and seen:
                written = {name: column.written(notes) for name, column in seen.items()}
                primary = next(iter(seen))
                geo = format_geo(written, primary, version=form.version)
                writer.add_key_value_metadata({"geo": geo})
                # Readers open a folder by the schema of one of its files, so that schema
                # says what holds of all of them.
                any_of_them = {
                    name: replace(each, geometry_types=(), bbox=None)
                    for name, each in written.items()
                }
                common["geo"] = format_geo(any_of_them, primary, version=form.version)
            said = arrow_schema_text(arrow, geometries.values(), common)
            writer.add_key_value_metadata({"ARROW:schema": said})
    except OSError as error:
        raise StorageError(f"{path.name} cannot be written: {reason_of(error)}") from error
    return rows


def row_groups_of(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches together that make a row group of a good size."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if held and (rows + batch.num_rows > _GROUP_ROWS or size + batch.nbytes > _GROUP_BYTES):
            yield held
            held, rows, size = [], 0, 0
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if held:
        yield held


def _converted(
    batch: pa.RecordBatch, schema: Schema, arrow: pa.Schema, seen: Mapping[str, _Seen]
) -> pa.RecordBatch:
    originals = to_source(batch, schema)
    columns = []
    boxes: list[pa.Array] = []
    for wanted, column in zip(arrow, originals.columns, strict=False):
        if wanted.name in seen:
            column = seen[wanted.name].geometry.canonical(batch.column(wanted.name))
            seen[wanted.name].look(column)
            if seen[wanted.name].covering is not None:
                boxes.append(boxes_of(column, seen[wanted.name].geometry.field.edges))
            if (native := seen[wanted.name].native) is not None:
                column = native.values(column)
        if isinstance(wanted.type, pa.BaseExtensionType):
            column = pa.ExtensionArray.from_storage(wanted.type, column)
        columns.append(without_gaps(column, wanted))
    return pa.RecordBatch.from_arrays([*columns, *boxes], schema=arrow)


def _boxes(
    schema: Schema, geometries: Mapping[str, OutgoingGeometry], form: ParquetForm
) -> Mapping[str, str]:
    """Return which geometry columns get a column of boxes, in the schema's order."""
    if not form.with_geo or form.version == VERSIONS[0]:
        return {}
    written = [field for field in schema.fields if field.name in geometries]
    return covering_columns(written, schema.names, form.covering)


def _natives(
    geometries: Mapping[str, OutgoingGeometry], form: ParquetForm
) -> dict[str, NativeColumn]:
    """Return the columns that go out in a native encoding, which version 1.0 does not know."""
    if not form.with_geo or not form.native or form.version == VERSIONS[0]:
        return {}
    found = {
        name: NativeColumn.parse(name, dict(geometry.field.extra).get(NATIVE, ""))
        for name, geometry in geometries.items()
    }
    return {name: native for name, native in found.items() if native is not None}


def _number(text: str | None) -> float | None:
    try:
        number = None if text is None else float(text)
    except ValueError:
        return None
    return number if number is None or math.isfinite(number) else None


def _field(
    field: Field,
    geometries: Mapping[str, OutgoingGeometry],
    natives: Mapping[str, NativeColumn],
    form: ParquetForm,
) -> pa.Field:
    type_ = source_type(field)
    if field.name in natives:
        type_ = natives[field.name].type
    elif field.name in geometries:
        geometry = geometries[field.name]
        type_ = pa.binary() if form.with_geo else logical_type(geometry, file_crs(geometry))
    elif field.type is Primitive.UUID:
        type_ = pa.uuid()
    elif field.source_type == JSON:
        type_ = pa.json_()
    return pa.field(field.name, type_, nullable=not field.required)


def _edges(geometry: OutgoingGeometry) -> str | None:
    # Neither Arrow nor GeoParquet has words for the ways of edges on an ellipsoid.
    return "spherical" if geometry.field.edges else None


def _note_edges(name: str, geometry: OutgoingGeometry, notes: Notes) -> None:
    edges = geometry.field.edges
    if edges not in (None, "spherical"):
        notes.say(
            f"the edges of column {name!r} run by {edges!r}, which cannot be written; "
            "the file says 'spherical'"
        )
