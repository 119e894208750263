"""`restore` and `reset` on the command line."""

import json
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import Run, succeed
from tests.support.git import run_git


def test_a_row_comes_back(run: Run, repo: Path) -> None:
    result = succeed(run("restore", "points:feature:3", "-s", "HEAD^"))

    assert "points: 1 insert" in result.output
    assert run_git("log", "-1", "--format=%s", cwd=repo) == ("Restore points:feature:3 from HEAD^")
    assert run_git("status", "--porcelain", cwd=repo) == ""


def test_everything_comes_back(run: Run, repo: Path) -> None:
    assert "1 insert, 1 update, 1 delete" in succeed(run("restore", "-n", "-s", "HEAD^")).output
    succeed(run("restore", "-s", "HEAD^", "-m", "As it was"))

    assert run_git("diff", "HEAD", "HEAD~2", cwd=repo) == ""
    assert run_git("log", "-1", "--format=%s", cwd=repo) == "As it was"
    assert run("restore", "-s", "HEAD~2").exit_code == 44


def test_a_column_comes_back_and_nothing_else(run: Run, tmp_path: Path) -> None:
    repo, file = tmp_path / "trees", tmp_path / "trees.csv"
    take = ("import", str(file), "trees", "--primary-key", "id", "--replace")
    rows = {1: ("rimu", 4), 2: ("kauri", 5), 3: ("totara", 6)}
    newer = {1: ("matai", 7), 2: ("kauri", 8), 4: ("puriri", 9)}
    succeed(run("init", str(repo)))
    for wanted in (rows, newer):
        lines = [f"{key},{name},{height}" for key, (name, height) in wanted.items()]
        file.write_text("\n".join(["id,name,height", *lines, ""]), encoding="utf-8")
        succeed(run("-C", str(repo), *take))

    def now() -> dict[int, tuple[str, int]]:
        table = Repo.open(repo).table("trees").to_arrow().sort_by("id")
        return {row["id"]: (row["name"], row["height"]) for row in table.to_pylist()}

    column = ("-C", str(repo), "restore", "-s", "HEAD^", "--column", "height")
    assert "trees: 1 update" in succeed(run(*column, "-n", "trees:feature:1")).output
    assert now() == newer
    assert "trees: 2 updates" in succeed(run(*column, "trees")).output
    assert now() == {1: ("matai", 4), 2: ("kauri", 5), 4: ("puriri", 9)}
    subject = run_git("log", "-1", "--format=%s", cwd=repo)
    assert subject == "Restore height of trees from HEAD^"
    for wrong in (["--column", "id", "trees"], ["--column", "width", "trees"], ["trees:meta"], []):
        refused = run(*column, *wrong)
        assert (refused.exit_code, refused.stderr.count("Error")) == (2, 1), wrong
    assert run("-C", str(repo), "restore", "trees", "--column", "name").exit_code == 2


def test_columns_that_come_back_with_a_dataset_are_told(run: Run, repo: Path) -> None:
    columns = json.loads(succeed(run("meta", "get", "points", "-o", "json")).stdout)
    kept = [each for each in columns["points"]["schema.json"] if each["name"] != "height"]
    succeed(run("meta", "set", "points", f"schema.json={json.dumps(kept)}", "title=Points"))

    would = succeed(run("restore", "-s", "HEAD^", "points", "-n")).output
    assert "  points: 3 updates, and schema.json, title\n" in would
    told = succeed(run("restore", "-s", "HEAD^", "points")).output
    assert "  points: 3 updates, and schema.json, title\n" in told
    assert "height" in succeed(run("head", "points")).stdout


def test_what_is_not_there_is_refused(run: Run) -> None:
    assert run("restore", "nothing").exit_code == 49
    assert run("restore", "nothing", "-s", "HEAD^").exit_code == 2
    assert run("restore", "nothing:feature:3").exit_code == 49
    assert run("restore", "points:feature:99", "-s", "HEAD^").exit_code == 40
    assert run("restore", "-s", "nothing").exit_code == 47


@pytest.mark.parametrize("arguments", [(), ("points",), ("points:feature:3",), ("--dry-run",)])
def test_without_a_source_and_edits_nothing_is_restored(
    run: Run, repo: Path, arguments: tuple[str, ...]
) -> None:
    before = run_git("rev-parse", "HEAD", cwd=repo)

    result = succeed(run("restore", *arguments))

    nothing = "nothing of it" if ":" in "".join(arguments) else "nothing"
    assert result.stderr.startswith(f"Nothing to restore: {nothing} is edited")
    assert run_git("rev-parse", "HEAD", cwd=repo) == before


@pytest.mark.parametrize("mode", ["--soft", "--mixed", "--hard", "--keep", None])
def test_the_branch_moves(run: Run, repo: Path, mode: str | None) -> None:
    options = [mode] if mode else []
    result = succeed(run("reset", *options, "HEAD^"))

    assert result.output.startswith("main is now at ")
    assert run_git("log", "--format=%s", cwd=repo) == "First"
    assert run_git("status", "--porcelain", cwd=repo) == ""
    succeed(run("reset", *options, "HEAD@{1}"))
    assert run_git("log", "-1", "--format=%s", cwd=repo) == "Second"


def test_resetting_to_nothing_is_refused(run: Run) -> None:
    assert run("reset", "nothing").exit_code == 47
