"""Clones with and without havasu-vc, whole and shallow, under other settings each, against dicts.

Some edit rows by havasu-vc, all merge, squash, rebase, cherry-pick and revert by git alone, with
options that people give, at random. What git makes of different rows is the table that the model
says; where it stops, nothing has changed; where an option lets it go on over one row of both
sides, the table is of rows of the two sides or is refused, never another one.
"""

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from havasu_vc import Repo
from havasu_vc.errors import UnfinishedMergeError
from tests.cli.conftest import invoke, succeed
from tests.remotes.sharing import bare, clone, share
from tests.repo.points import make, read, write
from tests.support.examples import some
from tests.support.git import run_git
from tests.support.sound import LOCAL

Table = dict[int, Any]

SETTINGS: Sequence[Sequence[str]] = (
    (),
    ("merge.directoryRenames=true",),
    ("merge.renames=false", "pull.rebase=true"),
    ("rerere.enabled=true", "rerere.autoUpdate=true"),
    ("merge.conflictStyle=diff3", "diff.renames=copies", "merge.directoryRenames=false"),
)
OPTIONS: Sequence[Sequence[str]] = ((), (), (), ("-Xours",), ("-Xtheirs",), ("-Xno-renames",))
SIDES = ("-Xours", "-Xtheirs")


def threefold(base: Table, ours: Table, theirs: Table) -> tuple[Table, set[int]]:
    """Return the rows of two sides put together, and the keys that both changed."""
    found, both = {}, set()
    for key in base.keys() | ours.keys() | theirs.keys():
        was, mine, other = base.get(key), ours.get(key), theirs.get(key)
        if was not in (mine, other):
            both.add(key)
        row = other if mine == was else mine
        if row is not None:
            found[key] = row
    return dict(sorted(found.items())), both


@dataclass
class Clones:
    """Some clones of one repository, and the rows of each commit."""

    folder: Path
    chance: random.Random
    places: list[Path] = field(default_factory=list)
    ours: int = 2
    """How many of them edit rows."""
    rows: dict[str, Table] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Make the repository and its clones, of which the last is shallow."""
        first = {key: (f"row {key}", key) for key in range(8)}
        self.hub = bare(self.folder / "hub.git")
        start = make(self.folder / "start", first)
        share(start, self.hub)
        write(start, {**first, 0: ("zero", 0)})
        start.push("origin", ["main"])
        for number in range(4):
            place = self.folder / f"clone-{number}"
            if number < self.ours:
                clone(self.hub, place)
            else:
                deep = ("--depth=1",) if number == 3 else ()
                run_git("clone", "-q", *deep, self.hub.as_uri(), place, cwd=self.folder)
            for setting in self.chance.choice(SETTINGS):
                run_git("config", *setting.split("="), cwd=place)
            run_git("switch", "-q", "-c", f"b{number}", cwd=place)
            run_git("push", "-q", "--no-verify", "origin", f"b{number}", cwd=place)
            self.places.append(place)

    def git(self, number: int, *words: str) -> bool:
        """Run git in a clone; return whether it went on to its end."""
        place = self.places[number]
        run_git(*words, cwd=place, check=False)
        waiting = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge")
        unmerged = run_git("ls-files", "-u", cwd=place)
        return not unmerged and not any((place / ".git" / name).exists() for name in waiting)

    def tip(self, number: int) -> str:
        """Return the commit of a clone."""
        return run_git("rev-parse", "HEAD", cwd=self.places[number])

    def of(self, commit: str) -> Table:
        """Return the rows of a commit that the remote has, checked where they are not known."""
        if commit not in self.rows:
            hub = Repo.open(self.hub, settings=LOCAL)
            hub.dataset("points", commit).check_guard()
            self.rows[commit] = read(hub, commit)
        return self.rows[commit]

    def publish(self, number: int) -> None:
        """Push a clone's branch with git alone."""
        spec = f"+HEAD:refs/heads/b{number}"
        run_git("push", "-q", "--no-verify", "origin", spec, cwd=self.places[number])

    def parent(self, commit: str) -> str | None:
        """Return the first parent of a commit."""
        return run_git("rev-parse", "-q", "--verify", f"{commit}^1", cwd=self.hub, check=False)

    def is_merge(self, commit: str) -> bool:
        """Whether a commit has two parents."""
        return len(run_git("rev-list", "--parents", "-1", commit, cwd=self.hub).split()) > 2

    def edit(self, number: int) -> None:
        """Commit a few other rows by havasu-vc, and send their data."""
        repo = Repo.open(self.places[number], settings=LOCAL)
        rows = dict(self.of(self.tip(number)))
        for _ in range(self.chance.randint(1, 2)):
            key = self.chance.randrange(14)
            if self.chance.random() < 0.2:
                rows.pop(key, None)
            else:
                rows[key] = (self.chance.choice("abcdefgh"), self.chance.randrange(100))
        if rows == self.of(self.tip(number)):
            return
        commit = write(repo, rows)
        succeed(invoke(["-C", repo.path, "push", "origin", f"+HEAD:refs/heads/b{number}"]))
        self.rows[commit] = dict(sorted(rows.items()))
        self.counts["edited"] += 1

    def step(self) -> None:
        """Edit in a clone, or let git do something with the branch of another one."""
        number = self.chance.randrange(len(self.places))
        if number < self.ours and self.chance.random() < 0.6:
            return self.edit(number)
        self.git(number, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
        other = f"origin/b{self.chance.choice([n for n in range(4) if n != number])}"
        ways = (self.merge, self.merge, self.squash, self.rebase, self.pick, self.revert)
        before, option = self.tip(number), self.chance.choice(OPTIONS)
        way = self.chance.choice(ways)
        done = way(number, other, option)
        if done is None:
            return None
        through, *expected = done
        if through:
            forced = any(side in option for side in SIDES)
            self.check(number, before, way.__name__, expected, forced=forced)
        else:
            self.stopped(number, before, way.__name__, expected[1])
        return None

    def stopped(self, number: int, before: str, name: str, clash: set[int]) -> None:
        """Give up what git stopped; nothing must have changed."""
        place = self.places[number]
        for command in ("merge", "cherry-pick", "revert", "rebase"):
            run_git(command, "--abort", cwd=place, check=False)
        run_git("reset", "-q", "--hard", before, cwd=place)
        assert run_git("status", "--porcelain", cwd=place) == ""
        self.counts[f"{name}: stopped {'at a row of both' if clash else 'otherwise'}"] += 1

    def check(
        self,
        number: int,
        before: str,
        name: str,
        expected: Sequence[Any],
        *,
        forced: bool,
    ) -> None:
        """Hold what git made against the model."""
        wanted, clash, sides = expected
        self.publish(number)
        tip = self.tip(number)
        if tip != before:
            self.rows.pop(tip, None)
        try:
            found = self.of(tip)
        except UnfinishedMergeError:
            assert forced, (name, "refused without a reason")
            self.counts[f"{name}: refused"] += 1
            run_git("reset", "-q", "--hard", before, cwd=self.places[number])
            self.publish(number)
            return
        for key in found.keys() | wanted.keys():
            # An option takes a side also where the model sees one change: of what came and went.
            if forced or key in clash:
                assert found.get(key) in [side.get(key) for side in sides], (name, key)
            else:
                assert found.get(key) == wanted.get(key), (name, key)
        self.counts[f"{name}: right"] += 1

    # What git does; each returns whether it went through, the rows and keys of both sides

    def _bases(self, one: str, other: str) -> list[str]:
        return run_git("merge-base", "--all", one, other, cwd=self.hub, check=False).split()

    def _sides(self, number: int, other: str) -> tuple[Table, set[int], list[Table]] | None:
        mine, theirs = self.tip(number), run_git("rev-parse", other, cwd=self.places[number])
        bases = self._bases(mine, theirs)
        if len(bases) != 1 or bases[0] == theirs:
            return None  # several are `plain_git`'s
        sides = [self.of(mine), self.of(theirs)]
        return *threefold(self.of(bases[0]), *sides), sides

    def merge(self, number: int, other: str, option: Sequence[str]) -> Any:
        """Merge another branch."""
        found = self._sides(number, other)
        return found and (self.git(number, "merge", "-q", "--no-edit", *option, other), *found)

    def squash(self, number: int, other: str, option: Sequence[str]) -> Any:
        """Commit what another branch brings as one commit."""
        found = self._sides(number, other)
        if found is None:
            return None
        through = self.git(number, "merge", "-q", "--squash", *option, other)
        if through:
            self.git(number, "commit", "-qm", "Squash", "--allow-empty")
        return through, *found

    def pick(self, number: int, other: str, option: Sequence[str]) -> Any:
        """Pick the last commit of another branch."""
        commit = run_git("rev-parse", other, cwd=self.places[number])
        parent = self.parent(commit)
        if not parent:
            return None
        sides = [self.of(self.tip(number)), self.of(commit)]
        found = (*threefold(self.of(parent), *sides), [*sides, self.of(parent)])
        mainline = ("-m", "1") if self.is_merge(commit) else ()
        words = ("cherry-pick", "--allow-empty", "--keep-redundant-commits", *mainline, *option)
        return self.git(number, *words, commit), *found

    def revert(self, number: int, _: str, option: Sequence[str]) -> Any:
        """Revert one of the last commits of the branch."""
        last = run_git("rev-list", "--first-parent", "-4", "HEAD", cwd=self.places[number])
        commit = self.chance.choice(last.split())
        there = run_git("rev-list", "--parents", "-1", commit, cwd=self.places[number]).split()
        parent = there[1] if len(there) > 1 else None
        if parent is None:
            return None
        sides = [self.of(self.tip(number)), self.of(parent)]
        found = (*threefold(self.of(commit), *sides), [*sides, self.of(commit)])
        mainline = ("-m", "1") if self.is_merge(commit) else ()
        return self.git(number, "revert", "--no-edit", *mainline, *option, commit), *found

    def rebase(self, number: int, other: str, option: Sequence[str]) -> Any:
        """Rebase the branch onto another one."""
        place = self.places[number]
        span = f"{other}...HEAD"
        kept = ("--reverse", "--right-only", "--cherry-pick", "--no-merges", "--topo-order")
        picked = run_git("rev-list", *kept, span, cwd=place).split()
        rows, clash = self.of(run_git("rev-parse", other, cwd=place)), set[int]()
        if not self._bases(self.tip(number), run_git("rev-parse", other, cwd=place)):
            return None
        sides = [rows]
        for commit in picked:
            parent = self.parent(commit)
            if not parent:
                return None
            rows, both = threefold(self.of(parent), rows, self.of(commit))
            sides += [self.of(parent), self.of(commit), rows]
            clash |= both
        return self.git(number, "rebase", "-q", *option, other), rows, clash, sides


@pytest.mark.parametrize("seed", some(range(8), 0))
def test_clones_with_and_without_havasu(seed: int, tmp_path: Path) -> None:
    found = run(seed, 40, tmp_path)
    assert found["edited"] and sum(n for what, n in found.items() if "right" in what) > 5


@pytest.mark.slow
def test_many_clones_with_and_without_havasu(tmp_path: Path) -> None:
    for seed in range(100, 200):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run(seed, 40, folder)
        shutil.rmtree(folder)


def run(seed: int, steps: int, folder: Path) -> Counter[str]:
    """Take some steps; return how often each thing happened."""
    clones = Clones(folder, random.Random(seed))
    clones.begin()
    for number in range(steps):
        try:
            clones.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number}: {error}") from error
    return clones.counts
