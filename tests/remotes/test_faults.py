"""Processes that die while they share: no ref of a remote ever names data that it lacks.

Wherever a push, fetch, clone, drop or pruning is killed, the remote keeps its promise,
the repository here is sound, and doing it again succeeds.
"""

import shutil
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.remotes.children import finished, started
from tests.remotes.gates import Gate
from tests.remotes.sharing import (
    assert_keeps_its_promise,
    clone,
    files,
    reopened,
    store,
)
from tests.repo.points import assert_clean, read, write

SLOW = pytest.mark.slow
ROWS = {1: ("one", 1), 2: ("two", 2)}


PUSHING = [
    ("havasu_vc.sharing.pushing:send_data", 1),
    ("havasu_vc.sharing.pushing:_move_refs", 1),
    ("havasu_vc.sharing.pushing:_follow", 1),
    ("havasu_vc.store.files:DataFileStore.put", 2),
    *(
        pytest.param(place, marks=SLOW)
        for place in (
            ("havasu_vc.store.files:DataFileStore.put", 1),
            ("havasu_vc.store.files:DataFileStore.commit_all", 1),
            ("havasu_vc.remotes.neighbour:_check", 1),
            ("havasu_vc.remotes.neighbour:_check", 2),
            ("havasu_vc.store.copying:copy_checked", 1),
            ("os:replace", 1),
            ("subprocess:run", 2),
            ("subprocess:run", 4),
            ("subprocess:run", 6),
        )
    ),
]


@pytest.mark.parametrize("kind", ["neighbour", pytest.param("url", marks=SLOW)])
@pytest.mark.parametrize("place", PUSHING, ids=lambda place: f"{place[0].split(':')[1]}-{place[1]}")
@pytest.mark.few(1)
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
    ("havasu_vc.sharing.fetching:bring_data", 1),
    ("havasu_vc.store.files:DataFileStore.put", 2),
    *(
        pytest.param(place, marks=SLOW)
        for place in (
            ("havasu_vc.store.files:DataFileStore.put", 1),
            ("havasu_vc.store.files:DataFileStore.commit_all", 1),
            ("havasu_vc.sharing.data_remotes:write_complete", 1),
            ("os:replace", 1),
            ("os:fsync", 2),
        )
    ),
]


@pytest.mark.thorough
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


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "place",
    [
        ("havasu_vc.sharing.cloning:prepare", 1),
        ("havasu_vc.store.files:DataFileStore.put", 1),
        pytest.param(("havasu_vc.sharing.cloning:install_hooks", 1), marks=SLOW),
        pytest.param(("havasu_vc.sharing.data_remotes:write_complete", 1), marks=SLOW),
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


@pytest.mark.few(1)
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


@pytest.mark.thorough
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


def test_a_server_that_keeps_its_own_data_prunes_itself(ours: Repo, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    (server / "havasu" / "objects" / "ab" / "ab").mkdir(parents=True)
    shutil.copy(__file__, server / "havasu" / "objects" / "ab" / "ab" / ("ab" * 32))

    assert ours.prune_remote(grace_days=0).files == 1
    assert ours.prune_remote(grace_days=0, delete=True).files == 1
    assert_keeps_its_promise(server)


@pytest.mark.thorough
def test_pruning_waits_for_a_push(ours: Repo, theirs: Repo, tmp_path: Path) -> None:
    """A branch that a push builds on goes meanwhile; its data stays until the refs have moved."""
    server = tmp_path / "server.git"
    ours.switch("side", create=True)
    write(ours, {**read(ours), 13: ("three", 3)})
    ours.push("origin", ["side"])
    theirs.fetch()
    theirs.switch("new", create=True, start="origin/side")
    write(theirs, {**read(theirs), 14: ("four", 4)})
    gate = Gate(tmp_path / "gate")
    gate.guard(server / "hooks", "pre-receive", "refs/heads/new")
    push = started(theirs.path, "push|origin|new")
    gate.wait()
    ours.push("origin", ["side"], options=("--delete",))

    pruning = started(ours.path, "prune")
    pruning.process.join(1)
    assert pruning.process.is_alive()
    gate.open()

    assert push.wait() == 0, push.errors
    assert pruning.wait() == 0, pruning.errors
    assert_keeps_its_promise(server)
