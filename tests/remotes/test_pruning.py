"""Pruning data of a remote while others push, prune and die: nothing that a ref reaches goes.

Real gits are held where it matters: a push in the server's `pre-receive` hook, when its data
is there and its refs have not moved; a pruning when it has read the refs and deleted nothing.
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector

from havasu_vc import Repo
from havasu_vc.errors import ConcurrentChangeError, LockedError, StateError, StorageError
from havasu_vc.remotes import object_store
from havasu_vc.remotes.object_store import ObjectStoreRemote, claimed
from havasu_vc.remotes.protocol import WantedFile
from tests.cli.conftest import invoke, succeed
from tests.remotes.children import finished, started
from tests.remotes.gates import Gate
from tests.remotes.places import Place, bucket_at, folder_at
from tests.remotes.sharing import bare, clone, files, named, reopened, share, store
from tests.repo.points import make, read, write
from tests.support.git import run_git

pytestmark = pytest.mark.few(2)

ROWS = {1: ("one", 1), 2: ("two", 2)}


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        yield folder_at(tmp_path / "data")
    else:
        endpoint = request.getfixturevalue("endpoint")
        with bucket_at(endpoint, f"bucket-{secrets.token_hex(6)}") as found:
            yield found


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return bare(tmp_path / "server.git")


@pytest.fixture
def ours(place: Place, server: Path, tmp_path: Path) -> Repo:
    repo = make(tmp_path / "ours", ROWS)
    share(repo, server, data=place.url)
    return reopened(repo)


@pytest.fixture
def theirs(ours: Repo, place: Place, server: Path, tmp_path: Path) -> Repo:
    return clone(server, tmp_path / "theirs", data_url=place.url)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


def unreached(repo: Repo, place: Place, server: Path) -> set[str]:
    """Leave data on a remote that no ref of it reaches; the commits stay on a branch here."""
    repo.switch("side", create=True)
    write(repo, {**read(repo), 3: ("three", 3)})
    repo.push("origin", ["side"])
    repo.switch("main")
    repo.push("origin", ["side"], options=("--delete",))
    left = place.names() - named(server)
    assert left
    return left


def prune(repo: Repo) -> int:
    return reopened(repo).prune_remote(grace_days=0, delete=True).files


@pytest.mark.few(1)
def test_pruning_marks_and_waits(ours: Repo, place: Place, server: Path) -> None:
    left = unreached(ours, place, server)
    ours.delete_branch("side", force=True)
    before = place.names()

    assert ours.prune_remote(delete=True).files == 0
    assert place.names() == before
    assert ours.prune_remote(grace_days=0).files == len(left)
    result = ours.prune_remote(grace_days=0, delete=True)

    assert (result.files, result.waiting) == (len(left), 0)
    assert place.names() == named(server)
    assert place.notes("prunings") == [] == place.notes("pushes")
    assert "refs/havasu" not in str(list(ours.git.handle.references))


@pytest.mark.few(1)
def test_pruning_spares_what_is_only_on_the_remote(
    ours: Repo, theirs: Repo, place: Place, server: Path
) -> None:
    write(theirs, {**ROWS, 3: ("three", 3)})
    theirs.push("origin", ["HEAD:refs/hidden/deep"])

    assert prune(ours) == 0
    place.assert_has_all_of(server)


@pytest.mark.thorough
def test_every_remote_that_keeps_its_data_there_counts(
    ours: Repo, theirs: Repo, place: Place, server: Path, tmp_path: Path
) -> None:
    other, mirror = bare(tmp_path / "other.git"), bare(tmp_path / "mirror.git")
    write(theirs, {**ROWS, 3: ("three", 3)})
    theirs.push(str(other), ["main"])
    theirs.push(str(mirror), ["main:elsewhere"])
    run_git("remote", "add", "other", other, cwd=ours.path)
    run_git("config", "remote.other.havasudata", f"{place.url}/", cwd=ours.path)
    run_git("config", "remote.origin.pushurl", mirror, cwd=ours.path)

    assert prune(ours) == 0
    run_git("remote", "remove", "other", cwd=ours.path)
    assert prune(ours) == 0
    for each in (server, other, mirror):
        place.assert_has_all_of(each)


@pytest.mark.thorough
@pytest.mark.parametrize("marked", [False, True])
def test_a_push_that_began_before_the_mark(
    ours: Repo, theirs: Repo, place: Place, server: Path, gate: Gate, marked: bool
) -> None:
    """Its data is there, no ref names it yet; with `marked`, it lay there before, marked."""
    write(theirs, {**ROWS, 3: ("three", 3)})
    if marked:
        theirs.push_data()
        ours.prune_remote(delete=True)
    gate.guard(server / "hooks", "pre-receive", "refs/heads/main")
    push = started(theirs.path, "push")
    gate.wait()
    assert place.names() > named(server)

    assert prune(ours) == 0
    gate.open()

    assert push.wait() == 0, push.errors
    place.assert_has_all_of(server)
    assert place.notes("pushes") == []
    assert prune(ours) == 0
    ours.fetch()
    assert read(ours, "origin/main") == read(theirs)


@pytest.mark.few(1)
def test_a_push_between_mark_and_sweep_waits(
    ours: Repo, theirs: Repo, place: Place, server: Path, gate: Gate
) -> None:
    """It relies on files that the sweep deletes, waits for it, and sends them again."""
    left = unreached(theirs, place, server)
    ours.prune_remote(delete=True)
    gate.guard(ours.git.common_directory / "hooks", "reference-transaction", "refs/havasu/*")
    pruning = started(ours.path, "prune")
    gate.wait()
    push = started(theirs.path, "push|origin|side")
    time.sleep(1)
    assert push.process.is_alive()
    gate.open()

    assert pruning.wait() == 0, pruning.errors
    assert push.wait() == 0, push.errors
    assert left <= named(server)
    place.assert_has_all_of(server)
    assert place.notes("prunings") == [] == place.notes("pushes")


@pytest.mark.thorough
def test_pushes_and_prunings_again_and_again(
    ours: Repo, theirs: Repo, place: Place, server: Path
) -> None:
    for number in range(2):
        # What it is about to push lies there already, and nothing reaches it.
        write(theirs, {**read(theirs), 10 + number: ("new", number)})
        theirs.push_data()
        stop = threading.Event()

        def go_on(stop: threading.Event = stop) -> None:
            while not stop.is_set():
                started(ours.path, "prune").wait()

        thread = threading.Thread(target=go_on)
        thread.start()
        time.sleep(0.3 * number)
        try:
            reopened(theirs).push()
        finally:
            stop.set()
            thread.join()
        place.assert_has_all_of(server)


@pytest.mark.thorough
def test_a_branch_that_a_push_builds_on_goes_meanwhile(
    ours: Repo, theirs: Repo, place: Place, server: Path, gate: Gate
) -> None:
    ours.switch("side", create=True)
    write(ours, {**ROWS, 3: ("three", 3)})
    ours.push("origin", ["side"])
    theirs.fetch()
    run_git("switch", "-q", "-c", "new", "origin/side", cwd=theirs.path)
    theirs = reopened(theirs)
    write(theirs, {**read(theirs), 4: ("four", 4)})
    gate.guard(server / "hooks", "pre-receive", "refs/heads/new")
    push = started(theirs.path, "push|origin|new")
    gate.wait()

    ours.switch("main")
    ours.push("origin", ["side"], options=("--delete",))
    ours.delete_branch("side", force=True)
    assert prune(ours) == 0
    gate.open()

    assert push.wait() == 0, push.errors
    place.assert_has_all_of(server)


@pytest.mark.thorough
def test_a_push_that_relies_on_what_pruning_does_not_know(
    ours: Repo, theirs: Repo, place: Place, server: Path
) -> None:
    unreached(theirs, place, server)
    remote = ObjectStoreRemote(place.url)
    with remote.sending([], [str(theirs.resolve("side").commit)]):
        before = place.names()
        for delete in (False, True):
            with pytest.raises(LockedError, match="a push relies on commits"):
                reopened(ours).prune_remote(grace_days=0, delete=delete)
        assert place.names() == before
    assert prune(ours) > 0
    assert place.names() == named(server)


@pytest.mark.thorough
def test_two_prunings_at_once(
    ours: Repo, theirs: Repo, place: Place, server: Path, gate: Gate
) -> None:
    left = unreached(ours, place, server)
    ours.delete_branch("side", force=True)
    gate.guard(ours.git.common_directory / "hooks", "reference-transaction", "refs/havasu/*")
    pruning = started(ours.path, "prune")
    gate.wait()

    with pytest.raises(LockedError, match="somebody else is pruning"):
        prune(theirs)
    # The note of the first is still there, so that pushes wait for it.
    assert len(place.notes("prunings")) == 1
    with pytest.raises(LockedError), claimed(place.system, place.root, [], patience=0.3):
        pass
    gate.open()

    assert pruning.wait() == 0, pruning.errors
    assert left.isdisjoint(place.names())
    place.assert_has_all_of(server)


@pytest.mark.thorough
def test_listing_during_a_pruning_from_the_same_clone(
    ours: Repo, theirs: Repo, place: Place, server: Path, gate: Gate
) -> None:
    """Both have all refs of the remote here for a while, and neither takes the other's away."""
    write(theirs, {**ROWS, 3: ("three", 3)})
    theirs.push("origin", ["HEAD:refs/hidden/deep"])
    gate.guard(ours.git.common_directory / "hooks", "reference-transaction", "refs/havasu/*")
    pruning = started(ours.path, "prune")
    gate.wait()
    listing = started(ours.path, "prune_remote")
    listing.process.join(1)
    gate.open()

    assert pruning.wait() == 0, pruning.errors
    assert listing.wait() == 0, listing.errors
    place.assert_has_all_of(server)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "killed_at", [3, 8, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 40, 3))]
)
def test_a_pruning_that_is_killed(
    ours: Repo,
    theirs: Repo,
    place: Place,
    server: Path,
    killed_at: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unreached(theirs, place, server)
    finished(ours.path, "prune", killed_at=killed_at)
    for lock in ours.path.rglob("*.lock"):
        lock.unlink()
    place.assert_has_all_of(server)

    for note in place.notes("prunings"):
        with place.system.open_output_stream(note) as stream:
            stream.write(b"elsewhere 1 1")  # this machine's dead are known to be
        with pytest.raises(LockedError), claimed(place.system, place.root, [], patience=0.1):
            pass
        monkeypatch.setattr(object_store, "NOTE_SECONDS", 0.5)  # an hour later
        time.sleep(2)
    theirs.switch("side")
    theirs.push("origin", ["side"])
    place.assert_has_all_of(server)
    assert prune(ours) == 0
    assert place.notes("prunings") == [] == place.notes("pushes")


@pytest.mark.few(1)
@pytest.mark.parametrize("call", [1, 2])
def test_a_pruning_that_dies_while_it_deletes(
    ours: Repo, place: Place, server: Path, call: int
) -> None:
    """Who dies on this machine is known to be dead, and keeps nobody waiting."""
    for number in range(3):
        place.put(f"{number:064x}", b"nobody's")
    at = "havasu_vc.remotes.object_store:ObjectStoreRemote.delete"
    assert finished(ours.path, "prune", die=(at, call)) == 9
    assert len(place.notes("prunings")) == 1

    with claimed(place.system, place.root, [], patience=0.1):
        assert place.notes("prunings") == []
    write(ours, {**ROWS, 3: ("three", 3)})
    reopened(ours).push()
    place.assert_has_all_of(server)
    assert prune(ours) == 4 - call
    assert place.names() == named(server)


@pytest.mark.few(1)
def test_clocks_of_people_decide_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever thinks that it is tomorrow waits for a pruning of today all the same."""
    remote = ObjectStoreRemote(place.url)
    now = time.time()
    for offset in (-86400, 86400):
        with remote.sweeping():
            monkeypatch.setattr(time, "time", lambda offset=offset: now + offset)
            with (
                pytest.raises(LockedError),
                claimed(place.system, place.root, [], patience=0.3),
            ):
                pass
            with pytest.raises(LockedError), remote.sweeping():
                pass
            monkeypatch.undo()


@pytest.mark.thorough
def test_a_claim_is_read_until_it_is_a_week_old(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, file = ObjectStoreRemote(place.url), WantedFile("ab" * 32, 8)
    with remote.sending([file], ["cd" * 20]) as claim:
        claim.outlasting = True
    with remote.sweeping() as sweep:
        assert sweep.claims == object_store.Claims(frozenset({file.sha256}), frozenset({"cd" * 20}))
    monkeypatch.setattr(object_store, "CLAIM_SECONDS", 0.5)
    time.sleep(2)
    with remote.sweeping() as sweep:
        assert sweep.claims == object_store.Claims()


def test_a_pruning_that_lasts_too_long_stops(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with ObjectStoreRemote(place.url).sweeping() as sweep:
        sweep.check()
        now = time.time()
        # The machine slept: one of its clocks did not.
        monkeypatch.setattr(time, "time", lambda: now + 1900)
        with pytest.raises(LockedError, match="took too long"):
            sweep.check()
        monkeypatch.undo()


def refusing(server: Path) -> None:
    (server / "hooks").mkdir(exist_ok=True)
    (server / "hooks" / "pre-receive").write_text("#!/bin/sh\nexit 1\n")
    (server / "hooks" / "pre-receive").chmod(0o755)


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["refused", "late", "cut"])
def test_what_is_left_of_a_push_that_failed(
    ours: Repo, theirs: Repo, place: Place, server: Path, gate: Gate, how: str
) -> None:
    """A claim stays only where refs may move after all."""
    write(theirs, {**read(theirs), 4: ("four", 4)})
    match how:
        case "refused":
            refusing(server)
            with pytest.raises(StateError):
                theirs.push()
        case "late":
            write(ours, {**ROWS, 3: ("three", 3)})
            ours.push()
            with pytest.raises(ConcurrentChangeError):
                theirs.push()
        case _:
            gate.guard(server / "hooks", "pre-receive", "refs/heads/main")
            push = started(theirs.path, "push")
            gate.wait()
            # Who asked is gone; git, and the server's, go on.
            push.process.kill()
            push.process.join()
            assert prune(ours) == 0
            gate.open()
            for _ in range(200):
                if len(named(server)) > 1:
                    break
                time.sleep(0.05)
    assert len(place.notes("pushes")) == (how == "cut")
    assert prune(ours) == 0 if how == "cut" else True
    place.assert_has_all_of(server)


@pytest.mark.few(1)
def test_what_git_pushes_by_itself_is_claimed_for_long(
    ours: Repo, theirs: Repo, place: Place, server: Path, gate: Gate
) -> None:
    write(theirs, {**read(theirs), 4: ("four", 4)})
    theirs.push_data(
        "origin", [f"refs/heads/main {theirs.head().commit} refs/heads/main {'0' * 40}"]
    )
    assert len(place.notes("pushes")) == 1
    assert prune(ours) == 0
    run_git("push", "-q", "--no-verify", "origin", "main", cwd=theirs.path)
    place.assert_has_all_of(server)


@pytest.mark.few(1)
def test_texts_may_be_pushed_without_access_to_the_data(
    ours: Repo, place: Place, server: Path
) -> None:
    (ours.path / "README.md").write_text("Wells")
    run_git("add", "README.md", cwd=ours.path)
    run_git("commit", "-qm", "Say what this is", cwd=ours.path)
    ours.config.set("havasu.data.url", "file:///proc/nowhere/data")

    reopened(ours).push()

    assert run_git("show", "main:README.md", cwd=server) == "Wells"
    write(ours, {**ROWS, 3: ("three", 3)})
    with pytest.raises(OSError, match="cannot be written"):
        reopened(ours).push()
    place.assert_has_all_of(server)


@pytest.mark.few(1)
def test_what_a_push_claimed_is_spared(
    ours: Repo, theirs: Repo, place: Place, server: Path
) -> None:
    write(theirs, {**ROWS, 3: ("three", 3)})
    wanted = [WantedFile(file, store(theirs).size(file)) for file in files(theirs)]
    theirs.push_data()
    remote = ObjectStoreRemote(place.url)

    with remote.sending(wanted):
        assert prune(ours) == 0
        assert remote.lacking(wanted) == []
    assert prune(ours) > 0


@pytest.mark.few(1)
def test_what_was_left_half_written_goes(
    ours: Repo, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a dry run on a cluster whose driver was killed; a file that comes keeps the others."""
    half, other = (f"{place.root}/temporary/{name}" for name in ("half", "run/objects/ab/cd/file"))
    local = place.url.startswith("file")
    for path in (half, other):
        if local:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with place.system.open_output_stream(path) as stream:
            stream.write(b"bytes")

    def told(*words: str) -> str:
        words = ("data", "prune", "--grace", "0", *words)
        made = succeed(invoke(["-C", ours.path, *words]))
        return made.stdout if "json" in words else made.output

    assert "below temporary" not in told("--delete")
    if local:
        os.utime(half, (time.time() - 90_000,) * 2)
        assert "Deleted 1 file, 5 bytes, below temporary" in told("--delete")
        assert sorted(place.left()) == [other]
        young = Path(other).with_name("young")
        young.touch()
        os.utime(other, (time.time() - 90_000,) * 2)
        assert "below temporary" not in told("--delete")
        young.unlink()
    else:
        monkeypatch.setattr("havasu_vc.upkeep.pruning.STALE_SECONDS", -5)
    before = place.left()
    assert f"Would delete {len(before)} file" in told() and place.left() == before
    value = json.loads(told("--delete", "-o", "json"))["havasu.data-prune/v1"]
    assert (value["unfinished"], value["unfinishedSize"]) == (len(before), 5 * len(before))
    assert place.left() == [] and "below temporary" not in told()
    kept = place.system.get_file_info(FileSelector(place.root)) if not local else []
    assert "temporary" not in [each.base_name for each in kept]


@pytest.mark.parametrize(
    "marks",
    [
        b"[" * 200_000,
        b'{"x": 1e999, "%s": NaN}' % (b"ab" * 32),
        b'{"%s": 1%s}' % (b"ab" * 32, b"0" * 400),
        b'{"%s": -1e300}' % (b"ab" * 32),
        b"\xff[]",
        b"7",
    ],
    ids=lambda marks: ascii(marks[:20]),
)
def test_marks_that_cannot_be_are_made_anew(
    ours: Repo, place: Place, server: Path, marks: bytes
) -> None:
    place.put("ab" * 32, b"nobody's")
    with place.system.open_output_stream(f"{place.root}/unreached.json") as stream:
        stream.write(marks)

    result = ours.prune_remote(grace_days=1, delete=True)

    assert (result.files, result.waiting) == (0, 1)
    assert prune(ours) == 1
    place.assert_has_all_of(server)


@pytest.mark.parametrize("what", ["unreached.json", "pushes/x"])
def test_documents_without_end(
    ours: Repo, place: Place, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "MOST_BYTES", 1 << 20)
    if place.url.startswith("file"):
        Path(f"{place.root}/pushes").mkdir(exist_ok=True)
    with place.system.open_output_stream(f"{place.root}/{what}") as stream:
        stream.write(bytes(3 << 20))
    with pytest.raises(StorageError, match="larger than"):
        ours.prune_remote(grace_days=0, delete=True)
    assert place.notes("prunings") == []


@pytest.mark.few(1)
def test_what_is_known_of_the_remote_stays_as_it_was_fetched(ours: Repo, theirs: Repo) -> None:
    known = run_git("for-each-ref", cwd=theirs.path)
    ours.switch("side", create=True)
    write(ours, {**read(ours), 3: ("three", 3)})
    ours.push("origin", ["side"])
    prune(theirs)
    assert run_git("for-each-ref", cwd=theirs.path) == known


def test_a_repository_alone_is_told_what_pruning_needs(place: Place, tmp_path: Path) -> None:
    """And what the hint names is done: nothing that a ref names goes, what nothing names does."""
    repo = make(tmp_path / "alone", ROWS)
    place.use(repo)
    repo = reopened(repo)
    refused = invoke(["-C", repo.path, "data", "prune", "--delete", "--grace", "0"])
    assert refused.exit_code == 40 and "without a git remote nobody can tell" in refused.stderr
    assert f"nothing is removed from {place.url}" in refused.stderr
    assert succeed(invoke(["-C", repo.path, "data", "place"])).stdout == f"{place.url}\n"

    run_git("init", "--quiet", "--bare", str(tmp_path / "server.git"), cwd=tmp_path)
    succeed(invoke(["-C", repo.path, "remote", "add", "origin", tmp_path / "server.git"]))
    succeed(invoke(["-C", repo.path, "push", "--all", "-u"]))
    named_ones, left = place.names(), "0" * 64
    place.put(left, b"left")
    succeed(invoke(["-C", repo.path, "data", "prune", "--delete", "--grace", "0"]))
    assert named_ones and place.names() == named_ones
