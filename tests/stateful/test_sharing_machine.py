"""Several clones, random edits, pushes, pulls, drops, faults and deaths against a model.

Each clone edits rows of its own, so that merges have one right answer: whose rows they are
decides, and of these the latest edit that was pulled. Transfers go wrong in every way that
a kind of remote knows (`faulty_remotes`), processes are killed anywhere, find the disk full,
and share at the same time. After every step no ref of the remote names data that it lacks,
and what a push was told to have arrived is there; in the end all clones agree with the
model and `fsck --full` finds nothing anywhere.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from havasu_vc import Repo
from havasu_vc.errors import ConcurrentChangeError, HavasuError, LockedError, StateError
from tests.conftest import lacking
from tests.remotes.children import Child, finished, started
from tests.remotes.sharing import bare, clone, share
from tests.repo.points import assert_clean, make, read, write
from tests.stateful.faulty_remotes import BesideIt, Bucket, FolderByUrl, LfsServer, Remote
from tests.support.git import run_git
from tests.support.proxy import between
from tests.support.servers import has_moto, moto
from tests.support.sound import LOCAL
from tests.support.web import has_git_lfs, serving

pytestmark = pytest.mark.few(1)

OWNERS = 3
Part = dict[int, tuple[str | None, int | None]]
NOBODYS: Part = {99: ("nobody's", 99)}
clones = st.integers(0, OWNERS - 1)


def _pull(repo: Repo) -> None:
    repo.fetch()
    repo.merge(repo.upstream())


WORK: dict[str, Callable[[Repo], object]] = {
    "push": lambda repo: repo.push(),
    "pull": _pull,
    "fetch everything": lambda repo: repo.fetch_data(),
    "read": read,
    "drop": lambda repo: repo.drop_data(everything=True),
    "send everything": lambda repo: repo.push_data(),
    "prune": lambda repo: repo.prune_remote(grace_days=0, delete=True),
}
CHILDREN = ("push", "pull", "fetch_data", "drop", "push_data", "prune")


@dataclass
class Known:
    """What a clone, or the server, has: of each owner, how many edits, and the rows then."""

    versions: tuple[int, ...] = (0,) * OWNERS
    rows: tuple[Part, ...] = field(default_factory=lambda: tuple({} for _ in range(OWNERS)))

    def merged(self, other: "Known") -> "Known":
        """Return the later of both, owner by owner."""
        pairs = zip(self.versions, other.versions, self.rows, other.rows, strict=True)
        chosen = [(a, c) if a >= b else (b, d) for a, b, c, d in pairs]
        return Known(tuple(v for v, _ in chosen), tuple(r for _, r in chosen))

    def has(self, other: "Known") -> bool:
        return all(a >= b for a, b in zip(self.versions, other.versions, strict=True))

    @property
    def all(self) -> Part:
        parts = (NOBODYS, *self.rows)
        return {key: row for part in parts for key, row in sorted(part.items())}


class SharingMachine(RuleBasedStateMachine):
    """Three clones of one remote."""

    remote_kind: ClassVar[type[Remote]] = BesideIt
    template: ClassVar[Path]
    """A folder with `server.git` and three clones of it, to copy."""

    @initialize(on_demand=st.booleans())
    def begin(self, on_demand: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="havasu-sharing-"))
        for each in self.template.iterdir():
            shutil.copytree(each, self.folder / each.name, symlinks=True)
        self.remote = self.remote_kind(self.folder)
        self.remote.take(self.template)
        self.places = [self.folder / f"clone{number}" for number in range(OWNERS)]
        for place in self.places:
            run_git("remote", "set-url", "origin", self.remote.url, cwd=place)
            if self.remote.data_url is not None:
                run_git("config", "havasu.data.url", self.remote.data_url, cwd=place)
            run_git("update-index", "--refresh", "-q", cwd=place)
        if on_demand:
            self.repo(0).drop_data(everything=True)
        self.known = [Known() for _ in self.places]
        self.acknowledged = self.there = Known()
        self.commits = {self.there_id: Known()}
        self.clones = 0

    # What there is

    @property
    def there_id(self) -> str:
        return run_git("rev-parse", "main", cwd=self.remote.server)

    def repo(self, who: int) -> Repo:
        return Repo.open(self.places[who], settings=LOCAL)

    def look(self) -> None:
        """See what became of refs that may have moved, here and there."""
        for who, place in enumerate(self.places):
            self.known[who] = self.of_commit(place, run_git("rev-parse", "HEAD", cwd=place))
        self.there = self.commits[self.there_id]

    def of_commit(self, place: Path, commit: str) -> Known:
        if commit not in self.commits:
            first, second = run_git("rev-parse", f"{commit}^1", f"{commit}^2", cwd=place).split()
            self.commits[commit] = self.of_commit(place, first).merged(
                self.of_commit(place, second)
            )
        return self.commits[commit]

    # What people do

    @rule(who=clones, data=st.data())
    def change_and_push(self, who: int, data: st.DataObject) -> None:
        self.change(who, data)
        self.push(who)

    @rule(who=clones, data=st.data())
    def change(self, who: int, data: st.DataObject) -> None:
        repo, known = self.repo(who), self.known[who]
        ids = [key for key in range(12) if key % OWNERS == who]
        chosen = data.draw(st.sets(st.sampled_from(ids)))
        number = data.draw(st.integers(0, 3))
        part: Part = {key: (f"{key} by {who}", number) for key in sorted(chosen)}
        if part == known.rows[who]:
            return
        rows = (*known.rows[:who], part, *known.rows[who + 1 :])
        versions = list(known.versions)
        versions[who] += 1
        self.known[who] = Known(tuple(versions), rows)
        write(repo, self.known[who].all)
        # There may be two commits, of which a branch shows the second.
        self.commits[run_git("rev-parse", "HEAD", cwd=repo.path)] = self.known[who]

    @rule(who=clones)
    def push(self, who: int) -> None:
        fits = self.known[who].has(self.there)
        try:
            self.repo(who).push()
        except ConcurrentChangeError:
            assert not fits
        else:
            assert fits
            self.acknowledged = self.there = self.known[who]

    @rule(who=clones)
    def pull(self, who: int) -> None:
        repo = self.repo(who)
        repo.fetch()
        result = repo.merge(repo.upstream())
        assert not getattr(result, "conflicts", 0)
        self.look()

    @rule(who=clones)
    def drop(self, who: int) -> None:
        self.repo(who).drop_data(everything=True)

    @rule(who=clones)
    def collect(self, who: int) -> None:
        self.repo(who).gc(grace_days=0)

    @rule(who=clones)
    def fetch_all(self, who: int) -> None:
        self.repo(who).fetch_data()

    @rule(who=clones)
    def push_aside(self, who: int) -> None:
        """Leave what only a branch of the remote names, besides the clone."""
        self.repo(who).push("origin", [f"+HEAD:refs/heads/aside{who}"])

    @precondition(lambda self: self.remote.prunes)
    @rule(who=clones, aside=clones)
    def prune(self, who: int, aside: int) -> None:
        """Have data there that no ref reaches any more, and remove it."""
        with suppress(StateError):
            self.repo(who).push("origin", [f"aside{aside}"], options=("--delete",))
        self.may_fail(who, lambda repo: repo.prune_remote(grace_days=0, delete=True), LockedError)

    # What goes wrong

    @rule(who=clones, what=st.sampled_from(list(WORK)), number=st.integers(0, 11), data=st.data())
    def with_a_fault(self, who: int, what: str, number: int, data: st.DataObject) -> None:
        fault = data.draw(st.sampled_from(self.remote.faults))
        self.have_something_for(who, what, data)
        with self.remote.broken(fault, number):
            self.may_fail(who, WORK[what])
        self.remote.forget_the_dead()

    @rule(who=clones, what=st.sampled_from(CHILDREN), at=st.integers(1, 30), data=st.data())
    def killed(self, who: int, what: str, at: int, data: st.DataObject) -> None:
        self.have_something_for(who, what, data)
        self.ends(who, what, self.start(who, what, killed_at=at))

    @rule(who=clones, what=st.sampled_from(CHILDREN), call=st.integers(1, 3), data=st.data())
    def killed_with_a_file(self, who: int, what: str, call: int, data: st.DataObject) -> None:
        self.have_something_for(who, what, data)
        at = ("havasu_vc.store.files:DataFileStore.put", call)
        self.ends(who, what, self.start(who, what, die=at))

    def have_something_for(self, who: int, what: str, data: st.DataObject) -> None:
        if what in ("push", "push_data", "send everything"):
            self.change(who, data)

    @rule(number=st.integers(1, 30))
    def new_clone_that_is_killed(self, number: int) -> None:
        """What there is of it can be fetched to the end, if git had made it a repository."""
        self.clones += 1
        place = self.folder / f"new{self.clones}"
        data = "" if self.remote.data_url is None else f"|{self.remote.data_url}"
        finished(place, f"clone|{self.remote.url}{data}", killed_at=number)
        asked: list[str | Path] = ["git", "-C", place, "rev-parse", "-q", "--verify", "HEAD^{tree}"]
        done = subprocess.run(asked, capture_output=True, check=False)
        if done.returncode == 0:
            unlocked(place)
            repo = Repo.open(place, settings=LOCAL)
            if data:
                repo.config.set("havasu.data.url", data[1:])
            repo.fetch_data()
            assert read(Repo.open(place, settings=LOCAL)) == self.there.all
        shutil.rmtree(place, ignore_errors=True)

    @rule(who=clones, what=st.sampled_from(CHILDREN), most=st.integers(0, 3000), data=st.data())
    def with_a_full_disk(self, who: int, what: str, most: int, data: st.DataObject) -> None:
        self.have_something_for(who, what, data)
        self.ends(who, what, self.start(who, what, largest=most), full=True)

    @rule(works=st.tuples(*[st.sampled_from(CHILDREN)] * OWNERS), data=st.data())
    def together(self, works: tuple[str, ...], data: st.DataObject) -> None:
        """Several processes share at the same time, each in a clone of its own."""
        chosen = dict(enumerate(works))
        for who, what in chosen.items():
            self.have_something_for(who, what, data)
        children = {who: self.start(who, what) for who, what in chosen.items()}
        for child in children.values():
            child.wait()
        for who, child in children.items():
            self.ends(who, chosen[who], child)

    def start(self, who: int, what: str, **how: Any) -> Child:
        """Start a process that does something, or pulls where that cannot be done."""
        what = what if what != "prune" or self.remote.prunes else "pull"
        return started(self.places[who], what, **how)

    def may_fail(
        self, who: int, work: Callable[[Repo], object], kind: type[Exception] = HavasuError
    ) -> None:
        try:
            work(self.repo(who))
        except kind as error:
            assert "\n" not in str(error), error
        self.look()

    def ends(self, who: int, what: str, child: Child, *, full: bool = False) -> None:
        """See how a process ended: well, killed, or with an error of ours in one line."""
        code, errors = child.wait(), child.errors
        assert "Traceback" not in errors, errors
        # Where a disk is full there may be no room to say so.
        assert full or code != 1 or ("Error: " in errors and errors.count("\n") == 1), errors
        unlocked(self.places[who])
        unlocked(self.remote.server)
        self.remote.forget_the_dead()
        self.look()
        if code == 0 and what == "push":
            assert self.there.has(self.known[who])
            self.acknowledged = self.acknowledged.merged(self.known[who])

    # What must be so

    @precondition(lambda self: hasattr(self, "remote"))
    @invariant()
    def the_remote_keeps_its_promise(self) -> None:
        self.remote.assert_keeps_its_promise()
        assert self.there.has(self.acknowledged)

    def teardown(self) -> None:
        if not hasattr(self, "remote"):
            return
        try:
            self.agree()
        finally:
            self.remote.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def agree(self) -> None:
        for _ in range(2):
            for who in range(OWNERS):
                self.pull(who)
                self.push(who)
        for who in range(OWNERS):
            repo = self.repo(who)
            assert self.known[who].all == self.there.all == read(repo)
            assert list(repo.fsck(full=True)) == []
            repo.fetch_data()
            assert list(self.repo(who).verify_data()) == []
            assert_clean(repo)
        fresh = clone(self.remote.url, self.folder / "fresh", data_url=self.remote.data_url)
        assert read(fresh) == self.there.all
        assert list(fresh.fsck(full=True)) == []
        self.remote.assert_keeps_its_promise()


def unlocked(place: Path) -> None:
    """Remove locks that a git left that was killed, as it says itself."""
    for lock in place.rglob("*.lock"):
        lock.unlink()


class FolderMachine(SharingMachine):
    """The same, with data in a folder of its own."""

    remote_kind = FolderByUrl


class LfsMachine(SharingMachine):
    """The same over HTTP, with data on a Git LFS server."""

    remote_kind = LfsServer


class BucketMachine(SharingMachine):
    """The same, with data in a bucket."""

    remote_kind = Bucket


MACHINES = [SharingMachine, FolderMachine, LfsMachine, BucketMachine]
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.fixture(scope="module", autouse=True)
def template(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make what every example begins with."""
    folder, made = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("template")
    server = bare(made / "server.git")
    run_git("config", "http.receivepack", "true", cwd=server)
    share(make(folder / "first", NOBODYS), server)
    for number in range(OWNERS):
        clone(server, made / f"clone{number}")
    SharingMachine.template = made


@pytest.fixture
def serving_faults(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Serve what the machine in hand needs."""
    match request.node.callspec.params["machine"].remote_kind.__name__:
        case "LfsServer":
            if not has_git_lfs():
                lacking("this needs git-lfs: apt install git-lfs")
            with serving(tmp_path) as LfsServer.web:
                yield
        case "Bucket":
            if not has_moto():
                lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
            with moto() as Bucket.target, between(Bucket.target) as Bucket.proxy:
                yield
        case _:
            yield


def play(machine: type[SharingMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=QUIET,
        ),
    )


@pytest.mark.usefixtures("serving_faults")
@pytest.mark.parametrize("machine", MACHINES)
def test_clones_agree_with_the_model(machine: type[SharingMachine]) -> None:
    play(machine, 2, 14)


@pytest.mark.slow
@pytest.mark.usefixtures("serving_faults")
@pytest.mark.parametrize("machine", MACHINES)
def test_clones_agree_with_the_model_for_long(machine: type[SharingMachine]) -> None:
    play(machine, 30, 30)
