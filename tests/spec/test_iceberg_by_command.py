"""Iceberg's rules of tables as a whole, seen in what commands read, write and refuse."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.cli.conftest import invoke
from tests.exchange.test_iceberg import SCHEMA, numbered
from tests.spec.commands import Commands
from tests.support.git import run_git
from tests.tables.making import TableMaker

ROWS = pa.table(
    {
        "id": [1, 2],
        "name": ["a", None],
        "s": pa.array(
            [{"x": 1, "y": "p", "z": 1.5}, None],
            pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.float32())]),
        ),
        "l": pa.array(
            [[{"p": 1, "q": "r"}], None],
            pa.list_(pa.struct([("p", pa.int32()), ("q", pa.string())])),
        ),
    }
)


@contextmanager
def locked(repository: Path) -> Iterator[None]:
    """Hold each lock that a commit, a checkout or a collection of garbage would take."""
    git = repository / ".git"
    with ExitStack() as held:
        for name in ("lock", "commit-lock", "workspace-lock", "pruning"):
            file = held.enter_context((git / "havasu" / name).open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        for name in ("index", "HEAD", "config", "packed-refs", "refs/heads/main"):
            lock = git / f"{name}.lock"
            held.enter_context(lock.open("x"))
            held.callback(lock.unlink)
        yield


READING = [
    ["status"],
    ["log", "--oneline"],
    ["show", "HEAD", "-o", "json"],
    ["diff", "HEAD^...HEAD", "-o", "json"],
    ["meta", "get", "t", "-o", "json"],
    ["data", "ls"],
    ["blame", "t"],
    ["branch"],
    ["fsck"],
    ["validate"],
    ["create-patch", "HEAD"],
]


@pytest.mark.thorough
@pytest.mark.rule("ICE-4")
def test_who_reads_waits_for_no_lock(hv: Commands, tmp_path: Path) -> None:
    hv.take(ROWS)
    hv("checkout")
    hv.write(id=[1], name=["new"])
    before = [hv(*command) for command in READING]
    hv("export", "t", tmp_path / "before.parquet")

    with locked(hv.path):
        program = "from havasu_vc.cli.main import main; main()"
        arguments = ["-C", str(hv.path), "meta", "set", "t", "title=Locked"]
        writing = subprocess.Popen([sys.executable, "-c", program, *arguments])
        while not (hv.path / ".git" / "havasu" / "workspace-behind").exists():
            assert writing.poll() is None, "who writes waits"
            time.sleep(0.02)
        found = [hv(*command) for command in READING]
        hv("export", "t", tmp_path / "locked.parquet")
        assert writing.poll() is None, "who writes waits"

    assert found == before
    locked_file, file = (tmp_path / f"{name}.parquet" for name in ("locked", "before"))
    assert locked_file.read_bytes() == file.read_bytes()
    assert writing.wait(60) == 0
    assert hv("log", "--oneline").count("\n") == 3


Columns = list[dict[str, Any]]


def inner(columns: Columns, name: str) -> Columns:
    """Return the columns of a struct, or of the struct in a list."""
    (found,) = (each for each in columns if each["name"] == name)
    return list(found.get("element", found)["fields"])


def put(columns: Columns, name: str, fields: Columns) -> Columns:
    """Return columns with others in a struct, or in the struct in a list."""
    new = []
    for each in columns:
        if each["name"] == name and "element" in each:
            each = {**each, "element": {**each["element"], "fields": fields}}
        elif each["name"] == name:
            each = {**each, "fields": fields}
        new.append(each)
    return new


def renamed(columns: Columns) -> Columns:
    return [{**each, "name": each["name"].upper()} for each in columns]


def dropped(columns: Columns) -> Columns:
    return columns[:-1]


def added(columns: Columns) -> Columns:
    return [*columns, {"name": "more", "dataType": "text"}]


def moved(columns: Columns) -> Columns:
    return columns[::-1]


def widened(columns: Columns) -> Columns:
    return [{**each, "size": 64} if each.get("size") == 32 else each for each in columns]


Change = Callable[[Columns], Columns]


def outside(change: Change) -> Change:
    """Change the columns but for the key."""
    return lambda columns: [columns[0], *change(columns[1:])]


def within(name: str, change: Change) -> Change:
    return lambda columns: put(columns, name, change(inner(columns, name)))


CHANGES = [
    pytest.param(where, id=f"{change.__name__} {place}")
    for change in (renamed, dropped, added, moved, widened)
    for place, where in (
        ("column", outside(change)),
        ("field", within("s", change)),
        ("field in a list", within("l", change)),
    )
    # No column but the key is a number of its own.
    if not (change is widened and place == "column")
]


def shape(fields: Any) -> Any:
    """Return the ids, names and types of an Iceberg schema's columns."""
    if isinstance(fields, list):
        return [shape(each) for each in fields]
    if isinstance(fields, dict) and "fields" in fields:
        return shape(fields["fields"])
    if isinstance(fields, dict) and "element" in fields:
        return [fields["element-id"], shape(fields["element"])]
    if isinstance(fields, dict):
        return (fields["id"], fields["name"], shape(fields["type"]))
    return fields


def wanted(columns: Columns) -> Any:
    """Return the same of columns as `meta get` shows them."""
    types = {
        ("integer", 32): "int",
        ("integer", 64): "long",
        ("float", 32): "float",
        ("float", 64): "double",
        ("text", None): "string",
    }

    def of(column: dict[str, Any]) -> Any:
        if "fields" in column:
            return wanted(column["fields"])
        if "element" in column:
            return [int(column["element"]["id"]), of(column["element"])]
        return types[column["dataType"], column.get("size")]

    return [(int(each["id"]), each["name"], of(each)) for each in columns]


@pytest.mark.rule("ICE-41")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.few(3)
def test_each_change_of_columns_is_a_schema_more_and_the_one_of_now(
    hv: Commands, change: Change
) -> None:
    hv.take(ROWS)
    hv("checkout")
    before = hv.metadata
    columns = hv.columns()
    assert shape(before["schemas"][-1]) == wanted(columns)

    hv.set_columns(change(columns))

    after = hv.metadata
    assert after["schemas"][:-1] == before["schemas"]
    new = after["schemas"][-1]
    assert new["schema-id"] == after["current-schema-id"]
    assert new["schema-id"] not in [each["schema-id"] for each in before["schemas"]]
    now = hv.columns()
    assert now != columns
    assert shape(new) == wanted(now)
    # What stayed has the id that it had; what is new has one that was never there.
    kept = [each for each in change(columns) if "id" in each]
    assert [each["id"] for each in now][: len(kept)] == [each["id"] for each in kept]
    used = max(ids(before["schemas"]))
    fresh = ids(now) - ids(columns)
    assert all((number > used) == (number in fresh) for number in ids(new))
    assert after["last-column-id"] >= max(ids(after["schemas"]))


def ids(document: Any) -> set[int]:
    """Return the ids of all columns in a document."""
    if isinstance(document, list):
        return set().union(*map(ids, document))
    if not isinstance(document, dict):
        return set()
    own = {int(value) for name, value in document.items() if name in ("id", "element-id")}
    return own.union(*map(ids, document.values()))


@pytest.mark.rule("ICE-42")
def test_a_schema_that_was_there_is_used_again(hv: Commands) -> None:
    hv.take(ROWS)
    hv("checkout")
    first = hv.metadata
    hv.set_columns(added(hv.columns()))
    second = hv.metadata
    hv("reset", "--hard", "HEAD^")
    third = hv.metadata

    assert len(first["schemas"]) == 1 and len(second["schemas"]) == 2
    assert first["current-schema-id"] != second["current-schema-id"]
    assert third["current-schema-id"] == first["current-schema-id"]
    assert third["schemas"] == second["schemas"]
    # Rows alone are no schema.
    hv.write(id=[1], name=["new"])
    assert hv.metadata["schemas"] == second["schemas"]
    assert len({each["schema-id"] for each in second["schemas"]}) == 2


RESERVED = {
    2147483646: "ICE-72",
    2147483645: "ICE-73",
    2147483644: "ICE-74",
    2147483643: "ICE-75",
    2147483642: "ICE-76",
    2147483448: "ICE-80",
}


@pytest.mark.few(3)
@pytest.mark.rule("ICE-72", "ICE-73", "ICE-74", "ICE-75", "ICE-76", "ICE-80")
@pytest.mark.parametrize("number", RESERVED)
@pytest.mark.parametrize("link", [[], ["--link"]], ids=["copied", "linked"])
def test_a_column_with_a_reserved_id_does_not_come_in(
    hv: Commands, tmp_path: Path, number: int, link: list[str]
) -> None:
    made = TableMaker(tmp_path / "roads", SCHEMA)
    made.commit(made.data(numbered(1, 2)))
    (file,) = (made.location / "metadata").glob("v2.*")
    document = json.loads(file.read_text())
    for schema in document["schemas"]:
        schema["fields"][1]["id"] = number
    file.write_text(json.dumps(document))
    before = run_git("for-each-ref", cwd=hv.path)

    found = invoke(["-C", hv.path, "import", f"iceberg:{made.location}", *link])

    assert found.exit_code != 0
    assert str(number) in found.output and "out of range" in found.output
    assert "Traceback" not in found.output
    assert run_git("for-each-ref", cwd=hv.path) == before
