"""Which columns a data file of an engine has."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive, Struct
from havasu_vc.workspace.foreign import known_fields, read_file_schema


def column(number: int, name: str, type_: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, type_ or pa.int64(), metadata={"PARQUET:field_id": str(number)})


def inside(fields: tuple[Field, ...], nested: bool) -> tuple[Field, ...]:
    return (Field(9, "s", Struct(fields)),) if nested else fields


@pytest.mark.parametrize("nested", [False, True])
def test_a_name_that_was_given_away_stands_for_one_column(tmp_path: Path, nested: bool) -> None:
    """`a` was dropped after the file was written, and `b` became `a`."""
    parts = [column(4, "b"), column(6, "a")]
    file = pa.schema([column(9, "s", pa.struct(parts))] if nested else parts)
    pq.write_table(file.empty_table(), tmp_path / "file.parquet")
    long = Primitive.LONG
    now = Schema(inside((Field(4, "a", long),), nested))
    before = Schema(inside((Field(4, "b", long), Field(6, "a", long)), nested))

    found = read_file_schema(tmp_path / "file.parquet", known_fields(now, before), now).schema

    fields = found.fields
    if nested:
        assert isinstance(fields[0].type, Struct)
        fields = fields[0].type.fields
    assert [(field.id, field.name, field.physical_name) for field in fields] == [
        (4, "b", None),
        (6, "a", None),
    ]


def test_names_are_those_of_now_where_they_differ(tmp_path: Path) -> None:
    file = pa.schema([column(4, "b"), column(6, "c")])
    pq.write_table(file.empty_table(), tmp_path / "file.parquet")
    now = Schema((Field(4, "a", Primitive.LONG), Field(6, "c", Primitive.LONG)))

    found = read_file_schema(tmp_path / "file.parquet", known_fields(now), now).schema

    assert [(field.name, field.physical_name) for field in found.fields] == [
        ("a", "b"),
        ("c", None),
    ]
