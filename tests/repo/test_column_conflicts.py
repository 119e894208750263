"""Columns that both sides changed in two ways: each is told of, and settled on its own."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.errors import InvalidArgumentError, NoConflictError
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.merging.state import read_state
from havasu_vc.writers.conflicts_json import write_conflicts_json
from havasu_vc.writers.conflicts_text import write_conflicts_text
from havasu_vc.writers.protocol import WriterOptions
from tests.repo.points import assert_clean, make

Columns: TypeAlias = dict[str, dict[str, Any]]
"""Columns by the name that they had at first."""
LABEL = "points:meta:schema.json"


def change(repo: Repo, edit: Callable[[Columns], object]) -> None:
    """Commit other columns; a column that `edit` adds or replaces is a new one."""
    columns = {each["name"]: each for each in repo.get_meta("points")["schema.json"]}
    edit(columns)
    repo.set_meta("points", {"schema.json": list(columns.values())})


def renamed(to: str) -> Callable[[Columns], object]:
    return lambda columns: columns["name"].update(name=to)


def dropped(columns: Columns) -> None:
    del columns["height"]


def widened(columns: Columns) -> None:
    columns["height"].update(size=64)


def retyped(**type_: Any) -> Callable[[Columns], object]:
    return lambda columns: columns.update(height={"name": "height", **type_})


def added(**type_: Any) -> Callable[[Columns], object]:
    return lambda columns: columns.update(more={"name": "more", **type_})


Edit: TypeAlias = Callable[[Columns], object]


def conflicting(folder: Path, ours: list[Edit], theirs: list[Edit]) -> Repo:
    """Make a repository in which both sides changed columns, and a merge waits."""
    repo = make(folder / "repo", {1: ("one", 1), 2: ("two", 2)})
    repo.create_branch("side")
    for edit in ours:
        change(repo, edit)
    repo.switch("side")
    for edit in theirs:
        change(repo, edit)
    repo.switch("main")
    assert repo.merge("side").kind == "conflicts"
    return repo


def waiting(repo: Repo) -> dict[str, tuple[str, ...]]:
    """Return what waits, by column."""
    found = list(repo.conflicts())
    assert sum(each.unresolved for each in found) == len(found)
    return {name: column.kinds for each in found for name, column in each.columns.items()}


TEXT, REAL = {"dataType": "text"}, {"dataType": "float", "size": 64}
CASES = {
    "rename/rename": (renamed("ours"), renamed("theirs"), {"ours": ("name",)}),
    "type/type": (retyped(**TEXT), retyped(**REAL), {"height": ("add",)}),
    "drop/change": (dropped, widened, {"height": ("drop",)}),
    "change/drop": (widened, dropped, {"height": ("drop",)}),
    "add/add": (added(**TEXT), added(**REAL), {"more": ("add",)}),
}


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.few(3)
def test_a_column_is_settled(tmp_path: Path, case: str, side: str) -> None:
    ours, theirs, expected = CASES[case]
    repo = conflicting(tmp_path, [ours], [theirs])
    assert waiting(repo) == expected
    (column,) = expected

    assert repo.resolve_conflicts([LABEL], columns={column: side}) == 1
    repo.continue_merge()
    parent = f"HEAD^{1 + (side == 'theirs')}"

    wanted = repo.dataset("points", parent)
    merged = repo.dataset("points")
    assert described(merged.schema) == described(wanted.schema)
    rows = repo.table("points").to_arrow().to_pylist()
    there = repo.table("points", parent).to_arrow().to_pylist()
    assert rows == [{name: row[name] for name in merged.schema.names} for row in there]
    assert_clean(repo)


def described(schema: Any) -> dict[str, Any]:
    return {field.name: field.type for field in schema.fields}


def both(tmp_path: Path) -> Repo:
    return conflicting(
        tmp_path, [renamed("ours"), retyped(**TEXT)], [renamed("theirs"), retyped(**REAL)]
    )


def test_columns_one_by_one(tmp_path: Path) -> None:
    repo = both(tmp_path)
    assert waiting(repo) == {"ours": ("name",), "height": ("add",)}
    assert [each.total for each in repo.conflicts()] == [1]

    assert repo.resolve_conflicts([LABEL], columns={"height": "theirs"}) == 1
    assert waiting(Repo.open(repo.path)) == {"ours": ("name",)}
    assert repo.resolve_conflicts([LABEL], columns={"ours": "ours"}) == 1
    assert waiting(repo) == {}

    repo.continue_merge()
    assert described(repo.dataset("points").schema).keys() == {"id", "ours", "height"}
    assert str(described(repo.dataset("points").schema)["height"]) == "double"


def test_the_others_from_one_side(tmp_path: Path) -> None:
    repo = both(tmp_path)

    assert repo.resolve_conflicts([LABEL], columns={"height": "ours"}, choice="theirs") == 2

    repo.continue_merge()
    schema = repo.dataset("points").schema
    assert set(schema.names) == {"id", "theirs", "height"}
    assert str(schema.by_name["height"].type) == "string"


def test_rows_are_those_of_the_columns_that_were_chosen(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", {1: ("one", 1), 2: ("two", 2)})
    repo.create_branch("side")
    for branch, name, value in (("side", "theirs", "t"), ("main", "ours", "o")):
        repo.switch(branch)
        change(repo, renamed(name))
        repo.write("points", pa.table({"id": [1], name: [value]}))
    repo.merge("side")
    with pytest.raises(InvalidArgumentError, match="decides what its rows look like"):
        repo.resolve_conflicts(["points:feature:1"], columns={"theirs": "theirs"})

    repo.resolve_conflicts([LABEL], columns={"ours": "theirs"})
    repo.resolve_conflicts(["points:feature:1"], columns={"theirs": "theirs"})
    repo.continue_merge()

    rows = repo.table("points").to_arrow().sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "theirs": "t", "height": 1},
        {"id": 2, "theirs": "two", "height": 2},
    ]


def test_a_policy_names_columns(tmp_path: Path) -> None:
    repo = both(tmp_path)
    repo.abort_merge()

    policy = MergePolicy(Side.OURS, {"height": Side.THEIRS})
    assert repo.merge("side", policy=policy).kind == "merge"

    schema = repo.dataset("points").schema
    assert set(schema.names) == {"id", "ours", "height"}
    assert str(schema.by_name["height"].type) == "double"


@pytest.mark.parametrize(
    ("choice", "columns", "error", "message"),
    [
        (None, {"other": "ours"}, NoConflictError, "'other' is not in conflict"),
        (None, {"height": "base"}, InvalidArgumentError, "ours or theirs, by column too"),
        ("base", {"height": "ours"}, InvalidArgumentError, "ours or theirs"),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    tmp_path: Path,
    choice: str | None,
    columns: dict[str, str],
    error: type[Exception],
    message: str,
) -> None:
    repo = both(tmp_path)
    with pytest.raises(error, match=message):
        repo.resolve_conflicts([LABEL], choice=choice, columns=columns)
    assert waiting(repo) == {"ours": ("name",), "height": ("add",)}


def test_states_of_before_are_read(tmp_path: Path) -> None:
    repo = both(tmp_path)
    file = repo.git.git_directory / "havasu" / "merge" / "state.json"
    document = json.loads(file.read_bytes())
    assert document["version"] == 2
    document["version"] = 1
    for each in document["datasets"]:
        del each["columns"]
    file.write_text(json.dumps(document))

    state = read_state(repo.git)
    assert state is not None and not state.conflicts[0].columns
    assert waiting(repo) == {"ours": ("name",), "height": ("add",)}
    repo.resolve_conflicts([LABEL], columns={"height": "theirs"})
    assert waiting(repo) == {"ours": ("name",)}
    repo.resolve_conflicts([LABEL], choice="ours")
    repo.continue_merge()
    # What is chosen for the whole counts for what was open.
    schema = repo.dataset("points").schema
    assert set(schema.names) == {"id", "ours", "height"}
    assert str(schema.by_name["height"].type) == "double"


def test_conflicts_name_columns(tmp_path: Path) -> None:
    repo = both(tmp_path)
    text, document = io.StringIO(), io.StringIO()

    write_conflicts_text(repo.view_conflicts(), text, WriterOptions(), 1)
    write_conflicts_json(repo.view_conflicts(), document, WriterOptions())

    assert text.getvalue() == (
        "points:\n"
        "    points:meta:\n"
        "        points:meta:schema.json\n"
        "            column ours: two names, or a name that another column has\n"
        "            column height: added on both sides\n\n"
    )
    found = json.loads(document.getvalue())["kart.conflicts/v1"]["points"]["meta"]["schema.json"]
    assert found.keys() == {"ancestor", "ours", "theirs", "columns"}
    assert found["columns"] == {"ours": ["name"], "height": ["add"]}
