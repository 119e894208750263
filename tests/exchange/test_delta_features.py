"""Tables that ask more of their readers: mapped columns, deleted rows, checkpoints, versions."""

import base64
import datetime
import json
import pickle
import struct
import uuid
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyroaring import BitMap64

from havasu_vc.errors import (
    CorruptDatasetError,
    HavasuError,
    NotFoundError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from havasu_vc.exchange.delta import delta_versions, read_log
from havasu_vc.formats.delta import parse_corner
from havasu_vc.formats.roaring import parse_deleted, vector_of
from havasu_vc.model.task import run_task
from tests.exchange.reading import open_one, read_all, read_table
from tests.exchange.tables import points

MAGIC = struct.pack("<I", 1681511377)


def z85(data: bytes) -> str:
    """Return bytes as Z85, by the alphabet of its specification."""
    alphabet = (
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    )
    out = ""
    for (number,) in struct.iter_unpack(">I", data):
        digits = [number // 85**power % 85 for power in (4, 3, 2, 1, 0)]
        out += "".join(alphabet[digit] for digit in digits)
    return out


def column(name: str, type_: Any, physical: str | None = None, number: int | None = None) -> Any:
    metadata: dict[str, Any] = {}
    if physical is not None:
        metadata["delta.columnMapping.physicalName"] = physical
    if number is not None:
        metadata["delta.columnMapping.id"] = number
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def commit(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (log / f"{version:020}.json").write_text(text)


def begin(
    folder: Path,
    columns: list[Any],
    *adds: dict[str, Any],
    features: tuple[str, ...] = (),
    mode: str | None = None,
    partition: tuple[str, ...] = (),
) -> None:
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": list(features), "writerFeatures": list(features)}
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": list(partition),
        "configuration": {"delta.columnMapping.mode": mode} if mode else {},
    }
    commit(folder, 0, {"protocol": protocol}, {"metaData": metadata}, *adds)


def add(folder: Path, name: str, table: pa.Table, **said: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name, row_group_size=said.pop("groups", 1 << 20))
    values = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 0}
    return {"add": values | {"dataChange": True} | said}


def inline(*rows: int) -> dict[str, Any]:
    data = MAGIC + bytes(BitMap64(rows).serialize())
    padded = data + bytes(-len(data) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85(padded),
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def in_file(folder: Path, *rows: int, prefix: str = "", before: bytes = b"\x01") -> dict[str, Any]:
    name = uuid.uuid4()
    vector = MAGIC + bytes(BitMap64(rows).serialize())
    frame = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    place = folder / prefix / f"deletion_vector_{name}.bin"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(before + frame)
    return {
        "storageType": "u",
        "pathOrInlineDv": prefix + z85(name.bytes),
        "offset": len(before),
        "sizeInBytes": len(vector),
        "cardinality": len(rows),
    }


def ids(folder: Path | str, **options: Any) -> list[int]:
    return list(read_all(open_one(f"delta:{folder}", **options))["id"].to_pylist())


IDS = [column("id", "long")]
TEN = pa.table({"id": pa.array(range(10), pa.int64())})


@pytest.mark.parametrize("stored", ["inline", "file", "prefixed", "absolute"])
@pytest.mark.parametrize("groups", [3, 100])
def test_deleted_rows_are_left_out(stored: str, groups: int, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    if stored == "inline":
        vector = inline(0, 4, 5, 9)
    else:
        vector = in_file(
            folder, 0, 4, 5, 9, prefix="ab" if stored == "prefixed" else "", before=b"\x01" * 30
        )
    if stored == "absolute":
        (place,) = folder.glob("*.bin")
        vector |= {"storageType": "p", "pathOrInlineDv": place.as_uri()}
    file = add(folder, "a.parquet", TEN, groups=groups, deletionVector=vector)
    begin(folder, IDS, file, features=("deletionVectors",))

    source = open_one(f"delta:{folder}")

    assert read_all(source)["id"].to_pylist() == [1, 2, 3, 6, 7, 8]


def test_an_example_of_the_protocol() -> None:
    said = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 4,
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    found = vector_of(said, "t")

    assert found.place == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    said = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    inside = vector_of(said, "t")
    assert inside.is_inline
    assert parse_deleted(inside, None, 100, "t").tolist() == [3, 4, 7, 11, 18, 29]


def test_a_file_is_known_by_its_deletes_too(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    first = add(folder, "a.parquet", TEN)
    begin(folder, IDS, first, features=("deletionVectors",))
    one = inline(1)
    # The order of actions within a commit says nothing.
    commit(
        folder,
        1,
        {"add": first["add"] | {"deletionVector": one}},
        {"remove": {"path": "a.parquet", "dataChange": True}},
    )
    commit(
        folder,
        2,
        {"remove": {"path": "a.parquet", "dataChange": True, "deletionVector": one}},
        {"add": first["add"] | {"deletionVector": inline(1, 2)}},
    )

    assert ids(folder) == [0, 3, 4, 5, 6, 7, 8, 9]
    assert ids(f"{folder}@1") == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    assert ids(f"{folder}@v0") == list(range(10))
    assert ids(folder, snapshot=0) == list(range(10))
    with pytest.raises(NotFoundError, match="no version 7"):
        ids(f"{folder}@7")
    with pytest.raises(HavasuError, match="different versions"):
        ids(f"{folder}@1", snapshot=2)
    assert [each.version for each in delta_versions(str(folder))] == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"cardinality": 3}, "its log says 3"),
        ({"pathOrInlineDv": "\n"}, "not in Z85"),
        ({"pathOrInlineDv": ""}, "another number"),
        ({"storageType": "x"}, "stored as 'x'"),
        ({"storageType": "u", "pathOrInlineDv": "short"}, "names no file"),
        ({"sizeInBytes": -1}, "not possible"),
        ({"sizeInBytes": 10**12}, "not possible"),
        ({"offset": "1"}, "not what it must be"),
    ],
)
def test_vectors_that_are_damaged(change: dict[str, Any], cause: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    vector = inline(1, 2) | change
    begin(folder, IDS, add(folder, "a.parquet", TEN, deletionVector=vector))

    with pytest.raises(CorruptDatasetError, match=cause):
        ids(folder)


def test_vectors_beyond_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    begin(folder, IDS, add(folder, "a.parquet", TEN, deletionVector=inline(3, 10)))
    with pytest.raises(CorruptDatasetError, match="beyond the 10 rows"):
        ids(folder)
    outside = in_file(tmp_path, 1) | {"storageType": "p"}
    (place,) = tmp_path.glob("*.bin")
    outside["pathOrInlineDv"] = place.as_uri()
    begin(folder, IDS, add(folder, "a.parquet", TEN, deletionVector=outside))
    with pytest.raises(HavasuError, match="outside of"):
        ids(folder)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_found_by_their_names_in_files(mode: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    inner = pa.struct(
        [
            pa.field("col-x", pa.int32(), metadata={"PARQUET:field_id": "4"}),
            pa.field("col-old", pa.int32(), metadata={"PARQUET:field_id": "99"}),
        ]
    )
    schema = pa.schema(
        [
            pa.field("col-1", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("col-2", pa.string(), metadata={"PARQUET:field_id": "2"}),
            pa.field("col-3", inner, metadata={"PARQUET:field_id": "3"}),
            pa.field("col-5", pa.list_(inner), metadata={"PARQUET:field_id": "5"}),
        ]
    )
    value = {"col-x": 7, "col-old": 8}
    table = pa.table(
        {
            "col-1": [1, 2],
            "col-2": ["a", None],
            "col-3": [value, None],
            "col-5": [[value, None], None],
        },
        schema,
    )
    fields = [column("x", "integer", "col-x", 4), column("y", "string", "col-y", 6)]
    part = {"type": "struct", "fields": fields}
    columns = [
        column("id", "long", "col-1", 1),
        column("renamed", "string", "col-2", 2),
        column("pair", part, "col-3", 3),
        column("pairs", {"type": "array", "elementType": part, "containsNull": True}, "col-5", 5),
        column("later", "double", "col-7", 7),
        column("kind", "short", "col-8", 8),
    ]
    file = add(folder, "a.parquet", table, partitionValues={"col-8": "3"})
    begin(folder, columns, file, features=("columnMapping",), mode=mode, partition=("kind",))

    rows = read_all(open_one(f"delta:{folder}")).to_pylist()

    pair = {"x": 7, "y": None}
    assert rows == [
        {"id": 1, "renamed": "a", "pair": pair, "pairs": [pair, None], "later": None, "kind": 3},
        {"id": 2, "renamed": None, "pair": None, "pairs": None, "later": None, "kind": 3},
    ]


def test_the_older_protocol_for_mapped_columns(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    table = TEN.rename_columns(["col-1"])
    begin(folder, [column("id", "long", "col-1", 1)], add(folder, "a.parquet", table), mode="name")
    path = folder / "_delta_log" / f"{0:020}.json"
    path.write_text(path.read_text().replace('"minReaderVersion": 1', '"minReaderVersion": 2'))

    assert ids(folder) == list(range(10))


def test_columns_that_are_mapped_without_a_name(tmp_path: Path) -> None:
    begin(tmp_path, IDS, add(tmp_path, "a.parquet", TEN), mode="name")
    with pytest.raises(CorruptDatasetError, match="physicalName"):
        ids(tmp_path)
    begin(tmp_path, IDS, add(tmp_path, "a.parquet", TEN), mode="position")
    with pytest.raises(CorruptDatasetError, match="'position'"):
        ids(tmp_path)


PARTITIONS: list[tuple[str, str | None, Any]] = [
    ("string", "a b/c", "a b/c"),
    ("string", None, None),
    ("long", "-5", -5),
    ("short", "", None),
    ("boolean", "true", True),
    ("date", "2024-02-29", datetime.date(2024, 2, 29)),
    ("decimal(6,2)", "12.50", Decimal("12.50")),
    ("double", "1.5", 1.5),
    (
        "timestamp",
        "2024-02-29 12:30:00.000001",
        datetime.datetime(2024, 2, 29, 12, 30, 0, 1, datetime.UTC),
    ),
    (
        "timestamp",
        "2024-02-29T12:30:00.000000Z",
        datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC),
    ),
    ("timestamp_ntz", "2024-02-29 12:30:00", datetime.datetime(2024, 2, 29, 12, 30)),
]


@pytest.mark.parametrize(("type_", "text", "value"), PARTITIONS)
def test_values_of_partition_columns(
    type_: str, text: str | None, value: Any, tmp_path: Path
) -> None:
    # Folders may be called anything: the log alone counts.
    (tmp_path / "p=other").mkdir()
    file = add(tmp_path, "p=other/a.parquet", TEN.slice(0, 2), partitionValues={"p": text})
    begin(tmp_path, [*IDS, column("p", type_)], file, partition=("p",))

    source = open_one(f"delta:{tmp_path}")

    assert read_all(source)["p"].to_pylist() == [value, value]
    assert read_all(source, ("p",)).num_rows == 2


def test_values_that_are_not_possible(tmp_path: Path) -> None:
    file = add(tmp_path, "a.parquet", TEN, partitionValues={"p": "twelve"})
    begin(tmp_path, [*IDS, column("p", "long")], file, partition=("p",))
    with pytest.raises(CorruptDatasetError, match="'twelve'"):
        ids(tmp_path)


@pytest.mark.parametrize("feature", ["variantType", "catalogManaged", "new"])
def test_features_that_are_not_known_are_named(feature: str, tmp_path: Path) -> None:
    begin(tmp_path, IDS, add(tmp_path, "a.parquet", TEN), features=("deletionVectors", feature))

    with pytest.raises(UnsupportedVersionError, match=f"asks for {feature},") as caught:
        ids(tmp_path)
    assert ("to_json" in "".join(caught.value.hints)) is (feature == "variantType")


def test_types_that_are_not_known_are_named(tmp_path: Path) -> None:
    begin(tmp_path, [column("v", "variant")], add(tmp_path, "a.parquet", TEN))
    with pytest.raises(UnsupportedTypeError, match=r"'v'.*'variant'"):
        ids(tmp_path)
    begin(tmp_path, [column("id", "date")], add(tmp_path, "a.parquet", TEN))
    with pytest.raises(HavasuError, match="int64 where the table says date32"):
        ids(tmp_path)


def checkpointed(folder: Path, *, commits: int = 4) -> None:
    for number in range(commits):
        rows = pa.table({"id": [number], "kind": [f"k{number % 2}"]})
        deltalake.write_deltalake(str(folder), rows, mode="append", partition_by=["kind"])
    deltalake.DeltaTable(str(folder)).create_checkpoint()
    deltalake.write_deltalake(
        str(folder), pa.table({"id": [99], "kind": ["k9"]}), mode="append", partition_by=["kind"]
    )


@pytest.mark.parametrize("parts", [1, 2])
def test_checkpoints_stand_for_what_came_before(parts: int, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    checkpointed(folder)
    log = folder / "_delta_log"
    whole = read_log(folder)
    for number in range(4):
        (log / f"{number:020}.json").unlink()
    if parts == 2:
        path = log / f"{3:020}.checkpoint.parquet"
        table = pq.read_table(path)
        for number, part in enumerate((table.slice(0, 3), table.slice(3)), 1):
            pq.write_table(part, log / f"{3:020}.checkpoint.{number:010}.{2:010}.parquet")
        path.unlink()

    found = read_log(folder)

    assert found == whole
    rows = read_all(open_one(f"delta:{folder}")).to_pylist()
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 3, 99]
    assert {row["kind"] for row in rows} == {"k0", "k1", "k9"}
    assert [each.version for each in delta_versions(str(folder))] == [4]
    with pytest.raises(HavasuError):
        read_log(folder, version=1)


def test_half_a_checkpoint_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    checkpointed(folder)
    path = folder / "_delta_log" / f"{3:020}.checkpoint.parquet"
    path.rename(path.with_name(f"{3:020}.checkpoint.{1:010}.{2:010}.parquet"))

    assert len(read_log(folder).files) == 5  # from its commits


def test_checkpoints_that_are_damaged(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    checkpointed(folder)
    path = folder / "_delta_log" / f"{3:020}.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:100])

    with pytest.raises(CorruptDatasetError, match="no readable checkpoint"):
        read_log(folder)


@pytest.mark.parametrize("form", ["parquet", "json"])
@pytest.mark.parametrize("beside", [0, 1, 2], ids="without {} beside".format)
def test_checkpoints_of_the_second_form(form: str, beside: int, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    checkpointed(folder)
    log = folder / "_delta_log"
    whole = read_log(folder)
    for number in range(4):
        (log / f"{number:020}.json").unlink()
    first = log / f"{3:020}.checkpoint.parquet"
    actions = [spoken(row) for row in pq.read_table(first).to_pylist()]
    first.unlink()
    files = [action for action in actions if "add" in action]
    own: list[dict[str, Any]] = [{"checkpointMetadata": {"version": 3}}]
    own += [action for action in actions if "add" not in action and "remove" not in action]
    (log / "_sidecars").mkdir()
    for number, part in enumerate([files[n::beside] for n in range(beside)]):
        name = f"{number:020}.checkpoint.{uuid.uuid4()}.parquet"
        pq.write_table(pa.Table.from_pylist(part), log / "_sidecars" / name)
        size = {"sizeInBytes": 1, "modificationTime": 1}
        own.append({"sidecar": {"path": name if number else f"_delta_log/_sidecars/{name}"} | size})
    own += [] if beside else files
    path = log / f"{3:020}.checkpoint.{uuid.uuid4()}.{form}"
    if form == "json":
        path.write_text("".join(json.dumps(action) + "\n" for action in own))
    else:
        kinds = {kind for action in own for kind in action}
        pq.write_table(pa.Table.from_pylist([dict.fromkeys(kinds) | a for a in own]), path)

    assert read_log(folder) == whole
    rows = read_all(open_one(f"delta:{folder}")).to_pylist()
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 3, 99]
    assert [each.version for each in delta_versions(str(folder))] == [4]


def spoken(row: dict[str, Any]) -> dict[str, Any]:
    """Return an action as JSON has it, where Arrow says null and gives maps as pairs."""
    (kind,) = (kind for kind in row if row[kind] is not None)
    value = {name: item for name, item in row[kind].items() if item is not None}
    return {
        kind: {
            n: dict(v) if isinstance(v, list) and v and isinstance(v[0], tuple) else v
            for n, v in value.items()
            if v != []
        }
    }


@pytest.mark.parametrize(
    ("sidecar", "told"),
    [
        ({"path": "../../../etc/passwd.parquet"}, "names the file"),
        ({"path": "gone.parquet"}, "or no file"),
        ({"path": 7}, "path is not"),
        ([], "sidecar is not"),
    ],
)
def test_files_that_a_checkpoint_may_not_name(sidecar: Any, told: str, tmp_path: Path) -> None:
    begin(tmp_path, IDS, add(tmp_path, "a.parquet", TEN), features=("v2Checkpoint",))
    path = tmp_path / "_delta_log" / f"{0:020}.checkpoint.{uuid.uuid4()}.json"
    path.write_text(json.dumps({"sidecar": sidecar}) + "\n")

    with pytest.raises(CorruptDatasetError, match=told):
        ids(tmp_path)


@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview"])
def test_columns_that_were_widened(feature: str, tmp_path: Path) -> None:
    old = pa.table(
        {
            "id": pa.array([1, None], pa.int32()),
            "a": pa.array([2, -3], pa.int8()),
            "f": pa.array([1.5, None], pa.float32()),
            "d": pa.array([datetime.date(2020, 1, 2), None]),
            "m": pa.array([Decimal("1.25"), None], pa.decimal128(5, 2)),
            "i": pa.array([7, None], pa.int32()),
            "s": pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())])),
        }
    )
    inner = {"type": "struct", "fields": [column("x", "long")]}
    wide = {"id": "long", "a": "integer", "f": "double", "d": "timestamp_ntz"}
    wide |= {"m": "decimal(12,4)", "i": "decimal(12,1)"}
    fields = [column(name, type_) for name, type_ in wide.items()]
    begin(
        tmp_path,
        [*fields, column("s", inner), column("p", "timestamp_ntz")],
        add(tmp_path, "a.parquet", old, partitionValues={"p": "2020-01-02"}),
        features=(feature, "timestampNtz"),
        partition=("p",),
    )

    moment = datetime.datetime(2020, 1, 2)
    rows = read_all(open_one(f"delta:{tmp_path}")).to_pylist()
    assert rows[0] == {
        "id": 1,
        "a": 2,
        "f": 1.5,
        "d": moment,
        "m": Decimal("1.2500"),
        "i": Decimal("7.0"),
        "s": {"x": 1},
        "p": moment,
    }
    assert rows[1] == dict.fromkeys(rows[0]) | {"a": -3, "p": moment}


def boxed(folder: Path, name: str, x: float, kind: str = "POINT", **how: Any) -> dict[str, Any]:
    table = pa.table({"geom": points((x, 1.0), (x + 5, 2.0)), "id": [int(x), int(x) + 5]})
    corner = f"{kind}({{}} {{}} 9)" if kind.strip() != "POINT" else "POINT({} {})"
    stats = {
        "numRecords": 2,
        "minValues": {"geom": corner.format(x, 1)},
        "maxValues": {"geom": corner.format(x + 5, 2)},
    }
    return add(folder, name, table, stats=json.dumps(stats), **how)


@pytest.mark.rule("DEL-6", "DEL-22")
@pytest.mark.parametrize("kind", ["POINT", "point Z ", "POINT M"])
@pytest.mark.parametrize("type_", ["geometry(OGC:CRS84)", "geography(OGC:CRS84, karney)"])
def test_files_are_chosen_by_their_corners(kind: str, type_: str, tmp_path: Path) -> None:
    files = [boxed(tmp_path, f"{n}.parquet", n * 10.0, kind) for n in range(5)]
    begin(tmp_path, [column("geom", type_), *IDS], *files, features=("geospatial",))

    source = open_one(f"delta:{tmp_path}", bbox=(12.0, 0, 22.0, 9))

    assert len(source.tasks()) == 2
    assert read_all(source)["id"].to_pylist() == [15, 20]


@pytest.mark.rule("DEL-6")
@pytest.mark.parametrize(
    "stats",
    [
        {},
        {"minValues": {"geom": "POINT EMPTY"}, "maxValues": {"geom": "POINT EMPTY"}},
        {"minValues": {"geom": "POINT(90 0)"}},
        {"minValues": {"geom": "POINT(90 0)"}, "maxValues": {"geom": "POINT(80 1)"}},
        {"minValues": {"geom": "POINT(0 90)"}, "maxValues": {"geom": "POINT(1 80)"}},
        {"minValues": {"geom": 3}, "maxValues": []},
        {"minValues": {"geom": "POINT(nan 0)"}, "maxValues": {"geom": "POINT(1 1)"}},
    ],
)
def test_files_that_say_nothing_are_read(stats: dict[str, Any], tmp_path: Path) -> None:
    file = boxed(tmp_path, "a.parquet", 0.0)
    file["add"]["stats"] = json.dumps(stats)
    begin(tmp_path, [column("geom", "geometry"), *IDS], file, features=("geospatial",))

    assert read_all(open_one(f"delta:{tmp_path}", bbox=(0, 0, 1, 1)))["id"].to_pylist() == [0]


@pytest.mark.rule("DEL-6")
def test_corners_count_only_for_columns_of_geometries(tmp_path: Path) -> None:
    wkb = [shapely.to_wkb(shapely.Point(1, 1))]
    geo = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": {"encoding": "WKB"}}}
    table = pa.table({"geom": pa.array(wkb), "id": [1]})
    table = table.replace_schema_metadata({"geo": json.dumps(geo)})
    far = json.dumps({"minValues": {"geom": "POINT(8 8)"}, "maxValues": {"geom": "POINT(9 9)"}})
    begin(tmp_path, [column("geom", "binary"), *IDS], add(tmp_path, "a.parquet", table, stats=far))

    assert read_all(open_one(f"delta:{tmp_path}", bbox=(0, 0, 2, 2)))["id"].to_pylist() == [1]


@pytest.mark.rule("DEL-22", "DEL-26")
@pytest.mark.parametrize(
    ("text", "corner"),
    [
        ("POINT(1 2)", (1, 2)),
        ("point z (1.0 -2e1 3)", (1, -20)),
        ("POINT ZM(1 2 3 4)", (1, 2)),
        ("POINTM(1 .5 3)", (1, 0.5)),
        ("POINT(1)", None),
        ("POINT(1 2 3)", None),
        ("POINT Z(1 2)", None),
        ("POINT(1e999 2)", None),
        ("POINT(NaN 1)", None),
        ("LINESTRING(1 2)", None),
        ("POINT EMPTY", None),
        (None, None),
    ],
)
def test_corners(text: Any, corner: tuple[float, float] | None) -> None:
    assert parse_corner(text) == corner


def test_comments_are_descriptions_of_columns(tmp_path: Path) -> None:
    said = column("id", "long")
    said["metadata"]["comment"] = "What it is."
    begin(tmp_path, [said], add(tmp_path, "a.parquet", TEN))

    (field,) = open_one(f"delta:{tmp_path}").schema.fields
    assert field.doc == "What it is."


def test_older_moments_of_spark(tmp_path: Path) -> None:
    at = np.array(["2024-02-29T12:30:00.123456789"], "datetime64[ns]")
    table = pa.table({"id": [1], "at": at})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    file = {"path": "a.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0}
    begin(tmp_path, [*IDS, column("at", "timestamp")], {"add": file})

    (found,) = read_all(open_one(f"delta:{tmp_path}"))["at"].to_pylist()
    assert found == datetime.datetime(2024, 2, 29, 12, 30, 0, 123456, datetime.UTC)


def test_base_85_is_not_mistaken_for_that_of_python() -> None:
    assert z85(b"HelloWorld\0\0") != base64.b85encode(b"HelloWorld\0\0").decode()
    assert z85(bytes.fromhex("864fd26fb559f75b")) == "HelloWorld"


def test_tasks_are_plain_values_for_other_processes(tmp_path: Path) -> None:
    file = boxed(tmp_path, "a.parquet", 0.0, partitionValues={"p": "7"}, deletionVector=inline(0))
    columns = [column("geom", "geometry"), *IDS, column("p", "timestamp")]
    file["add"]["partitionValues"] = {"p": "2024-02-29 12:30:00"}
    begin(tmp_path, columns, file, features=("geospatial", "deletionVectors"), partition=("p",))

    source = open_one(f"delta:{tmp_path}", bbox=(0, 0, 9, 9))

    (task,) = pickle.loads(pickle.dumps(source.tasks()))
    assert [row["id"] for batch in run_task(task) for row in batch.to_pylist()] == [5]


def test_old_moments_of_spark_are_what_they_were(tmp_path: Path) -> None:
    when = datetime.datetime(743, 8, 12, 4, 0, 16, 7910, tzinfo=datetime.UTC)
    several = {"type": "array", "elementType": "timestamp", "containsNull": True}
    zone = pa.timestamp("us", "UTC")
    table = pa.table({"at": pa.array([when], zone), "all": pa.array([[when]], pa.list_(zone))})
    (tmp_path / "a").mkdir()
    pq.write_table(table, tmp_path / "a" / "x.parquet", use_deprecated_int96_timestamps=True)
    said = {"partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    columns = [column("at", "timestamp"), column("all", several)]
    begin(tmp_path / "a", columns, {"add": {"path": "x.parquet", **said}})
    assert read_table(f"delta:{tmp_path / 'a'}").to_pylist() == [{"at": when, "all": [when]}]
    plain = read_table(tmp_path / "a" / "x.parquet").to_pylist()
    assert plain == [{"at": when.replace(tzinfo=None), "all": [when.replace(tzinfo=None)]}]
