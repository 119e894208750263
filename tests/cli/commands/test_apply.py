"""`havasu-vc apply`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed
from tests.support.git import run_git


@pytest.fixture
def patch(run: Run, tmp_path: Path) -> Path:
    path = tmp_path / "second.patch"
    succeed(run("create-patch", "--output", path))
    succeed(run("checkout", "-b", "other", "HEAD^"))
    return path


def test_a_patch_is_a_commit(run: Run, patch: Path) -> None:
    result = succeed(run("apply", patch))

    assert result.stderr.splitlines()[0].startswith("[other ")
    assert result.stderr.splitlines()[0].endswith("] Second")
    assert "  points: 1 insert, 1 update, 1 delete" in result.stderr.splitlines()
    assert run("diff", "main", "other", "-o", "quiet").exit_code == 0


def test_it_is_applied_without_spark(
    run: Run, patch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")  # where Spark would be missed
    result = succeed(run("apply", patch, "--engine", "spark"))

    assert "a patch is one text, which this process reads" in result.stderr
    assert run("diff", "main", "other", "-o", "quiet").exit_code == 0


def test_from_stdin_with_another_message(run: Run, patch: Path) -> None:
    succeed(run("apply", "-", "-m", "Mine", stdin=patch.read_bytes()))

    assert run("log", "-1", "--oneline").stdout.endswith(" Mine\n")


def test_a_try_commits_nothing(run: Run, patch: Path) -> None:
    before = run("log", "-o", "json").stdout
    result = succeed(run("apply", "--no-commit", patch))

    assert result.stderr.startswith("Would commit:\n")
    assert run("log", "-o", "json").stdout == before


def test_the_branch_may_be_another(run: Run, repo: Path, patch: Path, tmp_path: Path) -> None:
    succeed(run("apply", patch, "--ref", "other"))
    assert run("log", "other", "-1", "--oneline").stdout.endswith(" Second\n")
    succeed(run("reset", "--hard", "HEAD^"))
    succeed(run("switch", "main"))
    before = run_git("rev-parse", "HEAD", cwd=repo)

    result = succeed(run("apply", patch, "--ref", "refs/heads/other"))

    assert result.stderr.splitlines()[0].startswith("[other ")
    assert run("diff", "main", "other", "-o", "quiet").exit_code == 0
    assert run_git("rev-parse", "HEAD", cwd=repo) == before
    assert run_git("symbolic-ref", "HEAD", cwd=repo) == "refs/heads/main"
    assert run_git("status", "--porcelain", cwd=repo) == ""
    assert run("fsck").exit_code == 0
    run_git("branch", "-f", "other", "other^", cwd=repo)
    commits = run_git("rev-list", "--count", "other", cwd=repo)
    succeed(run("apply", patch, "--ref", "other", "--amend"))
    assert run("diff", "main", "other", "-o", "quiet").exit_code == 0
    assert run_git("rev-list", "--count", "other", cwd=repo) == commits
    # What is there already does not fit, and no other branch is made up.
    assert run("apply", patch, "--ref", "other").exit_code == 22
    assert run("apply", patch, "--ref", "more").exit_code == 43
    run_git("worktree", "add", "--quiet", tmp_path / "beside", "other", cwd=repo)
    assert "is checked out at" in run("apply", patch, "--ref", "other").stderr


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "not json",
        '{"kart.diff/v1+hexwkb": {"nope": {"feature": [{"++": {"id": 1}}]}}}',
        '{"kart.diff/v1+hexwkb": {"points": {"feature": [{"--": {"id": 99}}]}}}',
        '{"kart.diff/v1+hexwkb": {"points": {"feature": [{"++": {"id": "x"}}]}}}',
        "[" * 100_000,
    ],
)
def test_bad_patches_change_nothing(run: Run, content: str) -> None:
    before = run("log", "-o", "json").stdout
    result = run("apply", "-", stdin=content)

    assert result.exit_code in (22, 23, 49), result.output
    assert result.stderr.startswith("Error: ")
    assert run("log", "-o", "json").stdout == before


def test_a_patch_that_is_too_large(run: Run, patch: Path) -> None:
    assert run("apply", patch, "--max-size", "10").exit_code == 22
    assert run("apply", patch, "--max-size", "ten").exit_code == 2
    succeed(run("apply", patch, "--max-size", "1M"))


def test_a_patch_that_does_not_apply(run: Run, patch: Path) -> None:
    succeed(run("switch", "main"))
    result = run("apply", patch)

    assert result.exit_code == 22
    assert json.loads(run("log", "-1", "-o", "json").stdout)[0]["message"].strip() == "Second"
