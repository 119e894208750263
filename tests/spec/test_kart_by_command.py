"""Kart's rules, by commands: what they write is read by git and MessagePack, and the reverse."""

from __future__ import annotations

import base64
import datetime
import decimal
import hashlib
import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
import pyarrow as pa
import pytest
import shapely

from tests.cli.conftest import invoke
from tests.spec.commands import Commands
from tests.support.git import run_git

INSIDE = "t/.table-dataset/"
Column = dict[str, Any]


def blobs(hv: Commands, below: str = "") -> dict[str, bytes]:
    """Return what git has below a folder of the dataset at HEAD, by path."""
    names = run_git("ls-tree", "-r", "--name-only", f"HEAD:{INSIDE}{below}", cwd=hv.path)
    return {
        name: subprocess.run(
            ["git", "cat-file", "blob", f"HEAD:{INSIDE}{below}{name}"],
            cwd=hv.path,
            capture_output=True,
            check=True,
        ).stdout
        for name in names.splitlines()
    }


def made(hv: Commands, table: pa.Table, *keys: str) -> dict[str, bytes]:
    """Import a table, have it stored as Kart does, and return its features by path."""
    hv.take(table, *(f"--primary-key={key}" for key in keys[:1]))
    hv("convert", "t", "--to", "kart")
    return blobs(hv, "feature/")


def by_hand(hv: Commands, files: Mapping[str, bytes]) -> None:
    """Commit a dataset that no program of ours wrote."""
    parts = [
        b"commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 4\nhand\n"
    ]
    parts.append(b"M 100644 inline .kart.repostructure.version\ndata 2\n3\n\n")
    for name, data in files.items():
        parts.append(
            b'M 100644 inline "%s%s"\ndata %d\n' % (INSIDE.encode(), name.encode(), len(data))
        )
        parts.append(data + b"\n")
    command = ["git", "fast-import", "--quiet", "--force"]
    subprocess.run(command, input=b"".join(parts), cwd=hv.path, check=True)
    run_git("read-tree", "HEAD", cwd=hv.path)
    run_git("sparse-checkout", "reapply", cwd=hv.path)


def column(name: str, kind: str, key: int | None = None, **more: Any) -> Column:
    """Return a column of a schema; its id is made of its name."""
    found: Column = {"id": f"id-{name}", "name": name, "dataType": kind}
    return found | ({} if key is None else {"primaryKeyIndex": key}) | more


def legend(columns: Sequence[Column]) -> tuple[str, bytes]:
    """Return the name and the content of a legend."""
    keys = sorted((c["primaryKeyIndex"], c["id"]) for c in columns if "primaryKeyIndex" in c)
    data = msgpack.packb(
        [[each for _, each in keys], [c["id"] for c in columns if "primaryKeyIndex" not in c]]
    )
    return hashlib.sha256(data).hexdigest()[:40], data


def dataset(
    columns: Sequence[Column], rows: Mapping[str, Sequence[Any]], structure: Column | None
) -> dict[str, bytes]:
    """Return the files of a dataset whose features, without their keys, stand at given paths."""
    name, data = legend(columns)
    found = {
        "meta/title": b"By hand",
        "meta/schema.json": json.dumps(list(columns)).encode(),
        f"meta/legend/{name}": data,
        **{f"feature/{at}": msgpack.packb([name, list(row)]) for at, row in rows.items()},
    }
    if structure is not None:
        found["meta/path-structure.json"] = json.dumps(structure).encode()
    return found


def read(hv: Commands) -> list[Column]:
    """Return the rows of the dataset, as `cat` prints them."""
    return list(json.loads(hv("cat", "t", "-o", "json")))


INT = {"scheme": "int", "branches": 64, "levels": 4, "encoding": "base64"}
ID = column("id", "integer", 0, size=64)
NAME = column("name", "text")


# Where features stand.

INTEGERS = {
    77: "A/A/A/B/kU0=",
    1: "A/A/A/A/kQE=",
    64: "A/A/A/B/kUA=",
    4095: "A/A/A/_/kc0P_w==",
    4096: "A/A/B/A/kc0QAA==",
    16777216: "B/A/A/A/kc4BAAAA",
    1234567890: "J/l/g/L/kc5JlgLS",
    1073741823: "_/_/_/_/kc4_____",
    1073741824: "A/A/A/A/kc5AAAAA",
    -1: "_/_/_/_/kf8=",
    -64: "_/_/_/_/kdDA",
    -65: "_/_/_/-/kdC_",
    -(2**63): "A/A/A/A/kdOAAAAAAAAAAA==",
}


@pytest.mark.rule("KART-71", "KART-72", "KART-74", "KART-75", "KART-76", "KART-77", "KART-78")
@pytest.mark.rule("KART-33", "KART-42", "KART-79", "KART-81")
def test_features_stand_where_their_integer_keys_say(hv: Commands) -> None:
    found = made(hv, pa.table({"id": list(INTEGERS), "name": list(map(str, INTEGERS))}))

    assert set(found) == set(INTEGERS.values())
    for key, path in INTEGERS.items():
        assert msgpack.unpackb(base64.urlsafe_b64decode(path.rpartition("/")[2])) == [key]
        assert msgpack.unpackb(found[path])[1] == [str(key)]
    assert json.loads(blobs(hv)["meta/path-structure.json"]) == INT
    assert sorted(row["id"] for row in read(hv)) == sorted(INTEGERS)


@pytest.mark.rule("KART-73", "KART-87", "KART-88", "KART-89", "KART-92")
def test_features_stand_where_other_keys_say(hv: Commands) -> None:
    found = made(hv, pa.table({"id": ["abc", "é"], "name": ["x", "y"]}))

    assert set(found) == {"b/9/t/Y/kaNhYmM=", "p/D/z/e/kaLDqQ=="}
    structure = json.loads(blobs(hv)["meta/path-structure.json"])
    assert structure == {
        "scheme": "msgpack/hash",
        "branches": 64,
        "levels": 4,
        "encoding": "base64",
    }


@pytest.mark.rule("KART-96")
def test_a_key_may_have_sixteen_columns(hv: Commands) -> None:
    names = [f"k{number:02d}" for number in range(16)]
    file = hv.path.with_name("t.csv")
    file.write_text(f"{','.join(names)},note\n{','.join(map(str, range(16)))},x\n")
    hv("import", file, "t", "--primary-key", ",".join(names))
    hv("convert", "t", "--to", "kart")
    (path,) = blobs(hv, "feature/")
    packed = base64.urlsafe_b64decode(path.rpartition("/")[2])
    assert packed[:3] == b"\xdc\x00\x10" and msgpack.unpackb(packed) == list(range(16))
    assert read(hv)[0]["k15"] == 15


HASHED = {"scheme": "msgpack/hash", "encoding": "base64", "branches": 64}


@pytest.mark.parametrize(
    ("structure", "path"),
    [
        pytest.param(
            {**INT, "branches": 16, "encoding": "hex"},
            "0/0/0/4/kU0=",
            marks=pytest.mark.rule("KART-85"),
        ),
        pytest.param({**INT, "levels": 2}, "A/B/kU0=", marks=pytest.mark.rule("KART-86")),
        pytest.param({**HASHED, "levels": 4}, "P/F/e/O/kU0=", marks=pytest.mark.rule("KART-89")),
        pytest.param({**HASHED, "levels": 2}, "P/F/kU0=", marks=pytest.mark.rule("KART-86")),
        pytest.param(
            {**HASHED, "branches": 16, "levels": 4, "encoding": "hex"},
            "3/c/5/7/kU0=",
            marks=pytest.mark.rule("KART-85", "KART-87"),
        ),
        pytest.param(
            {**HASHED, "branches": 256, "levels": 2, "encoding": "hex"},
            "3c/57/kU0=",
            marks=pytest.mark.rule("KART-84", "KART-87"),
        ),
        pytest.param(None, "3c/57/kU0=", marks=pytest.mark.rule("KART-90")),
    ],
)
@pytest.mark.few(2)
def test_rows_are_found_and_edited_where_others_put_them(
    hv: Commands, structure: Column | None, path: str
) -> None:
    by_hand(hv, dataset([ID, NAME], {path: ["seven"]}, structure))
    assert read(hv) == [{"id": 77, "name": "seven"}]

    # The same path is what changes, so git sees one file that was modified.
    hv.write(id=[77], name=["SEVEN"])
    assert run_git("diff", "--name-status", "HEAD^", "HEAD", cwd=hv.path) == (
        f"M\t{INSIDE}feature/{path}"
    )
    assert hv("fsck", "--full") == "Everything is sound\n"
    assert ("meta/path-structure.json" in blobs(hv)) == (structure is not None)


@pytest.mark.parametrize(
    ("structure", "columns"),
    [
        pytest.param({**INT, "scheme": "other"}, [ID], marks=pytest.mark.rule("KART-82")),
        pytest.param({**INT, "branches": 32}, [ID], marks=pytest.mark.rule("KART-84")),
        pytest.param({**INT, "encoding": "hex"}, [ID], marks=pytest.mark.rule("KART-85")),
        pytest.param(INT, [column("id", "text", 0)], marks=pytest.mark.rule("KART-83")),
    ],
)
@pytest.mark.few(1)
def test_a_structure_that_is_none_is_named(
    hv: Commands, structure: Column, columns: list[Column]
) -> None:
    by_hand(hv, dataset([*columns, NAME], {"A/A/A/B/kU0=": ["seven"]}, structure))
    refused(hv, "path-structure.json")


def refused(hv: Commands, *words: str) -> None:
    """Assert that each command tells the dataset as broken, and that nothing is written."""
    head = run_git("rev-parse", "HEAD", cwd=hv.path)
    for command in (("cat", "t"), ("export", "t", hv.path.with_name("t.csv")), ("fsck",)):
        done = invoke(["-C", hv.path, *command])
        told = done.output
        assert done.exit_code == 1 if command == ("fsck",) else done.exit_code in (11, 24), told
        assert "Traceback" not in told and "internal error" not in told
        assert all(word in told for word in words), told
    assert not hv.path.with_name("t.csv").exists()
    assert run_git("rev-parse", "HEAD", cwd=hv.path) == head


# Schemas.


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        pytest.param([{"name": "a", "dataType": "text"}], "id", marks=pytest.mark.rule("KART-8")),
        pytest.param([{"id": "a", "dataType": "text"}], "name", marks=pytest.mark.rule("KART-8")),
        pytest.param([{"id": "a", "name": "a"}], "dataType", marks=pytest.mark.rule("KART-8")),
        pytest.param(
            [column("a", "text"), {**column("b", "text"), "id": "id-a"}],
            "id-a",
            marks=pytest.mark.rule("KART-9"),
        ),
        pytest.param(
            [column("a", "text"), {**column("a", "text"), "id": "x"}],
            "a",
            marks=pytest.mark.rule("KART-10"),
        ),
        pytest.param([column("a", "double")], "double", marks=pytest.mark.rule("KART-11")),
        pytest.param([column("a", "integer", 1)], "", marks=pytest.mark.rule("KART-12")),
        pytest.param([column("a", "integer", -1)], "", marks=pytest.mark.rule("KART-12")),
        pytest.param(
            [column("a", "integer", 0), column("b", "integer", 0)],
            "",
            marks=pytest.mark.rule("KART-12"),
        ),
        pytest.param([column("a", "integer", size=7)], "7", marks=pytest.mark.rule("KART-18")),
        pytest.param([column("a", "float", size=16)], "16", marks=pytest.mark.rule("KART-19")),
        pytest.param(
            [column("a", "timestamp", timezone="Pacific/Auckland")],
            "Pacific/Auckland",
            marks=pytest.mark.rule("KART-22"),
        ),
    ],
)
@pytest.mark.few(3)
def test_a_schema_that_is_none_is_named(hv: Commands, columns: list[Column], words: str) -> None:
    files = dataset([ID], {}, INT)
    by_hand(hv, files | {"meta/schema.json": json.dumps(columns).encode()})
    refused(hv, "schema.json", words)


@pytest.mark.rule("KART-7")
def test_a_schema_with_a_comma_too_many_is_no_json(hv: Commands) -> None:
    files = dataset([ID, NAME], {}, INT)
    by_hand(hv, files | {"meta/schema.json": files["meta/schema.json"][:-1] + b",]"})
    refused(hv, "schema.json")


EVERY: list[tuple[Column, Any, Any]] = [
    (column("bool", "boolean"), True, True),
    (column("blob", "blob"), b"\x00\x01", "0001"),
    (column("date", "date"), "2018-11-05", "2018-11-05"),
    (column("f32", "float", size=32), 1.5, 1.5),
    (column("f64", "float", size=64), 0.1, 0.1),
    (column("i8", "integer", size=8), -1, -1),
    (column("i16", "integer", size=16), 128, 128),
    (column("i32", "integer", size=32), 1260047, 1260047),
    (column("every", "interval"), "P1Y2M3DT4H5M6S", "P1Y2M3DT4H5M6S"),
    (column("money", "numeric", precision=8, scale=4), "1234.5678", "1234.5678"),
    (column("words", "text", length=3), "longer than three", "longer than three"),
    (column("time", "time"), "12:34:56.5", "12:34:56.5"),
    (column("utc", "timestamp", timezone="UTC"), "2018-11-05T10:20:30", "2018-11-05T10:20:30Z"),
    (column("local", "timestamp"), "2018-11-05T10:20:30.12", "2018-11-05T10:20:30.12"),
]


@pytest.mark.rule("KART-6", "KART-11", "KART-13", "KART-14", "KART-18", "KART-19", "KART-20")
@pytest.mark.rule("KART-21", "KART-22", "KART-23", "KART-34", "KART-35", "KART-36", "KART-50")
def test_every_type_that_others_write_is_read_and_kept(hv: Commands) -> None:
    columns = [ID, *(each for each, _, _ in EVERY)]
    # An attribute that is null is one that is not there.
    written = [{**each, "title": None} if each is ID else each for each in columns]
    rows = {"A/A/A/B/kU0=": [value for _, value, _ in EVERY], "A/A/A/A/kQE=": [None] * len(EVERY)}
    by_hand(hv, dataset(written, rows, INT))

    told = json.loads(hv("meta", "get", "t", "schema.json", "-o", "json"))["t"]["schema.json"]
    assert [{k: v for k, v in each.items() if v is not None} for each in told] == columns
    first, second = sorted(read(hv), key=lambda row: row["id"], reverse=True)
    assert first == {"id": 77, **{each["name"]: shown for each, _, shown in EVERY}}
    assert second == {"id": 1, **{each["name"]: None for each, _, _ in EVERY}}

    # A row that is written again has the bytes that it had.
    before = blobs(hv, "feature/")
    hv.write(id=[77], words=["other"])
    hv.write(id=[77], words=["longer than three"])
    assert blobs(hv, "feature/") == before
    assert hv("validate", "t") == "All data is valid\n"


# What a feature holds.


def packed(hv: Commands, table: pa.Table) -> list[Any]:
    """Return the values of the one feature of a table that a command imports."""
    (data,) = made(hv, table).values()
    name, values = msgpack.unpackb(data, timestamp=0)
    (legends,) = ({k: v} for k, v in blobs(hv, "meta/legend/").items())
    # The legend is named by its own content, of which the first bytes are two lists.
    assert list(legends) == [name] and legends[name][:2] == b"\x92\x91"
    assert name == hashlib.sha256(legends[name]).hexdigest()[:40]
    keys, others = msgpack.unpackb(legends[name])
    told = json.loads(blobs(hv)["meta/schema.json"])
    assert [keys, others] == [[told[0]["id"]], [each["id"] for each in told[1:]]]
    assert len(values) == len(others)
    return list(values)


VALUES: list[tuple[str, pa.Array, Any]] = [
    ("KART-44", pa.array([True]), True),
    ("KART-45", pa.array([b"\x00\x01"]), b"\x00\x01"),
    ("KART-46", pa.array([datetime.date(2018, 11, 5)]), "2018-11-05"),
    ("KART-47", pa.array([1.5], pa.float32()), 1.5),
    ("KART-49", pa.array([-1]), -1),
    ("KART-49", pa.array([2**62]), 2**62),
    ("KART-51", pa.array([decimal.Decimal("123.456")]), "123.456"),
    ("KART-51", pa.array([decimal.Decimal("0.000000001")]), "0.000000001"),
    ("KART-52", pa.array(["\u00e9"]), "\u00e9"),
    ("KART-53", pa.array([datetime.time(12, 34, 56)], pa.time64("us")), "12:34:56"),
    ("KART-54", pa.array([datetime.datetime(2018, 11, 5, 10, 20, 30)]), "2018-11-05T10:20:30"),
    ("KART-56", pa.array([None], pa.string()), None),
]


@pytest.mark.rule("KART-24", "KART-25", "KART-26", "KART-27", "KART-34", "KART-35", "KART-36")
@pytest.mark.rule("KART-44", "KART-45", "KART-46", "KART-47", "KART-49", "KART-51", "KART-52")
@pytest.mark.rule("KART-53", "KART-54", "KART-55", "KART-56")
def test_values_are_those_that_others_read(hv: Commands) -> None:
    columns = {f"c{place}": value for place, (_, value, _) in enumerate(VALUES)}
    half = pa.array([datetime.datetime(2018, 11, 5, 10, 20, 30, 500_000)])
    found = packed(hv, pa.table({"id": [1], **columns, "half": half}))

    assert found[:-1] == [value for *_, value in VALUES]
    # A fraction is told where it is one, and not where it is none.
    assert found[-1].rstrip("0") == "2018-11-05T10:20:30.5"


@pytest.mark.rule("KART-57")
def test_numbers_that_are_none_are_numbers_of_a_feature(hv: Commands) -> None:
    values = [math.nan, math.inf, -math.inf, -0.0]
    found = packed(hv, pa.table({"id": [1], **{f"c{n}": [v] for n, v in enumerate(values)}}))
    assert math.isnan(found[0]) and found[1:3] == [math.inf, -math.inf]
    assert math.copysign(1, found[3]) == -1


SHAPES = {
    "POINT (1 2)": "47500001000000000101000000000000000000f03f0000000000000040",
    "POINT EMPTY": "47500011000000000101000000000000000000f87f000000000000f87f",
    "MULTIPOLYGON EMPTY": "4750001100000000010600000000000000",
    "LINESTRING (0 0, 2 1)": "4750000300000000"
    "0000000000000000"
    "0000000000000040"
    "0000000000000000"
    "000000000000f03f"
    "010200000002000000" + "00" * 16 + "0000000000000040000000000000f03f",
    "LINESTRING Z (0 0 5, 2 1 7)": "4750000500000000"
    "0000000000000000"
    "0000000000000040"
    "0000000000000000"
    "000000000000f03f"
    "0000000000001440"
    "0000000000001c40"
    "01ea03000002000000" + "00" * 16 + "0000000000001440"
    "0000000000000040000000000000f03f0000000000001c40",
}


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.rule("KART-15", "KART-48", "KART-58", "KART-59", "KART-60", "KART-61", "KART-62")
@pytest.mark.rule("KART-63", "KART-64", "KART-65", "KART-66", "KART-67", "KART-69")
@pytest.mark.few(3)
def test_geometries_are_those_of_a_geopackage(hv: Commands, text: str, order: int) -> None:
    # The bytes are little-endian, whatever came, and no SRID stands in them.
    shape = shapely.set_srid(shapely.from_wkt(text), 4326)
    wkb = shapely.to_wkb(shape, byte_order=order, flavor="iso")
    columns = {"geom": {"encoding": "WKB", "geometry_types": []}}
    geo = {"version": "1.0.0", "primary_column": "geom", "columns": columns}
    table = pa.table({"id": [1], "geom": [wkb]}).replace_schema_metadata({"geo": json.dumps(geo)})
    (value,) = packed(hv, table)

    assert isinstance(value, msgpack.ExtType) and value.code == 71
    assert value.data.hex() == SHAPES[text]


@pytest.mark.parametrize(
    "data",
    ["4750002100000000" + SHAPES["POINT (1 2)"][16:], "00", "4750"],
)
@pytest.mark.rule("KART-58")
@pytest.mark.few(1)
def test_bytes_that_are_no_geometry_are_named(hv: Commands, data: str) -> None:
    columns = [ID, column("geom", "geometry", geometryType="POINT")]
    value = msgpack.ExtType(71, bytes.fromhex(data))
    by_hand(hv, dataset(columns, {"A/A/A/B/kU0=": [value]}, INT))
    done = invoke(["-C", hv.path, "cat", "t"])
    assert done.exit_code == 11 and "kU0=" in done.output, done.output
    assert "Traceback" not in done.output and "internal error" not in done.output


# What stays when a schema changes.


@pytest.mark.rule("KART-24", "KART-28", "KART-37", "KART-38", "KART-39", "KART-40", "KART-43")
def test_features_of_earlier_schemas_are_read_by_their_legends(hv: Commands) -> None:
    old = [ID, column("dropped", "text"), NAME]
    new = [ID, {**NAME, "name": "called"}, column("stars", "integer", size=64)]
    files = dataset(old, {"A/A/A/B/kU0=": ["gone", "seven"]}, INT)
    more = dataset(new, {"A/A/A/A/kQE=": ["one", 5]}, INT)
    by_hand(hv, files | more)

    assert sorted(read(hv), key=lambda row: row["id"]) == [
        {"id": 1, "called": "one", "stars": 5},
        {"id": 77, "called": "seven", "stars": None},
    ]
    before = blobs(hv)
    hv.set_columns([*hv.columns(), {"id": "x", "name": "more", "dataType": "text"}])
    after = blobs(hv)
    assert {path: after[path] for path in before if path.startswith("feature/")} == {
        path: data for path, data in before.items() if path.startswith("feature/")
    }
    legends = {path for path in after if path.startswith("meta/legend/")}
    assert len(legends) == 3 and legends > {path for path in before if "legend" in path}
    assert all(after[path] == before[path] for path in legends & before.keys())
    hv("revert", "HEAD")
    assert {path for path in blobs(hv) if "legend" in path} <= legends


@pytest.mark.parametrize("wrong", ["legend", "values", "no list", "key"])
@pytest.mark.rule("KART-35", "KART-37", "KART-42")
@pytest.mark.few(1)
def test_a_feature_that_is_none_is_named(hv: Commands, wrong: str) -> None:
    files = dataset([ID, NAME], {"A/A/A/B/kU0=": ["seven"]}, INT)
    name, _ = legend([ID, NAME])
    match wrong:
        case "legend":
            del files[f"meta/legend/{name}"]
        case "values":
            files["feature/A/A/A/B/kU0="] = msgpack.packb([name, ["seven", "too many"]])
        case "no list":
            files["feature/A/A/A/B/kU0="] = b"\x01"
        case "key":
            files["feature/A/A/A/B/!!!"] = files.pop("feature/A/A/A/B/kU0=")
    by_hand(hv, files)
    done = invoke(["-C", hv.path, "cat", "t"])
    assert done.exit_code == 11, done.output
    assert "Traceback" not in done.output and "internal error" not in done.output
    assert ("!!!" if wrong == "key" else "kU0=") in done.output or name in done.output


@pytest.mark.rule("KART-3", "KART-4", "KART-5", "KART-16", "KART-17", "KART-29", "KART-32")
def test_what_is_said_of_a_dataset_stays_byte_for_byte(hv: Commands) -> None:
    geometry = column("geom", "geometry", geometryType="MULTIPOLYGON ZM", geometryCRS="mine:1")
    files = dataset([ID, geometry], {"A/A/A/B/kU0=": [None]}, INT)
    wkt = b'LOCAL_CS["mine",UNIT["metre",1]]'
    said = {
        "meta/title": "\u00dcn\u00efcode <b>".encode(),
        "meta/description": b"no line end",
        "meta/crs/mine:1.wkt": wkt,
        "meta/metadata.xml": b"<a>\r\n</a>\n",
        "meta/tags.json": b'["a",   "b"]',
        "meta/generated-pks.json": b"{}",
    }
    by_hand(hv, files | said)
    hv.write(id=[77, 78], geom=[None, None])
    hv("mv", "t", "maps/t")
    hv("mv", "maps/t", "t")
    found = blobs(hv)
    assert {path: found[path] for path in said} == said
    assert json.loads(found["meta/schema.json"])[1] == geometry
    assert len(blobs(hv, "feature/")) == 2
