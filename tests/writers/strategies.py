"""Random schemas and change batches of every type."""

from datetime import UTC, date
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import shapely
from hypothesis import strategies as st

from havasu_vc.model.changes import ChangeBatch
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
from tests.writers.cases import FID, batch

P = Primitive
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COORDINATES = st.floats(-1e6, 1e6)
NAMES = st.text("abcXYZ é\"'\\\n\x1b", min_size=1, max_size=6)

VALUES: dict[Type, st.SearchStrategy[Any]] = {
    P.BOOLEAN: st.booleans(),
    P.INT: st.integers(-(2**31), 2**31 - 1),
    P.LONG: st.integers(-(2**63), 2**63 - 1),
    P.FLOAT: st.floats(width=32),
    P.DOUBLE: st.floats(),
    P.DATE: st.dates(date(1, 1, 1)),
    P.TIME: st.times(),
    P.TIMESTAMP: st.datetimes(),
    P.TIMESTAMPTZ: st.datetimes(timezones=st.just(UTC)),
    P.STRING: TEXT,
    P.UUID: st.binary(min_size=16, max_size=16),
    P.BINARY: st.binary(max_size=9),
    Fixed(3): st.binary(min_size=3, max_size=3),
    Decimal(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Number(n).scaleb(-2)),
    Decimal(38, 30): st.integers(-(10**37), 10**37).map(lambda n: Number(f"{n}E-30")),
}


@st.composite
def fields(draw: st.DrawFn, ids: Any, name: str, depth: int) -> Field:
    """Return a field of any type."""
    number = next(ids)
    kind = draw(st.sampled_from(["leaf"] * 4 + ["struct", "list", "map"] * (depth > 0)))
    if kind == "struct":
        inner = [
            draw(fields(ids, f"part {at}", depth - 1)) for at in range(draw(st.integers(1, 2)))
        ]
        return Field(number, name, Struct(tuple(inner)))
    if kind == "list":
        return Field(number, name, List(draw(fields(ids, "element", depth - 1))))
    if kind == "map":
        key = Field(next(ids), "key", draw(st.sampled_from([P.STRING, P.INT])), required=True)
        return Field(number, name, Map(key, draw(fields(ids, "value", depth - 1))))
    return Field(number, name, draw(st.sampled_from(list(VALUES))))


def values(field: Field) -> st.SearchStrategy[Any]:
    """Return values of a field, null among them unless it is required."""
    return present(field) if field.required else st.none() | present(field)


def present(field: Field) -> st.SearchStrategy[Any]:
    """Return values of a field that are not null."""
    if field.geometry is not None:
        return geometries(field.geometry)
    match field.type:
        case Struct(parts):
            return st.fixed_dictionaries({part.name: values(part) for part in parts})
        case List(element):
            return st.lists(values(element), max_size=3)
        case Map(key, value):
            pairs = st.tuples(values(key), values(value))
            return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
        case _:
            return VALUES[field.type]


@st.composite
def geometries(draw: st.DrawFn, geometry: Geometry) -> Any:
    """Return a geometry as a column of some encoding holds it."""
    z = draw(st.booleans())
    size = 3 if z else 2
    vertex = st.lists(COORDINATES, min_size=size, max_size=size)
    first, second, third = draw(vertex), draw(vertex), draw(vertex)
    shape = draw(
        st.sampled_from(
            [
                shapely.Point(first),
                shapely.LineString([first, second]),
                shapely.Polygon([first, second, third]),
                shapely.MultiPoint([first, second]),
                shapely.MultiLineString([[first, second], [second, third]]),
                shapely.MultiPolygon([shapely.Polygon([first, second, third])]),
                shapely.GeometryCollection([shapely.Point(first)]),
                shapely.Polygon(),
            ]
        )
    )
    if geometry.encoding is Encoding.EWKB:
        shape = shapely.set_srid(shape, draw(st.sampled_from([0, 4326])))
        return shapely.to_wkb(shape, include_srid=True, byte_order=1)
    return shapely.to_wkb(shape, flavor="iso", byte_order=1)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Return a schema with a key."""
    ids = iter(range(2, 1000))
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    columns = [draw(fields(ids, name, 2)) for name in names]
    for encoding in draw(st.lists(st.sampled_from([Encoding.EWKB, Encoding.WKB]), max_size=2)):
        number = next(ids)
        columns.append(Field(number, f"g{number}", P.BINARY, geometry=Geometry(encoding)))
    place = draw(st.integers(0, len(columns)))
    return Schema((*columns[:place], FID, *columns[place:]), (1,))


@st.composite
def diff_parts(draw: st.DrawFn) -> tuple[Schema, list[ChangeBatch]]:
    """Return a schema and some change batches."""
    schema = draw(schemas())
    row = st.fixed_dictionaries({field.name: values(field) for field in schema.fields})
    change = st.tuples(st.none() | row, st.none() | row).filter(any)
    changes = draw(st.lists(change, max_size=5))
    keyed = []
    for number, sides in enumerate(changes):
        old, new = (side and side | {"fid": number} for side in sides)
        keyed.append((old, new))
    cut = draw(st.integers(0, len(keyed)))
    return schema, [batch(schema, schema, *part) for part in (keyed[:cut], keyed[cut:])]


def comparable(batches: list[ChangeBatch]) -> str:
    """Return changes as text that tells all but the bits of NaN apart."""
    tables = [pa.Table.from_batches([each.data]) for each in batches if len(each)]
    return repr([row for table in tables for row in table.to_pylist()])
