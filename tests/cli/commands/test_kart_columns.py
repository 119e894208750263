"""Columns that an editor adds to the working copy of a Kart dataset, with their length and size."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyogrio
import pytest

from tests.cli.conftest import FIRST, invoke, succeed
from tests.support.git import run_git
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


def rewritten(tmp_path: Path) -> Path:
    """Return a repository in which `v` was dropped; rows 1, 3 and 4 were written anew since.

    The tag `with` is before that. Row 4 alone has another value in a column that stayed.
    """
    repo = tmp_path / "rewritten"
    succeed(invoke(["init", "--kart", repo]))
    one, options = tmp_path / "t.csv", ("--primary-key", "id")
    one.write_text("id,name,v\n1,a,5\n2,b,6\n3,c,\n4,d,8\n")
    succeed(invoke(["-C", repo, "import", one, *options]))
    succeed(invoke(["-C", repo, "tag", "with"]))
    columns = json.loads(
        succeed(invoke(["-C", repo, "meta", "get", "t", "schema.json", "-o", "json"])).stdout
    )["t"]["schema.json"]
    without = [each for each in columns if each["name"] != "v"]
    succeed(invoke(["-C", repo, "meta", "set", "t", f"schema.json={json.dumps(without)}"]))
    for rows in ("1,A\n2,b\n3,C\n4,D\n", "1,a\n2,b\n3,c\n4,D\n"):
        one.write_text(f"id,name\n{rows}")
        succeed(invoke(["-C", repo, "import", "--replace", one, "t", *options]))
    return repo


# What Kart 0.17 prints of these rows.
WITH: dict[int, dict[str, object]] = {
    1: {"name": "a", "v": 5},
    3: {"name": "c", "v": None},
    4: {"name": "d", "v": 8},
}
WITHOUT: dict[int, dict[str, object]] = {1: {"name": "a"}, 3: {"name": "c"}, 4: {"name": "D"}}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("wanted", [(1, 3, 4), (1, 2)])
def test_rows_written_anew_without_a_dropped_column_are_told(
    tmp_path: Path, backwards: bool, wanted: tuple[int, ...]
) -> None:
    repo = rewritten(tmp_path)
    ends = ["HEAD", "with"] if backwards else ["with", "HEAD"]
    filters = [] if 3 in wanted else [f"t:feature:{key}" for key in wanted]
    shown = succeed(invoke(["-C", repo, "diff", *ends, *filters, "-o", "json"])).stdout
    sides = (WITHOUT, WITH) if backwards else (WITH, WITHOUT)
    assert json.loads(shown)["kart.diff/v1+hexwkb"]["t"]["feature"] == [
        {sign: {"id": key} | side[key] for sign, side in zip("-+", sides, strict=True)}
        for key in wanted
        if key != 2
    ]


def test_they_are_told_as_text_and_counted(tmp_path: Path) -> None:
    repo = rewritten(tmp_path)
    shown = succeed(invoke(["-C", repo, "diff", "with", "HEAD", "t:feature"])).stdout
    lines = [" ".join(line.split()) for line in shown.splitlines() if line[4:] != "t:feature"]
    assert lines == [
        *("--- t:feature:1", "+++ t:feature:1", "- v = 5"),
        *("--- t:feature:3", "+++ t:feature:3", "- v = ␀"),
        *("--- t:feature:4", "+++ t:feature:4", "- name = d", "+ name = D", "- v = 8"),
    ]
    counted = invoke(["-C", repo, "diff", "with", "HEAD", "--only-feature-count", "exact"])
    assert "3 features changed" in succeed(counted).stdout
    # Against the working copy as well, in which nothing is edited.
    succeed(invoke(["-C", repo, "create-workingcopy", "rewritten.gpkg"]))
    assert succeed(invoke(["-C", repo, "diff", "with", "t:feature"])).stdout == shown


def test_a_patch_with_them_makes_the_same_tree(tmp_path: Path) -> None:
    repo = rewritten(tmp_path)
    both = run_git("commit-tree", "HEAD^{tree}", "-p", "with", "-m", "Both", cwd=repo)
    run_git("branch", "both", both, cwd=repo)
    patch = tmp_path / "both.kartpatch"
    patch.write_text(succeed(invoke(["-C", repo, "create-patch", "both"])).stdout)
    told = json.loads(patch.read_text())["kart.diff/v1+hexwkb"]["t"]["feature"]
    assert [each["-"]["id"] for each in told] == [1, 3, 4]
    succeed(invoke(["-C", repo, "switch", "-c", "again", "with"]))
    succeed(invoke(["-C", repo, "apply", patch]))
    again, meant = (run_git("rev-parse", f"{one}:t", cwd=repo) for one in ("HEAD", "both"))
    assert again == meant


def test_no_merge_sees_them(tmp_path: Path) -> None:
    """A row that is deleted on one side, and only written anew on the other, is gone."""
    repo = rewritten(tmp_path)
    succeed(invoke(["-C", repo, "switch", "-c", "side", "with"]))
    few = tmp_path / "t.csv"
    few.write_text("id,name,v\n2,b,6\n4,d,8\n")
    options = ("--replace", few, "t", "--primary-key", "id")
    succeed(invoke(["-C", repo, "import", *options]))
    merged = succeed(invoke(["-C", repo, "merge", "main", "-o", "json"])).stdout
    assert json.loads(merged)["kart.merge/v1"]["conflicts"] is None
    succeed(invoke(["-C", repo, "export", "t", tmp_path / "out.csv"]))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines == ['"id","name"', '2,"b"', '4,"D"']


@pytest.mark.thorough
@pytest.mark.skipif(not has_postgis(), reason="there is no PostGIS")
def test_a_table_of_a_server_that_is_not_there_ends_as_in_kart(
    repo: Path, server: PostgresServer
) -> None:
    server.run("CREATE SCHEMA bare", "CREATE SCHEMA one", "CREATE TABLE one.a (id int PRIMARY KEY)")
    for source in ([server.address("bare")], [server.address("one"), "nosuch:x"]):
        assert invoke(["-C", repo, "import", *source]).exit_code == 49


def test_floats_of_32_bits_keep_what_a_geopackage_has(tmp_path: Path) -> None:
    """SQLite has 64 bits in any column, and so has Kart."""
    repo, file = tmp_path / "repo", tmp_path / "slopes.gpkg"
    numbers = [0.1, 1 / 3, None, 1e300, 2.5]
    table = pa.table({"slope": pa.array([1.5] * 5, pa.float32()), "name": list("abcde")})
    pyogrio.write_arrow(table, file, driver="GPKG", layer="slopes", layer_options={"FID": "id"})
    with closing(sqlite3.connect(file)) as database, database:
        for key, number in enumerate(numbers, 1):
            database.execute("UPDATE slopes SET slope = ? WHERE id = ?", (number, key))
        database.execute("CREATE TABLE texts (name TEXT PRIMARY KEY, slope FLOAT)")
        database.execute("INSERT INTO texts SELECT name, slope FROM slopes ORDER BY name DESC")
    succeed(invoke(["init", "--kart", repo]))
    for layer in ("slopes", "texts"):
        succeed(invoke(["-C", repo, "import", file, layer]))
        shown = succeed(invoke(["-C", repo, "show", "-o", "json-lines"])).stdout
        lines = [json.loads(line) for line in shown.splitlines()]
        rows = [line["change"]["+"] for line in lines if line["type"] == "feature"]
        assert [row["slope"] for row in sorted(rows, key=lambda row: row["name"])] == numbers
    schema = succeed(invoke(["-C", repo, "meta", "get", "slopes", "schema.json", "-o", "json"]))
    sizes = {
        each["name"]: each.get("size")
        for each in json.loads(schema.stdout)["slopes"]["schema.json"]
    }
    assert sizes["slope"] == 32
    assert "clean" in succeed(invoke(["-C", repo, "status"])).stdout
