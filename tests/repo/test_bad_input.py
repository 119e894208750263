"""Input that cannot be used: one clear line, a typed error, and nothing is changed.

Refs, index, objects, data files and the user's files are compared byte by byte.
"""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.errors import (
    CrsError,
    DatasetNotFoundError,
    HavasuError,
    InvalidArgumentError,
    InvalidFileError,
    InvalidInputError,
    InvalidNameError,
    KeyViolationError,
    NotFoundError,
    NotYetSupportedError,
    PatchError,
    SchemaViolationError,
)
from havasu_vc.exchange.source import SourceOptions
from tests.repo.tables import BY_ID, NO_KEY, points, write
from tests.support.sound import refuses

NAMES = [
    "../x",
    "a/../../x",
    "/etc/x",
    "a/.git/b",
    ".git",
    "a/.GIT/b",
    "a/.git ./b",
    "git~1",
    "CON",
    "a/nul.txt",
    "a\\b",
    "a//b",
    ".",
    "",
    " ",
    "a\x00b",
    "a\nb",
    "a:b",
    ".havasu-dataset",
    "points/.havasu-dataset",
    "points/inside",
    "-x",
    "x.",
    "e\u0301",
    "x" * 200,
    "a\u200db",
    "\udcff",
]


@pytest.mark.parametrize("name", NAMES, ids=repr)
@pytest.mark.few(6)
def test_a_name_that_could_do_harm_is_refused(plain: Repo, tmp_path: Path, name: str) -> None:
    with refuses(plain, InvalidNameError):
        plain.import_(tmp_path / "points.parquet", name, options=BY_ID)
    patch = {
        "kart.patch/v1": {"message": "m"},
        "kart.diff/v1+hexwkb": {
            name: {
                "meta": {
                    "schema.json": {
                        "+": [{"name": "id", "dataType": "integer", "primaryKeyIndex": 0}]
                    }
                },
                "feature": [{"++": {"id": 1}}],
            }
        },
    }
    with refuses(plain, InvalidNameError, PatchError):
        plain.apply_patch(json.dumps(patch).encode())


def _file(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _gpkg(folder: Path) -> bytes:
    import pyogrio.raw
    import shapely

    path = folder / "good.gpkg"
    pyogrio.raw.write(
        path,
        geometry=shapely.to_wkb([shapely.Point(0, 0)] * 50),
        field_data=[pa.array([f"x{i}" for i in range(50)]).to_numpy(zero_copy_only=False)],
        fields=["name"],
        geometry_type="Point",
        crs="EPSG:4326",
        layer="t",
        driver="GPKG",
    )
    return path.read_bytes()


def _damaged(folder: Path) -> dict[str, Path]:
    good = write(folder / "good.parquet", points(500)).read_bytes()
    gpkg = _gpkg(folder)
    flipped = bytearray(good)
    for at in range(100, len(flipped) // 2, 50):
        flipped[at] ^= 0xFF
    return {
        "empty parquet": _file(folder, "empty.parquet", b""),
        "empty gpkg": _file(folder, "empty.gpkg", b""),
        "empty csv": _file(folder, "empty.csv", b""),
        "empty geojson": _file(folder, "empty.geojson", b""),
        "short parquet": _file(folder, "short.parquet", good[: len(good) // 2]),
        "footer gone": _file(folder, "footer.parquet", good[:-9]),
        "pages damaged": _file(folder, "pages.parquet", bytes(flipped)),
        "short gpkg": _file(folder, "short.gpkg", gpkg[:5000]),
        "gpkg header only": _file(folder, "header.gpkg", gpkg[:100]),
        "gpkg that is parquet": _file(folder, "wrong.gpkg", good),
        "parquet that is gpkg": _file(folder, "wrong.parquet", gpkg),
        "geojson that is parquet": _file(folder, "wrong.geojson", good),
        "csv that is parquet": _file(folder, "wrong.csv", good),
        "geojson cut": _file(
            folder, "cut.geojson", b'{"type":"FeatureCollection","features":[{"type":"Fea'
        ),
        "csv ragged": _file(folder, "ragged.csv", b"id,name\n1,a\n2,b,c,d\n3\n"),
        "csv quote open": _file(folder, "quote.csv", b'id,name\n1,"a\n2,b\n'),
        "unknown kind": _file(folder, "file.xyz", b"what is this"),
        "a sqlite database": _sqlite(folder),
    }


def _sqlite(folder: Path) -> Path:
    path = folder / "plain.gpkg"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (a integer)")
    connection.close()
    return path


CASES = [
    "empty parquet",
    "empty gpkg",
    "empty csv",
    "empty geojson",
    "short parquet",
    "footer gone",
    "pages damaged",
    "short gpkg",
    "gpkg header only",
    "gpkg that is parquet",
    "parquet that is gpkg",
    "geojson that is parquet",
    "csv that is parquet",
    "geojson cut",
    "csv ragged",
    "csv quote open",
    "unknown kind",
    "a sqlite database",
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.few(4)
def test_a_damaged_file_is_refused(plain: Repo, tmp_path: Path, case: str) -> None:
    folder = tmp_path / "bad"
    folder.mkdir()
    file = _damaged(folder)[case]
    with refuses(plain, InvalidInputError, NotFoundError):
        plain.import_(file, "new", options=NO_KEY)
    with refuses(plain, InvalidInputError, NotFoundError):
        plain.import_(file, "points", replace=True)
    with refuses(plain, HavasuError):
        plain.commit_from(file, dataset="points")


def test_files_that_are_not_there(plain: Repo, tmp_path: Path) -> None:
    for name in ("none.parquet", "none.gpkg", "none.csv", "no/such/folder/*.parquet"):
        with refuses(plain, NotFoundError):
            plain.import_(tmp_path / name, "new")
    with refuses(plain, NotFoundError, InvalidFileError):
        plain.commit_from(tmp_path / "none.gpkg")
    folder = tmp_path / "folder.gpkg"
    folder.mkdir()
    with refuses(plain, HavasuError):
        plain.import_(folder, "new")


KEYS: dict[str, pa.Array] = {
    "equal": pa.array([1, 2, 2, 3]),
    "null": pa.array([1, None, 2, 3]),
    "equal at the end": pa.array([3, 2, 1, 3]),
    "equal texts": pa.array(["a", "b", "c", "a"]),
    "floats": pa.array([1.5, 2.5, 3.5, 4.5]),
    "lists": pa.array([[1], [2], [3], [4]]),
}


@pytest.mark.parametrize("order", ["key", "hilbert", "none"])
@pytest.mark.parametrize("case", KEYS)
@pytest.mark.few(4)
def test_keys_that_are_none(plain: Repo, tmp_path: Path, case: str, order: str) -> None:
    table = points(4).set_column(0, "id", KEYS[case])
    file = write(tmp_path / "keys.parquet", table)
    with refuses(plain, InvalidInputError):
        plain.import_(file, "new", options=BY_ID, order=order)
    with refuses(plain, InvalidInputError):
        plain.import_(file, "points", replace=True)
    with refuses(plain, InvalidInputError):
        plain.write("points", table, mode="overwrite")
    with refuses(plain, InvalidInputError):
        plain.write("points", table.drop_columns(["geom"]))


def test_a_key_that_is_not_there(plain: Repo, tmp_path: Path) -> None:
    file = tmp_path / "points.parquet"
    with refuses(plain, InvalidInputError):
        plain.import_(file, "new", options=SourceOptions(primary_key=("none",)))
    with refuses(plain, KeyViolationError):
        plain.write("points", points(3).drop_columns(["id"]))
    with refuses(plain, InvalidInputError):
        plain.import_(file, "new", options=SourceOptions(primary_key=("id", "id")))


def test_options_that_make_no_sense(plain: Repo, tmp_path: Path) -> None:
    file = tmp_path / "points.parquet"
    with refuses(plain, CrsError):
        plain.import_(file, "new", options=SourceOptions(primary_key=("id",), crs="EPSG:999999"))
    with refuses(plain, InvalidArgumentError):
        plain.import_(file, "new", order="random")
    with refuses(plain, InvalidInputError, NotFoundError):
        plain.import_(file, "new", layers=["no such layer"])
    with refuses(plain, InvalidArgumentError, hint=True):
        plain.import_(file, "points", options=BY_ID)
    flat = write(tmp_path / "flat.parquet", points(3).drop_columns(["geom"]))
    with refuses(plain, InvalidArgumentError):
        plain.import_(flat, "flat", options=BY_ID, order="hilbert")
    with refuses(plain, DatasetNotFoundError, hint=True):
        plain.write("none", points(3))
    with refuses(plain, DatasetNotFoundError):
        plain.set_meta("none", {"title": "x"})


COLUMNS: dict[str, Any] = {
    "narrower": lambda columns: columns[0].update(size=16),
    "another type": lambda columns: columns[2].update(dataType="boolean"),
    "no key column": lambda columns: columns.pop(0),
    "two of a name": lambda columns: columns[2].update(name="id"),
    "no name": lambda columns: columns[2].pop("name"),
    "an empty name": lambda columns: columns[2].update(name=""),
    "a name that is a number": lambda columns: columns[2].update(name=5),
    "no type": lambda columns: columns[2].pop("dataType"),
    "a type of nothing": lambda columns: columns[2].update(dataType="vector"),
    "a size that is text": lambda columns: columns[3].update(size="wide"),
    "a huge decimal": lambda columns: columns.append(
        {"name": "d", "dataType": "numeric", "precision": 99}
    ),
    "a scale that is text": lambda columns: columns.append(
        {"name": "d", "dataType": "numeric", "precision": 9, "scale": "x"}
    ),
    "a negative length": lambda columns: columns.append(
        {"name": "d", "dataType": "blob", "length": -5}
    ),
    "a struct of nothing": lambda columns: columns.append({"name": "d", "dataType": "struct"}),
    "a key that is a float": lambda columns: columns.append(
        {"name": "d", "dataType": "float", "size": 64, "primaryKeyIndex": 1}
    ),
    "a key index that is text": lambda columns: columns[2].update(primaryKeyIndex="x"),
    "something unknown": lambda columns: columns[2].update(colour="red"),
    "an unknown CRS": lambda columns: columns[1].update(geometryCRS="EPSG:999999"),
    "a CRS that is a number": lambda columns: columns[1].update(geometryCRS=4326),
    "a shape that is none": lambda columns: columns[1].update(geometryType="BLOB"),
    "geometry no more": lambda columns: columns[1].update(dataType="blob"),
    "text to geometry": lambda columns: columns[2].update(dataType="geometry"),
}


@pytest.mark.parametrize("case", COLUMNS)
@pytest.mark.few(5)
def test_a_schema_that_cannot_be(plain: Repo, case: str) -> None:
    columns = plain.get_meta("points", ["schema.json"])["schema.json"]
    COLUMNS[case](columns)
    with refuses(plain, InvalidInputError):
        plain.set_meta("points", {"schema.json": columns})
    patch = {
        "kart.patch/v1": {"message": "m"},
        "kart.diff/v1+hexwkb": {"points": {"meta": {"schema.json": {"+": columns}}}},
    }
    with refuses(plain, InvalidInputError):
        plain.apply_patch(json.dumps(patch).encode())


@pytest.mark.parametrize(
    "schema",
    ["", "{", "null", "{}", "[]", "[1]", "[[]]", '[{"name": "id"}]', "[" * 100_000, 7, {"a": 1}],
    ids=lambda schema: repr(schema)[:20],
)
def test_a_schema_that_is_none(plain: Repo, schema: Any) -> None:
    with refuses(plain, InvalidInputError):
        plain.set_meta("points", {"schema.json": schema})


WKT = 'LOCAL_CS["x"]'


def test_meta_items_that_are_none(plain: Repo) -> None:
    for items in (
        {"colour": "red"},
        {"../x": "y"},
        {"crs/../../x.wkt": WKT},
        {"crs/..wkt/../x.wkt": WKT},
        {"crs/.wkt": WKT},
        {"crs/EPSG:4326.wkt": "this is no WKT"},
        {"crs/EPSG:4326.wkt": 5},
        {"title": 5},
        {"title": "x" * (2 << 20)},
        {"title": "a\udcffb"},
        {"schema.json": None},
        {"properties.json": "{}"},
        {"crs/a/b.wkt": WKT},
        {"crs/.git/x.wkt": WKT},
    ):
        with refuses(plain, InvalidInputError):
            plain.set_meta("points", items)
    with refuses(plain, NotFoundError):
        plain.get_meta("points", ["colour"])


WRONG_ROWS: dict[str, pa.Table] = {
    "text in a number": pa.table({"id": [1], "number": ["x"]}),
    "a number too large": pa.table({"id": [1], "number": [1 << 40]}),
    "a fraction in a number": pa.table({"id": [1], "number": [1.5]}),
    "an unknown column": pa.table({"id": [1], "colour": ["red"]}),
    "an id that is text": pa.table({"id": ["x"], "name": ["y"]}),
    "a geometry that is none": pa.table({"id": [1], "geom": [b"garbage"]}),
    "a geometry that is text": pa.table({"id": [1], "geom": ["POINT (1 2)"]}),
    "a geometry cut short": pa.table(
        {"id": [1], "geom": [b"\x01\x01\x00\x00\x00\x00\x00\x00\x00"]}
    ),
    "no column of the table": pa.table({"x": [1]}),
}


@pytest.mark.parametrize("mode", ["upsert", "append", "overwrite"])
@pytest.mark.parametrize("case", WRONG_ROWS)
@pytest.mark.few(6)
def test_rows_that_do_not_fit(plain: Repo, case: str, mode: str) -> None:
    with refuses(plain, InvalidInputError):
        plain.write("points", WRONG_ROWS[case], mode=mode)


PATCHES: dict[str, Any] = {
    "nothing": b"",
    "no JSON": b"not json",
    "no object": b"[]",
    "null": b"null",
    "not UTF-8": b"\xff\xfe{}",
    "deep": b"[" * 200_000,
    "a huge number": b'{"kart.patch/v1":' + b"9" * 10_000 + b"}",
    "a diff alone": {"kart.diff/v1+hexwkb": {}},
    "a header alone": {"kart.patch/v1": {}},
    "a text for a diff": {"kart.patch/v1": {}, "kart.diff/v1+hexwkb": "x"},
    "a list of datasets": {"kart.patch/v1": {}, "kart.diff/v1+hexwkb": []},
    "features that are none": {"feature": {"a": 1}},
    "a feature that is a number": {"feature": [1]},
    "a feature of nothing": {"feature": [{}]},
    "an unknown sign": {"feature": [{"*": {"id": 1}}]},
    "an unknown column": {"feature": [{"++": {"id": 500, "colour": "red"}}]},
    "no key": {"feature": [{"++": {"name": "x"}}]},
    "a null key": {"feature": [{"++": {"id": None, "name": "x"}}]},
    "a key of text": {"feature": [{"++": {"id": "x"}}]},
    "a key that is there": {"feature": [{"++": {"id": 5, "name": "x"}}]},
    "a key twice": {"feature": [{"++": {"id": 500}}, {"++": {"id": 500}}]},
    "an upsert twice": {"feature": [{"+": {"id": 5}}, {"+": {"id": 5}}]},
    "a delete of no row": {"feature": [{"--": {"id": 500}}]},
    "an update of no row": {"feature": [{"-": {"id": 500}, "+": {"id": 500}}]},
    "another old value": {
        "feature": [{"-": {"id": 5, "name": "other"}, "+": {"id": 5, "name": "x"}}]
    },
    "another key": {"feature": [{"-": {"id": 5}, "+": {"id": 500}}]},
    "geometry that is no hex": {"feature": [{"+": {"id": 5, "geom": "zz"}}]},
    "geometry that is none": {"feature": [{"+": {"id": 5, "geom": "00FF"}}]},
    "geometry that is a number": {"feature": [{"+": {"id": 5, "geom": 5}}]},
    "a number too large": {"feature": [{"+": {"id": 5, "number": 1 << 70}}]},
    "a fraction": {"feature": [{"+": {"id": 5, "number": 1.5}}]},
    "an object as text": {"feature": [{"+": {"id": 5, "name": {"a": 1}}}]},
    "half a surrogate": {"feature": [{"+": {"id": 5, "name": "\ud800"}}]},
    "an unknown meta item": {"meta": {"colour": {"+": "red"}}},
    "a meta item outside": {"meta": {"../../x": {"+": "red"}}},
    "another old title": {"meta": {"title": {"-": "other", "+": "x"}}},
    "a title that is there not": {"meta": {"title": {"-": "other"}}},
    "no new value and no old": {"meta": {"title": {}}},
    "a schema of garbage": {"meta": {"schema.json": {"+": [{"a": 1}]}}},
}


@pytest.mark.parametrize("case", PATCHES)
@pytest.mark.few(6)
def test_a_patch_that_is_none(plain: Repo, case: str) -> None:
    patch = PATCHES[case]
    if isinstance(patch, dict) and "kart" not in str(next(iter(patch))):
        patch = {
            "kart.patch/v1": {"message": "m"},
            "kart.diff/v1+hexwkb": {"points": patch},
        }
    data = patch if isinstance(patch, bytes) else json.dumps(patch).encode()
    with refuses(plain, InvalidInputError, NotFoundError, NotYetSupportedError):
        plain.apply_patch(data)


HEADERS: list[dict[str, Any]] = [
    {"message": 5},
    {"base": "x"},
    {"authorTime": "yesterday"},
    {"authorTime": "999999-01-01"},
    {"authorTimeOffset": "+99:99"},
    {"authorName": 5},
    {"crs": 5},
]


@pytest.mark.parametrize("header", HEADERS, ids=repr)
def test_a_patch_whose_header_is_none(plain: Repo, header: dict[str, Any]) -> None:
    document = {
        "kart.patch/v1": {"message": "m", **header},
        "kart.diff/v1+hexwkb": {"points": {"feature": [{"+": {"id": 5, "name": "x"}}]}},
    }
    with refuses(plain, InvalidInputError):
        plain.apply_patch(json.dumps(document).encode())


@pytest.mark.parametrize(
    "author",
    [
        {"authorName": "A\nB", "authorEmail": "a@b"},
        {"authorName": "A <x>", "authorEmail": "a@b"},
        {"authorName": "", "authorEmail": ""},
        {"authorName": "A\x00B", "authorEmail": "a@b"},
        {"authorName": "A", "authorEmail": "a>b\ncommitter x"},
        {"authorName": "A", "authorEmail": "a@b", "authorTime": "0001-01-01T00:00:00Z"},
        {"authorName": "A", "authorEmail": "a@b", "message": "a\x00b"},
        {"authorName": "A", "authorEmail": "a@b", "message": "\ud800"},
        {"authorName": "A\ud800", "authorEmail": "a@b"},
    ],
    ids=repr,
)
def test_an_author_cannot_break_a_commit(plain: Repo, author: dict[str, Any]) -> None:
    from tests.support.sound import assert_sound, listing

    document = {
        "kart.patch/v1": {"message": "m", **author},
        "kart.diff/v1+hexwkb": {"points": {"feature": [{"+": {"id": 5, "name": "x"}}]}},
    }
    before = listing(plain)
    try:
        plain.apply_patch(json.dumps(document).encode())
    except HavasuError as error:
        assert "\n" not in error.message
        assert listing(plain) == before
    else:
        assert len(list(plain.log())) == 2
        assert next(iter(plain.log())).parents
    assert_sound(plain)


@pytest.mark.thorough
def test_a_patch_of_a_gigabyte_is_refused_unread(plain: Repo, tmp_path: Path) -> None:
    file = tmp_path / "patch.json"
    with open(file, "wb") as out:
        out.write(b'{"kart.patch/v1":{}')
        out.truncate(1 << 30)
    with refuses(plain, PatchError, hint=True), open(file, "rb") as source:
        plain.apply_patch(source)


def test_a_release_whose_column_has_another_type_is_refused(plain: Repo, tmp_path: Path) -> None:
    narrower = points(3).set_column(3, "number", pa.array(["a", "b", "c"]))
    file = write(tmp_path / "narrow.parquet", narrower)
    with refuses(plain, SchemaViolationError, match="number"):
        plain.import_(file, "points", replace=True)


@pytest.mark.parametrize(
    "revisions", ["nothing", "HEAD...nothing", "HEAD~50", "a..b..c", "^HEAD", "-x", "HEAD:points"]
)
def test_revisions_that_are_none(plain: Repo, revisions: str) -> None:
    with refuses(plain, NotFoundError, InvalidInputError):
        list(plain.diff(revisions))
    with refuses(plain, NotFoundError, InvalidInputError):
        list(plain.show(revisions)[1])
    with refuses(plain, NotFoundError, InvalidInputError):
        plain.table("points", revisions)


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "points:what",
        "points:feature:x",
        ":feature",
        "points:feature:1,2",
        "points:feature:99999999999999999999",
    ],
)
def test_filters_that_are_none(plain: Repo, text: str) -> None:
    with refuses(plain, InvalidInputError, NotFoundError):
        for diff in plain.diff("[EMPTY]...HEAD", [text]):
            list(diff.changes)


@pytest.mark.parametrize("name", ["", "-d", "HEAD", "a..b", "a b", "a/", "@", "x.lock", "a\x00"])
def test_branches_and_tags_of_bad_names(plain: Repo, name: str) -> None:
    with refuses(plain, InvalidInputError):
        plain.create_branch(name)
    with refuses(plain, InvalidInputError):
        plain.create_tag(name)
    with refuses(plain, HavasuError):
        plain.switch(name, create=True)


def test_a_path_is_no_repository_yet(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Repo(tmp_path)  # type: ignore[arg-type]
    assert caught.value.hints == ("`Repo.open(path)` opens one",)
