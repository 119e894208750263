"""What a GeoPackage works out is imported where it ends, whatever functions it uses."""

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
    " VALUES ('shown', 'attributes', 'shown', 0)"
)


def package(path: Path, *statements: str) -> Path:
    """Make a GeoPackage of three points, and run statements upon it."""
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
    for statement in (*statements, SHOW):
        database.execute(statement)
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
