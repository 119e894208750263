"""A merge with conflicts beside a living working copy."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.commands.test_workingcopy import DYING, editor
from tests.cli.conftest import Run, invoke, succeed
from tests.support.templates import copy_tree

FIRST = "id,name,height\n1,one,1.0\n2,two,2.0\n3,three,3.0\n4,four,4.0\n"
HEAD = [(1, "ours", 1.0), (2, "two", 22.0), (3, "three", 3.0), (4, "four", 4.0)]
MERGED = [(1, "ours", 1.0), (2, "zwei", 22.0), (4, "vier", 4.0), (5, "fünf", None)]


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose branches changed one cell of row 1 both, and other rows besides."""
    folder = tmp_path_factory.mktemp("merging")
    source, repo = folder / "points.csv", folder / "repo"
    source.write_text(FIRST)
    succeed(invoke(["init", repo]))
    for words in (("import", source, "--primary-key", "id"), ("create-workingcopy",)):
        succeed(invoke(["-C", repo, *words]))
    edits = {
        "theirs": (
            "UPDATE points SET name = 'theirs' WHERE id = 1",
            "UPDATE points SET name = 'zwei' WHERE id = 2",
            "UPDATE points SET name = 'vier' WHERE id = 4",
            "DELETE FROM points WHERE id = 3",
            "INSERT INTO points (id, name) VALUES (5, 'fünf')",
        ),
        "main": (
            "UPDATE points SET name = 'ours' WHERE id = 1",
            "UPDATE points SET height = 22 WHERE id = 2",
        ),
    }
    succeed(invoke(["-C", repo, "switch", "-c", "theirs"]))
    for branch, statements in edits.items():
        succeed(invoke(["-C", repo, "switch", branch]))
        with editor(repo / "repo.gpkg") as database:
            for statement in statements:
                database.execute(statement)
        succeed(invoke(["-C", repo, "commit", "-m", branch]))
    return repo


@pytest.fixture
def repo(parted: Path, tmp_path: Path) -> Path:
    return copy_tree(parted, tmp_path / "repo")


@pytest.fixture
def merging(repo: Path, run: Run) -> Path:
    """The same, in the middle of the merge."""
    assert "1 conflict" in succeed(run("merge", "theirs")).output
    return repo


def rows(repo: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        return database.execute("SELECT id, name, height FROM points ORDER BY id").fetchall()


def edit(repo: Path, statement: str) -> None:
    with editor(repo / "repo.gpkg") as database:
        database.execute(statement)


def counts(run: Run) -> dict[str, int]:
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    changes = status["workingCopy"]["changes"]
    return dict(changes["points"]["feature"]) if changes else {}


def at_head(run: Run) -> list[tuple[object, ...]]:
    shown = succeed(run("diff", "[EMPTY]...HEAD", "-o", "json", "points:feature")).stdout
    changes = json.loads(shown)["kart.diff/v1+hexwkb"]["points"]["feature"]
    return [tuple(each["+"][name] for name in ("id", "name", "height")) for each in changes]


@pytest.mark.thorough
def test_the_file_has_what_merged_cleanly_until_the_merge_ends(merging: Path, run: Run) -> None:
    assert rows(merging) == MERGED
    assert run("diff", "--exit-code").exit_code == 0
    status = succeed(run("status")).stdout
    assert 'Repository is in "merging" state' in status
    assert "not those of HEAD" not in status
    assert at_head(run) == HEAD

    succeed(run("merge", "--abort"))

    assert rows(merging) == HEAD
    assert counts(run) == {}
    assert "working copy clean" in succeed(run("status")).stdout


def test_the_end_of_a_merge_brings_what_was_resolved(merging: Path, run: Run) -> None:
    succeed(run("resolve", "points:feature:1", "--with=theirs"))
    assert rows(merging) == MERGED
    succeed(run("merge", "--continue"))

    assert rows(merging) == at_head(run) == [(1, "theirs", 1.0), *MERGED[1:]]
    assert counts(run) == {}


def test_a_conflict_is_resolved_with_the_row_that_stands_in_the_file(
    merging: Path, run: Run
) -> None:
    edit(merging, "UPDATE points SET name = 'both', height = 9 WHERE id = 1")
    shown = json.loads(succeed(run("diff", "-o", "json")).stdout)["kart.diff/v1+hexwkb"]
    assert [each["+"]["name"] for each in shown["points"]["feature"]] == ["both"]

    succeed(run("resolve", "points:feature:1", "--with=workingcopy"))
    succeed(run("merge", "--continue"))

    assert rows(merging) == at_head(run) == [(1, "both", 9.0), *MERGED[1:]]
    assert counts(run) == {}


def test_a_row_that_is_gone_from_the_file_is_deleted_by_name_alone(
    merging: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(merging, "DELETE FROM points WHERE id = 1")
    refused = run("resolve", "--all", "--with=workingcopy")
    assert (refused.exit_code, "no row for points:feature:1" in refused.stderr) == (40, True)
    assert "resolve points:feature:1 --with=delete" in refused.stderr
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["/usr/local/bin/kart"])
        refused = run("resolve", "points:feature:1", "--with=workingcopy")
    assert (refused.exit_code, refused.stderr) == (
        40,
        "Error: No feature found at points:feature:1 - to resolve a conflict by deleting the "
        "feature, use --with=delete\n",
    )
    succeed(run("resolve", "points:feature:1", "--with=delete"))
    succeed(run("merge", "--continue"))

    assert rows(merging) == at_head(run) == MERGED[1:]
    assert counts(run) == {}


def test_edits_made_meanwhile_outlive_the_merge(merging: Path, run: Run) -> None:
    edit(merging, "UPDATE points SET name = 'by hand' WHERE id IN (1, 2)")
    edit(merging, "INSERT INTO points (id, name) VALUES (9, 'nine')")
    refused = run("commit", "-m", "Meanwhile")
    assert (refused.exit_code, "merge waits" in refused.stderr) == (20, True)

    succeed(run("resolve", "points:feature:1", "--with=theirs"))
    succeed(run("merge", "--continue"))

    by_hand = [(1, "by hand", 1.0), (2, "by hand", 22.0), *MERGED[2:], (9, "nine", None)]
    assert rows(merging) == by_hand
    assert at_head(run) == [(1, "theirs", 1.0), *MERGED[1:]]
    assert counts(run) == {"inserts": 1, "updates": 2}
    succeed(run("commit", "-m", "Meanwhile"))
    assert at_head(run) == by_hand


def test_edits_made_meanwhile_outlive_its_abort(merging: Path, run: Run) -> None:
    edit(merging, "UPDATE points SET name = 'by hand' WHERE id = 1")
    edit(merging, "INSERT INTO points (id, name) VALUES (9, 'nine')")
    succeed(run("merge", "--abort"))

    assert rows(merging) == [(1, "by hand", 1.0), *HEAD[1:], (9, "nine", None)]
    assert counts(run) == {"inserts": 1, "updates": 1}


def test_an_abort_that_would_mix_an_edit_with_the_merge_is_refused_by_name(
    merging: Path, run: Run
) -> None:
    edit(merging, "UPDATE points SET height = 5 WHERE id = 4")
    refused = run("merge", "--abort")
    assert (refused.exit_code, "points:feature:4" in refused.stderr) == (29, True)
    assert 'Repository is in "merging" state' in succeed(run("status")).stdout

    succeed(run("restore", "points"))
    assert rows(merging) == MERGED
    succeed(run("merge", "--abort"))
    assert rows(merging) == HEAD


@pytest.mark.thorough
def test_an_edit_of_the_columns_is_told_and_kept(merging: Path, run: Run) -> None:
    edit(merging, "ALTER TABLE points ADD COLUMN note TEXT")
    refused = run("merge", "--abort")
    assert (refused.exit_code, "points was edited" in refused.stderr) == (29, True)

    succeed(run("resolve", "--all", "--with=theirs"))
    ended = succeed(run("merge", "--continue"))
    assert "points has edits that are not committed" in ended.stderr
    succeed(run("commit", "-m", "A column"))
    assert "working copy clean" in succeed(run("status")).stdout
    assert at_head(run) == [(1, "theirs", 1.0), *MERGED[1:]]
    with closing(sqlite3.connect(merging / "repo.gpkg")) as database:
        assert [each[1] for each in database.execute("PRAGMA table_info(points)")][-1] == "note"


def test_what_a_working_copy_cannot_resolve(merging: Path, run: Run) -> None:
    edit(merging, "DROP TABLE points")
    gone = run("resolve", "--all", "--with=workingcopy")
    assert (gone.exit_code, "the table of points is gone" in gone.stderr) == (28, True)
    (merging / "repo.gpkg").unlink()
    none = run("resolve", "--all", "--with=workingcopy")
    assert (none.exit_code, "no working copy" in none.stderr) == (45, True)
    assert json.loads(succeed(run("conflicts", "-ss", "-o", "json")).stdout)


@pytest.mark.parametrize("command", ["merge", "continue", "abort"])
@pytest.mark.thorough
def test_a_merge_that_was_cut_off_is_finished_by_the_next_command(
    run: Run, repo: Path, tmp_path: Path, command: str
) -> None:
    """Die in turn at each call by which the file changes or HEAD moves, then look."""
    words = ["merge", "theirs"]
    if command != "merge":
        succeed(run(*words))
        succeed(run("resolve", "--all", "--with=theirs"))
        words = ["merge", f"--{command}"]
    template = copy_tree(repo, tmp_path / "template")
    deaths, number = 0, 1
    while True:
        shutil.rmtree(repo)
        copy_tree(template, repo)
        asked = [sys.executable, "-c", DYING, str(number), "-C", str(repo), *words]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        waits = "merging" in succeed(run("status")).stdout
        there = rows(repo)
        # Where HEAD moved but the merge was not forgotten, `--continue` forgets it.
        assert there == (MERGED if waits and at_head(run) == HEAD else at_head(run)), number
        assert not list(repo.glob(".*/havasu/working-copy-behind"))
        assert run("diff", "--exit-code").exit_code == 0
        if done.returncode != 99:
            assert done.returncode == 0, done.stderr
            break
        deaths, number = deaths + 1, number + 1 + number // 8
    assert deaths > 5


def test_status_tells_of_edits_made_since(merging: Path, run: Run) -> None:
    assert "since the merge" not in succeed(run("status")).stdout
    edit(merging, "UPDATE points SET height = 5 WHERE id = 4")
    assert "since the merge began:\n\n  points:\n    feature:\n      1 updates" in (
        succeed(run("status")).stdout
    )
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    assert status["state"] == "merging"
    assert status["workingCopy"]["changes"] == {"points": {"feature": {"updates": 1}}}


@pytest.mark.parametrize("into", [[], ["--into", "main"], ["--into", "refs/heads/main"]])
def test_a_merge_into_the_branch_of_head_keeps_edits(repo: Path, run: Run, into: list[str]) -> None:
    succeed(run("switch", "-c", "here", "HEAD^"))
    succeed(run("branch", "-f", "main", "here"))
    succeed(run("switch", "main"))
    edit(repo, "UPDATE points SET name = 'mine' WHERE id = 4")
    stood = rows(repo)

    result = run("merge", *into, "theirs")

    assert result.exit_code == 29 and "points has edits" in result.stderr, result.output
    assert rows(repo) == stood
