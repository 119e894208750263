"""Processes that die while they share: no ref of a remote ever names data that it lacks.

Wherever a push, fetch, clone, drop or pruning is killed, the remote keeps its promise,
the repository here is sound, and doing it again succeeds.
"""

import shutil
import threading
import time
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem

from havasu_vc.errors import LockedError
from havasu_vc.remotes.claims import claimed
from havasu_vc.remotes.object_store import ObjectStoreRemote
from havasu_vc.remotes.protocol import WantedFile
from havasu_vc.repo import Repo
from tests.remotes.children import finished, started
from tests.remotes.sharing import (
    assert_keeps_its_promise,
    bare,
    clone,
    files,
    named,
    reopened,
    share,
    store,
)
from tests.repo.points import assert_clean, make, read, write

SLOW = pytest.mark.slow
ROWS = {1: ("one", 1), 2: ("two", 2)}


PUSHING = [
    ("havasu_vc.repo.pushing:send_data", 1),
    ("havasu_vc.repo.pushing:_move_refs", 1),
    ("havasu_vc.repo.pushing:_follow", 1),
    ("havasu_vc.store.files:DataFileStore.put", 2),
    *(
        pytest.param(place, marks=SLOW)
        for place in (
            ("havasu_vc.store.files:DataFileStore.put", 1),
            ("havasu_vc.store.files:DataFileStore.commit_all", 1),
            ("havasu_vc.remotes.object_store:_sync", 1),
            ("havasu_vc.remotes.object_store:_sync", 2),
            ("havasu_vc.remotes.moving:copy_checked", 1),
            ("os:replace", 1),
            ("subprocess:run", 2),
            ("subprocess:run", 4),
            ("subprocess:run", 6),
        )
    ),
]


@pytest.mark.parametrize("kind", ["neighbour", pytest.param("url", marks=SLOW)])
@pytest.mark.parametrize("place", PUSHING, ids=lambda place: f"{place[0].split(':')[1]}-{place[1]}")
def test_a_push_that_dies_anywhere(
    ours: Repo, theirs: Repo, tmp_path: Path, kind: str, place: tuple[str, int]
) -> None:
    server, data = tmp_path / "server.git", None
    if kind == "url":
        data = tmp_path / "data"
        for repo in (ours, theirs):
            repo.config.set("havasu.data.url", data.as_uri())
        reopened(ours).push_data()
    for number in range(2):
        write(ours, {**read(ours), 10 + number: ("new", number)})

    finished(ours.path, "push", die=place)

    assert_keeps_its_promise(server, data)
    reopened(ours).push()
    assert_keeps_its_promise(server, data)
    reopened(theirs).fetch()
    assert read(reopened(theirs), "origin/main") == read(ours)
    assert_clean(reopened(ours))


FETCHING = [
    ("havasu_vc.repo.sharing:bring_data", 1),
    ("havasu_vc.store.files:DataFileStore.put", 2),
    *(
        pytest.param(place, marks=SLOW)
        for place in (
            ("havasu_vc.store.files:DataFileStore.put", 1),
            ("havasu_vc.store.files:DataFileStore.commit_all", 1),
            ("havasu_vc.repo.remote_data:write_complete", 1),
            ("os:replace", 1),
            ("os:fsync", 2),
        )
    ),
]


@pytest.mark.parametrize(
    "place", FETCHING, ids=lambda place: f"{place[0].split(':')[1]}-{place[1]}"
)
def test_a_fetch_that_dies_anywhere(
    ours: Repo, theirs: Repo, tmp_path: Path, place: tuple[str, int]
) -> None:
    for number in range(2):
        write(ours, {**read(ours), 10 + number: ("new", number)})
    ours.push()

    finished(theirs.path, "pull", die=place)

    theirs = reopened(theirs)
    assert read(theirs)
    for file in files(theirs):
        store(theirs).verify(file)
    assert finished(theirs.path, "pull") == 0
    assert read(reopened(theirs)) == read(ours)
    assert list(reopened(theirs).fsck(full=True)) == []
    assert_clean(reopened(theirs))


@pytest.mark.parametrize(
    "place",
    [
        ("havasu_vc.repo.cloning:prepare", 1),
        ("havasu_vc.store.files:DataFileStore.put", 1),
        pytest.param(("havasu_vc.repo.cloning:install_hooks", 1), marks=SLOW),
        pytest.param(("havasu_vc.repo.remote_data:write_complete", 1), marks=SLOW),
    ],
    ids=lambda place: place[0].split(":")[1],
)
def test_a_clone_that_dies(ours: Repo, tmp_path: Path, place: tuple[str, int]) -> None:
    part = tmp_path / "part"
    assert finished(part, f"clone|{tmp_path / 'server.git'}", die=place) == 9

    theirs = Repo.open(part, settings=ours.settings)
    theirs.fetch()

    assert read(theirs) == read(ours)
    assert_clean(theirs)
    assert read(clone(tmp_path / "server.git", tmp_path / "whole")) == read(ours)


@pytest.mark.parametrize("call", [1, 2])
def test_a_drop_that_dies(ours: Repo, call: int) -> None:
    rows = read(ours)
    write(ours, ROWS)
    ours.push()

    finished(ours.path, "drop", die=("havasu_vc.store.files:DataFileStore.delete", call))

    ours = reopened(ours)
    assert read(ours) == ROWS
    root = list(ours.log())[-1].id
    assert read(ours, root) == rows
    assert list(ours.fsck(full=True)) == []


# A connection that is cut, and both sides at once


def test_many_push_at_once(ours: Repo, tmp_path: Path) -> None:
    """Whoever loses pulls and tries again; in the end all rows are there."""
    server = tmp_path / "server.git"
    clones = [clone(server, tmp_path / f"clone{number}") for number in range(3)]
    for number, each in enumerate(clones):
        write(each, {**read(each), 100 + number: ("mine", number)})
    children = [started(each.path, "push") for each in clones]
    codes = [child.wait() for child in children]

    assert 0 in codes
    assert_keeps_its_promise(server)
    for each, code in zip(clones, codes, strict=True):
        if code:
            assert finished(each.path, "pull") == 0
            reopened(each).push()
    ours.fetch()
    assert {100, 101, 102} <= read(ours, "origin/main").keys()
    assert_keeps_its_promise(server)


@pytest.fixture
def pruned(tmp_path: Path) -> tuple[Repo, Path, Path]:
    """A repository, its server, and the folder of its data, in which much is unreached."""
    ours, server, data = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git"), tmp_path
    data = tmp_path / "data"
    share(ours, server, data=data.as_uri())
    return reopened(ours), server, data


def test_pruning_marks_and_waits(pruned: tuple[Repo, Path, Path]) -> None:
    ours, server, data = pruned
    ours.switch("side", create=True)
    write(ours, {**ROWS, 3: ("three", 3)})
    ours.push("origin", ["side"])
    ours.switch("main")
    ours.push("origin", ["side"], options=("--delete",))
    ours.delete_branch("side", force=True)
    before = sorted(p.name for p in (data / "objects").rglob("*") if p.is_file())
    gone = set(before) - named(server)
    assert gone

    assert ours.prune_remote(delete=True).files == 0
    assert sorted(p.name for p in (data / "objects").rglob("*") if p.is_file()) == before
    assert ours.prune_remote(grace_days=0).files == len(gone)
    result = ours.prune_remote(grace_days=0, delete=True)

    assert (result.files, result.waiting) == (len(gone), 0)
    assert {p.name for p in (data / "objects").rglob("*") if p.is_file()} == named(server)
    assert not (data / "pruning").exists()
    assert "refs/havasu" not in str(list(ours.git.handle.references))


def test_pruning_spares_what_is_only_on_the_remote(
    pruned: tuple[Repo, Path, Path], tmp_path: Path
) -> None:
    ours, server, data = pruned
    theirs = clone(server, tmp_path / "theirs", data_url=data.as_uri())
    write(theirs, {**ROWS, 3: ("three", 3)})
    theirs.push("origin", ["HEAD:refs/hidden/deep"])

    assert ours.prune_remote(grace_days=0, delete=True).files == 0
    assert_keeps_its_promise(server, data)


def test_a_push_during_a_pruning_is_safe(pruned: tuple[Repo, Path, Path], tmp_path: Path) -> None:
    """Files that are there and unreached when a push begins are there when it ends."""
    ours, server, data = pruned
    theirs = clone(server, tmp_path / "theirs", data_url=data.as_uri())
    for number in range(2):
        # What it is about to push lies there already, and nothing reaches it.
        write(theirs, {**read(theirs), 10 + number: ("new", number)})
        theirs.push_data()
        stop = threading.Event()

        def prune(stop: threading.Event = stop) -> None:
            while not stop.is_set():
                started(ours.path, "prune").wait()

        thread = threading.Thread(target=prune)
        thread.start()
        time.sleep(0.3 * number)
        try:
            reopened(theirs).push()
        finally:
            stop.set()
            thread.join()
        assert_keeps_its_promise(server, data)


def test_what_a_push_claimed_is_spared(pruned: tuple[Repo, Path, Path], tmp_path: Path) -> None:
    ours, server, data = pruned
    theirs = clone(server, tmp_path / "theirs", data_url=data.as_uri())
    write(theirs, {**ROWS, 3: ("three", 3)})
    wanted = [WantedFile(file, store(theirs).size(file)) for file in files(theirs)]
    theirs.push_data()
    remote = ObjectStoreRemote(data.as_uri())

    with remote.sending(wanted):
        assert ours.prune_remote(grace_days=0, delete=True).files == 0
        assert remote.lacking(wanted) == []
    assert ours.prune_remote(grace_days=0, delete=True).files > 0


def test_a_push_waits_for_a_pruning(
    pruned: tuple[Repo, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = ObjectStoreRemote(pruned[2].as_uri())
    with remote.sweeping():
        with pytest.raises(LockedError), remote.sweeping():
            pass
        claim = claimed(LocalFileSystem(), str(pruned[2]), [], patience=0.3)
        with pytest.raises(LockedError), claim:
            pass
    with remote.sending([]):
        pass
    assert list((pruned[2] / "pushes").iterdir()) == []


@pytest.mark.parametrize("call", [1, 2])
def test_a_pruning_that_dies(
    pruned: tuple[Repo, Path, Path], call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, server, data = pruned
    for number in range(3):
        name = f"{number:064x}"
        (data / "objects" / name[:2] / name[2:4]).mkdir(parents=True, exist_ok=True)
        (data / "objects" / name[:2] / name[2:4] / name).write_bytes(b"nobody's")
    place = "havasu_vc.remotes.object_store:ObjectStoreRemote.delete"
    assert finished(ours.path, "prune", die=(place, call)) == 9
    assert (data / "pruning").exists()

    (data / "pruning").write_text(f"{time.time() - 7200:.0f}")  # two hours ago
    write(ours, {**ROWS, 3: ("three", 3)})
    reopened(ours).push()
    assert_keeps_its_promise(server, data)
    assert reopened(ours).prune_remote(grace_days=0, delete=True).files == 4 - call
    assert_keeps_its_promise(server, data)


def test_a_server_that_keeps_its_own_data_prunes_itself(ours: Repo, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    (server / "havasu" / "objects" / "ab" / "ab").mkdir(parents=True)
    shutil.copy(__file__, server / "havasu" / "objects" / "ab" / "ab" / ("ab" * 32))

    assert ours.prune_remote(grace_days=0).files == 1
    assert ours.prune_remote(grace_days=0, delete=True).files == 1
    assert_keeps_its_promise(server)
