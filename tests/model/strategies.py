"""Hypothesis strategies for fields, types and schemas, and columns of Arrow values."""

from __future__ import annotations

from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from havasu_vc.model.rasters import raster_type
from havasu_vc.model.schema import Schema, can_identify
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

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
maybe_names = st.none() | names
decimals = st.integers(1, 38).flatmap(
    lambda precision: st.builds(Decimal, st.just(precision), st.integers(0, precision))
)
simple_types = st.sampled_from(Primitive) | decimals | st.builds(Fixed, st.integers(1, 40))


class Ids:
    """Gives each field of one schema an id of its own."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._last = 0

    def next(self) -> int:
        """Return the next id."""
        self._last += self._draw(st.sampled_from((1, 2, 1000)))
        return self._last


def _type(draw: st.DrawFn, ids: Ids, depth: int) -> Type:
    kind = draw(st.sampled_from(("simple", "simple", "struct", "list", "map")))
    if kind == "simple" or depth == 0:
        return draw(simple_types)
    if kind == "struct":
        inner = draw(st.lists(names, min_size=1, max_size=3, unique=True))
        return Struct(tuple(_part(draw, ids, name, depth) for name in inner))
    if kind == "list":
        return List(_part(draw, ids, "element", depth, plain=True))
    key = _part(draw, ids, "key", 1, plain=True, required=True)
    return Map(key, _part(draw, ids, "value", depth, plain=True))


def _part(
    draw: st.DrawFn,
    ids: Ids,
    name: str,
    depth: int,
    *,
    plain: bool = False,
    required: bool | None = None,
) -> Field:
    number = ids.next()
    return Field(
        number,
        name,
        _type(draw, ids, depth - 1),
        required=draw(st.booleans()) if required is None else required,
        doc=None if plain else draw(maybe_names),
        source_type=draw(st.none() | st.sampled_from(("int8", "duration[s]"))),
        physical_name=draw(maybe_names),
    )


def _column(draw: st.DrawFn, ids: Ids, name: str) -> Field:
    kind = draw(st.sampled_from(("plain", "plain", "plain", "geometry", "raster")))
    if kind == "plain":
        return _part(draw, ids, name, 3)
    if kind == "raster":
        return Field(ids.next(), name, raster_type(ids.next), raster="v1")
    encoding = draw(st.sampled_from(Encoding))
    return Field(
        ids.next(),
        name,
        Primitive.BINARY if encoding.is_binary else Primitive.STRING,
        geometry=Geometry(encoding, draw(maybe_names), draw(maybe_names)),
        extra=draw(st.sampled_from(((), (("edges", "spherical"), ("maker", "x"))))),
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Draw any schema."""
    ids = Ids(draw)
    columns = draw(st.lists(names, max_size=5, unique=True))
    fields = tuple(_column(draw, ids, name) for name in columns)
    able = [field.id for field in fields if can_identify(field)]
    chosen = draw(st.lists(st.sampled_from(able), unique=True)) if able else []
    return Schema(fields, tuple(sorted(chosen)))


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
integers = {
    type_: st.integers(*limits)
    for type_, limits in (
        (pa.int8(), (-(2**7), 2**7 - 1)),
        (pa.int16(), (-(2**15), 2**15 - 1)),
        (pa.int32(), (-(2**31), 2**31 - 1)),
        (pa.int64(), (-(2**63), 2**63 - 1)),
        (pa.uint8(), (0, 2**8 - 1)),
        (pa.uint16(), (0, 2**16 - 1)),
        (pa.uint32(), (0, 2**32 - 1)),
        (pa.uint64(), (0, 2**64 - 1)),
    )
}
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
blobs = st.binary(max_size=30)


def _whole(type_: pa.DataType, factor: int = 1) -> st.SearchStrategy[pa.Array]:
    # Some 200 years around 1970, which every unit can hold.
    limit = 7 * 10**9 * _PER_SECOND[type_.unit] // factor
    numbers = st.integers(-limit, limit).map(lambda n: n * factor)
    return _of(pa.int64(), numbers).map(lambda array: array.cast(type_))


def _times(type_: pa.DataType, a_day: int) -> st.SearchStrategy[pa.Array]:
    storage = pa.int32() if type_.bit_width == 32 else pa.int64()
    return st.lists(st.none() | st.integers(0, a_day - 1), max_size=6).map(
        lambda values: pa.array(values, storage).cast(type_)
    )


def _of(type_: pa.DataType, values: st.SearchStrategy[Any]) -> st.SearchStrategy[pa.Array]:
    return st.lists(st.none() | values, max_size=6).map(lambda items: pa.array(items, type_))


DAY = 24 * 60 * 60
ARRAYS: dict[str, st.SearchStrategy[pa.Array]] = {
    **{str(type_): _of(type_, values) for type_, values in integers.items()},
    "bool": _of(pa.bool_(), st.booleans()),
    "halffloat": _of(pa.float32(), st.floats(width=16)).map(lambda array: array.cast(pa.float16())),
    "float": _of(pa.float32(), st.floats(width=32)),
    "double": _of(pa.float64(), st.floats()),
    "decimal": _of(pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    "decimal256": _of(pa.decimal256(38, 0), st.integers(0, 10**37).map(Number)),
    "string": _of(pa.string(), texts),
    "large_string": _of(pa.large_string(), texts),
    "string_view": _of(pa.string_view(), texts),
    "binary": _of(pa.binary(), blobs),
    "large_binary": _of(pa.large_binary(), blobs),
    "binary_view": _of(pa.binary_view(), blobs),
    "fixed": _of(pa.binary(3), st.binary(min_size=3, max_size=3)),
    "uuid": _of(pa.binary(16), st.binary(min_size=16, max_size=16)).map(
        lambda array: pa.ExtensionArray.from_storage(pa.uuid(), array)
    ),
    "date32": _of(pa.int32(), st.integers(-700_000, 2_900_000)).map(lambda a: a.cast(pa.date32())),
    "date64": _of(pa.int32(), st.integers(-700_000, 2_900_000)).map(
        lambda a: a.cast(pa.date32()).cast(pa.date64())
    ),
    "time32[s]": _times(pa.time32("s"), DAY),
    "time32[ms]": _times(pa.time32("ms"), DAY * 10**3),
    "time64[us]": _times(pa.time64("us"), DAY * 10**6),
    "time64[ns]": _of(pa.int64(), st.integers(0, DAY * 10**6 - 1).map(lambda n: n * 1000)).map(
        lambda a: a.cast(pa.time64("ns"))
    ),
    "timestamp[s]": _whole(pa.timestamp("s")),
    "timestamp[us]": _whole(pa.timestamp("us")),
    "timestamp[ns]": _whole(pa.timestamp("ns"), 1000),
    "timestamp[ms, UTC]": _whole(pa.timestamp("ms", "UTC")),
    "timestamp[us, zone]": _whole(pa.timestamp("us", "Pacific/Auckland")),
    "duration[s]": _whole(pa.duration("s")),
    "duration[ns]": _whole(pa.duration("ns")),
    "dictionary": _of(pa.string(), texts).map(
        lambda array: array.dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
    ),
    "list": _of(pa.list_(pa.int16()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "large_list": _of(pa.large_list(pa.string()), st.lists(st.none() | texts, max_size=3)),
    "fixed_size_list": _of(
        pa.list_(pa.float32(), 2), st.lists(st.floats(width=32), min_size=2, max_size=2)
    ),
    "struct": _of(
        pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.string()))]),
        st.fixed_dictionaries(
            {"a": st.none() | st.integers(0, 255), "b": st.none() | st.lists(texts, max_size=2)}
        ),
    ),
    "map": _of(
        pa.map_(pa.string(), pa.uint16()),
        st.lists(st.tuples(texts, st.none() | st.integers(0, 9)), max_size=2),
    ),
    "null": st.integers(0, 4).map(pa.nulls),
}
"""Columns of every Arrow type that can be imported."""
