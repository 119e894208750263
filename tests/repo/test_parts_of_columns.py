"""Parts of structs, lists and maps that go on being what they were when others change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.cli.main import cli, run
from tests.repo.tables import BY_ID, rows, write
from tests.support.templates import empty_repo

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
Column = dict[str, Any]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    table = pa.table(
        {
            "id": range(4),
            "name": [f"n{n}" for n in range(4)],
            "one": pa.array([{"a": n, "b": f"b{n}"} if n else None for n in range(4)], STRUCT),
            "many": pa.array([[{"a": n, "b": f"b{n}"}] * n for n in range(4)], pa.list_(STRUCT)),
            "named": pa.array(
                [[("k", {"a": n, "b": f"b{n}"})] for n in range(4)], pa.map_(pa.string(), STRUCT)
            ),
        }
    )
    found = empty_repo(tmp_path / "repo")
    found.import_(write(tmp_path / "things.parquet", table), options=BY_ID)
    return found


def change(repo: Repo, edit: Callable[[list[Column]], list[Column]]) -> None:
    """Commit other parts of each column, then write a row anew."""
    columns = {each["name"]: each for each in repo.get_meta("things")["schema.json"]}
    for struct in (columns["one"], columns["many"]["element"], columns["named"]["value"]):
        struct["fields"] = edit(struct["fields"])
    repo.set_meta("things", {"schema.json": list(columns.values())})
    repo.write("things", pa.table({"id": [2], "name": ["written"]}))


def assert_parts(repo: Repo, part: Callable[[int], dict[str, Any]]) -> None:
    assert [
        (row["name"], row["one"], row["many"], row["named"]) for row in rows(repo, "things")
    ] == [
        (
            "written" if n == 2 else f"n{n}",
            part(n) if n else None,
            [part(n)] * n,
            [("k", part(n))],
        )
        for n in range(4)
    ]
    assert run(cli, ["-C", str(repo.path), "fsck"]) == 0


def test_a_part_is_dropped_and_the_others_stay(repo: Repo) -> None:
    change(repo, lambda parts: parts[1:])
    assert_parts(repo, lambda n: {"b": f"b{n}"})


@pytest.mark.thorough
def test_a_part_is_added_beside_the_others(repo: Repo) -> None:
    change(repo, lambda parts: [{"name": "c", "dataType": "date"}, *parts])
    assert_parts(repo, lambda n: {"c": None, "a": n, "b": f"b{n}"})


def test_a_part_gets_another_name(repo: Repo) -> None:
    change(repo, lambda parts: [parts[0], {**parts[1], "name": "renamed"}])
    assert_parts(repo, lambda n: {"a": n, "renamed": f"b{n}"})


@pytest.mark.thorough
def test_all_parts_are_others(repo: Repo) -> None:
    change(repo, lambda parts: [{"name": "c", "dataType": "date"}])
    assert_parts(repo, lambda n: {"c": None})
