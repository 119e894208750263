"""What only tables of Iceberg 3 have: deletion vectors, defaults, finer times."""

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from havasu_vc.errors import (
    CorruptDatasetError,
    CorruptionError,
    UnsupportedError,
    UnsupportedTypeError,
)
from havasu_vc.formats.iceberg.metadata import parse_metadata
from havasu_vc.formats.iceberg.native_geometry import with_native_types
from havasu_vc.formats.iceberg.schema import schema_from_json
from havasu_vc.formats.iceberg.single_values import default_values, split_defaults
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import run_task
from havasu_vc.model.types import (
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Primitive,
    Struct,
    descendants,
)
from havasu_vc.tables.scanning import deleted_rows, row_sources, scan_tasks
from havasu_vc.tables.snapshots import live_files
from havasu_vc.tables.table import read_table
from tests.tables.making import TableMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID = Field(1, "id", Primitive.LONG, required=True)
NAME = Field(2, "name", Primitive.STRING)
SCHEMA = Schema((ID, NAME), (1,))


def numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"n{n}"} for n in numbers]


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    return TableMaker(tmp_path / "t", SCHEMA, format_version=3)


def framed(positions: Sequence[int]) -> bytes:
    vector = struct.pack("<I", 1681511377) + bytes(BitMap64(positions).serialize())
    return struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def vectors(maker: TableMaker, *wanted: tuple[DataFile, Sequence[int]]) -> list[DataFile]:
    """Write deletion vectors into one Puffin file."""
    path = maker.location / "data" / f"{len(list((maker.location / 'data').iterdir()))}.puffin"
    data = b"PFA1"
    found = []
    for file, positions in wanted:
        blob = framed(positions)
        found.append(
            DataFile(
                str(path),
                len(positions),
                0,
                DataFileContent.POSITION_DELETES,
                "PUFFIN",
                referenced_data_file=file.path,
                content_offset=len(data),
                content_size=len(blob),
            )
        )
        data += blob
    path.write_bytes(data + b"PFA1")
    return [replace(each, file_size=len(data) + 4) for each in found]


def ids(maker: TableMaker, snapshot: int | None = None) -> list[int]:
    tasks = scan_tasks(maker.table, snapshot_id=snapshot)
    return sorted(n for t in tasks for batch in run_task(t) for n in batch.column("id").to_pylist())


def test_rows_of_deletion_vectors_are_gone(maker: TableMaker) -> None:
    one, two = maker.data(numbered(*range(10))), maker.data(numbered(*range(10, 20)))
    first = maker.commit(one, two)
    second = maker.commit(*vectors(maker, (one, [0, 3]), (two, [9])))

    assert ids(maker) == [n for n in range(20) if n not in (0, 3, 19)]
    assert ids(maker, first) == list(range(20))
    sources = row_sources(maker.table, snapshot_id=second)
    gone = {each.file.path: deleted_rows(source).tolist() for each, source in sources}
    assert gone == {one.path: [0, 3], two.path: [9]}


def test_a_vector_stands_for_all_position_deletes_of_its_file(maker: TableMaker) -> None:
    one, two = maker.data(numbered(*range(5))), maker.data(numbered(*range(5, 10)))
    maker.commit(one, two)
    maker.commit(maker.deletes(at=[(one, [1]), (two, [1])]))
    maker.commit(*vectors(maker, (one, [4])))

    # Whoever wrote the vector put row 1 in as well, or meant it to live again.
    assert ids(maker) == [0, 1, 2, 3, 5, 7, 8, 9]


def test_a_vector_does_not_reach_newer_files_and_equality_deletes_stay(maker: TableMaker) -> None:
    one = maker.data(numbered(*range(5)))
    maker.commit(one)
    maker.commit(maker.equal([{"id": 2}], (1,)))
    maker.commit(*vectors(maker, (one, [0])))

    assert ids(maker) == [1, 3, 4]


@pytest.mark.parametrize(
    "change",
    [
        {"content_offset": None},
        {"content_size": None},
        {"referenced_data_file": None},
        {"content_offset": -1},
        {"content_size": 1 << 40},
        {"content_offset": 5},
        {"content_offset": 1 << 40},
        {"content_size": 8},
        {"record_count": 1},
        {"record_count": 3},
    ],
    ids=str,
)
def test_vectors_that_are_not_what_is_said(maker: TableMaker, change: dict[str, Any]) -> None:
    one = maker.data(numbered(*range(10)))
    maker.commit(one)
    (vector,) = vectors(maker, (one, [0, 3]))
    maker.commit(replace(vector, **change))

    with pytest.raises(CorruptionError):
        ids(maker)


def test_puffin_files_that_are_no_vectors_are_not_read(maker: TableMaker) -> None:
    one = maker.data(numbered(1))
    maker.commit(replace(one, file_format="PUFFIN"))

    with pytest.raises(UnsupportedError, match="only Parquet"):
        ids(maker)


def with_fields(maker: TableMaker, *fields: dict[str, Any]) -> TableMaker:
    """Add columns to the table's schema, as only version 3 may say them."""
    file = maker.table.metadata_file
    document = json.loads(file.read_text())
    document["schemas"][-1]["fields"] += fields
    document["last-column-id"] = 100
    file.write_text(json.dumps(document))
    maker.table = read_table(maker.location)
    return maker


def column(number: int, type_: Any, initial: Any = None, **others: Any) -> dict[str, Any]:
    said = {"id": number, "name": f"c{number}", "required": False, "type": type_, **others}
    return said if initial is None else {**said, "initial-default": initial}


def row(maker: TableMaker) -> dict[str, Any]:
    (task,) = scan_tasks(maker.table)
    (batch,) = run_task(task)
    found: dict[str, Any] = batch.to_pylist()[0]
    return found


VALUES: list[tuple[Any, Any, Any]] = [
    ("boolean", True, True),
    ("int", -5, -5),
    ("long", 1 << 40, 1 << 40),
    ("float", 1.5, 1.5),
    ("double", 2.5, 2.5),
    ("decimal(9, 2)", "14.20", Number("14.20")),
    ("date", "2017-11-16", date(2017, 11, 16)),
    ("time", "22:31:08.123456", time(22, 31, 8, 123456)),
    ("timestamp", "2017-11-16T22:31:08.123456", datetime(2017, 11, 16, 22, 31, 8, 123456)),
    ("timestamptz", "2017-11-16T22:31:08+00:00", datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC)),
    ("timestamp_ns", "2017-11-16T22:31:08.123456000", datetime(2017, 11, 16, 22, 31, 8, 123456)),
    ("string", "iceberg", "iceberg"),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7",
     UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes),
    ("fixed[3]", "000102", b"\x00\x01\x02"),
    ("binary", "00ff", b"\x00\xff"),
    ({"type": "list", "element-id": 11, "element": "int", "element-required": False},
     [1, 2], [1, 2]),
    ({"type": "map", "key-id": 12, "key": "string", "value-id": 13, "value": "int",
      "value-required": False}, {"keys": ["a"], "values": [1]}, [("a", 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "said", "value"), VALUES, ids=lambda each: str(each)[:20])
@pytest.mark.rule("ICE-46", "ICE-53")
def test_files_without_a_column_have_its_initial_default(
    maker: TableMaker, type_: Any, said: Any, value: Any
) -> None:
    maker.commit(maker.data(numbered(1)))
    with_fields(maker, column(9, type_, said))

    assert row(maker)["c9"] == value


@pytest.mark.rule("ICE-50")
def test_ice_50_what_a_struct_leaves_out_its_fields_say(maker: TableMaker) -> None:
    maker.commit(maker.data(numbered(1)))
    fields = [column(10, "int", 7), column(11, "string", "b"), column(12, "int")]
    with_fields(maker, column(9, {"type": "struct", "fields": fields}, {"11": "own"}))
    assert row(maker)["c9"] == {"c10": 7, "c11": "own", "c12": None}

    inner = Struct((Field(21, "a", Primitive.INT),))
    other = TableMaker(
        maker.location.parent / "u", Schema((ID, Field(20, "s", inner))), format_version=3
    )
    other.commit(other.data([{"id": 1, "s": {"a": 4}}]))
    file = other.table.metadata_file
    document = json.loads(file.read_text())
    document["schemas"][0]["fields"][1]["type"]["fields"].append(column(22, "int", 3))
    document["last-column-id"] = 22
    file.write_text(json.dumps(document))
    other.table = read_table(other.location)
    assert row(other)["s"] == {"a": 4, "c22": 3}


@pytest.mark.rule("ICE-46")
def test_ice_46_an_initial_default_never_changes(maker: TableMaker) -> None:
    document = json.loads(maker.table.metadata_file.read_text())
    schema = document["schemas"][0]
    first = {**schema, "fields": [*schema["fields"], column(9, "int", 3)]}
    second = {**first, "schema-id": 1, "fields": [*schema["fields"], column(9, "int", 4)]}
    same = {**first, "schema-id": 1, "fields": [*schema["fields"], column(9, "long", 3)]}
    document |= {"last-column-id": 9, "current-schema-id": 1}

    found = parse_metadata(json.dumps({**document, "schemas": [first, same]}).encode(), "t")
    assert found.defaults == {9: 3}
    with pytest.raises(CorruptDatasetError, match="initial default of field 9 was changed"):
        parse_metadata(json.dumps({**document, "schemas": [first, second]}).encode(), "t")


@pytest.mark.rule("ICE-47", "ICE-51")
def test_ice_47_51_a_write_default_may_change_at_any_depth(maker: TableMaker) -> None:
    document = json.loads(maker.table.metadata_file.read_text())
    schema = document["schemas"][0]

    def with_default(number: int, value: int) -> dict[str, Any]:
        inner = {**column(10, "int"), "write-default": value}
        struct_ = {"type": "struct", "fields": [inner]}
        fields = [{**column(9, "int"), "write-default": value}, column(11, struct_)]
        return {**schema, "schema-id": number, "fields": [*schema["fields"], *fields]}

    document |= {"last-column-id": 11, "schemas": [with_default(0, 3), with_default(1, 4)]}

    old = parse_metadata(json.dumps({**document, "current-schema-id": 0}).encode(), "t")
    new = parse_metadata(json.dumps({**document, "current-schema-id": 1}).encode(), "t")

    assert (old.write_defaults, new.write_defaults) == ({9: 3, 10: 3}, {9: 4, 10: 4})
    assert new.defaults == {}


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        ("int", 1 << 31),
        ("int", True),
        ("int", "3"),
        ("double", "NaN"),
        ("decimal(4, 2)", "1.234"),
        ("decimal(4, 2)", "1234.56"),
        ("decimal(4, 2)", "NaN"),
        ("date", "yesterday"),
        ("timestamp", "2017-11-16T22:31:08+00:00"),
        ("timestamptz", "2017-11-16T22:31:08"),
        ("timestamp_ns", "2017-11-16T22:31:08.123456789"),
        ("uuid", "x"),
        ("fixed[3]", "00"),
        ("binary", "xy"),
        ("geometry", "00"),
        ({"type": "struct", "fields": [column(10, "int")]}, [1]),
        ({"type": "list", "element-id": 11, "element": "int", "element-required": False}, 3),
        ({"type": "map", "key-id": 12, "key": "string", "value-id": 13, "value": "int",
          "value-required": False}, {"keys": ["a"], "values": []}),
    ],
    ids=str,
)  # fmt: skip
def test_defaults_that_are_none_of_their_type(maker: TableMaker, type_: Any, said: Any) -> None:
    with pytest.raises(CorruptDatasetError, match="the default of column 'c9'"):
        document = json.loads(maker.table.metadata_file.read_text())
        document["schemas"][0]["fields"].append(column(9, type_, said))
        document["last-column-id"] = 20
        parse_metadata(json.dumps(document).encode(), "t")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40)
    | st.sampled_from(["sNaN", "1E+999999999", "0001-01-01", "9999-12-31T23:59:60", "-0", " 00 "]),
    lambda inside: st.lists(inside, max_size=3)
    | st.dictionaries(st.sampled_from(["keys", "values", "10", "x"]), inside, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.sampled_from([type_ for type_, *_ in VALUES]), JSON)
def test_any_default_is_a_value_or_refused(type_: Any, said: Any) -> None:
    inside = {"type": "struct", "fields": [column(10, type_, said), column(31, "int")]}
    schema = {"type": "struct", "fields": [column(8, inside, {"31": said, "10": said})]}
    bare, found = split_defaults(schema)
    fields = schema_from_json(with_native_types(bare), "t").fields
    types = {field.id: arrow_type(field.type) for field in descendants(fields)}
    with suppress(CorruptDatasetError):
        for number, value in default_values(fields, found.initial, "t").items():
            pa.scalar(value, types[number])


@pytest.mark.parametrize("type_", ["variant", "unknown"])
def test_types_that_cannot_be_kept_are_named_with_their_column(
    maker: TableMaker, type_: str
) -> None:
    with pytest.raises(UnsupportedError, match="c9") as caught:
        with_fields(maker, column(9, type_))
    assert type_ in str(caught.value)
    assert ("to_json" in caught.value.hints[0]) is (type_ == "variant")


def nanoseconds(maker: TableMaker, value: int) -> None:
    arrow = pa.schema(
        [
            pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"}),
            pa.field("c9", pa.timestamp("ns"), metadata={b"PARQUET:field_id": b"9"}),
        ]
    )
    rows = pa.Table.from_arrays([[1], pa.array([value], pa.timestamp("ns"))], schema=arrow)
    file = maker.data(numbered(1))
    import pyarrow.parquet as pq

    pq.write_table(rows, file.path)
    maker.commit(replace(file, file_size=Path(file.path).stat().st_size))
    with_fields(maker, column(9, "timestamp_ns"))


def test_finer_times_are_kept_where_nothing_is_lost(maker: TableMaker) -> None:
    nanoseconds(maker, 1_510_871_468_000_001_000)

    found = maker.table.metadata.schema.by_name["c9"]
    assert (found.type, found.source_type) == (Primitive.TIMESTAMP, "timestamp[ns]")
    assert row(maker)["c9"] == datetime(2017, 11, 16, 22, 31, 8, 1)


def test_finer_times_that_would_be_cut_are_refused(maker: TableMaker) -> None:
    nanoseconds(maker, 1_510_871_468_000_001_001)

    with pytest.raises(UnsupportedTypeError, match="c9") as caught:
        row(maker)
    assert caught.value.hints


def test_the_types_of_defaults_are_all_types() -> None:
    known = {str(type_).partition("(")[0].partition("[")[0] for type_, *_ in VALUES[:15]}
    assert {each.value for each in Primitive} <= known
    assert {type(each) for each in (Decimal(9, 2), Fixed(3), List(ID), Map(ID, ID))}


@pytest.mark.slow
@pytest.mark.rule("ICE-46", "ICE-50")
def test_spark_reads_the_same_defaults(
    spark: "SparkSession", iceberg: Callable[[Path], str], tmp_path: Path
) -> None:
    catalog = iceberg(tmp_path / "warehouse")
    name = f"{catalog}.db.t"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, s STRUCT<a: INT>) USING iceberg "
        "TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 1)), (2, null), (3, null)")
    location = tmp_path / "warehouse" / "db" / "t"
    file = read_table(location).metadata_file
    document = json.loads(file.read_text())
    (schema,) = document["schemas"]
    simple = [(20 + n, type_, said) for n, (type_, said, _) in enumerate(VALUES[:15])]
    # Spark knows neither times of a day nor nanoseconds.
    schema["fields"] += [
        column(number, type_, said)
        for number, type_, said in simple
        if type_ not in ("time", "timestamp_ns", "uuid", "fixed[3]")
    ]
    schema["fields"][1]["type"]["fields"].append(column(50, "int", 7))
    document["last-column-id"] = 100
    file.write_text(json.dumps(document))
    file.with_name(f".{file.name}.crc").unlink()
    spark.sql(f"INSERT INTO {name} (id, c21) VALUES (4, 8)")
    spark.sql(f"DELETE FROM {name} WHERE id = 3")

    table = read_table(location)
    assert any(each.file.is_vector for each in live_files(table))
    ours = [r for t in scan_tasks(table) for batch in run_task(t) for r in batch.to_pylist()]
    theirs = [row.asDict(recursive=True) for row in spark.table(name).collect()]
    for row_ in theirs:
        moment = row_.pop("c29")
        row_["c29"] = None if moment is None else moment.astimezone(UTC)
        row_["c34"] = None if row_["c34"] is None else bytes(row_["c34"])
    assert sorted(ours, key=lambda r: r["id"]) == sorted(theirs, key=lambda r: r["id"])
    assert {r["id"]: r["c21"] for r in ours} == {1: -5, 2: -5, 4: 8}
