"""Rules of Iceberg's tables and of Havasu's bounds, in checked-out tables that fastavro reads."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from tests.spec.commands import Commands
from tests.spec.test_native_types_by_command import points


def local(path: str) -> Path:
    return Path(path.removeprefix("file://").removeprefix("file:"))


def avro(path: str) -> tuple[list[dict[str, Any]], Mapping[str, str], Any]:
    """Return the records of an Avro file, what its header says, and the schema of its records."""
    with local(path).open("rb") as file:
        reader = fastavro.reader(file)
        records = [dict(each) for each in reader]  # type: ignore[arg-type]
        return records, reader.metadata, reader.writer_schema


def manifests(metadata: Mapping[str, Any], snapshot: int | None = None) -> list[dict[str, Any]]:
    wanted = metadata["current-snapshot-id"] if snapshot is None else snapshot
    (found,) = (each for each in metadata["snapshots"] if each["snapshot-id"] == wanted)
    return avro(found["manifest-list"])[0]


def entries(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for one in manifests(metadata) for each in avro(one["manifest_path"])[0]]


def checked_out(hv: Commands, flavour: str = "havasu") -> dict[str, Any]:
    """Return the metadata of the dataset as a table for some readers."""
    place = hv.path.with_name(f"of-{flavour}")
    hv("checkout", "HEAD", "--to", place, "--flavour", flavour)
    (folder,) = place.rglob("metadata")
    version = (folder / "version-hint.text").read_text().strip()
    found: dict[str, Any] = json.loads((folder / f"v{version}.metadata.json").read_text())
    return found


def bounds(file: Mapping[str, Any]) -> dict[str, dict[int, bytes]]:
    """Return the bounds of a data file, of values and of geometries, by column."""
    names = ("lower_bounds", "upper_bounds", "geom_lower_bounds", "geom_upper_bounds")
    return {name: {each["key"]: each["value"] for each in file.get(name) or ()} for name in names}


def point(x: float, y: float) -> bytes:
    return b"\x01" + struct.pack("<Idd", 1, x, y)


@pytest.mark.parametrize(
    ("shapes", "box"),
    [
        (["LINESTRING (0 5, 3 -1)"], (0, -1, 3, 5)),
        (["POINT (1 1)", "POINT (5 -2)", None], (1, -2, 5, 1)),
        (["POINT (170 10)", "POINT (-170 20)"], (-170, 10, 170, 20)),
        (["POINT Z (1 2 99)"], (1, 2, 1, 2)),
        (["LINESTRING (NaN NaN, 1 2)"], (1, 2, 1, 2)),
        (["GEOMETRYCOLLECTION (POINT EMPTY, POINT (1 2))"], (1, 2, 1, 2)),
        (["POINT EMPTY", None], None),
    ],
)
@pytest.mark.rule("HAV-25", "HAV-26", "HAV-49", "HAV-50", "HAV-51", "HAV-53", "HAV-54", "HAV-56")
@pytest.mark.rule("HAV-57", "HAV-58", "HAV-60", "HAV-61", "HAV-62", "HAV-63", "HAV-64", "HAV-70a")
@pytest.mark.rule("HAV-131", "PQ-45")
@pytest.mark.few(2)
def test_boxes_of_geometries_stand_in_manifests(
    hv: Commands, shapes: Sequence[str | None], box: tuple[float, ...] | None
) -> None:
    points(hv, list(shapes))
    metadata = checked_out(hv)
    (entry,) = entries(metadata)
    found = bounds(entry["data_file"])
    (schema,) = metadata["schemas"]
    (column,) = (each["id"] for each in schema["fields"] if each["name"] == "geom")

    assert column not in found["lower_bounds"] and column not in found["upper_bounds"]
    if box is None:
        assert column not in found["geom_lower_bounds"]
        assert column not in found["geom_upper_bounds"]
    else:
        assert found["geom_lower_bounds"] == {column: point(*box[:2])}
        assert found["geom_upper_bounds"] == {column: point(*box[2:])}
        record = avro(manifests(metadata)[0]["manifest_path"])[2]
        file = next(each for each in record["fields"] if each["name"] == "data_file")["type"]
        ids = [each["field-id"] for each in file["fields"]]
        assert ids[-2:] == [1250, 1280]
        text = json.dumps(record)
        assert all(f'"field-id": {number}' in text for number in (1260, 1270, 1290, 1300))


SRIDS = [4326, 3857, 0]


@pytest.mark.rule("HAV-13", "HAV-14", "HAV-55", "HAV-71", "HAV-74", "HAV-75", "HAV-76", "HAV-77")
@pytest.mark.rule("HAV-87", "HAV-88", "HAV-89", "HAV-90", "HAV-91", "HAV-92", "HAV-93", "HAV-94")
@pytest.mark.parametrize("encoding", ["ewkb", "wkb", "wkt", "geojson"])
@pytest.mark.few(2)
def test_each_encoding_is_said_and_kept(hv: Commands, encoding: str) -> None:
    how = () if encoding == "ewkb" else ("--geometry-encoding", encoding)
    points(hv, ["POINT (1 2)", "LINESTRING (3 4, 5 6)", None], "OGC:CRS84", *how)
    if encoding == "ewkb":
        shapes = [
            shapely.set_srid(shapely.Point(n, n), s) for n, s in zip((1, 2), SRIDS[:2], strict=True)
        ]
        hv.write(id=[1, 2], geom=[shapely.to_wkb(each, include_srid=True) for each in shapes])
    metadata = checked_out(hv)

    (schema,) = metadata["schemas"]
    (field,) = (each for each in schema["fields"] if each["name"] == "geom")
    text = encoding in ("wkt", "geojson")
    assert field["type"] == ("string" if text else "binary")
    assert field["havasu.geometry-encoding"] == encoding
    found = [each["data_file"] for each in entries(metadata)]
    files = [local(each["file_path"]) for each in found if each["content"] == 0]
    kinds = {str(pq.ParquetFile(each).schema.column(1).logical_type) for each in files}
    assert kinds == {"String" if text else "None"}
    values = [each for file in files for each in pq.read_table(file)["geom"].to_pylist()]
    if text:
        read = shapely.from_wkt if encoding == "wkt" else shapely.from_geojson
        assert any(each is not None and read(each).equals(shapely.Point(1, 2)) for each in values)
    elif encoding == "wkb":
        assert bytes.fromhex("0101000000000000000000f03f0000000000000040") in values
    else:
        assert bytes.fromhex("0101000020e6100000000000000000f03f000000000000f03f") in values
        assert bytes.fromhex("0101000020110f000000000000000000400000000000000040") in values


def evolving(hv: Commands) -> None:
    """Commit rows, then others, and delete some, with the tables checked out."""
    hv.take(pa.table({"id": range(100), "name": [f"n{n}" for n in range(100)]}))
    hv("checkout")
    hv.write(id=[200], name=["later"])
    hv.write(id=[3, 4], name=["changed", "too"])


@pytest.mark.rule("ICE-2", "ICE-8", "ICE-9", "ICE-10", "ICE-11", "ICE-13", "ICE-15", "ICE-16")
@pytest.mark.rule("ICE-20", "ICE-77", "ICE-78", "ICE-81", "ICE-82", "ICE-83", "ICE-86", "ICE-88")
@pytest.mark.rule("ICE-89", "ICE-90", "ICE-91", "HAV-4", "HAV-8")
def test_a_table_that_follows_is_one_of_iceberg(hv: Commands) -> None:
    evolving(hv)
    metadata = hv.metadata

    required = {
        "format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms",
        "last-column-id", "schemas", "current-schema-id", "partition-specs", "default-spec-id",
        "last-partition-id", "sort-orders", "default-sort-order-id",
    }  # fmt: skip
    assert required <= metadata.keys() and metadata["format-version"] == 2
    assert metadata["havasu.format-version"] == "0.1.0"
    snapshots = metadata["snapshots"]
    numbers = [each["sequence-number"] for each in snapshots]
    assert numbers == sorted(set(numbers)) and numbers[-1] == metadata["last-sequence-number"]
    assert {each["summary"]["operation"] for each in snapshots} <= {
        "append", "replace", "overwrite", "delete",
    }  # fmt: skip
    log = [each["snapshot-id"] for each in metadata["snapshot-log"]]
    assert log[-1] == metadata["current-snapshot-id"]
    before = [each["metadata-file"] for each in metadata["metadata-log"]]
    assert before and all(local(each).exists() for each in before)

    # Snapshots share manifests that did not change.
    names = [{each["manifest_path"] for each in manifests(metadata, n)} for n in log]
    assert all(names[n] & names[n + 1] for n in range(len(names) - 1))
    live: dict[str, dict[str, Any]] = {}
    for one in manifests(metadata):
        records, said, _ = avro(one["manifest_path"])
        content = {0: "data", 1: "deletes"}[one["content"]]
        assert {"schema", "schema-id", "partition-spec", "partition-spec-id"} <= said.keys()
        assert (said["format-version"], said["content"]) == ("2", content)
        counts = [sum(each["status"] == status for each in records) for status in (1, 0, 2)]
        assert counts == [
            one["added_files_count"], one["existing_files_count"], one["deleted_files_count"],
        ]  # fmt: skip
        for each in records:
            if each["status"] == 1 and each["sequence_number"] is not None:
                assert each["sequence_number"] <= one["sequence_number"]
            if each["status"] != 2:
                live[each["data_file"]["file_path"]] = each["data_file"]
                assert (each["data_file"]["content"] == 0) == (content == "data")

    # The rows by the files alone: data less the positions that delete files name.
    gone: set[tuple[str, int]] = set()
    for path, file in live.items():
        if file["content"] == 1:
            table = pq.read_table(local(path))
            ids = [table.schema.field(n).metadata[b"PARQUET:field_id"] for n in range(2)]
            assert ids == [b"2147483546", b"2147483545"]
            pairs = list(zip(*(table.column(n).to_pylist() for n in range(2)), strict=True))
            assert pairs == sorted(pairs)
            gone |= {(str(local(name)), at) for name, at in pairs}
    rows = {
        row["id"]: row["name"]
        for path, file in live.items()
        if file["content"] == 0
        for at, row in enumerate(pq.read_table(local(path)).to_pylist())
        if (str(local(path)), at) not in gone
    }
    assert gone
    assert rows == {n: f"n{n}" for n in range(100)} | {200: "later", 3: "changed", 4: "too"}


@pytest.mark.rule("ICE-7", "ICE-24")
def test_a_file_that_no_commit_names_is_no_row(hv: Commands) -> None:
    evolving(hv)
    files = {each: each.read_bytes() for each in (hv.table / "data").rglob("*.parquet")}
    stray = pa.table({"id": [999], "name": ["stray"]})
    pq.write_table(stray, hv.table / "data" / "stray.parquet")
    assert hv("status").endswith("working copy clean\n")
    hv.write(id=[5], name=["five"])
    assert {each: each.read_bytes() for each in files} == files
    hv("commit", "--allow-empty", "-m", "nothing")
    assert hv("count", "t") == "101\n"


@pytest.mark.rule("ICE-42", "ICE-43", "ICE-52", "ICE-53", "ICE-66")
def test_a_column_of_the_name_of_one_that_went_is_another(hv: Commands) -> None:
    hv.take(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    hv("checkout")
    columns = hv.columns()
    hv.set_columns(columns[:1])
    hv.set_columns([columns[0], {"id": "new", "name": "name", "dataType": "text"}])

    metadata = hv.metadata
    (now,) = (s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    ids = [[f["id"] for f in s["fields"] if f["name"] == "name"] for s in metadata["schemas"]]
    assert [1] == now["identifier-field-ids"]
    assert ids[0] == [2] and ids[-1] != [2] and len(ids[-1]) == 1
    assert json.loads(hv("cat", "t", "-o", "json")) == [
        {"id": 1, "name": None},
        {"id": 2, "name": None},
    ]


SINGLES: list[tuple[str, pa.Array, bytes]] = [
    ("ICE-28", pa.array([34], pa.int32()), struct.pack("<i", 34)),
    ("ICE-29", pa.array([34], pa.int64()), struct.pack("<q", 34)),
    ("ICE-30", pa.array([1.5], pa.float32()), struct.pack("<f", 1.5)),
    ("ICE-31", pa.array([-0.25]), struct.pack("<d", -0.25)),
    ("ICE-32", pa.array(["14.20"]).cast(pa.decimal128(9, 2)), bytes.fromhex("058c")),
    ("ICE-33", pa.array([17486], pa.int32()).cast(pa.date32()), bytes.fromhex("4e440000")),
    (
        "ICE-34",
        pa.array([36_000_000_000], pa.int64()).cast(pa.time64("us")),
        bytes.fromhex("0068c46108000000"),
    ),
    ("ICE-35", pa.array([1510871468000000], pa.timestamp("us")), bytes.fromhex("00c3262d215e0500")),
    (
        "ICE-36",
        pa.array([1510871468000000], pa.timestamp("us", "UTC")),
        bytes.fromhex("00c3262d215e0500"),
    ),
    ("ICE-37", pa.array(["iceberg"]), b"iceberg"),
    ("ICE-27", pa.array([True]), b"\x01"),
]


@pytest.mark.rule("ICE-12", "ICE-27", "ICE-28", "ICE-29", "ICE-30", "ICE-31", "ICE-32", "ICE-33")
@pytest.mark.rule("ICE-34", "ICE-35", "ICE-36", "ICE-37")
def test_least_and_greatest_values_are_bytes(hv: Commands) -> None:
    columns = {f"c{n}": value for n, (_, value, _) in enumerate(SINGLES)}
    hv.take(pa.table({"id": [1], **columns}))
    (entry,) = entries(checked_out(hv))
    found = bounds(entry["data_file"])
    for number, (rule, _, data) in enumerate(SINGLES):
        for side in ("lower_bounds", "upper_bounds"):
            assert found[side].get(number + 2) == data, (rule, side)
    assert entry["data_file"]["record_count"] == 1
    counts = {each["key"]: each["value"] for each in entry["data_file"]["value_counts"]}
    assert set(counts.values()) == {1}


@pytest.mark.rule("ICE-93", "ICE-94")
def test_bounds_of_long_texts_and_of_what_is_no_number(hv: Commands) -> None:
    nan, low, high = float("nan"), "a" * 30, "b" * 30
    hv.take(pa.table({"id": [1, 2], "name": [low, high], "x": [nan, 2.5], "y": [nan, nan]}))
    (entry,) = entries(checked_out(hv))
    found = bounds(entry["data_file"])
    assert low.encode().startswith(found["lower_bounds"][2])
    assert found["upper_bounds"][2] >= high.encode()[: len(found["upper_bounds"][2])]
    assert found["upper_bounds"][2] > high.encode() or found["upper_bounds"][2] == high.encode()
    assert found["lower_bounds"][3] == found["upper_bounds"][3] == struct.pack("<d", 2.5)
    assert 4 not in found["lower_bounds"] and 4 not in found["upper_bounds"]


@pytest.mark.rule("HAV-15", "HAV-95", "HAV-96", "HAV-97")
@pytest.mark.parametrize(
    "given",
    [
        # The greatest SRID, and the one of no digits.
        "0101000020ffffff7f000000000000f03f0000000000000040",
        "0101000020ffffffff000000000000f03f0000000000000040",
        "01010000a0e6100000000000000000f03f00000000000000400000000000000840",
    ],
)
@pytest.mark.few(1)
def test_values_with_srids_come_back(hv: Commands, given: str) -> None:
    points(hv, ["POINT (0 0)"])
    hv("convert", "t", "--geometry", "geom=ewkb")
    hv.write(id=[1], geom=[bytes.fromhex(given)])
    files = [local(each["data_file"]["file_path"]) for each in entries(checked_out(hv))]
    tables = [pq.read_table(each) for each in files]
    stored = [
        each.hex()
        for one in tables
        if "geom" in one.column_names
        for each in one["geom"].to_pylist()
    ]
    assert given in stored
