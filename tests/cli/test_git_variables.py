"""git's variables name the repository, as they do for git."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in no repository, which commands run in."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def head(repo: Path) -> str:
    return run_git("rev-parse", "--short", "HEAD", cwd=repo).strip()


def test_the_git_directory(repo: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = invoke(["log"])
    assert refused.exit_code != 0
    monkeypatch.setenv("GIT_DIR", str(repo / ".git"))

    assert head(repo) in succeed(invoke(["log", "--oneline"])).stdout
    succeed(invoke(["meta", "set", "points", "title=Named", "-m", "Titled"]))
    assert "Titled" in run_git("log", "-1", cwd=repo)
    monkeypatch.setenv("GIT_WORK_TREE", str(repo))
    assert "Titled" in succeed(invoke(["log"])).stdout


def test_a_relative_one_and_that_of_a_linked_work_tree(
    repo: Path, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"), cwd=repo)
    for named, branch in (
        ("../repo/.git", "main"),
        (str(repo / ".git" / "worktrees" / "side"), "side"),
        (str(tmp_path / "side" / ".git"), "side"),
    ):
        monkeypatch.setenv("GIT_DIR", named)
        assert f"On branch {branch}" in succeed(invoke(["status"])).output
    succeed(invoke(["checkout"]))
    assert (tmp_path / "side" / "tables" / "points").is_dir()


def test_the_option_stands_before_it(
    run: Run, repo: Path, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = head(repo)
    succeed(invoke(["init", tmp_path / "other"]))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    assert before in succeed(run("log", "--oneline")).stdout


def test_a_mistyped_folder_is_not_the_repository_around_it(repo: Path) -> None:
    for wrong in ("nosuch", "nosuch/deeper"):
        refused = invoke(["-C", repo / wrong, "status"])
        assert refused.exit_code == 41 and "nosuch" in refused.stderr
        assert refused.stderr.endswith("Hint: look at the path: nothing is there\n")


def test_one_that_is_none(repo: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    monkeypatch.setenv("GIT_DIR", str(repo / "nothing"))
    refused = invoke(["status"])
    assert refused.exit_code != 0 and "nothing is not in a havasu-vc repository" in refused.stderr
    assert "GIT_DIR" in refused.stderr


def test_another_work_tree_is_refused(
    repo: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = head(repo)
    monkeypatch.setenv("GIT_DIR", str(repo / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(elsewhere))
    refused = invoke(["checkout"])
    assert refused.exit_code != 0 and "GIT_WORK_TREE names" in refused.stderr
    assert (head(repo), list(elsewhere.iterdir())) == (before, [])
    run_git("config", "core.worktree", str(elsewhere), cwd=repo)
    succeed(invoke(["checkout"]))
    assert (elsewhere / "tables" / "points").is_dir()


def test_another_index_is_told_of(
    repo: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    monkeypatch.setenv("GIT_INDEX_FILE", str(repo / ".git" / "next-index-1.lock"))
    assert "GIT_INDEX_FILE" not in succeed(invoke(["status"])).stderr
    monkeypatch.setenv("GIT_INDEX_FILE", str(elsewhere / "index"))
    assert "GIT_INDEX_FILE is not followed" in succeed(invoke(["status"])).stderr
