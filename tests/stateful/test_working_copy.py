"""A living working copy against a model: rows by key, at each commit and in the file.

Random statements of SQL stand for an editor, `INSERT OR REPLACE`, keys that change and rows that
go and come again among them; between them come commands. Whatever happens, `status` counts
what the model says, the file has the model's rows, and its index is sound.
"""

import json
import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import invoke, succeed
from tests.support.examples import some

Rows = dict[object, tuple[object, ...]]
START = "id,code,name,size\n" + "".join(f"{n},c{n},n{n},{n}.5\n" for n in range(1, 9))
KEYS = {"integer": "id", "text": "code", "composite": "code,id"}
WAYS = [(kind, key, seed) for kind in ("havasu", "kart") for key in KEYS for seed in range(3)]


class Machine:
    """A repository, its working copy, and what both should hold."""

    def __init__(self, folder: Path, kind: str, key: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.repo, self.file = folder / "repo", folder / "repo" / "repo.gpkg"
        self.key = KEYS[key].split(",")
        self.kart = kind == "kart"
        source = folder / "things.csv"
        source.write_text(START)
        succeed(invoke(["init", self.repo, *(["--kart"] if kind == "kart" else [])]))
        options = [word for name in self.key for word in ("--primary-key", name)]
        if len(self.key) > 1:
            options = ["--primary-key", ",".join(self.key)]
        self.run("import", source, *options)
        self.run("create-workingcopy")
        self.now = self.read()
        self.commits: dict[str, Rows] = {"main": dict(self.now)}
        self.branch = "main"
        self.stashes: list[tuple[Rows, Rows]] = []

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        result = invoke(["-C", self.repo, *arguments])
        assert result.exit_code == code, (arguments, result.output)
        return result.output

    def read(self) -> Rows:
        with closing(sqlite3.connect(self.file)) as database:
            found = database.execute("SELECT id, code, name, size FROM things").fetchall()
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {self.key_of(row): row for row in found}

    def key_of(self, row: tuple[object, ...]) -> object:
        values = dict(zip(("id", "code", "name", "size"), row, strict=True))
        return tuple(values[name] for name in self.key)

    def rest_of(self, row: tuple[object, ...]) -> tuple[object, ...]:
        values = zip(("id", "code", "name", "size"), row, strict=True)
        return tuple(value for name, value in values if name not in self.key)

    @property
    def head(self) -> Rows:
        return self.commits[self.branch]

    def expected(self) -> dict[str, int]:
        before, after = self.head, self.now
        came = Counter(self.rest_of(after[key]) for key in after.keys() - before.keys())
        gone = Counter(self.rest_of(before[key]) for key in before.keys() - after.keys())
        # In a repository of Kart's a row with another key is one change, as Kart tells it.
        moved = (came & gone).total() if self.kart else 0
        counts = {
            "inserts": came.total() - moved,
            "updates": sum(before[k] != after[k] for k in before.keys() & after.keys()) + moved,
            "deletes": gone.total() - moved,
        }
        return {name: count for name, count in counts.items() if count}

    def check(self) -> None:
        assert self.read() == self.now
        status = json.loads(self.run("status", "-o", "json"))
        changes = status["kart.status/v2"]["workingCopy"]["changes"]
        assert changes == ({"things": {"feature": self.expected()}} if self.expected() else {})

    # Steps

    def edit(self) -> None:
        number, text = self.random.randrange(1, 12), self.random.choice("abcd")
        statement = self.random.choice(
            [
                "UPDATE things SET name = '{text}' WHERE id = {number}",
                "UPDATE OR REPLACE things SET id = {number} WHERE id = {other}",
                "UPDATE OR REPLACE things SET code = 'c{number}' WHERE id = {other}",
                "DELETE FROM things WHERE id = {number}",
                "INSERT OR REPLACE INTO things (id, code, name) VALUES ({number}, 'c{other}', 'x')",
                "INSERT OR IGNORE INTO things (id, code, name) VALUES ({number}, 'c{number}', 'y')",
                "UPDATE things SET size = size WHERE id = {number}",
                "DELETE FROM things WHERE id > {number} AND id < {other}",
            ]
        )
        other = self.random.randrange(1, 12)
        with editor(self.file) as database:
            database.execute(statement.format(number=number, other=other, text=text))
        self.now = self.read()

    def commit(self) -> None:
        changed = bool(self.expected())
        self.run("commit", "-m", "Edit", code=0 if changed else 44)
        self.commits[self.branch] = dict(self.now)

    def commit_one(self) -> None:
        before = self.head
        apart = [k for k in before.keys() | self.now.keys() if before.get(k) != self.now.get(k)]
        if not apart:
            return
        key = self.random.choice(sorted(apart, key=str))
        # In the order of columns, where the names of the key are in another.
        label = ",".join(map(str, reversed(key) if isinstance(key, tuple) else (key,)))
        self.run("commit", f"things:feature:{label}", "-m", "One")
        after = {k: row for k, row in before.items() if k != key}
        if key in self.now:
            after[key] = self.now[key]
        self.commits[self.branch] = after

    def restore(self) -> None:
        self.run("restore")
        self.now = dict(self.head)

    def switch(self) -> None:
        target = self.random.choice([*self.commits, "new"])
        if target == "new":
            target = f"b{len(self.commits)}"
            self.run("switch", "-c", target)
            self.commits[target] = dict(self.head)
        else:
            discard = self.random.random() < 0.3
            loses = bool(self.expected()) and target != self.branch
            if loses and not discard and self.commits[target] == self.head:
                return  # the same rows may be one tree or two
            refused = loses and not discard
            options = ["--discard-changes"] if discard else []
            self.run("switch", target, *options, code=29 if refused else 0)
            if refused:
                return
            if discard:
                self.now = dict(self.commits[target])
            elif not loses and target != self.branch:
                self.now = dict(self.commits[target])
        self.branch = target

    def stash(self) -> None:
        if self.expected():
            self.run("stash")
            self.stashes.append((dict(self.head), dict(self.now)))
            self.now = dict(self.head)
        elif self.stashes and self.stashes[-1][0] == self.head:
            self.run("stash", "pop")
            self.now = self.stashes.pop()[1]


@pytest.mark.parametrize("way", some(WAYS, ("kart", "text", 0), ("havasu", "integer", 0)), ids=str)
def test_the_file_is_what_the_model_says(way: tuple[str, str, int], tmp_path: Path) -> None:
    kind, key, seed = way
    machine = Machine(tmp_path, kind, key, seed)
    others = [machine.commit, machine.restore, machine.switch, machine.stash, machine.commit_one]
    steps = [machine.edit] * 5 + others
    for _ in range(30):
        machine.random.choice(steps)()
        machine.check()
