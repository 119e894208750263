"""The index, the work tree and the real git's view of both after commits of ours."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from havasu_vc.errors import ConcurrentChangeError, UncommittedChangesError
from havasu_vc.store import index
from havasu_vc.store.index import in_step, mend, switch_worktree
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.refs import create_branch, move_head, read_head
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.system import hold_file
from tests.store.committing import INTERNALS, commit_dataset, entries, write_commit

Git = Callable[..., str]


class Killed(BaseException):
    """Stands for the end of the process."""


def check_clean(repository: GitRepository, git: Git) -> None:
    if not repository.is_bare:
        assert git("status", "--porcelain", cwd=repository.path) == ""
        assert not (repository.path / "roads").exists()
    assert git("fsck", "--strict", "--no-dangling", cwd=repository.path) == ""


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("count", [1, 5_000])
@pytest.mark.few(2)
def test_git_is_content_after_a_commit(tmp_path: Path, git: Git, count: int, bare: bool) -> None:
    repository = init_repository(tmp_path, bare=bare)

    commit_dataset(repository, entries(count), message="first")
    check_clean(repository, git)
    commit_dataset(repository, {**entries(count, start=count), "files/00/00000000.json": None})
    check_clean(repository, git)

    listed = git("ls-tree", "-r", "--name-only", "HEAD", "--", "roads", cwd=tmp_path)
    assert len(listed.splitlines()) == 2 * count - 1
    assert git("show", "HEAD:.gitattributes", cwd=tmp_path).endswith("-text diff=havasu")
    if not bare:
        assert git("log", "-g", "--format=%gs", cwd=tmp_path).splitlines()[-1] == "commit: first"


def test_a_users_files_stay_exactly_as_they_are(tmp_path: Path, git: Git) -> None:
    git("init", "-q", cwd=tmp_path)
    for name in ("both", "staged", "unstaged", "roads-notes"):
        (tmp_path / name).write_text("old\n")
    (tmp_path / "roads").mkdir()
    (tmp_path / "roads/README").write_text("about roads\n")
    git("add", ".", cwd=tmp_path)
    git("commit", "-qm", "files", cwd=tmp_path)
    for name in ("both", "staged", "roads/README"):
        (tmp_path / name).write_text("staged\n")
        git("add", name, cwd=tmp_path)
    for name in ("both", "unstaged"):
        (tmp_path / name).write_text("unstaged\n")
    (tmp_path / "untracked").write_text("untracked\n")
    (tmp_path / "new").write_text("new\n")
    git("add", "new", cwd=tmp_path)
    before = git("status", "--porcelain", cwd=tmp_path), git("diff", "--cached", cwd=tmp_path)
    assert before[0].count("\n") == 5

    repository = init_repository(tmp_path)
    commit_dataset(repository, entries(300))
    commit_dataset(repository, entries(1, start=1_000))

    assert git("status", "--porcelain", cwd=tmp_path) == before[0]
    assert git("diff", "--cached", cwd=tmp_path) == before[1]


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["unstaged", "staged", "untracked", "deleted", "crlf", "link"])
def test_a_users_attributes_are_not_overwritten(tmp_path: Path, git: Git, how: str) -> None:
    git("init", "-q", cwd=tmp_path)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=tmp_path)
    mine = tmp_path / ".gitattributes"
    if how != "untracked":
        mine.write_bytes(b"*.txt text")
        git("add", mine, cwd=tmp_path)
        git("commit", "-qm", "attributes", cwd=tmp_path)
    match how:
        case "deleted":
            mine.unlink()
        case "crlf":
            mine.write_bytes(b"*.txt text")
            git("config", "core.autocrlf", "true", cwd=tmp_path)
        case "link":
            mine.unlink()
            (tmp_path / "target").write_bytes(b"*.txt text")
            mine.symlink_to("target")
        case _:
            mine.write_bytes(b"*.md text\n")
    if how == "staged":
        git("add", mine, cwd=tmp_path)
    before = mine.read_bytes() if mine.exists() else None

    commit_dataset(init_repository(tmp_path), entries(3))

    committed = git("show", "HEAD:.gitattributes", cwd=tmp_path)
    assert "diff=havasu" in committed
    status = git("status", "--porcelain", "--", ".gitattributes", cwd=tmp_path)
    if how == "crlf":
        assert b"diff=havasu" in mine.read_bytes() and status == ""
    else:
        assert (mine.read_bytes() if mine.exists() else None) == before
        expected = {"staged": "M ", "deleted": " D", "link": " T"}.get(how, " M")
        assert status == f"{expected} .gitattributes"


def test_attributes_written_once(repository: GitRepository, git: Git) -> None:
    commit_dataset(repository, entries(1))
    commit_dataset(repository, entries(2))
    lines = (repository.path / ".gitattributes").read_text().splitlines()
    assert len(lines) == len(set(lines))
    assert len([line for line in lines if "diff=havasu" in line]) == 1
    changed = git("log", "--oneline", "--", ".gitattributes", cwd=repository.path)
    assert len(changed.splitlines()) == 1


def test_paths_are_taken_literally(repository: GitRepository, git: Git) -> None:
    odd = "a [b] *ü 'c'/.havasu-dataset"
    commit_dataset(repository, entries(2), internals=odd)
    commit_dataset(repository, {"files/00/00000000.json": None}, internals=odd)
    check_clean(repository, git)


@pytest.mark.few(1)
@pytest.mark.parametrize("moment", ["before the ref", "after the ref", "within the reset"])
def test_a_death_between_ref_and_index_is_mended(
    repository: GitRepository, git: Git, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    first = commit_dataset(repository, entries(10))
    (repository.path / "notes").write_text("staged")
    git("add", "notes", cwd=repository.path)
    head = read_head(repository)
    commit = write_commit(repository, {f"{INTERNALS}/files/zz": b"new"}, [first])

    def dying(*_: object) -> None:
        raise Killed

    if moment == "within the reset":
        monkeypatch.setattr(index, "_catch_up", dying)
    with pytest.raises(Killed), in_step(repository, [INTERNALS]):
        if moment != "before the ref":
            move_head(repository, head, commit, "commit: edit")
        if moment != "within the reset":
            raise Killed
    monkeypatch.undo()

    assert git("fsck", "--strict", "--no-dangling", cwd=repository.path) == ""
    assert read_head(repository).commit == (first if moment == "before the ref" else commit)
    assert mend(GitRepository.open(repository.path))
    assert git("status", "--porcelain", cwd=repository.path) == "A  notes"
    assert not mend(repository)


def test_a_death_of_the_process_leaves_a_marker_to_mend(
    repository: GitRepository, git: Git
) -> None:
    """The lock on the marker goes with the process that held it."""
    commit_dataset(repository, entries(10))
    code = (
        "import os, sys\n"
        "from tests.store.committing import *\n"
        "from havasu_vc.store.refs import *\n"
        "r = GitRepository.open(sys.argv[1])\n"
        "h = read_head(r)\n"
        "c = write_commit(r, {INTERNALS + '/files/zz': b'x', 'note': b'y'}, [h.commit])\n"
        "with in_step(r, [INTERNALS], files=['note']):\n"
        "    move_head(r, h, c, 'commit: x')\n"
        "    os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, repository.path], check=False)
    assert done.returncode == 9
    assert git("status", "--porcelain", cwd=repository.path) != ""

    assert mend(repository)

    check_clean(repository, git)
    assert (repository.path / "note").read_bytes() == b"y"


def test_a_marker_of_a_living_process_is_left_alone(repository: GitRepository) -> None:
    commit_dataset(repository, entries(1))
    with in_step(repository, [INTERNALS]):
        assert not mend(repository)
        folder = repository.git_directory / "havasu/index-behind"
        assert len(os.listdir(folder)) == 1
    assert os.listdir(folder) == []


def test_a_marker_that_is_just_being_made_is_not_lost_to_who_mends(
    repository: GitRepository, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another commit mends between the marker's making and its holding; then the first dies."""
    commit_dataset(repository, entries(10))
    head = read_head(repository)
    commit = write_commit(repository, {f"{INTERNALS}/files/zz": b"x"}, [head.commit or ""])
    mended: list[bool] = []

    def late(number: int, *, wait: bool = False) -> None:
        if wait and not mended:
            mended.append(mend(GitRepository.open(repository.path)))
        hold_file(number, wait=wait)

    monkeypatch.setattr(index, "hold_file", late)
    with pytest.raises(Killed), in_step(repository, [INTERNALS]):
        move_head(repository, head, commit, "commit: x")
        raise Killed
    monkeypatch.undo()

    assert mended == [False]
    assert mend(GitRepository.open(repository.path))
    check_clean(repository, git)


def test_a_half_written_marker_is_removed(repository: GitRepository) -> None:
    folder = repository.git_directory / "havasu/index-behind"
    folder.mkdir(parents=True)
    (folder / "0123").write_bytes(b'{"internals": ["ro')
    assert not mend(repository)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("size", [0, 1, 40, 45, -41, -1])
def test_a_note_that_was_cut_short_is_not_believed(
    repository: GitRepository, git: Git, size: int
) -> None:
    """As after a loss of power; two that commit at once replace it as a whole."""
    commit_dataset(repository, entries(3))
    note = repository.git_directory / "havasu" / "index-in-step"
    assert index._in_step(repository) == {INTERNALS}
    note.write_bytes(note.read_bytes()[:size])
    assert index._in_step(repository) == frozenset()
    commit_dataset(repository, entries(5))
    check_clean(repository, git)
    assert index._in_step(repository) == {INTERNALS}


def test_an_error_before_the_ref_moved_leaves_no_marker(repository: GitRepository) -> None:
    commit_dataset(repository, entries(1))
    with pytest.raises(ConcurrentChangeError), in_step(repository, [INTERNALS]):
        raise ConcurrentChangeError("moved")
    assert not mend(repository)


@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_that_comes_amid_the_reset_stays_in_the_index(
    repository: GitRepository, git: Git, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    commit_dataset(repository, entries(3))
    real, left, busy = GitRepository.git, [f"files/late-{each}" for each in range(times)], False

    def run(self: GitRepository, *arguments: str, **others: Any) -> Any:
        nonlocal busy
        if arguments[0] == "reset" and left and not busy:
            # Another process commits once our git knows to which commit it resets.
            busy = True
            commit_dataset(repository, {left.pop(): b"late"})
            busy = False
        return real(self, *arguments, **others)

    monkeypatch.setattr(GitRepository, "git", run)
    monkeypatch.setattr(index, "_in_step", lambda _: frozenset())
    commit_dataset(repository, entries(1, start=7))
    assert not left
    check_clean(repository, git)


@pytest.mark.parametrize("in_the_way", [False, True])
def test_folders_leave_a_large_index_at_once(
    repository: GitRepository, git: Git, monkeypatch: pytest.MonkeyPatch, in_the_way: bool
) -> None:
    """What is staged, promised or in conflict stays; git's reset finds nothing to take out."""
    path, other = repository.path, "lakes/.havasu-dataset"
    (path / "notes").write_text("old")
    git("add", "notes", cwd=path)
    git("commit", "-qm", "notes", cwd=path)
    commit_dataset(repository, entries(300))
    commit_dataset(repository, entries(50), internals=other)
    (path / "notes").write_text("staged")
    (path / "roads").mkdir()
    (path / "roads/readme").write_text("staged beside it")
    git("add", "notes", "roads", cwd=path)
    (path / "promised").write_text("later")
    git("add", "-N", "promised", cwd=path)
    if in_the_way:
        blob = git("rev-parse", "HEAD:notes", cwd=path)
        stages = "".join(f"100644 {blob} {stage}\tquarrel\n" for stage in (1, 2, 3))
        subprocess.run(
            ["git", "update-index", "--index-info"], input=stages, text=True, cwd=path, check=True
        )
    before = git("ls-files", "--stage", "-t", "--", ":!roads/.havasu-dataset", cwd=path)
    left, real = [], GitRepository.git

    def run(self: GitRepository, *arguments: str, **others: Any) -> Any:
        if arguments[0] == "reset":
            left.append(len(git("ls-files", "--", INTERNALS, cwd=path).splitlines()))
        return real(self, *arguments, **others)

    monkeypatch.setattr(GitRepository, "git", run)
    monkeypatch.setattr(index, "LARGE", 0)
    head = read_head(repository)
    assert head.commit is not None
    commit = write_commit(repository, {INTERNALS: None}, [head.commit])
    with in_step(repository, [INTERNALS]):
        move_head(repository, head, commit, "commit: without roads")

    assert left == [300 if in_the_way else 0]
    assert git("ls-files", "--stage", "-t", cwd=path) == before
    status = git("status", "--porcelain", "--", ":!quarrel", cwd=path).splitlines()
    assert sorted(status) == [" A promised", "A  roads/readme", "M  notes"]
    assert git("fsck", "--strict", "--no-dangling", cwd=path) == ""


def test_a_held_index_is_waited_for(repository: GitRepository, git: Git) -> None:
    commit_dataset(repository, entries(1))
    lock = repository.git_directory / "index.lock"
    lock.touch()
    timer = threading.Timer(0.3, lock.unlink)
    timer.start()
    commit_dataset(repository, entries(3))
    timer.join()
    check_clean(repository, git)


@pytest.mark.thorough
def test_an_index_held_for_long_is_mended_later(
    repository: GitRepository, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_dataset(repository, entries(1))
    monkeypatch.setattr(index, "PATIENCE", 0.1)
    lock = repository.git_directory / "index.lock"
    with lock.open("x"):
        commit = commit_dataset(repository, entries(3))
        assert read_head(repository).commit == commit
        assert not mend(repository)  # commands that only read go on
    lock.unlink()

    assert mend(repository)

    check_clean(repository, git)


def test_a_clone_made_with_plain_git_is_prepared_by_its_first_commit(
    repository: GitRepository, tmp_path: Path, git: Git
) -> None:
    commit_dataset(repository, entries(3))
    git("clone", "-q", repository.path, tmp_path / "clone", cwd=tmp_path)
    clone = GitRepository.open(tmp_path / "clone")

    commit_dataset(clone, entries(5))

    check_clean(clone, git)


def test_switching_keeps_the_users_files(repository: GitRepository, git: Git) -> None:
    first = commit_dataset(repository, entries(3))
    (repository.path / "notes").write_text("mine")

    switch_worktree(repository, "side", create=True)
    commit_dataset(repository, entries(9))
    switch_worktree(repository, "main")
    assert git("status", "--porcelain", cwd=repository.path) == "?? notes"
    assert read_head(repository).commit == first
    switch_worktree(repository, first)

    assert read_head(repository).branch is None
    assert (repository.path / "notes").read_text() == "mine"
    commit = commit_dataset(repository, entries(4))  # upon a detached HEAD
    assert read_head(repository).commit == commit
    switch_worktree(repository, "side")
    (repository.path / "notes").unlink()
    check_clean(repository, git)


def test_switching_refuses_to_lose_edits(repository: GitRepository, git: Git) -> None:
    commit_dataset(repository, entries(3))
    for branch, text in (("main", "1"), ("side", "2")):
        if branch == "side":
            switch_worktree(repository, branch, create=True)
        (repository.path / "notes").write_text(text)
        git("add", "notes", cwd=repository.path)
        git("commit", "-qm", text, cwd=repository.path)
    (repository.path / "notes").write_text("3")

    with pytest.raises(UncommittedChangesError, match="notes"):
        switch_worktree(repository, "main")
    assert repository.head_branch == "side"
    switch_worktree(repository, "main", discard=True)
    assert (repository.path / "notes").read_text() == "1"


def test_switching_in_a_bare_repository_moves_head(tmp_path: Path, git: Git) -> None:
    repository = init_repository(tmp_path, bare=True)
    commit = commit_dataset(repository, entries(1))
    create_branch(repository, "side", commit)
    switch_worktree(repository, "side")
    assert repository.head_branch == "side"
    switch_worktree(repository, commit)
    assert read_head(repository).branch is None
    switch_worktree(repository, "third", create=True)
    assert read_head(repository).commit == commit and repository.head_branch == "third"
