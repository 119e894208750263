"""Kart as it is and havasu-vc in turn on one working copy: each sees what the other did.

Random edits of an editor, and between them commands of either program, against a model of the
rows in the file and at each branch. After every step both say the same of the file, and it
holds what the model says. Needs `HAVASU_VC_KART`, as `test_kart_itself` has it.
"""

import json
import random
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import FIRST, invoke
from tests.compat.test_kart_itself import KART, kart

Rows = dict[int, tuple[object, ...]]

pytestmark = [
    pytest.mark.kart,
    pytest.mark.skipif(not KART, reason="HAVASU_VC_KART names no command that runs Kart"),
]


class Pair:
    """Two programs on one repository and one working copy, and what both should hold."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.repo = folder / "repo"
        source = folder / "points.csv"
        source.write_text(FIRST)
        self.ours("init", self.repo, "--kart", at=None)
        self.ours("import", source, "--primary-key", "id", "--crs", "EPSG:4326")
        first = self.random.choice([self.ours, self.theirs])
        first("create-workingcopy", "--delete-existing", "repo.gpkg")
        self.now = self.read()
        self.heads = {"main": dict(self.now)}
        self.branch = "main"
        self.history: list[tuple[tuple[int, ...], Rows]] = [((), dict(self.now))]
        self.tips = {"main": 0}
        self.waiting: Waiting | None = None

    def ours(self, *words: str | Path, at: str | None = "repo", code: int = 0) -> str:
        place: list[str | Path] = ["-C", self.repo] if at else []
        with mock.patch.object(sys, "argv", ["kart"]):  # so a row is in conflict as a whole
            result = invoke([*place, *words])
        assert result.exit_code == code, (words, result.output)
        return result.stdout

    def theirs(self, *words: str | Path, code: int = 0) -> str:
        return kart(self.repo, *map(str, words), status=code)

    def either(self) -> Callable[..., str]:
        return self.random.choice([self.ours, self.theirs])

    def read(self) -> Rows:
        with closing(sqlite3.connect(self.repo / "repo.gpkg")) as database:
            found = database.execute("SELECT id, geom, name, height FROM points").fetchall()
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {row[0]: row for row in found}

    @property
    def edited(self) -> dict[str, int]:
        before, after = self.heads[self.branch], self.now
        counts = {
            "inserts": len(after.keys() - before.keys()),
            "updates": sum(before[k] != after[k] for k in before.keys() & after.keys()),
            "deletes": len(before.keys() - after.keys()),
        }
        return {name: count for name, count in counts.items() if count}

    def check(self) -> None:
        assert self.read() == self.now
        if self.waiting is not None:
            self.check_merge()
            return
        wanted = {"points": {"feature": self.edited}} if self.edited else {}
        for program in (self.ours, self.theirs):
            status = json.loads(program("status", "-o", "json"))["kart.status/v2"]
            assert (status["branch"], status["workingCopy"]["changes"]) == (self.branch, wanted)

    # Steps

    def edit(self) -> None:
        with editor(self.repo / "repo.gpkg") as database:
            for _ in range(self.random.randrange(1, 4)):
                number, text = self.random.randrange(1, 12), self.random.choice("abcd")
                database.execute(
                    self.random.choice(
                        [
                            f"UPDATE points SET name = '{text}' WHERE id = {number}",
                            f"UPDATE points SET height = {number}.5 WHERE id % 3 = {number % 3}",
                            f"DELETE FROM points WHERE id = {number}",
                            f"INSERT OR REPLACE INTO points (id, name) VALUES ({number}, '{text}')",
                        ]
                    )
                )
        self.now = self.read()

    def commit(self) -> None:
        nothing = not self.edited
        self.either()("commit", "-m", "Edit", code=44 if nothing else 0)
        if not nothing:
            self.note(self.now)

    def commit_one(self) -> None:
        before = self.heads[self.branch]
        apart = [k for k in before.keys() | self.now.keys() if before.get(k) != self.now.get(k)]
        if apart:
            key = self.random.choice(sorted(apart))
            self.either()("commit", "-m", "One", f"points:feature:{key}")
            after = {k: row for k, row in before.items() if k != key}
            self.note(after | ({key: self.now[key]} if key in self.now else {}))

    def restore(self) -> None:
        self.either()("restore")
        self.now = dict(self.heads[self.branch])

    def switch(self) -> None:
        program, target = self.either(), self.random.choice([*self.heads, "new"])
        if target == "new":
            target = f"b{len(self.heads)}"
            program("switch", "-c", target)
            self.heads[target] = dict(self.heads[self.branch])
            self.tips[target] = self.tips[self.branch]
        elif target != self.branch:
            program("switch", "--discard-changes", target)
            self.now = dict(self.heads[target])
        self.branch = target

    def note(self, rows: Rows, *also: int) -> None:
        """Note a commit on the branch."""
        self.history.append(((self.tips[self.branch], *also), dict(rows)))
        self.tips[self.branch] = len(self.history) - 1
        self.heads[self.branch] = dict(rows)

    # Merges

    def bases(self, first: int, second: int) -> set[int]:
        """Return the commits that two have in common, without what those come from."""

        def reached(start: int) -> set[int]:
            found, waiting = {start}, [start]
            while waiting:
                for parent in self.history[waiting.pop()][0]:
                    if parent not in found:
                        found.add(parent)
                        waiting.append(parent)
            return found

        common = reached(first) & reached(second)
        return {c for c in common if not any(c in reached(o) - {o} for o in common)}

    def merge(self) -> None:
        others = [name for name in self.heads if name != self.branch]
        if not others:
            return
        other = self.random.choice(others)
        mine, theirs = self.tips[self.branch], self.tips[other]
        bases = self.bases(mine, theirs)
        if len(bases) > 1:
            return  # what their base is, is another question
        (base,) = bases
        if self.edited:
            self.either()("merge", other, "-m", "Both", code=29)
            self.restore()
            self.check()
        self.either()("merge", other, "-m", "Both", "--no-ff")
        if base == theirs:
            return
        before, ours, new = (self.history[each][1] for each in (base, mine, theirs))
        merged, conflicts = dict(ours), {}
        for key in before.keys() | ours.keys() | new.keys():
            was, here, there = before.get(key), ours.get(key), new.get(key)
            if there in (was, here):
                continue
            if here == was:
                merged.pop(key, None)
                merged |= {} if there is None else {key: there}
            else:
                conflicts[key] = {"ancestor": was, "ours": here, "theirs": there}
        self.now = merged
        if conflicts:
            self.waiting = Waiting(theirs, conflicts, set(conflicts))
        else:
            self.note(merged, theirs)

    def check_merge(self) -> None:
        """Hold what both programs say of the merge that waits against the model."""
        assert self.waiting is not None
        left = sorted(self.waiting.left)
        said = []
        for program in (self.ours, self.theirs):
            status = json.loads(program("status", "-o", "json"))["kart.status/v2"]
            flat = json.loads(program("conflicts", "-s", "--flat", "-o", "json"))
            full = json.loads(program("conflicts", "-o", "json"))
            said.append((status["state"], status["conflicts"], status["merging"], flat, full))
            assert status["state"] == "merging"
        assert said[0] == said[1]
        assert sorted(said[0][3]["kart.conflicts/v1"]) == sorted(
            f"points:feature:{key}" for key in left
        )

    def resolve(self) -> None:
        if self.waiting is None or not self.waiting.left:
            return
        key = self.random.choice(sorted(self.waiting.left))
        sides = self.waiting.conflicts[key]
        side = self.random.choice([name for name in sides if sides[name] is not None] + ["delete"])
        self.either()("resolve", f"points:feature:{key}", f"--with={side}")
        self.waiting.left.discard(key)
        self.now.pop(key, None)
        if (row := sides.get(side)) is not None:
            self.now[key] = row

    def conclude(self) -> None:
        if self.waiting is None:
            return
        if self.waiting.left:
            self.ours("merge", "--continue", code=21)
            self.theirs("merge", "--continue", code=21)
            return
        self.either()("merge", "--continue")
        self.note(self.now, self.waiting.theirs)
        self.waiting = None

    def abort(self) -> None:
        if self.waiting is not None:
            self.either()("merge", "--abort")
            self.now, self.waiting = dict(self.heads[self.branch]), None

    def refused(self) -> None:
        """Hold what may not be done while a merge waits: both say so, and nothing moves."""
        if self.waiting is not None:
            for words in (
                ["commit", "-m", "x"],
                ["restore"],
                ["switch", "main"],
                ["merge", "main"],
            ):
                self.ours(*words, code=20)
                self.theirs(*words, code=20)

    def step(self) -> None:
        """Do something at random."""
        always = [self.edit] * 4 + [self.commit, self.commit_one, self.restore, self.switch]
        waits = [self.resolve] * 4 + [self.conclude, self.conclude, self.abort, self.refused]
        self.random.choice(always + [self.merge] * 3 if self.waiting is None else waits)()


@dataclass
class Waiting:
    """A merge that waits."""

    theirs: int
    """The commit that is merged."""
    conflicts: dict[int, dict[str, tuple[object, ...] | None]]
    """The rows in conflict, by key and side."""
    left: set[int]
    """Those of which nothing was decided."""


@pytest.mark.parametrize("seed", range(3))
def test_both_work_on_one_working_copy_in_turn(seed: int, tmp_path: Path) -> None:
    pair = Pair(tmp_path, seed)
    for _ in range(40):
        pair.step()
        pair.check()


def test_a_merge_of_either_brings_the_file_along(tmp_path: Path) -> None:
    for number, (first, second) in enumerate((("ours", "theirs"), ("theirs", "ours"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        pair = Pair(folder, number)
        edits = {"b": "name = 'b' WHERE id = 1", "main": "height = 9 WHERE id = 2"}
        pair.ours("switch", "-c", "b")
        for branch, edit in edits.items():
            getattr(pair, first)("switch", branch)
            with editor(pair.repo / "repo.gpkg") as database:
                database.execute(f"UPDATE points SET {edit}")
            getattr(pair, second)("commit", "-m", branch)
        getattr(pair, first)("merge", "b", "-m", "Both")
        pair.now = pair.read()
        assert (pair.now[1][2], pair.now[2][3]) == ("b", 9.0)
        pair.heads["main"] = dict(pair.now)
        pair.check()
        pair.edit()
        pair.check()


def test_both_know_a_spatial_filter(tmp_path: Path) -> None:
    pair = Pair(tmp_path, 1)
    box = "POLYGON((174.45 -41.15, 174.65 -41.15, 174.65 -40.95, 174.45 -40.95, 174.45 -41.15))"
    pair.ours("checkout", "--spatial-filter", f"EPSG:4326;{box}")
    with editor(pair.repo / "repo.gpkg") as database:
        database.execute("UPDATE points SET name = 'uno' WHERE id = 1")
        database.execute("INSERT INTO points (id, name) VALUES (3, 'mine')")

    said = [json.loads(run("status", "-o", "json")) for run in (pair.ours, pair.theirs)]
    status = [each["kart.status/v2"] for each in said]
    for part in ("spatialFilter", "branch", "commit"):
        assert status[0][part] == status[1][part]
    changes = [each["workingCopy"]["changes"] for each in status]
    assert (
        changes[0]
        == changes[1]
        == {"points": {"feature": {"updates": 1, "spatialFilterConflicts": 1}}}
    )
    assert "has been updated in the config" not in pair.theirs("checkout")
    for program in (pair.theirs, pair.ours):
        program("commit", "-m", "x", code=27)
