"""`havasu-vc sql`, by DuckDB."""

import io
import json
import sys
from pathlib import Path

import geopandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc import Repo
from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git

pytest.importorskip("duckdb")

QUERY = "SELECT id, name FROM points ORDER BY id"
ROWS = {"id": [1, 2, 4], "name": ["one", "TWO", "four"]}


def test_a_table(run: Run) -> None:
    result = succeed(run("sql", QUERY))

    assert result.stdout == "id  name\n--  ----\n1   one\n2   TWO\n4   four\n"
    assert result.stderr == ""


def test_a_table_shows_the_first_rows(run: Run) -> None:
    result = succeed(run("sql", QUERY, "--rows", "2"))

    assert result.stdout.splitlines()[-1] == "2   TWO"
    assert "only the first 2 rows" in result.stderr
    assert succeed(run("sql", QUERY, "--rows", "3")).stderr == ""


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("SELECT id, name FROM points ORDER BY id", ("--ref", "HEAD^")),
        ('SELECT id, name FROM "points@HEAD^" ORDER BY id', ()),
        ('SELECT id, name FROM "points@first" ORDER BY id', ("--ref", "HEAD")),
        ('FROM "POINTS@main~1" SELECT id, name ORDER BY ALL', ()),
    ],
)
def test_any_revision(run: Run, repo: Path, query: str, options: tuple[str, ...]) -> None:
    run_git("tag", "first", "HEAD^", cwd=repo)
    result = succeed(run("sql", query, *options, "-o", "csv"))

    assert result.stdout == "id,name\n1,one\n2,two\n3,three\n"


def test_two_revisions_in_one_query(run: Run) -> None:
    query = """
        SELECT old.id, old.name AS before, new.name AS after
        FROM "points@HEAD^" AS old FULL JOIN points AS new USING (id)
        WHERE old.name IS DISTINCT FROM new.name ORDER BY coalesce(old.id, new.id)
    """
    rows = json.loads(succeed(run("sql", query, "-o", "json")).stdout)

    assert rows == [
        {"id": 2, "before": "two", "after": "TWO"},
        {"id": 3, "before": "three", "after": None},
        {"id": None, "before": None, "after": "four"},
    ]


def test_json_of_no_row_is_an_empty_list(run: Run) -> None:
    assert succeed(run("sql", "SELECT id FROM points WHERE id > 9", "-o", "json")).stdout == "[]\n"


def test_json_lines(run: Run) -> None:
    lines = succeed(run("sql", QUERY, "-o", "json-lines")).stdout.splitlines()

    assert [json.loads(line) for line in lines] == pa.table(ROWS).to_pylist()


def test_parquet_and_arrow_to_files(run: Run, tmp_path: Path) -> None:
    parquet, arrow = tmp_path / "rows.parquet", tmp_path / "rows.arrows"
    succeed(run("sql", QUERY, "-o", "parquet", "--output", parquet))
    succeed(run("sql", QUERY, "-o", "arrow", "--output", arrow))

    assert pq.read_table(parquet).to_pydict() == ROWS
    assert pa.ipc.open_stream(io.BytesIO(arrow.read_bytes())).read_all().to_pydict() == ROWS


def test_a_file_is_written_whole_or_not_at_all(run: Run, tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        out = tmp_path / form
        result = run("sql", "SELECT error(name) FROM points", "-o", form, "--output", out)
        assert result.exit_code != 0
        assert not out.exists()


def test_a_script_has_several_statements(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(
        "CREATE TEMP VIEW v AS SELECT id FROM points WHERE name <> ';'; -- one;\n"
        "SELECT count(*) AS n FROM v;\n"
    )
    assert succeed(run("sql", "-f", script, "-o", "csv")).stdout == "n\n3\n"


def test_what_tables_there_are(run: Run) -> None:
    assert "points" in succeed(run("sql", "SHOW TABLES")).stdout.split()
    shown = succeed(run("sql", "DESCRIBE points", "-o", "csv")).stdout
    assert "geom,BLOB" in shown


def test_what_tables_are_made_of_is_not_shown(run: Run, repo: Path) -> None:
    Repo.open(repo).write("points", pa.table({"id": [1]}), mode="delete", message="One less")

    shown = succeed(run("sql", "SHOW TABLES; FROM blame('points'); SHOW ALL TABLES;")).stdout
    assert "points" in shown and "deleted" not in shown and "blame" not in shown


def test_a_key_that_is_called_as_a_column_of_commits(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("Commit,author\nx,Ann\n")
    succeed(run("import", tmp_path / "own.csv", "own", "--primary-key", "Commit", "-m", "Own"))

    query = """SELECT "Commit" AS key, own.author AS a, message AS m, length(commit_1) AS digits
        FROM blame('own') JOIN own USING ("Commit")"""
    shown = succeed(run("sql", query, "-o", "csv")).stdout
    assert shown == "key,a,m,digits\nx,Ann,Own,40\n"


def test_a_path_is_a_name_with_or_without_quotes(run: Run, csv_file: Path) -> None:
    for name in ("nz/road-sections", "2024"):
        succeed(run("import", csv_file, name, "--primary-key", "id"))
    for table in ('"nz/road-sections"', "nz_road_sections", '"nz_road_sections@HEAD"', "_2024"):
        query = f"SELECT count(*) AS n FROM {table}"
        assert succeed(run("sql", query, "-o", "csv")).stdout == "n\n3\n"


def test_functions_of_geometries(run: Run) -> None:
    query = """
        SELECT id, ST_X(geom) AS x, ST_AsText(ST_Point(174.8, -41.3)) AS made, geom FROM points
        WHERE ST_Intersects(geom, 'POLYGON ((174.7 -42, 175 -42, 175 -41, 174.7 -41, 174.7 -42))')
    """
    row = json.loads(succeed(run("sql", query, "-o", "json-lines")).stdout)

    assert (row["id"], row["x"], row["made"]) == (4, 174.8, "POINT (174.8 -41.3)")
    assert row["geom"].startswith("0101000000")


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (
            "SELECT change, old.id AS old, new.id AS new FROM changes('HEAD^...HEAD', 'points')",
            [
                {"change": "delete", "old": 3, "new": None},
                {"change": "insert", "old": None, "new": 4},
                {"change": "update", "old": 2, "new": 2},
            ],
        ),
        ("SELECT change FROM changes('HEAD...HEAD', 'points')", []),
        ("SELECT count(*) AS n FROM changes('HEAD^...HEAD')", [{"n": 3}]),
        ("SELECT message FROM commits()", [{"message": "First"}, {"message": "Second"}]),
        (
            "SELECT message, change, coalesce(new.id, old.id) AS id FROM history('points')",
            [
                {"message": "First", "change": "insert", "id": 1},
                {"message": "First", "change": "insert", "id": 2},
                {"message": "First", "change": "insert", "id": 3},
                {"message": "Second", "change": "delete", "id": 3},
                {"message": "Second", "change": "insert", "id": 4},
                {"message": "Second", "change": "update", "id": 2},
            ],
        ),
        (
            "SELECT id, message FROM blame('points') WHERE id < 4",
            [{"id": 1, "message": "First"}, {"id": 2, "message": "Second"}],
        ),
        (
            "SELECT name, kind FROM refs() JOIN commits() USING (commit)",
            [{"name": "main", "kind": "branch"}, {"name": 'v"1', "kind": "tag"}],
        ),
        ("SELECT count(*) AS n FROM changes('v\"1...HEAD', 'points')", [{"n": 0}]),
    ],
)
def test_what_the_repository_tells(
    run: Run, repo: Path, query: str, rows: list[dict[str, object]]
) -> None:
    run_git("tag", 'v"1', cwd=repo)
    found = json.loads(succeed(run("sql", f"{query} ORDER BY ALL", "-o", "json")).stdout)

    assert found == rows


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        (
            "SELECT HEIGHT FROM history('points')",
            "new.height is its value after a change, old.height",
        ),
        (
            "SELECT name FROM changes('HEAD^...HEAD')",
            "new.name is its value after a change, old.name",
        ),
        ("SELECT size FROM changes('HEAD^...HEAD')", "changes() has change, old, new"),
        ("SELECT size FROM blame('points')", "blame() has id, commit, parents, author, "),
    ],
)
def test_where_a_column_is_that_changes_have_not(run: Run, query: str, hint: str) -> None:
    refused = run("sql", query)
    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[1].startswith(f"Hint: {hint}")


def test_a_query_from_standard_input(repo: Path) -> None:
    for arguments in (("-",), ("-f", "-")):
        line = ("-C", repo, "sql", *arguments, "-o", "csv")
        shown = succeed(invoke(line, stdin="SELECT max(id) AS id\nFROM points;\n")).stdout
        assert shown == "id\n4\n"
    assert invoke(["-C", repo, "sql", "-"]).exit_code == 2


def test_history_through_other_columns(run: Run, repo: Path) -> None:
    items = json.loads(succeed(run("meta", "get", "points", "schema.json", "-o", "json")).stdout)
    columns = json.dumps(items["points"]["schema.json"]).replace(
        '"name": "name"', '"name": "called"'
    )
    succeed(run("meta", "set", "points", f"schema.json={columns}", "-m", "Renamed"))
    query = (
        "SELECT old.name AS was, new.called AS now FROM history('points') WHERE message = 'Third'"
    )
    row: dict[str, object] = {"id": 2, "called": "zwei", "height": 2.5, "lon": 174.6, "lat": -41.1}
    Repo.open(repo).write("points", pa.Table.from_pylist([row]), message="Third")

    shown = succeed(run("sql", query, "-o", "json-lines")).stdout
    assert json.loads(shown) == {"was": None, "now": "zwei"}


def test_conflicts(run: Run, repo: Path) -> None:
    succeed(run("switch", "-c", "other"))
    for branch, name in (("other", "zwei"), ("main", "deux")):
        succeed(run("switch", branch))
        patch = {"id": 2, "name": name, "height": 2.5, "lon": 174.6, "lat": -41.1}
        Repo.open(repo).write("points", pa.Table.from_pylist([patch]), message=name)
    run("merge", "other")
    shown = succeed(run("sql", "FROM conflicts()", "-o", "json-lines")).stdout

    assert json.loads(shown) == {"dataset": "points", "kind": "feature", "name": "2"}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("SELEC",), 'syntax error at or near "SELEC"'),
        (("SELECT nope FROM points",), '"nope" not found'),
        (("SELECT * FROM nope",), "there is no table 'nope'\nHint: there is points"),
        (("SELECT error('by hand')",), "by hand"),
        (("SELECT ST_Area('no geometry')",), "ST_Area: a geometry cannot be used"),
        (("SELECT ST_X(geom, 1) FROM points",), "ST_X takes 1 argument, not 2"),
        (("FROM changes()",), "it is changes('REVISIONS', 'DATASET')"),
        (("FROM blame('nope')",), "'nope'"),
        (("FROM conflicts()",), "there is no merge"),
        (("SELECT 1", "--ref", "nope"), "no commit is named 'nope'"),
        (('SELECT * FROM "points@nope"',), "no commit is named 'nope'"),
        (('SELECT * FROM "nope@HEAD"',), "'nope'"),
        (("UPDATE points SET id = 1", "--engine", "duckdb"), "UPDATE changes tables"),
        (("CREATE TABLE t AS SELECT 1", "--engine", "duckdb"), "CREATE changes tables"),
        ((), "give a query"),
        (("-f", "nowhere.sql"), "nowhere.sql cannot be read"),
        ((" -- nothing",), "no statement"),
    ],
)
def test_what_goes_wrong_is_said_shortly(run: Run, arguments: tuple[str, ...], reason: str) -> None:
    result = run("sql", *arguments)

    assert result.exit_code != 0
    assert reason in result.stderr
    assert "Traceback" not in result.stderr
    assert sum(line.startswith("Error: ") for line in result.stderr.splitlines()) == 1


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('/*')",
        "COPY points TO '{new}'",
        "EXPORT DATABASE '{new}'",
        "ATTACH '{new}'",
        "SET enable_external_access = true",
        "SET allowed_paths = ['{file}']",
        "RESET enable_external_access",
        "INSTALL spatial",
        "LOAD '{file}'",
        "SELECT * FROM sys",
    ],
)
def test_nothing_outside_is_read_or_written(run: Run, tmp_path: Path, statement: str) -> None:
    file, new = tmp_path / "secret.csv", tmp_path / "new"
    file.write_text("a\nsecret\n")
    result = run("sql", statement.format(file=file, new=new))

    assert result.exit_code != 0
    assert "secret\n" not in result.stdout
    assert not new.exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["it's", "a' OR 1=1 --", "x;y", "select", "ü b", "100%"])
def test_names_of_any_kind(run: Run, csv_file: Path, name: str) -> None:
    succeed(run("import", csv_file, name, "--primary-key", "id"))
    for table in (name, f"{name}@HEAD"):
        query = f'SELECT count(*) AS n FROM "{table}"'
        assert succeed(run("sql", query, "-o", "csv")).stdout == "n\n3\n"


def test_a_repository_in_a_folder_with_a_name_of_any_kind(repo: Path) -> None:
    for name in ("a[b]*'c", "key=value", "d?"):
        there = repo.rename(repo.with_name(name))
        result = succeed(invoke(["-C", there, "sql", QUERY, "-o", "csv"]))
        assert result.stdout == "id,name\n1,one\n2,TWO\n4,four\n"
        repo = there


def test_only_what_a_query_needs_is_loaded(repo: Path) -> None:
    program = (
        "import sys; from havasu_vc.cli.main import cli\n"
        f"cli.main(['-C', {str(repo)!r}, 'sql', {QUERY!r}], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.endswith("4   four\n"), done.stderr
    assert done.returncode == 0
    needless = {
        "havasu_vc.history.merge",
        "havasu_vc.querying.asking",
        "pandas",
        "pyarrow.compute",
        "pyspark",
        "shapely",
    }
    assert needless & set(done.stderr.split()) == set()


@pytest.mark.thorough
def test_the_process_ends_without_a_word(repo: Path) -> None:
    import subprocess

    program = "from havasu_vc.cli.main import main; main()"
    for query in (QUERY, "SELECT * FROM nope", "SELECT error(name) FROM points"):
        done = subprocess.run(
            [sys.executable, "-c", program, "-C", str(repo), "sql", query],
            capture_output=True,
            text=True,
        )
        assert "leaked" not in done.stderr


def test_rows_are_edited_in_a_checkout_alone(run: Run) -> None:
    for statement in (
        "UPDATE points SET name = 'x'",
        "DELETE FROM points WHERE id = 1",
        "INSERT INTO points VALUES (5)",
        "ALTER TABLE points ADD COLUMN x INT",
        "TRUNCATE TABLE points",
        "DROP TABLE points",
        "CREATE TABLE more AS SELECT * FROM points",
        "CREATE OR REPLACE TABLE points AS SELECT 1 AS id",
    ):
        refused = run("sql", statement)
        assert refused.exit_code != 0 and "there are none" in refused.stderr
        assert "havasu-vc checkout" in refused.stderr and "Spark" not in refused.stderr


def test_a_table_shows_geometries_as_text(run: Run) -> None:
    query = "SELECT geom, 'a'::BLOB AS other, ST_Buffer(geom, 1) AS b FROM points WHERE id = 1"
    line = succeed(run("sql", query)).stdout.splitlines()[2]

    assert line.startswith("POINT (174.5 -41)  61     POLYGON ((175.5 -41, ")
    assert line.endswith("…")


def test_text_for_programs_has_geometries_in_hex(run: Run) -> None:
    told = succeed(run("sql", "SELECT geom FROM points WHERE id = 1", "-o", "csv")).stdout

    assert shapely.from_wkb(bytes.fromhex(told.split()[1])) == shapely.Point(174.5, -41)


def test_parquet_is_geoparquet(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.parquet"
    query = "SELECT geom, ST_AsText(geom) AS t FROM points WHERE id = 2"
    succeed(run("sql", query, "-o", "parquet", "--output", file))
    found = geopandas.read_parquet(file)

    assert found.crs.to_epsg() == 4326
    assert list(found.geometry) == [shapely.from_wkt(text) for text in found["t"]]


def test_parquet_of_no_geometry_says_nothing_of_one(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "found.parquet"
    query = "SELECT id AS geom FROM points"
    succeed(run("sql", query, "-o", "parquet", "--output", file))

    assert b"geo" not in (pq.read_schema(file).metadata or {})


def test_a_function_may_give_null(run: Run) -> None:
    query = "SELECT ST_X('LINESTRING (0 0, 1 1)') AS x, ST_NumPoints(geom) AS n FROM points LIMIT 1"
    found = json.loads(succeed(run("sql", query, "-o", "json-lines")).stdout)

    assert found == {"x": None, "n": None}


def test_a_function_of_the_spatial_extension_alone_says_how_to_have_it(run: Run) -> None:
    result = run("sql", "SELECT ST_VoronoiDiagram(geom) FROM points")
    if result.exit_code:  # not where the extension is installed
        assert "havasu-vc[spatial]" in result.stderr


def test_of_several_datasets_the_one_with_changes_is_named(run: Run, repo: Path) -> None:
    copy = repo.parent / "more.csv"
    copy.write_text("id\n1\n")
    succeed(run("import", copy, "--primary-key", "id"))
    refused = run("sql", "FROM changes('HEAD^...HEAD')")
    assert refused.exit_code == 2
    assert "name it, as in changes('HEAD^...HEAD', 'DATASET')" in refused.stderr
    one = "SELECT count(*) AS n FROM changes('HEAD^...HEAD', 'more')"
    both = f"{one} UNION ALL SELECT count(*) FROM changes('HEAD^...HEAD', 'points')"
    assert succeed(run("sql", both, "-o", "csv")).stdout.split() == ["n", "1", "0"]
