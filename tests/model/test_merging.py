"""Schemas and meta items merge, fact by fact; what cannot both stand is a conflict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from havasu_vc.model.counterparts import definition, renumbered, with_children
from havasu_vc.model.evolution import check_evolution, widens, with_stored_names
from havasu_vc.model.merging import ItemConflict, MergedSchema, merge_items, merge_schemas
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    Decimal,
    Field,
    Geometry,
    Primitive,
    Struct,
    Type,
    children,
    descendants,
)
from tests.model.merge_cases import CASES, Case, schema
from tests.model.strategies import schemas, simple_types


def merge(base: Schema, ours: Schema, theirs: Schema, *, first: int = 101) -> MergedSchema:
    return merge_schemas(base, ours, theirs, new_id=count(first).__next__)


def told(merged: MergedSchema) -> tuple[str, ...]:
    """Return conflicts as the cases name them."""
    return tuple(
        " ".join(part for part in (c.kind, c.name, c.attribute) if part) for c in merged.conflicts
    )


# Tables of cases


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_merge(case: Case) -> None:
    merged = merge(case.base, case.ours, case.theirs)

    assert merged.schema == case.merged
    assert told(merged) == case.conflicts
    check_result(merged, case.ours)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_merge_with_sides_exchanged(case: Case) -> None:
    merged = merge(case.base, case.theirs, case.ours)

    # Undoing a name or a key may bring up more on one side than on the other.
    kinds = {conflict.kind for conflict in merged.conflicts}
    assert kinds <= {text.split()[0] for text in case.conflicts}
    assert bool(kinds) == bool(case.conflicts)
    assert alike(merged.schema, case.merged if case.flipped is None else case.flipped)
    check_result(merged, case.theirs)


def told_sides(merged: MergedSchema, side: str) -> dict[str, str]:
    return {conflict.name: side for conflict in merged.conflicts}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_side_for_all_that_is_in_conflict(case: Case) -> None:
    versions = (case.base, case.ours, case.theirs)
    ids = count(101)
    ours = merge_schemas(*versions, new_id=ids.__next__, otherwise="ours")
    theirs = merge_schemas(*versions, new_id=ids.__next__, otherwise="theirs")

    assert (ours.schema, ours.conflicts, theirs.conflicts) == (case.merged, (), ())
    assert alike(theirs.schema, case.merged if case.flipped is None else case.flipped)
    check_result(theirs, case.ours)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sides_by_column_are_that_side_for_all(case: Case) -> None:
    versions = (case.base, case.ours, case.theirs)
    waiting = merge(*versions)
    for side in ("ours", "theirs"):
        sides = told_sides(waiting, side)
        by_column = merge_schemas(*versions, new_id=count(101).__next__, sides=sides)
        whole = merge_schemas(*versions, new_id=count(101).__next__, otherwise=side)

        assert by_column == whole


def test_one_column_is_settled_and_the_others_wait() -> None:
    base = schema("ID; 2 a int; 3 b int; 4 c int")
    ours = schema("ID; 2 a1 int @a; 4 c int #mine")
    theirs = schema("ID; 2 a2 int @a; 3 b long; 4 c int #other")

    def merged(**sides: str) -> MergedSchema:
        return merge_schemas(base, ours, theirs, new_id=count(101).__next__, sides=sides)

    assert told(merged()) == ("name a1", "property c doc", "drop b")
    first = merged(a1="theirs")
    assert told(first) == ("property c doc", "drop b")
    assert first.schema == schema("ID; 2 a2 int @a; 4 c int #mine")
    last = merged(a1="ours", b="theirs", c="theirs")
    assert not last.conflicts
    assert last.schema == schema("ID; 2 a1 int @a; 3 b long; 4 c int #other")


def test_a_name_that_theirs_gets_goes_from_the_column_that_had_it() -> None:
    base = schema("ID; 2 a int; 3 b int")
    ours, theirs = schema("ID; 2 c int @a; 3 b int"), schema("ID; 2 a int; 3 c int @b")

    merged = merge_schemas(base, ours, theirs, new_id=count(101).__next__, sides={"b": "theirs"})

    assert (merged.schema, merged.conflicts) == (schema("ID; 2 a int; 3 c int @b"), ())


def test_there_are_cases() -> None:
    assert len(CASES) > 40
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.flipped is not None for case in CASES if case.conflicts)


def check_result(merged: MergedSchema, ours: Schema) -> None:
    """Check what holds for every merge."""
    assert with_stored_names(merged.schema) == merged.schema
    for fields in ({0: merged.schema.fields}, inner_fields(merged.schema)):
        for level in fields.values():
            assert len({field.stored_name for field in level}) == len(level)
    known = {field.id: field for field in descendants(ours.fields)}
    for field in descendants(merged.schema.fields):
        if field.id in known:
            assert field.stored_name == known[field.id].stored_name


def inner_fields(schema: Schema) -> dict[int, tuple[Field, ...]]:
    return {field.id: children(field.type) for field in descendants(schema.fields)}


def alike(left: Schema, right: Schema) -> bool:
    """Whether schemas differ in nothing but order, ids and names in files."""
    keys = [{field.name for field in schema.key.fields} for schema in (left, right)]
    sides = [sorted(map(repr, map(unordered, schema.fields))) for schema in (left, right)]
    return keys[0] == keys[1] and sides[0] == sides[1]


def unordered(field: Field) -> Field:
    parts = tuple(unordered(part) for part in children(field.type))
    if isinstance(field.type, Struct):
        parts = tuple(sorted(parts, key=lambda part: part.name))
    return definition(
        replace(field, type=with_children(field.type, parts), extra=tuple(sorted(field.extra)))
    )


# What conflicts say, and what becomes of ids


def test_a_conflict_holds_all_three_versions() -> None:
    base, ours, theirs = schema("1 a int"), schema("1 a string"), schema("1 a date")

    (conflict,) = merge(base, ours, theirs).conflicts

    assert (conflict.kind, conflict.name, conflict.field_id) == ("type", "a", 1)
    assert (conflict.base, conflict.ours, conflict.theirs) == (
        base.fields[0],
        ours.fields[0],
        theirs.fields[0],
    )


def test_a_conflict_of_keys_holds_key_columns() -> None:
    base = schema("1 a int *; 2 b int !; 3 c int !")
    ours = schema("1 a int !; 2 b int *; 3 c int !")
    theirs = schema("1 a int !; 2 b int !; 3 c int *")

    (conflict,) = merge(base, ours, theirs).conflicts

    assert (conflict.kind, conflict.name, conflict.field_id) == ("key", "", None)
    assert (conflict.base, conflict.ours, conflict.theirs) == (
        base.key.fields,
        ours.key.fields,
        theirs.key.fields,
    )


def test_of_two_columns_of_one_name_the_conflict_shows_both() -> None:
    base = schema("1 a int")
    ours, theirs = schema("1 x int @a"), schema("1 a int; 9 x date")

    (conflict,) = merge(base, ours, theirs).conflicts

    assert (conflict.kind, conflict.name, conflict.field_id) == ("name", "x", 9)
    assert (conflict.ours, conflict.theirs) == (ours.fields[0], theirs.fields[1])


def test_columns_of_theirs_get_ids_of_the_merged_schema() -> None:
    base = schema("1 id long *")
    ours = schema("1 id long *; 7 same int; 8 x int; 9 other int; 20 s struct(21 u int)")
    theirs = schema("5 same int; 8 y int; 9 s struct(7 u int); 1 id long *; 6 other string")

    merged = merge(base, ours, theirs)

    assert merged.theirs == schema(
        "7 same int; 101 y int; 20 s struct(21 u int); 1 id long *; 6 other string"
    )
    assert set(merged.schema.by_id) == {1, 7, 8, 9, 20, 101}
    assert told(merged) == ("add other",)


def test_an_id_that_is_drawn_twice_is_drawn_again() -> None:
    base, ours, theirs = schema("-"), schema("5 x int"), schema("5 y int; 6 z int")
    drawn = iter([5, 6, 7])

    assert renumbered(base, ours, theirs, new_id=drawn.__next__) == schema("7 y int; 6 z int")


def test_a_column_added_in_two_ways_is_two_columns_unless_values_compare() -> None:
    base = schema("-")
    ours = schema("5 c int #x")

    assert merge(base, ours, schema("6 c int #y")).theirs.fields[0].id == 5
    assert merge(base, ours, schema("6 c long")).theirs.fields[0].id == 6
    assert merge(base, ours, schema("5 c long")).theirs.fields[0].id == 101
    assert merge(base, schema("5 g wkb(A)"), schema("6 g wkb(A X)")).theirs.fields[0].id == 5
    assert merge(base, schema("5 g wkb(A)"), schema("6 g wkb(B)")).theirs.fields[0].id == 6


def test_an_id_that_the_base_uses_elsewhere_is_not_given_to_a_twin() -> None:
    base, ours = schema("3 s struct(5 p int)"), schema("5 x int")
    theirs = schema("3 s struct(5 p int); 9 x int")

    assert renumbered(base, ours, theirs, new_id=count(101).__next__) == theirs


# Laws, over what people do to schemas

NAMES = st.sampled_from("abcdef")


def plain(schema: Schema) -> Schema:
    """Return a schema none of whose columns was renamed."""

    def stripped(field: Field) -> Field:
        parts = tuple(stripped(part) for part in children(field.type))
        return replace(field, physical_name=None, type=with_children(field.type, parts))

    return Schema(tuple(map(stripped, schema.fields)), schema.identifier_ids)


@st.composite
def bases(draw: st.DrawFn) -> Schema:
    known = plain(draw(schemas()))
    last = known.last_id
    more = draw(st.lists(NAMES, max_size=4, unique=True))
    fields = [
        Field(last + index, name, draw(simple_types), required=draw(st.booleans()))
        for index, name in enumerate(more, 1)
        if name not in known.names
    ]
    parts = (Field(last + 11, "a", Primitive.INT), Field(last + 12, "b", Primitive.FLOAT))
    if draw(st.booleans()) and "nested" not in known.names:
        fields.append(Field(last + 10, "nested", Struct(parts)))
    return Schema((*known.fields, *fields), known.identifier_ids)


@st.composite
def evolved(draw: st.DrawFn, base: Schema, *, drops: bool = True) -> Schema:
    """Draw what a few steps, each of which a commit may take, make of a schema."""
    fields = list(base.fields)
    fresh = base.last_id + 1
    for _ in range(draw(st.integers(0, 5))):
        fresh += draw(st.integers(0, 2))
        fields = _step(draw, fields, fresh, base.identifier_ids, drops=drops)
        fresh += 1
    return with_stored_names(Schema(tuple(fields), base.identifier_ids))


def _step(
    draw: st.DrawFn, fields: list[Field], fresh: int, keys: Iterable[int], *, drops: bool
) -> list[Field]:
    names = {field.name for field in fields}
    steps = ["add", "rename", "move", "widen", "say", "inside"] + ["drop"] * drops
    step = draw(st.sampled_from(steps))
    if step == "add":
        name = draw(NAMES)
        new = Field(fresh, name, draw(st.sampled_from((Primitive.INT, Primitive.DATE))))
        place = draw(st.integers(0, len(fields)))
        return fields if name in names else [*fields[:place], new, *fields[place:]]
    if not fields:
        return fields
    if step == "move":
        return draw(st.permutations(fields))
    index = draw(st.integers(0, len(fields) - 1))
    field = fields[index]
    if step == "drop":
        return fields if field.id in keys else [*fields[:index], *fields[index + 1 :]]
    if step == "rename":
        name = draw(NAMES)
        if name not in names:
            field = renamed(field, name)
    elif step == "widen":
        field = replace(field, type=wider(field.type))
    elif step == "say":
        field = said(draw, field)
    elif isinstance(field.type, Struct) and field.raster is None:
        parts = _step(draw, list(field.type.fields), fresh, (), drops=drops)
        if parts:
            inner = with_stored_names(Schema(tuple(parts)))
            field = replace(field, type=Struct(inner.fields))
    return [*fields[:index], field, *fields[index + 1 :]]


def renamed(field: Field, name: str) -> Field:
    stored = field.stored_name
    return replace(field, name=name, physical_name=None if stored == name else stored)


def said(draw: st.DrawFn, field: Field) -> Field:
    word = draw(st.sampled_from(("x", "y", None)))
    if field.geometry is not None and draw(st.booleans()):
        return replace(field, geometry=Geometry(field.geometry.encoding, word, word))
    if draw(st.booleans()):
        return replace(field, extra=() if word is None else (("maker", word), (word, "z")))
    return replace(field, doc=word)


def wider(type_: Type) -> Type:
    match type_:
        case Primitive.INT:
            return Primitive.LONG
        case Primitive.FLOAT:
            return Primitive.DOUBLE
        case Decimal(precision, scale) if precision < 38:
            return Decimal(precision + 1, scale)
        case _:
            return type_


@st.composite
def three(draw: st.DrawFn, *, drops: bool = True) -> tuple[Schema, Schema, Schema]:
    base = draw(bases())
    return base, draw(evolved(base, drops=drops)), draw(evolved(base, drops=drops))


@given(three())
def test_with_the_base_the_other_side_comes_out(sides: tuple[Schema, Schema, Schema]) -> None:
    base, changed, _ = sides

    for ours, theirs in ((base, changed), (changed, base)):
        merged = merge(base, ours, theirs, first=10**7)
        assert merged == MergedSchema(changed, (), theirs)


@given(three())
def test_of_equals_that_comes_out(sides: tuple[Schema, Schema, Schema]) -> None:
    base, changed, _ = sides

    assert merge(base, changed, changed, first=10**7) == MergedSchema(changed, (), changed)


@given(three())
def test_what_holds_for_every_merge(sides: tuple[Schema, Schema, Schema]) -> None:
    base, ours, theirs = sides

    merged = merge(base, ours, theirs, first=10**7)

    check_result(merged, ours)
    assert merged.theirs.names == theirs.names
    assert all(map(equal_definitions, merged.theirs.fields, theirs.fields))
    assert len(merged.conflicts) == len(set(merged.conflicts))


def equal_definitions(left: Field, right: Field) -> bool:
    return definition(left) == definition(right)


@given(three())
def test_no_column_is_lost_or_won_in_silence(sides: tuple[Schema, Schema, Schema]) -> None:
    base, ours, theirs = sides
    merged = merge(base, ours, theirs, first=10**7)
    disputed = {conflict.field_id for conflict in merged.conflicts}

    for number in {**base.by_id, **ours.by_id, **merged.theirs.by_id}:
        present = [number in side.by_id for side in (base, ours, merged.theirs)]
        expected = all(present) if present[0] else any(present)
        assert (number in merged.schema.by_id) == expected or number in disputed


@given(three())
def test_every_change_is_in_the_result_or_in_a_conflict(
    sides: tuple[Schema, Schema, Schema],
) -> None:
    base, ours, theirs = sides
    merged = merge(base, ours, theirs, first=10**7)
    disputed = {conflict.field_id for conflict in merged.conflicts}

    for side in (ours, merged.theirs):
        for number in merged.schema.by_id.keys() & side.by_id.keys() & base.by_id.keys():
            was, now, got = (s.by_id[number] for s in (base, side, merged.schema))
            assert widens(now.type, got.type) or merged.conflicts
            for fact in ("name", "required", "doc", "source_type"):
                if getattr(now, fact) != getattr(was, fact):
                    assert getattr(got, fact) == getattr(now, fact) or number in disputed


@given(three())
def test_without_conflicts_sides_may_be_exchanged(sides: tuple[Schema, Schema, Schema]) -> None:
    base, ours, theirs = sides
    one = merge(base, ours, theirs, first=10**7)
    other = merge(base, theirs, ours, first=10**7)

    assert bool(one.conflicts) == bool(other.conflicts)
    if not one.conflicts:
        assert alike(one.schema, other.schema)


@given(three(drops=False))
def test_rows_of_both_sides_can_be_read_under_the_result(
    sides: tuple[Schema, Schema, Schema],
) -> None:
    base, ours, theirs = sides
    merged = merge(base, ours, theirs, first=10**7)
    assume(not merged.conflicts)

    check_evolution(ours, merged.schema)
    check_evolution(merged.theirs, merged.schema)


@given(three())
def test_merged_again_nothing_changes(sides: tuple[Schema, Schema, Schema]) -> None:
    base, ours, theirs = sides
    merged = merge(base, ours, theirs, first=10**7)

    again = merge(merged.theirs, merged.schema, merged.theirs, first=10**8)

    assert again == MergedSchema(merged.schema, (), merged.theirs)


@given(schemas(), schemas(), schemas())
def test_schemas_that_have_nothing_to_do_with_each_other_merge(
    base: Schema, ours: Schema, theirs: Schema
) -> None:
    merged = merge(base, ours, theirs, first=10**7)

    assert with_stored_names(merged.schema) == merged.schema


# Items

items = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged", "conflict"),
    [
        ({}, {}, {}, {}, None),
        ({"title": "a"}, {"title": "b"}, {"title": "a"}, {"title": "b"}, None),
        ({"title": "a"}, {"title": "b"}, {"title": "b"}, {"title": "b"}, None),
        ({"title": "a"}, {}, {"title": "a"}, {}, None),
        ({"title": "a"}, {}, {}, {}, None),
        ({}, {"title": "a"}, {"description": "b"}, {"title": "a", "description": "b"}, None),
        ({}, {"title": "a"}, {"title": "a"}, {"title": "a"}, None),
        ({}, {"title": "a"}, {"title": "b"}, {"title": "a"}, (None, "a", "b")),
        ({"title": "a"}, {"title": "b"}, {"title": "c"}, {"title": "b"}, ("a", "b", "c")),
        ({"title": "a"}, {"title": "b"}, {}, {"title": "b"}, ("a", "b", None)),
        ({"title": "a"}, {}, {"title": "c"}, {}, ("a", None, "c")),
    ],
)
def test_merge_items(
    base: dict[str, str],
    ours: dict[str, str],
    theirs: dict[str, str],
    merged: dict[str, str],
    conflict: tuple[str | None, str | None, str | None] | None,
) -> None:
    expected = () if conflict is None else (ItemConflict("title", *conflict),)

    assert merge_items(base, ours, theirs) == (merged, expected)


@given(items, items)
def test_items_merge_with_the_base_and_with_equals(
    base: dict[str, str], changed: dict[str, str]
) -> None:
    assert merge_items(base, changed, base) == (changed, ())
    assert merge_items(base, base, changed) == (changed, ())
    assert merge_items(base, changed, changed) == (changed, ())


@given(items, items, items)
def test_items_are_in_conflict_from_both_sides_alike(
    base: dict[str, str], ours: dict[str, str], theirs: dict[str, str]
) -> None:
    merged, conflicts = merge_items(base, ours, theirs)
    other, flipped = merge_items(base, theirs, ours)

    disputed = {conflict.name for conflict in conflicts}
    assert disputed == {conflict.name for conflict in flipped}
    assert all(
        merged.get(name) == (ours if name in disputed else other).get(name)
        for name in {**base, **ours, **theirs}
    )
