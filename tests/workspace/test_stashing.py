"""Edits set aside and brought back."""

import os
import socket
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import (
    ConflictError,
    LockedError,
    NoChangesError,
    NotFoundError,
    UncommittedChangesError,
)
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.store import locks
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.git import run_git
from tests.support.sound import LOCAL, assert_sound, refuses
from tests.support.templates import empty_repo
from tests.workspace import by_hand
from tests.workspace.sheets import counts_of, rows_of


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with `points` and `more`, checked out."""
    made = empty_repo(tmp_path / "repo", settings=LOCAL)
    made.import_(write(tmp_path / "points.parquet", points(20)), options=BY_ID)
    made.import_(write(tmp_path / "more.parquet", points(5)), options=BY_ID)
    made.workspace.check_out()
    return made


def row(key: int, name: str = "new") -> by_hand.Rows:
    return [{"id": key, "geom": None, "name": name, "number": 1}]


def edit(repo: Repo, path: str = "points") -> None:
    """Insert a row, update one and delete one."""
    place = repo.workspace.root / path
    by_hand.delete(place, [1, 2])
    by_hand.insert(place, [*row(1), *row(500)])


EDITED = ChangeCounts(1, 1, 1)


def test_edits_are_set_aside_and_come_back(repo: Repo) -> None:
    edit(repo)
    edited = rows_of(repo, "points")

    stash = repo.workspace.stash(message="half done")

    assert (stash.number, stash.message) == (0, "On main: half done")
    assert counts_of(repo, "points") == ChangeCounts()
    assert rows_of(repo, "points") == rows(repo, "points")
    _, diffs = repo.workspace.diff_stash()
    assert [diff.path for diff in diffs] == ["points"]
    assert_sound(repo)
    repo.gc(grace_days=0)

    assert repo.workspace.apply_stash(drop=True) == stash

    assert repo.workspace.stashes() == ()
    assert counts_of(repo, "points") == EDITED
    assert rows_of(repo, "points") == edited
    assert run_git("stash", "list", cwd=repo.path) == ""
    repo.gc(grace_days=0)
    assert repo.workspace.commit(message="Done").changes == {"points": EDITED}
    assert rows(repo, "points") == edited
    assert not list(repo.fsck(full=True))
    assert_sound(repo, dangling=True)


def test_no_stash_is_made_while_git_collects_garbage(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would take what no ref reaches yet."""
    edit(repo)
    monkeypatch.setattr(locks, "PATIENCE", 0.0)
    going = repo.path / ".git" / "gc.pid"
    going.write_text(f"{os.getpid()} {socket.gethostname()}")

    with pytest.raises(LockedError, match="git gc"):
        repo.workspace.stash()

    assert repo.workspace.stashes() == ()
    assert counts_of(repo, "points") == EDITED
    going.unlink()
    repo.workspace.stash()
    assert counts_of(repo, "points") == ChangeCounts()
    assert not going.exists()


def test_a_stash_comes_back_onto_a_head_that_moved(repo: Repo) -> None:
    edit(repo)
    repo.workspace.stash()
    by_hand.insert(repo.workspace.root / "points", row(700))
    repo.workspace.commit(message="Meanwhile")

    repo.workspace.apply_stash()

    assert counts_of(repo, "points") == EDITED
    assert {row["id"] for row in rows_of(repo, "points")} == {*range(20), 500, 700} - {2}
    assert len(repo.workspace.stashes()) == 1


def test_a_stash_goes_where_the_dataset_went(repo: Repo) -> None:
    edit(repo)
    edited = rows_of(repo, "points")
    repo.workspace.stash()
    repo.move_dataset("points", "maps/places")

    repo.workspace.apply_stash(drop=True)

    assert counts_of(repo, "maps/places") == EDITED
    assert rows_of(repo, "maps/places") == edited
    repo.workspace.stash()
    by_hand.insert(repo.workspace.root / "maps/places", row(700))
    repo.workspace.commit(message="Meanwhile")
    repo.move_dataset("maps/places", "points")
    repo.workspace.apply_stash()

    assert counts_of(repo, "points") == EDITED
    assert {row["id"] for row in rows_of(repo, "points")} == {*range(20), 500, 700} - {2}
    assert_sound(repo, dangling=True)


def test_a_stash_in_conflict_changes_nothing(repo: Repo) -> None:
    edit(repo)
    repo.workspace.stash()
    by_hand.delete(repo.workspace.root / "points", [1])
    by_hand.insert(repo.workspace.root / "points", row(1, "theirs"))
    repo.workspace.commit(message="Meanwhile")

    with refuses(repo, ConflictError, match="points: HEAD has changed the same cells", hint=True):
        repo.workspace.apply_stash(drop=True)
    assert counts_of(repo, "points") == ChangeCounts()


def test_a_stash_does_not_come_into_tables_with_edits(repo: Repo) -> None:
    edit(repo)
    repo.workspace.stash()
    by_hand.insert(repo.workspace.root / "points", row(700))

    with refuses(repo, UncommittedChangesError, hint=True):
        repo.workspace.apply_stash()


def test_some_datasets_are_set_aside(repo: Repo) -> None:
    edit(repo)
    edit(repo, "more")

    repo.workspace.stash(["more"], message="more")
    repo.workspace.stash(message="points")

    assert [each.message for each in repo.workspace.stashes()] == [
        "On main: points",
        "On main: more",
    ]
    repo.workspace.apply_stash("stash@{1}", drop=True)
    assert counts_of(repo, "more") == EDITED and counts_of(repo, "points") == ChangeCounts()
    repo.workspace.drop_stash("0")
    assert repo.workspace.stashes() == ()


def test_what_cannot_be_done_is_refused(repo: Repo) -> None:
    with refuses(repo, NoChangesError):
        repo.workspace.stash()
    with refuses(repo, NotFoundError, match="no stash", hint=True):
        repo.workspace.apply_stash()
    with refuses(repo, NotFoundError, hint=True):
        repo.workspace.drop_stash("3")
