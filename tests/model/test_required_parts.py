"""Required parts of what is null get a value, and what is there keeps its own."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import SchemaViolationError
from havasu_vc.model.rasters import RASTER_TYPE, has_required_parts, without_gaps
from havasu_vc.testing.tables import rasters

LEAVES = [
    (pa.int32(), 1),
    (pa.float64(), 1.5),
    (pa.bool_(), True),
    (pa.string(), "a"),
    (pa.binary(), b"a"),
    (pa.binary(2), b"ab"),
    (pa.decimal128(5, 1), 1),
    (pa.date32(), 1),
    (pa.timestamp("us", tz="UTC"), 1),
    (pa.time64("us"), 1),
]


def written(column: pa.Array, field: pa.Field) -> list[Any]:
    """Return what Parquet keeps of a column."""
    file = io.BytesIO()
    pq.write_table(pa.table([without_gaps(column, field)], schema=pa.schema([field])), file)
    found: list[Any] = pq.read_table(file).column(0).to_pylist()
    return found


@pytest.mark.parametrize(("leaf", "value"), LEAVES)
def test_nulls_with_required_parts_are_written(leaf: pa.DataType, value: Any) -> None:
    inside = pa.field("b", pa.struct([pa.field("c", leaf, nullable=False)]), nullable=False)
    field = pa.field("a", pa.struct([inside]))
    there = pa.array([{"b": {"c": value}}], field.type)
    column = pa.concat_arrays([pa.nulls(2, field.type), there, pa.nulls(1, field.type)])
    assert written(column, field) == column.to_pylist()
    assert written(column.slice(1, 2), field) == column.to_pylist()[1:3]


@given(st.lists(st.none() | rasters(), max_size=5), st.data())
def test_rasters_stay_as_they_are(values: list[Any], data: st.DataObject) -> None:
    field = pa.field("rast", RASTER_TYPE)
    column = pa.array(values, RASTER_TYPE)
    whole = pa.StructArray.from_arrays(column.flatten(), fields=list(RASTER_TYPE))
    column = pa.StructArray.from_arrays(
        whole.flatten(), fields=list(RASTER_TYPE), mask=column.is_null()
    )
    start = data.draw(st.integers(0, len(values)))
    assert written(column.slice(start), field) == values[start:]
    listed = pa.field("all", pa.list_(pa.field("element", RASTER_TYPE)))
    lists = pa.array([values, None, [], values[start:]], listed.type)
    assert written(lists.slice(1), listed) == [None, [], values[start:]]


def test_what_is_there_must_have_its_required_parts() -> None:
    field = pa.field("a", pa.struct([pa.field("b", pa.int8(), nullable=False)]))
    column = pa.StructArray.from_arrays([pa.nulls(2, pa.int8())], fields=list(field.type))
    with pytest.raises(SchemaViolationError, match=r"a value of column 'a\.b' is not there"):
        without_gaps(column, field)


def test_other_columns_are_left_alone() -> None:
    field = pa.field("a", pa.struct([pa.field("b", pa.int8())]))
    column = pa.nulls(2, field.type)
    assert not has_required_parts(field.type)
    assert without_gaps(column, field) is column
