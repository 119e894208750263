"""A merge that waits, on disk: it survives a restart, and damage is found and can be dropped."""

from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import CorruptionError, StateError, UncommittedChangesError
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.merging.state import read_state, write_state
from tests.repo.points import assert_clean, make, read, write
from tests.repo.test_conflicts import BASE, OURS, repo, template, waiting
from tests.support.git import run_git

__all__ = ["repo", "template"]


def state_files(repo: Repo) -> list[Path]:
    return sorted((repo.git.git_directory / "havasu" / "merge").iterdir())


def test_what_is_resolved_survives_a_restart(repo: Repo) -> None:
    repo.resolve_conflicts(["points:feature:1"], choice="theirs")
    repo.resolve_conflicts(["points:feature:9"], renumber="ours")

    again = Repo.open(repo.path)

    assert waiting(again) == ["points:feature:2", "points:feature:3"]
    assert len(state_files(repo)) == 2
    again.resolve_conflicts(choice="delete")
    again.continue_merge()
    assert read(again) == {1: ("eins", 11), 9: ("theirs", 9), 10: ("ours", 9)}
    assert not (repo.git.git_directory / "havasu" / "merge").exists()


def test_reading_gives_what_was_written(repo: Repo) -> None:
    state = read_state(repo.git)
    assert state is not None
    policy = MergePolicy(None, {"name": Side.OURS}, fill_nulls=True)
    write_state(repo.git, type(state)(state.ours, state.theirs, "n", "m\n\nü", policy))

    again = read_state(repo.git)

    assert again is not None
    assert (again.message, again.policy, again.conflicts) == ("m\n\nü", policy, ())


@pytest.mark.parametrize("which", [0, 1], ids=["table", "state"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: b"garbage" * 100,
        lambda data: data[:40] + b"\xff\xff" + data[42:],
        lambda data: b"[" * 200_000,
        lambda data: b"null",
        lambda data: b'{"version": 1}',
        lambda data: data.replace(b'"version": 2', b'"version": 9') + b" ",
        lambda data: data.replace(b'"rows": "', b'"rows": "../') + b" ",
        lambda data: data.replace(b'"datasets": [', b'"datasets": 5, "x": [') + b"\0",
        lambda data: None,
    ],
)
@pytest.mark.few(6)
def test_damage_is_one_clear_line(repo: Repo, which: int, damage: object) -> None:
    file = state_files(repo)[which]
    data = damage(file.read_bytes())  # type: ignore[operator]
    file.unlink()
    if data is not None:
        file.write_bytes(data)
    elif which == 1:
        # Without it nothing waits, and what lies about is in nobody's way.
        with pytest.raises(StateError):
            repo.abort_merge()
        assert repo.merge("side").kind == "conflicts"
        return
    head = repo.head().commit

    for action in (
        lambda: list(repo.conflicts()),
        lambda: repo.resolve_conflicts(choice="ours"),
        repo.continue_merge,
        lambda: repo.merge("side"),
    ):
        with pytest.raises(CorruptionError) as caught:
            action()
        assert "\n" not in caught.value.message
        assert "--abort" in caught.value.hints[0]
    assert any("the state of the merge" in problem for problem in repo.status().problems)
    repo.abort_merge()

    assert (repo.head().commit, read(repo)) == (head, dict(OURS))
    assert repo.status().state == "clean"
    assert_clean(repo)
    assert repo.merge("side").kind == "conflicts"


def test_head_that_moved_is_refused(repo: Repo) -> None:
    repo.resolve_conflicts(choice="ours")
    with pytest.raises(StateError, match="waits"):
        write(repo, {**OURS, 50: ("new", 1)})
    run_git("commit", "-q", "--allow-empty", "-m", "Moved", cwd=repo.path)

    with pytest.raises(StateError, match="HEAD has moved"):
        repo.continue_merge()
    repo.abort_merge()
    assert read(repo) == OURS


def test_a_merge_while_merging_is_refused(repo: Repo) -> None:

    with pytest.raises(StateError, match="waits"):
        repo.merge("side")
    assert len(waiting(repo)) == 4


def test_only_the_squash_has_one_parent(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", BASE)
    repo.create_branch("side")
    write(repo, {1: ("a", 1)})
    head = repo.head().commit
    repo.switch("side")
    write(repo, {1: ("b", 1)})
    repo.switch("main")
    repo.merge("side", squash=True)
    repo.resolve_conflicts(choice="theirs")

    assert repo.continue_merge().kind == "squash"
    assert repo.commit_info().parents == (head,)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["README.md", "new.md"], ids=["edited", "untracked"])
def test_edits_that_a_merge_would_bury_are_not(tmp_path: Path, name: str) -> None:
    repo = make(tmp_path / "repo", BASE)
    commit_file(repo, "README.md", "first\n")
    repo.create_branch("side")
    head = write(repo, {1: ("a", 1)})
    repo.switch("side")
    commit_file(repo, name, "theirs\n")
    repo.switch("main")
    (repo.path / name).write_text("mine\n")
    (repo.path / "other.md").write_text("in nobody's way\n")

    with pytest.raises(UncommittedChangesError, match=name):
        repo.merge("side")

    assert (repo.head().commit, (repo.path / name).read_text()) == (head, "mine\n")
    assert repo.merge("side", dry_run=True).kind == "merge"
    (repo.path / name).unlink()
    run_git("checkout", "--", ".", cwd=repo.path)
    assert repo.merge("side").kind == "merge"
    assert (repo.path / name).read_text() == "theirs\n"
    assert (repo.path / "other.md").read_text() == "in nobody's way\n"


def commit_file(repo: Repo, name: str, text: str) -> None:
    (repo.path / name).write_text(text)
    run_git("add", name, cwd=repo.path)
    run_git("commit", "-qm", name, cwd=repo.path)
