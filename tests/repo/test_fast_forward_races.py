"""Fast-forwards of a branch that somebody else commits to meanwhile: nobody's commit is lost."""

from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import ConcurrentChangeError, StateError
from havasu_vc.merging.trees import merge_bases
from tests.repo.points import make, read, write
from tests.support.git import run_git

ROWS = {1: ("one", 1), 2: ("two", 2)}


@pytest.mark.few(2)
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("into", [None, "side"])
def test_a_commit_that_came_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare: bool, into: str | None
) -> None:
    ours = make(tmp_path / "ours", ROWS)
    run_git("branch", "side", cwd=ours.path)
    run_git("switch", "--quiet", "-c", "topic", cwd=ours.path)
    write(ours, {**ROWS, 3: ("three", 3)})
    run_git("switch", "--quiet", "-c", "theirs", "side", cwd=ours.path)
    write(Repo.open(ours.path), {**ROWS, 4: ("four", 4)})
    run_git("switch", "--quiet", "main", cwd=ours.path)
    if bare:
        run_git("clone", "--quiet", "--bare", str(ours.path), str(tmp_path / "bare"), cwd=tmp_path)
    repo = Repo.open(tmp_path / "bare" if bare else ours.path)
    branch = f"refs/heads/{into or 'main'}"
    found = merge_bases

    def late(*arguments: object) -> tuple[str, ...]:
        bases = found(*arguments)  # type: ignore[arg-type]
        run_git("update-ref", branch, "refs/heads/theirs", cwd=repo.git.path)
        return bases

    monkeypatch.setattr("havasu_vc.merging.merge_commits.merge_bases", late)
    # Where HEAD has a work tree, git moves it, and says so itself.
    with pytest.raises((ConcurrentChangeError, StateError)):
        repo.merge("topic", into=into)

    assert run_git("rev-parse", branch, cwd=repo.git.path) == run_git(
        "rev-parse", "theirs", cwd=repo.git.path
    )
    assert 4 in read(ours, "theirs")
