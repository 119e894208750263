"""How deep a schema nests, which ids rasters get, and where columns stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu import schema as documents
from havasu_vc.formats.havasu.deltas import Delta, delta_path, named
from havasu_vc.formats.havasu.schema import format_columns, parse_columns, parse_schema
from havasu_vc.model.rasters import RASTER_IDS, RASTER_PARTS, raster_ids
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Primitive, descendants

WHERE = "parcels/.havasu-dataset/columns at HEAD"


def parsed(*fields: dict[str, Any]) -> Schema:
    return parse_schema(json.dumps({"fields": list(fields)}).encode(), WHERE)


def nested(kind: str, depth: int) -> dict[str, Any]:
    """Return a column of so many types of a kind, each inside the one before."""
    type_: Any = "long"
    for number in range(depth):
        low, high = 10 + 2 * number, 11 + 2 * number
        if kind == "struct":
            type_ = {"type": "struct", "fields": [{"id": low, "name": "x", "type": type_}]}
        elif kind == "list":
            type_ = {"type": "list", "element-id": low, "element": type_}
        else:
            key, value = {"key-id": low, "key": "int"}, {"value-id": high, "value": type_}
            type_ = {"type": "map", **key, **value}
    return {"id": 1, "name": "deep", "type": type_}


@pytest.mark.parametrize(("kind", "most"), [("struct", 64), ("list", 65), ("map", 65)])
def test_types_nest_so_deeply_and_no_more(kind: str, most: int) -> None:
    assert len(list(descendants(parsed(nested(kind, most)).fields))) > most
    with pytest.raises(CorruptDatasetError, match="nested too deeply"):
        parsed(nested(kind, most + 1))


def test_an_element_may_be_null_and_a_key_not() -> None:
    schema = parsed(
        {"id": 1, "name": "l", "type": {"type": "list", "element-id": 2, "element": "int"}},
        {
            "id": 3,
            "name": "m",
            "type": {"type": "map", "key-id": 4, "key": "int", "value-id": 5, "value": "int"},
        },
    )
    one, two = (field.type for field in schema.fields)
    assert isinstance(one, List)
    assert isinstance(two, Map)
    assert (one.element.required, two.key.required, two.value.required) == (False, True, False)


def raster(number: int, ids: int | None = None) -> dict[str, Any]:
    """Return a raster column, whose parts have ids from one on."""
    known = {} if ids is None else {RASTER_IDS: str(ids)}
    type_ = {"type": "struct", "fields": []}
    return {
        "id": number,
        "name": f"r{number}",
        "type": type_,
        "havasu.raster-encoding": "v1",
        **known,
    }


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        ([raster(1)], 2),
        ([raster(1), {"id": 7, "name": "n", "type": "int"}], 8),
        ([raster(1), raster(2, 100)], 100 + RASTER_PARTS),
        ([raster(1), raster(2, 100), {"id": 500, "name": "n", "type": "int"}], 501),
        ([{"id": 500, "name": "n", "type": "int"}, raster(2, 100), raster(3)], 501),
    ],
)
def test_parts_of_a_raster_lie_above_all_ids_that_are_named(
    columns: list[dict[str, Any]], first: int
) -> None:
    schema = parsed(*columns)
    unnamed = next(field for field in schema.fields if field.id == _unnamed(columns))
    assert raster_ids(unnamed) == tuple(range(first, first + RASTER_PARTS))


def _unnamed(columns: list[dict[str, Any]]) -> int:
    """Return the raster column whose parts no document names."""
    return next(
        int(each["id"])
        for each in columns
        if "havasu.raster-encoding" in each and RASTER_IDS not in each
    )


def columns(*numbers: int) -> Schema:
    return Schema(tuple(Field(number, f"c{number}", Primitive.INT) for number in numbers))


@pytest.mark.parametrize(
    ("numbers", "before", "expected"),
    [
        # As they come, where none had a place.
        ((4, 2, 9), {}, [0, 1, 2]),
        # What stays keeps its place; what is new stands behind all of them.
        ((1, 2, 3), {1: 0, 2: 1, 3: 2}, [0, 1, 2]),
        ((1, 3), {1: 0, 2: 1, 3: 2}, [0, 2]),
        ((1, 3, 8, 9), {1: 0, 2: 1, 3: 5}, [0, 5, 6, 7]),
        ((8, 9), {1: 7}, [0, 1]),
        # Of one place the ids decide.
        ((1, 2, 3), {1: 4, 2: 4}, [4, 4, 5]),
        ((2, 1), {1: 4, 2: 4}, [0, 1]),
        # In another order, or with new ones between them, all are placed anew.
        ((3, 1), {1: 0, 3: 2}, [0, 1]),
        ((1, 8, 3), {1: 4, 3: 6}, [0, 1, 2]),
        ((8, 1), {1: 4}, [0, 1]),
    ],
)
def test_columns_stand_where_they_stood(
    numbers: tuple[int, ...], before: dict[int, int], expected: list[int]
) -> None:
    schema = columns(*numbers)
    found, places = parse_columns(format_columns(schema, before).items(), WHERE)
    assert found == schema
    assert [places[number] for number in numbers] == expected


def test_no_more_columns_are_read_than_a_table_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_COLUMNS", 3)
    every = list(format_columns(columns(1, 2, 3, 4)).items())
    assert len(every) == 8
    assert parse_columns(format_columns(columns(1, 2, 3)).items(), WHERE)[0] == columns(1, 2, 3)
    with pytest.raises(CorruptDatasetError, match="the names that columns claim"):
        parse_columns(every[:7], WHERE)
    with pytest.raises(CorruptDatasetError, match="over 3 columns"):
        parse_columns(every, WHERE)


def test_a_delta_is_named_by_what_it_says_and_by_what_was_before() -> None:
    delta = Delta("", "00000000-test", 3)
    assert delta.marks == 0
    names = {
        named(delta, ()),
        named(delta, [("edits/0/ab", "1" * 40)]),
        named(Delta("", "00000000-test", 4), ()),
    }
    assert len(names) == 3
    assert {len(name) for name in names} == {40}
    assert named(delta, ()) == "5489493f5bc27c89ccfc29b411ef9ca2a597e7a5"
    assert delta_path("ab" * 20) == f"files/ab/{'ab' * 20}.json"
