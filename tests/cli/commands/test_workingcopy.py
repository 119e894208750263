"""`havasu-vc create-workingcopy`, and commands that work on what it makes."""

import json
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyogrio
import pytest

from havasu_vc import Repo
from havasu_vc.cli.errors import OPTIONS_OF_GIT
from havasu_vc.exchange.living_home import GeoPackageHome
from tests.cli.conftest import FIRST, SECOND, Run, invoke, succeed
from tests.support.git import run_git
from tests.support.templates import copy_tree

Edit = Callable[[str], None]


@contextmanager
def editor(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a working copy as an editor does: with the functions that the index calls."""

    def number(place: int) -> Callable[[bytes | None], float | None]:
        def side(shape: bytes | None) -> float | None:
            # Points alone: the header of eight bytes, five of WKB, then x and y.
            return None if shape is None else float(struct.unpack_from("<2d", shape, 13)[place % 2])

        return side

    with closing(sqlite3.connect(path)) as database:
        for place, name in enumerate(("ST_MinX", "ST_MinY", "ST_MaxX", "ST_MaxY")):
            database.create_function(name, 1, number(place))
        database.create_function("ST_IsEmpty", 1, lambda shape: None if shape is None else 0)
        yield database
        database.commit()


@pytest.fixture(scope="session", params=["havasu", "kart"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of two commits with a working copy, of either kind."""
    folder = tmp_path_factory.mktemp("living")
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
    succeed(invoke(["-C", repo, "create-workingcopy"]))
    return repo


@pytest.fixture
def repo(made: Path, tmp_path: Path) -> Path:
    return copy_tree(made, tmp_path / "repo")


@pytest.fixture
def edit(repo: Path) -> Edit:
    """Run a statement as an editor."""

    def run(statement: str) -> None:
        with editor(repo / "repo.gpkg") as database:
            database.execute(statement)

    return run


def rows(repo: Path, columns: str = "id, name", table: str = "points") -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        return database.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()


def test_it_holds_what_head_has(repo: Path, run: Run) -> None:
    assert rows(repo) == [(1, "one"), (2, "TWO"), (4, "four")]
    assert "working copy clean" in succeed(run("status")).stdout
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        near = "SELECT id FROM rtree_points_geom WHERE maxx > 174.55 AND maxx < 174.7"
        assert database.execute(near).fetchall() == [(2,)]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="tells what is mapped on Linux")
def test_looking_at_it_does_not_map_it(repo: Path) -> None:
    # All rows are counted at each look, so that all of the file would be in memory.
    with GeoPackageHome(repo / "repo.gpkg", kart=(repo / ".kart").exists()).open() as file:
        assert file.other_tables(()) == ("points",)
        assert "repo.gpkg" not in Path("/proc/self/maps").read_text()


def test_git_passes_over_it(repo: Path) -> None:
    if (repo / ".kart").exists():
        pytest.skip("git cannot look at a repository of Kart's")
    assert run_git("status", "--short", cwd=repo) == ""


def test_edits_are_seen_and_committed(run: Run, edit: Edit, repo: Path) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("DELETE FROM points WHERE id = 2")
    edit("INSERT INTO points (id, name) VALUES (9, 'nine')")
    edit("UPDATE points SET height = height WHERE id = 4")

    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert status["workingCopy"]["changes"] == {
        "points": {"feature": {"inserts": 1, "updates": 1, "deletes": 1}}
    }
    diff = json.loads(succeed(run("diff", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    changes = diff["points"]["feature"]
    assert [(c.get("-", {}).get("name"), c.get("+", {}).get("name")) for c in changes] == [
        ("one", "uno"), ("TWO", None), (None, "nine"),
    ]  # fmt: skip

    succeed(run("commit", "-m", "By hand"))

    assert "working copy clean" in succeed(run("status")).stdout
    assert run("diff", "--exit-code").exit_code == 0
    shown = json.loads(succeed(run("show", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    assert shown["points"]["feature"] == changes
    assert rows(repo) == [(1, "uno"), (4, "four"), (9, "nine")]
    assert run("commit", "-m", "Nothing").exit_code == 44


def test_edits_of_some_rows_are_dropped(run: Run, edit: Edit, repo: Path) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("DELETE FROM points WHERE id = 2")
    edit("INSERT INTO points (id, name) VALUES (9, 'nine')")
    before = rows(repo)

    told = succeed(run("restore", "points:feature:1", "points:9", "--dry-run"))
    assert "Would drop the edits named of points" in told.output
    assert rows(repo) == before
    succeed(run("restore", "points:feature:1", "points:9"))

    assert rows(repo) == [(1, "one"), (4, "four")]
    diff = json.loads(succeed(run("diff", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    assert [list(change) for change in diff["points"]["feature"]] == [["-"]]
    assert "nothing of it is edited" in succeed(run("restore", "points:feature:4")).output
    refused = run("restore", "nosuch:feature:1")
    assert refused.exit_code == 49, refused.stderr
    succeed(run("restore", "points:feature"))
    assert "working copy clean" in succeed(run("status")).stdout


@pytest.mark.few(1)
def test_rows_are_not_counted_after_a_working_copy_is_made_nor_after_a_commit(
    run: Run, edit: Edit, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(*_: object) -> int:
        raise AssertionError("the rows were counted")

    monkeypatch.setattr("havasu_vc.datasets.kart.view.count_features", count)
    assert "working copy clean" in succeed(run("status")).stdout
    edit("DELETE FROM points WHERE id = 2")
    succeed(run("commit", "-m", "One less"))
    succeed(run("switch", "-c", "side"))
    edit("INSERT INTO points (id, name) VALUES (9, 'nine'), (10, 'ten')")
    succeed(run("commit", "-m", "Two more"))
    succeed(run("switch", "main"))
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    succeed(run("commit", "-m", "One other"))
    succeed(run("merge", "side", "-m", "Both"))

    assert "working copy clean" in succeed(run("status")).stdout
    assert Repo.open(repo).dataset("points").rows == len(rows(repo)) == 4

    counted = sorted(repo.rglob("kart/*.rows"), key=lambda path: path.stat().st_mtime_ns)
    for last in counted[-1:]:  # in Kart's, as where Kart made the commit: by what differs
        last.unlink()
        assert Repo.open(repo).dataset("points").rows == 4
        assert last.exists()


def test_fsck_finds_what_went_past_the_triggers(run: Run, edit: Edit, repo: Path) -> None:
    edit("UPDATE points SET name = 'drei' WHERE id = 4")
    assert run("fsck", "--full").exit_code == 0, "an edit is none"
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    track = next(t for t in ("gpkg_kart_track", "gpkg_havasu_vc_track") if has(repo, t))
    edit(f"DELETE FROM {track} WHERE pk = '1'")

    assert run("fsck").exit_code == 0
    found = run("fsck", "--full")
    assert found.exit_code == 1
    assert "points in the working copy: 1 row differs from the dataset" in found.stdout
    assert run("fsck", "--reset-dataset", "none").exit_code != 0
    succeed(run("fsck", "--full", "--reset-dataset", "points"))
    assert rows(repo) == [(1, "one"), (2, "TWO"), (4, "four")]
    assert "working copy clean" in succeed(run("status")).stdout
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    assert "1 update" in succeed(run("status")).stdout, "its triggers are there again"


def has(repo: Path, table: str) -> bool:
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        query = "SELECT count(*) FROM sqlite_master WHERE name = ?"
        return bool(database.execute(query, (table,)).fetchone()[0])


def test_it_follows_head(run: Run, repo: Path) -> None:
    succeed(run("switch", "-c", "past", "HEAD^"))
    assert rows(repo) == [(1, "one"), (2, "two"), (3, "three")]
    assert "working copy clean" in succeed(run("status")).stdout

    succeed(run("reset", "--hard", "main"))
    assert rows(repo) == [(1, "one"), (2, "TWO"), (4, "four")]
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        assert database.execute("SELECT rtreecheck('rtree_points_geom')").fetchone() == ("ok",)


@pytest.mark.few(1)
def test_edits_are_never_passed_over(run: Run, edit: Edit, repo: Path) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")

    for command in (("switch", "-c", "past", "HEAD^"), ("reset", "--hard", "HEAD^")):
        refused = run(*command)
        assert refused.exit_code == 29
        assert "not committed" in refused.stderr
    kept = run("create-workingcopy", "--delete-existing")
    assert kept.exit_code == (20 if (repo / ".kart").exists() else 29)
    assert rows(repo)[0] == (1, "uno")

    succeed(run("switch", "--discard-changes", "-c", "past", "HEAD^"))
    assert rows(repo) == [(1, "one"), (2, "two"), (3, "three")]
    assert "working copy clean" in succeed(run("status")).stdout


def test_edits_are_dropped(run: Run, edit: Edit, repo: Path) -> None:
    edit("UPDATE points SET id = 7 WHERE id = 1")
    edit("INSERT OR REPLACE INTO points (id, name) VALUES (4, 'vier')")

    assert "Dropped the edits of points" in succeed(run("restore")).output
    assert rows(repo) == [(1, "one"), (2, "TWO"), (4, "four")]
    assert "working copy clean" in succeed(run("status")).stdout


@pytest.mark.thorough
def test_an_editor_that_holds_the_lock_stops_it_before_anything_moved(run: Run, repo: Path) -> None:
    with editor(repo / "repo.gpkg") as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute("UPDATE points SET name = 'uno' WHERE id = 1")
        for command in (("switch", "-c", "past", "HEAD^"), ("commit", "-m", "x"), ("restore",)):
            refused = run(*command)
            assert (refused.exit_code, "QGIS" in refused.stderr) == (20, True)
        assert "On branch main" in succeed(run("status")).stdout
        database.rollback()
    assert rows(repo)[0] == (1, "one")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "damage",
    [
        ["DROP TRIGGER {prefix}_track_points_del", "DELETE FROM points WHERE id < 3"],
        [
            "CREATE TABLE aside AS SELECT * FROM sqlite_master WHERE name LIKE '%track_points_del'",
            "DROP TRIGGER {prefix}_track_points_del",
            "DELETE FROM points WHERE id < 3",
            "{again}",
        ],
    ],
    ids=["a missing trigger", "rows deleted while a trigger was away"],
)
def test_the_track_is_trusted_but_verified(
    run: Run, edit: Edit, repo: Path, damage: list[str]
) -> None:
    prefix = "_kart" if (repo / ".kart").exists() else "_havasu_vc"
    for statement in damage:
        if statement == "{again}":
            (statement,) = rows(repo, "sql", "aside")[0]  # type: ignore[assignment]
        edit(statement.format(prefix=prefix))

    told = succeed(run("status")).stdout
    assert "2 deletes" in told
    assert "compared in full" in told
    succeed(run("commit", "-m", "Fewer"))
    assert "working copy clean" in succeed(run("status")).stdout
    assert "compared in full" not in run("status").stdout


@pytest.mark.thorough
def test_a_column_is_added_renamed_and_dropped(run: Run, edit: Edit) -> None:
    before = json.loads(succeed(run("meta", "get", "points", "schema.json", "-o", "json")).stdout)
    edit("ALTER TABLE points RENAME COLUMN name TO label")
    edit("ALTER TABLE points ADD COLUMN floors INTEGER")
    edit("ALTER TABLE points DROP COLUMN height")
    edit("UPDATE points SET floors = 3 WHERE id = 1")

    diff = json.loads(succeed(run("diff", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]["points"]
    assert len(diff["feature"]) == 1
    succeed(run("commit", "-m", "Other columns"))

    after = json.loads(succeed(run("meta", "get", "points", "schema.json", "-o", "json")).stdout)
    ids = {column["name"]: column["id"] for column in _columns(before)}
    now = {column["name"]: column["id"] for column in _columns(after)}
    assert now["label"] == ids["name"]
    assert set(now) == {"id", "label", "floors", "lon", "lat", "geom"}
    assert "working copy clean" in succeed(run("status")).stdout
    edit("UPDATE points SET floors = 4 WHERE id = 2")
    assert "1 updates" in succeed(run("status")).stdout
    succeed(run("commit", "-m", "More"))

    succeed(run("switch", "-c", "past", "HEAD^^"))
    assert "working copy clean" in succeed(run("status")).stdout
    succeed(run("switch", "main"))
    assert "working copy clean" in succeed(run("status")).stdout


def _columns(value: object) -> list[dict[str, str]]:
    assert isinstance(value, dict)
    found = value["points"]["schema.json"]
    assert isinstance(found, list)
    return found


@pytest.mark.few(1)
def test_a_table_that_is_gone_is_a_deletion_that_is_told(run: Run, edit: Edit, repo: Path) -> None:
    edit("DROP TABLE points")
    assert "a commit deletes the dataset" in succeed(run("status")).stdout

    succeed(run("restore"))
    assert rows(repo) == [(1, "one"), (2, "TWO"), (4, "four")]

    # Of a geometry that the file says nothing of any more, the index is still there.
    edit("DROP TABLE points")
    edit("DELETE FROM gpkg_geometry_columns")
    succeed(run("restore"))
    assert rows(repo) == [(1, "one"), (2, "TWO"), (4, "four")]

    edit("DROP TABLE points")
    succeed(run("commit", "-m", "Gone"))
    assert json.loads(run("data", "ls", "-o", "json").stdout) == {"kart.data.ls/v1": []}
    succeed(run("reset", "--hard", "HEAD^"))
    assert rows(repo) == [(1, "one"), (2, "TWO"), (4, "four")]


def test_a_table_that_was_renamed_is_still_the_dataset(run: Run, edit: Edit, repo: Path) -> None:
    edit("ALTER TABLE points RENAME TO places")
    edit("UPDATE places SET name = 'uno' WHERE id = 1")
    assert "its table is called places now" in succeed(run("status")).stdout
    succeed(run("commit", "-m", "Renamed"))
    assert rows(repo, table="places")[0] == (1, "uno")
    assert "working copy clean" in succeed(run("status")).stdout


def test_bad_input(run: Run, edit: Edit, repo: Path, tmp_path: Path) -> None:
    assert run("create-workingcopy", "--delete-existing", "mysql://localhost/x").exit_code == 30
    assert run("create-workingcopy", "--delete-existing", "postgresql://localhost/x").exit_code == 2
    assert run("create-workingcopy", "--delete-existing", "copy.txt").exit_code == 2
    there = run("create-workingcopy", "--no-delete-existing")
    assert there.exit_code == (20 if (repo / ".kart").exists() else 2)
    edit("UPDATE points SET height = 'tall' WHERE id = 1")
    refused = run("commit", "-m", "Odd")
    assert (refused.exit_code, "'height'" in refused.stderr) == (23, True)
    succeed(invoke(["init", "--bare", tmp_path / "bare"]))
    assert invoke(["-C", tmp_path / "bare", "create-workingcopy"]).exit_code == 20


def test_a_file_that_is_no_working_copy_is_told_and_kept(run: Run, repo: Path) -> None:
    path = repo / "repo.gpkg"
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE mine (x)")
    assert "no working copy" in run("status").stdout
    assert run("commit", "-m", "x").exit_code == 28
    assert run("create-workingcopy", "--delete-existing").exit_code == 28
    assert rows(repo, "count(*)", "mine") == [(0,)]


@pytest.mark.few(1)
def test_edits_are_set_aside_and_come_back(run: Run, edit: Edit, repo: Path) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("DELETE FROM points WHERE id = 4")
    edit("INSERT INTO points (id, name) VALUES (9, 'nine')")
    succeed(run("stash"))
    assert rows(repo) == [(1, "one"), (2, "TWO"), (4, "four")]
    assert "working copy clean" in succeed(run("status")).stdout

    edit("UPDATE points SET name = 'zwei' WHERE id = 2")
    assert run("stash", "pop").exit_code == 29
    succeed(run("commit", "-m", "Two"))
    succeed(run("stash", "pop"))

    assert rows(repo) == [(1, "uno"), (2, "zwei"), (9, "nine")]
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    counts = {"inserts": 1, "updates": 1, "deletes": 1}
    assert status["workingCopy"]["changes"] == {"points": {"feature": counts}}
    assert run("stash", "pop").exit_code == 40


def test_a_stash_goes_where_the_table_went(run: Run, edit: Edit, repo: Path) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    succeed(run("stash"))
    succeed(run("mv", "points", "places"))
    succeed(run("stash", "pop"))

    assert rows(repo, table="places")[0] == (1, "uno")
    assert "places" in succeed(run("status")).stdout
    succeed(run("stash"))
    edit("DELETE FROM places WHERE id = 4")
    succeed(run("commit", "-m", "Less"))
    succeed(run("mv", "places", "points"))
    popped = run("stash", "pop")
    if Repo.open(repo).dataset("points").marker.startswith(".table"):
        # Nothing in it tells that it is the same one, and it is told how to go on.
        assert popped.exit_code == 40 and "places is not at HEAD" in popped.stderr
        hint = popped.stderr.partition("`")[2].partition("`")[0]
        succeed(run(*hint.split()[1:]))
        succeed(run("stash", "pop"))
        assert rows(repo, table="places") == [(1, "uno"), (2, "TWO"), (4, "four")]
        return
    assert rows(repo) == [(1, "uno"), (2, "TWO")]
    succeed(run("commit", "-m", "One"))
    assert "working copy clean" in succeed(run("status")).stdout


@pytest.mark.few(1)
def test_branches_are_merged_in_place(run: Run, edit: Edit, repo: Path) -> None:
    succeed(run("switch", "-c", "other"))
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    succeed(run("commit", "-m", "Name"))
    succeed(run("switch", "main"))
    edit("UPDATE points SET height = 7 WHERE id = 1")
    edit("DELETE FROM points WHERE id = 2")
    succeed(run("commit", "-m", "Height"))

    edit("UPDATE points SET name = 'x' WHERE id = 4")
    assert run("merge", "other").exit_code == 29
    succeed(run("restore"))
    succeed(run("merge", "other", "-m", "Both"))

    assert rows(repo, "id, name, height") == [(1, "uno", 7.0), (4, "four", 4.5)]
    assert "working copy clean" in succeed(run("status")).stdout
    succeed(run("revert", "HEAD~1"))
    assert "working copy clean" in succeed(run("status")).stdout


DYING = """
import os, sqlite3, sys

left = int(sys.argv[1])

def died() -> None:
    global left
    left -= 1
    if left == 0:
        os._exit(99)

class Connection(sqlite3.Connection):
    def execute(self, statement, *rest):
        if statement.split()[0] not in ("SELECT", "PRAGMA"):
            died()
        return super().execute(statement, *rest)

    def executemany(self, statement, rows):
        died()
        return super().executemany(statement, rows)

connect = sqlite3.connect
sqlite3.connect = lambda *given, **named: connect(*given, factory=Connection, **named)
replaced = os.replace

def replace(*given):
    died()
    replaced(*given)

os.replace = replace
from havasu_vc.cli.main import main
sys.argv[1:] = sys.argv[2:]
main()
"""


@pytest.mark.parametrize(
    "command",
    [
        ("switch", "--discard-changes", "-c", "past", "HEAD^"),
        ("commit", "-m", "One"),
        ("restore",),
        ("stash",),
    ],
    ids=lambda command: str(command[0]),
)
@pytest.mark.thorough
def test_what_was_cut_off_is_finished_by_the_next_command(
    run: Run, edit: Edit, repo: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Die in turn at each call by which the file changes or HEAD moves, then look."""
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    template = copy_tree(repo, tmp_path / "template")
    edited = rows(repo)
    deaths, number = 0, 1
    while True:
        shutil.rmtree(repo)
        copy_tree(template, repo)
        words = [sys.executable, "-c", DYING, str(number), "-C", str(repo), *command]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        status = json.loads(succeed(run("status", "-o", "json")).stdout)
        changed = status["kart.status/v2"]["workingCopy"]["changes"]
        assert rows(repo) == (edited if changed else names_at_head(run)), number
        marks = [*repo.glob(".*/havasu/working-copy-behind")]
        assert marks == []
        if done.returncode != 99:
            assert done.returncode == 0, done.stderr
            break
        deaths, number = deaths + 1, number + 1 + number // 8
    assert deaths > 5


def names_at_head(run: Run) -> list[tuple[object, ...]]:
    """Return the rows of HEAD, from the dataset itself."""
    shown = succeed(run("diff", "[EMPTY]...HEAD", "-o", "json", "points:feature")).stdout
    changes = json.loads(shown)["kart.diff/v1+hexwkb"]["points"]["feature"]
    return [(each["+"]["id"], each["+"]["name"]) for each in changes]


@pytest.mark.thorough
def test_a_table_that_an_editor_made_becomes_a_dataset(run: Run, edit: Edit, repo: Path) -> None:
    edit("CREATE TABLE shops (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, name TEXT)")
    edit("INSERT INTO shops (name) VALUES ('baker'), ('butcher')")
    edit("INSERT INTO gpkg_contents (table_name, data_type) VALUES ('shops', 'attributes')")
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    assert "add-dataset shops" in succeed(run("status")).stdout
    known = run("add-dataset", "points")
    assert known.exit_code == (44 if (repo / ".kart").exists() else 40)
    assert run("add-dataset").exit_code == 2

    succeed(run("add-dataset", "shops", "-m", "Shops"))

    changes = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert changes["workingCopy"]["changes"] == {"points": {"feature": {"updates": 1}}}
    edit("UPDATE shops SET name = 'candlestick maker' WHERE fid = 2")
    succeed(run("commit", "shops", "-m", "Trade"))
    assert rows(repo, "fid, name", "shops") == [(1, "baker"), (2, "candlestick maker")]
    assert "points" in succeed(run("status")).stdout
    assert run("add-dataset", "--all-layers").exit_code == 44

    succeed(run("restore"))
    succeed(run("switch", "-d", "HEAD~2"))
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        assert database.execute("PRAGMA table_info(shops)").fetchall() == []
    succeed(run("switch", "main"))
    assert rows(repo, "fid, name", "shops") == [(1, "baker"), (2, "candlestick maker")]


@pytest.mark.thorough
def test_a_table_of_ones_own_is_never_taken_for_a_dataset(run: Run, edit: Edit, repo: Path) -> None:
    edit("CREATE TABLE shops (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, name TEXT)")
    edit("INSERT INTO gpkg_contents (table_name, data_type) VALUES ('shops', 'attributes')")
    edit("INSERT INTO shops (name) VALUES ('baker')")
    succeed(run("add-dataset", "shops"))
    succeed(run("switch", "-c", "past", "HEAD^"))
    edit("CREATE TABLE shops (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, name TEXT)")
    edit("INSERT INTO shops (name) VALUES ('mine')")

    assert "has the name of the dataset shops" in succeed(run("switch", "main")).stderr
    assert rows(repo, "name", "shops") == [("mine",)]
    edit("DROP TABLE shops")
    run("checkout")
    assert rows(repo, "name", "shops") == [("baker",)]


def test_edits_stay_edits_of_an_import_that_leaves_their_rows_alone(
    run: Run, edit: Edit, repo: Path, tmp_path: Path
) -> None:
    source = tmp_path / "points.csv"
    source.write_text(SECOND.replace("TWO", "zwei"))
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("INSERT INTO points (id, name) VALUES (9, 'nine')")
    edited = {"points": {"feature": {"inserts": 1, "updates": 1}}}

    result = succeed(run("import", source, "--replace", "--crs", "EPSG:4326", "-m", "Release"))

    assert "not committed" not in result.stderr
    assert [(1, "uno"), (2, "zwei"), (9, "nine")] == [
        row for row in rows(repo) if row[0] in (1, 2, 9)
    ]
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert status["workingCopy"]["changes"] == edited
    # A row that both have otherwise is a question for a merge of rows.
    edit("UPDATE points SET name = 'deux' WHERE id = 2")
    source.write_text(SECOND.replace("TWO", "dos"))
    result = succeed(run("import", source, "--replace", "--crs", "EPSG:4326", "-m", "Release"))
    assert "points has edits that are not committed" in result.stderr
    assert (2, "deux") in rows(repo)


@pytest.mark.thorough
def test_edits_are_compared_with_any_revision(run: Run, edit: Edit) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("DELETE FROM points WHERE id = 4")

    diff = json.loads(succeed(run("diff", "HEAD^", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    changes = diff["points"]["feature"]
    assert [(c.get("-", {}).get("name"), c.get("+", {}).get("name")) for c in changes] == [
        ("one", "uno"), ("two", "TWO"), ("three", None),
    ]  # fmt: skip
    succeed(run("commit", "-m", "Edited"))
    committed = succeed(run("diff", "HEAD~2...HEAD", "-o", "json")).stdout
    assert json.loads(committed)["kart.diff/v1+hexwkb"] == diff
    assert succeed(run("diff", "HEAD~2", "-o", "json")).stdout == committed


def test_a_layer_that_gdal_overwrote_is_compared_in_full(run: Run, repo: Path) -> None:
    path = repo / "repo.gpkg"
    info = pyogrio.read_info(path, layer="points")
    _, table = pyogrio.read_arrow(path, layer="points", return_fids=True)
    kept = table.slice(0, 2).rename_columns(["id", *table.column_names[1:]])
    kept = kept.rename_columns([n if n != "geom" else "wkb" for n in kept.column_names])
    pyogrio.write_arrow(
        kept, path, layer="points", geometry_name="wkb", geometry_type="Point", crs=info["crs"],
        layer_options={"FID": "id", "GEOMETRY_NAME": "geom"},
    )  # fmt: skip

    told = succeed(run("status")).stdout
    assert "triggers that track edits are missing, so it was compared in full" in told
    assert "1 deletes" in told
    assert "updates" not in told
    succeed(run("commit", "-m", "Fewer"))
    assert "compared in full" not in succeed(run("status")).stdout
    assert rows(repo) == [(1, "one"), (2, "TWO")]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("import", "{file}", "-a"), "add-dataset"),
        (("import", "GPKG:{file}", "-a"), "add-dataset"),
        (("export", "points", "{file}", "--overwrite"), "another file"),
        (
            ("export", "points", "{file}", "--changes", "HEAD^...HEAD", "--overwrite"),
            "another file",
        ),
        (("checkout", "--as", "{file}", "--overwrite", "--discard-changes"), "another file"),
        (("commit", "--from", "{file}", "-m", "x"), "`havasu-vc commit`"),
    ],
)
def test_the_file_itself_is_no_source_and_no_target(
    run: Run, repo: Path, arguments: tuple[str, ...], hint: str
) -> None:
    file = repo / "repo.gpkg"
    before = file.read_bytes()
    refused = run(*(argument.format(file=file) for argument in arguments))
    assert refused.exit_code == 2, refused.output
    assert "is the working copy of this repository" in refused.stderr and hint in refused.stderr
    assert file.read_bytes() == before
    assert "Nothing to commit" in succeed(run("status")).output


@pytest.mark.few(1)
def test_some_edits_are_committed_and_the_others_stay(run: Run, edit: Edit, repo: Path) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("DELETE FROM points WHERE id = 2")
    edit("UPDATE points SET name = 'vier' WHERE id = 4")
    edit("INSERT INTO points (id, name) VALUES (9, 'nine')")
    after = rows(repo)

    succeed(run("commit", "points:feature:1", "points:9", "-m", "Two of them"))
    assert names_at_head(run) == [(1, "uno"), (2, "TWO"), (4, "four"), (9, "nine")]
    assert left(run) == {"updates": 1, "deletes": 1}
    assert run("commit", "points:1", "-m", "Nothing").exit_code == 44
    kart = (repo / ".kart").exists()
    assert run("commit", "points:nine", "-m", "No key").exit_code == (44 if kart else 2)
    unknown = run("commit", "pints:1", "-m", "No dataset")
    assert unknown.exit_code == (44 if kart else 49)

    succeed(run("commit", "points:2", "--dry-run"))
    succeed(run("commit", "points:2", "-m", "Gone"))
    assert names_at_head(run) == [(1, "uno"), (4, "four"), (9, "nine")]
    assert left(run) == {"updates": 1}
    succeed(run("commit", "points:feature", "-m", "The rest"))
    assert names_at_head(run) == rows(repo) == after
    assert left(run) == {}


def left(run: Run) -> dict[str, int]:
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    changes = status["workingCopy"]["changes"]
    return dict(changes["points"].get("feature", {})) if changes else {}


@pytest.mark.thorough
def test_columns_are_committed_before_rows(run: Run, edit: Edit, repo: Path) -> None:
    edit("ALTER TABLE points ADD COLUMN note TEXT")
    edit("UPDATE points SET note = 'x', name = 'uno' WHERE id = 1")
    refused = run("commit", "points:1", "-m", "A row")
    assert (refused.exit_code, "columns of points" in refused.stderr) == (20, True)

    succeed(run("commit", "points:meta", "-m", "A column"))
    assert left(run) == {"updates": 1}
    assert names_at_head(run)[0] == (1, "one")
    succeed(run("commit", "points:1", "-m", "A row"))
    assert left(run) == {}
    assert names_at_head(run) == rows(repo)


@pytest.mark.thorough
def test_some_edits_are_committed_where_triggers_are_gone(run: Run, edit: Edit, repo: Path) -> None:
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        found = "SELECT name FROM sqlite_master WHERE name LIKE '%track_points_%'"
        triggers = [name for (name,) in database.execute(found).fetchall()]
    for name in triggers:
        edit(f'DROP TRIGGER "{name}"')
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("UPDATE points SET name = 'vier' WHERE id = 4")

    succeed(run("commit", "points:4", "-m", "Four"))

    assert left(run) == {"updates": 1}
    assert "compared in full" not in succeed(run("status")).stdout
    assert names_at_head(run) == [(1, "one"), (2, "TWO"), (4, "vier")]


def part_of(run: Run) -> dict[str, object]:
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    return dict(status["workingCopy"]["parts"]["tabular"])


@pytest.mark.few(1)
def test_status_says_how_the_file_is(run: Run, edit: Edit, repo: Path) -> None:
    head = json.loads(succeed(run("log", "-n", "1", "-o", "json")).stdout)[0]["commit"]
    place = str(repo / "repo.gpkg")
    # In Kart's repositories, as its readers expect it.
    known = {"location": "repo.gpkg", "path": place} if (repo / ".kart").exists() else {}
    assert part_of(run) == {
        "type": "gpkg",
        "location": place,
        **known,
        "status": "ok",
        "commit": head,
        "tree": run_git("rev-parse", "HEAD^{tree}", cwd=repo).strip(),
        "missingTriggers": [],
        "lockedByEditor": False,
    }
    edit("CREATE TABLE mine (fid INTEGER PRIMARY KEY, name TEXT)")
    edit(
        "INSERT INTO gpkg_contents (table_name, data_type, identifier) "
        "VALUES ('mine', 'attributes', 'mine')"
    )
    track = "_kart_track" if (repo / ".kart").exists() else "_havasu_vc_track"
    edit(f"DROP TRIGGER {track}_points_upd")
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert status["workingCopy"]["untrackedTables"] == ["mine"]
    assert part_of(run)["missingTriggers"] == ["points"]
    with editor(repo / "repo.gpkg") as database:
        database.execute("BEGIN IMMEDIATE")
        assert part_of(run)["lockedByEditor"] is True


@pytest.mark.few(1)
def test_a_file_that_is_gone_or_of_another_repository_is_told(run: Run, repo: Path) -> None:
    path = repo / "repo.gpkg"
    with closing(sqlite3.connect(path)) as database:
        table = "kart" if (repo / ".kart").exists() else "havasu_vc"
        database.execute(f"UPDATE gpkg_{table}_state SET value = '{'1' * 40}' WHERE key = 'tree'")
        database.commit()
    for command in (("diff",), ("commit", "-m", "x"), ("restore",)):
        refused = run(*command)
        assert (refused.exit_code, "not in this repository" in refused.stderr) == (70, True)

    path.unlink()
    assert "working copy clean" in succeed(run("status")).stdout
    assert part_of(run)["status"] == "notFound"
    for command in (("diff",), ("commit", "-m", "x"), ("restore",)):
        refused = run(*command)
        assert (refused.exit_code, "no working copy at" in refused.stderr) == (45, True)
    assert run("diff", "HEAD^...HEAD").exit_code == 0


@pytest.mark.thorough
def test_what_was_is_restored_as_edits(run: Run, edit: Edit, repo: Path) -> None:
    head = run_git("rev-parse", "HEAD", cwd=repo)
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    beside = run("restore", "-s", "HEAD^")
    if (repo / ".kart").exists():
        # As Kart does, but that what goes is named.
        assert "Dropped the edits of points" in succeed(beside).output
        assert rows(repo) == [(1, "one"), (2, "two"), (3, "three")]
    else:
        assert beside.exit_code == 29
        assert rows(repo)[0] == (1, "uno")
    succeed(run("restore"))

    told = succeed(run("restore", "-s", "HEAD^", "points:feature:2")).output
    assert "In the working copy, not committed:\n  points: 1 update" in told
    assert rows(repo) == [(1, "one"), (2, "two"), (4, "four")]
    assert left(run) == {"updates": 1}
    succeed(run("restore"))
    succeed(run("restore", "-s", "HEAD^"))
    assert rows(repo) == [(1, "one"), (2, "two"), (3, "three")]
    assert left(run) == {"inserts": 1, "updates": 1, "deletes": 1}
    assert run_git("rev-parse", "HEAD", cwd=repo) == head

    succeed(run("restore"))
    succeed(run("restore", "-s", "HEAD^", "-m", "As it was"))
    assert names_at_head(run) == rows(repo) == [(1, "one"), (2, "two"), (3, "three")]
    assert left(run) == {}
    assert run("restore", "-s", "HEAD").exit_code == (0 if (repo / ".kart").exists() else 44)


@pytest.mark.thorough
def test_columns_that_were_are_restored_as_edits(run: Run, edit: Edit, repo: Path) -> None:
    edit("ALTER TABLE points ADD COLUMN note TEXT")
    succeed(run("commit", "-m", "A column"))
    succeed(run("meta", "set", "points", "title=Points of interest", "-m", "A title"))

    restored = succeed(run("restore", "-s", "HEAD~2", "points"))

    noted = "points: title cannot stand in the working copy" in restored.output
    assert noted != (repo / ".kart").exists()  # of ours, whose layer is called something
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        assert "note" not in [each[1] for each in database.execute("PRAGMA table_info(points)")]
    succeed(run("commit", "-m", "Without it again"))
    assert run("diff", "--exit-code", "HEAD~3...HEAD", "points:meta:schema.json").exit_code == 0
    succeed(run("rm", "points", "-m", "Gone"))
    refused = run("restore", "-s", "HEAD^")
    assert (refused.exit_code, "not on both sides" in refused.stderr) == (2, True)


@pytest.mark.thorough
def test_a_patch_is_applied_as_edits(run: Run, edit: Edit, repo: Path, tmp_path: Path) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("DELETE FROM points WHERE id = 4")
    after = rows(repo)
    succeed(run("commit", "-m", "Two edits"))
    patch = tmp_path / "two.patch"
    patch.write_text(succeed(run("create-patch", "HEAD")).stdout)
    succeed(run("reset", "--hard", "HEAD^"))

    told = succeed(run("apply", "--no-commit", patch)).output

    assert "In the working copy, not committed:\n  points: 1 update, 1 delete" in told
    assert rows(repo) == after
    assert left(run) == {"updates": 1, "deletes": 1}
    assert run("apply", "--no-commit", patch).exit_code == 29
    succeed(run("commit", "-m", "By hand"))
    assert names_at_head(run) == after

    succeed(run("rm", "points", "-m", "Gone"))
    patch.write_text(succeed(run("create-patch", "HEAD")).stdout)
    succeed(run("reset", "--hard", "HEAD^"))
    refused = run("apply", "--no-commit", patch)
    assert (refused.exit_code, "can show as edits" in refused.stderr) == (22, True)
    assert rows(repo) == after


@pytest.mark.thorough
def test_a_clone_has_a_working_copy_where_one_is_asked_for(repo: Path, tmp_path: Path) -> None:
    clone, bare = tmp_path / "clone", tmp_path / "without"
    told = succeed(invoke(["clone", "--workingcopy", "edits.gpkg", repo, clone])).output
    file = clone / "edits.gpkg"
    assert f"Wrote 3 rows to {file}" in told
    assert not (clone / "tables").exists()
    with editor(file) as database:
        database.execute("DELETE FROM points WHERE id = 1")
    status = json.loads(succeed(invoke(["-C", clone, "status", "-o", "json"])).stdout)
    changes = status["kart.status/v2"]["workingCopy"]["changes"]
    assert changes == {"points": {"feature": {"deletes": 1}}}

    succeed(invoke(["clone", "--no-checkout", repo, bare]))
    assert not list(bare.glob("*.gpkg"))
    refused = invoke(["clone", "--bare", "--workingcopy", "x.gpkg", repo, tmp_path / "c"])
    assert (refused.exit_code, (tmp_path / "c").exists()) == (2, False)
    other = invoke(["clone", "--workingcopy", "x.txt", repo, tmp_path / "d"])
    assert (other.exit_code, "x.txt" in other.output + other.stderr) == (2, True)


def test_a_dataset_in_two_working_copies_is_told_once(run: Run, edit: Edit, repo: Path) -> None:
    if (repo / ".kart").exists():
        pytest.skip("Kart's repositories have one working copy")
    succeed(run("checkout", "--to", str(repo / "tables")))
    before = succeed(run("diff", "HEAD^", "-o", "json")).stdout
    assert before == succeed(run("diff", "HEAD^...HEAD", "-o", "json")).stdout
    assert succeed(run("diff", "HEAD^", "--name-only")).stdout == "points\n"
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    assert succeed(run("diff", "HEAD^", "--name-only")).stdout == "points\n"
    shown = json.loads(succeed(run("diff", "HEAD^", "-o", "json")).stdout)
    changes = shown["kart.diff/v1+hexwkb"]["points"]["feature"]
    assert "uno" in [change.get("+", {}).get("name") for change in changes]
    assert [change.get("+", {}).get("name") for change in changes].count("TWO") == 1


def test_fingers_that_know_git(run: Run, edit: Edit) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("CREATE TABLE notes (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, text TEXT)")
    edit("INSERT INTO gpkg_contents (table_name, data_type) VALUES ('notes', 'attributes')")
    for option in ("-s", "--short", "--porcelain"):
        assert succeed(run("status", option)).stdout == " M points\n?? notes\n"
    everything = succeed(run("diff", "-o", "json")).stdout
    assert everything == succeed(run("diff", ".", "-o", "json")).stdout
    assert "1 update" in succeed(run("commit", "-m", "x", ".")).output
    edit("UPDATE points SET name = 'due' WHERE id = 2")
    succeed(run("restore", "."))
    assert succeed(run("status", "-s")).stdout == "?? notes\n"
    assert succeed(run("log", "--oneline", "-1", "--", ".")).stdout.endswith(" x\n")


@pytest.mark.parametrize("wrong", OPTIONS_OF_GIT)
def test_an_option_that_git_alone_has_is_answered(run: Run, wrong: str) -> None:
    refused = run(*wrong.split())
    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[-1] == f"Hint: {OPTIONS_OF_GIT[wrong]}"
    assert "Did you mean" not in refused.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("inside", [True, False])
def test_a_linked_work_tree_has_one_of_its_own(inside: bool, tmp_path: Path) -> None:
    repo, other, source = tmp_path / "repo", tmp_path / "other", tmp_path / "points.csv"
    succeed(invoke(["init", repo]))
    source.write_text(FIRST)
    succeed(invoke(["-C", repo, "import", source, "--primary-key", "id", "--crs", "EPSG:4326"]))
    mine = repo / "wc.gpkg" if inside else tmp_path / "wc.gpkg"
    succeed(invoke(["-C", repo, "create-workingcopy", mine]))
    run_git("worktree", "add", "--quiet", "-b", "side", str(other), cwd=repo)
    with editor(mine) as database:
        database.execute("UPDATE points SET name = 'mine' WHERE id = 1")

    def told(folder: Path) -> str:
        return succeed(invoke(["-C", folder, "status"])).stdout

    assert "working copy" not in told(other) and "1 update" in told(repo)
    assert invoke(["-C", other, "commit", "-m", "Not mine"]).exit_code != 0
    theirs = other / "wc.gpkg" if inside else tmp_path / "theirs.gpkg"
    succeed(invoke(["-C", other, "create-workingcopy", theirs]))
    assert "working copy clean" in told(other) and "1 update" in told(repo)
    with editor(theirs) as database:
        database.execute("DELETE FROM points WHERE id = 2")
    succeed(invoke(["-C", other, "commit", "-m", "Theirs"]))
    assert "working copy clean" in told(other) and "1 update" in told(repo)
    succeed(invoke(["-C", repo, "commit", "-m", "Mine"]))
    assert "working copy clean" in told(repo)
    kept = [succeed(invoke(["-C", repo, "cat", f"points@{name}", "-o", "csv"])).stdout
            for name in ("main", "side")]  # fmt: skip
    assert "mine" in kept[0] and "mine" not in kept[1] and len(kept[1]) < len(kept[0])
