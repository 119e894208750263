"""`status`, `diff`, `commit`, `restore` and `stash` where tables are checked out."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed
from tests.workspace import by_hand


@pytest.fixture
def table(run: Run, repo: Path) -> Path:
    """The table of `points`, checked out, with a row inserted and one deleted."""
    succeed(run("checkout"))
    place = repo / "tables" / "points"
    by_hand.insert(place, [{"id": 10, "name": "ten", "height": 1.0, "geom": None}])
    by_hand.delete(place, [0])
    return place


def changes(run: Run) -> dict[str, object]:
    status = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    found: dict[str, object] = status["workingCopy"]["changes"]
    return found


def test_status(run: Run, table: Path) -> None:
    lines = succeed(run("status")).stdout.splitlines()

    assert lines[:2] == ["On branch main", ""]
    assert lines[2] == "Changes in working copy:"
    assert lines[-4:] == ["  points:", "    feature:", "      1 inserts", "      1 deletes"]
    working = json.loads(run("status", "-o", "json").stdout)["kart.status/v2"]["workingCopy"]
    assert working["parts"]["tabular"]["status"] == "ok"
    assert working["changes"] == {"points": {"feature": {"inserts": 1, "deletes": 1}}}


def test_status_of_clean_tables(run: Run) -> None:
    succeed(run("checkout"))

    assert "Nothing to commit, working copy clean" in succeed(run("status")).stdout
    assert changes(run) == {}


def test_checkout_names_a_table_that_cannot_be_read(run: Run, table: Path) -> None:
    newest = max(
        (table / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:-14])
    )
    newest.chmod(0o644)
    newest.write_text("{")

    refused = run("checkout")
    assert refused.exit_code == 11 and "is not valid JSON" in refused.stderr
    assert "`havasu-vc restore DATASET`" in refused.stderr
    succeed(run("restore", "points"))
    assert "Nothing to do" in succeed(run("checkout")).stderr


def test_what_is_no_table_of_ours_is_not_called_dropped(run: Run, table: Path) -> None:
    shutil.rmtree(table)
    table.mkdir()
    (table / "notes.txt").write_text("mine")

    refused = run("restore", "points")
    assert refused.exit_code != 0 and "something else is at" in refused.stderr
    assert "Dropped" not in refused.stdout + refused.stderr
    assert (table / "notes.txt").read_text() == "mine"


def test_damage_is_a_problem(run: Run, table: Path) -> None:
    (path,) = table.glob("data/00000-*.parquet")
    path.unlink()

    told = succeed(run("status")).stdout
    assert "\nProblems:\n" in told and "is missing" in told
    assert "Nothing to commit in what could be read" in told and "clean" not in told
    status = json.loads(succeed(run("status", "-o", "json")).stdout)
    assert len(status["havasu.status/v1"]["problems"]) == 1
    assert status["kart.status/v2"]["workingCopy"]["parts"]["tabular"]["status"] == "damaged"
    refused = run("commit", "-m", "Edit")
    assert refused.exit_code != 0 and "is missing" in refused.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("arguments", "count"),
    [((), 2), (("points",), 2), (("points:feature:10",), 1), (("HEAD",), 2), (("HEAD^",), 5)],
)
def test_diff(run: Run, table: Path, arguments: tuple[str, ...], count: int) -> None:
    printed = succeed(run("diff", "-o", "json", *arguments)).stdout

    assert len(json.loads(printed)["kart.diff/v1+hexwkb"]["points"]["feature"]) == count
    assert run("diff", "HEAD...HEAD", "--exit-code").exit_code == 0
    assert run("diff", "--exit-code").exit_code == 1


def test_commit(run: Run, table: Path) -> None:
    planned = succeed(run("commit", "--dry-run")).stderr.splitlines()
    assert planned == ["Would commit:", "  points: 1 insert, 1 delete"]

    result = succeed(run("commit", "points", "-m", "Edit", "-o", "json"))

    committed = json.loads(result.stdout)["kart.commit/v1"]
    assert committed["changes"] == {"points": {"feature": {"inserts": 1, "deletes": 1}}}
    assert changes(run) == {}
    assert run("commit", "-m", "Again").exit_code == 44
    succeed(run("commit", "-m", "Empty", "--allow-empty"))
    assert run("commit", "nope", "-m", "x").exit_code != 0


def test_options_that_do_not_go_together(run: Run, table: Path) -> None:
    for arguments in (
        ("--dataset", "points"),
        ("--refs", "--from", "x"),
    ):
        assert run("commit", "-m", "x", *arguments).exit_code == 2
    assert run("restore", "-m", "x").exit_code == 2


def test_restore_drops_the_edit_of_a_row(run: Run, table: Path) -> None:
    succeed(run("restore", "points:feature:10"))

    assert changes(run) == {"points": {"feature": {"deletes": 1}}}


def test_restore_drops_edits(run: Run, table: Path) -> None:
    assert "Would drop the edits of points" in succeed(run("restore", "--dry-run")).stderr
    assert changes(run) != {}

    assert "Dropped the edits of points" in succeed(run("restore", "points")).stderr

    assert changes(run) == {}
    assert "Nothing to restore" in succeed(run("restore")).stderr
    # With a source it makes a commit, as without a workspace.
    assert "[main " in succeed(run("restore", "--source", "HEAD^", "points")).stderr
    assert changes(run) == {}


def test_stash(run: Run, table: Path) -> None:
    assert "Set aside as stash 0: On main: later" in succeed(run("stash", "-m", "later")).stderr
    assert changes(run) == {}
    assert succeed(run("stash", "list")).stdout == "stash@{0}: On main: later\n"
    listed = json.loads(succeed(run("stash", "list", "-o", "json")).stdout)["havasu.stash/v1"]
    assert [each["number"] for each in listed] == [0]
    assert "points:feature:10" in succeed(run("stash", "show")).stdout

    succeed(run("stash", "apply", "stash@{0}"))
    assert changes(run) == {"points": {"feature": {"inserts": 1, "deletes": 1}}}
    succeed(run("restore"))
    assert "Brought back and forgotten" in succeed(run("stash", "pop")).stderr
    succeed(run("stash", "points"))
    assert "Dropped stash 0" in succeed(run("stash", "drop")).stderr
    assert run("stash", "pop").exit_code != 0
