"""`havasu-vc commit`."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed
from tests.support.git import run_git


@pytest.fixture
def edited(run: Run, tmp_path: Path) -> Path:
    """A copy in which one row was edited."""
    path = tmp_path / "edit.gpkg"
    succeed(run("checkout", "--as", path))
    database = sqlite3.connect(path)
    for function in ("ST_IsEmpty", "ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"):
        database.create_function(function, 1, lambda value: 0)
    database.execute("UPDATE points SET name = 'edited' WHERE id = 1")
    database.commit()
    database.close()
    return path


def test_it_takes_edits_back(run: Run, edited: Path) -> None:
    result = succeed(run("commit", "--from", edited, "-m", "Edit", "-m", "More", "-o", "json"))

    committed = json.loads(result.stdout)["kart.commit/v1"]
    assert committed["message"].startswith("Edit\n\nMore")
    assert committed["branch"] == "main"
    assert committed["changes"] == {"points": {"feature": {"updates": 1}}}
    assert result.stderr.splitlines()[0] == f"[main {committed['abbrevCommit']}] Edit"
    assert "  points: 1 update" in result.stderr.splitlines()
    assert "edited" in run("show").stdout


def test_a_dry_run_commits_nothing(run: Run, edited: Path) -> None:
    before = run("log", "-o", "json").stdout
    result = succeed(run("commit", "--from", edited, "--dry-run"))

    assert result.stderr.splitlines() == ["Would commit:", "  points: 1 update"]
    assert run("log", "-o", "json").stdout == before


def test_the_message_may_come_from_a_file(run: Run, edited: Path) -> None:
    succeed(run("commit", "--from", edited, "-F", "-", stdin="From stdin\n"))

    assert run("log", "-1", "--oneline").stdout.endswith(" From stdin\n")


def test_nothing_to_commit(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "edit.gpkg"
    succeed(run("checkout", "--as", path))

    assert run("commit", "--from", path, "-m", "None").exit_code == 44
    succeed(run("commit", "--from", path, "-m", "None", "--allow-empty"))


def test_without_a_file_it_says_how(run: Run) -> None:
    result = run("commit", "-m", "x")

    assert result.exit_code == 20
    assert "havasu-vc checkout" in result.stderr and "--from" in result.stderr


@pytest.mark.parametrize("options", [("-m", " "), ("-m", "a", "-F", "-")])
def test_messages_that_are_refused(run: Run, edited: Path, options: tuple[str, ...]) -> None:
    assert run("commit", "--from", edited, *options).exit_code == 2


def test_no_such_file(run: Run, tmp_path: Path) -> None:
    assert run("commit", "--from", tmp_path / "nope.gpkg", "-m", "x").exit_code == 48


def test_the_policy_is_held_against_it(run: Run, repo: Path, edited: Path) -> None:
    policy = repo / ".havasu" / "policy.toml"
    policy.parent.mkdir()
    policy.write_text(
        "[[dataset]]\n[[dataset.check]]\nname = 'no edits'\nsql = \"name <> 'edited'\"\n"
    )
    run_git("add", ".havasu", cwd=repo)
    run_git("commit", "-q", "-m", "Policy", cwd=repo)
    before = run("log", "-o", "json").stdout
    refused = run("commit", "--from", edited, "-m", "Edit")

    assert refused.exit_code == 23
    assert refused.stderr.splitlines() == [
        "Error: the policy refuses this commit: points: 1 row against the check no edits (1)",
        "Hint: mend the rows, or commit with --no-verify",
    ]
    assert run("log", "-o", "json").stdout == before
    succeed(run("commit", "--from", edited, "-m", "Edit", "--no-verify"))
    assert "edited" in run("show").stdout
