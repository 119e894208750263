"""Tables of PostgreSQL are imported by the address of a schema, or of a database alone."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.postgres import PostgresServer, has_postgis, postgres

pytestmark = pytest.mark.skipif(
    not has_postgis(), reason="there is no PostGIS: apt install postgresql-15-postgis-3"
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as running:
        yield running


def test_tables_of_all_schemas_are_imported_by_a_database_alone(
    tmp_path: Path, server: PostgresServer
) -> None:
    """As in Kart a table is `SCHEMA.TABLE` there, and its dataset has the name of the table."""
    schemas = ("every", "every_2")
    for name in schemas:
        server.run(
            f"DROP SCHEMA IF EXISTS {name} CASCADE",
            f"CREATE SCHEMA {name}",
            f"CREATE TABLE {name}.roads (id int8 PRIMARY KEY, g geography(Point, 4326))",
            f"INSERT INTO {name}.roads VALUES (1, 'POINT(174 -41)')",
            f"COMMENT ON TABLE {name}.roads IS 'Roads of {name}'",
        )
    server.run("CREATE TABLE IF NOT EXISTS public.lone (id int8 PRIMARY KEY)")
    database = server.address("x").replace("/x?", "?")
    repo = tmp_path / "repo"
    succeed(invoke(["init", repo]))
    run = partial(_run_in, repo)

    listed = succeed(run("import", database, "--list")).stdout.splitlines()
    assert {"every.roads", "every_2.roads", "public.lone"} <= set(listed)
    assert not any("spatial_ref_sys" in each or "pg_" in each for each in listed)

    both = run("import", database, "--layer", "every.roads", "--layer", "every_2.roads")
    assert both.exit_code == 2 and "every_2/roads would become the dataset 'roads'" in both.stderr
    assert run("import", database, "--layer", "every.nosuch").exit_code == 48
    layers = ("--layer", "every.roads", "--layer", "every_2.roads:others", "--layer", "lone")
    succeed(run("import", database, *layers))
    assert succeed(run("data", "ls")).stdout.split() == ["lone", "others", "roads"]
    items = json.loads(succeed(run("meta", "get", "others", "-o", "json")).stdout)["others"]
    assert items["title"] == "Roads of every_2"
    assert items["schema.json"][1]["geometryType"] == "POINT"
    diff = json.loads(succeed(run("show", "-o", "geojson", "--", "roads")).stdout)
    assert diff["features"][0]["geometry"] == {"type": "Point", "coordinates": [174.0, -41.0]}
    again = run("import", database, "--layer", "every.roads", "--replace")
    assert "No row of roads differs" in again.stderr


def test_a_geography_is_text_in_karts_repositories(tmp_path: Path, server: PostgresServer) -> None:
    server.run(
        "DROP SCHEMA IF EXISTS globe CASCADE",
        "CREATE SCHEMA globe",
        "CREATE TABLE globe.spots (id int8 PRIMARY KEY, g geography)",
        "INSERT INTO globe.spots VALUES (1, 'POINT(1 2)')",
    )
    repo = tmp_path / "repo"
    succeed(invoke(["init", "--kart", repo]))
    succeed(_run_in(repo, "import", server.address("globe"), "--layer", "spots"))
    shown = json.loads(succeed(_run_in(repo, "show", "-o", "json")).stdout)
    (change,) = shown["kart.diff/v1+hexwkb"]["spots"]["feature"]
    assert change["+"]["g"] == "0101000020E6100000000000000000F03F0000000000000040"


def _run_in(repo: Path, *words: str | Path) -> Any:
    return invoke(["-C", repo, *words])
