"""Features: the vectors of the specification, rows that come back, and what is malformed."""

import datetime as dt
from decimal import Decimal as Number
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, UnsupportedTypeError
from havasu_vc.formats.kart.columns import (
    Legend,
    column_id,
    kart_schema,
    legend_of,
    parse_legend,
    schema_of_columns,
)
from havasu_vc.formats.kart.features import FeatureDecoder, FeatureEncoder
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Encoding, Field, Geometry, Primitive
from havasu_vc.testing.tables import Row, batch_of, rows_of, schemas

KEY = Field(1, "id", Primitive.LONG, required=True)
LEGEND = "a" * 40
POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")


def of(field: Field) -> Schema:
    return kart_schema(Schema((KEY, field), (1,)))


def packed(value: Any, field: Field) -> bytes:
    """Return the value's own bytes in the feature of a row."""
    schema = of(field)
    rows = pa.RecordBatch.from_pylist([{"id": 1, "x": value}], schema=arrow_schema(schema))
    (blob,) = FeatureEncoder(schema, LEGEND).encode(rows)
    decoder = FeatureDecoder(schema, {LEGEND: legend_of(schema)})
    assert decoder.decode([[1]], [blob], str).equals(rows)
    head = b"\x92\xd9\x28" + LEGEND.encode() + b"\x91"
    assert blob.startswith(head)
    return blob[len(head) :]


@pytest.mark.parametrize(
    ("type_", "value", "hexed"),
    [
        (Primitive.BOOLEAN, True, "c3"),
        (Primitive.BOOLEAN, False, "c2"),
        (Primitive.BINARY, b"\x00\x01", "c4020001"),
        (Primitive.DATE, dt.date(2018, 11, 5), "aa323031382d31312d3035"),
        (Primitive.DOUBLE, 1.5, "cb3ff8000000000000"),
        (Primitive.DOUBLE, float("inf"), "cb7ff0000000000000"),
        (Primitive.LONG, -1, "ff"),
        (Primitive.LONG, 128, "cc80"),
        (Primitive.LONG, 1260047, "ce00133a0f"),
        (Primitive.STRING, "a", "a161"),
        (Primitive.STRING, None, "c0"),
    ],
)
@pytest.mark.rule(
    "KART-34",
    "KART-44",
    "KART-45",
    "KART-46",
    "KART-47",
    "KART-49",
    "KART-52",
    "KART-56",
    "KART-57",
)
def test_values_as_bytes(type_: Primitive, value: Any, hexed: str) -> None:
    assert packed(value, Field(2, "x", type_)).hex() == hexed


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        (Field(2, "x", Decimal(8, 3)), Number("123"), "123"),
        (Field(2, "x", Decimal(8, 3)), Number("123.456"), "123.456"),
        (Field(2, "x", Decimal(8, 0)), Number("120"), "120"),
        (
            Field(2, "x", Decimal(38, 20)),
            Number("-0.00000000000000000001"),
            "-0.00000000000000000001",
        ),
        (Field(2, "x", Primitive.TIME), dt.time(12, 34, 56), "12:34:56"),
        (Field(2, "x", Primitive.TIME), dt.time(12, 34, 50, 500_000), "12:34:50.5"),
        (
            Field(2, "x", Primitive.TIMESTAMP),
            dt.datetime(2018, 11, 5, 10, 20, 30),
            "2018-11-05T10:20:30",
        ),
        (
            Field(2, "x", Primitive.TIMESTAMPTZ),
            dt.datetime(2018, 11, 5, 10, 20, 30, 120_000, dt.UTC),
            "2018-11-05T10:20:30.12",
        ),
    ],
)
@pytest.mark.rule("KART-51", "KART-53", "KART-54", "KART-55")
def test_values_as_text(field: Field, value: Any, text: str) -> None:
    assert msgpack.unpackb(packed(value, field)) == text


@pytest.mark.rule("KART-15", "KART-48", "KART-62", "KART-66")
def test_a_point_is_an_extension() -> None:
    field = Field(2, "x", Primitive.BINARY, geometry=Geometry(Encoding.EWKB))
    wanted = "c71d47" + "4750000100000000" + POINT.hex()
    assert packed(POINT, field).hex() == wanted


@given(st.data())
@pytest.mark.rule("KART-70")
def test_rows_come_back(data: st.DataObject) -> None:
    drawn = data.draw(schemas(keyed=True))
    try:
        schema = kart_schema(drawn)
    except UnsupportedTypeError:
        return
    rows: list[Row] = data.draw(st.lists(rows_of(schema), max_size=4))
    try:
        batch = batch_of(rows, schema)
    except (pa.ArrowException, OverflowError):
        return
    years = [c for c, f in zip(batch.columns, schema.fields, strict=True) if _is_date(f)]
    if any(_beyond(column) for column in years):
        return
    encoder = FeatureEncoder(schema, LEGEND)
    decoder = FeatureDecoder(schema, {LEGEND: legend_of(schema)})
    blobs = encoder.encode(batch)
    found = decoder.decode(encoder.keys(batch), blobs, str)
    # Written again they are the same bytes, whatever the geometries looked like.
    assert encoder.encode(found) == blobs


def _is_date(field: Field) -> bool:
    return field.type in (Primitive.DATE, Primitive.TIMESTAMP, Primitive.TIMESTAMPTZ)


def _beyond(column: pa.Array) -> bool:
    """Whether there is a year that no four digits spell."""
    text = column.cast(pa.string()).drop_null().to_pylist()
    return any(not value[:4].isdecimal() or value[4] != "-" for value in text)


@pytest.mark.rule("KART-37", "KART-38", "KART-39", "KART-40")
def test_old_features_are_read_by_their_legends() -> None:
    gone, kept, new = (
        Field(n, name, Primitive.STRING) for n, name in ((2, "a"), (3, "b"), (4, "c"))
    )
    old = legend_of(Schema((KEY, gone, kept), (1,)))
    now = kart_schema(Schema((KEY, new, Field(3, "renamed", Primitive.STRING)), (1,)))
    decoder = FeatureDecoder(now, {"old": old, LEGEND: legend_of(now)})
    blobs = [msgpack.packb(["old", ["x", "y"]]), msgpack.packb([LEGEND, ["n", "r"]])]
    assert decoder.decode([[1, 2]], blobs, str).to_pylist() == [
        {"id": 1, "c": None, "renamed": "y"},
        {"id": 2, "c": "n", "renamed": "r"},
    ]


@pytest.mark.rule("KART-27", "KART-36")
def test_the_flat_legend_of_the_page_is_read() -> None:
    schema = of(Field(2, "x", Primitive.STRING))
    ids = [column_id(field) for field in schema.fields]
    flat = parse_legend(msgpack.packb(ids), "here")
    decoder = FeatureDecoder(schema, {"flat": flat})
    blob = msgpack.packb(["flat", [7, "x"]])
    assert decoder.decode([[7]], [blob], str).to_pylist() == [{"id": 7, "x": "x"}]


GOOD = msgpack.packb([LEGEND, ["x"]])


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (b"", "not msgpack"),
        (b"\xc1", "not msgpack"),
        (GOOD[:-1], "not msgpack"),
        (GOOD + b"\xc0", "more than one message"),
        (msgpack.packb("text"), "not a legend and its values"),
        (msgpack.packb([LEGEND]), "not a legend and its values"),
        (msgpack.packb([LEGEND, {}]), "not a legend and its values"),
        (msgpack.packb([7, ["x"]]), "not a legend and its values"),
        (msgpack.packb(["b" * 40, ["x"]]), "legend b+, which is not there"),
        (msgpack.packb([LEGEND, []]), "has 0 values, its legend has 1 columns"),
        (msgpack.packb([LEGEND, ["x", "y"]]), "has 2 values"),
        (msgpack.packb([LEGEND, [msgpack.ExtType(72, b"x")]]), "extension type 72"),
        (msgpack.packb([LEGEND, [msgpack.ExtType(71, b"x")]]), "'x' is b'x'"),
        (msgpack.packb([LEGEND, [5]]), "'x' is 5, which its column"),
        (b"\x92\xd9\x28" + LEGEND.encode() + b"\x91\xa1\xff", "not msgpack"),
        (b"\x92\xd9\x28" + LEGEND.encode() + b"\xdd\xff\xff\xff\xff", "not msgpack"),
        (b"\x91" * 100_000, "not"),
    ],
)
@pytest.mark.rule("KART-35", "KART-37")
def test_malformed_features_are_named(blob: bytes, reason: str) -> None:
    schema = of(Field(2, "x", Primitive.STRING))
    decoder = FeatureDecoder(schema, {LEGEND: legend_of(schema)})
    with pytest.raises(CorruptDatasetError, match=f"^file 2: .*{reason}"):
        decoder.decode([[1, 2, 3, 4]], [GOOD, GOOD, blob, GOOD], lambda at: f"file {at}")


@pytest.mark.parametrize("value", [b"GP", b"nonsense", b"GP\0\x21" + bytes(4) + POINT])
@pytest.mark.rule("KART-58")
def test_malformed_geometries_are_named(value: bytes) -> None:
    schema = of(Field(2, "x", Primitive.BINARY, geometry=Geometry(Encoding.EWKB)))
    decoder = FeatureDecoder(schema, {LEGEND: legend_of(schema)})
    blobs = [msgpack.packb([LEGEND, [None]]), msgpack.packb([LEGEND, [msgpack.ExtType(71, value)]])]
    with pytest.raises(CorruptDatasetError, match=r"^1: the geometry 'x' cannot be read"):
        decoder.decode([[1, 2]], blobs, str)
    with pytest.raises(CorruptDatasetError, match=r"^0: 'x' is b'GP"):
        decoder.decode([[1]], [msgpack.packb([LEGEND, [b"GP\0\1"]])], str)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", msgpack.packb([]), msgpack.packb([["a"], [1]]), msgpack.packb(["a", "a"])],
)
def test_malformed_legends_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptDatasetError, match=r"^here"):
        parse_legend(data, "here")


@pytest.mark.rule("KART-27")
def test_a_legend_is_two_lists() -> None:
    assert parse_legend(msgpack.packb([["a"], ["b"]]), "here") == Legend(("a",), ("b",))


@pytest.mark.rule("KART-23")
def test_what_a_column_says_beyond_its_type_changes_no_byte() -> None:
    columns = [
        [{"id": "id", "name": "id", "dataType": "integer", "primaryKeyIndex": 0}, column]
        for column in (
            {"id": "x", "name": "x", "dataType": "integer", "size": 32},
            {"id": "x", "name": "x", "dataType": "integer", "size": 64},
        )
    ]
    blobs = set()
    for each in columns:
        schema = schema_of_columns(each)
        rows = pa.RecordBatch.from_pylist([{"id": 1, "x": 7}], schema=arrow_schema(schema))
        blobs.update(FeatureEncoder(schema, LEGEND).encode(rows))
    assert len(blobs) == 1


@pytest.mark.rule("KART-50")
@pytest.mark.parametrize("value", ["P1Y2M3DT4H5M6S", "PT0S", "P1M"])
def test_intervals_are_kept_as_they_are_spelled(value: str) -> None:
    column = {"id": "x", "name": "x", "dataType": "interval"}
    key = {"id": "id", "name": "id", "dataType": "integer", "primaryKeyIndex": 0}
    schema = schema_of_columns([key, column])
    decoder = FeatureDecoder(schema, {LEGEND: legend_of(schema)})
    blob = msgpack.packb([LEGEND, [value]])
    rows = decoder.decode([[1]], [blob], str)
    assert rows.column("x").to_pylist() == [value]
    assert FeatureEncoder(schema, LEGEND).encode(rows) == [blob]
