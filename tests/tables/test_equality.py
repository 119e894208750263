"""Rows that equality deletes take away."""

import math
from datetime import date
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptionError
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Primitive, Struct
from havasu_vc.tables.positions import (
    EqualRows,
    columns_at,
    equality_columns,
    read_equality_deletes,
)

TYPES = {
    pa.int64(): st.integers(0, 3),
    pa.string(): st.sampled_from(["", "a", "b"]),
    pa.binary(2): st.sampled_from([b"aa", b"ab"]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.sampled_from([date(2020, 1, 1), date(1, 1, 1)]),
    pa.decimal128(9, 2): st.sampled_from([Number("1.00"), Number("-1.00")]),
    pa.float64(): st.sampled_from([0.0, 1.5, math.nan]),
    pa.float32(): st.sampled_from([0.0, 1.5, math.nan]),
}


@st.composite
def two_tables(draw: st.DrawFn) -> tuple[list[pa.DataType], list[Any], list[Any]]:
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3))
    row = st.tuples(*(st.one_of(st.none(), TYPES[type_]) for type_ in types))
    return types, draw(st.lists(row, max_size=8)), draw(st.lists(row, min_size=1, max_size=12))


def columns(types: list[pa.DataType], rows: list[Any]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]


def plain(row: Any) -> Any:
    return tuple("nan" if isinstance(v, float) and math.isnan(v) else v for v in row)


@given(two_tables())
def test_rows_match_as_in_a_plain_set(
    given: tuple[list[pa.DataType], list[Any], list[Any]],
) -> None:
    types, gone, rows = given

    found = EqualRows(columns(types, gone)).matches(columns(types, rows))

    there = {plain(row) for row in gone}
    assert found.tolist() == [plain(row) in there for row in rows]


def test_zero_has_a_sign() -> None:
    assert EqualRows([pa.array([0.0])]).matches([pa.array([0.0, -0.0])]).tolist() == [True, False]


INNER = Field(4, "y", Primitive.INT)
OLD = Schema((Field(1, "id", Primitive.INT), Field(2, "gone", Primitive.STRING)))
NEW = Schema(
    (
        Field(1, "key", Primitive.LONG),
        Field(3, "at", Struct((INNER, Field(5, "z", Primitive.INT)))),
        Field(6, "gone", Primitive.STRING),
        Field(7, "tags", List(Field(8, "element", Primitive.STRING))),
    )
)


def test_columns_come_from_the_newest_schema_that_has_them(tmp_path: Path) -> None:
    schema, ways = equality_columns((4, 2, 1), (NEW, OLD), "d")
    assert [field.id for field in schema.fields] == [3, 2, 1]
    assert schema.fields[2].type is Primitive.LONG
    assert ways == ((0, 0), (1,), (2,))

    file = pa.table(
        [pa.array([1], pa.int32()), pa.array([{"y": 5}], pa.struct([_field("y", 4)])), ["x"]],
        schema=pa.schema(
            [
                _field("whatever", 1),
                _field("at", 3, pa.struct([_field("y", 4)])),
                _field("gone", 2, pa.string()),
            ]
        ),
    )
    pq.write_table(file, tmp_path / "d.parquet")
    gone = read_equality_deletes(str(tmp_path / "d.parquet"), schema, ways)

    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([{"y": 5, "z": 1}, {"y": 5, "z": 2}, None], schema_type(schema)),
            pa.array(["x", "y", "x"]),
            pa.array([1, 1, 1], pa.int64()),
        ],
        names=["a", "b", "c"],
    )
    assert gone.matches(columns_at(rows, ways)).tolist() == [True, False, False]


def _field(name: str, number: int, type_: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, type_ or pa.int32(), metadata={b"PARQUET:field_id": str(number).encode()})


def schema_type(schema: Schema) -> pa.DataType:
    return pa.struct([("y", pa.int32()), ("z", pa.int32())])


@pytest.mark.parametrize("wanted", [99, 7, 8, 3])
def test_columns_that_cannot_be_compared(wanted: int) -> None:
    with pytest.raises(CorruptionError, match=f"column {wanted}"):
        equality_columns((wanted,), (NEW, OLD), "d.parquet")


def test_a_delete_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(CorruptionError, match="is missing"):
        read_equality_deletes(str(tmp_path / "none"), OLD, ((0,),))
