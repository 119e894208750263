"""Table metadata: laws, what is required and refused, what is kept, what Spark drops."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, HavasuError, UnsupportedVersionError
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec, SortField, SortOrder
from havasu_vc.formats.havasu.schema import GEOMETRY_ENCODING, RASTER_ENCODING
from havasu_vc.formats.iceberg.metadata import format_metadata, parse_metadata
from havasu_vc.formats.iceberg.native_geometry import RASTER_PARTS, raster_ids, with_raster_ids
from havasu_vc.formats.iceberg.schema import MIRROR
from havasu_vc.formats.iceberg.values import (
    Flavour,
    LogEntry,
    MetadataLogEntry,
    Reference,
    Snapshot,
    TableMetadata,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Geometry, List, Primitive, Struct
from tests.formats.iceberg.strategies import metadatas

WHERE = "tables/parcels/metadata/v1.metadata.json"
SCHEMA = Schema(
    (
        Field(1, "id", Primitive.LONG, required=True),
        Field(2, "geom", Primitive.BINARY, geometry=Geometry(crs="EPSG:2193", shape="POINT")),
        Field(3, "rast", Struct(()), raster="v1"),
        Field(4, "tags", List(Field(5, "element", Primitive.INT, source_type="int8"))),
    ),
    (1,),
)
FIRST = Snapshot(11, 1, 1000, "/t/metadata/snap-11.avro", {"operation": "append"}, None, 0)
SECOND = Snapshot(22, 2, 2000, "/t/metadata/snap-22.avro", {"operation": "delete"}, 11, 0)
TABLE = TableMetadata(
    "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "/tables/parcels",
    2000,
    5,
    {0: SCHEMA},
    0,
    {0: PartitionSpec((PartitionField(1, 1000, "id_bucket", "bucket[4]"),), 0)},
    0,
    {0: SortOrder(), 1: SortOrder((SortField(1),), 1)},
    1,
    1000,
    2,
    2,
    22,
    {11: FIRST, 22: SECOND},
    {"main": Reference(22, min_snapshots_to_keep=3), "havasu-base": Reference(11, "tag")},
    (LogEntry(1000, 11), LogEntry(2000, 22)),
    (MetadataLogEntry(1000, "/t/metadata/v1.metadata.json"),),
    {"owner": "us"},
    "0.1.0",
    {"statistics": [], "partition-statistics": []},
)


def document(table: TableMetadata = TABLE, flavour: Flavour = Flavour.HAVASU) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(format_metadata(table, flavour=flavour))
    return found


def parsed(value: Any) -> TableMetadata:
    return parse_metadata(json.dumps(value).encode(), WHERE)


def test_a_table_comes_back() -> None:
    assert parse_metadata(format_metadata(TABLE), WHERE) == TABLE


@given(metadatas())
def test_any_table_comes_back_in_flavour_havasu(table: TableMetadata) -> None:
    assert parse_metadata(format_metadata(table), WHERE) == table


@pytest.mark.thorough
@given(metadatas(), st.sampled_from(Flavour))
def test_what_was_read_is_written_to_equal_bytes(table: TableMetadata, flavour: Flavour) -> None:
    first = format_metadata(table, flavour=flavour)
    read = parse_metadata(first, WHERE)
    assert format_metadata(read, flavour=flavour) == first
    if flavour is not Flavour.HAVASU:
        assert read == with_raster_ids(table)


@given(metadatas(), st.sampled_from(Flavour))
def test_what_other_writers_drop_is_restored(table: TableMetadata, flavour: Flavour) -> None:
    table = with_raster_ids(table)
    value = document(table, flavour)
    kept = dropped(value)
    found = parsed(kept)
    if flavour is not Flavour.HAVASU:
        # An empty struct is restored too; but what else it says is in the mirror only.
        assert found.havasu_version is None
    assert {i: s.fields for i, s in found.schemas.items()} == {
        i: s.fields for i, s in table.schemas.items()
    }


def dropped(value: Any) -> Any:
    """What Iceberg's Java keeps of a document: no field properties, no unknown keys of ours."""
    if isinstance(value, list):
        return [dropped(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "required" in value and "type" in value:
        known = ("id", "name", "required", "type", "doc")
        return {name: dropped(value[name]) for name in known if name in value}
    return {
        name: item if name == "properties" else dropped(item)
        for name, item in value.items()
        if "havasu" not in name
    }


@pytest.mark.parametrize(
    "key",
    [
        "format-version",
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schemas",
        "current-schema-id",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
    ],
)
@pytest.mark.rule("ICE-81", "ICE-9")
def test_ice_81_version_2_requires(key: str) -> None:
    value = document()
    del value[key]
    with pytest.raises(CorruptDatasetError, match=key):
        parsed(value)


@pytest.mark.parametrize(
    "key", ["properties", "refs", "snapshot-log", "metadata-log", "statistics"]
)
@pytest.mark.rule("ICE-81")
def test_ice_81_optional(key: str) -> None:
    value = document()
    del value[key]
    found = parsed(value)
    assert found.references["main"].snapshot_id == 22


@pytest.mark.rule("ICE-81")
def test_ice_81_a_table_without_snapshots() -> None:
    value = document(replace(TABLE, current_snapshot_id=None, snapshots={}, references={}))
    assert value["current-snapshot-id"] == -1
    for given_ in (-1, None):
        found = parsed({**value, "current-snapshot-id": given_})
        assert (found.current_snapshot_id, found.snapshot, found.references) == (None, None, {})
    del value["snapshots"], value["current-snapshot-id"]
    assert parsed(value).snapshots == {}


@pytest.mark.rule("ICE-26", "ICE-1")
def test_ice_26_version_1() -> None:
    table = replace(
        TABLE,
        format_version=1,
        last_sequence_number=0,
        snapshots={
            11: replace(FIRST, sequence_number=0),
            22: replace(SECOND, sequence_number=0, manifest_list=None, manifests=("/t/m.avro",)),
        },
    )
    value = document(table)
    assert "last-sequence-number" not in value
    assert value["schema"] == value["schemas"][0]
    assert value["partition-spec"] == value["partition-specs"][0]["fields"]
    assert parsed(value) == table
    old = ("schemas", "current-schema-id", "partition-specs", "default-spec-id", "sort-orders")
    rest = ("default-sort-order-id", "last-partition-id", "table-uuid", "refs", "snapshot-log")
    for key in (*old, *rest):
        del value[key]
    del value["partition-spec"][0]["field-id"]
    found = parsed(value)
    assert found.schemas == table.schemas
    assert found.partition_specs == table.partition_specs
    assert found.last_partition_id == 1000
    assert found.sort_orders == {0: SortOrder()}
    assert found.table_uuid == ""


@pytest.mark.rule("HAV-1")
def test_hav_1_both_versions_carry_havasu_fields() -> None:
    for version in (1, 2):
        snapshots = {22: replace(SECOND, sequence_number=0)}
        refs = {"main": Reference(22)}
        value = document(
            replace(TABLE, format_version=version, snapshots=snapshots, references=refs)
        )
        assert value["havasu.format-version"] == "0.1.0"
        assert value["schemas"][0]["fields"][1][GEOMETRY_ENCODING] == "ewkb"


@pytest.mark.rule("HAV-2")
def test_hav_2_version_3_is_not_written_and_havasu_columns_in_it_are_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="of Iceberg 3 are not written") as caught:
        format_metadata(replace(TABLE, format_version=3))
    assert caught.value.hints
    with pytest.raises(UnsupportedVersionError, match="only versions 1 and 2 can") as refused:
        parsed({**document(), "format-version": 3})
    assert refused.value.hints
    plain = Schema(SCHEMA.fields[:1], (1,))
    value = document(replace(TABLE, schemas={0: plain}))
    found = parsed({**value, "format-version": 3, "next-row-id": 5})
    assert (found.format_version, found.next_row_id) == (3, 5)


@pytest.mark.rule("HAV-4")
def test_hav_4_the_version_is_in_the_metadata() -> None:
    assert document(replace(TABLE, havasu_version=None))["havasu.format-version"] == "0.1.0"


@pytest.mark.rule("HAV-5", "HAV-6")
def test_hav_5_6_the_version_is_optional_text() -> None:
    value = document()
    with pytest.raises(CorruptDatasetError, match=r"havasu\.format-version"):
        parsed({**value, "havasu.format-version": 0.1})
    del value["havasu.format-version"]
    assert parsed(value) == replace(TABLE, havasu_version=None)


@pytest.mark.parametrize("version", ["0.2.0", "1.0.0", ""])
@pytest.mark.rule("HAV-7")
def test_hav_7_other_versions_are_refused(version: str) -> None:
    with pytest.raises(UnsupportedVersionError, match="not known") as caught:
        parsed({**document(), "havasu.format-version": version})
    assert caught.value.hints == ("upgrade havasu-vc",)


@pytest.mark.parametrize("version", [0, 4, 5])
@pytest.mark.rule("ICE-96")
def test_ice_96_unknown_format_versions(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"of Iceberg {version} are not known"):
        parsed({**document(), "format-version": version})


@pytest.mark.parametrize("operation", ["append", "replace", "overwrite", "delete"])
@pytest.mark.rule("ICE-86")
def test_ice_86_operations(operation: str) -> None:
    snapshot = replace(SECOND, summary={"operation": operation, "added-records": "1"})
    table = replace(TABLE, snapshots={11: FIRST, 22: snapshot})
    assert document(table)["snapshots"][1]["summary"]["operation"] == operation
    assert parsed(document(table)) == table


@pytest.mark.parametrize("summary", [{}, {"operation": "merge"}])
@pytest.mark.rule("ICE-86")
def test_ice_86_a_snapshot_says_its_operation(summary: dict[str, str]) -> None:
    snapshot = replace(SECOND, summary=summary)
    with pytest.raises(ValueError, match="does not say which operation"):
        format_metadata(replace(TABLE, snapshots={11: FIRST, 22: snapshot}))


@pytest.mark.rule("ICE-87")
def test_ice_87_references() -> None:
    refs = document()["refs"]
    assert refs == {
        "main": {"snapshot-id": 22, "type": "branch", "min-snapshots-to-keep": 3},
        "havasu-base": {"snapshot-id": 11, "type": "tag"},
    }
    value = {**document(), "refs": {}}
    assert parsed(value).references == {"main": Reference(22)}
    kept = Reference(22, "branch", 1, 2, 3)
    assert parsed(document(replace(TABLE, references={"main": kept}))).references["main"] == kept


@pytest.mark.rule("ICE-88")
def test_ice_88_logs() -> None:
    value = document()
    assert value["snapshot-log"][0] == {"timestamp-ms": 1000, "snapshot-id": 11}
    assert value["metadata-log"] == [
        {"timestamp-ms": 1000, "metadata-file": "/t/metadata/v1.metadata.json"}
    ]


@pytest.mark.rule("ICE-89")
def test_ice_89_sort_orders() -> None:
    value = document()
    assert value["sort-orders"] == [
        {"order-id": 0, "fields": []},
        {
            "order-id": 1,
            "fields": [
                {
                    "transform": "identity",
                    "source-id": 1,
                    "direction": "asc",
                    "null-order": "nulls-first",
                }
            ],
        },
    ]
    value["sort-orders"][1]["fields"][0]["direction"] = "sideways"
    with pytest.raises(CorruptDatasetError, match="direction"):
        parsed(value)


@pytest.mark.rule("HAV-10")
def test_hav_10_hilbert_orders_are_not_shown_to_other_readers() -> None:
    orders = {1: SortOrder((SortField(2, "hilbert"),), 1)}
    value = document(replace(TABLE, sort_orders=orders))
    assert (value["default-sort-order-id"], value["sort-orders"]) == (
        0,
        [{"order-id": 0, "fields": []}],
    )


@pytest.mark.rule("ICE-95")
def test_ice_95_gzip() -> None:
    packed = gzip.compress(format_metadata(TABLE))
    assert parse_metadata(packed, WHERE) == TABLE
    with pytest.raises(CorruptDatasetError, match="ends too early"):
        parse_metadata(packed[:-20], WHERE)
    with pytest.raises(CorruptDatasetError, match="cannot be unpacked"):
        parse_metadata(packed[:20] + b"xxxx" + packed[24:], WHERE)


def test_gzip_that_unpacks_to_much_more_is_refused() -> None:
    with pytest.raises(CorruptDatasetError, match="unpacks to more than"):
        parse_metadata(gzip.compress(bytes(65 * 1024 * 1024), 1), WHERE)


def test_unknown_keys_are_kept() -> None:
    value = document()
    value |= {"x-new": {"a": [1, None]}, "statistics": [{"snapshot-id": 22}]}
    value["snapshots"][0]["first-row-id"] = 3
    found = parsed(value)
    again = json.loads(format_metadata(found))
    assert again["x-new"] == {"a": [1, None]}
    assert again["statistics"] == [{"snapshot-id": 22}]
    assert again["snapshots"][0]["first-row-id"] == 3


def test_others_never_stand_for_known_keys() -> None:
    value = document(replace(TABLE, others={"location": "/elsewhere", "x": 1}))
    assert (value["location"], value["x"]) == ("/tables/parcels", 1)


def test_the_mirror_is_in_the_properties_and_never_in_the_value() -> None:
    mirror = json.loads(document()["properties"][MIRROR])
    assert mirror["2"] == {
        GEOMETRY_ENCODING: "ewkb",
        "havasu-vc.crs": "EPSG:2193",
        "havasu-vc.geometry-type": "POINT",
    }
    assert mirror["3"] == {RASTER_ENCODING: "v1"}
    assert mirror["5"] == {"havasu-vc.source-type": "int8"}
    assert parsed(document()).properties == {"owner": "us"}


def test_the_mirror_tells_schemas_apart() -> None:
    older = Schema(
        (Field(1, "id", Primitive.LONG, required=True), Field(2, "geom", Primitive.BINARY)), (1,)
    )
    table = replace(TABLE, schemas={0: older, 1: SCHEMA}, current_schema_id=1)
    assert json.loads(document(table)["properties"][MIRROR])["0:2"] == {}
    found = parsed(dropped(document(table)))
    assert found.schemas == table.schemas


def test_the_mirror_does_not_undo_what_a_havasu_writer_changed() -> None:
    value = document()
    del value["schemas"][0]["fields"][1][GEOMETRY_ENCODING]
    assert parsed(value).schema.by_name["geom"].geometry is None


@pytest.mark.parametrize("flavour", [Flavour.SPARK, Flavour.ICEBERG])
@pytest.mark.rule("HAV-83")
def test_hav_83_rasters_are_whole_for_spark_and_iceberg(flavour: Flavour) -> None:
    value = document(flavour=flavour)
    raster = value["schemas"][0]["fields"][2]
    assert raster[RASTER_ENCODING] == "v1"
    assert [part["name"] for part in raster["type"]["fields"]] == [
        "width",
        "height",
        "num_bands",
        "crs_wkt",
        "geo_reference",
        "band_1",
        "band_2",
        "band_3",
        "band_4",
        "bands",
    ]
    assert value["last-column-id"] == 5 + RASTER_PARTS
    found = parsed(value)
    assert raster_ids(found.schema.by_name["rast"]) is not None
    assert found == with_raster_ids(TABLE)


@pytest.mark.rule("HAV-81")
def test_hav_81_rasters_are_empty_for_havasu() -> None:
    assert document()["schemas"][0]["fields"][2]["type"] == {"type": "struct", "fields": []}


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no current schema": (lambda v: v.update({"current-schema-id": 7}), "no schema 7"),
    "no default spec": (lambda v: v.update({"default-spec-id": 7}), "no partition spec 7"),
    "no default order": (lambda v: v.update({"default-sort-order-id": 7}), "no sort order 7"),
    "no current snapshot": (lambda v: v.update({"current-snapshot-id": 7}), "no snapshot 7"),
    "main elsewhere": (lambda v: v["refs"]["main"].update({"snapshot-id": 11}), "branch main"),
    "tag of nothing": (
        lambda v: v["refs"]["havasu-base"].update({"snapshot-id": 7}),
        "'havasu-base' names",
    ),
    "neither branch nor tag": (lambda v: v["refs"]["main"].update({"type": "x"}), "neither"),
    "number beyond the last": (lambda v: v.update({"last-sequence-number": 1}), "beyond the last"),
    "schema twice": (lambda v: v["schemas"].append(v["schemas"][0]), "stands twice"),
    "snapshot twice": (lambda v: v["snapshots"].append(v["snapshots"][0]), "stands twice"),
    "more than 64 bits": (lambda v: v.update({"last-column-id": 2**70}), "more than 64 bits"),
    "no manifest list": (lambda v: v["snapshots"][0].pop("manifest-list"), "no manifest list"),
    "property that is no text": (lambda v: v["properties"].update({"a": 1}), "properties: 'a'"),
    "mirror that is no JSON": (
        lambda v: (v["properties"].update({MIRROR: "{"}), v.pop("havasu.format-version")),
        "not valid JSON",
    ),
    "field of several columns": (
        lambda v: v["partition-specs"][0].update({"fields": [{"source-ids": [1, 2]}]}),
        "several columns",
    ),
}


@pytest.mark.parametrize(("damage", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_wrong_is_said(damage: Callable[[dict[str, Any]], Any], reason: str) -> None:
    value = document()
    damage(value)
    with pytest.raises(HavasuError, match=reason) as caught:
        parsed(value)
    assert "\n" not in caught.value.message
    assert caught.value.message.startswith(WHERE)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path] + [place for key, item in items for place in places(item, (*path, key))]


WRONG: tuple[Any, ...] = (None, True, -7, 1.5, "x", [], {}, [[]], [None], {"type": {}}, 2**80)


@given(st.sampled_from(places(document(flavour=Flavour.SPARK))[1:]), st.sampled_from(WRONG))
def test_any_wrong_value_is_refused_in_one_line_or_is_no_harm(
    place: tuple[Any, ...], wrong: Any
) -> None:
    value = document(flavour=Flavour.SPARK)
    inside = value
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = wrong
    try:
        parsed(value)
    except HavasuError as error:
        assert "\n" not in error.message


def test_nesting_without_end_is_refused() -> None:
    deep = b'{"format-version": 2, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(CorruptDatasetError, match="nested too deeply"):
        parse_metadata(deep, WHERE)
    type_: Any = "int"
    for number in range(100, 300):
        type_ = {"type": "list", "element-id": number, "element": type_, "element-required": False}
    value = document()
    value["schemas"][0]["fields"].append({"id": 99, "name": "x", "required": False, "type": type_})
    with pytest.raises(CorruptDatasetError, match="nested too deeply"):
        parsed(value)


def test_last_ids_are_never_below_those_in_use() -> None:
    value = document(replace(TABLE, last_column_id=1, last_partition_id=999))
    assert (value["last-column-id"], value["last-partition-id"]) == (5, 1000)
