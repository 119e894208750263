"""The index after commits of ours: git is told what changed alone, where that is surely enough."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.store import index
from havasu_vc.store.repository import GitRepository
from tests.repo.points import Rows, assert_clean, make, read, table, write
from tests.support.git import run_git

FIRST: Rows = {1: ("a", 1), 2: ("b", 2)}
SECOND: Rows = {1: ("A", 1), 2: ("b", 2), 3: ("c", 3)}
THIRD: Rows = {1: ("A", 1), 2: ("B", 2), 3: ("c", 3)}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries git was told of, each time that these were all."""
    counts: list[int] = []
    told_alone = index._set_entries

    def counted(repository: GitRepository, entries: Mapping[str, str | None]) -> bool:
        done = told_alone(repository, entries)
        counts.append(len(entries) if done else 0)
        return done

    monkeypatch.setattr(index, "_set_entries", counted)
    return counts


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository whose last commit was ours."""
    made = make(tmp_path / "repo", FIRST)
    write(made, SECOND)
    return Repo.open(made.path)


def test_what_changed_is_told_alone(repo: Repo, told: list[int]) -> None:
    write(repo, THIRD)

    assert told == [4]
    assert_clean(repo)
    flags = run_git("ls-files", "-t", "points", cwd=repo.path).splitlines()
    assert {line[0] for line in flags} == {"S"}


def stage_a_removal(repo: Repo) -> None:
    run_git("rm", "-rq", "--sparse", "points", cwd=repo.path)


def stage_a_file(repo: Repo) -> None:
    (repo.path / "note.txt").write_text("mine")
    run_git("add", "note.txt", cwd=repo.path)


def move_head(repo: Repo) -> None:
    run_git("update-ref", "HEAD", "HEAD~1", cwd=repo.path)


@pytest.mark.parametrize("touch", [stage_a_removal, stage_a_file, move_head])
def test_an_index_that_somebody_touched_is_compared_with_head(
    repo: Repo, told: list[int], touch: object
) -> None:
    assert callable(touch)
    touch(repo)
    repo = Repo.open(repo.path)

    repo.write("points", table({8: ("eight", 8)}), message="Third")

    assert told == []
    staged = run_git("diff-index", "--cached", "--name-only", "HEAD", "--", cwd=repo.path)
    assert staged == ("note.txt" if touch is stage_a_file else "")
    write(repo, {**read(repo), 9: ("nine", 9)})
    assert len(told) == 1
    assert run_git("diff-index", "--cached", "--name-only", "HEAD", "--", cwd=repo.path) == staged


def test_what_git_does_in_between_is_seen(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    told_alone = index._set_entries

    def another_comes(repository: GitRepository, entries: Mapping[str, str | None]) -> bool:
        monkeypatch.setattr(index, "_set_entries", told_alone)
        own = ("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "git's own")
        run_git("update-ref", "HEAD", run_git(*own, cwd=repo.path), cwd=repo.path)
        run_git("rm", "-rq", "--sparse", "points", cwd=repo.path)
        return told_alone(repository, entries)

    monkeypatch.setattr(index, "_set_entries", another_comes)
    write(repo, THIRD)

    assert run_git("log", "-1", "--format=%s", cwd=repo.path) == "git's own"
    assert read(Repo.open(repo.path)) == THIRD
    assert_clean(repo)
