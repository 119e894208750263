"""Files read under schemas that they were not written with."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.datasets.havasu.parquet import BATCH_ROWS, read_row_groups
from havasu_vc.datasets.havasu.projection import plan_projection
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Primitive, Struct

NEW = Schema((Field(9, "new", Primitive.LONG),))


def numbered(name: str, number: int, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, metadata={b"PARQUET:field_id": str(number).encode()})


def test_a_file_that_has_none_of_the_columns_has_its_rows(tmp_path: Path) -> None:
    count = BATCH_ROWS + 7
    path = str(tmp_path / "x.parquet")
    schema = pa.schema([numbered("a", 1, pa.int64())])
    pq.write_table(pa.table([pa.array(range(count))], schema=schema), path)

    deleted = np.array([0, BATCH_ROWS, BATCH_ROWS + 1])
    batches = list(read_row_groups(path, NEW, deleted=deleted, positions=True))

    rows = pa.Table.from_batches(batches)
    assert rows.num_rows == count - 3
    assert rows["new"].null_count == count - 3
    assert rows["_pos"].to_pylist() == [n for n in range(count) if n not in deleted]


def test_values_for_columns_that_a_file_lacks() -> None:
    inner = Struct((Field(2, "x", Primitive.INT), Field(3, "y", Primitive.STRING)))
    schema = Schema((Field(1, "s", inner), *NEW.fields, Field(8, "other", Primitive.INT)))
    found = pa.schema([numbered("s", 1, pa.struct([numbered("x", 2, pa.int32())]))])

    plan = plan_projection(found, schema, "f", {9: 5, 3: "q"})
    rows = plan.apply(pa.record_batch([pa.array([{"x": 1}, None], found.field(0).type)], found))

    assert rows.to_pylist() == [
        {"s": {"x": 1, "y": "q"}, "new": 5, "other": None},
        {"s": None, "new": 5, "other": None},
    ]


@pytest.mark.parametrize(
    "type_",
    [
        pa.large_list(numbered("element", 2, pa.int32())),
        pa.list_(numbered("element", 2, pa.int64()), 2),
        pa.list_(numbered("item", 2, pa.int32())),
    ],
)
def test_lists_of_any_kind(type_: pa.DataType) -> None:
    schema = Schema((Field(1, "l", List(Field(2, "element", Primitive.LONG))),))
    found = pa.schema([numbered("l", 1, type_)])
    batch = pa.record_batch([pa.array([[1, 2], None, [3, 4]], type_)], found)

    for cut in (batch, batch.slice(1)):
        rows = plan_projection(found, schema, "f").apply(cut)
        assert rows.column(0).to_pylist() == cut.column(0).to_pylist()
        assert rows.schema.field(0).type.value_type == pa.int64()


def test_uuids_with_and_without_their_annotation() -> None:
    schema = Schema((Field(1, "u", Primitive.UUID),))
    for type_ in (pa.uuid(), pa.binary(16)):
        found = pa.schema([numbered("u", 1, type_)])
        array = pa.array([b"0123456789abcdef"], pa.binary(16)).cast(type_)
        rows = plan_projection(found, schema, "f").apply(pa.record_batch([array], found))
        assert rows.column(0).to_pylist() == [b"0123456789abcdef"]
