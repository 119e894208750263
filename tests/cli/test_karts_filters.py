"""What is named, and what is restored or chosen by it, as Kart takes it."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.cli.test_to_karts_letter import make, write
from tests.support.git import run_git
from tests.support.templates import again


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    again(("to-karts-letter",), make, tmp_path / "repo")
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    return tmp_path / "repo"


def _name_of_two(repo: Path) -> str:
    with closing(sqlite3.connect(repo / "copy.gpkg")) as file:
        return str(file.execute('SELECT name FROM "table" WHERE id = 2').fetchone()[0])


@pytest.mark.parametrize(
    ("given", "expected"),
    [("t*", "two"), ("*:feature:2", "two"), ("table:", "two"), ("tabl?", "zwei"), ("x*", "zwei")],
)
def test_restore_takes_karts_patterns(repo: Path, given: str, expected: str) -> None:
    write(repo, "UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    assert succeed(invoke(["-C", repo, "restore", given])).stdout == "Updating copy.gpkg ...\n"
    assert _name_of_two(repo) == expected


def test_rows_are_restored_and_the_title_stays_edited(repo: Path) -> None:
    """Kart drops it as well, and says nothing of it."""
    write(repo, "UPDATE gpkg_contents SET identifier = 'T' WHERE table_name = 'table'")
    succeed(invoke(["-C", repo, "restore", "table:feature:2"]))
    with closing(sqlite3.connect(repo / "copy.gpkg")) as file:
        title = "SELECT identifier FROM gpkg_contents WHERE table_name = 'table'"
        assert file.execute(title).fetchone() == ("T",)


def test_restore_never_commits(repo: Path) -> None:
    (repo / "copy.gpkg").unlink()
    before = run_git("rev-parse", "HEAD", cwd=repo)
    refused = invoke(["-C", repo, "restore", "-s", "HEAD^", "table:feature:1"])
    assert (refused.exit_code, run_git("rev-parse", "HEAD", cwd=repo)) == (45, before)


def test_of_several_messages_of_a_merge_the_last_counts(repo: Path) -> None:
    run_git("branch", "other", "HEAD^", cwd=repo)
    succeed(invoke(["-C", repo, "switch", "other"]))
    succeed(invoke(["-C", repo, "merge", "--no-ff", "-m", "One", "-m", "Two", "main"]))
    assert run_git("log", "-1", "--format=%B", cwd=repo).strip() == "Two"


def test_nothing_moves_before_a_choice_of_datasets_is_met(repo: Path) -> None:
    write(repo, "UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    refused = invoke(["-C", repo, "checkout", "-b", "new", "--not-dataset=table"])
    assert refused.exit_code == 29 and "new" not in run_git("branch", cwd=repo)
