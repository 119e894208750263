"""`havasu-vc switch`."""

from pathlib import Path

import pytest

from havasu_vc.repo import Repo
from tests.cli.conftest import Run, succeed
from tests.support.git import run_git


def test_there_and_back(run: Run) -> None:
    assert succeed(run("switch", "-c", "new", "HEAD^")).stderr == "Switched to a new branch 'new'\n"
    assert succeed(run("switch", "main")).stderr == "Switched to branch 'main'\n"
    assert succeed(run("switch", "-d", "new")).stderr.endswith(" First\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 2), (("nope",), 43), (("main", "HEAD"), 2), (("-c", "-d", "x"), 2), (("-d", "nope"), 47)],
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    assert run("switch", *arguments).exit_code == code


def test_a_branch_that_is_not_there_has_a_hint(run: Run) -> None:
    assert "`havasu-vc switch -c nope` makes it" in run("switch", "nope").stderr


@pytest.mark.parametrize("command", ["switch", "checkout"])
def test_the_branch_before(run: Run, command: str) -> None:
    assert "no other branch" in run(command, "-").stderr
    succeed(run("switch", "-c", "new"))
    assert succeed(run(command, "-")).stderr == "Switched to branch 'main'\n"
    assert succeed(run(command, "-")).stderr == "Switched to branch 'new'\n"
    succeed(run("switch", "-d", "HEAD^"))
    assert succeed(run(command, "@{-2}")).stderr == "Switched to branch 'main'\n"
    assert succeed(run("checkout", "-")).stderr.startswith("HEAD is now at ")


@pytest.mark.parametrize("command", ["switch", "checkout"])
def test_a_branch_that_only_a_remote_has(
    run: Run, repo: Path, tmp_path: Path, command: str
) -> None:
    for name in ("dev", "v1"):
        run_git("branch", name, "HEAD^", cwd=repo)
    run_git("clone", "-q", "--bare", ".", str(tmp_path / "origin.git"), cwd=repo)
    for name in ("dev", "v1"):
        run_git("branch", "-D", name, cwd=repo)
    run_git("tag", "v1", cwd=repo)
    run_git("remote", "add", "origin", str(tmp_path / "origin.git"), cwd=repo)
    run_git("fetch", "-q", cwd=repo)
    result = succeed(run(command, "dev"))
    assert result.stderr == "Switched to a new branch 'dev'\n"
    upstream = run_git("rev-parse", "--abbrev-ref", "dev@{upstream}", cwd=repo)
    assert upstream.strip() == "origin/dev"
    assert Repo.open(repo).commit_info().message.startswith("First")
    succeed(run("checkout", "v1"))
    assert Repo.open(repo).head_branch is None  # the tag goes first, as in git
    run_git("remote", "add", "other", str(tmp_path / "origin.git"), cwd=repo)
    run_git("fetch", "-q", "other", cwd=repo)
    assert "several remotes" in run("switch", "v1").stderr
    succeed(run("switch", "-c", "mine", "other/v1"))
    upstream = run_git("rev-parse", "--abbrev-ref", "mine@{upstream}", cwd=repo)
    assert upstream.strip() == "other/v1"
