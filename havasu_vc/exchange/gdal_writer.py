"""GeoPackage, Shapefile, GeoJSON and FlatGeobuf files out, written by GDAL as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import InvalidArgumentError, UnsupportedTypeError
from havasu_vc.exchange.export_columns import ExportFormat, Notes, Outgoing, outgoing
from havasu_vc.exchange.export_geometry import OutgoingGeometry
from havasu_vc.exchange.export_shapes import LayerShape, layer_shape
from havasu_vc.exchange.gdal import write_stream
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.crs import common_code, nameless_definition
from havasu_vc.model.schema import Schema
from havasu_vc.model.type_table import is_whole
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

__all__ = ["GdalLayer", "write_gdal"]

_DRIVERS = {
    ExportFormat.GPKG: "GPKG",
    ExportFormat.SHAPEFILE: "ESRI Shapefile",
    ExportFormat.GEOJSON: "GeoJSON",
    ExportFormat.GEOJSONSEQ: "GeoJSONSeq",
    ExportFormat.FLATGEOBUF: "FlatGeobuf",
}
_LONGEST_SHAPEFILE_NAME = 10
_KINDS = (
    "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon",
    "GeometryCollection",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GdalLayer:
    """A layer to be written."""

    name: str
    """The name of the layer."""
    schema: Schema
    """Its columns."""
    geometries: Mapping[str, OutgoingGeometry]
    """Its geometry columns."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Title and description, under the names GDAL has for them."""


def write_gdal(
    path: Path,
    layer: GdalLayer,
    batches: Iterator[pa.RecordBatch],
    *,
    format: ExportFormat,
    notes: Notes,
) -> int:
    """Write a layer and return the number of rows."""
    main = next(iter(layer.geometries), None)
    if format in (ExportFormat.SHAPEFILE, ExportFormat.FLATGEOBUF) and main is None:
        raise InvalidArgumentError(
            f"{format.label} needs geometries, and this dataset has none",
            hints=("export to .csv, .gpkg or .parquet",),
        )
    key = _integer_key(layer.schema) if format is ExportFormat.GPKG else None
    shape = None
    if main is not None:
        position = layer.schema.names.index(main)
        shape, batches = layer_shape(layer.geometries[main], position, batches, format)
    columns = [_column(each, layer, format, notes, shape=shape) for each in layer.schema.fields]
    columns = _renamed(columns, format, notes)
    _refuse_equal_names([column.name for column in columns], format)
    schema = pa.schema([pa.field(column.name, column.type) for column in columns])
    count = [0]

    def converted() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if key is not None:
                _refuse_minus_one(batch.column(key), key)
            count[0] += batch.num_rows
            arrays = [
                _typed(column.convert(values), column.type)
                for column, values in zip(columns, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    how = _how(layer, format, shape, key, schema.names)
    write_stream(str(path), schema, converted(), how)
    return count[0]


def _typed(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, values)
    return values


def _column(
    column: Field,
    layer: GdalLayer,
    format: ExportFormat,
    notes: Notes,
    *,
    shape: LayerShape | None,
) -> Outgoing:
    geometry = layer.geometries.get(column.name)
    if geometry is None:
        return outgoing(column, format, notes)
    if shape is not None and column.name == shape.geometry.field.name:
        return Outgoing(column.name, pa.binary(), shape.checked)
    if format is ExportFormat.SHAPEFILE:
        raise UnsupportedTypeError(
            column.name,
            "a shapefile has one geometry column",
            hints=("leave the column out with --columns",),
        )
    notes.say(f"column {column.name!r} becomes WKT, since {format.label} has one geometry column")

    def text(values: pa.Array) -> pa.Array:
        return geometry_bytes.from_canonical(geometry.canonical(values), None, "wkt")

    return Outgoing(column.name, pa.string(), text)


def _integer_key(schema: Schema) -> str | None:
    """Return the one whole-number column that is the key, if the key is one."""
    fields = schema.key.fields
    if len(fields) == 1 and is_whole(fields[0].type):
        return fields[0].name
    return None


def _refuse_minus_one(values: pa.Array, name: str) -> None:
    # GDAL takes -1 for "no feature id", and numbers the row itself.
    if pc.any(pc.equal(values, -1)).as_py():
        raise UnsupportedTypeError(
            name,
            "GeoPackage cannot have the key -1, and a row has it",
            hints=("export to GeoParquet",),
        )


def _renamed(columns: Sequence[Outgoing], format: ExportFormat, notes: Notes) -> list[Outgoing]:
    """Return columns with names that a shapefile can have."""
    if format is not ExportFormat.SHAPEFILE:
        return list(columns)
    taken: set[str] = set()
    renamed = []
    for column in columns:
        name = _short(column.name, taken) if column.type != pa.binary() else column.name
        taken.add(name.lower())
        if name != column.name:
            notes.say(f"column {column.name!r} is called {name!r} in a shapefile")
        renamed.append(replace(column, name=name))
    return renamed


def _short(name: str, taken: set[str]) -> str:
    for number in range(1000):
        tail = f"_{number}" if number else ""
        room = _LONGEST_SHAPEFILE_NAME - len(tail)
        # Bytes are counted, and a character is not cut in two.
        short = name.encode()[:room].decode(errors="ignore") + tail
        if short.lower() not in taken:
            return short
    raise UnsupportedTypeError(name, "too many columns begin alike for a shapefile")


def _refuse_equal_names(names: Sequence[str], format: ExportFormat) -> None:
    """Refuse names that differ in case alone: GDAL writes both columns into the first."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise UnsupportedTypeError(
                name,
                f"{format.label} does not tell it from column {other!r}",
                hints=("leave one of them out with --columns",),
            )


def _how(
    layer: GdalLayer,
    format: ExportFormat,
    shape: LayerShape | None,
    key: str | None,
    names: Sequence[str],
) -> dict[str, Any]:
    how: dict[str, Any] = {"layer": layer.name, "driver": _DRIVERS[format]}
    options: dict[str, str] = {}
    if shape is not None:
        how |= geometry_options(shape.geometry, shape.shape)
    if format is ExportFormat.GPKG:
        options["FID"] = key or _free("fid", names)
        if shape is not None:
            options["GEOMETRY_NAME"] = shape.geometry.field.name
        options |= layer.metadata
    elif format is ExportFormat.SHAPEFILE:
        how["encoding"] = "UTF-8"
    elif format is ExportFormat.FLATGEOBUF:
        # With an index it refuses rows without geometry, and holds all rows back to sort them.
        options["SPATIAL_INDEX"] = "NO"
    elif format is ExportFormat.GEOJSON:
        options["SIGNIFICANT_FIGURES"] = "17"  # every double comes back as it was
    elif format is ExportFormat.GEOJSONSEQ:
        options["COORDINATE_PRECISION"] = "17"  # decimal places; 7 if nothing is said
    how["layer_options"] = options
    return how


def geometry_options(geometry: OutgoingGeometry, shape: str | None) -> dict[str, Any]:
    """Return what GDAL must know of a geometry column of that shape."""
    return {
        "geometry_name": geometry.field.name,
        "geometry_type": _geometry_type(shape),
        "crs": _crs_text(geometry),
    }


def _crs_text(geometry: OutgoingGeometry) -> str | None:
    crs = geometry.target
    if crs is None:
        return None
    if crs.identifier == "OGC:CRS84":
        return crs.identifier
    own = crs.identifier.startswith("CUSTOM:") or common_code(crs) is not None
    return crs.wkt if own else nameless_definition(crs)


def _free(wanted: str, names: Sequence[str]) -> str:
    lower = {name.lower() for name in names}
    candidates = (wanted, f"_{wanted}", *(f"{wanted}_{number}" for number in range(1000)))
    return next(name for name in candidates if name not in lower)


def _geometry_type(shape: str | None) -> str:
    if shape is None:
        return "Unknown"
    word, _, dimensions = shape.partition(" ")
    kind = next((each for each in _KINDS if each.upper() == word), None)
    if kind is None:
        return "Unknown"
    if shape == "POINT M":
        return "PointM"  # the one that pyogrio calls otherwise
    forms = {"": kind, "Z": f"{kind} Z", "M": f"Measured {kind}", "ZM": f"Measured 3D {kind}"}
    return forms.get(dimensions, "Unknown")
