"""Kart as it is and havasu-vc in turn on one working copy: each sees what the other did.

Random edits of an editor, and between them commands of either program, against a model of the
rows in the file and at each commit. After every step both say the same of the file, and it
holds what the model says. Needs `HAVASU_VC_KART`, as `test_kart_itself` has it.
"""

import json
import random
import sqlite3
import sys
from collections.abc import Callable
from contextlib import chdir, closing
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import FIRST, invoke, succeed
from tests.cli.test_as_kart import LIMITED
from tests.compat.kart import git
from tests.compat.test_kart_itself import KART, kart

Rows = dict[int, tuple[object, ...]]
TITLE = 0
"""The key under which a model of rows holds the dataset's title, which merges as a row does."""
TITLES = {"a": "a", "b": "b", "c": "c", "d": "points"}
"""The titles, of which one is the name of the table."""

pytestmark = [
    pytest.mark.kart,
    pytest.mark.skipif(not KART, reason="HAVASU_VC_KART names no command that runs Kart"),
]


class Pair:
    """Two programs on one repository and one working copy, and what both should hold."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.done: list[tuple[object, ...]] = []
        self.repo = folder / "repo"
        source = folder / "points.csv"
        source.write_text(FIRST)
        self.ours("init", self.repo, "--kart", at=None)
        self.ours("import", source, "--primary-key", "id", "--crs", "EPSG:4326")
        self.ours("meta", "set", "points", "title=a")
        first = self.random.choice([self.ours, self.theirs])
        first("create-workingcopy", "--delete-existing", "repo.gpkg")
        self.now = self.read()
        self.heads = {"main": dict(self.now)}
        self.branch = "main"
        self.history: list[tuple[tuple[int, ...], Rows]] = [((), dict(self.now))]
        self.ids = [self.commit_id()]
        self.tips = {"main": 0}
        self.aside: list[tuple[Rows, Rows]] = []
        self.made = 0
        self.waiting: Waiting | None = None

    def commit_id(self) -> str:
        return git(self.repo, "rev-parse", "HEAD")

    def ours(self, *words: str | Path, at: str | None = "repo", code: int = 0) -> str:
        place = self.repo if at else self.repo.parent
        self.done.append(("ours", *words))
        # Called kart, so a row is in conflict as a whole; a relative path is one from where it is.
        with mock.patch.object(sys, "argv", ["kart"]), chdir(place):
            result = invoke([*words])
        assert result.exit_code == code, (words, result.output)
        return result.stdout

    def theirs(self, *words: str | Path, code: int = 0) -> str:
        self.done.append(("theirs", *words))
        return kart(self.repo, *map(str, words), status=code)

    def either(self) -> Callable[..., str]:
        return self.random.choice([self.ours, self.theirs])

    def read(self) -> Rows:
        with closing(sqlite3.connect(self.repo / "repo.gpkg")) as database:
            found = database.execute("SELECT id, geom, name, height FROM points").fetchall()
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            titles = database.execute("SELECT identifier FROM gpkg_contents").fetchall()
        return {row[0]: row for row in found} | {TITLE: titles[0]}

    @property
    def moved(self) -> set[int]:
        """The keys of rows that stand under another key now, with the same values: old and new."""
        before, after = self.heads[self.branch], self.now
        gone, came = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
        found = set()
        for key in gone:
            for other in came:
                if other not in found and after[other][1:] == before[key][1:]:
                    found |= {key, other}
                    break
        return found

    @property
    def edited(self) -> dict[str, dict[str, int]]:
        before, after = self.heads[self.branch], self.now
        pairs = len(self.moved) // 2  # each of which is told as one update
        changed = [k for k in before.keys() & after.keys() if k and before[k] != after[k]]
        counts = {
            "inserts": len(after.keys() - before.keys()) - pairs,
            "updates": len(changed) + pairs,
            "deletes": len(before.keys() - after.keys()) - pairs,
        }
        rows = {name: count for name, count in counts.items() if count}
        meta = {} if before[TITLE] == after[TITLE] else {"updates": 1}
        return {part: found for part, found in (("meta", meta), ("feature", rows)) if found}

    def check(self) -> None:
        assert self.read() == self.now, "\n".join(map(str, self.done[-16:]))
        if self.waiting is not None:
            self.check_merge()
            return
        wanted = {"points": self.edited} if self.edited else {}
        for program in (self.ours, self.theirs):
            status = json.loads(program("status", "-o", "json"))["kart.status/v2"]
            said = (status["branch"], status["workingCopy"]["changes"])
            assert said == (self.branch, wanted), "\n".join(map(str, self.done[-12:]))

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
                            f"UPDATE points SET id = {number + 11} WHERE id = {number}",
                            f"UPDATE gpkg_contents SET identifier = '{TITLES[text]}'",
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
        apart = {k for k in before.keys() | self.now.keys() if before.get(k) != self.now.get(k)}
        if apart - self.moved:  # one that moved is committed with what it was
            key = self.random.choice(sorted(apart - self.moved))
            self.either()("commit", "-m", "One", label(key))
            # Kart's filters are of rows alone: it commits the title with any row of its dataset,
            # and so do we where we are called as it is.
            taken = {key, TITLE}
            after = {k: row for k, row in before.items() if k not in taken}
            self.note(after | {k: self.now[k] for k in taken if k in self.now})

    def restore(self) -> None:
        self.either()("restore")
        self.now = dict(self.heads[self.branch])

    def switch(self) -> None:
        program, target = self.either(), self.random.choice([*self.heads, "new"])
        if target == "new":
            self.made += 1
            target = f"b{self.made}"
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
        self.ids.append(self.commit_id())
        self.tips[self.branch] = len(self.history) - 1
        self.heads[self.branch] = dict(rows)

    def reached(self, start: int) -> set[int]:
        """Return a commit and all that it comes from."""
        found, waiting = {start}, [start]
        while waiting:
            for parent in self.history[waiting.pop()][0]:
                if parent not in found:
                    found.add(parent)
                    waiting.append(parent)
        return found

    def reset(self) -> None:
        tip = self.tips[self.branch]
        target = self.random.choice(sorted(self.reached(tip)))
        if self.edited and target != tip:
            for program in (self.ours, self.theirs):
                program("reset", self.ids[target], code=29)
            self.check()
        self.either()("reset", "--discard-changes", self.ids[target])
        self.now = dict(self.history[target][1])
        self.tips[self.branch], self.heads[self.branch] = target, dict(self.now)

    def restore_one(self) -> None:
        source = self.random.choice([self.tips[self.branch], *range(len(self.history))])
        rows = self.history[source][1]
        key = self.random.choice(sorted((rows.keys() | self.now.keys()) - self.moved))
        at = [] if source == self.tips[self.branch] else ["-s", self.ids[source]]
        # Ours brings a title back where nothing of the dataset is edited, and Kart with any row.
        program = self.theirs if key == TITLE and self.edited else self.either()
        program("restore", *at, label(key))
        self.now.pop(key, None)
        restored = {key} if program == self.ours else {key, TITLE}
        self.now |= {k: rows[k] for k in restored if k in rows}

    def restore_all(self) -> None:
        source = self.random.randrange(len(self.history))
        program = self.either()
        program("restore", "-s", self.ids[source])
        self.now = dict(self.history[source][1])

    def look_back(self) -> None:
        """Put HEAD at a commit without a branch, and back."""
        target = self.random.randrange(len(self.history))
        self.either()("checkout", "--discard-changes", self.ids[target])
        self.now = dict(self.history[target][1])
        assert self.read() == self.now
        for program in (self.ours, self.theirs):
            status = json.loads(program("status", "-o", "json"))["kart.status/v2"]
            said = (status["branch"], status["commit"], status["workingCopy"]["changes"])
            assert said == (None, self.ids[target], {})
        self.either()("checkout", self.branch)
        self.now = dict(self.heads[self.branch])

    def drop_branch(self) -> None:
        others = [name for name in self.heads if name not in (self.branch, "main")]
        if others:
            name = self.random.choice(others)
            self.either()("branch", "-D", name)
            del self.heads[name], self.tips[name]

    def write_anew(self) -> None:
        self.either()("create-workingcopy", "--delete-existing", "--discard-changes")
        self.now = dict(self.heads[self.branch])

    def set_title(self) -> None:
        text = TITLES[self.random.choice("abcd")]
        same = self.heads[self.branch][TITLE] == (text,)
        code = 29 if self.edited else 44 if same else 0
        self.either()("meta", "set", "points", f"title={text}", code=code)
        if code == 0:
            self.now[TITLE] = (text,)
            self.note(self.now)

    def apply(self) -> None:
        """Make a patch of some commit by one program and apply it by either."""
        number = self.random.randrange(1, len(self.history)) if len(self.history) > 1 else 0
        if not number:
            return
        parents, after = self.history[number]
        before = self.history[parents[0]][1]
        apart = [k for k in before.keys() | after.keys() if before.get(k) != after.get(k)]
        (self.repo.parent / "patch.json").write_text(
            self.either()("create-patch", self.ids[number])
        )
        head = self.heads[self.branch]
        fits = all(head.get(key) == before.get(key) for key in apart)
        code = 29 if self.edited else 44 if not apart else 0 if fits else 22
        self.either()("apply", str(self.repo.parent / "patch.json"), code=code)
        if code == 0:
            self.now = {k: row for k, row in head.items() if k not in apart}
            self.now |= {key: after[key] for key in apart if key in after}
            self.note(self.now)

    def apply_by_hand(self) -> None:
        """Apply a patch of a new half alone, of a row as some commit has it."""
        number, head = self.random.randrange(len(self.history)), self.heads[self.branch]
        keys = sorted(head.keys() - {TITLE})
        if not keys:
            return
        key, name = self.random.choice(keys), self.random.choice("abcd")
        was = self.history[number][1].get(key)
        patch = {
            "kart.patch/v1": {
                "authorName": "Ann",
                "authorEmail": "ann@example.com",
                "message": "By hand",
                "base": self.ids[number],
            },
            "kart.diff/v1+hexwkb": {"points": {"feature": [{"+": {"id": key, "name": name}}]}},
        }
        (self.repo.parent / "patch.json").write_text(json.dumps(patch))
        code = 22 if was != head[key] else 44 if was[2] == name else 0
        code = 29 if self.edited else code
        self.either()("apply", str(self.repo.parent / "patch.json"), code=code)
        if code == 0:
            _, geometry, _, height = head[key]
            self.now[key] = (key, geometry, name, height)
            self.note(self.now)

    def stash(self) -> None:
        """Set edits aside, or bring them back: Kart has no such thing, and must not notice."""
        head = self.heads[self.branch]
        if self.edited:
            self.ours("stash", "push")
            self.aside.append((dict(head), self.now))
            self.now = dict(head)
        elif self.aside:
            before, after = self.aside[-1]
            apart = [k for k in before.keys() | after.keys() if before.get(k) != after.get(k)]
            if all(head.get(key) == before.get(key) for key in apart):
                self.aside.pop()
                self.ours("stash", "pop")
                self.now = {k: row for k, row in head.items() if k not in apart}
                self.now |= {key: after[key] for key in apart if key in after}

    def look(self) -> None:
        """Hold what both print of edits and of commits against each other."""
        one, other = (self.random.choice(self.ids) for _ in range(2))
        for words in (
            ["diff"],
            ["diff", f"{one}...{other}"],
            ["diff", f"{one}..{other}"],
            ["log"],
            ["show", one],
            ["data", "ls"],
            ["branch"],
        ):
            said = [json.loads(run(*words, "-o", "json")) for run in (self.ours, self.theirs)]
            assert said[0] == said[1], words

    # Merges

    def bases(self, first: int, second: int) -> set[int]:
        """Return the commits that two have in common, without what those come from."""
        common = self.reached(first) & self.reached(second)
        return {c for c in common if not any(c in self.reached(o) - {o} for o in common)}

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
        assert sorted(said[0][3]["kart.conflicts/v1"]) == sorted(label(key) for key in left)

    def resolve(self) -> None:
        if self.waiting is None or not self.waiting.left:
            return
        key = self.random.choice(sorted(self.waiting.left))
        sides = self.waiting.conflicts[key]
        more = [] if key == TITLE else ["delete", "workingcopy"]
        side = self.random.choice([name for name in sides if sides[name] is not None] + more)
        if key != TITLE and TITLE in self.waiting.left:
            for program in (self.ours, self.theirs):
                program("resolve", label(key), f"--with={side}", code=20)
            return
        if side == "workingcopy" and key not in self.now:
            for program in (self.ours, self.theirs):
                program("resolve", label(key), f"--with={side}", code=40)
            return
        self.either()("resolve", label(key), f"--with={side}")
        self.waiting.left.discard(key)
        if side == "workingcopy":
            return
        self.now.pop(key, None)
        if (row := sides.get(side)) is not None:
            self.now[key] = row

    def conclude(self) -> None:
        if self.waiting is None:
            return
        if self.waiting.left:
            self.ours("merge", "--continue", code=20)
            self.theirs("merge", "--continue", code=20)
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
        always = [self.edit] * 8 + [self.commit, self.commit_one, self.switch] * 2
        always += [self.restore, self.restore_one, self.restore_all, self.reset, self.look_back]
        always += [self.drop_branch, self.write_anew, self.set_title, self.apply, self.look]
        always += [self.apply_by_hand] * 2
        always += [self.stash] * 2
        waits = [self.resolve] * 4 + [self.conclude, self.conclude, self.abort, self.refused]
        self.random.choice(always + [self.merge] * 5 if self.waiting is None else waits)()


def label(key: int) -> str:
    """Return what both programs call a row, or the title."""
    return f"points:feature:{key}" if key != TITLE else "points:meta:title"


@dataclass
class Waiting:
    """A merge that waits."""

    theirs: int
    """The commit that is merged."""
    conflicts: dict[int, dict[str, tuple[object, ...] | None]]
    """The rows in conflict, by key and side."""
    left: set[int]
    """Those of which nothing was decided."""


@pytest.mark.parametrize("seed", range(2))
def test_both_work_on_one_working_copy_in_turn(seed: int, tmp_path: Path) -> None:
    pair = Pair(tmp_path, seed)
    for _ in range(60):
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


def test_both_commit_an_edited_title_with_any_row(tmp_path: Path) -> None:
    """Hold that no edit is lost where one row is committed and a title was edited as well."""
    for number, name in enumerate(("ours", "theirs")):
        folder = tmp_path / name
        folder.mkdir()
        pair = Pair(folder, number)
        with editor(pair.repo / "repo.gpkg") as database:
            database.execute("UPDATE points SET name = 'mine' WHERE id = 1")
            database.execute("UPDATE gpkg_contents SET identifier = 'mine'")
        pair.now = pair.read()

        getattr(pair, name)("commit", "-m", "One", "points:feature:1")

        pair.note(pair.now)
        pair.check()
        assert git(pair.repo, "show", "HEAD:points/.table-dataset/meta/title") == "mine"


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


def test_kart_tells_how_much_a_spatial_filter_leaves_as_we_do(tmp_path: Path) -> None:
    repo, source = tmp_path / "repo", tmp_path / "table.csv"
    source.write_text(FIRST)
    succeed(invoke(["init", "--kart", repo]))
    succeed(invoke(["-C", repo, "import", source, "--primary-key", "id", "--crs", "EPSG:4326"]))
    kart(repo, "create-workingcopy", "repo.gpkg")
    for words, told in LIMITED:
        said = kart(repo, *words)
        assert told is None or said == told, words
