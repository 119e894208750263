"""Raster columns in the model: blocks of ids, documents, and what Arrow makes of them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.arrow import FIELD_ID, arrow_field, schema_from_arrow
from havasu_vc.model.rasters import (
    BAND_TYPE,
    RASTER_IDS,
    RASTER_PARTS,
    RASTER_TYPE,
    collapsed,
    holds_rasters,
    is_raster_type,
    raster_field,
    raster_ids,
    whole,
    with_blocks,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Primitive, Struct, descendants

EMPTY = Field(2, "rast", Struct(()), raster="v1")


def ids_of(field: pa.Field) -> list[int]:
    """Return the Parquet field ids inside an Arrow field, parents first."""
    found = []
    type_ = field.type
    parts = [type_.field(index) for index in range(type_.num_fields)]
    for part in parts:
        found.append(int(part.metadata[FIELD_ID]))
        found += ids_of(part)
    return found


@given(st.integers(1, 10**6))
def test_a_raster_is_whole_in_arrow_and_each_part_has_an_id(first: int) -> None:
    field = raster_field(10**7, "rast", first)
    arrow = arrow_field(field)
    assert arrow.type == RASTER_TYPE
    assert sorted(ids_of(arrow)) == list(range(first, first + RASTER_PARTS))
    assert raster_ids(field) == tuple(range(first, first + RASTER_PARTS))


@given(st.permutations(range(100, 100 + RASTER_PARTS)))
def test_documents_remember_any_block(ids: list[int]) -> None:
    text = ",".join(map(str, ids))
    field = whole(replace(EMPTY, extra=((RASTER_IDS, text),)))
    assert raster_ids(field) == tuple(ids)
    assert field.extra == ()
    assert whole(collapsed(field)) == field
    assert collapsed(field).type == Struct(())


def test_a_raster_without_a_block_is_whole_in_arrow_too() -> None:
    assert arrow_field(EMPTY).type == RASTER_TYPE
    assert raster_ids(EMPTY) is None
    assert whole(EMPTY) == EMPTY


def test_blocks_are_drawn_where_none_is_known_at_any_depth() -> None:
    numbers = iter(range(50, 1000))
    known = raster_field(2, "known", 900)
    inside = Field(4, "inside", List(replace(EMPTY, id=5, name="element")))
    found = with_blocks(Field(1, "all", Struct((known, EMPTY, inside))), numbers.__next__)
    assert isinstance(found.type, Struct)
    assert found.type.fields[0] == known
    assert raster_ids(found.type.fields[1]) == tuple(range(50, 92))
    assert max(field.id for field in descendants((found.type.fields[2],))) == 133
    assert holds_rasters(found)
    assert not holds_rasters(Field(1, "x", Primitive.INT))


@pytest.mark.parametrize("loose", [False, True])
def test_rasters_are_told_by_their_type(loose: bool) -> None:
    type_ = pa.struct([part.with_nullable(True) for part in RASTER_TYPE]) if loose else RASTER_TYPE
    schema = schema_from_arrow(pa.schema([("id", pa.int64()), ("rast", type_), ("b", BAND_TYPE)]))
    assert [field.raster for field in schema.fields] == [None, "v1", None]
    assert schema.last_id == 3 + RASTER_PARTS + 5
    assert Schema(schema.fields).by_name["rast"].type != Struct(())


def test_other_structs_are_no_rasters() -> None:
    parts = list(RASTER_TYPE)
    assert not is_raster_type(pa.struct(parts[:-1]))
    assert not is_raster_type(pa.struct([*parts[1:], parts[0]]))
    assert not is_raster_type(pa.struct([parts[0].with_type(pa.int64()), *parts[1:]]))
    assert not is_raster_type(pa.int32())


def test_a_struct_that_is_no_raster_does_not_collapse() -> None:
    with pytest.raises(ValueError, match="not the struct of raster v1"):
        collapsed(replace(EMPTY, type=Struct((Field(9, "width", Primitive.INT),))))
