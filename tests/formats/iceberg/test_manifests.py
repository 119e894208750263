"""Manifests and manifest lists: laws, ids and header, fastavro as the other reader."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import date
from decimal import Decimal as Number
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, UnsupportedError
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.avro import (
    SYNC,
    encode_bytes,
    encode_long,
    encode_text,
    parse_container,
)
from havasu_vc.formats.iceberg.entries import corner, manifest_file_of
from havasu_vc.formats.iceberg.manifest_reading import entry_schema, manifest_list_schema
from havasu_vc.formats.iceberg.manifests import (
    format_manifest,
    format_manifest_list,
    inherited,
    parse_manifest,
    parse_manifest_list,
)
from havasu_vc.formats.iceberg.schema import schema_from_json
from havasu_vc.formats.iceberg.transforms import partition_types
from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    FieldSummary,
    Flavour,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Geometry, Primitive
from tests.formats.iceberg.strategies import (
    data_files,
    entries_of,
    manifest_files,
    partitioned,
    values_of,
)

WHERE = "metadata/m.avro"
SCHEMA = Schema(
    (
        Field(1, "id", Primitive.LONG, required=True),
        Field(2, "geom", Primitive.BINARY, geometry=Geometry()),
        Field(3, "price", Decimal(9, 2)),
        Field(4, "day", Primitive.DATE),
        Field(5, "code", Primitive.UUID),
    ),
    (1,),
)
SPEC = PartitionSpec(
    (
        PartitionField(1, 1000, "id bucket", "bucket[4]"),
        PartitionField(3, 1001, "price", "identity"),
        PartitionField(4, 1002, "day", "day"),
        PartitionField(5, 1003, "code", "identity"),
    ),
    3,
)
FILE = DataFile(
    "/tables/parcels/data/a.parquet",
    3,
    1704,
    partition={
        1000: 3,
        1001: Number("14.20"),
        1002: date(2017, 11, 16),
        1003: UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    },
    column_sizes={1: 40, 2: 90},
    value_counts={1: 3, 2: 3},
    null_value_counts={1: 0, 2: 1},
    nan_value_counts={},
    lower_bounds={1: (1).to_bytes(8, "little")},
    upper_bounds={1: (9).to_bytes(8, "little")},
    split_offsets=(4,),
    sort_order_id=0,
    geometry_lower={2: corner(1, -2)},
    geometry_upper={2: corner(5, 1)},
)
ADDED = ManifestEntry(Status.ADDED, FILE, 7)
PLAIN = replace(ADDED, file=replace(FILE, geometry_lower=None, geometry_upper=None, partition={}))


def written(*entries: ManifestEntry, **given_: Any) -> bytes:
    settings: dict[str, Any] = {"schema": SCHEMA, "spec": SPEC} | given_
    return format_manifest(entries, **settings)


def records(data: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(data)))


def field_ids(schema: Any) -> dict[int, str]:
    """Every field id of an Avro schema, with the name it is under."""
    found: dict[int, str] = {}
    if isinstance(schema, list):
        for branch in schema:
            found |= field_ids(branch)
    elif isinstance(schema, dict):
        if "element-id" in schema:
            found[schema["element-id"]] = "element"
        for field in schema.get("fields", ()):
            found[field["field-id"]] = field["name"]
            found |= field_ids(field["type"])
        for part in ("items", "type"):
            if not isinstance(schema.get(part), str):
                found |= field_ids(schema.get(part))
    return found


@pytest.mark.rule("ICE-82")
def test_ice_82_header_of_a_manifest() -> None:
    header = parse_container(written(ADDED, schema_id=4)).metadata
    assert header["schema-id"] == "4"
    assert header["partition-spec-id"] == "3"
    assert header["format-version"] == "2"
    assert header["content"] == "data"
    assert schema_from_json(json.loads(header["schema"]), WHERE) == SCHEMA
    assert json.loads(header["partition-spec"])[0] == {
        "name": "id bucket",
        "transform": "bucket[4]",
        "source-id": 1,
        "field-id": 1000,
    }


@pytest.mark.parametrize("key", ["schema-id", "partition-spec-id", "format-version", "content"])
@pytest.mark.rule("ICE-82")
def test_ice_82_readers_do_without(key: str) -> None:
    data = written(PLAIN, spec=PartitionSpec())
    reader = fastavro.reader(io.BytesIO(data))
    header = {k: v for k, v in parse_container(data).metadata.items() if k != key}
    buffer = io.BytesIO()
    fastavro.writer(buffer, reader.writer_schema, list(reader), "deflate", metadata=header)
    found = parse_manifest(buffer.getvalue(), WHERE)
    assert found.entries == (PLAIN,)
    assert found.schema_id == (None if key == "schema-id" else 0)


@pytest.mark.rule("ICE-83", "HAV-49", "HAV-50")
def test_ice_83_entry_fields_and_hav_49_50_bounds_by_fastavro() -> None:
    (record,) = records(written(ADDED))
    assert record["status"] == 1
    assert record["snapshot_id"] == 7
    assert record["sequence_number"] is None
    assert record["file_sequence_number"] is None
    file = record["data_file"]
    assert file["content"] == 0
    assert file["file_format"] == "PARQUET"
    assert file["partition"]["price"] == Number("14.20")
    assert file["partition"]["day"] == date(2017, 11, 16)
    assert file["lower_bounds"] == [{"key": 1, "value": b"\x01" + bytes(7)}]
    assert file["geom_lower_bounds"] == [{"key": 2, "value": corner(1, -2)}]
    assert file["geom_upper_bounds"] == [{"key": 2, "value": corner(5, 1)}]


@pytest.mark.rule("HAV-49", "HAV-50", "HAV-51")
def test_hav_49_50_51_field_ids_and_place_of_the_bounds() -> None:
    schema = entry_schema((), geometry=True)
    ids = field_ids(schema)
    names = {1250: "geom_lower_bounds", 1260: "key", 1270: "value"}
    names |= {1280: "geom_upper_bounds", 1290: "key", 1300: "value"}
    assert names.items() <= ids.items()
    order = [field["field-id"] for field in schema["fields"][-1]["type"]["fields"]]
    assert order[-3:] == [140, 1250, 1280]


def shape(schema: Any) -> Any:
    """An Avro schema without comments and key order; equality ids are ints (ICE-92)."""
    if isinstance(schema, list):
        return [shape(branch) for branch in schema]
    if isinstance(schema, dict):
        made = {key: shape(value) for key, value in schema.items() if key != "doc"}
        if made.get("element-id") == 136:
            made["items"] = "int"
        return made
    return schema


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("manifest_v2", entry_schema(())),
        ("manifest_v2_havasu", entry_schema((), geometry=True)),
        ("manifest_list_v2", manifest_list_schema()),
    ],
)
@pytest.mark.rule("ICE-83", "ICE-85", "ICE-92")
def test_ice_83_85_92_schemas_are_the_published_ones(
    name: str, schema: Any, shared_data: Path
) -> None:
    published = shared_data.parent / "specs" / f"{name}.avsc"
    if not published.exists():
        pytest.skip("the published schemas are not here")
    assert shape(schema) == shape(json.loads(published.read_text()))


@pytest.mark.rule("HAV-53")
def test_hav_53_no_bounds_no_fields() -> None:
    assert 1250 not in field_ids(parse_container(written(PLAIN)).schema)
    assert 1250 in field_ids(parse_container(written(PLAIN, ADDED)).schema)
    plain, spatial = parse_manifest(written(PLAIN, ADDED), WHERE).entries
    assert plain.file.geometry_lower is None
    assert spatial.file.geometry_lower == {2: corner(1, -2)}


@pytest.mark.parametrize("flavour", Flavour)
def test_flavour_iceberg_alone_leaves_bounds_out(flavour: Flavour) -> None:
    ids = field_ids(parse_container(written(ADDED, flavour=flavour)).schema)
    assert (1250 in ids) == (flavour is not Flavour.ICEBERG)
    assert (1280 in ids) == (flavour is not Flavour.ICEBERG)


def test_equal_entries_give_equal_bytes() -> None:
    assert written(ADDED, PLAIN) == written(ADDED, PLAIN)
    line = manifest_file_of(
        [ADDED], "m", 1, schema=SCHEMA, spec=SPEC, sequence_number=1, snapshot_id=7
    )
    first, again = (format_manifest_list([line], snapshot_id=7) for _ in range(2))
    assert first == again


@given(st.data(), partitioned(), st.sampled_from(ManifestContent))
def test_any_manifest_comes_back(
    data: st.DataObject, table: tuple[Schema, PartitionSpec], content: ManifestContent
) -> None:
    schema, spec = table
    partitions = st.fixed_dictionaries(
        {number: st.none() | values_of(type_) for number, _, type_ in partition_types(spec, schema)}
    )
    drawn = data.draw(st.lists(entries_of(data_files(partitions, content)), max_size=3))
    stored = format_manifest(drawn, schema=schema, spec=spec, content=content)
    found = parse_manifest(stored, WHERE)
    assert list(found.entries) == drawn
    assert (found.spec, found.content) == (spec, content)
    assert len(records(stored)) == len(drawn)
    again = format_manifest(found.entries, schema=schema, spec=found.spec, content=found.content)
    assert again == stored


@given(st.lists(manifest_files, max_size=3), st.integers(0, 2**62))
def test_any_manifest_list_comes_back(lines: list[ManifestFile], number: int) -> None:
    stored = format_manifest_list(lines, snapshot_id=number, parent_id=5, sequence_number=9)
    assert list(parse_manifest_list(stored, WHERE)) == lines
    assert [record["manifest_path"] for record in records(stored)] == [line.path for line in lines]
    header = parse_container(stored).metadata
    assert header == {
        "snapshot-id": str(number),
        "parent-snapshot-id": "5",
        "sequence-number": "9",
        "format-version": "2",
    }


@given(st.lists(st.sampled_from([{}, {1: 1}, {1: 1, 2: 2}, {1: 2}, {1: 300}]), max_size=12))
def test_entries_that_say_the_same_as_those_before(counts: list[dict[int, int]]) -> None:
    schema = Schema((Field(1, "a", Primitive.LONG), Field(2, "b", Primitive.LONG)))
    entries = [
        ManifestEntry(
            Status.ADDED,
            DataFile(
                f"{number}.parquet",
                1,
                1,
                value_counts=count or None,
                lower_bounds={name: bytes([value % 256]) for name, value in count.items()} or None,
            ),
            7,
        )
        for number, count in enumerate(counts)
    ]

    found = parse_manifest(format_manifest(entries, schema=schema), "it").entries

    assert [each.file.value_counts or {} for each in found] == counts
    assert [each.file.lower_bounds for each in found] == [e.file.lower_bounds for e in entries]


def test_a_first_snapshot_has_no_parent() -> None:
    header = parse_container(format_manifest_list([], snapshot_id=1)).metadata
    assert header["parent-snapshot-id"] == "null"


@pytest.mark.rule("ICE-16")
def test_ice_16_added_entries_inherit_from_the_list() -> None:
    line = ManifestFile("m", 1, sequence_number=8, added_snapshot_id=70)
    entry = replace(ADDED, snapshot_id=None)
    (found,) = inherited(parse_manifest(written(entry), WHERE), line, WHERE)
    assert (found.snapshot_id, found.sequence_number, found.file_sequence_number) == (70, 8, 8)


@pytest.mark.rule("ICE-17")
def test_ice_17_existing_entries_keep_their_numbers() -> None:
    line = ManifestFile("m", 1, sequence_number=8, added_snapshot_id=70)
    entry = ManifestEntry(Status.EXISTING, FILE, 7, 2, 3)
    (found,) = inherited(parse_manifest(written(entry), WHERE), line, WHERE)
    assert found == entry


@pytest.mark.parametrize("status", [Status.EXISTING, Status.DELETED])
@pytest.mark.rule("ICE-18")
def test_ice_18_only_added_entries_inherit(status: Status) -> None:
    line = ManifestFile("m", 1, sequence_number=8, added_snapshot_id=70)
    manifest = parse_manifest(written(replace(ADDED, status=status)), WHERE)
    with pytest.raises(CorruptDatasetError, match="is not new and has no sequence number"):
        list(inherited(manifest, line, WHERE))


@pytest.mark.rule("ICE-26")
def test_ice_26_manifests_of_version_1() -> None:
    entry = replace(PLAIN, file=replace(FILE, geometry_lower={2: corner(0, 0)}))
    stored = written(entry, format_version=1)
    (record,) = records(stored)
    assert "sequence_number" not in record
    assert "content" not in record["data_file"]
    assert record["data_file"]["block_size_in_bytes"] > 0
    found = parse_manifest(stored, WHERE)
    assert found.format_version == 1
    assert found.entries == (entry,)
    line = ManifestFile("m", 1, added_snapshot_id=70)
    (one,) = inherited(found, line, WHERE)
    assert (one.sequence_number, one.file_sequence_number) == (0, 0)
    with pytest.raises(ValueError, match="has no snapshot id"):
        written(replace(PLAIN, snapshot_id=None), format_version=1)


@pytest.mark.rule("ICE-26")
def test_ice_26_manifest_lists_of_version_1() -> None:
    line = ManifestFile("m", 1, 2, added_snapshot_id=3)
    stored = format_manifest_list([line], snapshot_id=3, format_version=1)
    assert parse_manifest_list(stored, WHERE) == (line,)
    assert not {515, 516, 517} & set(field_ids(parse_container(stored).schema))


@pytest.mark.rule("ICE-91")
def test_ice_91_delete_files_are_in_manifests_of_their_own() -> None:
    deletes = replace(PLAIN, file=replace(PLAIN.file, content=DataFileContent.POSITION_DELETES))
    stored = written(deletes, content=ManifestContent.DELETES)
    assert parse_container(stored).metadata["content"] == "deletes"
    assert parse_manifest(stored, WHERE).entries[0].file.content is DataFileContent.POSITION_DELETES
    for content, entry in ((ManifestContent.DATA, deletes), (ManifestContent.DELETES, PLAIN)):
        with pytest.raises(ValueError, match="not in a manifest of its content"):
            written(entry, content=content)


@pytest.mark.rule("ICE-92")
def test_ice_92_equality_ids_are_ints() -> None:
    file = replace(PLAIN.file, content=DataFileContent.EQUALITY_DELETES, equality_ids=(1, 3))
    stored = written(replace(PLAIN, file=file), content=ManifestContent.DELETES)
    assert '"element-id":136' in json.dumps(parse_container(stored).schema).replace(" ", "")
    (record,) = records(stored)
    assert record["data_file"]["equality_ids"] == [1, 3]


def test_143_stands_only_where_a_delete_file_names_its_one_target() -> None:
    assert 143 not in field_ids(parse_container(written(PLAIN)).schema)
    file = replace(
        PLAIN.file, content=DataFileContent.POSITION_DELETES, referenced_data_file="/d/a.parquet"
    )
    stored = written(replace(PLAIN, file=file), content=ManifestContent.DELETES)
    assert 143 in field_ids(parse_container(stored).schema)
    assert parse_manifest(stored, WHERE).entries[0].file.referenced_data_file == "/d/a.parquet"


@pytest.mark.rule("ICE-85", "ICE-13")
def test_ice_85_13_counts_and_summaries() -> None:
    def entry(status: Status, bucket: int | None, price: str, number: int | None) -> ManifestEntry:
        values = {1000: bucket, 1001: Number(price), 1002: date(2017, 11, 16), 1003: None}
        return ManifestEntry(status, replace(FILE, partition=values), 7, number, number)

    entries = [
        entry(Status.ADDED, 3, "-1.00", None),
        entry(Status.EXISTING, None, "14.20", 4),
        entry(Status.DELETED, 1, "3.00", 2),
    ]
    line = manifest_file_of(
        entries, "m", 99, schema=SCHEMA, spec=SPEC, sequence_number=8, snapshot_id=70
    )
    assert (line.added_files, line.existing_files, line.deleted_files) == (1, 1, 1)
    assert (line.added_rows, line.existing_rows, line.deleted_rows) == (3, 3, 3)
    assert (line.sequence_number, line.min_sequence_number) == (8, 4)
    assert line.partitions is not None
    bucket, price, day, code = line.partitions
    assert bucket == FieldSummary(True, False, b"\x01\0\0\0", b"\x03\0\0\0")
    assert price == FieldSummary(False, False, b"\x9c", b"\x05\x8c")
    assert day.lower == day.upper == bytes.fromhex("4e440000")
    assert code == FieldSummary(True, False, None, None)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_files_of_other_writers_in_any_order_of_fields(codec: str) -> None:
    data = written(ADDED)
    schema = json.loads(json.dumps(parse_container(data).schema))
    file = schema["fields"][-1]["type"]
    file["fields"].reverse()
    file["fields"].insert(3, {"name": "new", "type": ["null", "string"], "field-id": 9999})
    schema["fields"].reverse()
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records(data), codec, metadata=_header(data))
    assert parse_manifest(buffer.getvalue(), WHERE).entries == (ADDED,)


@pytest.mark.parametrize(("codec", "name"), [("snappy", "snappy"), ("zstd", "zstandard")])
def test_other_compressions(codec: str, name: str) -> None:
    data = written(ADDED)
    found = parse_container(data)
    ((count, block),) = found.blocks
    packed = pa.compress(block, codec, asbytes=True) + (b"crc4" if codec == "snappy" else b"")
    header = data[: data.index(SYNC)].replace(b"\x0edeflate", encode_text(name))
    body = encode_long(count) + encode_bytes(packed)
    assert parse_manifest(header + SYNC + body + SYNC, WHERE).entries == (ADDED,)


def _header(data: bytes) -> dict[str, str]:
    return dict(parse_container(data).metadata)


def test_fields_without_ids_are_found_by_name() -> None:
    data = written(PLAIN, spec=PartitionSpec())
    schema = json.loads(json.dumps(parse_container(data).schema))
    for field in (*schema["fields"], *schema["fields"][-1]["type"]["fields"]):
        del field["field-id"]
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records(data), metadata=_header(data))
    assert parse_manifest(buffer.getvalue(), WHERE).entries == (PLAIN,)


def test_unknown_compression_is_unsupported() -> None:
    data = written(PLAIN).replace(b"\x0edeflate", b"\x0eunknown")
    with pytest.raises(UnsupportedError, match="compressed with 'unknown'"):
        parse_manifest(data, WHERE)


def test_a_partition_field_needs_its_column() -> None:
    gone = PartitionSpec((PartitionField(99, 1000, "x", "identity"),))
    with pytest.raises(ValueError, match="has no source column"):
        written(PLAIN, spec=gone)
    void = PartitionSpec((PartitionField(99, 1000, "x", "void"),))
    (entry,) = parse_manifest(written(PLAIN, spec=void), WHERE).entries
    assert entry.file.partition == {1000: None}


def test_version_3_says_rows_and_vectors() -> None:
    vector = replace(
        PLAIN.file,
        first_row_id=7,
        referenced_data_file="a.parquet",
        content_offset=4,
        content_size=44,
    )
    second = replace(PLAIN, file=replace(PLAIN.file, record_count=5))
    entries = (replace(PLAIN, file=vector), second, second)
    data = written(*entries, format_version=3)

    (first, *_) = (record["data_file"] for record in records(data))
    names = ("first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes")
    assert [first[name] for name in names] == [7, "a.parquet", 4, 44]
    numbers = field_ids(fastavro.reader(io.BytesIO(data)).writer_schema)
    assert [numbers[n] for n in (142, 143, 144, 145)] == list(names)
    found = parse_manifest(data, WHERE)
    assert found.format_version == 3
    assert replace(found.entries[0].file, partition={}) == vector
    lines = (ManifestFile("m", 1, sequence_number=2, first_row_id=100), ManifestFile("n", 1))
    listed = format_manifest_list(lines, snapshot_id=1, format_version=3)
    assert [line.first_row_id for line in parse_manifest_list(listed, WHERE)] == [100, None]
    # Those that have no id of their own follow each other.
    ids = [each.file.first_row_id for each in inherited(found, lines[0], WHERE)]
    assert ids == [7, 100, 105]
    assert [e.file.first_row_id for e in inherited(found, lines[1], WHERE)] == [7, None, None]


@pytest.mark.parametrize("version", [0, 4])
def test_other_versions_are_not_written(version: int) -> None:
    with pytest.raises(ValueError, match="are not written"):
        written(PLAIN, format_version=version)
    with pytest.raises(ValueError, match="are not written"):
        format_manifest_list([], snapshot_id=1, format_version=version)
