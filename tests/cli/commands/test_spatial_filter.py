"""`--spatial-filter` of `checkout`, `clone` and others, and `havasu-vc spatial-filter`."""

import json
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.commands.test_workingcopy import editor, rows
from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git
from tests.support.templates import copy_tree

POINTS = """\
id,name,lon,lat
1,one,174.5,-41.0
2,two,174.6,-41.1
3,three,174.7,-41.2
4,four,174.8,-41.3
5,five,,
"""
BOX = "EPSG:4326;174.45,-41.15,174.65,-40.95"
POLYGON = "POLYGON ((174.45 -41.15,174.65 -41.15,174.65 -40.95,174.45 -40.95,174.45 -41.15))"
Edit = Callable[[str], None]


@pytest.fixture(scope="module", params=["havasu", "kart"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a working copy of three of five rows, and a branch that changed others."""
    folder = tmp_path_factory.mktemp("filtered")
    source, repo = folder / "points.csv", folder / "repo"
    succeed(invoke(["init", repo, *(["--kart"] if request.param == "kart" else [])]))
    common: list[str | Path] = ["-C", repo, "import", source, "--primary-key", "id"]
    source.write_text(POINTS)
    succeed(invoke([*common, "--crs", "EPSG:4326", "-m", "First"]))
    succeed(invoke(["-C", repo, "switch", "-c", "side"]))
    source.write_text(POINTS.replace("three", "THREE").replace("two", "TWO"))
    succeed(invoke([*common, "--replace", "--crs", "EPSG:4326", "-m", "Side"]))
    succeed(invoke(["-C", repo, "switch", "main"]))
    succeed(invoke(["-C", repo, "create-workingcopy", "--spatial-filter", BOX]))
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


def is_kart(repo: Path) -> bool:
    return (repo / ".kart").exists()


@pytest.mark.few(1)
def test_it_has_what_is_inside_and_what_is_nowhere(repo: Path, run: Run) -> None:
    assert rows(repo) == [(1, "one"), (2, "two"), (5, "five")]
    told = succeed(run("status")).stdout
    assert (
        "A spatial filter is active, limiting repo to a specific region inside "
        "[174.450, -41.150, 174.650, -40.950]" in told
    )
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert status["spatialFilter"]["crs"] == "EPSG:4326"
    assert status["spatialFilter"]["geometry"].startswith("0103000000010000000500000066666666")
    section = "kart" if is_kart(repo) else "havasu"
    config = Repo.open(repo).config
    assert config.get(f"{section}.spatialfilter.geometry") == POLYGON
    assert config.get(f"{section}.spatialfilter.crs") == "EPSG:4326"


def test_keys_that_an_editor_is_given_are_of_no_hidden_row(
    repo: Path, run: Run, edit: Edit
) -> None:
    succeed(run("checkout", "--spatial-filter", "EPSG:4326;174.45,-41.15,174.55,-40.95"))
    edit("DELETE FROM points WHERE id = 5")
    edit("INSERT INTO points (name) VALUES ('new')")
    assert rows(repo)[-1] == (6, "new")


def test_a_key_of_a_hidden_row_is_refused_by_name(repo: Path, run: Run, edit: Edit) -> None:
    edit("INSERT INTO points (id, name) VALUES (4, 'mine')")
    edit("INSERT INTO points (id, name) VALUES (9, 'nine')")
    status = succeed(run("status"))
    assert "1 inserts" in status.stdout and "1 spatial filter conflicts" in status.stdout
    diff = succeed(run("diff", "-o", "json"))
    assert "In dataset points the conflicting primary key values are: 4" in diff.stderr

    refused = run("commit", "-m", "Both")
    assert refused.exit_code == 27
    assert "In dataset points the conflicting primary key values are: 4" in refused.stderr
    succeed(run("commit", "points:9", "-m", "The free one"))
    succeed(run("commit", "--allow-spatial-filter-conflicts", "-m", "The other"))

    assert succeed(run("count", "points")).stdout.split()[-1] == "6"
    assert "mine" in succeed(run("cat", "points")).stdout
    assert "working copy clean" in succeed(run("status")).stdout


def test_a_hidden_key_that_was_typed_and_removed_is_nothing(run: Run, edit: Edit) -> None:
    edit("INSERT INTO points (id, name) VALUES (4, 'mine')")
    edit("DELETE FROM points WHERE id = 4")
    assert "working copy clean" in succeed(run("status")).stdout
    assert run("commit", "-m", "Nothing").exit_code == 44


def test_a_merge_reaches_hidden_rows(repo: Path, run: Run, edit: Edit) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    succeed(run("commit", "-m", "Ours"))
    succeed(run("merge", "side", "-m", "Merged"))

    assert rows(repo) == [(1, "uno"), (2, "TWO"), (5, "five")]
    assert "THREE" in succeed(run("cat", "points")).stdout
    assert "working copy clean" in succeed(run("status")).stdout


@pytest.mark.few(1)
def test_a_conflict_of_a_hidden_row_is_not_taken_from_the_file(repo: Path, run: Run) -> None:
    succeed(run("checkout", "--spatial-filter", "none"))
    with editor(repo / "repo.gpkg") as database:
        database.execute("UPDATE points SET name = 'tres' WHERE id = 3")
    succeed(run("commit", "-m", "Ours"))
    succeed(run("checkout", "--spatial-filter", BOX))
    run("merge", "side", "-m", "Merged")

    taken = run("resolve", "points:feature:3", "--with=workingcopy")
    assert taken.exit_code == 20
    assert "points:feature:3 is outside of the spatial filter" in taken.stderr
    succeed(run("resolve", "points:feature:3", "--with=theirs"))
    again = run("resolve", "points:feature:3", "--with=ours")
    assert (again.exit_code, again.stderr.splitlines()[0]) == (
        20 if (repo / ".kart").is_dir() else 50,
        "Error: the conflict 'points:feature:3' is resolved already",
    )
    succeed(run("merge", "--continue", "-m", "Merged"))
    assert "THREE" in succeed(run("cat", "points")).stdout
    assert rows(repo) == [(1, "one"), (2, "TWO"), (5, "five")]


def test_a_stash_that_deletes_a_hidden_row_waits(repo: Path, run: Run, edit: Edit) -> None:
    edit("DELETE FROM points WHERE id = 2")
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    succeed(run("stash"))
    succeed(run("checkout", "--spatial-filter", "EPSG:4326;174.45,-41.05,174.55,-40.95"))
    refused = run("stash", "pop")
    assert refused.exit_code == 20
    assert "points:feature:2 is to be deleted, and is outside" in refused.stderr
    assert rows(repo) == [(1, "one"), (5, "five")]
    assert "working copy clean" in succeed(run("status")).stdout

    succeed(run("checkout", "--spatial-filter=none"))
    succeed(run("stash", "pop"))
    assert rows(repo) == [(1, "uno"), (3, "three"), (4, "four"), (5, "five")]


def test_restore_says_what_it_passes_over(repo: Path, run: Run) -> None:
    told = succeed(run("restore", "--source", "side")).stderr
    assert "points: 1 rows outside of the spatial filter stay as they are" in told
    assert rows(repo) == [(1, "one"), (2, "TWO"), (5, "five")]


def test_a_table_without_triggers_is_compared_in_full(repo: Path, run: Run, edit: Edit) -> None:
    name = "_kart_track_points" if is_kart(repo) else "_havasu_vc_track_points"
    edit(f'DROP TRIGGER "{name}_del"')
    edit("DELETE FROM points WHERE id = 2")
    edit("INSERT INTO points (id, name) VALUES (3, 'mine')")
    told = succeed(run("status")).stdout
    assert "compared in full" in told
    assert "1 deletes" in told and "1 spatial filter conflicts" in told
    assert "inserts" not in told


def test_rows_that_nobody_tracked_are_noticed(repo: Path, run: Run) -> None:
    name = "_kart_track_points_del" if is_kart(repo) else "_havasu_vc_track_points_del"
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database, database:
        (made,) = database.execute(
            "SELECT sql FROM sqlite_master WHERE name = ?", (name,)
        ).fetchone()
        database.execute(f'DROP TRIGGER "{name}"')
        database.execute("DROP TRIGGER rtree_points_geom_delete")
        database.execute("DELETE FROM points WHERE id = 2")
        database.execute(made)
    told = succeed(run("status")).stdout
    assert "more or fewer rows than were tracked" in told and "1 deletes" in told


def test_what_commits_changed_is_shown_as_in_kart(repo: Path, run: Run) -> None:
    shown = json.loads(succeed(run("show", "side", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    names = [each["+"]["name"] for each in shown["points"]["feature"]]
    assert names == (["TWO"] if is_kart(repo) else ["TWO", "THREE"])
    patch = json.loads(succeed(run("create-patch", "side")).stdout)["kart.diff/v1+hexwkb"]
    assert len(patch["points"]["feature"]) == len(names)


def test_a_filter_of_the_settings_waits_for_checkout(repo: Path, run: Run, edit: Edit) -> None:
    section = "kart" if is_kart(repo) else "havasu"
    config = Repo.open(repo).config
    config.set(f"{section}.spatialfilter.geometry", POLYGON.replace("41.15", "41.05"))
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    told = succeed(run("status")).stdout
    assert "the spatial filter of the settings is not the one" in told
    assert "1 updates" in told and "deletes" not in told
    assert run("checkout").exit_code == 29
    succeed(run("restore"))
    assert "no longer matches the working copy" in succeed(run("checkout")).stderr
    assert rows(repo) == [(1, "one"), (5, "five")]


def test_a_ref_names_a_filter(repo: Path, run: Run, tmp_path: Path) -> None:
    text = f"EPSG:4326\n\n{POLYGON.replace('41.15', '41.05')}\n"
    place = repo / (".kart" if is_kart(repo) else ".git")
    git = ("-C", str(place))
    (tmp_path / "filter.txt").write_text(text)
    blob = run_git(*git, "hash-object", "-w", str(tmp_path / "filter.txt"), cwd=tmp_path).strip()
    run_git(*git, "update-ref", "refs/filters/north", blob, cwd=tmp_path)

    assert succeed(run("spatial-filter", "resolve", "north")).stdout == text
    box = succeed(run("spatial-filter", "resolve", "north", "--envelope")).stdout
    assert box == "174.45,-41.05,174.65,-40.95\n"
    found = json.loads(succeed(run("spatial-filter", "resolve", blob, "-o", "json")).stdout)
    assert found["objectId"] == blob and found["crs"] == "EPSG:4326"

    succeed(run("checkout", "--spatial-filter", "north"))
    assert rows(repo) == [(1, "one"), (5, "five")]
    assert "at reference refs/filters/north" in succeed(run("status")).stdout
    assert run("checkout", "--spatial-filter", "south").exit_code == 52
    succeed(run("checkout", "--spatial-filter", f"@{tmp_path / 'filter.txt'}"))
    assert "reference" not in succeed(run("status")).stdout


def test_a_clone_has_what_is_inside(repo: Path, tmp_path: Path) -> None:
    kart = ["--kart"] if is_kart(repo) else []
    clone = tmp_path / "clone" / "repo"
    clone.parent.mkdir()
    succeed(invoke(["clone", *kart, "--spatial-filter", BOX, repo, clone]))
    assert rows(clone) == [(1, "one"), (2, "two"), (5, "five")]
    assert not (clone / "tables").exists()
    with editor(clone / "repo.gpkg") as database:
        database.execute("DELETE FROM points WHERE id = 1")
    succeed(invoke(["-C", clone, "commit", "-m", "Fewer"]))
    succeed(invoke(["-C", clone, "switch", "-c", "fewer"]))
    succeed(invoke(["-C", clone, "push", "origin", "fewer"]))
    count = succeed(invoke(["-C", repo, "count", "points@fewer"])).stdout
    assert count.split()[-1] == "4"


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("EPSG:4326;foobar", 2, "Invalid geometry"),
        ("EPSG:4326;POINT (1 1)", 2, "Expected geometry"),
        ("ABCD:1;POLYGON ((0 0, 1 0, 1 1, 0 0))", 2, "Invalid or unknown coordinate reference"),
        ("EPSG:4326;3,0,2,1", 2, "west beyond its east"),
        ("0,0,1,1", 2, "Invalid spatial filter definition"),
        ("@missing.txt", 48, "cannot be read"),
        ("nowhere", 52, "No spatial filter object was found"),
    ],
)
def test_what_is_no_filter_changes_nothing(
    repo: Path, run: Run, text: str, code: int, says: str
) -> None:
    before = Repo.open(repo).config.names()
    if code == 48 and (repo / ".kart").exists():
        code = 2  # as in Kart
    result = run("checkout", "--spatial-filter", text)
    assert (result.exit_code, says in result.stderr) == (code, True), result.stderr
    assert "Traceback" not in result.stderr
    assert Repo.open(repo).config.names() == before
    assert rows(repo) == [(1, "one"), (2, "two"), (5, "five")]
    made = repo.parent / "new"
    # As in Kart, a new repository has no filters that could be named.
    codes = (30,) if text == "nowhere" else (2, 48)
    assert invoke(["init", made, "--spatial-filter", text]).exit_code in codes
    assert not made.exists()


def test_only_data_files_of_the_area_are_brought(tmp_path: Path) -> None:
    source, repo, clone = tmp_path / "points.csv", tmp_path / "repo", tmp_path / "clone"
    near = "id,name,lon,lat\n" + "".join(f"{n},n{n},174.5,-41.0\n" for n in range(1, 9))
    add: list[str | Path] = ["import", source, "--primary-key", "id", "--crs", "EPSG:4326"]
    source.write_text(near)
    succeed(invoke(["init", repo]))
    succeed(invoke(["-C", repo, *add]))
    for number, row in enumerate(("9,far,10.0,50.0\n", "10,nowhere,,\n")):
        near += row
        source.write_text(near)
        succeed(invoke(["-C", repo, *add, "--replace", "-m", f"More {number}"]))
    assert len(list((repo / ".git" / "lfs" / "objects").rglob("*/*/*"))) == 3

    succeed(invoke(["clone", "--spatial-filter", BOX, repo, clone]))

    with closing(sqlite3.connect(clone / "clone.gpkg")) as database:
        ids = database.execute("SELECT id FROM points ORDER BY 1").fetchall()
    assert ids == [*((n,) for n in range(1, 9)), (10,)]
    assert len(list((clone / ".git" / "lfs" / "objects").rglob("*/*/*"))) == 2
    succeed(invoke(["-C", clone, "checkout", "--spatial-filter", "none"]))
    assert len(list((clone / ".git" / "lfs" / "objects").rglob("*/*/*"))) == 3


@pytest.mark.parametrize("kind", ["havasu", "kart"])
def test_rows_without_a_key_are_committed_once(kind: str, tmp_path: Path) -> None:
    source, repo = tmp_path / "marks.csv", tmp_path / "repo"
    source.write_text("name,lon,lat\na,1,1\nb,1,1\nc,8,8\nd,,\n")
    succeed(invoke(["init", repo, *(["--kart"] if kind == "kart" else [])]))
    succeed(invoke(["-C", repo, "import", source, "--crs", "EPSG:4326"]))
    limits = ["--spatial-filter", "EPSG:4326;0,0,2,2"]
    succeed(invoke(["-C", repo, "create-workingcopy", *limits]))
    far = "(SELECT geom FROM marks WHERE name = 'a')"
    with editor(repo / "repo.gpkg") as database:
        database.execute(f"INSERT INTO marks (name, geom) VALUES ('e', {far})")
        database.execute("DELETE FROM marks WHERE name = 'b'")
        shape = struct.pack("<2d", 9, 9)
        database.execute(f"INSERT INTO marks (name, geom) SELECT 'far', {far}")
        (there,) = database.execute("SELECT geom FROM marks WHERE name = 'far'").fetchone()
        moved = there[:13] + shape
        database.execute("UPDATE marks SET geom = ? WHERE name = 'far'", (moved,))
    succeed(invoke(["-C", repo, "commit", "-m", "First"]))
    assert [name for (name,) in rows(repo, "name", "marks")] == ["a", "d", "e"]
    with editor(repo / "repo.gpkg") as database:
        database.execute("UPDATE marks SET name = 'A' WHERE name = 'a'")
    succeed(invoke(["-C", repo, "commit", "-m", "Second"]))

    found = succeed(invoke(["-C", repo, "cat", "marks"])).stdout.splitlines()[1:]
    names = [line.split(",")[1 if kind == "kart" else 0] for line in found]
    assert sorted(names) == ["A", "c", "d", "e", "far"]
