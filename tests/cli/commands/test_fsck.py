"""`havasu-vc fsck`."""

import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.tables import points, write
from tests.support.git import run_git


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
    assert told[-5:] == [
        "1 rows marked as changed in working-copy",
        "! Working copy appears dirty according to the index",
        "table:feature: (1)",
        " U            2 → ␀",
        "Can't do any further checks",
    ]
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute("UPDATE gpkg_kart_state SET value = '1' WHERE key = 'tree'")
    broken = invoke(["-C", repo, "fsck"])
    assert broken.exit_code == 1, broken.output
    assert "the working copy: " in broken.stdout and "1 problem found" in broken.stdout


@pytest.mark.parametrize(
    ("setting", "words", "code", "told"),
    [
        (
            None,
            ("--master", "local[1]"),
            11,
            "could not be started on local[1]: RuntimeError: no room",
        ),
        (None, ("--master", ""), 2, "--master is empty"),
        ("nonsense", ("--engine", "spark"), 2, "havasu.spark.conf is 'nonsense'"),
    ],
)
@pytest.mark.usefixtures("no_session")
def test_a_cluster_that_fails_is_no_problem_of_the_data(
    run: Run,
    repo: Path,
    tmp_path: Path,
    setting: str | None,
    words: tuple[str, ...],
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def not_starting(*arguments: object, **options: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr("havasu_vc.engine.session._launch", not_starting)
    monkeypatch.setattr("havasu_vc.engine.session.require_spark", lambda: None)
    with tiny_thresholds(small_file=0):  # rows of small tables are looked at without an engine
        file = write(tmp_path / "big.parquet", points(300))
        succeed(run("import", file, "big", "--primary-key", "id"))
    if setting is not None:
        run_git("config", "havasu.spark.conf", setting, cwd=repo)
    result = run("fsck", "--full", *words)
    assert result.exit_code == code and told in result.stderr.splitlines()[0]
    assert "problem" not in result.output
