import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import (
    ConcurrentChangeError,
    InvalidArgumentError,
    InvalidNameError,
    LockedError,
    NoBranchError,
    RevisionNotFoundError,
    StateError,
)
from havasu_vc.store.command import run_git as run_ours
from havasu_vc.store.index import switch_worktree
from havasu_vc.store.refs import (
    Head,
    check_ref_name,
    create_branch,
    create_tag,
    delete_branch,
    delete_tag,
    list_branches,
    list_tags,
    move_head,
    move_ref,
    read_head,
    read_ref,
)
from havasu_vc.store.repository import GitRepository
from tests.store.committing import commit_dataset, entries, write_commit

Git = Callable[..., str]


@pytest.fixture
def two(repository: GitRepository) -> tuple[str, str]:
    first = commit_dataset(repository, entries(1))
    return first, commit_dataset(repository, entries(2))


def test_head_on_an_unborn_branch_and_after(repository: GitRepository, git: Git) -> None:
    head = read_head(repository)
    assert head == Head("main", None) and head.ref == "refs/heads/main"
    commit = write_commit(repository, {"a": b"1"})
    move_head(repository, head, commit, "commit (initial): x")
    assert read_head(repository) == Head("main", commit)
    assert git("reflog", "--format=%gs", cwd=repository.path) == "commit (initial): x"
    with pytest.raises(ConcurrentChangeError):
        move_head(repository, head, write_commit(repository, {"a": b"2"}), "again")
    move_head(repository, head, commit, "again")  # it is there
    assert git("reflog", "--format=%gs", cwd=repository.path) == "commit (initial): x"


def test_a_detached_head_moves_alone(
    repository: GitRepository, git: Git, two: tuple[str, str]
) -> None:
    first, second = two
    switch_worktree(repository, first)
    head = read_head(repository)
    assert head == Head(None, first)
    commit = write_commit(repository, {"a": b"1"}, [first])
    move_head(repository, head, commit, "commit: x")
    assert read_head(repository) == Head(None, commit)
    assert read_ref(repository, "refs/heads/main") == second

    switch_worktree(repository, "main")
    with pytest.raises(ConcurrentChangeError, match="put on a branch"):
        move_head(repository, Head(None, commit), second, "x")
    assert read_head(repository) == Head("main", second)


def test_a_ref_that_moved_is_left(repository: GitRepository, two: tuple[str, str]) -> None:
    first, second = two
    for old in (first, None):
        with pytest.raises(ConcurrentChangeError, match="main was moved"):
            move_ref(repository, "refs/heads/main", old=old, new=first, message="x")
    with pytest.raises(ConcurrentChangeError):
        move_ref(repository, "refs/heads/none", old=first, new=second, message="x")
    assert read_ref(repository, "refs/heads/main") == second
    assert read_ref(repository, "refs/heads/none") is None


def test_a_held_lock_is_waited_for_and_then_named(
    repository: GitRepository, two: tuple[str, str]
) -> None:
    first, second = two
    lock = repository.git_directory / "refs/heads/main.lock"
    lock.touch()
    with pytest.raises(LockedError, match="main is locked") as caught:
        move_ref(repository, "refs/heads/main", old=second, new=first, message="x", patience=0.1)
    assert str(lock) in caught.value.hints[0]
    os.utime(lock)

    timer = threading.Timer(0.3, lock.unlink)
    timer.start()
    move_ref(repository, "refs/heads/main", old=second, new=first, message="x")
    timer.join()
    assert read_ref(repository, "refs/heads/main") == first


def test_packed_refs_move_as_well(
    repository: GitRepository, git: Git, two: tuple[str, str]
) -> None:
    git("pack-refs", "--all", cwd=repository.path)
    move_ref(repository, "refs/heads/main", old=two[1], new=two[0], message="x")
    assert git("rev-parse", "main", cwd=repository.path) == two[0]


def test_a_name_that_is_a_part_of_another(repository: GitRepository, two: tuple[str, str]) -> None:
    with pytest.raises(InvalidNameError, match="a part of it"):
        move_ref(repository, "refs/heads/main/x", old=None, new=two[0], message="x", patience=0.1)


WORKER = """
import sys
from tests.store.committing import *
from havasu_vc.errors import ConcurrentChangeError
repository, me = GitRepository.open(sys.argv[1]), sys.argv[2]
for number in range(10):
    while True:
        head = read_head(repository)
        parents = [head.commit] if head.commit else []
        path = f"{INTERNALS}/files/{me}-{number}"
        commit = write_commit(repository, {path: b"x"}, parents, message=f"{me} {number}")
        try:
            with in_step(repository, [INTERNALS]):
                move_head(repository, head, commit, "commit: x")
            break
        except ConcurrentChangeError:
            pass
"""


@pytest.mark.thorough
def test_no_commit_of_several_processes_is_lost(repository: GitRepository, git: Git) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, repository.path, name]) for name in "abcd"
    ]
    assert [worker.wait() for worker in workers] == [0] * 4

    where = repository.path
    subjects = git("log", "--format=%s", cwd=where).splitlines()
    assert sorted(subjects) == sorted(f"{w} {n}" for w in "abcd" for n in range(10))
    assert len(git("ls-tree", "-r", "HEAD", cwd=where).splitlines()) == 40
    assert git("status", "--porcelain", cwd=where) == ""
    assert git("fsck", "--strict", "--no-dangling", cwd=where) == ""


def test_branches_come_and_go(repository: GitRepository, git: Git, two: tuple[str, str]) -> None:
    first, second = two
    create_branch(repository, "zoë/one", first)
    with pytest.raises(InvalidArgumentError, match="already"):
        create_branch(repository, "zoë/one", second)
    create_branch(repository, "zoë/one", second, force=True)
    git("worktree", "add", "-q", repository.path.parent / "linked", "zoë/one", cwd=repository.path)

    main, other = list_branches(repository)

    assert (main.name, main.commit, main.is_head, main.upstream) == ("main", second, True, None)
    assert (other.name, other.commit, other.is_head) == ("zoë/one", second, False)
    assert other.checked_out == str(repository.path.parent / "linked")
    for name, why in (("main", "HEAD is on branch 'main'"), ("zoë/one", "checked out")):
        with pytest.raises(StateError, match=why):
            delete_branch(repository, name, force=True)
    git("worktree", "remove", repository.path.parent / "linked", cwd=repository.path)
    delete_branch(repository, "zoë/one")
    with pytest.raises(NoBranchError):
        delete_branch(repository, "zoë/one")


def test_a_branch_with_commits_of_its_own_is_not_deleted_lightly(
    repository: GitRepository, two: tuple[str, str]
) -> None:
    commit = write_commit(repository, {"a": b"1"}, [two[1]])
    create_branch(repository, "side", commit)
    with pytest.raises(StateError, match="not fully merged"):
        delete_branch(repository, "side")
    delete_branch(repository, "side", force=True)
    assert [branch.name for branch in list_branches(repository)] == ["main"]


def test_branches_of_a_remote(
    repository: GitRepository, git: Git, two: tuple[str, str], tmp_path: Path
) -> None:
    git("clone", "-q", "--no-checkout", repository.path, tmp_path / "clone", cwd=tmp_path)
    clone = GitRepository.open(tmp_path / "clone")
    (remote,) = list_branches(clone, remote=True)
    assert (remote.name, remote.commit) == ("origin/main", two[1])
    assert list_branches(clone)[0].upstream == "origin/main"


def test_tags_come_and_go(repository: GitRepository, git: Git, two: tuple[str, str]) -> None:
    first, second = two
    create_tag(repository, "plain", first)
    create_tag(repository, "v1", second, message="One\n\nwith lines")
    git("tag", "of-a-tree", "HEAD^{tree}", cwd=repository.path)
    with pytest.raises(InvalidArgumentError, match="already"):
        create_tag(repository, "v1", first)

    tags = list_tags(repository)

    assert [(t.name, t.commit, t.message) for t in tags] == [
        ("plain", first, None),
        ("v1", second, "One\n\nwith lines"),
    ]
    delete_tag(repository, "v1")
    with pytest.raises(RevisionNotFoundError):
        delete_tag(repository, "v1")


@given(st.text(st.sampled_from("ab./@{-~ \\\x7f*H:é"), max_size=6) | st.sampled_from(["HEAD", "@"]))
def test_names_are_those_that_git_takes(name: str) -> None:
    # `@{-1}` and the like are names of other branches.
    takes = run_ours(["check-ref-format", "--branch", name], check=False).code == 0
    try:
        check_ref_name(name)
    except InvalidNameError:
        assert not takes or name in ("@", "HEAD")
    else:
        assert takes
