"""Types that columns first came as: what becomes of them when later values are others."""

import numpy as np
import pyarrow as pa
import pytest

from havasu_vc.errors import SchemaViolationError, UnsupportedTypeError
from havasu_vc.model.arrow import schema_from_arrow, to_stored
from havasu_vc.model.evolution import (
    agreed_source_type,
    as_stored,
    field_ids,
    has_source_type,
    match_by_name,
    to_source,
    to_source_table,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive

U8, I8, I16, I32, I64 = pa.uint8(), pa.int8(), pa.int16(), pa.int32(), pa.int64()
S, MS, US, NS = (pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))


def came_as(type_: pa.DataType) -> Field:
    return schema_from_arrow(pa.schema([("v", type_)])).fields[0]


def stored(values: pa.Array) -> tuple[pa.RecordBatch, Schema]:
    batch = pa.RecordBatch.from_arrays([values], ["v"])
    schema = schema_from_arrow(batch.schema)
    return to_stored(batch, schema), schema


AGREED = [
    (U8, U8, U8),
    (U8, I16, I16),
    (I16, U8, I16),
    (U8, I8, I32),
    (pa.uint16(), I16, I32),
    (U8, I32, I32),
    (I32, U8, I32),
    (pa.uint32(), pa.uint16(), pa.uint32()),
    (pa.uint32(), I32, I64),
    (pa.uint32(), I64, I64),
    (I32, I64, I64),
    (pa.float16(), pa.float32(), pa.float32()),
    (S, pa.timestamp("ms"), pa.timestamp("ms")),
    (MS, S, MS),
    (MS, US, US),
    (NS, US, US),
    (NS, MS, US),
    (pa.time32("s"), pa.time64("us"), pa.time64("us")),
    (pa.null(), pa.string(), pa.string()),
    (pa.large_string(), pa.string(), pa.large_string()),
    (pa.large_string(), pa.null(), pa.large_string()),
    (pa.null(), pa.large_string(), pa.large_string()),
    (pa.dictionary(I8, pa.string()), pa.string(), pa.dictionary(I8, pa.string())),
    (pa.date64(), pa.date32(), pa.date64()),
    (pa.timestamp("us", "Pacific/Auckland"), pa.timestamp("us", "UTC"),
     pa.timestamp("us", "Pacific/Auckland")),
    (pa.list_(I32, 2), pa.list_(I32), pa.list_(pa.field("element", I32))),
    (pa.duration("s"), I64, pa.duration("s")),
    (pa.uint64(), pa.decimal128(20, 0), pa.decimal128(20, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs", "agreed"), AGREED, ids=str)
def test_what_a_release_in_another_type_makes_of_a_column(
    ours: pa.DataType, theirs: pa.DataType, agreed: pa.DataType
) -> None:
    old = schema_from_arrow(pa.schema([("v", ours)]))
    new = match_by_name(old, schema_from_arrow(pa.schema([("v", theirs)])), field_ids(9))
    batch = pa.RecordBatch.from_arrays([pa.array([], new.fields[0] and theirs)], ["v"])
    assert to_source(to_stored(batch, new), new).schema.field("v").type == agreed


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(pa.duration("s"), pa.duration("ms")), (I64, pa.duration("s")), (I32, pa.duration("s"))],
    ids=str,
)
def test_numbers_that_would_mean_something_else_are_refused(
    ours: pa.DataType, theirs: pa.DataType
) -> None:
    old, new = (schema_from_arrow(pa.schema([("v", type_)])) for type_ in (ours, theirs))
    with pytest.raises(SchemaViolationError, match="duration"):
        match_by_name(old, new, field_ids(9))
    with pytest.raises(SchemaViolationError):
        agreed_source_type(came_as(ours), came_as(theirs))


OUTGROWN = [
    (U8, pa.array([300], I32)),
    (pa.float16(), pa.array([1e10], pa.float32())),
    (pa.float16(), pa.array([0.1], pa.float32())),
    (S, pa.array([1], US)),
    (NS, pa.array([-62135596800000000], US)),
    (pa.null(), pa.array(["a"])),
    (pa.list_(I32, 2), pa.array([[1]], pa.list_(pa.field("element", I32)))),
    (pa.dictionary(I8, pa.string()), pa.array([str(n) for n in range(200)])),
    (pa.struct([("a", U8)]), pa.array([{"a": 300}], pa.struct([("a", I32)]))),
]


@pytest.mark.parametrize(("type_", "values"), OUTGROWN, ids=str)
def test_values_that_outgrew_their_type_are_named_or_stay(
    type_: pa.DataType, values: pa.Array
) -> None:
    schema = Schema((came_as(type_),))
    batch = pa.RecordBatch.from_arrays([values], ["v"])
    with pytest.raises(UnsupportedTypeError, match="it came as") as caught:
        to_source(batch, schema)
    assert caught.value.column == "v"
    assert to_source_table(pa.Table.from_batches([batch]), schema)["v"].to_pylist() == (
        values.to_pylist()
    )
    (field,) = schema.fields
    assert has_source_type(field) and not has_source_type(as_stored(field))
    assert to_source(batch, Schema((as_stored(field),))).column(0).equals(values)


def test_halves_and_nulls_that_fit_are_given_back() -> None:
    for values in (
        pa.array([np.float16(1.5), None, np.float16("nan"), np.float16("inf")], pa.float16()),
        pa.nulls(3),
    ):
        batch, schema = stored(values)
        given = to_source(batch, schema).column(0)
        assert given.type == values.type
        assert repr(given.to_pylist()) == repr(values.to_pylist())
        assert to_source_table(pa.Table.from_batches([batch]), schema)["v"].type == values.type


def test_a_plain_column_came_as_it_is() -> None:
    assert not has_source_type(Field(1, "v", Primitive.LONG))
