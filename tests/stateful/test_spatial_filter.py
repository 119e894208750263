"""A working copy under a spatial filter against a model: rows by key, in commits and in the file.

Random statements of SQL stand for an editor: rows that move in and out of the area, new rows
under keys that are free, and under keys of rows that the filter hides. Between them come
commands, other filters among them. Whatever happens, the file has the model's rows, `status`
counts what the model says, and no commit touches a row that nobody saw. A command that is killed at
any statement leaves file and HEAD agreeing after the next one.
"""

import json
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyproj
import pytest

from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import invoke, succeed
from tests.support.examples import some
from tests.support.templates import copy_tree

Row = tuple[int, str, str, tuple[float, float] | None]
Rows = dict[object, Row]
Box = tuple[float, float, float, float]
KEYS = {"integer": "id", "text": "code"}
WAYS = [(kind, key, seed) for kind in ("havasu", "kart") for key in KEYS for seed in range(4)]
ALL: Box = (-1e9, -1e9, 1e9, 1e9)


def shape(place: tuple[float, float] | None) -> bytes | None:
    """Return a point as a GeoPackage has it."""
    if place is None:
        return None
    return b"GP\0\1" + struct.pack("<i", 4326) + struct.pack("<BI2d", 1, 1, *place)


def place(value: bytes | None) -> tuple[float, float] | None:
    return None if value is None else struct.unpack_from("<2d", value, 13)


class Machine:
    """A repository, its working copy under a filter, and what both should hold."""

    def __init__(self, folder: Path, kind: str, key: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.repo, self.file = folder / "repo", folder / "repo" / "repo.gpkg"
        self.kart, self.key = kind == "kart", KEYS[key]
        self.count = 0
        head: Rows = {}
        lines = ["id,code,name,geom"]
        for number in range(1, 31):
            at = None if number % 10 == 0 else (number % 6 + 0.5, number // 6 + 0.5)
            row = (number, f"c{number}", f"n{number}", at)
            head[self.key_of(row)] = row
            lines.append(
                f"{number},c{number},n{number},{'' if at is None else f'POINT ({at[0]} {at[1]})'}"
            )
        source = folder / "things.csv"
        source.write_text("\n".join(lines) + "\n")
        succeed(invoke(["init", self.repo, *(["--kart"] if self.kart else [])]))
        self.run("import", source, "--primary-key", self.key, "--crs", "EPSG:4326")
        self.commits: dict[str, Rows] = {"main": head}
        self.branch = "main"
        self.stashes: list[tuple[Rows, Box, Rows]] = []
        self.box: Box = (0, 0, 3, 3)
        self.run("create-workingcopy", "--spatial-filter", "EPSG:4326;0,0,3,3")
        self.now = self.shown()

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        result = invoke(["-C", self.repo, *arguments])
        assert result.exit_code == code, (arguments, result.output, result.stderr)
        return result.output

    def key_of(self, row: Row) -> object:
        return row[0] if self.key == "id" else row[1]

    def read(self) -> Rows:
        with closing(sqlite3.connect(self.file)) as database:
            found = database.execute("SELECT id, code, name, geom FROM things").fetchall()
            indexed = database.execute("SELECT count(*) FROM rtree_things_geom").fetchone()[0]
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = [(number, code, name, place(value)) for number, code, name, value in found]
        assert indexed == sum(row[3] is not None for row in rows)
        return {self.key_of(row): row for row in rows}

    @property
    def head(self) -> Rows:
        return self.commits[self.branch]

    def inside(self, row: Row) -> bool:
        west, south, east, north = self.box
        return row[3] is None or (west < row[3][0] < east and south < row[3][1] < north)

    def shown(self, rows: Rows | None = None) -> Rows:
        rows = self.head if rows is None else rows
        return {key: row for key, row in rows.items() if self.inside(row)}

    def hidden(self) -> set[object]:
        """Return the keys of rows that the editor made and that the filter hides."""
        return {k for k in self.now.keys() & self.head.keys() if k not in self.shown()}

    def expected(self) -> dict[str, int]:
        shown, now = self.shown(), self.now
        both = shown.keys() & now.keys()
        inserts, deletes = now.keys() - self.head.keys(), shown.keys() - now.keys()
        moved = 0
        if self.kart:  # a row with another key is one change, as Kart tells it
            rest = [self.rest(now[key]) for key in inserts]
            for key in deletes:
                if self.rest(shown[key]) in rest:
                    rest.remove(self.rest(shown[key]))
                    moved += 1
        counts = {
            "inserts": len(inserts) - moved,
            "updates": sum(now[key] != shown[key] for key in both) + moved,
            "deletes": len(deletes) - moved,
            "spatialFilterConflicts": len(self.hidden()),
        }
        return {name: count for name, count in counts.items() if count}

    def rest(self, row: Row) -> tuple[object, ...]:
        return row[1:] if self.key == "id" else (row[0], *row[2:])

    def after(self) -> Rows:
        """Return what a commit of all edits makes of HEAD."""
        gone = self.shown().keys() - self.now.keys()
        return {k: row for k, row in (self.head | self.now).items() if k not in gone}

    def check(self) -> None:
        assert self.read() == self.now
        status = json.loads(self.run("status", "-o", "json"))["kart.status/v2"]
        changes = status["workingCopy"]["changes"]
        assert changes == ({"things": {"feature": self.expected()}} if self.expected() else {})
        assert "in full" not in self.run("status")
        assert (status["spatialFilter"] is None) == (self.box == ALL)

    def check_commits(self) -> None:
        """Hold every commit against the model, by a copy without a filter."""
        for branch, rows in self.commits.items():
            copy = self.repo.parent / f"{branch}.gpkg"
            self.run("checkout", "--as", copy, "--ref", branch)
            with closing(sqlite3.connect(copy)) as database:
                found = database.execute("SELECT id, code, name, geom FROM things").fetchall()
            copy.unlink()
            there = [(number, code, name, place(value)) for number, code, name, value in found]
            assert {self.key_of(row): row for row in there} == rows

    # Steps

    def edit(self) -> None:
        self.count += 1
        number, text = self.random.randrange(1, 36), f"e{self.count}"
        other = self.random.randrange(1, 36)
        at = self.random.choice([None, (self.random.randrange(6) + 0.5, 0.5), (1.5, 1.5)])
        statement = self.random.choice(
            [
                "UPDATE things SET name = :text WHERE id = :number",
                "UPDATE things SET geom = :at WHERE id = :number",
                "UPDATE things SET geom = :at WHERE id IN (:number, :other)",
                "UPDATE OR IGNORE things SET id = :number WHERE id = :other",
                "UPDATE OR IGNORE things SET code = 'c' || :number WHERE id = :other",
                "DELETE FROM things WHERE id = :number",
                "DELETE FROM things WHERE id > :number AND id < :other",
                "INSERT OR IGNORE INTO things (id, code, name, geom) "
                "VALUES (:number, 'c' || :number, :text, :at)",
                "INSERT INTO things (id, code, name, geom) "
                "SELECT 100 + :count, 'k' || :count, :text, :at",
            ]
        )
        values = {"number": number, "other": other, "text": text, "count": self.count}
        with editor(self.file) as database:
            database.execute(statement, {**values, "at": shape(at)})
        self.now = self.read()

    def commit(self) -> None:
        if self.hidden():
            if self.random.random() < 0.5:
                told = self.run("commit", "-m", "Edit", code=27)
                assert all(str(key) in told for key in self.hidden())
                return
            self.run("commit", "-m", "Edit", "--allow-spatial-filter-conflicts")
        else:
            self.run("commit", "-m", "Edit", code=0 if self.expected() else 44)
        self.commits[self.branch] = self.after()
        self.now = self.shown()

    def restore(self) -> None:
        self.run("restore")
        self.now = self.shown()

    def restore_from(self) -> None:
        target = self.random.choice(list(self.commits))
        if self.expected() or self.commits[target] == self.head:
            return
        self.run("restore", "--source", target)
        there, seen = self.commits[target], self.shown() | self.shown(self.commits[target])
        for key in seen:
            self.now.pop(key, None)
            if key in there and there[key] != self.head.get(key):
                self.now[key] = there[key]
            elif key in there and key in self.shown():
                self.now[key] = there[key]

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
            options = ["--discard-changes"] if discard else []
            refused = loses and not discard
            self.run("switch", target, *options, code=29 if refused else 0)
            if refused:
                return
            if discard or target != self.branch:
                self.branch = target
                self.now = self.shown()
        self.branch = target

    def stash(self) -> None:
        if self.expected():
            self.stashes.append((dict(self.head), self.box, dict(self.now)))
            self.run("stash")
            self.now = self.shown()
        elif self.stashes and self.stashes[-1][:2] == (self.head, self.box):
            self.run("stash", "pop")
            self.now = self.stashes.pop()[2]

    def limit(self) -> None:
        x, y = self.random.randrange(5), self.random.randrange(5)
        box: Box = (x, y, x + self.random.randrange(1, 5), y + self.random.randrange(1, 5))
        if self.random.random() < 0.2:
            box = ALL
        text = "none" if box == ALL else f"EPSG:4326;{','.join(map(str, box))}"
        if box != ALL and self.random.random() < 0.5:
            forth = pyproj.Transformer.from_crs(4326, 3857, always_xy=True).transform
            (west, south), (east, north) = forth(box[0], box[1]), forth(box[2], box[3])
            ring = f"{west} {south}, {east} {south}, {east} {north}, {west} {north}, {west} {south}"
            text = f"EPSG:3857;POLYGON (({ring}))"
        discard = self.random.random() < 0.3
        refused = bool(self.expected()) and box != self.box and not discard
        options = ["--discard-changes"] if discard else []
        if refused or box != self.box or discard:
            self.run("checkout", "--spatial-filter", text, *options, code=29 if refused else 0)
        if not refused and (box != self.box or discard):
            self.box = box
            self.now = self.shown()


@pytest.mark.parametrize("way", some(WAYS, ("kart", "text", 0), ("havasu", "integer", 0)), ids=str)
def test_the_file_is_what_the_model_says(way: tuple[str, str, int], tmp_path: Path) -> None:
    kind, key, seed = way
    machine = Machine(tmp_path, kind, key, seed)
    others = [machine.commit, machine.restore, machine.switch, machine.stash, machine.limit]
    steps = [machine.edit] * 5 + others + [machine.commit, machine.restore_from]
    for _ in range(40):
        machine.random.choice(steps)()
        machine.check()
    machine.check_commits()


KILLED = """
import os, signal, sqlite3, sys
left, connect = [int(sys.argv[1])], sqlite3.connect

def count(statement):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

def watched(*arguments, **options):
    database = connect(*arguments, **options)
    database.set_trace_callback(count)
    return database

sqlite3.connect = watched
from havasu_vc.cli.main import main
sys.argv = ["havasu-vc", *sys.argv[2:]]
main()
"""
COMMANDS = {
    "switch": ["switch", "side"],
    "commit": ["commit", "-m", "Moved"],
    "filter": ["checkout", "--spatial-filter", "EPSG:4326;2,0,6,3"],
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["havasu", "kart"])
@pytest.mark.parametrize("command", some(COMMANDS, "switch"))
def test_a_command_that_is_killed(kind: str, command: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, kind, "integer", 0)
    machine.run("switch", "-c", "side")
    statement = "UPDATE things SET geom = :at WHERE id IN (1, 2)"
    with editor(machine.file) as database:
        database.execute(statement, {"at": shape((5.5, 0.5))})
        database.execute("INSERT INTO things VALUES (77, 'c77', 'new', ?)", (shape((1.5, 1.5)),))
    machine.run("commit", "-m", "Side")
    machine.branch = "side"
    machine.commits["side"] = {
        **machine.commits["main"],
        1: (1, "c1", "n1", (5.5, 0.5)),
        2: (2, "c2", "n2", (5.5, 0.5)),
        77: (77, "c77", "new", (1.5, 1.5)),
    }
    machine.now = machine.shown()
    machine.check()
    machine.run("switch", "main")
    if command == "commit":
        with editor(machine.file) as database:
            database.execute(statement, {"at": shape((5.5, 0.5))})
    at, seen, ends = 0, 0, set()
    whole, machine.branch = machine.repo, "main"
    edited = machine.read()
    while True:
        at += 2 + at // 3  # most statements only look, and so the steps grow
        machine.repo = copy_tree(whole, tmp_path / "copies" / f"at{at}" / "repo")
        machine.file = machine.repo / "repo.gpkg"
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(at), "-C", machine.repo, *COMMANDS[command]],
            capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        said = json.loads(invoke(["-C", machine.repo, "status", "-o", "json"]).stdout)
        said = said["kart.status/v2"]
        assert "Problems" not in machine.run("status")
        there, changes = machine.read(), said["workingCopy"]["changes"]
        main = machine.commits["main"]
        if command == "switch":
            assert there == machine.shown(machine.commits[said["branch"]])
        elif command == "commit":
            gone = {key: row for key, row in edited.items() if key not in (1, 2)}
            assert there == (edited if changes else gone)
        else:
            old, machine.box = machine.box, (2, 0, 6, 3)
            new = machine.shown(main)
            machine.box = old
            assert there in (machine.shown(main), new)
            if done.returncode == 0:
                assert there == new
            machine.run(*COMMANDS[command])
            assert machine.read() == new
        assert not changes or command == "commit"
        ends.add((len(there), bool(changes)))
        seen += 1
        shutil.rmtree(machine.repo)
        if done.returncode == 0:
            break
    assert seen > 3 and len(ends) == 2
