"""Iceberg's schema JSON: Havasu's fields, later types, rasters and their ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, HavasuError, UnsupportedError
from havasu_vc.formats.havasu.properties import PartitionSpec, SortOrder
from havasu_vc.formats.iceberg.native_geometry import (
    RASTER_IDS,
    RASTER_PARTS,
    collapsed,
    declared,
    raster_fields,
    raster_ids,
    with_raster_ids,
)
from havasu_vc.formats.iceberg.schema import schema_from_json, schema_to_json
from havasu_vc.formats.iceberg.values import Flavour, TableMetadata
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Geometry, List, Primitive, Struct, descendants
from tests.model.strategies import schemas

WHERE = "metadata/v1.metadata.json"


def parsed(*fields: dict[str, Any], **others: Any) -> Schema:
    return schema_from_json({"type": "struct", "fields": list(fields), **others}, WHERE)


def column(number: int = 1, type_: Any = "int", **others: Any) -> dict[str, Any]:
    return {"id": number, "name": f"c{number}", "required": False, "type": type_, **others}


def table_of(*known: Schema, last: int | None = None) -> TableMetadata:
    highest = max((schema.last_id for schema in known), default=0)
    return TableMetadata(
        "u",
        "/t",
        0,
        highest if last is None else last,
        dict(enumerate(known)),
        0,
        {0: PartitionSpec()},
        0,
        {0: SortOrder()},
        0,
    )


@given(schemas())
def test_any_schema_comes_back(schema: Schema) -> None:
    assert schema_from_json(schema_to_json(schema), WHERE) == schema


@given(schemas(), st.sampled_from((Flavour.SPARK, Flavour.ICEBERG)))
def test_any_schema_with_reserved_ids_comes_back(schema: Schema, flavour: Flavour) -> None:
    given_ = with_raster_ids(table_of(schema)).schemas[0]
    assert schema_from_json(schema_to_json(given_, flavour=flavour), WHERE) == given_


@pytest.mark.rule("HAV-11", "HAV-71", "HAV-72", "HAV-73")
def test_hav_72_73_the_example_with_upper_case_parses() -> None:
    example = {"id": 1, "name": "geom", "required": False, "type": "BINARY"}
    found = parsed({**example, "havasu.geometry-encoding": "ewkb"})
    assert found.fields == (Field(1, "geom", Primitive.BINARY, geometry=Geometry()),)
    assert schema_to_json(found)["fields"][0]["type"] == "binary"


@pytest.mark.parametrize(
    ("encoding", "type_", "fits"),
    [
        ("ewkb", "binary", True),
        ("wkb", "binary", True),
        ("wkt", "string", True),
        ("geojson", "string", True),
        ("ewkb", "string", False),
        ("wkb", "string", False),
        ("wkt", "binary", False),
        ("geojson", "binary", False),
        ("twkb", "binary", False),
        ("EWKB", "binary", False),
    ],
)
@pytest.mark.rule("HAV-74", "HAV-75", "HAV-76", "HAV-77", "HAV-78")
def test_hav_74_to_78_encodings(encoding: str, type_: str, fits: bool) -> None:
    field = column(1, type_, **{"havasu.geometry-encoding": encoding})
    if fits:
        geometry = parsed(field).fields[0].geometry
        assert geometry is not None
        assert geometry.encoding.value == encoding
    else:
        with pytest.raises(CorruptDatasetError):
            parsed(field)


@pytest.mark.rule("HAV-80")
def test_hav_80_properties_in_nested_structs() -> None:
    inner = column(2, "binary", **{"havasu.geometry-encoding": "wkb"})
    raster = column(3, {"type": "struct", "fields": []}, **{"havasu.raster-encoding": "v1"})
    found = parsed(column(1, {"type": "struct", "fields": [inner, raster]}))
    struct = found.fields[0].type
    assert isinstance(struct, Struct)
    assert struct.fields[0].geometry is not None
    assert struct.fields[1].raster == "v1"


@pytest.mark.rule("HAV-12", "HAV-81")
def test_hav_81_the_raster_example_parses() -> None:
    raster = column(1, {"type": "struct", "fields": []}, **{"havasu.raster-encoding": "v1"})
    assert parsed(raster).fields == (Field(1, "c1", Struct(()), raster="v1"),)
    assert schema_to_json(parsed(raster))["fields"] == [raster]


@pytest.mark.parametrize("encoding", ["v2", "V1", "", 1, True])
@pytest.mark.rule("HAV-82")
def test_hav_82_raster_encoding_is_v1(encoding: Any) -> None:
    raster = column(1, {"type": "struct", "fields": []}, **{"havasu.raster-encoding": encoding})
    with pytest.raises(CorruptDatasetError, match="is not v1"):
        parsed(raster)


@pytest.mark.parametrize(
    "type_", ["int", {"type": "struct", "fields": [column(2)]}, {"type": "struct"}]
)
@pytest.mark.rule("HAV-83")
def test_hav_83_a_raster_is_an_empty_struct_or_that_of_raster_v1(type_: Any) -> None:
    with pytest.raises(CorruptDatasetError):
        parsed(column(1, type_, **{"havasu.raster-encoding": "v1"}))


def test_properties_that_are_not_known_are_kept() -> None:
    found = parsed(column(1, other="x", **{"havasu-vc.source-type": "int8"}))
    assert found.fields[0].extra == (("other", "x"),)
    assert schema_to_json(found)["fields"][0]["other"] == "x"


@pytest.mark.parametrize("name", ["initial-default", "write-default"])
@pytest.mark.rule("HAV-132", "HAV-133", "ICE-39")
def test_hav_132_133_ice_39_defaults_are_refused(name: str) -> None:
    assert parsed(column(1, **{name: None})).fields == (Field(1, "c1", Primitive.INT),)
    with pytest.raises(UnsupportedError, match="default value") as caught:
        parsed(column(1, **{name: 3}))
    assert caught.value.hints


@pytest.mark.parametrize(
    "type_",
    ["timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geometry(srid:4326)"],
)
def test_types_of_iceberg_3_are_refused(type_: str) -> None:
    for field in (
        column(1, type_),
        column(1, {"type": "list", "element-id": 2, "element": type_, "element-required": False}),
    ):
        with pytest.raises(UnsupportedError, match="is of Iceberg 3") as caught:
            parsed(field)
        assert caught.value.hints


@pytest.mark.rule("ICE-38")
def test_ice_38_ids_are_unique() -> None:
    with pytest.raises(CorruptDatasetError, match="used twice"):
        parsed(column(1), {**column(1), "name": "other"})


@pytest.mark.rule("ICE-66")
def test_ice_66_identifiers_come_back() -> None:
    schema = parsed({**column(1, "long"), "required": True}, **{"identifier-field-ids": [1]})
    assert schema.identifier_ids == (1,)
    assert schema_to_json(schema)["identifier-field-ids"] == [1]


@pytest.mark.parametrize(
    "field",
    [
        column(1, "float", required=True),
        column(1, "double", required=True),
        column(1, "int"),
        column(1, "binary", required=True, **{"havasu.geometry-encoding": "ewkb"}),
        column(2, "int", required=True),
    ],
)
@pytest.mark.rule("ICE-69", "ICE-71")
def test_ice_69_71_what_cannot_identify_rows(field: dict[str, Any]) -> None:
    with pytest.raises(HavasuError, match=r"cannot identify rows|cannot be a key"):
        parsed(field, **{"identifier-field-ids": [1]})


@pytest.mark.rule("ICE-68", "ICE-70")
def test_ice_68_identifiers_in_structs_are_not_supported() -> None:
    outer = column(1, {"type": "struct", "fields": [column(2, "int", required=True)]})
    with pytest.raises(UnsupportedError, match="within a struct"):
        parsed({**outer, "required": True}, **{"identifier-field-ids": [2]})


@pytest.mark.parametrize("number", [0, -1, 2147483448, 2147483646])
@pytest.mark.rule("ICE-80")
def test_ice_80_field_ids_stay_below_the_reserved(number: int) -> None:
    with pytest.raises(CorruptDatasetError, match="out of range"):
        parsed(column(number))
    assert parsed(column(2147483447)).last_id == 2147483447


RASTER = Field(3, "rast", Struct(()), raster="v1")
SCHEMA = Schema((Field(1, "id", Primitive.INT), RASTER, Field(9, "more", Struct(()), raster="v1")))


@pytest.mark.rule("HAV-101", "HAV-102", "HAV-103", "HAV-104", "HAV-105", "HAV-106")
def test_hav_101_to_106_the_struct_of_a_raster() -> None:
    fields = raster_fields(tuple(range(100, 100 + RASTER_PARTS)))
    shown = [(f.name, f.required, f.id) for f in fields]
    assert shown[:5] == [
        ("width", True, 100),
        ("height", True, 101),
        ("num_bands", True, 102),
        ("crs_wkt", False, 103),
        ("geo_reference", True, 104),
    ]
    reference = fields[4].type
    assert isinstance(reference, Struct)
    assert [f.name for f in reference.fields] == (
        ["scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y"]
    )
    assert all(f.required and f.type is Primitive.DOUBLE for f in reference.fields)
    band = fields[5].type
    assert isinstance(band, Struct)
    assert [(f.name, str(f.type), f.required) for f in band.fields] == [
        ("pixel_type", "int", True),
        ("no_data", "binary", False),
        ("data", "binary", False),
        ("out_db_band_no", "int", False),
        ("out_db_url", "string", False),
    ]
    assert isinstance(fields[9].type, List)
    numbers = [f.id for f in descendants(fields)]
    assert sorted(numbers) == list(range(100, 100 + RASTER_PARTS))


def test_raster_ids_are_a_block_above_the_last_column_and_raise_it() -> None:
    table = with_raster_ids(table_of(SCHEMA, last=20))
    first, second = (raster_ids(table.schema.by_name[name]) for name in ("rast", "more"))
    assert first == tuple(range(21, 21 + RASTER_PARTS))
    assert second == tuple(range(21 + RASTER_PARTS, 21 + 2 * RASTER_PARTS))
    assert table.last_column_id == 20 + 2 * RASTER_PARTS
    assert with_raster_ids(table) == table


def test_a_raster_keeps_its_block_in_every_schema() -> None:
    table = with_raster_ids(table_of(SCHEMA))
    later = Schema((*SCHEMA.fields, Field(60 + RASTER_PARTS * 2, "new", Primitive.INT)))
    again = with_raster_ids(
        replace(table, schemas={**table.schemas, 1: later}, current_schema_id=1)
    )
    for name in ("rast", "more"):
        assert raster_ids(again.schema.by_name[name]) == raster_ids(table.schema.by_name[name])


@given(schemas(), st.integers(0, 50))
def test_no_raster_part_ever_has_the_id_of_another_field(whole: Schema, more: int) -> None:
    later = Field(whole.last_id + 1 + more, "a column that came later", Primitive.INT)
    known = (whole, Schema(whole.fields[:1]), Schema((*whole.fields, later)))
    table = table_of(*known)
    table = with_raster_ids(replace(table, last_column_id=table.last_column_id + more))
    for schema in table.schemas.values():
        shown = Schema(tuple(declared(field) for field in schema.fields))  # ids are unique
        assert shown.last_id <= table.last_column_id
        assert [collapsed(f) if f.raster else f for f in shown.fields] == [
            collapsed(f) if f.raster else f for f in schema.fields
        ]


def test_a_raster_with_ids_of_another_writer() -> None:
    ids = tuple(range(500, 100, -1))[:RASTER_PARTS]
    whole = replace(RASTER, type=Struct(raster_fields(ids)))
    found = collapsed(whole)
    assert raster_ids(found) == ids
    assert declared(found).type == whole.type


def test_a_raster_that_spark_made_nullable_is_still_one() -> None:
    ids = tuple(range(100, 100 + RASTER_PARTS))
    loose = Struct(tuple(replace(f, required=False) for f in raster_fields(ids)))
    assert raster_ids(collapsed(replace(RASTER, type=loose))) == ids


@pytest.mark.parametrize("text", ["", "x", "1,2", "-1", "9" * 20, "1," * 41 + "x"])
def test_block_properties_that_are_none_are_refused(text: str) -> None:
    raster = column(
        1,
        {"type": "struct", "fields": []},
        **{"havasu.raster-encoding": "v1", RASTER_IDS: text},
    )
    with pytest.raises(CorruptDatasetError, match=RASTER_IDS):
        parsed(raster)


def test_blocks_that_collide_are_refused() -> None:
    raster = column(
        1, {"type": "struct", "fields": []}, **{"havasu.raster-encoding": "v1", RASTER_IDS: "5"}
    )
    with pytest.raises(CorruptDatasetError, match="the ids of other fields"):
        parsed(raster, column(10))


def test_a_whole_raster_needs_its_ids() -> None:
    with pytest.raises(ValueError, match="no ids are reserved"):
        schema_to_json(SCHEMA, flavour=Flavour.SPARK)
    with pytest.raises(ValueError, match="42 parts"):
        raster_fields((1, 2))
