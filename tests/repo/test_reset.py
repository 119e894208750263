"""Resetting the branch, with the real git as witness."""

from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import HavasuError, InvalidArgumentError, StateError, UncommittedChangesError
from havasu_vc.merging.state import MODES, reset
from tests.repo.points import Rows, add, assert_clean, make, read, write
from tests.support.git import run_git

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 9)}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository whose last commit changed rows, added a dataset, and edited a file."""
    repo = make(tmp_path / "repo", FIRST)
    commit_file(repo, "one\n")
    write(repo, {**FIRST, 3: ("three", 3)})
    add(repo, tmp_path, {1: ("one", 1)}, "more/lines")
    return repo


def commit_file(repo: Repo, text: str) -> None:
    (repo.path / "README.md").write_text(text)
    run_git("add", ".", cwd=repo.path)
    run_git("commit", "-qm", "readme", cwd=repo.path)


def status(repo: Repo) -> str:
    return run_git("status", "--porcelain", cwd=repo.path)


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", MODES)
def test_datasets_follow_in_every_mode(repo: Repo, mode: str) -> None:
    head, target = repo.head().commit, repo.resolve("HEAD~2").commit

    assert reset(repo.opened, "HEAD~2", mode=mode) == target

    assert repo.head().commit == target
    assert repo.head_branch == "main"
    assert (repo.datasets(), read(repo)) == (("points",), FIRST)
    assert_clean(repo)
    assert run_git("reflog", "-1", "--format=%gs", cwd=repo.path).startswith("reset: moving to")
    reset(repo.opened, str(head), mode=mode)
    assert repo.datasets() == ("more/lines", "points")
    assert read(repo)[3] == ("three", 3)
    assert_clean(repo)


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [("soft", "two\n", "M  README.md"), ("mixed", "two\n", " M README.md"), ("hard", "one\n", "")],
)
def test_files_of_the_user_are_as_git_leaves_them(
    repo: Repo, mode: str, text: str, said: str
) -> None:
    commit_file(repo, "two\n")

    reset(repo.opened, "HEAD^", mode=mode)

    assert (repo.path / "README.md").read_text() == text
    assert status(repo) == said


def test_edits_that_are_not_committed(repo: Repo) -> None:
    commit_file(repo, "two\n")
    (repo.path / "README.md").write_text("mine\n")
    head = repo.head().commit

    with pytest.raises((UncommittedChangesError, StateError)):
        reset(repo.opened, "HEAD^", mode="keep")
    assert repo.head().commit == head
    reset(repo.opened, "HEAD~2", mode="mixed")
    assert (repo.path / "README.md").read_text() == "mine\n"
    reset(repo.opened, "HEAD", mode="hard")

    assert (repo.path / "README.md").read_text() == "one\n"
    assert_clean(repo)


def test_a_bare_repository_can_be_reset_softly(tmp_path: Path) -> None:
    repo = make(tmp_path / "bare.git", FIRST, bare=True)
    write(repo, {**FIRST, 3: ("three", 3)})

    for mode in ("mixed", "hard"):
        with pytest.raises(StateError):
            reset(repo.opened, "HEAD^", mode=mode)
    reset(repo.opened, "HEAD^", mode="soft")

    assert read(repo) == FIRST


def test_a_merge_that_waits(repo: Repo) -> None:
    repo.create_branch("side")
    write(repo, {**FIRST, 3: ("drei", 3)})
    repo.switch("side")
    write(repo, {**FIRST, 3: ("tres", 3)})
    assert repo.merge("main").kind == "conflicts"

    with pytest.raises(StateError):
        reset(repo.opened, "HEAD^", mode="soft")
    reset(repo.opened, "HEAD", mode="hard")

    assert repo.status().state == "clean"


def test_what_makes_no_sense_is_refused(repo: Repo) -> None:
    with pytest.raises(InvalidArgumentError):
        reset(repo.opened, "HEAD", mode="nothing")
    for revision in ("nothing", "[EMPTY]"):
        with pytest.raises(HavasuError):
            reset(repo.opened, revision)
