"""Columns in a foreign format: what becomes of each is decided before a row is read.

A format either holds a column as it is, holds it otherwise (a note says how), or
cannot hold it (an error that names the column). A few losses depend on the values and
are found on the way: they are either noted or stop the export, never silent.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.errors import CrsError, UnsupportedTypeError
from havasu_vc.exchange.export_values import (
    as_gdal_keeps,
    has_far_years,
    has_trimmed,
    is_too_wide,
)
from havasu_vc.exchange.formats import ExportFormat
from havasu_vc.exchange.layout import JSON
from havasu_vc.formats.havasu.entry import from_scalar
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.reproject import transform
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Decimal, Field, Fixed, List, Map, Primitive, Struct, Type
from havasu_vc.records import dataclass

__all__ = [
    "Notes",
    "Outgoing",
    "OutgoingGeometry",
    "format_json",
    "hex_text",
    "outgoing",
    "outgoing_geometry",
    "parse_json",
    "type_name",
    "uuid_text",
]


Convert = Callable[[pa.Array], pa.Array]


_JSON_FORMATS = (ExportFormat.GEOJSON, ExportFormat.GEOJSONSEQ)
_LONGEST_SHAPEFILE_TEXT = 254
_FIRST_LONG_SHAPEFILE_INTEGER = 10**18


@dataclass(slots=True)
class Notes:
    """Notes of an export for a person, each thing once."""

    lines: list[str] = field(default_factory=list)
    """In the order in which they came up."""

    def say(self, line: str) -> None:
        """Add a line unless it is there."""
        if line not in self.lines:
            self.lines.append(line)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A column on its way out."""

    name: str
    """Its name there."""
    type: pa.DataType
    """The Arrow type that the writer is given."""
    convert: Convert
    """From the stored type to that."""


def outgoing(column: Field, format: ExportFormat, notes: Notes) -> Outgoing:
    """Return what a column without geometries becomes.

    Raises `UnsupportedTypeError` if the format cannot hold it in any way.
    """
    plan = _Planner(column, format, notes)
    type_, convert = plan.decide()
    return Outgoing(column.name, type_, convert)


def _same(column: pa.Array) -> pa.Array:
    return column


@dataclass(frozen=True, slots=True)
class _Planner:
    """Decides for one column."""

    column: Field
    format: ExportFormat
    notes: Notes

    def decide(self) -> tuple[pa.DataType, Convert]:
        column, format = self.column, self.format
        if is_nested(column):
            return self._nested()
        match column.type:
            case Primitive.BOOLEAN:
                return pa.bool_(), _same
            case Primitive.INT | Primitive.LONG:
                return self._integer()
            case Primitive.FLOAT | Primitive.DOUBLE:
                return self._floating()
            case Primitive.DATE:
                return self._date()
            case Primitive.TIME:
                if format not in (ExportFormat.CSV, *_JSON_FORMATS):
                    self._say("becomes text")
                return self._text(lambda values: values.cast(pa.string()))
            case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
                return self._moment()
            case Primitive.STRING:
                type_, convert = self._text(_same)
                return (pa.json_(), convert) if self._is_json() else (type_, convert)
            case Primitive.UUID:
                return self._text(uuid_text)
            case Primitive.BINARY | Fixed():
                return self._bytes()
            case Decimal():
                return self._decimal(column.type)
        raise UnsupportedTypeError(column.name, f"{format.label} has no {column.type}")

    def _say(self, what: str) -> None:
        self.notes.say(f"column {self.column.name!r} {what} in {self.format.label}")

    def _refuse(self, why: str) -> UnsupportedTypeError:
        return UnsupportedTypeError(
            self.column.name,
            f"{self.format.label} {why}",
            hints=("leave the column out with --columns, or export to GeoParquet",),
        )

    def _is_json(self) -> bool:
        holds = (ExportFormat.GPKG, *_JSON_FORMATS)
        return self.column.source_type == JSON and self.format in holds

    def _nested(self) -> tuple[pa.DataType, Convert]:
        type_ = self.column.type
        if self.format is ExportFormat.SHAPEFILE:
            raise self._refuse(f"has no {type_}")
        if self.format not in _JSON_FORMATS:
            self._say("becomes JSON text")
        typed = self.format not in (ExportFormat.CSV, ExportFormat.FLATGEOBUF)

        def convert(values: pa.Array) -> pa.Array:
            return self._no_nul(format_json(values, type_))

        return (pa.json_() if typed else pa.string()), convert

    def _integer(self) -> tuple[pa.DataType, Convert]:
        column = self.column
        if (column.source_type or "").startswith("duration"):
            unit = (column.source_type or "")[9:-1]
            self._say(f"becomes a number of {unit}")
        if column.type is Primitive.INT:
            small = column.source_type in ("int8", "uint8", "int16")
            if small and self.format not in (ExportFormat.CSV, *_JSON_FORMATS):
                return pa.int16(), self._short
            return pa.int32(), _same
        if self.format is ExportFormat.SHAPEFILE:
            return pa.int64(), self._short_enough
        return pa.int64(), _same

    def _short(self, values: pa.Array) -> pa.Array:
        try:
            return values.cast(pa.int16())
        except pa.ArrowInvalid as error:
            raise self._refuse(f"was to hold it as int16: {error}") from error

    def _short_enough(self, values: pa.Array) -> pa.Array:
        limit = _FIRST_LONG_SHAPEFILE_INTEGER
        over = pc.or_(pc.greater_equal(values, limit), pc.less_equal(values, -limit))
        if pc.any(over).as_py():
            raise self._refuse("holds whole numbers of 18 digits at most")
        if pc.any(pc.less_equal(values, -limit // 10)).as_py():
            self._say("has numbers of 19 characters, of which GDAL reads 16 digits,")
        return values

    def _date(self) -> tuple[pa.DataType, Convert]:
        if self.format is ExportFormat.CSV:
            return pa.date32(), _same
        if self.format in _JSON_FORMATS:
            return pa.string(), lambda values: values.cast(pa.string())
        if self.format is ExportFormat.FLATGEOBUF:
            self._say("becomes a date with a time of midnight")
        return pa.date32(), self._in_known_years

    def _in_known_years(self, values: pa.Array) -> pa.Array:
        if has_far_years(values):
            raise self._refuse("holds the years from 1 to 9999, and a value is of another")
        return values

    def _floating(self) -> tuple[pa.DataType, Convert]:
        if self.format is ExportFormat.SHAPEFILE:
            self._say("is kept to 15 decimal places")
        type_ = pa.float32() if self.column.type is Primitive.FLOAT else pa.float64()
        return type_, self._note_missing_numbers

    def _note_missing_numbers(self, values: pa.Array) -> pa.Array:
        if self.format is ExportFormat.SHAPEFILE and is_too_wide(values):
            raise self._refuse("holds numbers of 23 digits before the point at most")
        if self.format is ExportFormat.GPKG and pc.any(pc.is_nan(values)).as_py():
            self._say("has NaN, which becomes null")
        if self.format in _JSON_FORMATS and not pc.all(pc.is_finite(values)).as_py():
            self._say("has NaN or infinities, which become null")
        return values

    def _moment(self) -> tuple[pa.DataType, Convert]:
        zoned = self.column.type is Primitive.TIMESTAMPTZ
        stored = pa.timestamp("us", tz="UTC" if zoned else None)
        if self.format is ExportFormat.CSV:
            return stored, _same
        if self.format in (ExportFormat.SHAPEFILE, *_JSON_FORMATS):
            if self.format is ExportFormat.SHAPEFILE:
                self._say("becomes text")
            pattern = "%Y-%m-%dT%H:%M:%S" + ("Z" if zoned else "")
            return pa.string(), lambda values: pc.strftime(values, pattern)
        return stored, self._milliseconds

    def _milliseconds(self, values: pa.Array) -> pa.Array:
        kept = as_gdal_keeps(self._in_known_years(values))
        if pc.any(pc.not_equal(kept.cast(pa.int64()), values.cast(pa.int64()))).as_py():
            self._say("is cut to milliseconds, before 1970 to seconds here and there,")
        return kept

    def _text(self, convert: Convert) -> tuple[pa.DataType, Convert]:
        if self.format is ExportFormat.SHAPEFILE:
            return pa.string(), lambda values: self._no_long(self._no_nul(convert(values)))
        return pa.string(), lambda values: self._no_nul(convert(values))

    def _no_nul(self, values: pa.Array) -> pa.Array:
        if pc.any(pc.match_substring(values, "\x00")).as_py():
            raise self._refuse("cannot hold text with a NUL character, and a value has one")
        return values

    def _no_long(self, values: pa.Array) -> pa.Array:
        longest = pc.max(pc.binary_length(values)).as_py() or 0
        if longest > _LONGEST_SHAPEFILE_TEXT:
            raise self._refuse(f"holds text of 254 bytes at most, and a value has {longest}")
        if has_trimmed(values):
            self._say("has text that is empty or has blanks around it, which is null or trimmed")
        return values

    def _bytes(self) -> tuple[pa.DataType, Convert]:
        if self.format in (ExportFormat.GPKG, ExportFormat.FLATGEOBUF):
            return pa.binary(), lambda values: values.cast(pa.binary())
        if self.format is ExportFormat.SHAPEFILE:
            raise self._refuse("has no bytes")
        self._say("becomes hexadecimal text")
        return pa.string(), hex_text

    def _decimal(self, type_: Decimal) -> tuple[pa.DataType, Convert]:
        if self.format is ExportFormat.CSV:
            return pa.string(), lambda values: values.cast(pa.string())
        if type_.scale == 0 and type_.precision <= 18:
            self._say("becomes a whole number")
            return pa.int64(), lambda values: values.cast(pa.int64())
        if type_.precision <= 15:
            # Fifteen digits come back from a double as they were.
            self._say("becomes a floating-point number")
            return pa.float64(), lambda values: values.cast(pa.float64())
        self._say(f"becomes text, so that its {type_.precision} digits are not rounded,")
        return self._text(lambda values: values.cast(pa.string()))


def uuid_text(values: pa.Array) -> pa.Array:
    """Return a column of 16 bytes as UUIDs are written."""
    plain = hex_text(values)
    cuts = (0, 8, 12, 16, 20, 32)
    parts = [
        pc.utf8_slice_codeunits(plain, start, stop)
        for start, stop in zip(cuts[:-1], cuts[1:], strict=True)  # noqa: RUF007
    ]
    return pc.binary_join_element_wise(*parts, "-")


_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8)


def hex_text(values: pa.Array) -> pa.Array:
    """Return a column of bytes as hexadecimal text."""
    values = values.cast(pa.large_binary())
    count = len(values)
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, count + 1, values.offset * 8)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
    used = data[offsets[0] : offsets[-1]]
    text = _HEX.reshape(256, 2)[used]
    moved = (offsets - offsets[0]) * 2
    buffers = [None, pa.py_buffer(moved), pa.py_buffer(np.ascontiguousarray(text))]
    whole = pa.Array.from_buffers(pa.large_string(), count, buffers).cast(pa.string())
    return pc.if_else(pc.is_valid(values), whole, pa.scalar(None, pa.string()))


# Geometries on their way out: from a column's encoding and system to the one wanted.

_NAMES = (
    "Geometry", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString",
    "MultiPolygon", "GeometryCollection", "CircularString", "CompoundCurve", "CurvePolygon",
    "MultiCurve", "MultiSurface", "Curve", "Surface", "PolyhedralSurface", "TIN", "Triangle",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutgoingGeometry:
    """A geometry column on its way out."""

    field: Field
    """As the dataset has it."""
    source: Crs | None
    """Its coordinate reference system; None when unknown."""
    target: Crs | None
    """The one it is written in."""
    notes: Notes

    def canonical(self, column: pa.Array) -> pa.Array:
        """Return a stored column as little-endian ISO WKB in the target system."""
        if self.field.geometry is None:
            raise ValueError(f"{self.field.name!r} is no geometry column")
        wkb, srids = geometry_bytes.to_canonical(column, self.field.geometry.encoding.value)
        if srids is not None:
            known = {0, self.source.srid if self.source else 0}
            if not set(np.unique(srids).tolist()) <= known:
                self.notes.say(
                    f"the SRIDs that values of column {self.field.name!r} have of their own "
                    "are left out"
                )
        if self.source is not None and self.target is not None and self.source != self.target:
            wkb = transform(wkb, self.source, self.target)
        return wkb


def outgoing_geometry(
    field: Field, crs: Mapping[str, str], wanted: Crs | None, notes: Notes
) -> OutgoingGeometry:
    """Return how a geometry column goes out.

    Raises `CrsError` if another system is wanted and the column's is not known.
    """
    source = None
    if field.geometry is not None and field.geometry.crs is not None:
        source = _known(field.geometry.crs, crs)
    if wanted is not None and source is None:
        raise CrsError(
            f"column {field.name!r} has no coordinate reference system to transform from",
            hints=("set the dataset's first",),
        )
    return OutgoingGeometry(field, source, wanted or source, notes)


def _known(identifier: str, crs: Mapping[str, str]) -> Crs:
    """Return a dataset's system: its own definition under its own name."""
    if identifier not in crs:
        return parse_crs(identifier)
    parsed = parse_crs(crs[identifier])
    return Crs(identifier, parsed.wkt, parsed.srid)


def type_name(code: int) -> str:
    """Return the name of an ISO type code.

    >>> type_name(1), type_name(3006)
    ('Point', 'MultiPolygon ZM')
    """
    kind, dimensions = code % 1000, ("", " Z", " M", " ZM")[code // 1000]
    return (_NAMES[kind] if kind < len(_NAMES) else "Geometry") + dimensions


# Nested values as JSON text and back, exactly.
#
# For formats that know only flat columns. Lists and structs are JSON's own; a map is a
# list of pairs, because its keys need not be text. Bytes are hexadecimal, decimals,
# dates and times are text, and floats that are no numbers are written as Python does
# (`NaN`, `Infinity`). Read back with the type at hand, every value is what it was.
# Each value goes through Python one by one; flat columns never come here.


def format_json(column: pa.Array, type_: Type) -> pa.Array:
    """Return a nested column as JSON text; null stays null."""
    texts = [
        None if value is None else json.dumps(_plain(value, type_), ensure_ascii=False)
        for value in column.to_pylist()
    ]
    return pa.array(texts, pa.string())


def parse_json(column: pa.Array, type_: Type) -> pa.Array:
    """Return what `format_json` was given.

    Raises `ValueError` for text that is not JSON, or not of that type.
    """
    values = []
    for text in column.to_pylist():
        try:
            values.append(None if text is None else _typed(json.loads(text), type_))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{text[:60]!r} is not a {type_}") from error
    try:
        return pa.array(values, arrow_type(type_))
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise ValueError(f"a value does not fit {type_}: {error}") from error


def _plain(value: Any, type_: Type) -> Any:
    """Return a value in what JSON has."""
    if value is None:
        return None
    match type_:
        case Struct(fields):
            return {field.name: _plain(value[field.name], field.type) for field in fields}
        case List(element):
            return [_plain(each, element.type) for each in value]
        case Map(key, item):
            return [[_plain(k, key.type), _plain(v, item.type)] for k, v in value]
        case _:
            return _plain_leaf(value)


def _plain_leaf(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case decimal.Decimal():
            return str(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return value


def _typed(value: Any, type_: Type) -> Any:
    """Return a value of JSON as Arrow takes it for a type."""
    if value is None:
        return None
    match type_:
        case Struct(fields):
            if not (isinstance(value, dict) and value.keys() <= {each.name for each in fields}):
                raise TypeError
            return {field.name: _typed(value.get(field.name), field.type) for field in fields}
        case List(element):
            return [_typed(each, element.type) for each in _list(value)]
        case Map(key, item):
            return [(_typed(k, key.type), _typed(v, item.type)) for k, v in _list(value)]
        case _:
            return _typed_leaf(value, type_)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _typed_leaf(value: Any, type_: Type) -> Any:
    match type_:
        case Fixed() | Primitive.BINARY | Primitive.UUID:
            return bytes.fromhex(value)
        case Decimal():
            return decimal.Decimal(str(value))
        case Primitive.DATE | Primitive.TIME | Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return from_scalar(value, type_)
        case Primitive.INT | Primitive.LONG:
            if type(value) is not int and not (type(value) is float and value.is_integer()):
                raise TypeError  # Arrow would cut 1.5 to 1
            return int(value)
        case Primitive.FLOAT | Primitive.DOUBLE if isinstance(value, int):
            return float(value) if math.isfinite(value) else value
        case _:
            return value


def is_nested(field: Field) -> bool:
    """Whether a column holds lists, structs or maps."""
    return isinstance(field.type, List | Struct | Map)
