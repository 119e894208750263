"""PyIceberg as the other reader and writer of the same documents."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal as Number
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec, SortOrder
from havasu_vc.formats.iceberg.entries import manifest_file_of
from havasu_vc.formats.iceberg.manifests import (
    format_manifest,
    format_manifest_list,
    parse_manifest,
    parse_manifest_list,
)
from havasu_vc.formats.iceberg.metadata import format_metadata, parse_metadata
from havasu_vc.formats.iceberg.schema import format_name_mapping, mapping_of
from havasu_vc.formats.iceberg.single_values import to_plain, to_single_value
from havasu_vc.formats.iceberg.transforms import parse_transform
from havasu_vc.formats.iceberg.values import (
    DataFile,
    Flavour,
    ManifestEntry,
    Reference,
    Snapshot,
    Status,
    TableMetadata,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Fixed, Geometry, Primitive, Struct, Type
from tests.formats.iceberg.strategies import values_of
from tests.formats.iceberg.test_metadata import TABLE

pytest.importorskip("pyiceberg")

from pyiceberg import conversions, manifest, transforms, types
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.name_mapping import parse_mapping_from_json

P = Primitive
TYPES: dict[Type, Any] = {
    P.BOOLEAN: types.BooleanType(),
    P.INT: types.IntegerType(),
    P.LONG: types.LongType(),
    P.FLOAT: types.FloatType(),
    P.DOUBLE: types.DoubleType(),
    P.DATE: types.DateType(),
    P.TIME: types.TimeType(),
    P.TIMESTAMP: types.TimestampType(),
    P.TIMESTAMPTZ: types.TimestamptzType(),
    P.STRING: types.StringType(),
    P.UUID: types.UUIDType(),
    P.BINARY: types.BinaryType(),
    Decimal(9, 2): types.DecimalType(9, 2),
    Decimal(38, 10): types.DecimalType(38, 10),
    Fixed(5): types.FixedType(5),
}
SCHEMA = Schema(
    (
        Field(1, "id", P.LONG, required=True),
        Field(2, "geom", P.BINARY, geometry=Geometry()),
        Field(3, "day", P.DATE),
        Field(4, "price", Decimal(9, 2)),
    ),
    (1,),
)
SPEC = PartitionSpec((PartitionField(3, 1000, "day", "identity"),), 0)


def plain(value: Any, type_: Type) -> Any:
    """A value as PyIceberg counts it: it takes UUIDs and decimals as Python has them."""
    return value if isinstance(value, UUID | Number) else to_plain(value, type_)


@given(st.data(), st.sampled_from(list(TYPES)))
@pytest.mark.rule(
    "ICE-27",
    "ICE-28",
    "ICE-29",
    "ICE-30",
    "ICE-31",
    "ICE-32",
    "ICE-33",
    "ICE-34",
    "ICE-35",
    "ICE-36",
    "ICE-37",
)
def test_ice_27_to_37_single_values_are_pyicebergs(data: st.DataObject, type_: Type) -> None:
    value = data.draw(values_of(type_))
    assert to_single_value(value, type_) == conversions.to_bytes(TYPES[type_], plain(value, type_))


@given(
    st.data(),
    st.sampled_from(list(TYPES)),
    st.sampled_from(["bucket[16]", "truncate[10]", "year", "month", "day", "hour"]),
)
@pytest.mark.rule("ICE-84")
def test_ice_84_transforms_are_pyicebergs(data: st.DataObject, type_: Type, name: str) -> None:
    ours, theirs = parse_transform(name), transforms.parse_transform(name)
    if not (ours.accepts(type_) and theirs.can_transform(TYPES[type_])):
        return
    value = data.draw(values_of(type_))
    made = ours.apply(value, type_)
    found = theirs.transform(TYPES[type_])(plain(value, type_))
    assert plain(made, ours.result_type(type_)) == found


def table(folder: Path, flavour: Flavour) -> TableMetadata:
    """Write a table of two files, as a checkout would."""
    (folder / "metadata").mkdir(parents=True)
    entries = []
    for number, day in enumerate((date(2017, 11, 16), date(2020, 2, 29))):
        path = folder / f"{number}.parquet"
        names = [(1, "id", pa.int64()), (2, "geom", pa.binary()), (3, "day", pa.date32())]
        names.append((4, "price", pa.decimal128(9, 2)))
        columns = pa.schema(
            [pa.field(n, t, metadata={"PARQUET:field_id": str(i)}) for i, n, t in names]
        )
        rows = [{"id": number, "geom": b"x", "day": day, "price": Number("14.20")}]
        pq.write_table(pa.Table.from_pylist(rows, columns), path)
        file = DataFile(
            str(path),
            1,
            path.stat().st_size,
            partition={1000: day},
            value_counts={1: 1},
            null_value_counts={1: 0},
            lower_bounds={1: to_single_value(number, P.LONG)},
            upper_bounds={1: to_single_value(number, P.LONG)},
            geometry_lower={2: bytes(21)},
            geometry_upper={2: bytes(21)},
        )
        entries.append(ManifestEntry(Status.ADDED, file))
    data = format_manifest(entries, schema=SCHEMA, spec=SPEC, flavour=flavour)
    inside, listed = folder / "metadata" / "m.avro", folder / "metadata" / "snap.avro"
    inside.write_bytes(data)
    line = manifest_file_of(
        entries, str(inside), len(data), schema=SCHEMA, spec=SPEC, sequence_number=1, snapshot_id=7
    )
    listed.write_bytes(format_manifest_list([line], snapshot_id=7, sequence_number=1))
    made = TableMetadata(
        "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        str(folder),
        5,
        4,
        {0: SCHEMA},
        0,
        {0: SPEC},
        0,
        {0: SortOrder()},
        0,
        1000,
        2,
        1,
        7,
        {7: Snapshot(7, 1, 5, str(listed), {"operation": "append"}, None, 0)},
        {"main": Reference(7)},
        havasu_version="0.1.0",
    )
    (folder / "metadata" / "v1.metadata.json").write_bytes(format_metadata(made, flavour=flavour))
    (folder / "metadata" / "version-hint.text").write_text("1")
    return made


@pytest.mark.rule("ICE-90")
def test_ice_90_flavour_iceberg_is_read_and_pruned(tmp_path: Path) -> None:
    table(tmp_path / "t", Flavour.ICEBERG)
    found = StaticTable.from_metadata(str(tmp_path / "t"))
    assert found.scan().to_arrow().column("id").to_pylist() == [0, 1]
    assert found.scan(row_filter="id = 1").to_arrow().num_rows == 1
    assert len(list(found.scan(row_filter="id = 1").plan_files())) == 1
    assert len(list(found.scan(row_filter="day < '2018-01-01'").plan_files())) == 1


@pytest.mark.rule("HAV-52")
def test_hav_52_pyiceberg_reads_no_manifest_with_geometry_bounds(tmp_path: Path) -> None:
    """The reason for flavour `iceberg`: when this fails, PyIceberg has learned it."""
    from pyiceberg.exceptions import ResolveError

    table(tmp_path / "t", Flavour.HAVASU)
    found = StaticTable.from_metadata(str(tmp_path / "t"))
    with pytest.raises(ResolveError, match="got None"):
        found.scan().to_arrow()


def test_what_pyiceberg_writes_is_read(tmp_path: Path) -> None:
    made = table(tmp_path / "t", Flavour.ICEBERG)
    theirs = StaticTable.from_metadata(str(tmp_path / "t"))
    io = PyArrowFileIO()
    snapshot = theirs.metadata.snapshots[0]
    (line,) = snapshot.manifests(io)
    target = str(tmp_path / "theirs.avro")
    writer = manifest.write_manifest(
        2, theirs.spec(), theirs.schema(), io.new_output(target), 8, "deflate"
    )
    with writer:
        for entry in line.fetch_manifest_entry(io):
            writer.add_entry(entry)
    ours = parse_manifest((tmp_path / "t/metadata/m.avro").read_bytes(), "m")
    read = parse_manifest(Path(target).read_bytes(), "m")
    assert read.spec == made.partition_specs[0]
    assert [e.file.partition for e in read.entries] == [e.file.partition for e in ours.entries]
    for one, other in zip(read.entries, ours.entries, strict=True):
        assert one.file.lower_bounds == other.file.lower_bounds
        assert one.file.path == other.file.path
    listed = str(tmp_path / "theirs-list.avro")
    with manifest.write_manifest_list(2, io.new_output(listed), 8, 7, 2, "deflate") as list_writer:
        list_writer.add_manifests([writer.to_manifest_file()])
    (found,) = parse_manifest_list(Path(listed).read_bytes(), "l")
    assert (found.path, found.added_files, found.added_rows) == (target, 2, 2)
    assert found.partitions is not None
    assert found.partitions[0].lower == to_single_value(date(2017, 11, 16), P.DATE)


@pytest.mark.parametrize("flavour", Flavour)
@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.rule("ICE-81")
def test_ice_81_metadata_is_read(flavour: Flavour, empty: bool) -> None:
    value = TABLE
    if empty:
        value = replace(TABLE, current_snapshot_id=None, snapshots={}, references={})
        value = replace(value, snapshot_log=())
    found = TableMetadataUtil.parse_raw(format_metadata(value, flavour=flavour).decode())
    assert str(found.table_uuid) == value.table_uuid
    assert found.location == value.location
    assert found.current_snapshot_id == value.current_snapshot_id
    assert [s.snapshot_id for s in found.snapshots] == list(value.snapshots)
    assert set(found.refs) == set(value.references)
    assert found.sort_orders[1].fields[0].source_id == 1
    fields = {i: [f.field_id for f in s.fields] for i, s in value_schemas(found).items()}
    assert fields == {i: [f.id for f in s.fields] for i, s in value.schemas.items()}


def value_schemas(metadata: Any) -> dict[int, Any]:
    return {schema.schema_id: schema for schema in metadata.schemas}


def test_what_pyiceberg_writes_of_metadata_is_restored(tmp_path: Path) -> None:
    raster = Schema((*SCHEMA.fields, Field(5, "rast", Struct(()), raster="v1")), (1,))
    made = replace(table(tmp_path / "t", Flavour.SPARK), schemas={0: raster}, last_column_id=5)
    data = format_metadata(made, flavour=Flavour.SPARK)
    theirs = TableMetadataUtil.parse_raw(data.decode()).model_dump_json()
    assert "havasu.format-version" not in theirs
    found = parse_metadata(theirs.encode(), "v2.metadata.json")
    assert found.havasu_version is None
    assert found.schema == parse_metadata(data, "v1.metadata.json").schema


@pytest.mark.rule("ICE-54")
def test_ice_54_name_mapping_is_pyicebergs() -> None:
    text = format_name_mapping(mapping_of(SCHEMA))
    found = parse_mapping_from_json(text)
    assert [(each.field_id, each.names) for each in found.root] == [
        (field.id, [field.name]) for field in SCHEMA.fields
    ]
