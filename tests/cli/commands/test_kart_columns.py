"""Columns that an editor adds to the working copy of a Kart dataset, with their length and size."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import FIRST, invoke, succeed
from tests.support.postgres import PostgresServer, has_postgis, postgres

GEOPACKAGE = {
    "note": ("TEXT(32)", {"dataType": "text", "length": 32}),
    "remark": ("text", {"dataType": "text"}),
    "floors": ("MEDIUMINT", {"dataType": "integer", "size": 32}),
    "rank": ("SMALLINT", {"dataType": "integer", "size": 16}),
    "level": ("TINYINT", {"dataType": "integer", "size": 8}),
    "people": ("INTEGER", {"dataType": "integer", "size": 64}),
    "slope": ("FLOAT", {"dataType": "float", "size": 32}),
    "area": ("REAL", {"dataType": "float", "size": 64}),
    "thumb": ("BLOB(10)", {"dataType": "blob", "length": 10}),
}
POSTGIS = {
    "note": ("varchar(32)", {"dataType": "text", "length": 32}),
    "remark": ("text", {"dataType": "text"}),
    "floors": ("integer", {"dataType": "integer", "size": 32}),
    "rank": ("smallint", {"dataType": "integer", "size": 16}),
    "people": ("bigint", {"dataType": "integer", "size": 64}),
    "slope": ("real", {"dataType": "float", "size": 32}),
    "area": ("double precision", {"dataType": "float", "size": 64}),
    "price": ("numeric(8,2)", {"dataType": "numeric", "precision": 8, "scale": 2}),
    "amount": ("numeric", {"dataType": "numeric"}),
    "lasts": ("interval", {"dataType": "interval"}),
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository of Kart's with the dataset `points`."""
    source, repo = tmp_path / "points.csv", tmp_path / "repo"
    source.write_text(FIRST)
    succeed(invoke(["init", "--kart", repo]))
    options = ("--primary-key", "id", "--crs", "EPSG:4326")
    succeed(invoke(["-C", repo, "import", source, *options]))
    return repo


def columns(repo: Path) -> dict[str, dict[str, object]]:
    """Return the columns of `points` at HEAD by name, without their ids."""
    shown = succeed(invoke(["-C", repo, "meta", "get", "points", "schema.json", "-o", "json"]))
    schema = json.loads(shown.stdout)["points"]["schema.json"]
    return {each["name"]: {k: each[k] for k in each.keys() - {"id", "name"}} for each in schema}


def committed(repo: Path) -> dict[str, dict[str, object]]:
    """Commit what an editor did, and return the columns."""
    shown = succeed(invoke(["-C", repo, "diff", "-o", "json"])).stdout
    told = json.loads(shown)["kart.diff/v1+hexwkb"]["points"]["meta"]["schema.json"]["+"]
    succeed(invoke(["-C", repo, "commit", "-m", "More columns"]))
    found = columns(repo)
    assert [each["name"] for each in told] == list(found)
    assert all(found[each["name"]].items() <= each.items() for each in told)
    assert "working copy clean" in succeed(invoke(["-C", repo, "status"])).stdout
    return found


def test_columns_added_in_a_geopackage_keep_length_and_size(repo: Path) -> None:
    succeed(invoke(["-C", repo, "create-workingcopy", "repo.gpkg"]))
    with closing(sqlite3.connect(repo / "repo.gpkg")) as file, file:
        for name, (declared, _) in GEOPACKAGE.items():
            file.execute(f"ALTER TABLE points ADD COLUMN {name} {declared}")

    found = committed(repo)

    assert {name: found[name] for name in GEOPACKAGE} == {
        name: kept for name, (_, kept) in GEOPACKAGE.items()
    }
    (repo / "repo.gpkg").unlink()
    succeed(invoke(["-C", repo, "create-workingcopy", "repo.gpkg"]))
    with closing(sqlite3.connect(repo / "repo.gpkg")) as file:
        made = {row[1]: row[2] for row in file.execute("PRAGMA table_info(points)")}
    assert {name: made[name] for name in GEOPACKAGE} == {
        name: declared.upper() for name, (declared, _) in GEOPACKAGE.items()
    }


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as running:
        yield running


@pytest.mark.thorough
@pytest.mark.skipif(not has_postgis(), reason="there is no PostGIS")
def test_columns_added_in_postgis_keep_length_and_size(repo: Path, server: PostgresServer) -> None:
    server.run("DROP SCHEMA IF EXISTS wc CASCADE")
    succeed(invoke(["-C", repo, "create-workingcopy", server.address("wc")]))
    for name, (declared, _) in POSTGIS.items():
        server.run(f"ALTER TABLE wc.points ADD COLUMN {name} {declared}")
    server.run("ALTER TABLE wc.points ALTER COLUMN name TYPE varchar(60)")
    server.run("UPDATE wc.points SET note = 'steep', slope = 0.25, price = 1.5 WHERE id = 1")

    found = committed(repo)

    assert {name: found[name] for name in POSTGIS} == {
        name: kept for name, (_, kept) in POSTGIS.items()
    }
