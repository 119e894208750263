"""`havasu-vc fsck`."""

import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke, succeed


def test_a_sound_repository(run: Run) -> None:
    result = succeed(run("fsck", "--full"))

    assert result.stdout == ""
    assert result.stderr.endswith("Everything is sound\n")
    assert json.loads(succeed(run("fsck", "-o", "json")).stdout) == {"havasu.fsck/v1": []}


def test_a_lost_file_is_a_problem(run: Run, repo: Path) -> None:
    for path in (repo / ".git" / "havasu" / "objects").rglob("*"):
        if path.is_file():
            os.unlink(path)
    result = run("fsck")

    assert result.exit_code == 1
    assert result.stdout
    assert "found" in result.stderr
    problems = json.loads(run("fsck", "-o", "json").stdout)["havasu.fsck/v1"]
    assert all(problem["where"] and problem["message"] for problem in problems)


def test_called_kart_edits_are_told_and_a_broken_copy_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, file = tmp_path / "repo", tmp_path / "table.csv"
    file.write_text("id,name\n1,one\n2,two\n")
    succeed(invoke(["init", "--kart", repo]))
    succeed(invoke(["-C", repo, "import", file, "--primary-key", "id"]))
    succeed(invoke(["-C", repo, "create-workingcopy"]))
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    copy = repo / "repo.gpkg"
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute("UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    told = succeed(invoke(["-C", repo, "fsck"])).stdout.splitlines()
    assert told[-4:] == [
        "1 rows marked as changed in working-copy",
        "! Working copy appears dirty according to the index",
        "Checking features...",
        "✔︎ Everything looks good",
    ]
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute("UPDATE gpkg_kart_state SET value = '1' WHERE key = 'tree'")
    broken = invoke(["-C", repo, "fsck"])
    assert broken.exit_code == 1, broken.output
    assert "the working copy: " in broken.stdout and "1 problem found" in broken.stdout
