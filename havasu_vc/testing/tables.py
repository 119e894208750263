"""Hypothesis strategies for tables: schemas with columns of every type, and rows for them.

Rows are plain dicts by field id, the model that tests compare with, so that they mean
the same whatever columns are called. Values come from small pools with the extremes in
them: keys collide, edits meet, and nulls, NaNs and empty things turn up often.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

from havasu_vc.geo.wkb import to_canonical
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.rasters import raster_field
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    Decimal,
    Encoding,
    Field,
    Fixed,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    Type,
)

__all__ = [
    "Row",
    "batch_of",
    "canonical",
    "canonical_row",
    "evolved",
    "fields",
    "key_of",
    "key_order",
    "rasters",
    "rows_of",
    "schemas",
    "values",
]

Row: TypeAlias = dict[int, Any]
"""Values by field id."""

_UTC = datetime.UTC
_TIMES = (
    datetime.datetime(1, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(2020, 2, 29, 12, 30, 0, 1),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
)
_FLOATS = (0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, 1e30)
_TEXTS = ("", "a", "b", "Te Mata", "Te Mata Peak", "\U0001f30b", "z" * 40, "z" * 40 + "!", "\x00")
_BYTES = (*(text.encode() for text in _TEXTS), b"\xff" * 40, b"\xff" * 16)

_POOLS: dict[Primitive, st.SearchStrategy[Any]] = {
    Primitive.BOOLEAN: st.booleans(),
    Primitive.INT: st.sampled_from([0, 1, 2, 3, -1, 2**31 - 1, -(2**31)]),
    Primitive.LONG: st.sampled_from([0, 1, 2, 3, 4, 5, 6, -7, 2**63 - 1, -(2**63)]),
    Primitive.FLOAT: st.sampled_from([struct.unpack("f", struct.pack("f", f))[0] for f in _FLOATS]),
    Primitive.DOUBLE: st.sampled_from(_FLOATS) | st.floats(),
    Primitive.DATE: st.sampled_from([t.date() for t in _TIMES]),
    Primitive.TIME: st.sampled_from([t.time() for t in _TIMES]),
    Primitive.TIMESTAMP: st.sampled_from(_TIMES),
    Primitive.TIMESTAMPTZ: st.sampled_from([t.replace(tzinfo=_UTC) for t in _TIMES]),
    Primitive.STRING: st.sampled_from(_TEXTS),
    Primitive.UUID: st.sampled_from([bytes(16), b"\x01" * 16, b"\xff" * 16]),
    Primitive.BINARY: st.sampled_from(_BYTES),
}


def _wkb(kind: int, numbers: Sequence[float], *, srid: int | None, big: bool, count: int) -> bytes:
    order = ">" if big else "<"
    head = struct.pack(order + "BI", not big, kind | (0x20000000 if srid is not None else 0))
    if srid is not None:
        head += struct.pack(order + "i", srid)
    if count:
        head += struct.pack(order + "I", count)
    return head + struct.pack(f"{order}{len(numbers)}d", *numbers)


@st.composite
def _ewkb(draw: st.DrawFn) -> bytes:
    srid = draw(st.sampled_from([None, 0, 4326, 2193]))
    big = draw(st.booleans())
    coordinates = st.sampled_from([0.0, 1.0, -180.0, 90.0, 1e9])
    kind, size, count = draw(
        st.sampled_from([(1, 2, 0), (1 | 0x80000000, 3, 0), (2, 4, 2), (1 | 0xC0000000, 4, 0)])
    )
    numbers = [draw(coordinates) for _ in range(size)]
    if draw(st.integers(0, 9)) == 0 and not count:
        numbers = [math.nan] * size  # an empty point
    return _wkb(kind, numbers, srid=srid, big=big, count=count)


_GEOMETRIES: dict[Encoding, st.SearchStrategy[Any]] = {
    Encoding.EWKB: _ewkb(),
    Encoding.WKB: st.builds(
        lambda x, y, big: _wkb(1, [x, y], srid=None, big=big, count=0),
        st.sampled_from([0.0, 1.0, -180.0]),
        st.sampled_from([0.0, 2.5]),
        st.booleans(),
    ),
    Encoding.WKT: st.sampled_from(["POINT (1 2)", "LINESTRING (0 0, 1 1)", "POINT EMPTY"]),
    Encoding.GEOJSON: st.sampled_from(
        ['{"type":"Point","coordinates":[1,2]}', '{"type":"Point","coordinates":[-5.5,2]}']
    ),
}


def values(field: Field) -> st.SearchStrategy[Any]:
    """Values of a column, None among them unless it is required."""
    if field.raster is not None:
        found = rasters()
    else:
        found = _GEOMETRIES[field.geometry.encoding] if field.geometry else _of_type(field.type)
    return found if field.required else st.one_of(found, found, st.none())


_PIXELS = {4: 1, 5: 2, 10: 4, 11: 8}
_WGS84 = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]'
)


@st.composite
def rasters(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a raster as Python values: of any number of bands, without cells, of other files."""
    width, height, count = draw(
        st.sampled_from([(2, 1, 1), (1, 3, 2), (2, 2, 6), (0, 0, 1), (3, 0, 0), (1, 1, 4)])
    )
    kind = draw(st.sampled_from(sorted(_PIXELS)))
    band = st.fixed_dictionaries(
        {
            "pixel_type": st.just(kind),
            "no_data": st.sampled_from([None, b"\xff" * _PIXELS[kind]]),
            "data": st.sampled_from([b"\x00", b"\x01", b"\xff"]).map(
                lambda byte: byte * (width * height * _PIXELS[kind])
            ),
            "out_db_band_no": st.none(),
            "out_db_url": st.none(),
        }
    )
    elsewhere = band.map(
        lambda one: {**one, "data": None, "out_db_band_no": 1, "out_db_url": "tiles/a.tif"}
    )
    bands = [draw(st.one_of(band, band, elsewhere)) for _ in range(count)]
    named = {f"band_{n + 1}": bands[n] if n < count else None for n in range(4)}
    return {
        "width": width,
        "height": height,
        "num_bands": count,
        "crs_wkt": draw(st.sampled_from([None, _WGS84])),
        "geo_reference": {
            "scale_x": 0.5,
            "scale_y": -0.5,
            "skew_x": 0.0,
            "skew_y": 0.0,
            "upperleft_x": draw(st.sampled_from([0.0, 1.5, 179.75])),
            "upperleft_y": 45.0,
        },
        **named,
        "bands": bands[4:] or None,
    }


def _of_type(type_: Type) -> st.SearchStrategy[Any]:
    match type_:
        case Primitive():
            return _POOLS[type_]
        case Decimal(precision, scale):
            most = 10**precision - 1
            numbers = st.sampled_from([0, 1, -1, 25, most, -most])
            return numbers.map(
                lambda n: decimal.Context(prec=40).scaleb(decimal.Decimal(n), -scale)
            )
        case Fixed(length):
            return st.sampled_from([b"\x00", b"\x7f", b"\xff"]).map(lambda b: b * length)
        case Struct(inner):
            return st.fixed_dictionaries({field.name: values(field) for field in inner})
        case List(element):
            return st.lists(values(element), max_size=3)
        case Map(key, value):
            pairs = st.tuples(values(key), values(value))
            return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])


_KEYS: tuple[tuple[Type, ...], ...] = (
    (),
    (Primitive.LONG,),
    (Primitive.INT,),
    (Primitive.STRING,),
    (Primitive.STRING, Primitive.LONG),
    (Decimal(9, 2),),
    (Decimal(30, 3), Primitive.BOOLEAN),
    (Primitive.DATE, Primitive.TIMESTAMPTZ),
    (Primitive.TIMESTAMP, Primitive.TIME),
    (Primitive.UUID,),
    (Fixed(3), Primitive.INT),
    (Primitive.BINARY,),
    (Primitive.BOOLEAN, Primitive.BOOLEAN),
)
_NAMES = ("name", "höhe", "a.b", "a", "Größe (m)", "x y", "old", "new", "select", "b")


@st.composite
def types(draw: st.DrawFn, number: int, depth: int = 0) -> Type:
    """Draw any type; ids inside it count up from `number`."""
    simple: st.SearchStrategy[Type] = st.one_of(
        st.sampled_from(list(Primitive)),
        st.sampled_from([Decimal(4, 1), Decimal(18, 0), Decimal(38, 10), Fixed(5)]),
    )
    if depth > 1 or draw(st.integers(0, 3)):
        return draw(simple)
    inner = draw(types(number + 10, depth + 1))
    other = draw(types(number + 40, depth + 1))
    nested: list[Type] = [
        List(Field(number + 1, "element", inner)),
        Struct((Field(number + 1, "p", inner), Field(number + 2, "q", other))),
        Map(
            Field(number + 1, "key", Primitive.STRING, required=True),
            Field(number + 2, "value", inner),
        ),
    ]
    return draw(st.sampled_from(nested))


@st.composite
def fields(draw: st.DrawFn, number: int, name: str) -> Field:
    """Draw a column of any type that is no key."""
    if draw(st.integers(0, 3)) == 0:
        encoding = draw(st.sampled_from(list(Encoding)))
        type_ = Primitive.BINARY if encoding.is_binary else Primitive.STRING
        return Field(number, name, type_, geometry=Geometry(encoding))
    if draw(st.integers(0, 5)) == 0:
        return raster_field(number, name, number * 100)
    required = draw(st.integers(0, 4)) == 0
    return Field(number, name, draw(types(number * 100)), required=required)


@st.composite
def schemas(draw: st.DrawFn, *, keyed: bool | None = None) -> Schema:
    """Draw a schema with a key of any kind, or none, and a few columns of any type."""
    chosen = [key for key in _KEYS if keyed is None or bool(key) is keyed]
    key = draw(st.sampled_from(chosen))
    columns = [
        Field(number, f"k{number}", type_, required=True) for number, type_ in enumerate(key, 1)
    ]
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True))
    columns += [draw(fields(10 + index, name)) for index, name in enumerate(names)]
    return Schema(tuple(draw(st.permutations(columns))), tuple(range(1, len(key) + 1)))


@st.composite
def evolved(draw: st.DrawFn, schema: Schema, fresh: int) -> Schema:
    """Draw a schema that may follow another: columns dropped, added, renamed, moved, widened.

    `fresh` is an id that no column has had.
    """
    columns = list(schema.fields)
    keys = set(schema.identifier_ids)
    what = draw(st.sampled_from(["drop", "drop inside", "add", "rename", "move", "widen"]))
    match what:
        case "drop":
            free = [index for index, field in enumerate(columns) if field.id not in keys]
            if free and len(columns) > 1:
                del columns[draw(st.sampled_from(free))]
        case "drop inside":
            columns = [_inside(field, _shortened) for field in columns]
        case "add":
            added = replace(draw(fields(fresh, f"added {fresh}")), required=False)
            columns.insert(draw(st.integers(0, len(columns))), added)
        case "rename":
            index = draw(st.integers(0, len(columns) - 1))
            was = columns[index]
            columns[index] = replace(was, name=f"renamed {fresh}", physical_name=was.stored_name)
        case "move":
            columns = draw(st.permutations(columns))
        case "widen":
            columns = [_inside(field, _widened) for field in columns]
    return Schema(tuple(columns), schema.identifier_ids)


def _inside(field: Field, change: Callable[[Type], Type]) -> Field:
    # What is inside a raster is what its encoding says.
    return field if field.raster is not None else replace(field, type=change(field.type))


def _shortened(type_: Type) -> Type:
    if isinstance(type_, Struct) and len(type_.fields) > 1:
        return Struct(type_.fields[:-1])
    return type_


def _widened(type_: Type) -> Type:
    match type_:
        case Primitive.INT:
            return Primitive.LONG
        case Primitive.FLOAT:
            return Primitive.DOUBLE
        case Decimal(precision, scale) if precision < 38:
            return Decimal(precision + 1, scale)
        case Struct(inner):
            return Struct(tuple(replace(part, type=_widened(part.type)) for part in inner))
        case List(element):
            return List(replace(element, type=_widened(element.type)))
        case Map(key, value):
            return Map(key, replace(value, type=_widened(value.type)))
        case _:
            return type_


def rows_of(schema: Schema) -> st.SearchStrategy[Row]:
    """Rows of a schema."""
    return st.fixed_dictionaries({field.id: values(field) for field in schema.fields})


def batch_of(rows: Sequence[Row], schema: Schema) -> pa.RecordBatch:
    """Return rows as a batch in the stored types of a schema."""
    target = arrow_schema(schema)
    columns = [
        pa.array([row[field.id] for row in rows], wanted.type)
        for field, wanted in zip(schema.fields, target, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def canonical(value: Any, field: Field) -> Any:
    """Return what two values have in common exactly when they are equal, to compare or count."""
    if value is None:
        return None
    if field.geometry is not None:
        column = pa.array(
            [value], pa.binary() if field.geometry.encoding.is_binary else pa.string()
        )
        wkb, srids = to_canonical(column, field.geometry.encoding.value)
        return wkb[0].as_py(), 0 if srids is None else int(srids[0])
    match field.type:
        case Primitive.FLOAT | Primitive.DOUBLE:
            return "nan" if math.isnan(value) else struct.pack("d", value)
        case Primitive.TIMESTAMPTZ:
            return value.astimezone(_UTC)
        case Decimal(_, scale):
            return int(decimal.Context(prec=60).scaleb(value, scale))
        case Struct(inner):
            return tuple(canonical(value.get(part.name), part) for part in inner)
        case List(element):
            return tuple(canonical(item, element) for item in value)
        case Map(key, item):
            return tuple((canonical(k, key), canonical(v, item)) for k, v in value)
        case _:
            return value


def canonical_row(row: Row, schema: Schema) -> tuple[Any, ...]:
    """Return what two rows of a schema have in common exactly when they are equal."""
    return tuple(canonical(row[field.id], field) for field in schema.fields)


def key_of(row: Row, schema: Schema) -> tuple[Any, ...]:
    """Return the key of a row; the whole row when there is none."""
    if not schema.key:
        return canonical_row(row, schema)
    return tuple(row[field.id] for field in schema.key.fields)


def key_order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what sorts keys as Arrow does: text by its UTF-8."""
    return tuple(part.encode() if isinstance(part, str) else part for part in key)
