"""Schemas and types refuse what makes no sense, and find columns by id and name."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.schema import Schema, can_identify
from havasu_vc.model.types import (
    LARGEST_FIELD_ID,
    Decimal,
    Field,
    Fixed,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    children,
    descendants,
)
from tests.model.strategies import schemas

ID = Field(1, "id", Primitive.LONG, required=True)
NAME = Field(2, "name", Primitive.STRING)


@given(schemas())
def test_columns_are_found_by_id_and_name(schema: Schema) -> None:
    assert [schema.by_id[field.id] for field in schema.fields] == list(schema.fields)
    assert [schema.by_name[name] for name in schema.names] == list(schema.fields)
    assert schema.last_id == max((f.id for f in descendants(schema.fields)), default=0)
    assert {field.id for field in schema.key.fields} == set(schema.identifier_ids)
    assert bool(schema.key) == bool(schema.identifier_ids)


@given(schemas(), st.data())
def test_some_columns_are_a_schema(schema: Schema, data: st.DataObject) -> None:
    names = tuple(data.draw(st.permutations(schema.names)))
    chosen = names[: data.draw(st.integers(0, len(names)))]

    found = schema.select(chosen)

    assert found.names == chosen
    # Part of a key tells no rows apart.
    assert found.key.names in ((), tuple(n for n in chosen if n in schema.key.names))
    assert bool(found.key) == (bool(schema.key) and set(schema.key.names) <= set(chosen))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Schema((ID, Field(1, "x", Primitive.INT))), "used twice"),
        (lambda: Schema((ID, Field(2, "x", List(Field(1, "element", Primitive.INT))))), "twice"),
        (lambda: Schema((ID, Field(2, "id", Primitive.INT))), "two columns are named 'id'"),
        (
            lambda: Schema((Field(1, "s", Struct((NAME, Field(3, "name", Primitive.INT)))),)),
            "one name",
        ),
        (lambda: Schema((NAME,), (2,)), "field 2 cannot be a key"),
        (lambda: Schema((ID,), (7,)), "field 7 cannot be a key"),
        (lambda: Field(0, "x", Primitive.INT), "out of range"),
        (lambda: Field(LARGEST_FIELD_ID + 1, "x", Primitive.INT), "out of range"),
        (lambda: Field(1, "", Primitive.INT), "no name"),
        (lambda: Decimal(39, 0), "no such decimal"),
        (lambda: Decimal(5, 6), "no such decimal"),
        (lambda: Fixed(0), "no such length"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize("type_", [*Primitive, Decimal(9, 2), Fixed(4)], ids=str)
def test_what_may_be_a_key(type_: Primitive) -> None:
    floating = type_ in (Primitive.FLOAT, Primitive.DOUBLE)

    assert can_identify(Field(1, "x", type_, required=True)) != floating
    assert not can_identify(Field(1, "x", type_))


@pytest.mark.parametrize(
    "field",
    [
        Field(1, "x", List(Field(2, "element", Primitive.INT)), required=True),
        Field(1, "x", Primitive.BINARY, required=True, geometry=Geometry()),
        Field(1, "x", Struct(()), required=True, raster="v1"),
    ],
    ids=["list", "geometry", "raster"],
)
def test_what_may_not_be_a_key(field: Field) -> None:
    assert not can_identify(field)


def test_parts_of_types() -> None:
    key, value = Field(2, "key", Primitive.STRING, required=True), Field(3, "value", Primitive.INT)
    map_ = Field(1, "m", Map(key, value))

    assert children(map_.type) == (key, value)
    assert [field.id for field in descendants((map_, Field(4, "x", Primitive.INT)))] == [1, 2, 3, 4]
    assert str(map_.type) == "map<string, int>"
    assert str(Struct((key,))) == "struct<key: string>"
