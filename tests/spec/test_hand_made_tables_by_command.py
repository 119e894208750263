"""Iceberg's rules of tables made by hand or by PyIceberg, as `import` reads or refuses them."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as TheirSchema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import parse_transform

from havasu_vc import Repo
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from tests.spec.commands import Commands
from tests.spec.test_checkouts_by_command import avro, checked_out, entries, local, manifests
from tests.spec.test_native_types_by_command import points
from tests.spec.test_tables_of_others_by_command import (
    GEOMETRY,
    Document,
    edited,
    field,
    metadata_of,
    refused,
    rows,
    table,
)
from tests.tables.making import TableMaker

SCHEMA = Schema(
    (Field(1, "id", Primitive.LONG, required=True), Field(2, "name", Primitive.STRING)), (1,)
)


def numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"n{n}"} for n in numbers]


def maker(tmp_path: Path, version: int = 2) -> TableMaker:
    return TableMaker(tmp_path / "made", SCHEMA, format_version=version)


def ids(hv: Commands, made: TableMaker) -> list[int]:
    found: list[int] = rows(hv, made.location)["id"].to_pylist()
    return found


# What a table may be


@pytest.mark.rule("HAV-3")
def test_a_file_that_is_no_parquet_is_not_read_as_one(hv: Commands, tmp_path: Path) -> None:
    """Those of Havasu are Parquet; what says that it is another and is none is refused."""
    made = maker(tmp_path)
    data = made.data(numbered(1))
    Path(data.path).write_bytes(b"ORC" + bytes(data.file_size - 3))
    made.commit(replace(data, file_format="ORC"))
    refused(hv, made.location, "not a parquet file")

    points(hv, ["POINT (1 2)", None])
    hv.write(id=[1], geom=[None])
    files = [each["data_file"] for each in entries(checked_out(hv))]
    assert {each["content"] for each in files} == {0, 1}
    for each in files:
        assert each["file_format"] == "PARQUET"
        assert local(each["file_path"]).read_bytes()[:4] == b"PAR1"


@pytest.mark.rule("HAV-6")
def test_a_table_that_names_no_version_is_one_of_the_first(hv: Commands) -> None:
    points(hv, ["POINT (1 2)", None])
    hv("checkout", "--flavour", "havasu")
    version = (hv.table / "metadata" / "version-hint.text").read_text().strip()
    path = hv.table / "metadata" / f"v{version}.metadata.json"
    document = json.loads(path.read_text())
    assert document.pop("havasu.format-version") == "0.1.0"
    path.chmod(0o644)
    path.write_text(json.dumps(document))

    assert "geom" in hv("describe", "t")
    hv("import", f"iceberg:{path}", "again", "--primary-key", "id")
    columns = json.loads(hv("meta", "get", "again", "-o", "json"))["again"]["schema.json"]
    assert [each["dataType"] for each in columns] == ["integer", "geometry"]
    assert hv("diff", "HEAD", "t", "--exit-code") == ""


@pytest.mark.rule("HAV-9", "HAV-10")
@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "truncate[2]", "void"])
@pytest.mark.few(2)
def test_no_table_is_partitioned_by_a_geometry(
    hv: Commands, tmp_path: Path, transform: str
) -> None:
    shapes = [shapely.to_wkb(shapely.Point(1, 2)), None]
    plain = pa.table({"id": [1, 2], "geom": pa.array(shapes, pa.binary())})
    made = table(tmp_path, plain)

    def change(document: Document) -> None:
        found = field(document, "geom")
        found.update(GEOMETRY)
        part = {"source-id": found["id"], "field-id": 1000, "name": "p", "transform": transform}
        spec = {"spec-id": 1, "fields": [part]}
        document["partition-specs"] = [*document["partition-specs"], spec]
        document.update({"default-spec-id": 1, "last-partition-id": 1000})

    if transform == "void":
        assert rows(hv, edited(made, change))["geom"].to_pylist() == shapes
    else:
        refused(hv, edited(made, change), "partitioned by")


TRANSFORMS = ["identity", "bucket[3]", "truncate[2]", "year", "month", "day", "hour", "void"]


@pytest.mark.rule("ICE-84")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.few(2)
def test_tables_of_each_partitioning(hv: Commands, tmp_path: Path, transform: str) -> None:
    """PyIceberg deals rows out, and a query by place in time reads what it must."""
    given = pa.table(
        {
            "id": range(40),
            "at": pa.array([n * 11_000_000_000_000 for n in range(40)], pa.timestamp("us")),
        }
    )
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path / 'lake'}")
    catalog.create_namespace("n")
    schema: TheirSchema = catalog.create_table("n.shape", given.schema).schema()
    by_time = transform in ("year", "month", "day", "hour")
    source = schema.find_field("at" if by_time else "id").field_id
    part = PartitionField(source, 1000, parse_transform(transform), "part")
    made = catalog.create_table("n.t", schema, partition_spec=PartitionSpec(part))
    made.append(given)

    assert rows(hv, metadata_of(made)).to_pylist() == given.to_pylist()
    if transform == "void":
        return
    # And PyIceberg finds rows in the files that we dealt out by the same transform.
    name, _, argument = transform.rstrip("]").partition("[")
    spec = f"{name}({argument}, id)" if argument else f"{name}({'at' if by_time else 'id'})"
    spec = "id" if name == "identity" else spec
    how = ("--flavour", "iceberg", "--layout", "clustered", "--partition-by", spec)
    hv("checkout", *how)
    theirs = StaticTable.from_metadata(str(hv.table))
    (parted,) = theirs.spec().fields
    assert str(parted.transform) == transform
    assert len(list(theirs.scan().plan_files())) > 1
    found = theirs.scan(row_filter="id > 33").to_arrow()
    assert sorted(found["id"].to_pylist()) == list(range(34, 40))
    moment = given["at"][20].as_py().isoformat()
    found = theirs.scan(row_filter=f"at >= '{moment}'").to_arrow()
    assert sorted(found["id"].to_pylist()) == list(range(20, 40))


def nested(document: Document) -> None:
    inner = next(each for each in field(document, "s")["type"]["fields"] if each["name"] == "g")
    inner.update(GEOMETRY)


@pytest.mark.rule("HAV-80")
def test_a_geometry_in_a_struct_is_one(hv: Commands, tmp_path: Path) -> None:
    shape = shapely.to_wkb(shapely.Point(1, 2))
    kind = pa.struct([("g", pa.binary()), ("n", pa.int32())])
    given = [{"g": shape, "n": 1}, None]
    made = table(tmp_path, pa.table({"id": [1, 2], "s": pa.array(given, kind)}))

    assert rows(hv, edited(made, nested))["s"].to_pylist() == given
    inner = next(each for each in hv.columns()[1]["fields"] if each["name"] == "g")
    assert inner["dataType"] == "geometry"
    (schema,) = checked_out(hv)["schemas"]
    there = next(each for each in schema["fields"][1]["type"]["fields"] if each["name"] == "g")
    assert there["havasu.geometry-encoding"] == "wkb"


def raster_of_numbers(document: Document) -> None:
    field(document, "n")["havasu.raster-encoding"] = "v1"


def raster_of_fields(document: Document) -> None:
    field(document, "s")["havasu.raster-encoding"] = "v1"


def raster_default(document: Document) -> None:
    empty = {"type": "struct", "fields": []}
    said = {"havasu.raster-encoding": "v1", "initial-default": {}, "write-default": {}}
    field(document, "s").update(said, type=empty)


def key_within(document: Document) -> None:
    found = field(document, "s")
    found["required"] = found["type"]["fields"][0]["required"] = True
    document["schemas"][-1]["identifier-field-ids"] = [found["type"]["fields"][0]["id"]]


def key_within_optional(document: Document) -> None:
    found = field(document, "s")
    found["type"]["fields"][0]["required"] = True
    document["schemas"][-1]["identifier-field-ids"] = [found["type"]["fields"][0]["id"]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(raster_of_numbers, "raster", marks=pytest.mark.rule("HAV-83")),
        pytest.param(raster_of_fields, "raster", marks=pytest.mark.rule("HAV-83")),
        pytest.param(raster_default, "default", marks=pytest.mark.rule("HAV-133")),
        pytest.param(key_within, "identif", marks=pytest.mark.rule("ICE-68")),
        pytest.param(key_within_optional, "identif", marks=pytest.mark.rule("ICE-70")),
    ],
)
@pytest.mark.few(2)
def test_schemas_that_cannot_be(
    hv: Commands, tmp_path: Path, change: Callable[[Document], None], words: str
) -> None:
    kind = pa.struct([("a", pa.int32())])
    plain = pa.table({"id": [1], "n": [2], "s": pa.array([{"a": 1}], kind)})
    refused(hv, edited(table(tmp_path, plain), change), words)


# Defaults, which Iceberg 3 has


def with_columns(made: TableMaker, *schemas: list[Document]) -> Path:
    """Write the table's metadata anew with more columns, in one schema after the other."""
    file = made.table.metadata_file
    document = json.loads(file.read_text())
    (first,) = document["schemas"]
    document["schemas"] = [
        {**first, "schema-id": number, "fields": [*first["fields"], *more]}
        for number, more in enumerate(schemas)
    ]
    document.update({"current-schema-id": len(schemas) - 1, "last-column-id": 99})
    file.write_text(json.dumps(document))
    return file


def column(number: int, type_: Any = "int", **more: Any) -> Document:
    return {"id": number, "name": f"c{number}", "required": False, "type": type_, **more}


@pytest.mark.rule("ICE-46", "ICE-53")
def test_an_initial_default_stands_where_files_have_no_column(hv: Commands, tmp_path: Path) -> None:
    made = maker(tmp_path, 3)
    made.commit(made.data(numbered(1, 2)))
    added = column(9, **{"initial-default": 3, "write-default": 5})

    found = rows(hv, with_columns(made, [added]))

    assert found["c9"].to_pylist() == [3, 3]


@pytest.mark.rule("ICE-46")
def test_an_initial_default_never_changes(hv: Commands, tmp_path: Path) -> None:
    made = maker(tmp_path, 3)
    made.commit(made.data(numbered(1)))
    one, other = (column(9, **{"initial-default": n}) for n in (3, 4))
    refused(hv, with_columns(made, [one], [other]), "initial default of field 9 was changed")


@pytest.mark.rule("ICE-47", "ICE-51")
def test_a_write_default_may_change(hv: Commands, tmp_path: Path) -> None:
    made = maker(tmp_path, 3)
    made.commit(made.data(numbered(1)))

    def said(value: int) -> list[Document]:
        inner = {"type": "struct", "fields": [column(11, **{"write-default": value})]}
        return [column(9, **{"write-default": value}), column(10, inner)]

    (row,) = rows(hv, with_columns(made, said(3), said(4))).to_pylist()

    # It is for who writes; rows that are there have the initial one, which is null.
    assert (row["c9"], row["c10"]) == (None, None)


@pytest.mark.rule("ICE-50")
def test_what_a_struct_leaves_out_its_fields_say(hv: Commands, tmp_path: Path) -> None:
    made = maker(tmp_path, 3)
    made.commit(made.data(numbered(1)))
    fields = [
        column(10, **{"initial-default": 7}),
        column(11, "string", **{"initial-default": "b"}),
        column(12),
    ]
    outer = column(9, {"type": "struct", "fields": fields}, **{"initial-default": {"11": "own"}})

    (row,) = rows(hv, with_columns(made, [outer])).to_pylist()

    assert row["c9"] == {"c10": 7, "c11": "own", "c12": None}


# Files, manifests and deletes


@contextmanager
def listed(monkeypatch: pytest.MonkeyPatch, below: Path) -> Iterator[list[str]]:
    """Give the folders below one that are listed."""
    found: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("listdir", "scandir"):
            function = getattr(os, name)

            def watched(path: Any = ".", function: Any = function) -> Any:
                if str(path).startswith(str(below)):
                    found.append(str(path))
                return function(path)

            patch.setattr(os, name, watched)
        yield found


@pytest.mark.rule("ICE-5")
def test_files_are_found_by_manifests_alone(
    hv: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = maker(tmp_path)
    made.commit(*(made.data(numbered(n)) for n in range(5)))
    made.data(numbered(77))  # in the folder, but in no manifest
    with listed(monkeypatch, made.location / "data") as folders:
        assert ids(hv, made) == list(range(5))
    assert folders == []


def rewritten(path: Path, change: Callable[[Document], None]) -> None:
    """Write an Avro file anew by fastavro, each record with a change."""
    records, said, schema = avro(str(path))
    for each in records:
        change(each)
    kept = {name: text for name, text in said.items() if not name.startswith("avro.")}
    path.chmod(0o644)
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, metadata=kept)


@pytest.mark.rule("ICE-17", "ICE-18")
@pytest.mark.parametrize("numbers", [True, False])
def test_only_files_that_are_new_take_the_numbers_of_their_manifest(
    hv: Commands, tmp_path: Path, numbers: bool
) -> None:
    made = maker(tmp_path)
    made.commit(made.data(numbered(1, 2)))
    metadata = json.loads(made.table.metadata_file.read_text())
    (one,) = manifests(metadata)

    def as_existing(entry: Document) -> None:
        assert (entry["status"], entry["sequence_number"]) == (1, None)
        entry["status"] = 0
        if numbers:
            number = {"sequence_number": 1, "file_sequence_number": 1}
            entry.update(number, snapshot_id=one["added_snapshot_id"])

    rewritten(local(one["manifest_path"]), as_existing)
    size = local(one["manifest_path"]).stat().st_size
    rewritten(
        local(metadata["snapshots"][-1]["manifest-list"]),
        lambda line: line.update(manifest_length=size),
    )
    if numbers:
        assert ids(hv, made) == [1, 2]
    else:
        refused(hv, made.location, "is not new and has no sequence number")


@pytest.mark.rule("ICE-17")
def test_files_that_stay_keep_their_numbers_in_our_manifests(hv: Commands) -> None:
    hv.take(pa.table({"id": range(100), "name": [f"n{n}" for n in range(100)]}))
    hv("checkout")
    found: dict[str, int] = {}
    for number in range(12):
        hv.write(id=[1000 + number], name=["more"])
        for each in entries(hv.metadata):
            path = each["data_file"]["file_path"]
            if each["status"] == 0:
                assert each["sequence_number"] == found.get(path, each["sequence_number"])
                assert each["snapshot_id"] is not None and each["sequence_number"] is not None
            if each["sequence_number"] is not None:
                found[path] = each["sequence_number"]


@pytest.mark.rule("ICE-23")
def test_deletes_of_one_file_are_told_by_their_bounds(hv: Commands, tmp_path: Path) -> None:
    made = maker(tmp_path)
    one, other = made.data(numbered(1, 2)), made.data(numbered(3, 4))
    made.commit(one, other)
    made.commit(made.deletes(at=[(one, [0])]))
    assert ids(hv, made) == [2, 3, 4]

    hv.take(pa.table({"id": range(9)}), "--replace")
    hv("restore", "-s", "HEAD^", "t")
    hv("checkout")
    hv.write(id=[2], name=["changed"])
    deletes = [e["data_file"] for e in entries(hv.metadata) if e["data_file"]["content"] == 1]
    assert deletes
    for each in deletes:
        lower, upper = (
            {at["key"]: at["value"] for at in each[name]}
            for name in ("lower_bounds", "upper_bounds")
        )
        named = set(pq.read_table(local(each["file_path"]))["file_path"].to_pylist())
        assert {lower[2147483546].decode(), upper[2147483546].decode()} == {min(named), max(named)}


@pytest.mark.rule("ICE-79")
def test_deletes_may_hold_the_rows_that_they_delete(hv: Commands, tmp_path: Path) -> None:
    made = maker(tmp_path)
    data = made.data(numbered(1, 2, 3))
    made.commit(data)

    def of(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, kind, metadata={b"PARQUET:field_id": str(number).encode()})

    row = pa.struct([of("id", pa.int64(), 1), of("name", pa.string(), 2)])
    schema = pa.schema(
        [
            of("file_path", pa.string(), 2147483546),
            of("pos", pa.int64(), 2147483545),
            of("row", row, 2147483544),
        ]
    )
    path = made.location / "data" / "deletes.parquet"
    gone = {"file_path": [data.path], "pos": [1], "row": [{"id": 2, "name": "n2"}]}
    pq.write_table(pa.table(gone, schema=schema), path)
    made.commit(
        DataFile(str(path), 1, path.stat().st_size, content=DataFileContent.POSITION_DELETES)
    )
    assert ids(hv, made) == [1, 3]


@pytest.mark.rule("HAV-59")
@pytest.mark.parametrize("order", ["<", ">"])
def test_corners_of_either_byte_order_are_read(hv: Commands, order: str) -> None:
    """The box is moved away from the rows: who reads it finds none of them there."""
    points(hv, ["POINT (1 2)", "POINT (3 4)"])
    hv("checkout", "--flavour", "havasu")
    one = manifests(hv.metadata)[0]

    def moved(entry: Document) -> None:
        for name in ("geom_lower_bounds", "geom_upper_bounds"):
            for each in entry["data_file"][name]:
                x, y = struct.unpack("<dd", each["value"][5:])
                first = b"\x00" if order == ">" else b"\x01"
                each["value"] = first + struct.pack(f"{order}Idd", 1, x + 50, y + 50)

    def inside(box: str, name: str) -> int:
        place = f"iceberg:{hv.table}"
        hv("import", place, name, "--bbox", box, "--no-primary-key")
        return len(Repo.open(hv.path).table(name).to_arrow())

    assert inside("0,0,2,3", "before") == 1
    rewritten(local(one["manifest_path"]), moved)
    assert inside("0,0,2,3", "after") == 0


# What a reader has opened


@pytest.mark.rule("ICE-3")
def test_a_table_that_was_opened_stays_as_it_was(hv: Commands) -> None:
    hv.take(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    opened = Repo.open(hv.path).table("t")
    batches = iter(opened.to_batches())
    first = next(batches)
    hv.write(id=[1, 3], name=["A", "c"])
    hv("gc", "--prune-now")

    seen = pa.Table.from_batches([first, *batches]).sort_by("id")
    assert seen["name"].to_pylist() == ["a", "b"]
    assert opened.to_arrow().sort_by("id")["name"].to_pylist() == ["a", "b"]
    assert Repo.open(hv.path).table("t").to_arrow().sort_by("id")["name"].to_pylist() == [
        *("A", "b", "c")
    ]


@pytest.mark.rule("ICE-85")
def test_manifests_sum_their_partitions_up(hv: Commands) -> None:
    names = ["oak", "elm", None, "oak", "ash"]
    hv.take(pa.table({"id": range(5), "name": names, "x": pa.array(np.arange(5.0))}))
    hv("checkout", "--layout", "clustered", "--partition-by", "name, bucket(2, id)")

    lines = manifests(hv.metadata)
    assert lines
    sums = [each["partitions"] for each in lines]
    assert all(len(each) == 2 for each in sums)
    assert any(name["contains_null"] for name, _ in sums)
    assert min(name["lower_bound"] for name, _ in sums if name["lower_bound"]) == b"ash"
    assert max(name["upper_bound"] for name, _ in sums if name["upper_bound"]) == b"oak"
    assert not any(bucket["contains_null"] for _, bucket in sums)
    (schema,) = (
        part["type"]
        for part in avro(hv.metadata["snapshots"][-1]["manifest-list"])[2]["fields"]
        if part["name"] == "partitions"
    )
    text = json.dumps(schema)
    assert all(f'"field-id": {number}' in text for number in (509, 518, 510, 511))
    assert '"element-id": 508' in text


@pytest.mark.rule("ICE-87")
def test_branches_and_tags_are_references(hv: Commands) -> None:
    hv.take(pa.table({"id": [1], "name": ["a"]}))
    hv("tag", "v1")
    hv("branch", "other")
    hv.write(id=[2], name=["b"])
    hv("checkout", "--refs", "--flavour", "iceberg")

    metadata = hv.metadata
    refs = metadata["refs"]
    assert refs["main"] == {"snapshot-id": metadata["current-snapshot-id"], "type": "branch"}
    assert (refs["v1"]["type"], refs["other"]["type"]) == ("tag", "branch")
    theirs = StaticTable.from_metadata(str(hv.table))
    assert len(theirs.scan(snapshot_id=refs["v1"]["snapshot-id"]).to_arrow()) == 1
    assert len(theirs.scan().to_arrow()) == 2
