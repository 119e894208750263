"""Hashes depend on the value alone; the page that defines them says what this code does."""

import math
from datetime import date
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.arrow import arrow_type, schema_from_arrow, to_stored
from havasu_vc.model.hashing import cell_hashes, hash_values, mix
from havasu_vc.model.types import Decimal, Field, Fixed, List, Map, Primitive, Struct
from tests.model import plain_hashing as plain
from tests.model.strategies import ARRAYS
from tests.support.examples import examples

INT = Field(1, "x", Primitive.INT)
LONG = Field(1, "x", Primitive.LONG)
FLOAT = Field(1, "x", Primitive.FLOAT)
DOUBLE = Field(1, "x", Primitive.DOUBLE)
TEXT = Field(1, "x", Primitive.STRING)
words = st.integers(0, 2**64 - 1)


def stored(array: pa.Array) -> tuple[pa.Array, Field]:
    """Return a column in its stored type, and its field."""
    schema = schema_from_arrow(pa.schema([("x", array.type)]))
    batch = pa.RecordBatch.from_arrays([array], ["x"])
    return to_stored(batch, schema).column(0), schema.fields[0]


def known(column: pa.Array, field: Field) -> list[int | None]:
    """Return hashes, None for nulls."""
    hashes = hash_values(column, field).tolist()
    return [
        h if valid else None for h, valid in zip(hashes, column.is_valid().to_pylist(), strict=True)
    ]


def one(value: Any, field: Field) -> int:
    (found,) = hash_values(pa.array([value], arrow_type(field.type)), field).tolist()
    return int(found)


# Vectors, as docs/format/digests.md lists them

LISTS = List(Field(2, "element", Primitive.LONG))
STRUCTS = Struct((Field(2, "a", Primitive.LONG), Field(3, "b", Primitive.STRING)))
MAPS = Map(Field(2, "key", Primitive.STRING, required=True), Field(3, "value", Primitive.LONG))
VECTORS = [
    (Primitive.LONG, 0, "0000000000000000"),
    (Primitive.LONG, 1, "5692161d100b05e5"),
    (Primitive.LONG, -1, "b4d055fcf2cbbd7b"),
    (Primitive.BOOLEAN, True, "5692161d100b05e5"),
    (Primitive.DOUBLE, 1.0, "2a20cd80798dae26"),
    (Primitive.DOUBLE, -0.0, "25c26ea579cea98a"),
    (Primitive.DOUBLE, math.nan, "469bf2dcc1aa179b"),
    (Decimal(9, 2), Number("1.25"), "2d2898ce1f8cef8e"),
    (Decimal(38, 0), Number(2**64), "7ab40e090f363a7d"),
    (Primitive.DATE, date(1970, 1, 2), "5692161d100b05e5"),
    (Primitive.STRING, "", "0000000000000000"),
    (Primitive.STRING, "a", "eef08ed19c32945e"),
    (Primitive.STRING, "Whangārei", "a3d9ec6ae02fef95"),
    (Primitive.BINARY, b"\0", "ea8568d2e45fd6cb"),
    (LISTS, [], "0000000000000000"),
    (LISTS, [1, None], "084ba11549641530"),
    (STRUCTS, {"a": 1, "b": None}, "2bdcd910657758bf"),
    (MAPS, [("k", 1)], "b1c63845858e3bcd"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), VECTORS, ids=str)
def test_vectors(type_: Any, value: Any, expected: str) -> None:
    assert f"{one(value, Field(1, 'x', type_)):016x}" == expected


def test_cell_vector() -> None:
    keys, values = np.array([1], np.uint64), np.array([2], np.uint64)

    assert cell_hashes(keys, 3, values).tolist() == [0xF7037D0AE29D9E0C] == [plain.cell(1, 3, 2)]


# The code and the page agree


@given(st.lists(words, max_size=50))
def test_mix_is_the_finaliser_of_splitmix64(numbers: list[int]) -> None:
    assert mix(np.array(numbers, np.uint64)).tolist() == [plain.mix(n) for n in numbers]


@pytest.mark.parametrize("name", sorted(ARRAYS))
@examples(25)
@given(data=st.data())
def test_hashes_are_those_of_the_page(name: str, data: st.DataObject) -> None:
    column, field = stored(data.draw(ARRAYS[name]))
    expected = [
        None if value is None else plain.hash_value(value, field) for value in column.to_pylist()
    ]

    assert known(column, field) == expected


# The value alone counts


@pytest.mark.parametrize("name", sorted(ARRAYS))
@examples(25)
@given(data=st.data())
def test_a_slice_hashes_as_the_whole(name: str, data: st.DataObject) -> None:
    column, field = stored(data.draw(ARRAYS[name]))
    start = data.draw(st.integers(0, len(column)))
    stop = data.draw(st.integers(start, len(column)))

    assert known(column.slice(start, stop - start), field) == known(column, field)[start:stop]


@pytest.mark.parametrize("name", sorted(ARRAYS))
@examples(25)
@given(data=st.data())
def test_order_and_neighbours_do_not_count(name: str, data: st.DataObject) -> None:
    column, field = stored(data.draw(ARRAYS[name]))
    order = data.draw(st.permutations(range(len(column))))
    hashes = known(column, field)

    shuffled = column.take(pa.array(order, pa.int64()))

    assert known(shuffled, field) == [hashes[index] for index in order]


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)))
def test_a_widened_integer_keeps_its_hash(values: list[int | None]) -> None:
    narrow = pa.array(values, pa.int32())

    assert known(narrow, INT) == known(narrow.cast(pa.int64()), LONG)


@given(st.lists(st.none() | st.floats(width=32)))
def test_a_widened_float_keeps_its_hash(values: list[float | None]) -> None:
    narrow = pa.array(values, pa.float32())

    assert known(narrow, FLOAT) == known(narrow.cast(pa.float64()), DOUBLE)


@given(st.integers(-(10**9) + 1, 10**9 - 1), st.integers(9, 38), st.integers(9, 38))
def test_a_decimal_keeps_its_hash_when_it_gets_more_digits(
    value: int, one_: int, other: int
) -> None:
    assert one(value, Field(1, "x", Decimal(one_, 0))) == one(
        value, Field(1, "x", Decimal(other, 0))
    )


def test_every_nan_is_one_value_and_zeros_are_two() -> None:
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64)

    assert len(set(hash_values(pa.array(nans.view(np.float64)), DOUBLE).tolist())) == 1
    assert one(0.0, DOUBLE) != one(-0.0, DOUBLE)


def test_long_text_and_many_rows_hash_as_few() -> None:
    # More than one block in every loop.
    texts = ["x" * (number % 40) for number in range(70_000)] + ["y" * 3_000_000]
    column = pa.array(texts)
    found = hash_values(column, TEXT)

    assert found[:100].tolist() == [plain.hash_bytes(text.encode()) for text in texts[:100]]
    assert found[69_999] == plain.hash_bytes(texts[69_999].encode())
    assert found[-1] == hash_values(column.slice(70_000), TEXT)[0]


@pytest.mark.parametrize("size", [(1 << 19) + 1, (1 << 20) + 13])
def test_a_value_of_more_than_a_block_hashes_as_the_page_defines(size: int) -> None:
    value = (np.arange(size, dtype=np.uint32) * 2_654_435_761 >> 24).astype(np.uint8).tobytes()
    binary = Field(1, "x", Primitive.BINARY)
    column = pa.array([b"before", value, b"after"], pa.binary())

    assert hash_values(column, binary).tolist() == [
        plain.hash_bytes(each) for each in (b"before", value, b"after")
    ]


@pytest.mark.parametrize(
    "sizes",
    [[21], [8], [7], [0], [0, 1], [0, 3, 8, 9], [16, 17], [63, 64], [65, 64], [1] * 90 + [60]],
    ids=str,
)
def test_values_of_any_lengths_side_by_side_hash_as_the_page_defines(sizes: list[int]) -> None:
    """One length, several and very different ones are hashed in ways of their own."""
    values = [bytes(range(n % 7, n % 7 + size)) for n, size in enumerate(sizes * 20)]
    found = hash_values(pa.array(values, pa.binary()), Field(1, "x", Primitive.BINARY))

    assert found.tolist() == [plain.hash_bytes(value) for value in values]


# Values that differ hash differently (by chance once in 2^64)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_different_bytes_hash_differently(left: bytes, right: bytes) -> None:
    field = Field(1, "x", Primitive.BINARY)

    assert (one(left, field) == one(right, field)) == (left == right)


@given(st.binary(min_size=1, max_size=40))
def test_zeros_at_the_end_count(data: bytes) -> None:
    field = Field(1, "x", Primitive.BINARY)

    assert one(data, field) != one(data + b"\0", field)


lists = st.lists(st.none() | st.integers(0, 3), max_size=4)


@given(lists, lists)
def test_different_lists_hash_differently(left: list[int | None], right: list[int | None]) -> None:
    field = Field(1, "x", List(Field(2, "element", Primitive.LONG)))

    assert (one(left, field) == one(right, field)) == (left == right)


def test_a_struct_hashes_by_field_id() -> None:
    a, b = Field(2, "a", Primitive.LONG), Field(3, "b", Primitive.LONG)
    there = {"a": 1, "b": None}

    assert one(there, Field(1, "x", Struct((a, b)))) == one(there, Field(1, "x", Struct((b, a))))
    assert one(there, Field(1, "x", Struct((a, b)))) == one({"a": 1}, Field(1, "x", Struct((a,))))
    assert one({"a": 1, "b": 2}, Field(1, "x", Struct((a, b)))) != one(
        {"a": 2, "b": 1}, Field(1, "x", Struct((a, b)))
    )


def test_fixed_bytes_hash_as_bytes() -> None:
    assert one(b"ab", Field(1, "x", Fixed(2))) == one(b"ab", Field(1, "x", Primitive.BINARY))
