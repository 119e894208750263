"""Remotes that are folders, and data in folders by URL."""

import importlib
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from havasu_vc import Repo
from havasu_vc.errors import (
    ConcurrentChangeError,
    CorruptDataFileError,
    DataFileNotFoundError,
    InvalidArgumentError,
    NoBranchError,
    NotFoundError,
    StateError,
    StorageError,
)
from havasu_vc.store.sound import read_complete
from tests.remotes.sharing import (
    assert_keeps_its_promise,
    bare,
    clone,
    files,
    named,
    reopened,
    share,
    spoil,
    store,
)
from tests.repo.points import assert_clean, make, read, write
from tests.support.git import run_git

pytestmark = pytest.mark.few(2)

ROWS = {1: ("one", 1), 2: ("two", 2)}


def test_a_push_takes_the_data_along(ours: Repo, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    assert files(server) == files(ours)
    assert_keeps_its_promise(server)

    commit = write(ours, {**read(ours), 9: ("nine", 9)})
    result = ours.push()

    assert result.files and result.size and len(result.refs) == 1
    assert run_git("rev-parse", "main", cwd=server) == commit
    assert_keeps_its_promise(server)
    again = ours.push()
    assert (again.files, again.refs) == (0, ())


def test_a_clone_has_the_rows_and_is_clean(ours: Repo, tmp_path: Path) -> None:
    (ours.path / "README").write_text("read me\n")
    run_git("add", "README", cwd=ours.path)
    run_git("commit", "-qm", "Read me", cwd=ours.path)
    ours.push()

    theirs = clone(tmp_path / "server.git", tmp_path / "theirs")

    assert read(theirs) == read(ours)
    assert (theirs.path / "README").read_text() == "read me\n"
    assert sorted(p.name for p in theirs.path.iterdir()) == [".git", ".gitattributes", "README"]
    assert_clean(theirs)
    assert list(theirs.fsck(full=True)) == []
    assert theirs.upstream() == "origin/main"
    assert (theirs.git.common_directory / "hooks" / "pre-push").exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["path", "url", "relative", "without .git", "not bare"])
def test_whatever_git_calls_a_folder(ours: Repo, tmp_path: Path, form: str) -> None:
    server = tmp_path / "server.git"
    address = {
        "path": str(server),
        "url": server.as_uri(),
        "relative": "server.git",
        "without .git": str(tmp_path / "server"),
        "not bare": str(ours.path),
    }[form]

    theirs = clone(address, tmp_path / "theirs", base=tmp_path)

    assert read(theirs) == read(ours)
    write(ours, ROWS)
    ours.push()
    assert theirs.fetch().files
    assert read(theirs, "origin/main") == ROWS


def test_a_bare_clone_carries_the_data_and_can_be_cloned(ours: Repo, tmp_path: Path) -> None:
    copy = clone(tmp_path / "server.git", tmp_path / "copy.git", bare=True)
    assert copy.git.is_bare and files(copy) == files(ours)

    assert read(clone(copy.path, tmp_path / "third")) == read(ours)


def test_fetching_into_a_bare_clone_brings_data(ours: Repo, tmp_path: Path) -> None:
    copy = clone(tmp_path / "server.git", tmp_path / "copy.git", bare=True)
    write(ours, ROWS)
    ours.push()

    assert copy.fetch("origin", ["main:side"]).files

    assert read(copy, "side") == ROWS


def test_data_at_a_url(tmp_path: Path) -> None:
    ours, data = make(tmp_path / "ours", ROWS), tmp_path / "data" / "deep"
    server = bare(tmp_path / "server.git")

    share(ours, server, data=data.as_uri())

    assert files(server) == []
    assert_keeps_its_promise(server, data)
    assert os.listdir(data / "pushes") == []
    theirs = clone(server, tmp_path / "theirs", data_url=data.as_uri())
    assert read(theirs) == ROWS
    write(theirs, {**ROWS, 3: ("three", 3)})
    theirs.push()
    ours = reopened(ours)
    ours.fetch()
    assert len(read(ours, "origin/main")) == 3
    assert_keeps_its_promise(server, data)


def test_a_remote_has_a_place_for_data_of_its_own(ours: Repo, tmp_path: Path) -> None:
    bare(tmp_path / "other.git")
    run_git("remote", "add", "other", tmp_path / "other.git", cwd=ours.path)
    data = tmp_path / "data"
    run_git("config", "remote.other.havasuData", data.as_uri(), cwd=ours.path)
    ours = reopened(ours)

    ours.push("other", ["main"])

    assert files(tmp_path / "other.git") == []
    assert_keeps_its_promise(tmp_path / "other.git", data)
    assert ours.remotes()[1][2] == data.as_uri()


# Races


def test_a_lost_race_says_what_to_do_and_pulling_merges_rows(ours: Repo, theirs: Repo) -> None:
    write(ours, {**read(ours), 10: ("ours", 1)})
    write(theirs, {**read(theirs), 11: ("theirs", 2)})
    theirs.push()
    before = files(theirs.git.common_directory.parents[1] / "server.git")

    with pytest.raises(ConcurrentChangeError) as caught:
        ours.push()

    assert "`havasu-vc pull`" in caught.value.hints[0]
    assert files(ours.path.parent / "server.git") == before
    ours.fetch()
    ours.merge(ours.upstream())
    ours.push()
    assert {10, 11} <= read(ours).keys()
    assert_keeps_its_promise(ours.path.parent / "server.git")


def test_a_race_that_is_lost_while_data_goes(
    ours: Repo, theirs: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushing: Any = importlib.import_module("havasu_vc.sharing.pushing")

    write(ours, {**read(ours), 10: ("ours", 1)})
    write(theirs, {**read(theirs), 11: ("theirs", 2)})
    original = pushing.send_data

    def slowly(*arguments: object) -> object:
        monkeypatch.setattr(pushing, "send_data", original)
        theirs.push()
        return original(*arguments)

    monkeypatch.setattr(pushing, "send_data", slowly)
    with pytest.raises(ConcurrentChangeError):
        ours.push()
    assert_keeps_its_promise(tmp_path / "server.git")


def test_a_branch_that_moves_while_data_goes_takes_nothing_along(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushing: Any = importlib.import_module("havasu_vc.sharing.pushing")

    first = write(ours, {**read(ours), 10: ("ten", 1)})
    original = pushing.send_data

    def slowly(*arguments: object) -> object:
        sent = original(*arguments)
        write(reopened(ours), {**read(ours), 11: ("eleven", 2)})
        return sent

    monkeypatch.setattr(pushing, "send_data", slowly)
    ours.push()

    assert run_git("rev-parse", "main", cwd=tmp_path / "server.git") == first
    assert_keeps_its_promise(tmp_path / "server.git")


def test_force_and_lease(ours: Repo, theirs: Repo, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    write(theirs, {**read(theirs), 11: ("theirs", 2)})
    theirs.push()
    mine = write(ours, {**read(ours), 10: ("ours", 1)})

    with pytest.raises(ConcurrentChangeError):
        ours.push(options=("--force-with-lease",))
    ours.fetch()
    ours.push(options=("--force-with-lease",))
    assert run_git("rev-parse", "main", cwd=server) == mine

    yours = write(theirs, {**read(theirs), 12: ("again", 2)})
    theirs.push(options=("--force",))
    assert run_git("rev-parse", "main", cwd=server) == yours
    assert_keeps_its_promise(server)


def test_tags_branches_and_deleting(ours: Repo, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    ours.create_branch("side")
    ours.switch("side")
    commit = write(ours, ROWS)
    ours.create_tag("light")
    ours.create_tag("heavy", message="A release")

    assert ours.push("origin", options=("--tags",)).files
    assert run_git("rev-parse", "heavy^{commit}", cwd=server) == commit
    assert run_git("cat-file", "-t", "heavy", cwd=server) == "tag"
    assert_keeps_its_promise(server)
    ours.push("origin", options=("--all",))
    assert "refs/heads/side" in run_git("for-each-ref", cwd=server)
    ours.push("origin", ["side"], options=("--delete",))
    assert "refs/heads/side" not in run_git("for-each-ref", cwd=server)


def test_data_of_a_tag_that_is_only_here_goes_with_a_branch(ours: Repo, tmp_path: Path) -> None:
    """What is tagged here need not be there."""
    write(ours, ROWS)
    ours.create_tag("local")

    ours.push()

    assert_keeps_its_promise(tmp_path / "server.git")


def test_a_dry_run_sends_nothing(ours: Repo, tmp_path: Path) -> None:
    before = files(tmp_path / "server.git")
    write(ours, ROWS)

    assert len(ours.push(dry_run=True).refs) == 1

    assert files(tmp_path / "server.git") == before
    assert run_git("rev-list", "--count", "main", cwd=tmp_path / "server.git") == "1"


def test_what_was_seen_once_is_not_taken_to_be_there(ours: Repo, tmp_path: Path) -> None:
    """A branch was deleted there, and its data pruned; what we last saw of it is stale."""
    server = tmp_path / "server.git"
    ours.switch("side", create=True)
    write(ours, ROWS)
    ours.push("origin", ["side"])
    run_git("branch", "-D", "side", cwd=server)
    gone = set(files(server)) - named(server)
    assert gone
    for file in gone:
        store(server).delete(file)
    write(ours, {**ROWS, 3: ("three", 3)})

    ours.push("origin", ["side:other"])

    assert_keeps_its_promise(server)


# Cut off, missing and wrong


def test_a_fetch_that_was_cut_off_goes_on(ours: Repo, theirs: Repo, tmp_path: Path) -> None:
    write(ours, ROWS)
    ours.push()
    theirs.config.set("havasu.data.fetch", "when-told")
    moved = theirs.fetch(data=False)
    assert moved.refs and moved.files == 0
    with pytest.raises(DataFileNotFoundError) as caught:
        read(theirs, "origin/main")
    assert "`havasu-vc data fetch`" in caught.value.hints[0]

    again = theirs.fetch()

    assert again.files and not again.refs
    assert read(theirs, "origin/main") == ROWS
    assert theirs.fetch().files == 0


def test_what_came_before_the_cut_does_not_come_again(ours: Repo, tmp_path: Path) -> None:
    write(ours, {**read(ours), 10: ("ten", 10)})
    write(ours, {**read(ours), 11: ("eleven", 11)})
    ours.push()
    server = tmp_path / "server.git"
    lost = sorted(named(server))[-1]
    aside = store(server).path(lost).rename(tmp_path / "aside")
    with pytest.raises(DataFileNotFoundError):
        clone(server, tmp_path / "theirs")
    theirs = Repo.open(tmp_path / "theirs", settings=ours.settings)
    aside.rename(store(server).location(lost))

    came = theirs.fetch()

    assert came.files < len(named(server))
    assert set(files(theirs)) == named(server)
    assert read(theirs) == read(ours)


def test_wrong_bytes_are_not_sent(ours: Repo, tmp_path: Path) -> None:
    before = set(files(ours))
    write(ours, ROWS)
    (new, *_) = set(files(ours)) - before
    spoil(ours, new)

    with pytest.raises(CorruptDataFileError, match=new):
        ours.push()

    assert new not in files(tmp_path / "server.git")
    assert run_git("rev-list", "--count", "main", cwd=tmp_path / "server.git") == "1"


@pytest.mark.parametrize("kind", ["neighbour", "url"])
@pytest.mark.parametrize("wrong", ["bytes", "shorter", "longer", "a link", "a folder"])
def test_wrong_bytes_are_not_taken(tmp_path: Path, kind: str, wrong: str) -> None:
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    data = tmp_path / "data"
    url = data.as_uri() if kind == "url" else None
    share(ours, server, data=url)
    (file, *_) = files(ours)
    place = (data if url else server / "havasu") / "objects" / file[:2] / file[2:4] / file
    content = place.read_bytes()
    place.unlink()
    match wrong:
        case "bytes":
            place.write_bytes(bytes(len(content)))
        case "shorter":
            place.write_bytes(content[:-1])
        case "longer":
            place.write_bytes(content + b"!")
        case "a link":
            (tmp_path / "secret").write_bytes(bytes(len(content)))
            place.symlink_to(tmp_path / "secret")
        case _:
            place.mkdir()
    if place.is_file():
        place.chmod(0o444)

    with pytest.raises((CorruptDataFileError, StorageError, DataFileNotFoundError)):
        clone(server, tmp_path / "theirs", data_url=url)

    theirs = Repo.open(tmp_path / "theirs", settings=ours.settings)
    assert files(theirs) == []
    assert list((theirs.git.data_folder / "temporary").glob("*")) == []
    assert read_complete(theirs.git.data_folder) == []


def test_a_wrong_file_there_is_replaced_by_a_push(ours: Repo, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    (file, *_) = files(server)
    spoil(server, file, b"short")

    assert ours.push_data().files == 1

    assert_keeps_its_promise(server)


def test_a_remote_without_data(ours: Repo, tmp_path: Path) -> None:
    server = bare(tmp_path / "empty.git")
    run_git("push", "-q", "--no-verify", server, "main", cwd=ours.path)

    with pytest.raises(DataFileNotFoundError):
        clone(server, tmp_path / "theirs")

    ours.push_data(str(server))
    assert Repo.open(tmp_path / "theirs").fetch().files
    assert_keeps_its_promise(server)


def test_an_empty_remote(tmp_path: Path) -> None:
    theirs = clone(bare(tmp_path / "empty.git"), tmp_path / "theirs")
    assert theirs.datasets() == ()
    assert theirs.fetch().files == 0


def test_another_history(ours: Repo, tmp_path: Path) -> None:
    other = make(tmp_path / "other", ROWS)
    run_git("remote", "add", "origin", tmp_path / "server.git", cwd=other.path)

    with pytest.raises(ConcurrentChangeError):
        other.push("origin", ["main"])
    other.fetch("origin")

    assert read(other, "origin/main") == read(ours)


@pytest.fixture
def read_only(ours: Repo, tmp_path: Path) -> Iterator[Path]:
    """The remote, on a disk that cannot be written to."""
    server = tmp_path / "server.git"
    command = ["mount", "--bind", str(server), str(server)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    subprocess.run(["mount", "-o", "remount,ro,bind", str(server)], check=True)
    yield server
    subprocess.run(["umount", "--lazy", str(server)], check=True)


def test_a_remote_that_is_read_only(ours: Repo, read_only: Path, tmp_path: Path) -> None:
    assert read(clone(read_only, tmp_path / "theirs")) == read(ours)
    write(ours, ROWS)

    with pytest.raises((StorageError, StateError)) as caught:
        ours.push()

    assert "\n" not in caught.value.message
    assert "read-only" in caught.value.message.casefold()


def test_a_disk_with_too_little_room(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote_data: Any = importlib.import_module("havasu_vc.sharing.data_remotes")

    monkeypatch.setattr(remote_data.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))

    with pytest.raises(StorageError, match="the disk has 10 left"):
        clone(tmp_path / "server.git", tmp_path / "theirs")


@pytest.mark.thorough
def test_a_remote_on_a_full_disk(ours: Repo, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        server = bare(disk / "server.git")
        ours.push(str(server), ["main"])
        (disk / "ballast").write_bytes(bytes((os.statvfs(disk).f_bavail - 6) * 4096))
        names = [secrets.token_hex(40) for _ in range(1000)]
        write(ours, {number: (name, 1) for number, name in enumerate(names)})

        with pytest.raises(StorageError, match=r"full|No space"):
            ours.push(str(server), ["main"])

        assert_keeps_its_promise(server)
        (disk / "ballast").unlink()
        ours.push(str(server), ["main"])
        assert_keeps_its_promise(server)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_what_the_other_side_refuses_is_said(ours: Repo, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    work = clone(server, tmp_path / "work")
    write(ours, ROWS)
    with pytest.raises(StateError, match="branch is currently checked out"):
        ours.push(str(work.path), ["main"])
    (server / "hooks").mkdir(exist_ok=True)
    (server / "hooks" / "pre-receive").write_text("#!/bin/sh\necho 'not today'\nexit 1\n")
    (server / "hooks" / "pre-receive").chmod(0o755)
    with pytest.raises(StateError, match="pre-receive hook declined"):
        ours.push()


# Remotes that are not there


def test_no_remote(tmp_path: Path) -> None:
    repo = make(tmp_path / "alone", ROWS)
    with pytest.raises(NotFoundError, match="there is no remote"):
        repo.push()
    with pytest.raises(NoBranchError):
        repo.upstream()


@pytest.mark.parametrize("address", ["no such remote", "/none/such.git", "file:///none/such"])
def test_a_remote_that_is_not_there(ours: Repo, address: str) -> None:
    with pytest.raises(StateError) as caught:
        ours.fetch(address)
    assert "\n" not in caught.value.message
    with pytest.raises(StateError):
        ours.push(address, ["main"])


def test_a_folder_inside_of_a_repository_is_no_remote(ours: Repo, tmp_path: Path) -> None:
    (ours.path / "inside").mkdir()
    with pytest.raises(StateError):
        clone(ours.path / "inside", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_a_clone_into_something_that_is_there(ours: Repo, tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    place.mkdir()
    (place / "mine").touch()
    with pytest.raises(InvalidArgumentError, match="not an empty folder"):
        clone(tmp_path / "server.git", place)
    assert (place / "mine").exists()


def test_pulling_from_another_remote_names_the_branch(ours: Repo, tmp_path: Path) -> None:
    run_git("remote", "add", "other", bare(tmp_path / "other.git"), cwd=ours.path)
    with pytest.raises(NoBranchError) as caught:
        ours.upstream("other")
    assert "pull other BRANCH" in caught.value.hints[0]


# What is remembered


def test_gc_forgets_what_is_complete(ours: Repo, theirs: Repo) -> None:
    """A commit that was fetched, left alone, collected, and comes back brings its data again."""
    ours.switch("side", create=True)
    write(ours, ROWS)
    ours.push("origin", ["side"])
    theirs.fetch()
    rows = read(theirs, "origin/side")
    commit = run_git("rev-parse", "origin/side", cwd=theirs.path)
    run_git("update-ref", "-d", "refs/remotes/origin/side", cwd=theirs.path)
    run_git("reflog", "expire", "--expire=now", "--all", cwd=theirs.path)
    (theirs.git.git_directory / "FETCH_HEAD").unlink()
    assert theirs.gc(grace_days=0).files

    assert theirs.fetch().files

    assert read(theirs, commit) == rows == ROWS


@pytest.mark.thorough
def test_a_shallow_clone_and_its_history_later(ours: Repo, tmp_path: Path) -> None:
    first = read(ours)
    for number in range(3):
        write(ours, {number: ("new", number)})
    ours.optimize()
    ours.push()
    theirs = clone(tmp_path / "server.git", tmp_path / "theirs", depth=1)
    assert run_git("rev-list", "--count", "HEAD", cwd=theirs.path) == "1"
    assert set(files(theirs)) < named(tmp_path / "server.git")
    assert read(theirs) == read(ours)

    theirs.fetch(options=("--unshallow",))

    root = run_git("rev-list", "--max-parents=0", "HEAD", cwd=theirs.path)
    assert read(reopened(theirs), root) == first
    assert set(files(theirs)) == named(tmp_path / "server.git")


def test_files_are_linked_where_that_is_safe(ours: Repo, tmp_path: Path) -> None:
    linked = clone(tmp_path / "server.git", tmp_path / "linked")
    (file, *_) = files(linked)
    assert store(linked).path(file).stat().st_nlink == 2
    assert store(linked).path(file).stat().st_mode & 0o222 == 0
    store(tmp_path / "server.git").path(file).chmod(0o644)  # the same file by another name
    other = clone(tmp_path / "server.git", tmp_path / "other")
    assert store(other).path(file).stat().st_nlink == 1
