"""Reverting and cherry-picking: laws over random edits, conflicts that wait, the user's files."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import Repo
from havasu_vc.errors import ConflictError, HavasuError, InvalidArgumentError, StateError
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.merging.picking import cherry_pick, revert
from havasu_vc.merging.requests import PickRequest
from tests.repo.points import Rows, add, add_column, assert_clean, make, read, write
from tests.support.examples import examples
from tests.support.git import run_git

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 9)}

cells = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))
tables = st.dictionaries(st.integers(1, 8), cells, max_size=8)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make(tmp_path / "repo", FIRST)


@pytest.mark.thorough
@examples(8)
@given(first=tables, second=tables)
def test_the_revert_of_a_revert_is_what_was_there(first: Rows, second: Rows) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = make(Path(folder) / "repo", {**first, 0: ("zero", 0)})
        write(repo, {**second, 0: ("nought", 0)})
        before, parent = read(repo), read(repo, "HEAD^")

        undone = revert(repo.opened, PickRequest("HEAD"))
        assert read(repo) == parent
        redone = revert(repo.opened, PickRequest("HEAD"))

        assert (undone.kind, redone.kind) == ("revert", "revert")
        assert read(repo) == before
        assert_clean(repo)


@pytest.mark.thorough
@examples(8)
@given(base=tables, change=tables, other=tables)
def test_a_pick_and_its_revert_leave_head_alone(base: Rows, change: Rows, other: Rows) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = make(Path(folder) / "repo", {**base, 0: ("zero", 0)})
        repo.create_branch("side")
        # Keys apart, so that nothing is in conflict.
        write(repo, {**base, 0: ("zero", 0), **{key + 100: row for key, row in other.items()}})
        before = read(repo)
        repo.switch("side")
        picked = write(repo, {**change, 0: ("nought", 0)})
        expected = read(repo)
        repo.switch("main")

        result = cherry_pick(repo.opened, PickRequest(picked))
        now = read(repo)
        assert result.kind == "cherry-pick"
        known = read(repo, f"{picked}^")
        for key in known.keys() | expected.keys():
            if known.get(key) != expected.get(key):
                assert now.get(key) == expected.get(key)
        revert(repo.opened, PickRequest("HEAD"))

        assert read(repo) == before
        assert_clean(repo)


def test_picking_a_commit_onto_its_own_parent_gives_its_tree(repo: Repo) -> None:
    picked = write(repo, {**FIRST, 3: ("three", 33), 11: ("eleven", 11)}, message="Edit\n\nBody")
    tree = repo.resolve(picked).tree
    repo.switch("again", create=True, start="HEAD^")

    result = cherry_pick(repo.opened, PickRequest(picked))

    assert repo.head().tree == tree
    assert result.commit == repo.head().commit
    assert repo.commit_info().message == repo.commit_info(picked).message
    assert_clean(repo)


def test_the_author_of_a_picked_commit_stays(repo: Repo) -> None:
    write(repo, {**FIRST, 3: ("three", 33)})
    run_git(
        *("-c", "user.name=Somebody", "-c", "user.email=some@body"),
        *("commit", "-q", "--amend", "--reset-author", "--no-edit", "--date=2020-02-02T02:02:02Z"),
        cwd=repo.path,
    )
    picked = repo.head().commit
    assert picked
    repo.switch("again", create=True, start="HEAD^")

    cherry_pick(repo.opened, PickRequest(picked, record=True))

    info = repo.commit_info()
    assert (info.author_name, info.author_email) == ("Somebody", "some@body")
    assert info.author_time == 1580608922
    assert info.committer_name == "Test User"
    assert info.message.endswith(f"(cherry picked from commit {picked})\n")


def test_a_revert_says_what_it_undoes(repo: Repo) -> None:
    undone = write(repo, {**FIRST, 3: ("three", 33)}, message="Edit a row\n\nBody")

    revert(repo.opened, PickRequest("HEAD"))

    info = repo.commit_info()
    assert info.message == f'Revert "Edit a row"\n\nThis reverts commit {undone}.\n'
    assert info.parents == (undone,)


def test_other_cells_of_a_row_stay(repo: Repo) -> None:
    write(repo, {**FIRST, 3: ("three", 3)})
    write(repo, {**FIRST, 3: ("three", 33)})

    revert(repo.opened, PickRequest("HEAD^"))

    assert read(repo)[3] == ("name 3", 33)
    assert_clean(repo)


@pytest.mark.few(1)
@pytest.mark.parametrize(("choice", "expected"), [("theirs", "name 3"), ("base", "three")])
def test_conflicts_of_a_revert_wait_like_those_of_a_merge(
    repo: Repo, choice: str, expected: str
) -> None:
    write(repo, {**FIRST, 3: ("three", 3), 4: ("four", 4)})
    head = write(repo, {**FIRST, 3: ("THREE", 3), 4: ("four", 4)})

    result = revert(repo.opened, PickRequest("HEAD^"))

    assert result.kind == "conflicts"
    assert repo.head().commit == head
    with pytest.raises(StateError):
        revert(repo.opened, PickRequest("HEAD^"))
    with pytest.raises(ConflictError):
        repo.continue_merge()
    repo.resolve_conflicts([], choice=choice)
    done = repo.continue_merge()
    assert done.kind == "revert"
    info = repo.commit_info()
    assert info.parents == (head,)
    assert info.message.startswith('Revert "')
    assert (read(repo)[3][0], read(repo)[4][0]) == (expected, "name 4")
    assert_clean(repo)


def test_an_aborted_pick_leaves_everything(repo: Repo) -> None:
    write(repo, {**FIRST, 3: ("three", 3)}, message="picked")
    repo.switch("side", create=True, start="HEAD^")
    head = write(repo, {**FIRST, 3: ("drei", 3)})

    assert cherry_pick(repo.opened, PickRequest("main")).kind == "conflicts"
    repo.abort_merge()

    assert repo.head().commit == head
    assert_clean(repo)
    policy = MergePolicy(side=Side.THEIRS)
    assert cherry_pick(repo.opened, PickRequest("main", policy=policy)).kind == "cherry-pick"
    assert read(repo)[3] == ("three", 3)


def test_a_pick_that_ends_empty_makes_no_commit(repo: Repo) -> None:
    write(repo, {**FIRST, 3: ("three", 3)})
    head = write(repo, {**FIRST, 3: ("three", 3), 4: ("four", 4)})

    assert cherry_pick(repo.opened, PickRequest("HEAD^")).kind == "empty"
    assert repo.head().commit == head
    write(repo, {**FIRST, 3: ("drei", 3), 4: ("four", 4)})
    assert cherry_pick(repo.opened, PickRequest("HEAD~2")).kind == "conflicts"
    repo.resolve_conflicts([], choice="ours")
    assert repo.continue_merge().kind == "empty"
    assert repo.status().state == "clean"
    assert_clean(repo)


def test_without_committing_nothing_moves(repo: Repo) -> None:
    head = write(repo, {**FIRST, 3: ("three", 3)})

    assert revert(repo.opened, PickRequest("HEAD", dry_run=True)).kind == "revert"
    write(repo, {**FIRST, 3: ("drei", 3)})
    assert revert(repo.opened, PickRequest(head, dry_run=True)).kind == "conflicts"

    assert repo.status().state == "clean"
    assert read(repo)[3] == ("drei", 3)


def test_a_merge_needs_a_mainline(repo: Repo) -> None:
    repo.create_branch("side")
    write(repo, {**FIRST, 3: ("three", 3)})
    main = read(repo)
    repo.switch("side")
    write(repo, {**FIRST, 4: ("four", 4)})
    side = read(repo)
    repo.switch("main")
    repo.merge("side")

    with pytest.raises(InvalidArgumentError, match="is a merge") as raised:
        revert(repo.opened, PickRequest("HEAD"))
    assert raised.value.hints
    for mainline in (0, 3):
        with pytest.raises(InvalidArgumentError, match="no parent"):
            revert(repo.opened, PickRequest("HEAD", mainline=mainline))
    with pytest.raises(InvalidArgumentError, match="no merge"):
        revert(repo.opened, PickRequest("HEAD^", mainline=1))

    merge = repo.head().commit
    revert(repo.opened, PickRequest("HEAD", mainline=1))
    assert read(repo) == main
    assert f"This reverts commit {merge}, reversing\nchanges" in repo.commit_info().message
    revert(repo.opened, PickRequest("HEAD"))
    revert(repo.opened, PickRequest(str(merge), mainline=2))
    assert read(repo) == side
    assert_clean(repo)


def test_columns_and_meta_items_are_reverted(repo: Repo) -> None:
    before = repo.get_meta("points")
    repo.set_meta("points", {"title": "Points"})
    add_column(repo, "extra")

    revert(repo.opened, PickRequest("HEAD"))
    assert "extra" not in repo.dataset("points").schema.names
    assert repo.get_meta("points", ["title"])["title"] == "Points"
    revert(repo.opened, PickRequest("HEAD~2"))

    assert repo.get_meta("points") == before
    assert_clean(repo)


def test_a_dataset_that_came_goes_and_comes_back(repo: Repo, tmp_path: Path) -> None:
    add(repo, tmp_path, {1: ("one", 1)}, "more/lines")
    write(repo, {**FIRST, 3: ("three", 3)})

    revert(repo.opened, PickRequest("HEAD^"))
    assert repo.datasets() == ("points",)
    revert(repo.opened, PickRequest("HEAD"))

    assert read(repo, dataset="more/lines") == {1: ("one", 1)}
    assert read(repo)[3] == ("three", 3)
    assert_clean(repo)


def test_the_first_commit_can_be_reverted_and_picked(repo: Repo) -> None:
    first = str(repo.head().commit)

    revert(repo.opened, PickRequest(first))
    assert repo.datasets() == ()
    assert_clean(repo)
    cherry_pick(repo.opened, PickRequest(first))

    assert read(repo) == FIRST
    assert_clean(repo)


def test_files_of_the_user_follow(repo: Repo) -> None:
    readme, other = repo.path / "README.md", repo.path / "docs" / "new.md"
    readme.write_text("one\n")
    run_git("add", ".", cwd=repo.path)
    run_git("commit", "-qm", "readme", cwd=repo.path)
    readme.write_text("two\n")
    other.parent.mkdir()
    other.write_text("new\n")
    run_git("add", ".", cwd=repo.path)
    run_git("commit", "-qm", "edit", cwd=repo.path)

    revert(repo.opened, PickRequest("HEAD"))
    assert readme.read_text() == "one\n"
    assert not other.parent.exists()
    assert_clean(repo)
    revert(repo.opened, PickRequest("HEAD"))

    assert (readme.read_text(), other.read_text()) == ("two\n", "new\n")
    assert_clean(repo)


def test_what_is_no_commit_is_refused(repo: Repo) -> None:
    for revision in ("nothing", "[EMPTY]"):
        with pytest.raises(HavasuError):
            revert(repo.opened, PickRequest(revision))
        with pytest.raises(HavasuError):
            cherry_pick(repo.opened, PickRequest(revision))


def test_a_bare_repository_is_enough(tmp_path: Path) -> None:
    repo = make(tmp_path / "bare.git", FIRST, bare=True)
    write(repo, {**FIRST, 3: ("three", 3)})

    revert(repo.opened, PickRequest("HEAD"))

    assert read(repo) == FIRST
    assert_clean(repo)


def test_what_waits_keeps_its_files_from_gc(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repo, {**FIRST, 3: ("three", 3), 4: ("four", 4)}, message="picked")
    repo.switch("side", create=True, start="HEAD^")
    write(repo, {**FIRST, 3: ("drei", 3)})
    assert cherry_pick(repo.opened, PickRequest("main")).kind == "conflicts"
    repo.delete_branch("main", force=True)
    run_git("reflog", "expire", "--expire=now", "--all", cwd=repo.path)

    repo.gc(grace_days=0)
    repo.resolve_conflicts([], choice="theirs")

    assert repo.continue_merge().kind == "cherry-pick"
    assert (read(repo)[3], read(repo)[4]) == (("three", 3), ("four", 4))
    assert_clean(repo)
