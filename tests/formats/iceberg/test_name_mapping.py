"""Name mappings: the rules of the specification one by one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.iceberg.schema import (
    MappedField,
    NameMapping,
    format_name_mapping,
    mapping_of,
    parse_name_mapping,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Primitive, Struct
from tests.model.strategies import schemas

WHERE = "metadata/v1.metadata.json"


def parsed(value: object) -> NameMapping:
    return parse_name_mapping(json.dumps(value), WHERE)


@pytest.mark.rule("ICE-54", "ICE-60")
def test_ice_54_60_several_names_for_one_id() -> None:
    mapping = parsed([{"field-id": 1, "names": ["id", "record_id"]}])
    for name in ("id", "record_id"):
        found = mapping.find(name)
        assert found is not None
        assert found.field_id == 1
    assert mapping.find("Id") is None


@pytest.mark.rule("ICE-55", "ICE-61")
def test_ice_55_61_names_are_required_and_may_be_none() -> None:
    assert parsed([{"field-id": 1, "names": []}]).fields == (MappedField((), 1),)
    with pytest.raises(CorruptDatasetError, match="names"):
        parsed([{"field-id": 1}])


@pytest.mark.rule("ICE-56", "ICE-62")
def test_ice_56_62_the_id_is_optional() -> None:
    assert parsed([{"names": ["x"]}]).find("x") == MappedField(("x",))


@pytest.mark.rule("ICE-57", "ICE-59", "ICE-65")
def test_ice_57_59_65_children_under_fields() -> None:
    mapping = parsed([{"field-id": 1, "names": ["s"], "fields": [{"field-id": 2, "names": ["a"]}]}])
    outer = mapping.find("s")
    assert outer is not None
    assert outer.fields.find("a") == MappedField(("a",), 2)


@pytest.mark.rule("ICE-58")
def test_ice_58_dots_are_literal() -> None:
    mapping = parsed([{"field-id": 1, "names": ["a.b"]}])
    assert mapping.find("a.b") is not None
    assert mapping.find("a") is None


@pytest.mark.rule("ICE-63", "ICE-64")
def test_ice_63_64_parts_of_lists_and_maps() -> None:
    schema = Schema(
        (
            Field(1, "l", List(Field(2, "element", Primitive.INT))),
            Field(
                3,
                "m",
                Map(
                    Field(4, "key", Primitive.STRING, required=True),
                    Field(5, "value", Struct((Field(6, "x", Primitive.INT),))),
                ),
            ),
        )
    )
    value = json.loads(format_name_mapping(mapping_of(schema)))
    assert value == [
        {"field-id": 1, "names": ["l"], "fields": [{"field-id": 2, "names": ["element"]}]},
        {
            "field-id": 3,
            "names": ["m"],
            "fields": [
                {"field-id": 4, "names": ["key"]},
                {
                    "field-id": 5,
                    "names": ["value"],
                    "fields": [{"field-id": 6, "names": ["x"]}],
                },
            ],
        },
    ]


@given(schemas())
def test_any_mapping_comes_back(schema: Schema) -> None:
    mapping = mapping_of(schema)
    assert parse_name_mapping(format_name_mapping(mapping), WHERE) == mapping
    for field in schema.fields:
        found = mapping.find(field.name)
        assert found is not None
        assert found.field_id == field.id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '[{"names": [1]}]',
        '[{"names": "id"}]',
        '[{"names": [], "field-id": "1"}]',
        '[{"names": [], "fields": {}}]',
        '[{"names": ["a"]}, {"names": ["a"]}]',
        '[{"names":[],"fields":' * 90 + "[]" + "}]" * 90,
        "[" * 100_000,
    ],
)
def test_what_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(CorruptDatasetError) as caught:
        parse_name_mapping(text, WHERE)
    assert "\n" not in caught.value.message
