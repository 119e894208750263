"""A schema as Kart prints it, and back."""

from typing import Any

import pytest
from hypothesis import given

from havasu_vc.errors import SchemaViolationError
from havasu_vc.model.columns import columns_of, schema_of
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Encoding, Field, Geometry, Primitive, descendants
from tests.model.strategies import schemas


@given(schemas())
def test_a_schema_comes_back(schema: Schema) -> None:
    assert schema_of(columns_of(schema), schema) == schema


def test_comments_are_set_and_taken_away() -> None:
    before = Schema((Field(1, "id", Primitive.LONG, doc="a number"), Field(2, "b", Primitive.DATE)))
    columns = columns_of(before)
    assert [column.get("comment") for column in columns] == ["a number", None]

    after = schema_of([{**columns[1], "comment": "when"}, {**columns[0], "comment": None}], before)

    assert [field.doc for field in after.fields] == ["when", None]
    assert schema_of([{"name": "c", "dataType": "text", "comment": "x"}]).fields[0].doc == "x"
    with pytest.raises(SchemaViolationError, match="comment of column 'b' is not text"):
        schema_of([{**columns[1], "comment": 1}], before)


@given(schemas())
def test_columns_are_json_in_karts_order(schema: Schema) -> None:
    for column, field in zip(columns_of(schema), schema.fields, strict=True):
        assert list(column)[:3] == ["id", "name", "dataType"]
        assert (column["id"], column["name"]) == (str(field.id), field.name)
        assert ("primaryKeyIndex" in column) == (field.id in schema.identifier_ids)


@given(schemas())
def test_without_a_base_all_ids_are_new(schema: Schema) -> None:
    columns = [c for c in columns_of(schema) if c["dataType"] != "raster"]

    found = schema_of(columns)

    ids = [field.id for field in descendants(found.fields)]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    assert found.names == tuple(c["name"] for c in columns)


@pytest.mark.parametrize(
    ("field", "column"),
    [
        (Field(1, "x", Primitive.INT, source_type="uint8"), {"dataType": "integer", "size": 16}),
        (Field(1, "x", Primitive.LONG), {"dataType": "integer", "size": 64}),
        (Field(1, "x", Primitive.FLOAT), {"dataType": "float", "size": 32}),
        (Field(1, "x", Decimal(9, 2)), {"dataType": "numeric", "precision": 9, "scale": 2}),
        (Field(1, "x", Primitive.TIMESTAMPTZ), {"dataType": "timestamp", "timezone": "UTC"}),
        (
            Field(
                1, "x", Primitive.BINARY, geometry=Geometry(Encoding.WKB, "EPSG:2193", "POINT Z")
            ),
            {"dataType": "geometry", "geometryType": "POINT Z", "geometryCRS": "EPSG:2193"},
        ),
    ],
)
def test_columns(field: Field, column: dict[str, Any]) -> None:
    assert columns_of(Schema((field,))) == [{"id": "1", "name": "x"} | column]


BASE = Schema(
    (Field(1, "id", Primitive.LONG, required=True), Field(2, "n", Primitive.STRING)), (1,)
)


def test_a_renamed_column_keeps_its_name_in_files() -> None:
    columns = columns_of(BASE)
    columns[1]["name"] = "title"

    field = schema_of(columns, BASE).by_name["title"]

    assert (field.id, field.stored_name) == (2, "n")
    columns[1]["name"] = "n"
    assert schema_of(columns, Schema((BASE.fields[0], field), (1,))) == BASE


def test_a_column_of_an_unknown_id_is_new() -> None:
    columns = [*columns_of(BASE), {"id": "77", "name": "new", "dataType": "date"}]

    assert schema_of(columns, BASE, new_id=lambda: 500).by_name["new"].id == 500


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"name": "x"}, "no data type 'None'"),
        ({"name": "x", "dataType": "varchar"}, "no data type 'varchar'"),
        ({"name": "x", "dataType": "text", "colour": 1}, "unknown property 'colour'"),
        ({"name": "id", "dataType": "text"}, "two columns"),
        ({"name": "", "dataType": "text"}, "an object with a name"),
        ({"name": "x", "dataType": "numeric", "precision": 99}, "no such decimal"),
        ({"name": "x", "dataType": "text", "primaryKeyIndex": 2}, "must count 0, 1"),
        ({"name": "x", "dataType": "struct"}, "has no 'fields'"),
        ({"name": "x", "dataType": "list"}, "has no 'element'"),
        ({"name": "x", "dataType": "integer", "size": "big"}, "'x'"),
        ({"dataType": "text"}, "an object with a name"),
        ("x", "an object with a name"),
    ],
    ids=str,
)
def test_what_is_no_column_is_refused(column: Any, reason: str) -> None:
    with pytest.raises(SchemaViolationError, match=reason):
        schema_of([*columns_of(BASE), column], BASE)
