"""A working copy in PostGIS, edited by SQL as any program does, and commands that work on it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely

from havasu_vc.exchange.addresses import parse_address
from havasu_vc.exchange.postgis_server import connected, parse_csv
from tests.cli.conftest import FIRST, SECOND, Run, invoke, succeed
from tests.support.examples import some
from tests.support.git import run_git
from tests.support.postgres import PostgresServer, has_postgis, postgres
from tests.support.templates import copy_tree, empty_repo

pytestmark = pytest.mark.skipif(
    not has_postgis(), reason="there is no PostGIS: apt install postgresql-15-postgis-3"
)

Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as running:
        yield running


@pytest.fixture(scope="module", params=some(["havasu", "kart"], "havasu"))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of two commits, of either kind."""
    folder = tmp_path_factory.mktemp("postgis")
    source, repo = folder / "points.csv", folder / "repo"
    succeed(invoke(["init", repo, *(["--kart"] if request.param == "kart" else [])]))
    common: list[str | Path] = [
        "-C",
        repo,
        "import",
        source,
        "--primary-key",
        "id",
        "--crs",
        "EPSG:4326",
    ]
    source.write_text(FIRST)
    succeed(invoke([*common, "-m", "First"]))
    source.write_text(SECOND)
    succeed(invoke([*common, "--replace", "-m", "Second"]))
    return repo


@pytest.fixture
def repo(made: Path, tmp_path: Path, server: PostgresServer) -> Path:
    """It, with a working copy in the schema `wc`."""
    place = copy_tree(made, tmp_path / "repo")
    server.run("DROP SCHEMA IF EXISTS wc CASCADE")
    succeed(invoke(["-C", place, "create-workingcopy", server.address("wc")]))
    return place


@pytest.fixture
def edit(repo: Path, server: PostgresServer) -> Callable[..., None]:
    """Run statements as an editor."""
    return server.run


@pytest.fixture
def rows(server: PostgresServer) -> Rows:
    def read(columns: str = "id, name", table: str = "points") -> list[tuple[Any, ...]]:
        return list(server.rows(f"SELECT {columns} FROM wc.{table} ORDER BY 1"))

    return read


def clean(run: Run) -> None:
    assert "working copy clean" in succeed(run("status")).stdout


def test_it_holds_what_head_has(run: Run, rows: Rows) -> None:
    assert rows("id, name, height, st_asewkt(geom)") == [
        (1, "one", 1.5, "SRID=4326;POINT(174.5 -41)"),
        (2, "TWO", 2.5, "SRID=4326;POINT(174.6 -41.1)"),
        (4, "four", 4.5, "SRID=4326;POINT(174.8 -41.3)"),
    ]
    clean(run)


def test_edits_are_seen_and_committed(run: Run, edit: Callable[..., None], rows: Rows) -> None:
    edit(
        "UPDATE wc.points SET name = 'uno' WHERE id = 1",
        "DELETE FROM wc.points WHERE id = 2",
        "INSERT INTO wc.points (name) VALUES ('five')",
        "UPDATE wc.points SET height = height",
    )
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert status["workingCopy"]["changes"] == {
        "points": {"feature": {"inserts": 1, "updates": 1, "deletes": 1}}
    }
    assert status["workingCopy"]["parts"]["tabular"]["type"] == "postgresql"
    diff = json.loads(succeed(run("diff", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    changes = diff["points"]["feature"]
    assert [(c.get("-", {}).get("name"), c.get("+", {}).get("name")) for c in changes] == [
        ("one", "uno"), ("TWO", None), (None, "five"),
    ]  # fmt: skip

    succeed(run("commit", "-m", "In part", "points:1"))
    assert [row[1] for row in rows()] == ["uno", "four", "five"]
    succeed(run("commit", "-m", "The rest"))

    clean(run)
    assert run("diff", "--exit-code").exit_code == 0
    # The database made the key, which was never one before.
    assert rows() == [(1, "uno"), (4, "four"), (5, "five")]
    assert run("commit", "-m", "Nothing").exit_code == 44


@pytest.mark.thorough
def test_it_follows_head(run: Run, rows: Rows, edit: Callable[..., None]) -> None:
    succeed(run("switch", "-c", "past", "HEAD^"))
    assert rows() == [(1, "one"), (2, "two"), (3, "three")]
    clean(run)
    edit("UPDATE wc.points SET name = 'drei' WHERE id = 3")
    refused = run("reset", "--hard", "main")
    assert (refused.exit_code, "not committed" in refused.stderr) == (29, True)
    succeed(run("stash"))
    clean(run)
    succeed(run("stash", "pop"))
    assert rows()[2] == (3, "drei")
    succeed(run("commit", "-m", "Drei"))
    succeed(run("switch", "main"))
    assert rows() == [(1, "one"), (2, "TWO"), (4, "four")]
    edit("UPDATE wc.points SET name = 'uno' WHERE id = 1")
    succeed(run("restore"))
    assert rows() == [(1, "one"), (2, "TWO"), (4, "four")]
    clean(run)


@pytest.mark.thorough
def test_a_merge_comes_into_it(run: Run, rows: Rows, edit: Callable[..., None]) -> None:
    succeed(run("switch", "-c", "side"))
    edit("UPDATE wc.points SET name = 'uno' WHERE id = 1")
    succeed(run("commit", "-m", "Side"))
    succeed(run("switch", "main"))
    edit("UPDATE wc.points SET name = 'quattro' WHERE id = 4")
    succeed(run("commit", "-m", "Main"))
    succeed(run("merge", "side", "-m", "Both"))
    assert rows() == [(1, "uno"), (2, "TWO"), (4, "quattro")]
    clean(run)


@pytest.mark.thorough
def test_truncate_is_seen_and_undone(run: Run, rows: Rows, edit: Callable[..., None]) -> None:
    edit("TRUNCATE wc.points", "INSERT INTO wc.points (id, name) VALUES (2, 'TWO')")
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert status["workingCopy"]["changes"] == {"points": {"feature": {"updates": 1, "deletes": 2}}}
    succeed(run("restore"))
    assert rows() == [(1, "one"), (2, "TWO"), (4, "four")]


@pytest.mark.thorough
def test_columns_keep_their_identity(run: Run, edit: Callable[..., None], rows: Rows) -> None:
    edit(
        "ALTER TABLE wc.points RENAME name TO label",
        "ALTER TABLE wc.points ADD name integer",
        "ALTER TABLE wc.points DROP height",
        "ALTER TABLE wc.points ADD area numeric(8, 2)",
        "UPDATE wc.points SET name = 7, area = 1.5 WHERE id = 4",
    )
    diff = json.loads(succeed(run("diff", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    schema = diff["points"]["meta"]["schema.json"]
    then = {column["id"]: column["name"] for column in schema["-"]}
    now = {column["id"]: column["name"] for column in schema["+"]}
    kept = {then[each]: now[each] for each in then.keys() & now.keys()}
    assert kept == {"id": "id", "name": "label", "lon": "lon", "lat": "lat", "geom": "geom"}
    assert sorted(now[each] for each in now.keys() - then.keys()) == ["area", "name"]

    succeed(run("commit", "-m", "Columns"))
    clean(run)
    assert rows("id, label, name, area::text") == [
        (1, "one", None, None), (2, "TWO", None, None), (4, "four", 7, "1.50"),
    ]  # fmt: skip
    succeed(run("switch", "-c", "past", "HEAD^"))
    assert rows("id, name, height") == [(1, "one", 1.5), (2, "TWO", 2.5), (4, "four", 4.5)]
    clean(run)


@pytest.mark.thorough
def test_a_renamed_table_is_the_same(run: Run, edit: Callable[..., None], rows: Rows) -> None:
    edit("ALTER TABLE wc.points RENAME TO sites", "UPDATE wc.sites SET name = 'x' WHERE id = 1")
    said = succeed(run("status", "-o", "json")).stdout
    assert json.loads(said)["kart.status/v2"]["workingCopy"]["changes"] == {
        "points": {"feature": {"updates": 1}}
    }
    assert "is called sites now" in succeed(run("status")).stdout
    succeed(run("commit", "-m", "Renamed"))
    assert rows("id, name", "sites") == [(1, "x"), (2, "TWO"), (4, "four")]


@pytest.mark.thorough
def test_a_wider_type_is_the_same_column(run: Run, edit: Callable[..., None]) -> None:
    edit("ALTER TABLE wc.points ADD n integer", "UPDATE wc.points SET n = id")
    succeed(run("commit", "-m", "n"))
    edit("ALTER TABLE wc.points ALTER n TYPE bigint", "UPDATE wc.points SET n = 1 << 20")
    diff = json.loads(succeed(run("diff", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    schema = diff["points"]["meta"]["schema.json"]
    changed = [(a, b) for a, b in zip(schema["-"], schema["+"], strict=True) if a != b]
    assert [(a["id"] == b["id"], a["size"], b["size"]) for a, b in changed] == [(True, 32, 64)]
    succeed(run("commit", "-m", "Wider"))
    clean(run)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["drop", "disable"])
def test_missing_triggers_are_noticed(
    run: Run, edit: Callable[..., None], server: PostgresServer, way: str
) -> None:
    names = [name for (name,) in server.rows(
        "SELECT tgname FROM pg_trigger WHERE tgrelid = 'wc.points'::regclass AND NOT tgisinternal"
    )]  # fmt: skip
    for name in names:
        if way == "drop":
            edit(f"DROP TRIGGER {name} ON wc.points")
        else:
            edit(f"ALTER TABLE wc.points DISABLE TRIGGER {name}")
    edit("DELETE FROM wc.points WHERE id = 1", "INSERT INTO wc.points (id, name) VALUES (7, 'y')")
    said = succeed(run("status")).stdout
    assert "1 inserts" in said and "1 deletes" in said
    assert "compared in full" in said
    succeed(run("commit", "-m", "Unseen"))
    clean(run)
    edit("UPDATE wc.points SET name = 'z' WHERE id = 7")
    assert "compared in full" not in succeed(run("status")).stdout


@pytest.mark.thorough
def test_a_dropped_table_is_stated(run: Run, edit: Callable[..., None], rows: Rows) -> None:
    edit("DROP TABLE wc.points")
    assert "its table is gone" in succeed(run("status")).stdout
    succeed(run("restore", "points"))
    assert rows() == [(1, "one"), (2, "TWO"), (4, "four")]
    clean(run)


@pytest.mark.thorough
def test_a_new_table_is_taken_in(run: Run, edit: Callable[..., None], repo: Path) -> None:
    edit(
        "CREATE TABLE wc.trees (tree serial PRIMARY KEY, kind varchar(20), planted date, "
        "place geometry(Point, 2193))",
        "INSERT INTO wc.trees (kind, planted, place) VALUES ('oak', '2020-01-31', "
        "'SRID=2193;POINT(1 2)'), (NULL, NULL, NULL)",
        "UPDATE wc.points SET name = 'uno' WHERE id = 1",
    )
    assert "trees is no dataset yet" in succeed(run("status")).stdout
    succeed(run("add-dataset", "trees", "-m", "Trees"))
    said = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert said["workingCopy"]["changes"] == {"points": {"feature": {"updates": 1}}}
    edit("UPDATE wc.trees SET kind = 'elm' WHERE tree = 2")
    diff = json.loads(succeed(run("diff", "-o", "json", "trees")).stdout)["kart.diff/v1+hexwkb"]
    assert diff["trees"] == {
        "feature": [
            {
                "-": {"tree": 2, "kind": None, "planted": None, "place": None},
                "+": {"tree": 2, "kind": "elm", "planted": None, "place": None},
            }
        ]
    }


@pytest.mark.thorough
def test_tables_are_imported(run: Run, server: PostgresServer, edit: Callable[..., None]) -> None:
    edit(
        "DROP SCHEMA IF EXISTS other CASCADE",
        "CREATE SCHEMA other",
        "CREATE TABLE other.roads (id bigint PRIMARY KEY, name text, open boolean, seen "
        "timestamptz, way geometry(LineStringZ, 4326), tags text[], cost numeric(9, 3))",
        "INSERT INTO other.roads SELECT i, 'road ' || i, i % 2 = 0, timestamptz 'epoch' + i * "
        "interval '1 hour', ST_MakeLine(ST_SetSRID(ST_MakePoint(i / 100.0, 0, 1), 4326), "
        "ST_SetSRID(ST_MakePoint(0, i / 1000.0, 2), 4326)), ARRAY['a', 'b'], i / 8.0 "
        "FROM generate_series(1, 5000) i",
    )
    address = server.address("other")
    assert "no table 'none'" in run("import", address, "--layer", "none").stderr
    said = succeed(run("import", address, "--layer", "roads", "-m", "Roads"))
    assert "5,000 rows" in said.output
    # It is in the working copy as well, alike in all values.
    columns = "id, name, open, seen, st_asewkb(way), cost"
    here, there = (
        server.rows(f"SELECT {columns}, tags::text FROM {each}.roads ORDER BY id")
        for each in ("other", "wc")
    )
    assert here == there
    clean(run)


def test_views_and_partitions_are_imported_as_they_are_declared(
    tmp_path: Path, server: PostgresServer
) -> None:
    server.run(
        "DROP SCHEMA IF EXISTS listed CASCADE",
        "CREATE SCHEMA listed",
        "CREATE TABLE listed.parts (id int, name varchar(7), code char(3), rank smallint, u uuid) "
        "PARTITION BY RANGE (id)",
        "CREATE TABLE listed.low PARTITION OF listed.parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE listed.high PARTITION OF listed.parts FOR VALUES FROM (10) TO (20)",
        "INSERT INTO listed.parts SELECT i, 'n' || i, 'abc', i, ("
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd3800' || lpad(i::text, 2, '0'))::uuid "
        "FROM generate_series(1, 15) i",
        "CREATE VIEW listed.seen AS SELECT id, name FROM listed.parts WHERE id > 5",
    )
    repo, address = tmp_path / "repo", server.address("listed")
    succeed(invoke(["init", "--kart", "--bare", repo]))
    for name, rows in (("parts", 15), ("seen", 10)):
        taken = succeed(
            invoke(["-C", repo, "import", address, "--layer", name, "--primary-key", "id"])
        )
        assert f"{rows} rows" in taken.output
        told = json.loads(
            succeed(invoke(["-C", repo, "diff", "[EMPTY]...HEAD", "-o", "json"])).stdout
        )
        assert len(told["kart.diff/v1+hexwkb"][name]["feature"]) == rows
    shown = ["meta", "get", "parts", "schema.json", "-o", "json"]
    columns = json.loads(succeed(invoke(["-C", repo, *shown])).stdout)["parts"]["schema.json"]
    said = {
        each["name"]: (each["dataType"], each.get("length", each.get("size"))) for each in columns
    }
    assert said == {
        "id": ("integer", 32), "name": ("text", 7), "code": ("text", 3), "rank": ("integer", 16),
        "u": ("text", 36),
    }  # fmt: skip
    again = invoke(["-C", repo, "import", address, "--layer", "parts", "--replace"])
    assert "Nothing changed" in again.output, "a UUID is text in a Kart dataset, as Kart has it"
    subject = run_git("log", "-1", "--format=%s", cwd=repo).strip()
    place = address.partition("@")[2].partition("?")[0]
    assert subject == f"Import from postgresql://{place}/seen to seen/", "as Kart says it"


def test_rows_are_read_whole_and_some_at_once(server: PostgresServer) -> None:
    """A query of any size takes the memory of a piece, and may be left before its end."""
    series = "SELECT i, repeat('line' || chr(10) || '\"', 20) FROM generate_series(1, 500) i"
    with connected(parse_address(server.address("public"))) as connection:
        pieces = list(connection.copied_out(series, 4096))
        assert len(pieces) > 10 and max(map(len, pieces)) < 8192
        rows = [
            pair
            for piece in pieces
            for pair in zip(*(each.to_pylist() for each in parse_csv(piece, 2)), strict=True)
        ]
        assert rows == [(str(number), 'line\n"' * 20) for number in range(1, 501)]
        assert b"".join(pieces) == connection.copy_out(series)
        for _ in connection.copied_out(series, 4096):
            break
        assert connection.one("SELECT 1") == 1


@pytest.mark.thorough
def test_an_editor_that_has_yet_to_commit_makes_us_refuse(
    run: Run, server: PostgresServer, rows: Rows
) -> None:
    with server.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("UPDATE wc.points SET name = 'open' WHERE id = 1")
        said = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
        assert "changes" not in said["workingCopy"] or not said["workingCopy"]["changes"]
        refused = run("switch", "-c", "past", "HEAD^")
        assert refused.exit_code != 0
        assert "another program is writing" in refused.stderr
        connection.execute("COMMIT")
    assert rows()[0] == (1, "open")
    assert "1 updates" in succeed(run("status")).stdout


def test_what_cannot_be_is_one_line(repo: Path, server: PostgresServer, run: Run) -> None:
    def refused(address: str) -> str:
        result = run("create-workingcopy", "--delete-existing", address)
        assert result.exit_code != 0, result.output
        assert "internal error" not in result.output
        return result.stderr

    secret = server.address("wc2").replace("maps@", "maps:hush@")
    assert "a password is in the address" in refused(secret)
    assert "hush" not in refused(secret)
    assert "cannot be reached" in refused(f"postgresql://maps@/gis/s?host={server.folder}/none")
    assert "does not name a database and a schema" in refused("postgresql://maps@/gis")
    assert "permission denied" in refused(server.address("fresh", user="guest"))
    server.run("CREATE SCHEMA IF NOT EXISTS full_one", "CREATE TABLE IF NOT EXISTS full_one.t()")
    assert "has tables already" in refused(server.address("full_one"))
    assert "no PostGIS" in refused(server.address("wc").replace("/gis/", "/plain/"))
    # Nothing of it changed where the working copy is.
    assert "working copy clean" in succeed(run("status")).stdout


@pytest.mark.thorough
def test_a_server_that_is_away_is_told(repo: Path, server: PostgresServer, run: Run) -> None:
    key = "kart" if (repo / ".kart").exists() else "havasu"
    away = f"postgresql://maps:hush@/gis/s?host={server.folder}/none"
    succeed(run("config", f"{key}.workingcopy.location", away))
    said = succeed(run("status")).output
    assert "cannot be reached" in said
    assert "hush" not in said
    refused = run("commit", "-m", "x")
    assert refused.exit_code != 0
    assert "cannot be reached" in refused.stderr
    assert "internal error" not in refused.output
    assert "hush" not in refused.output
    assert succeed(run("log", "--oneline")).stdout


def test_it_has_the_rows_of_a_spatial_filter(
    run: Run, edit: Callable[..., None], rows: Rows
) -> None:
    succeed(run("checkout", "--spatial-filter", "EPSG:4326;174.4,-41.15,174.65,-40.9"))
    assert rows() == [(1, "one"), (2, "TWO")]
    clean(run)
    edit(
        "UPDATE wc.points SET name = 'uno' WHERE id = 1",
        "UPDATE wc.points SET geom = 'SRID=4326;POINT(0 0)' WHERE id = 2",
        "INSERT INTO wc.points (name) VALUES ('five')",
        "INSERT INTO wc.points (id, name) VALUES (4, 'hidden')",
    )
    assert [row[0] for row in rows()] == [1, 2, 4, 5]  # 4 is a key that the database passed over
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert status["workingCopy"]["changes"] == {
        "points": {"feature": {"inserts": 1, "updates": 2, "spatialFilterConflicts": 1}}
    }
    assert run("checkout", "--spatial-filter", "none").exit_code == 29
    refused = run("commit", "-m", "All")
    assert refused.exit_code == 27
    assert "In dataset points the conflicting primary key values are: 4" in refused.stderr
    edit("DELETE FROM wc.points WHERE id = 4")
    succeed(run("commit", "-m", "Without it"))

    assert rows() == [(1, "uno"), (5, "five")]
    clean(run)
    succeed(run("checkout", "--spatial-filter", "none"))
    assert rows() == [(1, "uno"), (2, "TWO"), (4, "four"), (5, "five")]
    clean(run)


def test_rows_with_an_srid_of_their_own_are_not_edited(
    tmp_path: Path, server: PostgresServer
) -> None:
    repo, source = tmp_path / "repo", tmp_path / "marks.parquet"
    shapes = [shapely.set_srid(shapely.Point(1, 2), 2193), shapely.Point(3, 4), None]
    ewkb = [None if each is None else shapely.to_wkb(each, include_srid=True) for each in shapes]
    pq.write_table(pa.table({"id": [1, 2, 3], "geom": pa.array(ewkb, pa.binary())}), source)
    succeed(invoke(["init", repo]))
    server.run("DROP SCHEMA IF EXISTS own CASCADE")
    succeed(invoke(["-C", repo, "import", source, "--primary-key", "id"]))
    convert = ["convert", "marks", "--geometry", "geom=ewkb", "-m", "Shapes"]
    succeed(invoke(["-C", repo, *convert]))
    succeed(invoke(["-C", repo, "create-workingcopy", server.address("own")]))
    assert server.rows("SELECT st_srid(geom) FROM own.marks ORDER BY id") == [
        (2193,),
        (0,),
        (None,),
    ]
    server.run("UPDATE own.marks SET geom = geom")

    assert "working copy clean" in succeed(invoke(["-C", repo, "status"])).stdout


def test_the_comment_of_a_table_is_the_title(
    run: Run, edit: Callable[..., None], server: PostgresServer
) -> None:
    def comment() -> object:
        return server.rows("SELECT obj_description('wc.points'::regclass, 'pg_class')")[0][0]

    succeed(run("meta", "set", "points", "title=Some points"))
    assert comment() == "Some points"
    clean(run)
    edit("COMMENT ON TABLE wc.points IS 'Bett''er'")
    said = json.loads(succeed(run("diff", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    assert said["points"]["meta"] == {"title": {"-": "Some points", "+": "Bett'er"}}
    succeed(run("restore"))
    assert comment() == "Some points"
    edit("COMMENT ON TABLE wc.points IS 'Better'", "UPDATE wc.points SET name = 'x' WHERE id = 1")
    succeed(run("commit", "-m", "Both"))
    assert "Better" in succeed(run("meta", "get", "points", "title")).stdout
    clean(run)
    succeed(run("switch", "-c", "past", "HEAD^"))
    assert comment() == "Some points"
    edit("COMMENT ON TABLE wc.points IS NULL")
    succeed(run("commit", "-m", "None"))
    assert "title" not in succeed(run("meta", "get", "points")).stdout
    succeed(run("switch", "main"))
    assert comment() == "Better"
    clean(run)
    edit("COMMENT ON TABLE wc.points IS 'Best'", "UPDATE wc.points SET name = 'y' WHERE id = 1")
    succeed(run("restore", "points:feature:1"))
    assert comment() == "Best"
    said = json.loads(succeed(run("diff", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    assert said["points"] == {"meta": {"title": {"-": "Better", "+": "Best"}}}


def test_a_column_that_kart_renamed_where_it_stands(run: Run, edit: Callable[..., None]) -> None:
    edit("ALTER TABLE wc.points RENAME COLUMN name TO label")
    succeed(run("commit", "-m", "Label"))
    # What is remembered of columns is of the version before, as after a switch of Kart's.
    for kind in ("kart", "havasu_vc"):
        edit(
            f"DO $$ BEGIN UPDATE wc._{kind}_state SET value = replace(value, 'label', 'name') "
            "WHERE key = 'havasu-columns'; EXCEPTION WHEN undefined_table THEN NULL; END $$"
        )
    clean(run)


def test_another_system_cannot_come_back_as_an_edit(run: Run, rows: Rows, tmp_path: Path) -> None:
    wkt = pyproj.CRS(3857).to_wkt("WKT1_GDAL")
    told = json.loads(succeed(run("meta", "get", "points", "-o", "json")).stdout)
    columns = told["points"]["schema.json"]
    for each in columns:
        if "geometryCRS" in each:
            each["geometryCRS"] = "EPSG:3857"
    (tmp_path / "schema.json").write_text(json.dumps(columns))
    (tmp_path / "wkt").write_text(wkt)
    items = [f"schema.json=@{tmp_path / 'schema.json'}", f"crs/EPSG:3857.wkt=@{tmp_path / 'wkt'}"]
    succeed(run("meta", "set", "points", "title=Moved", *items, "-m", "Another system"))
    clean(run)
    before = rows("id, name, st_asewkt(geom)")
    assert "SRID=3857" in before[0][2]

    refused = run("restore", "-s", "HEAD^")
    assert refused.exit_code == 2 and "another reference system" in refused.stderr
    assert rows("id, name, st_asewkt(geom)") == before
    clean(run)


def test_columns_of_domains_are_imported_as_what_these_are_made_of(
    tmp_path: Path, server: PostgresServer
) -> None:
    server.run(
        "DROP SCHEMA IF EXISTS domains CASCADE",
        "CREATE SCHEMA domains",
        "CREATE DOMAIN domains.counted AS integer",
        "CREATE DOMAIN domains.few AS domains.counted CHECK (VALUE < 9)",
        "CREATE DOMAIN domains.price AS numeric(8, 2)",
        "CREATE DOMAIN domains.spot AS geometry(Point, 4326)",
        "CREATE TABLE domains.shops (id integer PRIMARY KEY, n domains.few, p domains.price, "
        "g domains.spot)",
        "INSERT INTO domains.shops VALUES (1, 5, 2.5, 'SRID=4326;POINT(1 2)')",
    )
    repo = empty_repo(tmp_path / "repo")

    told = succeed(
        invoke(["-C", repo.path, "import", server.address("domains"), "--layer", "shops"])
    ).stderr

    assert "geometry: g, " in told
    assert "EPSG:4326" in told
    assert "columns: id int, n int, p decimal(8, 2)" in told
    assert (
        succeed(invoke(["-C", repo.path, "cat", "shops"]))
        .stdout.splitlines()[1]
        .startswith("1,5,2.50,")
    )


def test_a_materialized_view_is_imported(tmp_path: Path, server: PostgresServer) -> None:
    server.run(
        "DROP SCHEMA IF EXISTS kept CASCADE",
        "CREATE SCHEMA kept",
        "CREATE MATERIALIZED VIEW kept.sums AS SELECT 1 AS id, 'a' AS name",
    )
    repo = empty_repo(tmp_path / "repo")
    common: list[str | Path] = ["-C", repo.path, "import", server.address("kept")]

    assert "sums" in succeed(invoke([*common, "--list"])).stdout
    succeed(invoke([*common, "--layer", "sums", "--primary-key", "id"]))
    assert succeed(invoke(["-C", repo.path, "cat", "sums"])).stdout == "id,name\n1,a\n"


def test_an_import_that_cannot_be_tells_of_the_table(run: Run, server: PostgresServer) -> None:
    server.run(
        "DROP SCHEMA IF EXISTS odd CASCADE",
        "CREATE SCHEMA odd",
        "CREATE TABLE odd.days (id int PRIMARY KEY, day timestamp)",
        "INSERT INTO odd.days VALUES (1, 'infinity')",
    )
    refused = run("import", server.address("odd"), "--layer", "days")
    assert refused.exit_code != 0 and "a value is not a" in refused.stderr
    assert "mend it in the table" in refused.stderr
    server.run("GRANT USAGE ON SCHEMA odd TO guest")
    refused = run("import", server.address("odd", user="guest"), "--layer", "days")
    assert "cannot be used: permission denied" in refused.stderr
