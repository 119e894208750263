"""Every Arrow type comes in, is stored as the next Iceberg type, and is given back."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.model.arrow import (
    FIELD_ID,
    arrow_schema,
    bounded,
    schema_from_arrow,
    source_type,
    to_stored,
)
from havasu_vc.model.evolution import to_source
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Primitive, descendants
from tests.model.strategies import ARRAYS, schemas
from tests.support.examples import examples

STORED = {
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20, 0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.decimal128(9, 2): "decimal(9, 2)",
    pa.decimal256(38, 3): "decimal(38, 3)",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.time32("s"): "time",
    pa.time64("ns"): "time",
    pa.timestamp("s"): "timestamp",
    pa.timestamp("ns", "Pacific/Auckland"): "timestamptz",
    pa.duration("ms"): "long",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.null(): "string",
    pa.uuid(): "uuid",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary(3): "fixed[3]",
    pa.dictionary(pa.int8(), pa.string()): "string",
    pa.list_(pa.int8()): "list<int>",
    pa.large_list(pa.int8()): "list<int>",
    pa.list_(pa.int8(), 2): "list<int>",
    pa.struct([("a", pa.uint8())]): "struct<a: int>",
    pa.map_(pa.string(), pa.int8()): "map<string, int>",
}


def batch_of(array: pa.Array) -> tuple[pa.RecordBatch, Schema]:
    batch = pa.RecordBatch.from_arrays([array], ["x"])
    return batch, schema_from_arrow(batch.schema)


@pytest.mark.parametrize("type_", STORED, ids=str)
def test_stored_types(type_: pa.DataType) -> None:
    schema = schema_from_arrow(pa.schema([("x", type_)]))

    assert str(schema.fields[0].type) == STORED[type_]


def plain(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


@pytest.mark.parametrize("name", sorted(ARRAYS))
@examples(50)
@given(data=st.data())
def test_values_of_every_type_come_back(name: str, data: st.DataObject) -> None:
    batch, schema = batch_of(data.draw(ARRAYS[name]))

    stored = to_stored(batch, schema)
    back = to_source(stored, schema)

    assert stored.schema.equals(arrow_schema(schema))
    came, returned = plain(batch.column(0)), back.column(0)
    # As text, because NaN is not equal to itself.
    assert str(returned.cast(came.type).to_pylist()) == str(came.to_pylist())
    assert str(to_stored(stored, schema)) == str(stored)


@pytest.mark.parametrize("type_", STORED, ids=str)
def test_types_come_back(type_: pa.DataType) -> None:
    (field,) = schema_from_arrow(pa.schema([("x", type_)])).fields

    # A UUID is 16 bytes to Arrow; what it came as stands in the type.
    expected = pa.binary(16) if field.type is Primitive.UUID else type_
    assert source_type(field).equals(expected, check_metadata=False) or str(
        source_type(field)
    ) == str(expected).replace("list<item", "list<element")


@given(schemas())
def test_arrow_fields_carry_their_ids(schema: Schema) -> None:
    def numbers(fields: list[pa.Field]) -> list[int]:
        found: list[int] = []
        for field in fields:
            found.append(int(field.metadata[FIELD_ID]))
            found += numbers([field.type.field(i) for i in range(field.type.num_fields)])
        return found

    expected = {field.id for field in descendants(schema.fields)}
    # Arrow's maps hold key and value in a struct that has no id.
    if "map<" not in " ".join(str(field.type) for field in schema.fields):
        assert set(numbers(list(arrow_schema(schema)))) == expected
    assert arrow_schema(schema).names == list(schema.names)
    physical = arrow_schema(schema, physical=True)
    assert physical.names == [field.stored_name for field in schema.fields]


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        (pa.decimal256(39, 0), "more than 38 digits"),
        (pa.decimal128(5, -2), "negative scale"),
        (pa.struct([]), "without fields"),
        (pa.month_day_nano_interval(), "no counterpart"),
        (pa.dense_union([pa.field("a", pa.int8())]), "no counterpart"),
        (pa.list_(pa.struct([])), "without fields"),
        (pa.struct([("", pa.int8())]), "no name"),
        (pa.struct([("a\0", pa.int8())]), "NUL"),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), "two parts"),
    ],
    ids=str,
)
def test_what_cannot_be_kept_is_named(type_: pa.DataType, reason: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=reason) as caught:
        schema_from_arrow(pa.schema([("id", pa.int8()), ("shape", type_)]))

    assert caught.value.column.startswith("shape")


@pytest.mark.parametrize(("name", "reason"), [("", "no name"), ("a\0b", "NUL")])
def test_names_that_no_program_could_use(name: str, reason: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=reason):
        schema_from_arrow(pa.schema([("id", pa.int64()), (name, pa.int64())]))


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array([2**31], pa.int64()), Primitive.INT),
        (pa.array([1], pa.timestamp("ns")), Primitive.TIMESTAMP),
        (pa.array(["x"]), Primitive.LONG),
        (pa.array([2**63], pa.uint64()), Primitive.LONG),
        (pa.array([0.5]), Primitive.INT),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused(array: pa.Array, type_: Primitive) -> None:
    batch = pa.RecordBatch.from_arrays([array], ["x"])

    with pytest.raises(UnsupportedTypeError, match="'x'"):
        to_stored(batch, Schema((Field(1, "x", type_),)))


def test_a_source_type_of_a_later_version_is_passed_over() -> None:
    field = Field(1, "x", Decimal(9, 2), source_type="decimal_of_tomorrow(9)")

    assert source_type(field) == pa.decimal128(9, 2)


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(8, 200), st.integers(1, 7))
def test_batches_are_cut_and_lose_nothing(
    sizes: list[int], most_bytes: int, most_rows: int
) -> None:
    batches = [pa.record_batch({"x": pa.array(range(n), pa.int64())}) for n in sizes]

    cut = list(bounded(iter(batches), most_bytes, most_rows))

    assert [v for b in cut for v in b["x"].to_pylist()] == [v for n in sizes for v in range(n)]
    assert all(batch.num_rows <= most_rows for batch in cut)
