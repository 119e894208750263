"""A column that one side dropped while the other changed values in it: nothing goes in silence."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.cli.main import cli, run
from havasu_vc.history.merging import MergePolicy, Side
from havasu_vc.repo import Repo
from havasu_vc.writers.conflicts_geojson import write_conflicts_geojson
from havasu_vc.writers.conflicts_json import write_conflicts_json
from havasu_vc.writers.conflicts_text import write_conflicts_text
from havasu_vc.writers.protocol import WriterOptions
from tests.repo.points import assert_clean, make
from tests.repo.tables import BY_ID
from tests.repo.tables import write as write_file
from tests.repo.test_column_conflicts import change, dropped

LABEL = "points:meta:schema.json"
ROWS = {number: (f"n{number}", number) for number in range(6)}


def drop(repo: Repo) -> None:
    """Drop the column and touch a row, which is written without it."""
    change(repo, dropped)
    update(repo, id=1, name="touched")


def edit(repo: Repo) -> None:
    update(repo, id=2, height=22)


def update(repo: Repo, **cells: Any) -> None:
    types = {"id": pa.int64(), "height": pa.int32(), "name": pa.string()}
    repo.write("points", pa.table({n: pa.array([v], types[n]) for n, v in cells.items()}))


def diverged(
    folder: Path, ours: Callable[[Repo], object], theirs: Callable[[Repo], object]
) -> Repo:
    repo = make(folder / "repo", ROWS)
    repo.create_branch("side")
    ours(repo)
    repo.switch("side")
    theirs(repo)
    repo.switch("main")
    return repo


def rows(repo: Repo) -> dict[int, dict[str, Any]]:
    found = repo.table("points").to_arrow().to_pylist()
    return {row.pop("id"): row for row in sorted(found, key=lambda row: row["id"])}


def expected(*, kept: bool, height: int = 22) -> dict[int, dict[str, Any]]:
    """Return the rows with the edits of both sides, with the column or without."""
    heights = {number: height if number == 2 else number for number in ROWS}
    names = {number: "touched" if number == 1 else f"n{number}" for number in ROWS}
    return {n: {"name": names[n], **({"height": heights[n]} if kept else {})} for n in ROWS}


def assert_sound(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that sums and files agree, as `fsck` finds."""
    assert_clean(repo)
    assert run(cli, ["-C", str(repo.path), "fsck"]) == 0
    assert "sound" in capsys.readouterr().err


SIDES = {"dropped here": (drop, edit, "theirs"), "dropped there": (edit, drop, "ours")}


@pytest.mark.parametrize("answer", ["ours", "theirs"])
@pytest.mark.parametrize("case", SIDES)
def test_the_column_is_in_conflict_and_resolved(
    tmp_path: Path, case: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs, keeps = SIDES[case]
    repo = diverged(tmp_path, ours, theirs)

    result = repo.merge("side")

    assert result.kind == "conflicts"
    (found,) = repo.conflicts()
    assert {name: each.kinds for name, each in found.columns.items()} == {"height": ("edit",)}
    assert found.rows is None and found.unresolved == 1
    assert run(cli, ["-C", str(repo.path), "resolve", LABEL, f"--with={answer}"]) == 0
    repo.continue_merge()
    assert rows(repo) == expected(kept=answer == keeps)
    assert_sound(repo, capsys)


@pytest.mark.parametrize("answer", ["ours", "theirs"])
@pytest.mark.parametrize("case", SIDES)
def test_a_policy_decides(
    tmp_path: Path, case: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs, keeps = SIDES[case]
    repo = diverged(tmp_path, ours, theirs)

    assert run(cli, ["-C", str(repo.path), "merge", "side", f"-X{answer}"]) == 0

    assert rows(repo) == expected(kept=answer == keeps)
    assert_sound(repo, capsys)


def test_a_policy_of_the_column_decides(tmp_path: Path) -> None:
    repo = diverged(tmp_path, drop, edit)
    repo.merge("side", policy=MergePolicy(columns={"height": Side.THEIRS}))
    assert rows(repo) == expected(kept=True)


def test_conflicts_name_the_column(tmp_path: Path) -> None:
    repo = diverged(tmp_path, drop, edit)
    repo.merge("side")

    def written(write: Callable[..., int], **how: Any) -> str:
        out = io.StringIO()
        assert write(repo.view_conflicts(), out, WriterOptions(**how)) == 1
        return out.getvalue()

    text = written(write_conflicts_text)
    assert "column height: dropped on one side, values in it changed on the other" in text
    found = json.loads(written(write_conflicts_json))
    (meta,) = [each["meta"] for each in found["kart.conflicts/v1"].values()]
    assert meta["schema.json"]["columns"] == {"height": ["edit"]}
    collection = json.loads(written(write_conflicts_geojson))
    assert collection["features"] == []
    assert collection["columns"] == {"height": ["edit"]}


def nothing(repo: Repo) -> None:
    update(repo, id=3, name="more")


@pytest.mark.parametrize("case", ["dropped here", "dropped there"])
def test_values_that_nobody_changed_are_no_conflict(tmp_path: Path, case: str) -> None:
    sides = (drop, nothing) if case == "dropped here" else (nothing, drop)
    repo = diverged(tmp_path, *sides)
    assert repo.merge("side").kind == "merge"
    assert repo.dataset("points").schema.names == ("id", "name")
    assert rows(repo)[3] == {"name": "more"}


def test_a_value_in_a_new_row_is_a_value(tmp_path: Path) -> None:
    repo = diverged(tmp_path, drop, lambda repo: update(repo, id=9, name="new", height=9))
    assert repo.merge("side").kind == "conflicts"
    repo.resolve_conflicts([LABEL], choice="theirs")
    repo.continue_merge()
    assert rows(repo)[9] == {"name": "new", "height": 9}


def test_a_new_row_without_a_value_is_no_conflict(tmp_path: Path) -> None:
    repo = diverged(tmp_path, drop, lambda repo: update(repo, id=9, name="new"))
    assert repo.merge("side").kind == "merge"
    assert rows(repo)[9] == {"name": "new"}


@pytest.mark.parametrize("answer", ["ours", "theirs", "base"])
def test_rows_in_conflict_get_the_column_back(
    tmp_path: Path, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell of a row that ours wrote without the column is in conflict as well."""

    def theirs(repo: Repo) -> None:
        edit(repo)
        update(repo, id=1, name="theirs")
        repo.write("points", pa.table({"id": [4]}), mode="delete")

    def ours(repo: Repo) -> None:
        drop(repo)
        update(repo, id=4, name="four")

    repo = diverged(tmp_path, ours, theirs)
    repo.merge("side")
    repo.resolve_conflicts([LABEL], choice="theirs")
    repo.resolve_conflicts(["points:feature:1"], choice=answer)
    repo.resolve_conflicts(["points:feature:4"], choice="ours")
    repo.continue_merge()
    names = {"ours": "touched", "theirs": "theirs", "base": "n1"}
    wanted = expected(kept=True)
    assert rows(repo) == {
        **wanted,
        1: {"name": names[answer], "height": 1},
        4: {"name": "four", "height": 4},
    }
    assert_sound(repo, capsys)


def test_a_large_table_gets_the_column_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files from before hold the column still, files that were written since do not."""
    count = 60_000
    table = pa.table(
        {
            "id": range(count),
            "name": [f"{n} {n * 7919 % 104729:x}" for n in range(count)],
            "height": pa.array([n * 104729 % 7919 for n in range(count)], pa.int32()),
        }
    )
    before = {row["id"]: row for row in table.to_pylist()}
    repo = Repo.init(tmp_path / "repo")
    repo.import_(write_file(tmp_path / "points.parquet", table), options=BY_ID)
    repo.create_branch("side")
    drop(repo)
    repo.write("points", pa.table({"id": [50], "name": ["fifty"]}))
    repo.write("points", pa.table({"id": [60]}), mode="delete")
    repo.write("points", pa.table({"id": [count], "name": ["ours"]}))
    repo.switch("side")
    edit(repo)
    repo.write("points", pa.table({"id": [70]}), mode="delete")
    repo.switch("main")

    repo.merge("side", policy=MergePolicy(side=Side.THEIRS))

    del before[60], before[70]
    before[1]["name"], before[50]["name"], before[2]["height"] = "touched", "fifty", 22
    before[count] = {"id": count, "name": "ours", "height": None}
    assert {row["id"]: row for row in repo.table("points").to_arrow().to_pylist()} == before
    assert_sound(repo, capsys)


PARTS = pa.struct([("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize("answer", ["ours", "theirs"])
@pytest.mark.parametrize("case", ["dropped here", "dropped there"])
def test_a_part_of_a_struct(
    tmp_path: Path, case: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.table(
        {
            "id": range(4),
            "name": [f"n{n}" for n in range(4)],
            "parts": pa.array([{"a": n, "b": f"b{n}"} for n in range(4)], PARTS),
        }
    )
    repo = Repo.init(tmp_path / "repo")
    repo.import_(write_file(tmp_path / "points.parquet", table), options=BY_ID)

    def without(repo: Repo) -> None:
        columns = repo.get_meta("points")["schema.json"]
        (part,) = [each for each in columns if each["name"] == "parts"]
        part["fields"] = [each for each in part["fields"] if each["name"] != "a"]
        repo.set_meta("points", {"schema.json": columns})
        update(repo, id=1, name="touched")

    def edited(repo: Repo) -> None:
        cells = pa.array([{"a": 22, "b": "b2"}], PARTS)
        repo.write("points", pa.table({"id": [2], "parts": cells}))

    sides = (without, edited) if case == "dropped here" else (edited, without)
    repo.create_branch("side")
    sides[0](repo)
    repo.switch("side")
    sides[1](repo)
    repo.switch("main")

    assert repo.merge("side").kind == "conflicts"
    (found,) = repo.conflicts()
    assert {name: each.kinds for name, each in found.columns.items()} == {"parts.a": ("edit",)}
    repo.resolve_conflicts([LABEL], columns={"parts.a": answer})
    repo.continue_merge()

    kept = answer == ("theirs" if case == "dropped here" else "ours")
    wanted = [{**({"a": 22 if n == 2 else n} if kept else {}), "b": f"b{n}"} for n in range(4)]
    found_rows = rows(repo)
    assert [row["parts"] for row in found_rows.values()] == wanted
    assert found_rows[1]["name"] == "touched"
    assert_sound(repo, capsys)
