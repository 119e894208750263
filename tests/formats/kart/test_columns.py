"""`schema.json` and the schema it means."""

import json
from typing import Any

import pytest
from hypothesis import given

from havasu_vc.errors import CorruptDatasetError, UnsupportedTypeError
from havasu_vc.formats.kart.columns import (
    column_id,
    columns_of_schema,
    field_id,
    format_columns,
    format_legend,
    format_wkt,
    kart_schema,
    legend_name,
    legend_of,
    parse_legend,
    parse_schema,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Primitive
from havasu_vc.testing.tables import schemas

# The example of the published page, without the comma that makes it no JSON.
PAGE: list[dict[str, Any]] = [
    {
        "id": "500f5ecc-c02c-e8db-052a-84efb4d08a00",
        "name": "fid",
        "dataType": "integer",
        "primaryKeyIndex": 0,
        "size": 64,
    },
    {
        "id": "b8ae8ff3-1691-7f6f-bbe0-c03c648b6d67",
        "name": "geom",
        "dataType": "geometry",
        "geometryType": "MULTIPOLYGON",
        "geometryCRS": "EPSG:4326",
    },
    {
        "id": "4324e825-ffed-8aff-ceac-53a7dde7e2f7",
        "name": "building_id",
        "dataType": "integer",
        "size": 32,
    },
    {
        "id": "878f8e4e-433a-b7bb-74d5-b360ccfb3607",
        "name": "name",
        "dataType": "text",
        "length": 250,
    },
    {"id": "c8e75111-0506-a898-4d0e-ed1aa8c81280", "name": "last_modified", "dataType": "date"},
]


def parsed(columns: list[dict[str, Any]]) -> Schema:
    return parse_schema(json.dumps(columns).encode(), "here")


@pytest.mark.rule("KART-6", "KART-8", "KART-24", "KART-25", "KART-26", "KART-27")
def test_the_example_of_the_page() -> None:
    schema = parsed(PAGE)
    assert schema.key.names == ("fid",)
    assert [field.type for field in schema.fields][2:] == [
        Primitive.INT,
        Primitive.STRING,
        Primitive.DATE,
    ]
    assert columns_of_schema(schema) == PAGE
    assert format_columns(PAGE) == json.dumps(PAGE).encode()
    legend = format_legend(legend_of(schema))
    assert len(legend) == 193
    assert legend_name(legend) == "f59bc4fee52a37afac10409153a39cb6c8ec5bc2"
    assert parse_legend(legend, "here") == legend_of(schema)


@pytest.mark.rule("KART-7")
def test_the_page_itself_is_no_json() -> None:
    text = json.dumps(PAGE)[:-2] + ",}]"
    with pytest.raises(CorruptDatasetError, match="not JSON"):
        parse_schema(text.encode(), "here")


@pytest.mark.parametrize(
    "attributes",
    [
        {"dataType": "boolean"},
        {"dataType": "blob"},
        {"dataType": "date"},
        {"dataType": "float", "size": 32},
        {"dataType": "float", "size": 64},
        {"dataType": "float"},
        {"dataType": "geometry"},
        {"dataType": "geometry", "geometryType": "POINT ZM", "geometryCRS": "mine:1"},
        *({"dataType": "integer", "size": size} for size in (8, 16, 32, 64)),
        {"dataType": "integer"},
        {"dataType": "interval"},
        {"dataType": "numeric", "precision": 8, "scale": 4},
        {"dataType": "numeric"},
        {"dataType": "numeric", "precision": 60, "scale": 2},
        {"dataType": "text"},
        {"dataType": "text", "length": 10},
        {"dataType": "time"},
        {"dataType": "timestamp"},
        {"dataType": "timestamp", "timezone": "UTC"},
        {"dataType": "text", "collation": "de"},
    ],
)
@pytest.mark.rule(
    "KART-13",
    "KART-14",
    "KART-16",
    "KART-17",
    "KART-18",
    "KART-19",
    "KART-20",
    "KART-21",
    "KART-22",
)
def test_every_type_comes_back(attributes: dict[str, Any]) -> None:
    column = {"id": "x", "name": "x", **attributes}
    schema = parsed([PAGE[0], column])
    assert columns_of_schema(schema)[1] == column
    assert kart_schema(schema) == schema
    # An attribute that is null is as if it were not there.
    assert (
        parsed(
            [PAGE[0], {**column, "length": column.get("length"), "size": None}]
            if "size" not in column
            else [PAGE[0], column]
        )
        == schema
    )


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({}, "not a list"),
        ([1], "not an object"),
        ([{"name": "a", "dataType": "text"}], "has no id"),
        ([{"id": "a", "dataType": "text"}], "has no name"),
        ([{"id": "a", "name": "a"}], "has no dataType"),
        ([{"id": "a", "name": "a", "dataType": "double"}], "data type 'double'"),
        ([PAGE[0], {**PAGE[3], "id": PAGE[0]["id"]}], "two columns have the id"),
        ([PAGE[0], {**PAGE[3], "name": "fid"}], "two columns have the name"),
        ([{**PAGE[0], "primaryKeyIndex": 1}], "primaryKeyIndex"),
        ([{**PAGE[0], "primaryKeyIndex": -1}], "primaryKeyIndex"),
        ([PAGE[0], {**PAGE[3], "primaryKeyIndex": 0}], "primaryKeyIndex"),
        ([{**PAGE[0], "size": 7}], "size 7"),
        ([{"id": "a", "name": "a", "dataType": "float", "size": 16}], "size 16"),
        ([{**PAGE[0], "dataType": "float"}], "cannot be a key"),
        (
            [{"id": "a", "name": "a", "dataType": "timestamp", "timezone": "Pacific/Auckland"}],
            "timezone 'Pacific/Auckland'",
        ),
    ],
)
@pytest.mark.rule(
    "KART-8", "KART-9", "KART-10", "KART-11", "KART-12", "KART-18", "KART-19", "KART-22"
)
def test_impossible_schemas_are_refused(columns: Any, reason: str) -> None:
    with pytest.raises(CorruptDatasetError, match=reason):
        parsed(columns)


@pytest.mark.rule("KART-12")
def test_keys_count_by_their_index() -> None:
    columns = [{**PAGE[3], "primaryKeyIndex": 1}, PAGE[0]]
    schema = parsed(columns)
    first, second = schema.identifier_ids
    assert (schema.by_id[first].name, schema.by_id[second].name) == ("fid", "name")
    assert columns_of_schema(schema) == [
        {"id": PAGE[3]["id"], "name": "name", "dataType": "text", "primaryKeyIndex": 1}
        | {"length": 250},
        PAGE[0],
    ]


def test_field_ids_are_held_by_our_own_columns() -> None:
    field = Field(1234, "x", Primitive.STRING)
    assert field_id(column_id(field)) == 1234
    assert 0 < field_id("any text") <= 1 << 30
    assert field_id("any text") == field_id("any text")


@given(schemas())
def test_a_schema_of_ours_comes_back_with_its_ids(schema: Schema) -> None:
    try:
        kart = kart_schema(schema)
    except UnsupportedTypeError:
        return
    assert kart.names == schema.names
    assert [field.id for field in kart.fields] == [field.id for field in schema.fields]
    assert kart_schema(kart) == kart
    assert parse_schema(format_columns(columns_of_schema(kart)), "here") == kart


def test_decimals_keep_their_digits() -> None:
    schema = kart_schema(Schema((Field(1, "x", Decimal(8, 4)),)))
    assert columns_of_schema(schema)[0]["precision"] == 8
    assert schema.fields[0].type == Decimal(8, 4)


def test_a_definition_of_parts_within_very_many_parts_stays_as_it_is() -> None:
    deep = "A[" * 100_000
    assert format_wkt(deep) == deep.encode()
    fine = 'A["a", ' * 40 + '"b"' + "]" * 40
    assert format_wkt(fine).count(b"\n") == 40
