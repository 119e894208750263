"""A working copy in PostGIS against a model: tables of rows by key, at each commit and there.

Random statements of SQL stand for programs that edit: rows, keys, columns, whole tables. Between
them come commands. Whatever happens, `status` counts what the model says and the tables hold
the model's rows. And a command that is killed at any statement leaves the schema and HEAD agreeing
after the next one.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.examples import some
from tests.support.postgres import PostgresServer, has_postgis, postgres
from tests.support.templates import copy_tree

pytestmark = pytest.mark.skipif(
    not has_postgis(), reason="there is no PostGIS: apt install postgresql-15-postgis-3"
)

KEYS = {"things": "id", "notes": "code"}
START = {
    "things": "id,name,size\n" + "".join(f"{n},n{n},{n}.5\n" for n in range(1, 9)),
    "notes": "code,name,size\n" + "".join(f"c{n},n{n},{n}.5\n" for n in range(1, 6)),
}
WAYS = [(kind, seed) for kind in ("havasu", "kart") for seed in range(4)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as running:
        yield running


@dataclass
class Table:
    """What a table holds: names of columns by what they are, and rows by key."""

    columns: dict[str, str]
    rows: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def against(self, base: "Table") -> dict[str, Any]:
        """Return what `status` says of this as edits of another."""
        both = self.rows.keys() & base.rows.keys()
        updates = sum(self._differs(base, self.rows[key], base.rows[key]) for key in both)
        counts = {
            "inserts": len(self.rows.keys() - both),
            "updates": updates,
            "deletes": len(base.rows.keys() - both),
        }
        found: dict[str, Any] = {}
        if self.columns != base.columns:
            found["meta"] = {"updates": 1}
        if any(counts.values()):
            found["feature"] = {name: count for name, count in counts.items() if count}
        return found

    def _differs(self, base: "Table", now: dict[str, Any], then: dict[str, Any]) -> bool:
        return any(
            now.get(each) != then.get(each)
            for each in self.columns
            if each in base.columns or now.get(each) is not None
        )


class Machine:
    """A repository, its schema, and what both should hold."""

    def __init__(self, folder: Path, server: PostgresServer, kind: str, seed: int) -> None:
        self.random, self.server, self.kart = random.Random(seed), server, kind == "kart"
        self.repo, self.schema = folder / "repo", f"m_{kind}_{seed}"
        server.run(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
        succeed(invoke(["init", self.repo, *(["--kart"] if self.kart else [])]))
        self.now: dict[str, Table] = {}
        for name, text in START.items():
            source = folder / f"{name}.csv"
            source.write_text(text)
            self.run("import", source, "--primary-key", KEYS[name])
            self.now[name] = Table({each: each for each in (KEYS[name], "name", "size")})
        self.run("create-workingcopy", server.address(self.schema))
        for name, table in self.now.items():
            table.rows = self.read(name)
        self.commits = {"main": deepcopy(self.now)}
        self.branch, self.made = "main", 0

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        result = invoke(["-C", self.repo, *arguments])
        assert result.exit_code == code, (arguments, result.output)
        return result.output

    def sql(self, text: str) -> None:
        self.server.run(text)

    def read(self, name: str) -> dict[Any, dict[str, Any]]:
        columns = self.now[name].columns
        listed = ", ".join(f'"{each}"' for each in columns.values())
        rows = self.server.rows(f"SELECT {listed} FROM {self.schema}.{name}")
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        return {row[KEYS[name]]: row for row in found}

    # What an editor does

    def edit(self) -> None:
        name = self.random.choice(list(self.now))
        table, place = self.now[name], f"{self.schema}.{name}"
        key = table.columns[KEYS[name]]
        ways = [self.insert] * 4 + [self.update] * 5 + [self.delete] * 3 + [self.rekey] * 2
        ways += [self.truncate, self.add_column, self.rename_column, self.drop_column]
        self.random.choice(ways)(name, table, place, key)

    def free_key(self, name: str, table: Table) -> Any:
        while True:
            number = self.random.randrange(1, 40)
            key = number if name == "things" else f"c'{number}"
            if key not in table.rows:
                return key

    def some_key(self, table: Table) -> Any:
        return self.random.choice(list(table.rows)) if table.rows else None

    def value(self, column: str) -> Any:
        if column == "size":
            return self.random.choice([None, 0.5, -1.25, 1e300])
        return self.random.choice([None, "", "x", 'a"b\\', "line\nline", "é,;", "NULL"])

    def insert(self, name: str, table: Table, place: str, key: str) -> None:
        row = {each: self.value(each) for each in table.columns}
        row[KEYS[name]] = self.free_key(name, table)
        columns = ", ".join(f'"{each}"' for each in table.columns.values())
        marks = ", ".join("%s" for _ in row)
        with self.server.connect() as connection:
            connection.execute(
                f"INSERT INTO {place} ({columns}) VALUES ({marks})", list(row.values())
            )
        table.rows[row[KEYS[name]]] = row

    def update(self, name: str, table: Table, place: str, key: str) -> None:
        others = [each for each in table.columns if each != KEYS[name]]
        if not others:
            return
        column, chosen = self.random.choice(others), self.some_key(table)
        value = self.value(column)
        with self.server.connect() as connection:
            if self.random.random() < 0.3:  # all rows at once, most of which stay as they were
                connection.execute(f'UPDATE {place} SET "{key}" = "{key}"')
            connection.execute(
                f'UPDATE {place} SET "{table.columns[column]}" = %s WHERE "{key}" = %s',
                [value, chosen],
            )
        if chosen is not None:
            table.rows[chosen][column] = value

    def delete(self, name: str, table: Table, place: str, key: str) -> None:
        chosen = self.some_key(table)
        with self.server.connect() as connection:
            connection.execute(f'DELETE FROM {place} WHERE "{key}" = %s', [chosen])
        table.rows.pop(chosen, None)

    def rekey(self, name: str, table: Table, place: str, key: str) -> None:
        chosen, other = self.some_key(table), self.free_key(name, table)
        if chosen is None:
            return
        with self.server.connect() as connection:
            connection.execute(
                f'UPDATE {place} SET "{key}" = %s WHERE "{key}" = %s', [other, chosen]
            )
        table.rows[other] = {**table.rows.pop(chosen), KEYS[name]: other}

    def truncate(self, name: str, table: Table, place: str, key: str) -> None:
        self.sql(f"TRUNCATE {place}")
        table.rows.clear()

    def add_column(self, name: str, table: Table, place: str, key: str) -> None:
        if len(table.columns) > 5:
            return
        self.made += 1
        column = f"added {self.made}"
        self.sql(f'ALTER TABLE {place} ADD "{column}" text')
        table.columns[column] = column
        for row in table.rows.values():
            row[column] = None

    def rename_column(self, name: str, table: Table, place: str, key: str) -> None:
        # Kart's triggers name the key, so in Kart's repositories it keeps its name.
        able = [each for each in table.columns if not (self.kart and each == KEYS[name])]
        if not able:
            return
        column = self.random.choice(able)
        self.made += 1
        new = f"name {self.made}"
        self.sql(f'ALTER TABLE {place} RENAME "{table.columns[column]}" TO "{new}"')
        table.columns[column] = new

    def drop_column(self, name: str, table: Table, place: str, key: str) -> None:
        able = [each for each in table.columns if each.startswith("added")]
        if not able:
            return
        column = self.random.choice(able)
        self.sql(f'ALTER TABLE {place} DROP "{table.columns[column]}"')
        del table.columns[column]
        for row in table.rows.values():
            del row[column]

    # What commands do

    @property
    def edited(self) -> dict[str, Any]:
        base = self.commits[self.branch]
        found = {name: table.against(base[name]) for name, table in self.now.items()}
        return {name: changes for name, changes in found.items() if changes}

    def command(self) -> None:
        self.random.choice(
            [self.commit, self.commit, self.commit_one, self.restore, self.switch, self.stash]
        )()

    def commit(self) -> None:
        self.run("commit", "-m", "All", code=0 if self.edited else 44)
        self.commits[self.branch] = deepcopy(self.now)

    def commit_one(self) -> None:
        if not self.edited:
            return
        name = self.random.choice(list(self.edited))
        self.run("commit", "-m", name, name)
        self.commits[self.branch][name] = deepcopy(self.now[name])

    def restore(self) -> None:
        self.run("restore")
        self.now = deepcopy(self.commits[self.branch])

    def stash(self) -> None:
        if not self.edited or any("meta" in each for each in self.edited.values()):
            return
        edits = deepcopy(self.now)
        self.run("stash")
        self.now = deepcopy(self.commits[self.branch])
        self.check()
        self.run("stash", "pop")
        self.now = edits

    def switch(self) -> None:
        if self.edited:
            refused = invoke(["-C", self.repo, "reset", "--hard", "HEAD"])
            assert refused.exit_code == 29, refused.output
            return
        other = next((each for each in self.commits if each != self.branch), None)
        if other is None or self.random.random() < 0.3:
            new = f"b{len(self.commits)}"
            self.run("switch", "-c", new)
            self.commits[new] = deepcopy(self.now)
            self.branch = new
        else:
            other = self.random.choice([each for each in self.commits if each != self.branch])
            self.run("switch", other)
            self.branch, self.now = other, deepcopy(self.commits[other])

    def check(self) -> None:
        for name, table in self.now.items():
            assert self.read(name) == table.rows
        status = json.loads(self.run("status", "-o", "json"))["kart.status/v2"]
        said = status["workingCopy"]["changes"] or {}
        if self.kart:  # which tells a row with another key as one change
            assert {path: set(each) for path, each in said.items()} == {
                path: set(each) for path, each in self.edited.items()
            }
        else:
            assert said == self.edited


@pytest.mark.parametrize("way", some(WAYS, WAYS[0]), ids=str)
def test_edits_and_commands(tmp_path: Path, server: PostgresServer, way: tuple[str, int]) -> None:
    machine = Machine(tmp_path, server, *way)
    machine.check()
    for _ in range(12):
        for _ in range(machine.random.randrange(4)):
            machine.edit()
        machine.check()
        machine.command()
        machine.check()


# Killed

KILLED = """
import os, sys
from havasu_vc.exchange import postgis_server
from havasu_vc.cli.main import main
left = int(sys.argv.pop(1))
def counted(name):
    whole = getattr(postgis_server.Server, name)
    def call(self, *arguments, **named):
        global left
        left -= 1
        if left == 0:
            os._exit(99)
        found = whole(self, *arguments, **named)
        if name == "commit" and left == 1:
            left -= 1
            os._exit(99)
        return found
    setattr(postgis_server.Server, name, call)
for each in ("run", "rows", "copy_in", "copy_out", "commit", "tries"):
    counted(each)
main()
"""
COMMANDS = {
    "switch": (["switch", "side"], []),
    "commit": (["commit", "-m", "Edits"], ["UPDATE {s}.things SET name = 'edited' WHERE id < 3"]),
    "restore": (["restore"], ["TRUNCATE {s}.things"]),
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two branches."""
    folder = tmp_path_factory.mktemp("killed")
    source, repo = folder / "things.csv", folder / "repo"
    succeed(invoke(["init", repo]))
    source.write_text(START["things"])
    succeed(invoke(["-C", repo, "import", source, "--primary-key", "id"]))
    succeed(invoke(["-C", repo, "switch", "-c", "side"]))
    source.write_text(START["things"].replace("n3", "other").replace("8,n8,8.5\n", ""))
    succeed(invoke(["-C", repo, "import", source, "--replace"]))
    succeed(invoke(["-C", repo, "switch", "main"]))
    return repo


@pytest.mark.thorough
@pytest.mark.parametrize("command", some(COMMANDS, "switch"))
@pytest.mark.parametrize(
    "share", [pytest.param(0, id="a few"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
def test_a_command_that_is_killed(
    two: Path, tmp_path: Path, server: PostgresServer, command: str, share: int
) -> None:
    arguments, edits = COMMANDS[command]
    schema, at, seen = f"killed_{command}", 0, 0
    while True:
        # Most statements only look, and so the steps grow.
        at += 1 if share else 3 + at // 3
        server.run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        repo = copy_tree(two, tmp_path / f"repo{at}")
        succeed(invoke(["-C", repo, "create-workingcopy", server.address(schema)]))
        server.run(*(each.format(s=schema) for each in edits))
        before = server.rows(f"SELECT * FROM {schema}.things ORDER BY 1")
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(at), "-C", repo, *arguments],
            capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert done.returncode in (0, 99), done.stderr
        status = succeed(invoke(["-C", repo, "status", "-o", "json"])).stdout
        said = json.loads(status)["kart.status/v2"]
        changes = said["workingCopy"]["changes"]
        now = server.rows(f"SELECT * FROM {schema}.things ORDER BY 1")
        if changes:  # nothing happened yet: the edits stand
            assert edits and now == before
        else:
            side = said["branch"] == "side"
            assert len(now) == 8 - side
            assert (now[2][1] == "other") == side
            if command == "commit":
                assert now == before
        assert "Problems" not in succeed(invoke(["-C", repo, "status"])).stdout
        seen += 1
        if done.returncode == 0:
            break
    assert seen > 3
