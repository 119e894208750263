"""GeoPackage, Shapefile, GeoJSON and FlatGeobuf files out, written by GDAL as a stream."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, UnsupportedTypeError
from havasu_vc.exchange.export_columns import (
    Notes,
    Outgoing,
    OutgoingGeometry,
    outgoing,
    type_name,
)
from havasu_vc.exchange.formats import ExportFormat, GdalForm, format_written
from havasu_vc.exchange.gdal import one_line, require_whole, write_stream
from havasu_vc.exchange.gdal_keys import free_name, key_plan
from havasu_vc.exchange.ogr_formats import read_only
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import overlapping, ranges
from havasu_vc.geo.crs import common_code, nameless_definition
from havasu_vc.geo.layout import scan
from havasu_vc.geo.text import geometry_types
from havasu_vc.geo.wkb import layout_column
from havasu_vc.model import compute as pc
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

__all__ = [
    "GdalLayer",
    "LayerShape",
    "layer_shape",
    "write_gdal",
    "write_rows",
]

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
    form: GdalForm = field(default_factory=GdalForm)
    """The form that is asked of GDAL."""


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
    wanted = form if isinstance(form, GdalForm) else GdalForm()
    name = wanted.layer or path.stem
    metadata = layer_metadata(header, name, path)
    layer = GdalLayer(name, header.schema, geometries, metadata, wanted)
    return write_gdal(path, layer, batches, format=format, notes=notes)


def _is_taken(path: Path, title: str, layer: str) -> bool:
    """Whether another layer of a GeoPackage that is there has a title, which no two may have."""
    if path.suffix.lower() != ".gpkg" or not path.exists():
        return False
    query = "SELECT 1 FROM gpkg_contents WHERE identifier = ? AND table_name != ?"
    with closing(sqlite3.connect(read_only(str(path)), uri=True)) as database:
        return database.execute(query, (title, layer)).fetchone() is not None


def layer_metadata(header: DatasetHeader, name: str, path: Path) -> dict[str, str]:
    """Return title and description as a GeoPackage has them, which may have other layers."""
    title, description = header.meta.get("title"), header.meta.get("description")
    identifier = str(title).strip() if title else name
    return {
        "IDENTIFIER": f"{name}: {identifier}" if _is_taken(path, identifier, name) else identifier,
        "DESCRIPTION": str(description).strip() if description else "",
    }


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
    shapeless = format is ExportFormat.SHAPEFILE and layer.form.shapeless and main is None
    if (
        format in (ExportFormat.SHAPEFILE, ExportFormat.FLATGEOBUF)
        and main is None
        and not shapeless
    ):
        raise InvalidArgumentError(
            f"{format.label} needs geometries, and this dataset has none",
            hints=("export to .csv, .gpkg or .parquet",),
        )
    if main is not None and (layer.form.drop_null or layer.form.drop_empty):
        batches = _with_geometry(batches, layer, main)
    shape = None
    if main is not None:
        position = layer.schema.names.index(main)
        shape, batches = layer_shape(layer.geometries[main], position, batches, format)
    columns = [_column(each, layer, format, notes, shape=shape) for each in layer.schema.fields]
    columns = _renamed(columns, format, notes)
    plan = key_plan(layer.schema, columns, layer.form, format, notes)
    if shapeless:
        notes.say("the table has no geometries, so no row of the shapefile has a shape")
        nothing = Outgoing("geometry", pa.binary(), _nothing)
        plan = replace(plan, columns=(*plan.columns, (0, nothing)))
    columns, key = [column for _, column in plan.columns], plan.key
    _refuse_equal_names([column.name for column in columns], format)
    schema = pa.schema([pa.field(column.name, column.type) for column in columns])
    count = [0]

    def converted() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if key is not None:
                _refuse_minus_one(batch.column(key), key)
            count[0] += batch.num_rows
            arrays = [
                _typed(column.convert(batch.column(position)), column.type)
                for position, column in plan.columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    how = _how(layer, format, shape, plan.fid, schema.names)
    if shapeless:
        how |= {"geometry_name": "geometry", "geometry_type": "Unknown", "crs": None}
    warned = _write(path, schema, converted(), how, format, count)
    if layer.form.asks_gdal:
        _tell_warnings(warned, notes)
    if format is ExportFormat.CSV:
        notes.say("GDAL writes this CSV, with numbers of 15 digits and times to the millisecond")
    return count[0]


def _write(
    path: Path,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    how: Mapping[str, Any],
    format: ExportFormat,
    count: Sequence[int],
) -> list[str]:
    """Have GDAL write a file, as a whole, and return what it warned of."""
    named = _named(path, format)
    warned = write_stream(str(named), schema, batches, how)
    if format is not ExportFormat.GPKG and count[0]:
        require_whole(str(named), str(how["layer"]), count[0], end=_ENDS.get(format))
    if named != path:
        named.replace(path)
    return warned


_ENDS = {
    ExportFormat.GEOJSON: b"\n}\n",
    ExportFormat.GEOJSONSEQ: b"\n",
    ExportFormat.CSV: b"\n",
}
"""The ends of texts."""
_ENDINGS = {ExportFormat.CSV: ".csv", ExportFormat.FLATGEOBUF: ".fgb"}


def _named(path: Path, format: ExportFormat) -> Path:
    """Return the path under which GDAL writes a file: under another name it makes a folder."""
    ending = _ENDINGS.get(format, path.suffix)
    return path if path.suffix.lower() == ending.lower() else path.with_name(path.name + ending)


_WRONG_VALUE = re.compile(r"is an unexpected value for|not understood")
_LOST_TEXT = re.compile(r"couldn't be converted correctly from UTF-8 to (\S+?)\.? ")
_OTHER_TYPE = re.compile(
    r"geometry of type (.+) is inserted into layer .* of geometry type ([^,]+)"
)


def _tell_warnings(warned: Sequence[str], notes: Notes) -> None:
    """Say what GDAL warned of where it was asked for something, and refuse what it cannot do."""
    for line in warned:
        if found := _LOST_TEXT.search(line):
            raise InvalidArgumentError(
                f"a text has characters that {found[1]} has not",
                hints=("leave ENCODING out: texts are UTF-8 then",),
            )
        if _WRONG_VALUE.search(line):
            raise InvalidArgumentError(f"GDAL: {one_line(ValueError(line))}")
        if found := _OTHER_TYPE.search(line):
            line = f"rows of {found[1]} are in a layer that is declared as {found[2]}"
        notes.say(line)


def _nothing(values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), pa.binary())


def _with_geometry(
    batches: Iterator[pa.RecordBatch], layer: GdalLayer, main: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that have a geometry, one that is not empty if so asked."""
    position = layer.schema.names.index(main)
    geometry = layer.geometries[main]
    for batch in batches:
        column = batch.column(position)
        kept = np.asarray(pc.is_valid(column))
        if layer.form.drop_empty:
            bounds = row_bounds(geometry.canonical(column), "wkb")
            kept = kept & ~np.isnan(bounds[:, 0])
        yield batch.filter(pa.array(kept))


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
    fid: str | None,
    names: Sequence[str],
) -> dict[str, Any]:
    how: dict[str, Any] = {"layer": layer.name, "driver": format_written(format).driver or "CSV"}
    options: dict[str, str] = {}
    if shape is not None:
        how |= geometry_options(shape.geometry, shape.shape)
    if format is ExportFormat.GPKG:
        options["FID"] = fid or free_name("fid", names)
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
    elif format is ExportFormat.CSV and shape is not None:
        options["GEOMETRY"] = "AS_WKT"  # without that it has no place for them, and fails
    elif format is ExportFormat.GEOJSONSEQ:
        options["COORDINATE_PRECISION"] = "17"  # decimal places; 7 if nothing is said
    wanted = layer.form
    if shape is not None and wanted.geometry_type is not None:
        asked = " ".join(wanted.geometry_type.upper().split())
        how["geometry_type"] = _geometry_type(None if asked == "GEOMETRY" else asked)
        if how["geometry_type"] == "Unknown" and asked != "GEOMETRY":
            raise InvalidArgumentError(
                f"{wanted.geometry_type!r} is no type of geometries",
                hints=("such as POINT, 'MULTIPOLYGON Z' or GEOMETRY",),
            )
    # GDAL takes the names of options in any case, and what is asked for counts.
    given = {name.upper() for name in wanted.layer_options}
    options = {name: text for name, text in options.items() if name.upper() not in given}
    options |= wanted.layer_options
    if format is ExportFormat.SHAPEFILE:
        # pyogrio takes it as an argument alone.
        for name in [name for name in options if name.upper() == "ENCODING"]:
            how["encoding"] = options.pop(name) or "UTF-8"
    how["layer_options"] = options
    if wanted.dataset_options:
        how["dataset_options"] = dict(wanted.dataset_options)
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


# Geometries that a format cannot hold, found before GDAL drops a part of them.
#
# GDAL writes what fits and says nothing: a Z that the layer was not declared with, an M
# in GeoJSON, a row without geometry that decides a shapefile's type. So the type of a
# layer is told from its schema or its first rows, and every batch is held against it.

_DECLARED = (ExportFormat.FLATGEOBUF, ExportFormat.SHAPEFILE)
_JSON = (ExportFormat.GEOJSON, ExportFormat.GEOJSONSEQ)
_FAMILIES = {1: "points", 2: "lines", 5: "lines", 3: "polygons", 6: "polygons", 4: "multipoints"}
_CURVED = (8, 9, 10, 11, 12)
_HINTS = ("export to GeoParquet or GeoPackage, which hold any geometry",)


@dataclass(frozen=True, slots=True)
class LayerShape:
    """The declared shape of a layer's geometries, and the check that they have it."""

    geometry: OutgoingGeometry
    """The column."""
    format: ExportFormat
    """The format."""
    shape: str | None
    """The type to declare, such as `POINT Z`; None for any."""
    codes: frozenset[int] = field(default_factory=frozenset)
    """Type codes of the first rows."""

    def checked(self, column: pa.Array) -> pa.Array:
        """Return a stored column as WKB.

        Raises `UnsupportedTypeError` when the layer cannot hold it.
        """
        wkb = self.geometry.canonical(column)
        codes = geometry_types(wkb)
        if self.format in _JSON:
            self._note_json(codes)
        if self.format in (*_JSON, ExportFormat.SHAPEFILE):
            self._refuse_infinite(wkb)
        if self.format in (*_JSON, *_DECLARED):
            wkb = self._without_empty(wkb)
        if self.format in _DECLARED:
            self._refuse_other(codes)
        return wkb

    def _note_json(self, codes: set[int]) -> None:
        name = self.geometry.field.name
        if any(code >= 2000 for code in codes):
            self._say(f"column {name!r} loses its M values in GeoJSON, which has none")
        if any(code % 1000 in _CURVED for code in codes):
            self._say(f"curves in column {name!r} become lines and polygons in GeoJSON")

    def _refuse_infinite(self, wkb: pa.Array) -> None:
        """Refuse coordinates that are no numbers; GDAL writes nulls in their place, or fails."""
        if _has_infinite(wkb):
            raise self._refused("has no coordinates that are NaN or infinite, and a value has")

    def _say(self, line: str) -> None:
        notes: Notes = self.geometry.notes
        notes.say(line)

    def _without_empty(self, wkb: pa.Array) -> pa.Array:
        """Return nulls for empty geometries, with which GDAL fails where it does not do so."""
        there = np.asarray(pc.is_valid(wkb))
        empty = np.isnan(row_bounds(wkb, "wkb")[:, 0]) & there
        if not empty.any():
            return wkb
        name = self.geometry.field.name
        self._say(f"empty geometries of column {name!r} become nulls in {self.format.label}")
        return pc.if_else(pa.array(empty), pa.scalar(None, wkb.type), wkb)

    def _refuse_other(self, codes: set[int]) -> None:
        dimensions = {code // 1000 for code in self.codes | codes}
        if self.format is ExportFormat.FLATGEOBUF:
            announced = self.geometry.field.geometry
            one_type = self.shape and not (announced and announced.announces_any)
            mixed = one_type and {type_name(code).upper() for code in codes} - {self.shape}
            if mixed or dimensions - {_dimensions(self.shape)}:
                raise self._refused("holds Z and M where all rows have them and are of one type")
            return
        if len(dimensions) > 1:
            raise self._refused("has Z and M in all rows or in none")
        families = {_FAMILIES.get(code % 1000, "other types") for code in self.codes | codes}
        if len(families) > 1 or "other types" in families:
            raise self._refused(f"holds one kind of geometry, not {' and '.join(sorted(families))}")

    def _refused(self, why: str) -> UnsupportedTypeError:
        return UnsupportedTypeError(
            self.geometry.field.name, f"{self.format.label} {why}", hints=_HINTS
        )


def _has_infinite(wkb: pa.Array) -> bool:
    """Whether an X, Y or Z is no finite number; empty points, which are all NaN, aside."""
    layout = scan(layout_column(wkb, "wkb"))
    there = layout.count > 0
    count = layout.count[there]
    places = ranges(layout.start[there], count, 8 * layout.ordinates[there])
    numbers = overlapping(layout.column.data, "<f8")
    x, y = numbers[places], numbers[places + 8]
    wrong = ~(np.isfinite(x) & np.isfinite(y))
    high = np.repeat(layout.dimensions[there] & 1, count) == 1
    wrong[high] |= ~np.isfinite(numbers[places[high] + 16])
    empty = np.repeat(layout.kind[there] == 1, count) & np.isnan(x) & np.isnan(y)
    return bool((wrong & ~empty).any())


def _dimensions(shape: str | None) -> int:
    said = shape.partition(" ")[2] if shape else ""
    return {"": 0, "Z": 1, "M": 2, "ZM": 3}.get(said, 0)


def layer_shape(
    geometry: OutgoingGeometry,
    column: int,
    batches: Iterator[pa.RecordBatch],
    format: ExportFormat,
) -> tuple[LayerShape, Iterator[pa.RecordBatch]]:
    """Return the shape of a layer, looking at its first batch if need be, and all batches."""
    announced = geometry.field.geometry.shape if geometry.field.geometry is not None else None
    if format not in _DECLARED:
        shape = None if format in _JSON else announced
        return LayerShape(geometry, format, shape), batches
    first = next(batches, None)
    if first is None:
        return LayerShape(geometry, format, announced), batches
    codes = geometry_types(geometry.canonical(first.column(column)))
    shape = announced
    if shape is None and codes:
        shape = _common(codes, format)
    return LayerShape(geometry, format, shape, frozenset(codes)), chain([first], batches)


def _common(codes: set[int], format: ExportFormat) -> str | None:
    """Return the type that all of the first rows have."""
    if len(codes) == 1:
        return type_name(next(iter(codes))).upper()
    families = {(_FAMILIES.get(code % 1000), code // 1000) for code in codes}
    if format is ExportFormat.SHAPEFILE and len(families) == 1:
        return type_name(max(codes)).upper()  # the type of several parts
    return None
