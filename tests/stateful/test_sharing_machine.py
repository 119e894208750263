"""Several clones, random edits, pushes, pulls, drops and deaths against a model.

Each clone edits rows of its own, so that merges have one right answer: whose rows they are
decides, and of these the latest edit that was pulled. After every step no ref of the
server names data that it lacks; in the end all clones agree with the model and
`fsck --full` finds nothing anywhere.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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

from havasu_vc.errors import ConcurrentChangeError
from havasu_vc.repo import Repo
from havasu_vc.store import files as store_files
from havasu_vc.store.files import DataFileStore
from tests.remotes.sharing import assert_keeps_its_promise, bare, clone, share
from tests.repo.points import assert_clean, make, read, write
from tests.support.sound import LOCAL

OWNERS = 3
Part = dict[int, tuple[str | None, int | None]]
clones = st.integers(0, OWNERS - 1)


class Killed(BaseException):
    """What a process that dies in a test raises: nothing catches it."""


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
        return {key: row for part in self.rows for key, row in sorted(part.items())}


class SharingMachine(RuleBasedStateMachine):
    """Three clones of one server."""

    at_url: ClassVar[bool] = False

    @initialize(on_demand=st.booleans())
    def begin(self, on_demand: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="havasu-sharing-"))
        self.server = bare(self.folder / "server.git")
        self.data = self.folder / "data" if self.at_url else None
        url = self.data.as_uri() if self.data else None
        share(make(self.folder / "first", {}), self.server, data=url)
        self.places = [self.folder / f"clone{number}" for number in range(OWNERS)]
        for number, place in enumerate(self.places):
            lazy = on_demand and number == 0
            clone(self.server, place, data_url=url, on_demand=lazy)
        self.known = [Known() for _ in self.places]
        self.there = Known()

    def repo(self, who: int) -> Repo:
        return Repo.open(self.places[who], settings=LOCAL)

    @rule(who=clones, data=st.data())
    def edit(self, who: int, data: st.DataObject) -> None:
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
        new = Known(tuple(versions), rows)
        write(repo, new.all)
        self.known[who] = new

    @rule(who=clones)
    def push(self, who: int) -> None:
        fits = self.known[who].has(self.there)
        try:
            self.repo(who).push()
        except ConcurrentChangeError:
            assert not fits
        else:
            assert fits
            self.there = self.known[who]

    @rule(who=clones)
    def pull(self, who: int) -> None:
        repo = self.repo(who)
        repo.fetch()
        result = repo.merge(repo.upstream())
        assert not getattr(result, "conflicts", 0)
        self.known[who] = self.known[who].merged(self.there)

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
    def prune(self, who: int) -> None:
        self.repo(who).prune_remote(grace_days=0, delete=True)

    @rule(who=clones, what=st.sampled_from(["push", "fetch", "drop"]), call=st.integers(1, 3))
    def die(self, who: int, what: str, call: int) -> None:
        repo = self.repo(who)
        with dying(call):
            match what:
                case "push":
                    try:
                        repo.push()
                        self.there = self.known[who]
                    except ConcurrentChangeError:
                        pass
                case "fetch":
                    repo.fetch()
                case _:
                    repo.drop_data(everything=True)

    @precondition(lambda self: hasattr(self, "server"))
    @invariant()
    def the_server_keeps_its_promise(self) -> None:
        assert_keeps_its_promise(self.server, self.data)

    def teardown(self) -> None:
        if not hasattr(self, "server"):
            return
        try:
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
            fresh = clone(
                self.server,
                self.folder / "fresh",
                data_url=self.data.as_uri() if self.data else None,
            )
            assert read(fresh) == self.there.all
            assert list(fresh.fsck(full=True)) == []
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def dying(call: int) -> Iterator[None]:
    """Kill what runs when it puts or removes a data file for the n-th time."""
    calls = 0

    def killed(original: Any) -> Any:
        def method(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                raise Killed
            return original(*arguments, **options)

        return method

    with pytest.MonkeyPatch.context() as patch:
        for name in ("put", "delete", "commit_all"):
            patch.setattr(DataFileStore, name, killed(getattr(store_files.DataFileStore, name)))
        try:
            yield
        except Killed:
            pass


class AtUrlMachine(SharingMachine):
    """The same, with data in a folder of its own."""

    at_url = True


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


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


@pytest.mark.parametrize("machine", [SharingMachine, AtUrlMachine])
def test_clones_agree_with_the_model(machine: type[SharingMachine]) -> None:
    play(machine, 3, 12)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [SharingMachine, AtUrlMachine])
def test_clones_agree_with_the_model_for_long(machine: type[SharingMachine]) -> None:
    play(machine, 25, 30)
