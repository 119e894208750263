"""What a GeoPackage works out is imported where it ends, and what its tables say is kept."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pyogrio.raw
import pytest
import shapely

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.support.templates import empty_repo

SHOW = (
    "INSERT INTO gpkg_contents(table_name, data_type, identifier, srs_id)"
    " VALUES ('shown', ?, 'shown', 0)"
)


def package(path: Path, *statements: str, kind: str = "attributes") -> Path:
    """Make a GeoPackage of three points, run statements upon it, and register their table."""
    pyogrio.raw.write(
        path,
        geometry=shapely.to_wkb([shapely.Point(n, 0) for n in range(3)]),
        field_data=[np.array(["a", "b", "c"], dtype=object)],
        fields=["name"],
        geometry_type="Point",
        crs="EPSG:4326",
        layer="points",
        driver="GPKG",
    )
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.execute(SHOW, (kind,))
    database.commit()
    database.close()
    return path


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW shown AS SELECT fid, name FROM points",
        "CREATE VIEW shown AS SELECT fid, ST_MinX(geom) AS x FROM points ORDER BY ST_MaxY(geom)",
        "CREATE TABLE shown(fid INTEGER PRIMARY KEY, b AS (fid * 2))",
        "CREATE VIEW shown AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n"
        " WHERE x < 1000) SELECT x AS fid, x * x AS y FROM n",
    ],
)
def test_what_ends_is_imported(tmp_path: Path, statement: str) -> None:
    file = package(tmp_path / "views.gpkg", statement)
    repo = empty_repo(tmp_path / "repo")

    assert "shown" in succeed(invoke(["-C", repo.path, "import", file, "--list"])).stdout
    succeed(invoke(["-C", repo.path, "import", file, "--layer", "shown"]))


def test_what_does_not_end_is_refused_and_the_rest_is_to_be_had(tmp_path: Path) -> None:
    endless = (
        "CREATE VIEW shown AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
        " SELECT x AS fid, 'words' AS y FROM n"
    )
    file = package(tmp_path / "views.gpkg", endless)
    repo = empty_repo(tmp_path / "repo")

    refused = invoke(["-C", repo.path, "import", file, "--layer", "shown"])
    assert refused.exit_code and "'shown'" in refused.stderr and "too long" in refused.stderr
    succeed(invoke(["-C", repo.path, "import", file, "--layer", "points"]))


@pytest.mark.parametrize(
    ("columns", "rows", "key"),
    [
        ("code TEXT PRIMARY KEY NOT NULL, name TEXT", "('b', 'x'), ('a', NULL)", ["code"]),
        ('name TEXT, "the, ""code""" TEXT PRIMARY KEY', "('x', 'b')", ['the, "code"']),
        ("code TEXT PRIMARY KEY, name TEXT", "('b', 'x'), (NULL, 'y')", []),
        ("code TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (name, code)", "('b', 'x')", []),
        ("code REAL PRIMARY KEY, name TEXT", "(2.5, 'x')", []),
    ],
)
def test_a_table_says_its_key_of_text(
    tmp_path: Path, columns: str, rows: str, key: list[str]
) -> None:
    table, values = f"CREATE TABLE shown ({columns})", f"INSERT INTO shown VALUES {rows}"
    file = package(tmp_path / "codes.gpkg", table, values)
    repo = empty_repo(tmp_path / "repo")

    result = invoke(["-C", repo.path, "import", file, "--layer", "shown", "-o", "json"])
    said = json.loads(succeed(result).stdout)["havasu.import/v1"]

    told = said["understood"]["shown"]
    assert (told["key"], told["keyFrom"]) == (key, "file" if key else None)
    assert Repo.open(repo.path).dataset("shown").key.names == tuple(key)


def test_a_second_column_of_geometries_is_named_as_left_out(tmp_path: Path) -> None:
    file = package(
        tmp_path / "two.gpkg",
        "CREATE TABLE shown (id INTEGER PRIMARY KEY, geom POINT, outline POLYGON)",
        "INSERT INTO gpkg_geometry_columns VALUES ('shown', 'geom', 'POINT', 4326, 0, 0)",
        "INSERT INTO shown SELECT fid, geom, geom FROM points",
        kind="features",
    )
    repo = empty_repo(tmp_path / "repo")

    result = succeed(invoke(["-C", repo.path, "import", file, "--layer", "shown"]))

    assert "column 'outline' is left out: a layer has one column of geometries" in result.stderr
    assert Repo.open(repo.path).dataset("shown").schema.names == ("id", "geom")
    other = invoke(["-C", repo.path, "import", file, "--layer", "points"])
    assert "left out" not in succeed(other).stderr


def test_a_kart_dataset_has_the_columns_as_the_table_has_them(tmp_path: Path) -> None:
    file = package(
        tmp_path / "order.gpkg",
        "CREATE TABLE shown (n TINYINT, b BLOB(7), s SMALLINT, geom POINT, Id INTEGER PRIMARY KEY)",
        "INSERT INTO gpkg_geometry_columns VALUES ('shown', 'geom', 'POINT', 4326, 0, 0)",
        "INSERT INTO shown SELECT 127, x'00', 5, geom, fid FROM points",
        kind="features",
    )
    repo = empty_repo(tmp_path / "repo", kart=True)

    succeed(invoke(["-C", repo.path, "import", file, "--layer", "shown"]))

    said = repo.git.git("cat-file", "blob", "HEAD:shown/.table-dataset/meta/schema.json").text
    columns = [(each["name"], each.get("size", each.get("length"))) for each in json.loads(said)]
    assert columns == [("n", 8), ("b", 7), ("s", 16), ("geom", None), ("Id", 64)]
    again = invoke(["-C", repo.path, "import", file, "--layer", "shown", "--replace"])
    assert "nothing is committed" in succeed(again).stdout


def test_a_tinyint_with_larger_numbers_is_of_32_bits(tmp_path: Path) -> None:
    file = package(
        tmp_path / "tiny.gpkg",
        "CREATE TABLE shown (id INTEGER PRIMARY KEY, n TINYINT, m TINYINT)",
        "INSERT INTO shown VALUES (1, -128, 255), (2, NULL, NULL)",
    )
    repo = empty_repo(tmp_path / "repo")

    succeed(invoke(["-C", repo.path, "import", file, "--layer", "shown"]))

    table = Repo.open(repo.path).table("shown")
    assert [field.source_type for field in table.schema.fields] == [None, "int8", None]
    found = table.to_arrow().to_pylist()
    assert found == [{"id": 1, "n": -128, "m": 255}, {"id": 2, "n": None, "m": None}]


def test_tables_that_are_not_listed_are_imported(tmp_path: Path) -> None:
    """GDAL passes over them where one without geometries is listed."""
    file = package(
        tmp_path / "a.gpkg",
        "CREATE TABLE shown(fid INTEGER PRIMARY KEY, name TEXT)",
        "CREATE TABLE Loose(fid INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO Loose VALUES (1, 'a'), (2, 'b')",
        "CREATE VIEW seen AS SELECT fid, name FROM Loose WHERE fid > 1",
    )
    repo = empty_repo(tmp_path / "repo")
    assert set(repo.list_layers(str(file))) == {"points", "shown", "Loose", "seen"}
    succeed(invoke(["-C", repo.path, "import", file, "--all-layers"]))
    told = succeed(invoke(["-C", repo.path, "cat", "Loose"])).stdout
    assert told == "fid,name\n1,a\n2,b\n"
    assert succeed(invoke(["-C", repo.path, "cat", "seen"])).stdout == "fid,name\n2,b\n"
