"""Features read together give what they give value by value, or are left to that."""

from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, UnsupportedTypeError
from havasu_vc.formats.kart.columns import kart_schema, legend_of
from havasu_vc.formats.kart.features import FeatureDecoder, FeatureEncoder, decode_raw
from havasu_vc.formats.kart.packed import Kind, head_of, legend_of_first, packed_columns
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Encoding, Field, Geometry, Primitive
from havasu_vc.testing.tables import batch_of, rows_of, schemas

LEGEND = "a" * 40
KEY = Field(1, "id", Primitive.LONG, required=True)
GPKG = bytes.fromhex("4750000100000000" + "0101000000000000000000f03f0000000000000040")
SCHEMA = kart_schema(
    Schema(
        (
            KEY,
            Field(2, "whole", Primitive.INT),
            Field(3, "number", Primitive.DOUBLE),
            Field(4, "truth", Primitive.BOOLEAN),
            Field(5, "text", Primitive.STRING),
            Field(6, "data", Primitive.BINARY),
            Field(7, "day", Primitive.DATE),
            Field(8, "clock", Primitive.TIME),
            Field(9, "moment", Primitive.TIMESTAMPTZ),
            Field(10, "price", Decimal(8, 2)),
            Field(11, "place", Primitive.BINARY, geometry=Geometry(Encoding.EWKB)),
        ),
        (1,),
    )
)
WIDTH = len(SCHEMA.fields) - 1
WHOLE = [0, 1, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1]
VALUES: list[Any] = [
    None,
    True,
    False,
    *WHOLE,
    *(-number - 1 for number in WHOLE),
    2**64 - 1,
    0.5,
    -0.0,
    float("nan"),
    float("inf"),
    "",
    "x",
    "é" * 40,
    "y" * 300,
    b"",
    b"z" * 300,
    "2018-11-05",
    "10:20:30.5",
    "10:20:30Z",
    "2018-11-05T10:20:30.12Z",
    "123.40",
    msgpack.ExtType(71, GPKG),
    msgpack.ExtType(71, b"GP"),
    msgpack.ExtType(72, GPKG),
    [1],
    {"a": 1},
]


def one_by_one(decoder: FeatureDecoder, keys: list[list[int]], blobs: list[bytes]) -> Any:
    """Return the rows as they are read value by value, or None where one cannot be."""
    try:
        return decoder.rows(keys, decode_raw(blobs, str), str)
    except CorruptDatasetError:
        return None


def agree(schema: Schema, blobs: list[bytes]) -> None:
    decoder = FeatureDecoder(schema, {LEGEND: legend_of(schema)})
    keys = [list(range(len(blobs)))]
    wanted = one_by_one(decoder, keys, blobs)
    try:
        found = decoder.decode(keys, blobs, str)
    except CorruptDatasetError:
        found = None
    assert (found is None) == (wanted is None)
    if wanted is not None:
        found.validate(full=True)
        assert found.schema.equals(wanted.schema)
        for name in schema.names:  # NaN is no NaN to Arrow's own comparison
            assert str(found.column(name)) == str(wanted.column(name)), name


@given(st.lists(st.lists(st.sampled_from(VALUES), min_size=WIDTH, max_size=WIDTH), min_size=1))
def test_any_values_in_any_column(rows: list[list[Any]]) -> None:
    agree(SCHEMA, [msgpack.packb([LEGEND, row]) for row in rows])


_OF_COLUMN: list[list[Any]] = [
    [None, *(n for n in WHOLE if n < 2**31), -1, -32, -33, -128, -129, -32768, -32769, -(2**31)],
    [None, 0.5, -0.0, float("nan"), float("inf"), 1, -7, 2**53, 1e308],
    [None, True, False],
    [None, "", "x", "é" * 40, "y" * 300, "z" * 70_000],
    [None, b"", b"x", b"z" * 300, b"z" * 70_000],
    [None, "2018-11-05", "0001-01-01"],
    [None, "10:20:30", "10:20:30.5Z"],
    [None, "2018-11-05T10:20:30.12Z", "2018-11-05T10:20:30"],
    [None, "123.40", "-0.01", "7"],
    [None, msgpack.ExtType(71, GPKG)],
]


@given(
    st.lists(st.tuples(*(st.sampled_from(values) for values in _OF_COLUMN)), min_size=1),
)
def test_plain_values_are_never_left_to_the_slower_way(rows: list[tuple[Any, ...]]) -> None:
    blobs = [msgpack.packb([LEGEND, list(row)]) for row in rows]
    agree(SCHEMA, blobs)
    assert legend_of_first(blobs) == LEGEND
    kinds = [
        *(Kind.WHOLE, Kind.FLOAT, Kind.TRUTH, Kind.TEXT, Kind.BYTES),
        *(Kind.TEXT, Kind.TEXT, Kind.TEXT, Kind.TEXT, Kind.GEOMETRY),
    ]
    found = packed_columns(blobs, head_of(LEGEND, WIDTH), WIDTH, dict(enumerate(kinds)))
    assert found is not None and sorted(found) == list(range(WIDTH))


@given(st.data())
def test_damaged_bytes_are_seen_by_both_or_read_alike(data: st.DataObject) -> None:
    rows = data.draw(
        st.lists(
            st.tuples(*(st.sampled_from(values) for values in _OF_COLUMN)), min_size=1, max_size=3
        )
    )
    blobs = [bytearray(msgpack.packb([LEGEND, list(row)])) for row in rows]
    for _ in range(data.draw(st.integers(1, 3))):
        blob = data.draw(st.sampled_from(blobs))
        at = data.draw(st.integers(0, min(len(blob), 200)))
        match data.draw(st.sampled_from(["change", "cut", "add"])):
            case "change" if at < len(blob):
                blob[at] = data.draw(st.integers(0, 255))
            case "cut":
                del blob[at:]
            case _:
                blob[at:at] = data.draw(st.binary(max_size=3))
    agree(SCHEMA, [bytes(blob) for blob in blobs])


@given(st.data())
def test_rows_of_any_schema(data: st.DataObject) -> None:
    try:
        schema = kart_schema(data.draw(schemas(keyed=True)))
    except UnsupportedTypeError:
        return
    if len(schema.identifier_ids) != 1:
        return
    try:
        batch = batch_of(data.draw(st.lists(rows_of(schema), min_size=1, max_size=4)), schema)
    except (pa.ArrowException, OverflowError):
        return
    agree(schema, FeatureEncoder(schema, LEGEND).encode(batch))


@pytest.mark.parametrize("size", [2**8 - 1, 2**8, 2**16 - 1, 2**16, 2**20])
def test_long_values(size: int) -> None:
    row = [7, 0.5, True, "t" * size, b"b" * size, None, None, None, None, None]
    agree(SCHEMA, [msgpack.packb([LEGEND, row])] * 3)


def test_what_would_end_beyond_its_feature_is_left_alone() -> None:
    """A length that lies takes no byte of the next feature."""
    good = msgpack.packb([LEGEND, ["x"]])
    lying = head_of(LEGEND, 1) + b"\xdb\x00\x00\x00\x05x"
    for blobs in ([lying, good], [good, lying]):
        assert packed_columns(blobs, head_of(LEGEND, 1), 1, {0: Kind.TEXT}) is None
