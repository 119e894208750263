"""`havasu-vc switch`."""

from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import Run, succeed
from tests.support.git import run_git


def test_there_and_back(run: Run) -> None:
    assert succeed(run("switch", "-c", "new", "HEAD^")).stderr == "Switched to a new branch 'new'\n"
    assert succeed(run("switch", "main")).stderr == "Switched to branch 'main'\n"
    assert succeed(run("switch", "-d", "new")).stderr.endswith(" First\n")
    assert succeed(run("switch", "main")).stderr == "Switched to branch 'main'\n"
    assert succeed(run("switch", "--detach")).stderr.startswith("HEAD is now at ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 2), (("nope",), 43), (("main", "HEAD"), 2), (("-c", "x", "-d"), 2), (("-d", "nope"), 47)],
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
    refused = run("switch", "-")
    assert refused.exit_code == 43
    assert "a branch is expected" in refused.stderr and "`havasu-vc switch -d " in refused.stderr
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


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["switch", "checkout"])
def test_commits_that_are_left_behind_are_named(run: Run, repo: Path, command: str) -> None:
    succeed(run("checkout", "HEAD~1"))
    for number in range(6):
        succeed(run("meta", "set", "points", f"title=Title {number}"))
    left = run_git("rev-parse", "HEAD", cwd=repo)

    said = succeed(run(command, "main")).stderr

    assert "6 commits are on no branch any more" in said and "and 2 more" in said
    keeps = f"branch NAME {left[:10]}"
    assert f"`havasu-vc {keeps}`" in said
    succeed(run(*keeps.replace("NAME", "kept").split()))
    succeed(run("switch", "-d", "kept"))
    assert "no branch" not in succeed(run(command, "main")).stderr


def test_nothing_is_told_where_a_ref_or_the_new_head_has_the_commits(run: Run) -> None:
    succeed(run("switch", "-d", "HEAD"))
    succeed(run("meta", "set", "points", "title=Title"))
    assert "no branch" not in succeed(run("switch", "-c", "new")).stderr
    succeed(run("switch", "-d", "HEAD"))
    succeed(run("meta", "set", "points", "title=Other"))
    succeed(run("tag", "kept"))
    assert "no branch" not in succeed(run("switch", "main")).stderr


def test_tables_that_are_checked_out_keep_no_commit_of_a_head_on_no_branch(run: Run) -> None:
    succeed(run("checkout"))
    succeed(run("switch", "-d", "HEAD"))
    succeed(run("meta", "set", "points", "title=Title"))
    assert "1 commit is on no branch" in succeed(run("switch", "main")).stderr


@pytest.mark.parametrize("name", ["HEAD", "@"])
def test_checking_out_head_stays_on_its_branch(run: Run, repo: Path, name: str) -> None:
    succeed(run("checkout", name))
    assert run_git("symbolic-ref", "HEAD", cwd=repo) == "refs/heads/main"
    Repo.open(repo).switch(name)
    assert run_git("symbolic-ref", "HEAD", cwd=repo) == "refs/heads/main"
    assert run("switch", name).exit_code == 43
    succeed(run("switch", "-d", name))
    assert run_git("rev-parse", "--abbrev-ref", "HEAD", cwd=repo) == "HEAD"


def test_what_is_deleted_is_told(run: Run, repo: Path) -> None:
    commit = run_git("rev-parse", "--short", "HEAD", cwd=repo)
    succeed(run("branch", "old"))
    succeed(run("tag", "v1"))
    assert f"(was {commit}" in succeed(run("branch", "-D", "old")).stderr
    assert f"(was {commit}" in succeed(run("tag", "-d", "v1")).stderr
