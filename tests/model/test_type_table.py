"""The table of types: a row for each, and what it spells is what others know."""

import json
import struct

import pyarrow as pa
import pytest

from havasu_vc.model.arrow import arrow_type, schema_from_arrow
from havasu_vc.model.evolution import widens
from havasu_vc.model.types import TYPES, Hashed, Primitive, is_number, is_whole

T = pytest.importorskip("pyspark.sql.types")


def test_every_type_has_a_row() -> None:
    assert list(TYPES) == list(Primitive)


@pytest.mark.parametrize("type_", Primitive)
def test_arrow_knows_it_and_it_comes_back(type_: Primitive) -> None:
    found = arrow_type(type_)
    assert str(found) == TYPES[type_].arrow
    schema = schema_from_arrow(pa.schema([pa.field("a", found)]))
    (field,) = schema.fields
    # Bytes of one length are a type of their own; a UUID is told by more than its bytes.
    assert type_ is Primitive.UUID or field.type is type_


@pytest.mark.parametrize("type_", Primitive)
def test_foreign_names_are_real(type_: Primitive) -> None:
    row = TYPES[type_]
    assert isinstance(getattr(T, row.spark)(), T.DataType)
    if row.delta is not None:
        column = {"name": "a", "type": row.delta, "nullable": True, "metadata": {}}
        schema = T.StructType.fromJson({"type": "struct", "fields": [column]})
        assert schema.names == ["a"]
    if row.single is not None:
        assert struct.calcsize(row.single) * 8 == arrow_type(type_).bit_width
    assert json.loads(json.dumps(row.avro)) == row.avro


@pytest.mark.parametrize("type_", [each for each in Primitive if TYPES[each].wider is not None])
def test_a_wider_type_holds_as_many_bits(type_: Primitive) -> None:
    wider = TYPES[type_].wider
    assert wider is not None
    assert widens(type_, wider)
    assert not widens(wider, type_)
    assert TYPES[wider].hashed is TYPES[type_].hashed
    assert arrow_type(wider).bit_width == 2 * arrow_type(type_).bit_width


def test_numbers() -> None:
    whole = [each for each in Primitive if is_whole(each)]
    assert whole == [Primitive.INT, Primitive.LONG]
    assert [each for each in Primitive if is_number(each)] == [
        *whole,
        Primitive.FLOAT,
        Primitive.DOUBLE,
    ]
    assert {TYPES[each].hashed for each in whole} == {Hashed.WHOLE}
