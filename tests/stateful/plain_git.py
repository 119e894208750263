"""Branches of a table, put together by git alone and held against a model of dicts.

A scenario grows two branches by commands of ours and by what plain git does to a tree:
edits, equal edits, changes of all rows, folds, columns, reverts, cherry-picks, merges. Then
git merges them as a host does, in a bare repository with nothing of ours in sight, and so
do libgit2 and JGit. What goes through must be the table that the model says, or be refused by
whoever reads it; it must never be another table. What stops is resolved by hand in three
careless ways, and the same holds.

    python -m tests.stateful.plain_git FIRST COUNT [--seconds S]     COUNT seeds from FIRST
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pygit2
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu import edit, ledger
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import CorruptDatasetError, HavasuError, UnfinishedMergeError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.model.task import run_task
from tests.stateful.jgit import running
from tests.support.git import run_git

Rows = dict[Any, Any]
"""By key the cells by field id; without a key, how often each row is there."""

KEYS = 16
PATH = "t"
CONFIGS: Sequence[Sequence[str]] = (
    (),
    ("-c", "merge.directoryRenames=true"),
    ("-c", "merge.directoryRenames=false"),
    ("-c", "merge.renames=false"),
    ("-c", "merge.conflictStyle=diff3", "-c", "diff.algorithm=histogram"),
)
"""What people have in their configuration."""


@dataclass(frozen=True)
class Table:
    """What a tree says a table is."""

    columns: Mapping[int, tuple[str, str]]
    """Name and type by field id."""
    rows: Rows
    """The rows."""
    keyed: bool
    """Whether it has a key."""


@dataclass
class Tally:
    """What came of all scenarios."""

    counts: Counter[str] = field(default_factory=Counter)
    """How often each thing happened."""
    wrong: list[str] = field(default_factory=list)
    """What must not happen, with its seed."""

    @property
    def merges(self) -> int:
        """How many times git put two sides together, or stopped."""
        return sum(n for what, n in self.counts.items() if what.startswith("git "))


class Absent(Exception):
    """A tree has no such table."""


# The model


def threefold(base: Table, ours: Table, theirs: Table, revived: set[int]) -> tuple[Table, bool]:
    """Return what two sides make of a table, and whether they changed one thing both."""
    columns: dict[int, tuple[str, str]] = {}
    clash = False
    for number in sorted(base.columns.keys() | ours.columns.keys() | theirs.columns.keys()):
        taken, meets = _pick(*(each.columns.get(number) for each in (base, ours, theirs)))
        clash |= meets and None not in (ours.columns.get(number), theirs.columns.get(number))
        if meets and None in (ours.columns.get(number), theirs.columns.get(number)):
            clash = True  # changed on one side, dropped on the other
        if taken is not None:
            columns[number] = taken
    gone = {n for n in base.columns if n not in ours.columns or n not in theirs.columns}
    hidden = gone | revived
    if not base.keyed:
        rows: Rows = {}
        sides = [_counts(each, hidden, columns) for each in (base, ours, theirs)]
        for row in sides[0].keys() | sides[1].keys() | sides[2].keys():
            taken, meets = _pick(*(side.get(row, 0) for side in sides))
            clash |= meets
            if taken:
                rows[row] = taken
        return Table(columns, rows, False), clash
    rows = {}
    for key in base.rows.keys() | ours.rows.keys() | theirs.rows.keys():
        cells = [_cells(each.rows.get(key), hidden) for each in (base, ours, theirs)]
        taken, meets = _pick(*cells)
        clash |= meets
        if taken is not None:
            rows[key] = taken
    return Table(columns, rows, True), clash


def _pick(base: Any, ours: Any, theirs: Any) -> tuple[Any, bool]:
    if ours == theirs or theirs == base:
        return ours, False
    if ours == base:
        return theirs, False
    return ours, True


def _cells(row: Mapping[int, Any] | None, hidden: set[int]) -> dict[int, Any] | None:
    if row is None:
        return None
    return {n: value for n, value in row.items() if n not in hidden and value is not None}


def _counts(table: Table, hidden: set[int], columns: Mapping[int, Any]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row, count in table.rows.items():
        found[tuple((n, v) for n, v in row if n not in hidden and n in columns)] += count
    return found


def visible(table: Table, hidden: set[int]) -> tuple[Any, Any]:
    """Return what counts of a table."""
    if not table.keyed:
        return dict(table.columns), dict(_counts(table, hidden, table.columns))
    away = hidden | {n for row in table.rows.values() for n in row} - table.columns.keys()
    return dict(table.columns), {key: _cells(row, away) for key, row in table.rows.items()}


# A bare repository


class Host:
    """A bare repository with a table, on whose trees git works."""

    def __init__(self, folder: Path, jars: list[Path] | None = None) -> None:
        self.folder = folder
        self.stack = ExitStack()
        self.path = folder / "host.git"
        self.repo = Repo.init(self.path, bare=True, settings=Settings(engine="local"))
        self.git = pygit2.Repository(str(self.path))
        self.jgit = None if jars is None else self.stack.enter_context(running(jars, self.path))
        """What else merges."""
        self._tables: dict[str, Table | str] = {}

    def close(self) -> None:
        """Be gone."""
        self.stack.close()
        shutil.rmtree(self.path)

    def tree(self, commit: str) -> str:
        """Return the tree of a commit."""
        return str(self.git[commit].peel(pygit2.Tree).id)

    def commit(self, tree: str, parents: Sequence[str], words: str) -> str:
        """Make a commit as git does."""
        who = pygit2.Signature("Somebody", "somebody@example.com", 1_700_000_000, 0)
        return str(self.git.create_commit(None, who, who, words, tree, list(parents)))

    def at(self, commit: str) -> Repo:
        """Open the repository with a branch on a commit."""
        self.git.references.create("refs/heads/work", commit, force=True)
        (self.path / "HEAD").write_text("ref: refs/heads/work\n", encoding="utf-8")
        self.repo = Repo.open(self.path, settings=Settings(engine="local"))
        return self.repo

    def tip(self) -> str:
        """Return where that branch is now."""
        return str(self.git.references["refs/heads/work"].target)

    def view(self, tree: str) -> HavasuDataset:
        """Return the table in a tree."""
        try:
            found = self.git[tree][f"{PATH}/.havasu-dataset"]  # type: ignore[index]
        except KeyError:
            raise Absent from None
        if not isinstance(found, pygit2.Tree):
            raise Absent
        return HavasuDataset(
            PATH, TreeFolder(self.repo.git.objects, str(found.id)), self.repo.storage
        )

    def read(self, tree: str, *, check: bool = True) -> Table:
        """Return what a tree says; raise what its reader would be told."""
        view = self.view(tree)
        if check:
            view.check_guard()
        place = f"{view.folder.tree}"  # type: ignore[attr-defined]
        known = self._tables.get(place)
        if isinstance(known, Table):
            return known
        schema = view.schema
        columns = {f.id: (f.name, str(f.type)) for f in schema.fields}
        names = {f.name: f.id for f in schema.fields}
        key = [f.name for f in schema.key.fields]
        rows: Rows = {}
        for task in view.scan():
            for batch in run_task(task):
                for row in batch.to_pylist():
                    cells = {names[n]: value for n, value in row.items() if value is not None}
                    if key:
                        if row[key[0]] in rows:
                            raise AssertionError(f"key {row[key[0]]} stands twice")
                        rows[row[key[0]]] = cells
                    else:
                        alone = tuple(sorted(cells.items()))
                        rows[alone] = rows.get(alone, 0) + 1
        found = Table(columns, rows, bool(key))
        if sum(rows.values()) != view.rows if not key else len(rows) != view.rows:
            raise AssertionError("it says another number of rows than it has")
        self._tables[place] = found
        return found

    def files(self, tree: str) -> dict[str, str]:
        """Return the blobs of a tree by path."""
        found: dict[str, str] = {}

        def walk(each: pygit2.Tree, prefix: str) -> None:
            for entry in each:
                if isinstance(entry, pygit2.Tree):
                    walk(entry, f"{prefix}{entry.name}/")
                else:
                    found[prefix + str(entry.name)] = str(entry.id)

        walk(self.git[tree].peel(pygit2.Tree), "")
        return found

    def made(self, files: Mapping[str, str]) -> str:
        """Return the tree of some blobs by path."""
        index = pygit2.Index()
        for path, blob in files.items():
            index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=blob), pygit2.enums.FileMode.BLOB))
        return str(index.write_tree(self.git))

    # Ways to put two sides together

    def merged_by_git(
        self, ours: str, theirs: str, config: Sequence[str] = ()
    ) -> tuple[str | None, str]:
        """Merge two commits as hosts do; return the tree, None where it stops, and what it says."""
        said = run_git(
            *config, "merge-tree", "--write-tree", ours, theirs, cwd=self.path, check=False
        )
        first, *rest = said.split("\n")
        if rest and any(rest):
            stages = any("\t" in line for line in rest)
            return (None if stages or "CONFLICT" in said else first), said
        if len(first) != 40:
            raise AssertionError(f"git died of {ours} and {theirs}")
        return first, said

    def merged_by_libgit2(self, base: str, ours: str, theirs: str) -> str | None:
        """Merge trees as some hosts do."""
        index = self.git.merge_trees(
            self.git[base].peel(pygit2.Tree),
            self.git[ours].peel(pygit2.Tree),
            self.git[theirs].peel(pygit2.Tree),
        )
        return None if index.conflicts is not None else str(index.write_tree(self.git))

    def upon(self, base: str, ours: str, theirs: str) -> tuple[str, str]:
        """Return two commits whose trees git merges with a tree as their base, as in a pick."""
        root = self.commit(base, [], "base")
        return self.commit(ours, [root], "ours"), self.commit(theirs, [root], "theirs")


class Scenario:
    """Two branches, and what becomes of them."""

    def __init__(self, host: Host, seed: int, tally: Tally) -> None:
        self.host, self.seed, self.tally = host, seed, tally
        self.random = random.Random(seed)
        self.keyed = self.random.random() < 0.85
        self.parents: dict[str, tuple[str, ...]] = {}
        self.version = 0
        self.shared: list[dict[int, list[Any] | None]] = []

    # Helpers

    def note(self, what: str) -> None:
        self.tally.counts[what] += 1

    def fail(self, what: str) -> None:
        self.tally.wrong.append(f"seed {self.seed}: {what}")

    def table(self, commit: str) -> Table:
        return self.host.read(self.host.tree(commit))

    def ancestors(self, commit: str) -> set[str]:
        found, todo = set(), [commit]
        while todo:
            each = todo.pop()
            if each not in found:
                found.add(each)
                todo += self.parents[each]
        return found

    def bases(self, ours: str, theirs: str) -> list[str]:
        both = self.ancestors(ours) & self.ancestors(theirs)
        return [b for b in both if not any(b != o and b in self.ancestors(o) for o in both)]

    def cells(self) -> list[Any]:
        self.version += 1
        return [
            self.random.choice(["a", "b", None, f"v{self.version}"]),
            self.random.choice([1, 2, None]),
        ]

    def changes(self) -> dict[int, list[Any] | None]:
        keys = [self.random.randrange(KEYS) for _ in range(self.random.choice([1, 1, 2, 3]))]
        return {key: None if self.random.random() < 0.3 else self.cells() for key in keys}

    # Growing a branch

    def begin(self) -> str:
        rows = [
            (key, *self.cells())
            for key in self.random.sample(range(KEYS), self.random.randint(3, 12))
        ]
        source = self.host.folder / f"{self.seed}.parquet"
        pq.write_table(_arrow(sorted(rows)), source)
        empty = self.host.commit(self.host.made({}), [], "empty")
        repo = self.host.at(empty)
        options = SourceOptions(primary_key=("id",) if self.keyed else ())
        repo.import_(source, PATH, options=options, order="key" if self.keyed else "none")
        source.unlink()
        tip = self.host.tip()
        self.parents[tip] = ()
        return tip

    def step(self, tip: str, other: str, history: list[str], others: list[str]) -> str:
        """Do one thing to a branch; return where it is then."""
        ways = {
            "edit": 44, "same": 10, "bulk": 6, "fold": 8, "column": 8, "revert": 8, "pick": 6,
            "undo": 3, "merge": 5, "title": 2,
        }  # fmt: skip
        if not self.keyed:
            ways = {
                "edit": 50,
                "same": 10,
                "fold": 8,
                "revert": 10,
                "pick": 8,
                "title": 2,
                "column": 6,
            }
        what = self.random.choices(list(ways), list(ways.values()))[0]
        try:
            done = getattr(self, f"_{what}")(tip, other, history, others)
        except (Absent, UnfinishedMergeError):
            raise
        except HavasuError as error:
            self.note(f"refused: {what} ({type(error).__name__})")
            self._give_up(tip)
            return tip
        new, parents = done if isinstance(done, tuple) else (done, (tip,))
        if new is None or new == tip:
            return tip
        self.note(f"done: {what}")
        self.parents.setdefault(new, tuple(parents))
        return str(new)

    def _give_up(self, tip: str) -> None:
        repo = self.host.at(tip)
        with suppress(HavasuError):
            repo.abort_merge()

    def _apply(self, tip: str, changes: Mapping[int, list[Any] | None]) -> str:
        repo, now = self.host.at(tip), self.table(tip)
        if not self.keyed:
            return self._replace(tip, changes)
        gone = [key for key, row in changes.items() if row is None and key in now.rows]
        names = {number: name for number, (name, _) in now.columns.items()}
        come = []
        for key, row in changes.items():
            if row is not None:
                cells = {"id": key}
                for index, value in enumerate(row):
                    if index + 2 in names:
                        cells[names[index + 2]] = value
                come.append(cells)
        first = tip
        if gone:
            repo.write(PATH, pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")
        if come:
            wanted = self.host.view(self.host.tree(self.host.tip())).schema
            types = {
                f.name: pa.int64() if str(f.type) == "long" else pa.string() for f in wanted.fields
            }
            shape = pa.schema([(n, types[n]) for n in come[0]])
            self.host.at(self.host.tip()).write(PATH, pa.Table.from_pylist(come, schema=shape))
        if gone and come:  # one commit of both
            whole = self.host.commit(self.host.tree(self.host.tip()), [first], "both")
            self.parents[whole] = (first,)
            return whole
        return self.host.tip()

    def _replace(self, tip: str, changes: Mapping[int, list[Any] | None]) -> str:
        """A release of a table without a key: some rows gone, some come."""
        now = self.table(tip)
        names = [name for name, _ in now.columns.values()]
        numbers = list(now.columns)
        rows = [dict(row) for row, count in sorted(now.rows.items(), key=str) for _ in range(count)]
        for key, row in changes.items():
            if row is None:
                rows = [r for r in rows if r.get(1) != key]
            else:
                rows.append({1: key, 2: row[0], 3: row[1]})
        source = self.host.folder / f"{self.seed}.parquet"
        types = [pa.int64() if kind == "long" else pa.string() for _, kind in now.columns.values()]
        data = [[row.get(number) for row in rows] for number in numbers]
        pq.write_table(
            pa.table(data, schema=pa.schema(list(zip(names, types, strict=True)))), source
        )
        repo = self.host.at(tip)
        repo.import_(source, PATH, options=SourceOptions(), order="none", replace=True)
        return self.host.tip()

    def _edit(self, tip: str, other: str, history: list[str], others: list[str]) -> str:
        return self._apply(tip, self.changes())

    def _same(self, tip: str, other: str, history: list[str], others: list[str]) -> str:
        return self._apply(tip, self.random.choice(self.shared))

    def _bulk(self, tip: str, other: str, history: list[str], others: list[str]) -> str:
        """A change of so many rows that it closes the epoch."""
        share = self.random.choice([1, 0.4])
        now = self.table(tip)
        changes = {key: self.cells() for key in now.rows if self.random.random() < share}
        with pytest.MonkeyPatch.context() as patch:
            for module in (ledger, edit):
                patch.setattr(module, "MOST_KEYS", 0)
            return self._apply(tip, changes) if changes else tip

    def _fold(self, tip: str, other: str, history: list[str], others: list[str]) -> str:
        repo = self.host.at(tip)
        try:
            repo.optimize()
        except CorruptDatasetError:
            # Digests of a column that git brought back by reverting its drop.
            self.note("sums made anew")
            repo.repair([PATH])
            self.host.at(self.host.tip()).optimize()
        return self.host.tip()

    def _title(self, tip: str, other: str, history: list[str], others: list[str]) -> str:
        self.version += 1
        self.host.at(tip).set_meta(PATH, {"title": f"Title {self.version}"})
        return self.host.tip()

    def _column(self, tip: str, other: str, history: list[str], others: list[str]) -> str:
        repo = self.host.at(tip)
        columns = repo.get_meta(PATH, ["schema.json"])["schema.json"]
        loose = [each for each in columns if each["name"] != "id"]
        what = self.random.choice(["add", "rename", "drop", "swap"])
        self.version += 1
        if what == "add" or not loose:
            columns.append({"name": f"c{self.random.randrange(10**6)}", "dataType": "text"})
        elif what == "rename":
            self.random.choice(loose)["name"] = f"n{self.random.randrange(10**6)}"
        elif what == "swap" and len(loose) > 1:
            loose[0]["name"], loose[1]["name"] = loose[1]["name"], loose[0]["name"]
        elif len(columns) > 2:
            columns.remove(self.random.choice(loose))
        repo.set_meta(PATH, {"schema.json": columns})
        return self.host.tip()

    def _undo(self, tip: str, other: str, history: list[str], others: list[str]) -> str | None:
        """Our own revert, by rows."""
        if len(history) < 2:
            return None
        self.host.at(tip).revert(self.random.choice(history[1:]), policy=self._policy())
        return self.host.tip()

    def _policy(self) -> MergePolicy:
        return MergePolicy(side=self.random.choice([Side.OURS, Side.THEIRS]))

    def _merge(
        self, tip: str, other: str, history: list[str], others: list[str]
    ) -> tuple[str, tuple[str, ...]] | None:
        """Our own merge, by rows and cells, with answers at random."""
        if other in self.ancestors(tip):
            return None
        result = self.host.at(tip).merge(other, policy=self._policy(), fast_forward="never")
        if result.commit is None:
            self._give_up(tip)
            return None
        return self.host.tip(), (tip, other)

    def _three(self, what: str, tip: str, base: str, theirs: str, words: str) -> str | None:
        """What git makes of a pick or a revert; judged as any merge is."""
        trees = [self.host.tree(each) for each in (base, tip, theirs)]
        ours_commit, theirs_commit = self.host.upon(*trees)
        tree = self.judge(what, [trees[0]], trees[1], trees[2], ours_commit, theirs_commit)
        if tree is None or tree == trees[1]:
            return None
        return self.host.commit(tree, [tip], words)

    def _revert(self, tip: str, other: str, history: list[str], others: list[str]) -> str | None:
        """git's revert: of any commit of the branch, a merge too."""
        undone = [each for each in history[1:] if self.parents.get(each)]
        if not undone:
            return None
        chosen = self.random.choice(undone)
        return self._three("revert", tip, chosen, self.parents[chosen][0], f"revert {chosen}")

    def _pick(self, tip: str, other: str, history: list[str], others: list[str]) -> str | None:
        """git's cherry-pick from the other branch, which a rebase is made of too."""
        more = [each for each in others[1:] if self.parents.get(each)]
        if not more:
            return None
        chosen = self.random.choice(more)
        return self._three("pick", tip, self.parents[chosen][0], chosen, f"pick {chosen}")

    # Judging

    def judge(
        self, what: str, bases: Sequence[str], ours: str, theirs: str, left: str, right: str
    ) -> str | None:
        """Let git and libgit2 merge; hold the result against the model; return the tree."""
        config = self.random.choice(CONFIGS)
        tree, _ = self.host.merged_by_git(left, right, config)
        found = self._verdict(f"git {what}", bases, ours, theirs, tree)
        if len(bases) == 1:
            other = self.host.merged_by_libgit2(bases[0], ours, theirs)
            if other != tree:
                self._verdict(f"libgit2 {what}", bases, ours, theirs, other)
            else:
                self.note("libgit2 made the same")
            if self.host.jgit is not None:
                made = self.host.jgit.merge(bases[0], ours, theirs)
                if made != tree:
                    self._verdict(f"JGit {what}", bases, ours, theirs, made)
                else:
                    self.note("JGit made the same")
        if tree is None and self.random.random() < 0.4:
            self._by_hand(what, bases[0], ours, theirs)
        return tree if found else None

    def _verdict(
        self, what: str, bases: Sequence[str], ours: str, theirs: str, tree: str | None
    ) -> bool:
        """Say whether a tree may go on; note what it is."""
        read = self.host.read
        mine, other = read(ours), read(theirs)
        wanted, clash = None, False
        hidden: set[int] = set()
        for base in bases:
            before = read(base)
            hidden = self._revived(before, mine, other)
            wanted, meets = threefold(before, mine, other, hidden)
            clash |= meets
        if tree is None:
            self.note(f"{what}: stopped, {'rightly' if clash else 'needlessly'}")
            return False
        try:
            found = read(tree)
        except Absent:
            self.fail(f"{what}: no table is left")
            return False
        except (UnfinishedMergeError, CorruptDatasetError) as error:
            self.note(f"{what}: refused by its reader")
            self.tally.counts[f"  {error.message[:90]}"] += 1
            return False
        except AssertionError as error:
            self.fail(f"{what}: {error}")
            return False
        assert wanted is not None
        if len(bases) > 1:
            return self._verdict_across(what, found, mine, other)
        gone = {
            n for n in read(bases[0]).columns if n not in mine.columns or n not in other.columns
        }
        if not clash and visible(found, hidden | gone) == visible(wanted, hidden | gone):
            self.note(f"{what}: right")
            return True
        if self._as_both_have(bases[0], ours, theirs, found):
            self.note(f"{what}: right, counting from what both have")
            return True
        self.fail(
            f"{what}: {'both changed a row' if clash else 'another table'}: {found} for {wanted}"
        )
        return False

    def _verdict_across(self, what: str, found: Table, mine: Table, other: Table) -> bool:
        """Each row is one that a side has: what more there is to say of several bases is moot."""
        if found.keyed:
            shown = found.columns.keys() & mine.columns.keys() & other.columns.keys()
            for key in found.rows.keys() | mine.rows.keys() | other.rows.keys():
                row, *sides = (
                    None if r is None else {n: v for n, v in r.items() if n in shown}
                    for r in (t.rows.get(key) for t in (found, mine, other))
                )
                if row not in sides:
                    self.fail(f"{what} (several bases): row {key} is {row}, of neither {sides}")
                    return False
        self.note(f"{what}: right, of several bases")
        return True

    def _revived(self, before: Table, mine: Table, other: Table) -> set[int]:
        """Columns that come back, of which rows that changed meanwhile know nothing."""
        return {
            n
            for n in (mine.columns.keys() | other.columns.keys()) - before.columns.keys()
            if n in self.seen
        }

    def _as_both_have(self, base: str, ours: str, theirs: str, found: Table) -> bool:
        """Whether it is right once what both sides did alike counts as done before."""
        before, mine, other = (self.host.files(each) for each in (base, ours, theirs))
        alike = dict(before)
        for path in before.keys() | mine.keys() | other.keys():
            if mine.get(path) == other.get(path):
                alike.pop(path, None)
                if path in mine:
                    alike[path] = mine[path]
        try:
            start = self.host.read(self.host.made(alike), check=False)
        except (HavasuError, Absent, AssertionError, OSError, ValueError, KeyError):
            return False
        left, right = self.host.read(ours), self.host.read(theirs)
        hidden = self._revived(start, left, right)
        gone = {n for n in start.columns if n not in left.columns or n not in right.columns}
        wanted, clash = threefold(start, left, right, hidden)
        return not clash and visible(found, hidden | gone) == visible(wanted, hidden | gone)

    def _by_hand(self, what: str, base: str, ours: str, theirs: str) -> None:
        """Resolve what git stopped in, carelessly."""
        before, mine, other = (self.host.files(each) for each in (base, ours, theirs))
        left, right = self.host.read(ours), self.host.read(theirs)
        for way in ("ours", "theirs", "mixed"):
            files = resolved(before, mine, other, way, self.random)
            try:
                found = self.host.read(self.host.made(files))
            except Absent:
                self.note("by hand: no table")
                continue
            except HavasuError:
                self.note("by hand: refused")
                continue
            except AssertionError as error:
                self.fail(f"{what}, resolved by hand ({way}): {error}")
                continue
            if found.keyed:
                shown = found.columns.keys() & left.columns.keys() & right.columns.keys()
                for key in found.rows.keys() | left.rows.keys() | right.rows.keys():
                    row, *sides = (
                        None if r is None else {n: v for n, v in r.items() if n in shown}
                        for r in (t.rows.get(key) for t in (found, left, right))
                    )
                    if row not in sides:
                        self.fail(f"{what}, resolved by hand ({way}): row {key} is {row}: {sides}")
            self.note("by hand: rows of both sides")

    # All of it

    def run(self) -> None:
        """Grow two branches, and merge them both ways."""
        base = self.begin()
        self.shared = [self.changes() for _ in range(3)]
        self.seen = set(self.table(base).columns)
        for _ in range(self.random.randint(0, 3)):
            base = self._stepped(base, base, [base], [base])
        ours = theirs = base
        left, right = [base], [base]
        for _ in range(self.random.randint(1, 4)):
            ours = self._stepped(ours, theirs, left, right)
            theirs = self._stepped(theirs, ours, right, left)
        self._finish(ours, theirs)
        for _ in range(10):  # as they were on the way
            self._merged(self.random.choice(left), self.random.choice(right))
        if self.random.random() < 0.3:
            self._squash(ours, theirs, left, right)

    def _stepped(self, tip: str, other: str, history: list[str], others: list[str]) -> str:
        new = self.step(tip, other, history, others)
        if new != tip:
            if history[-1] != new:
                history.append(new)
            with suppress(Absent):
                self.seen |= self.table(new).columns.keys()
        return new

    def _trees(self, commits: Sequence[str]) -> list[str]:
        return [self.host.tree(each) for each in commits]

    def _merged(self, left: str, right: str) -> str | None:
        """Merge two commits that lie apart; return the tree."""
        bases = self.bases(left, right)
        if left in bases or right in bases:
            return None
        trees = [self.host.tree(each) for each in (left, right)]
        return self.judge("merge", self._trees(bases), trees[0], trees[1], left, right)

    def _finish(self, ours: str, theirs: str) -> None:
        for left, right in ((ours, theirs), (theirs, ours)):
            found = self._merged(left, right)
            if found is not None:
                merged = self.host.commit(found, [left, right], "merge")
                self.parents[merged] = (left, right)
                # A merge is taken back, and that too.
                back = self._three("revert of a merge", merged, merged, left, "revert")
                if back is not None:
                    self.parents[back] = (merged,)
                    self._three("revert of a revert", back, back, merged, "again")

    def _squash(self, ours: str, theirs: str, left: list[str], right: list[str]) -> None:
        """A squashed merge, after which both go on and are merged again."""
        bases = self.bases(ours, theirs)
        if ours in bases or theirs in bases:
            return
        trees = [self.host.tree(each) for each in (ours, theirs)]
        tree = self.judge("squash", self._trees(bases), trees[0], trees[1], ours, theirs)
        if tree is None:
            return
        squashed = self.host.commit(tree, [ours], "squash")
        self.parents[squashed] = (ours,)
        later = self._stepped(theirs, squashed, right, left)
        squashed = self._stepped(squashed, later, [*left, squashed], right)
        bases = self.bases(squashed, later)
        if squashed in bases or later in bases:
            return
        trees = [self.host.tree(each) for each in (squashed, later)]
        self.judge("after squash", self._trees(bases), trees[0], trees[1], squashed, later)


def resolved(
    base: Mapping[str, str],
    ours: Mapping[str, str],
    theirs: Mapping[str, str],
    way: str,
    source: random.Random,
) -> dict[str, str]:
    """Return the files of a merge whose conflicts somebody settled one by one."""
    found: dict[str, str] = {}
    for path in sorted(base.keys() | ours.keys() | theirs.keys()):
        before, mine, other = base.get(path), ours.get(path), theirs.get(path)
        taken, meets = _pick(before, mine, other)
        if meets:
            taken = {"ours": mine, "theirs": other}.get(way, source.choice([mine, other]))
        if taken is not None:
            found[path] = taken
    for path in sorted(found):
        below = [each for each in found if each.startswith(path + "/")]
        if below and path in found:
            file = source.random() < 0.5 if way == "mixed" else (way == "ours") == (path in ours)
            for each in below if file else [path]:
                del found[each]
    return found


def _arrow(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    shape = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.int64())])
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=shape)


def run(
    seeds: Iterator[int],
    *,
    merges: int = 0,
    seconds: float | None = None,
    jars: list[Path] | None = None,
) -> Tally:
    """Run scenarios, each with small limits if its seed is odd, up to so many merges."""
    tally, until = Tally(), None if seconds is None else time.monotonic() + seconds
    scratch = Path(tempfile.mkdtemp(prefix="plain-git-"))
    try:
        host = Host(scratch, jars)
        for count, seed in enumerate(seeds):
            if (until is not None and time.monotonic() > until) or 0 < merges <= tally.merges:
                break
            if count % 40 == 39:  # what is in no branch costs time
                host.close()
                host = Host(scratch, jars)
            with pytest.MonkeyPatch.context() as patch:
                if seed % 2:
                    patch.setattr(ledger, "MOST_MARKERS", 24)
                    for module in (ledger, edit):
                        patch.setattr(module, "MOST_KEYS", 3)
                try:
                    Scenario(host, seed, tally).run()
                except Exception as error:
                    tally.wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
                    if "-v" in sys.argv:
                        raise
            tally.counts["scenarios"] += 1
        host.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return tally


def main() -> None:
    """Run scenarios and say what came of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("-v", action="store_true")
    said = parser.parse_args()
    tally = run(iter(range(said.first, said.first + said.count)), seconds=said.seconds)
    for what, count in sorted(tally.counts.items()):
        print(f"{count:7} {what}")
    print(f"{tally.merges:7} merges in all, {len(tally.wrong)} wrong")
    for each in tally.wrong[:20]:
        print(each)
    sys.exit(bool(tally.wrong))


if __name__ == "__main__":
    main()
