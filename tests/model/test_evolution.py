"""What may change in a schema without rewriting data, and what may not."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from havasu_vc.errors import SchemaViolationError
from havasu_vc.model.evolution import (
    BLOCK,
    check_evolution,
    field_ids,
    match_by_name,
    widens,
    with_ids,
    with_stored_names,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, List, Primitive, Struct, Type, descendants
from tests.model.strategies import schemas, simple_types

types = st.one_of(
    simple_types,
    simple_types.map(lambda inner: List(Field(9, "element", inner))),
    st.tuples(simple_types, simple_types).map(
        lambda pair: Struct((Field(8, "a", pair[0]), Field(9, "b", pair[1])))
    ),
)
NEAR: tuple[Type, ...] = (*Primitive, *(Decimal(digits, 2) for digits in (3, 5, 9)))
"""Types of which many widen to others."""
KEY = Field(1, "id", Primitive.LONG, required=True)
NAME = Field(2, "name", Primitive.STRING)
SIZE = Field(3, "size", Primitive.INT)
TABLE = Schema((KEY, NAME, SIZE), (1,))


# Widening is a partial order


@given(types)
def test_a_type_widens_to_itself(type_: Type) -> None:
    assert widens(type_, type_)


def test_widening_is_a_partial_order() -> None:
    for first, second in product(NEAR, NEAR):
        if widens(first, second) and widens(second, first):
            assert first == second
    for first, second, third in product(NEAR, NEAR, NEAR):
        if widens(first, second) and widens(second, third):
            assert widens(first, third)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (Primitive.INT, Primitive.LONG),
        (Primitive.FLOAT, Primitive.DOUBLE),
        (Decimal(5, 2), Decimal(9, 2)),
        (List(Field(9, "element", Primitive.INT)), List(Field(9, "element", Primitive.LONG))),
    ],
    ids=str,
)
def test_what_widens(narrow: Type, wide: Type) -> None:
    assert widens(narrow, wide)
    assert not widens(wide, narrow)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Primitive.INT, Primitive.DOUBLE),
        (Primitive.INT, Primitive.STRING),
        (Primitive.DATE, Primitive.TIMESTAMP),
        (Decimal(5, 2), Decimal(9, 3)),
        (Primitive.STRING, Primitive.BINARY),
        (List(Field(9, "element", Primitive.INT)), List(Field(8, "element", Primitive.INT))),
    ],
    ids=str,
)
def test_what_does_not_widen(old: Type, new: Type) -> None:
    assert not widens(old, new)


# What a commit may do


@given(schemas())
def test_a_schema_may_stay(schema: Schema) -> None:
    check_evolution(schema, schema)


@pytest.mark.parametrize(
    "fields",
    [
        (KEY, SIZE, NAME),
        (KEY, replace(NAME, name="title"), SIZE),
        (KEY, NAME),
        (KEY, NAME, replace(SIZE, type=Primitive.LONG)),
        (KEY, NAME, SIZE, Field(9, "new", Primitive.DATE)),
    ],
    ids=["reorder", "rename", "drop", "widen", "add"],
)
def test_what_may_change(fields: tuple[Field, ...]) -> None:
    check_evolution(TABLE, Schema(fields, (1,)))


@pytest.mark.parametrize(
    "schema",
    [
        Schema((KEY, replace(NAME, required=True), SIZE), (2,)),
        Schema((replace(NAME, required=True), SIZE), (2,)),
        Schema((KEY, replace(NAME, required=True), SIZE), (1, 2)),
    ],
    ids=["another", "another without the old one", "more columns"],
)
def test_another_key_may_be_chosen(schema: Schema) -> None:
    # Every file is written anew then, and nulls are refused while it is.
    check_evolution(TABLE, schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (Schema((KEY, NAME, replace(SIZE, type=Primitive.STRING)), (1,)), "values could be lost"),
        (Schema((KEY, replace(NAME, required=True), SIZE), (1,)), "may hold nulls"),
        (Schema((KEY, NAME, SIZE, Field(9, "new", Primitive.INT, required=True)), (1,)), "added"),
        (Schema((NAME, SIZE)), "key column 'id' cannot be dropped"),
        (Schema((KEY, NAME, Field(9, "all", Struct((SIZE,)))), (1,)), "'size' cannot move into"),
    ],
)
def test_what_may_not_change(schema: Schema, reason: str) -> None:
    with pytest.raises(SchemaViolationError, match=reason):
        check_evolution(TABLE, schema)


# Ids


@given(st.integers(0, 2**30), st.integers())
def test_new_ids_are_above_all_and_never_come_twice(last: int, seed: int) -> None:
    new_id = field_ids(last, source=random.Random(seed))
    drawn = [new_id() for _ in range(20)]

    assert drawn[0] > last
    assert drawn[0] <= last + BLOCK
    assert drawn == sorted(set(drawn))


# Names in files


@given(schemas())
def test_columns_that_were_renamed_have_names_of_their_own_in_files(schema: Schema) -> None:
    plain = Schema(
        tuple(replace(field, physical_name=None) for field in schema.fields), schema.identifier_ids
    )
    assume(plain.fields)
    first = plain.fields[0]
    renamed = replace(first, name="renamed", physical_name=first.name)
    newcomer = Field(2_000_000_000, first.name, Primitive.INT)
    after = Schema((renamed, *plain.fields[1:], newcomer), plain.identifier_ids)
    assume("renamed" not in plain.names)

    stored = [field.stored_name for field in with_stored_names(after).fields]

    assert len(set(stored)) == len(stored)
    assert stored[:-1] == [field.name for field in plain.fields]


# A source compared with a dataset, by name


def test_columns_match_by_name() -> None:
    incoming = Schema(
        (
            Field(1, "size", Primitive.LONG),
            Field(2, "note", List(Field(4, "element", Primitive.INT))),
            Field(3, "id", Primitive.INT, required=True),
        ),
        (3,),
    )
    numbers = iter(range(100, 200))

    found = match_by_name(TABLE, incoming, lambda: next(numbers))

    assert found.names == ("id", "size", "note")
    assert found.by_name["id"] == KEY
    assert found.by_name["size"] == replace(SIZE, type=Primitive.LONG)
    assert found.identifier_ids == (1,)
    assert all(field.id >= 100 for field in descendants((found.by_name["note"],)))


def test_a_column_out_of_another_one_may_not_become_one_itself() -> None:
    inner = Field(4, "inner", Primitive.INT)
    old = Schema((KEY, Field(8, "all", Struct((inner, SIZE)))), (1,))
    with pytest.raises(SchemaViolationError, match="'inner' cannot move into"):
        check_evolution(old, Schema((KEY, inner), (1,)))


def test_new_columns_of_a_source_may_be_null_in_what_is_there() -> None:
    incoming = Schema((KEY, NAME, SIZE, Field(9, "new", Primitive.INT, required=True)), (1,))
    found = match_by_name(TABLE, incoming, field_ids(TABLE.last_id))
    assert not found.by_name["new"].required
    check_evolution(TABLE, found)


@given(schemas())
def test_the_same_columns_again_change_nothing(schema: Schema) -> None:
    inner = counter(10**7)
    shifted = [
        replace(field, id=field.id + 5_000_000, type=with_ids(field.type, inner, None))
        for field in schema.fields
    ]
    incoming = Schema(tuple(shifted))

    assert match_by_name(schema, incoming, counter(10**8)) == with_stored_names(schema)


def counter(start: int) -> Callable[[], int]:
    return iter(range(start, 2**31)).__next__


def test_a_source_without_the_key_is_refused() -> None:
    with pytest.raises(SchemaViolationError, match="no column 'id', which is in the key"):
        match_by_name(TABLE, Schema((NAME,)), counter(100))


def test_a_source_of_another_type_is_refused() -> None:
    other = Schema((KEY, Field(2, "name", Primitive.LONG)))

    with pytest.raises(SchemaViolationError, match="'name' is string in the dataset, long"):
        match_by_name(TABLE, other, counter(100))
