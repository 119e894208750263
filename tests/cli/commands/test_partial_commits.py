"""Commits of some datasets or rows of what is edited: the rest stays edited."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git
from tests.workspace import by_hand

NEW = {"id": 10, "name": "ten", "height": 1.0, "geom": None}


def names(repo: Path, revision: str = "HEAD") -> dict[int, str]:
    rows = Repo.open(repo).table("points", revision).to_arrow(["id", "name"]).to_pylist()
    return {row["id"]: row["name"] for row in rows}


def edited(run: Run) -> str:
    return succeed(run("diff", "-o", "json-lines")).stdout


@pytest.fixture
def table(run: Run, repo: Path) -> Path:
    """The table of points, checked out: 10 and 11 are inserted, 1 is deleted."""
    succeed(run("checkout"))
    place = repo / "tables" / "points"
    by_hand.insert(place, [NEW, {**NEW, "id": 11, "name": "eleven"}])
    by_hand.delete(place, [0])
    return place


def test_rows_of_a_table(run: Run, repo: Path, table: Path) -> None:
    before = names(repo)

    said = succeed(run("commit", "-m", "Ten", "--", "points:feature:10")).stderr

    assert "points: 1 insert" in said
    assert names(repo) == {**before, 10: "ten"}
    rest = edited(run)
    assert '"eleven"' in rest and '"one"' in rest and '"ten"' not in rest
    assert run_git("status", "--porcelain", cwd=repo) == ""
    assert "stash" not in run_git("for-each-ref", cwd=repo)
    succeed(run("commit", "-m", "Gone", "points:feature:1"))
    assert names(repo) == {2: "TWO", 4: "four", 10: "ten"}
    succeed(run("commit", "-m", "The rest"))
    assert names(repo) == {2: "TWO", 4: "four", 10: "ten", 11: "eleven"}
    assert "working copy clean" in succeed(run("status")).stdout


def test_a_trial_and_what_is_not_edited(run: Run, repo: Path, table: Path) -> None:
    head, rest = run_git("rev-parse", "HEAD", cwd=repo), edited(run)

    said = succeed(run("commit", "-n", "points:feature:10", "points:feature:1")).stderr
    assert "points: 1 insert, 1 delete" in said
    for filter_text, code in (("points:feature:4", 44), ("points:meta", 2), ("no:feature:1", 2)):
        assert run("commit", "-m", "x", filter_text).exit_code != 0
        refused = run("commit", "-m", "x", filter_text)
        assert refused.exit_code in (code, 44), refused.stderr

    assert (run_git("rev-parse", "HEAD", cwd=repo), edited(run)) == (head, rest)
    assert "stash" not in run_git("for-each-ref", cwd=repo)


def test_what_the_policy_refuses_stays_edited(run: Run, repo: Path, table: Path) -> None:
    policy = repo / ".havasu" / "policy.toml"
    policy.parent.mkdir()
    policy.write_text('[[dataset]]\npath = "*"\nlevel = "refuse"\nmax-deletes = 0\n')
    run_git("add", ".havasu", cwd=repo)
    run_git("commit", "-q", "-m", "Policy", cwd=repo)
    rest = edited(run)

    assert run("commit", "-m", "x", "points:feature:1").exit_code != 0

    assert edited(run) == rest


def test_amending_with_a_part(run: Run, repo: Path, table: Path) -> None:
    succeed(run("commit", "--amend", "--no-edit", "points:feature:10"))

    assert run_git("rev-list", "--count", "HEAD", cwd=repo) == "2"
    assert names(repo)[10] == "ten" and '"eleven"' in edited(run)


def test_rows_of_a_geopackage(run: Run, repo: Path, tmp_path: Path) -> None:
    copy = tmp_path / "edit.gpkg"
    succeed(run("checkout", "--as", copy))
    with closing(sqlite3.connect(copy)) as database:
        for function in ("ST_IsEmpty", "ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"):
            database.create_function(function, 1, lambda value: 0)
        database.execute("UPDATE points SET name = 'edited' WHERE id IN (1, 2)")
        database.commit()

    succeed(run("commit", "--from", copy, "-m", "One", "points:feature:1"))
    assert names(repo) == {1: "edited", 2: "TWO", 4: "four"}
    assert run("commit", "--from", copy, "-m", "x", "other").exit_code != 0
    succeed(run("commit", "--from", copy, "-m", "The rest"))

    assert names(repo) == {1: "edited", 2: "edited", 4: "four"}


def test_of_two_datasets_one(run: Run, repo: Path, tmp_path: Path) -> None:
    source = tmp_path / "trees.csv"
    source.write_text("id,name\n1,kauri\n")
    succeed(run("import", source, "--primary-key", "id"))
    succeed(run("checkout"))
    by_hand.insert(repo / "tables" / "trees", [{"id": 2, "name": "rimu"}])
    by_hand.insert(repo / "tables" / "points", [NEW])

    succeed(run("commit", "-m", "Trees", "tre*"))

    shown = invoke(["-C", repo, "show", "--stat"]).stdout
    assert "trees" in shown and "points" not in shown
    assert '"ten"' in edited(run) and '"rimu"' not in edited(run)
