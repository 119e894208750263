"""A column that one side dropped while the other changed values in it: nothing goes in silence."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.cli.main import cli, run
from havasu_vc.errors import ConflictError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.writers.conflicts_geojson import write_conflicts_geojson
from havasu_vc.writers.conflicts_json import write_conflicts_json
from havasu_vc.writers.conflicts_text import write_conflicts_text
from havasu_vc.writers.protocol import WriterOptions
from tests.repo.points import assert_clean, make
from tests.repo.tables import BY_ID
from tests.repo.tables import write as write_file
from tests.repo.test_column_conflicts import change, dropped, retyped, widened
from tests.support.git import run_git
from tests.support.templates import empty_repo
from tests.workspace import by_hand

pytestmark = pytest.mark.few(2)

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


@pytest.mark.few(1)
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


@pytest.mark.few(1)
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


@pytest.mark.thorough
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
    repo = empty_repo(tmp_path / "repo")
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


Value = dict[str, Any]
SHAPES: dict[str, tuple[pa.DataType, Callable[[Value], Any], str]] = {
    "a struct": (PARTS, lambda value: value, ""),
    "a list": (pa.list_(PARTS), lambda value: [value, value], "element"),
    "a map": (pa.map_(pa.string(), PARTS), lambda value: [("k", value)], "value"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("answer", ["ours", "theirs"])
@pytest.mark.parametrize("case", ["dropped here", "dropped there"])
def test_a_part_of_a_column(
    tmp_path: Path, case: str, answer: str, shape: str, capsys: pytest.CaptureFixture[str]
) -> None:
    type_, shaped, within = SHAPES[shape]
    cells = pa.array([shaped({"a": n, "b": f"b{n}"}) for n in range(4)], type_)
    names = [f"n{n}" for n in range(4)]
    table = pa.table({"id": range(4), "name": names, "parts": cells})
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write_file(tmp_path / "points.parquet", table), options=BY_ID)

    def without(repo: Repo) -> None:
        columns = repo.get_meta("points")["schema.json"]
        (part,) = [each for each in columns if each["name"] == "parts"]
        part = part[within] if within else part
        part["fields"] = [each for each in part["fields"] if each["name"] != "a"]
        repo.set_meta("points", {"schema.json": columns})
        update(repo, id=1, name="touched")

    def edited(repo: Repo) -> None:
        cells = pa.array([shaped({"a": 22, "b": "b2"})], type_)
        repo.write("points", pa.table({"id": [2], "parts": cells}))

    sides = (without, edited) if case == "dropped here" else (edited, without)
    repo.create_branch("side")
    sides[0](repo)
    repo.switch("side")
    sides[1](repo)
    repo.switch("main")

    assert repo.merge("side").kind == "conflicts"
    (found,) = repo.conflicts()
    part = ".".join(filter(None, ("parts", within, "a")))
    assert {name: each.kinds for name, each in found.columns.items()} == {part: ("edit",)}
    repo.resolve_conflicts([LABEL], columns={part: answer})
    repo.continue_merge()

    kept = answer == ("theirs" if case == "dropped here" else "ours")
    wanted = [
        shaped({**({"a": 22 if n == 2 else n} if kept else {}), "b": f"b{n}"}) for n in range(4)
    ]
    found_rows = rows(repo)
    assert [row["parts"] for row in found_rows.values()] == wanted
    assert found_rows[1]["name"] == "touched"
    assert_sound(repo, capsys)


# The same merge, by other names


def test_a_cherry_pick(tmp_path: Path) -> None:
    repo = diverged(tmp_path, drop, edit)
    assert repo.cherry_pick("side").kind == "conflicts"
    repo.resolve_conflicts([LABEL], choice="theirs")
    repo.continue_merge()
    assert rows(repo) == expected(kept=True)


def test_a_revert_of_what_added_the_column(tmp_path: Path) -> None:
    """To take the column back is to drop it, and values were written into it since."""
    repo = make(tmp_path / "repo", ROWS)
    columns = repo.get_meta("points")["schema.json"]
    repo.set_meta("points", {"schema.json": [*columns, {"name": "note", "dataType": "text"}]})
    added = repo.head().commit
    assert added is not None
    repo.write("points", pa.table({"id": [3], "note": ["kept"]}))
    assert repo.revert(added).kind == "conflicts"
    (found,) = repo.conflicts()
    assert {name: each.kinds for name, each in found.columns.items()} == {"note": ("edit",)}
    repo.resolve_conflicts([LABEL], choice="ours")
    repo.continue_merge()
    assert rows(repo)[3] == {"name": "n3", "height": 3, "note": "kept"}
    assert repo.revert(added, policy=MergePolicy(side=Side.THEIRS)).kind == "revert"
    assert "note" not in repo.dataset("points").schema.by_name


def test_a_pull(tmp_path: Path) -> None:
    theirs = make(tmp_path / "there" / "repo", ROWS)
    run_git("clone", "-q", str(theirs.path), str(tmp_path / "here"), cwd=tmp_path)
    ours = Repo.open(tmp_path / "here")
    run_git("config", "pull.rebase", "false", cwd=ours.path)
    assert run(cli, ["-C", str(ours.path), "data", "fetch"]) == 0
    edit(theirs)
    drop(ours)
    assert run(cli, ["-C", str(ours.path), "pull"]) == 0
    (found,) = ours.conflicts()
    assert {name: each.kinds for name, each in found.columns.items()} == {"height": ("edit",)}
    ours.resolve_conflicts([LABEL], choice="theirs")
    ours.continue_merge()
    assert rows(ours) == expected(kept=True)


def execute(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()


def test_sums_of_a_column_that_git_brings_back_are_made_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """git reverts the drop, and no delta has taken away what a row deleted meanwhile had in it."""
    repo = make(tmp_path / "repo", ROWS)
    change(repo, dropped)
    dropping = repo.head().commit
    update(repo, id=1, name="touched")
    run_git("revert", "--no-edit", str(dropping), cwd=repo.path)
    repo = Repo.open(repo.path)
    found = rows(repo)
    assert found[1] == {"name": "touched", "height": None}
    assert found[2] == {"name": "n2", "height": 2}
    here = ["-C", str(repo.path)]
    assert run(cli, [*here, "fsck", "--full"]) == 1
    assert "in column height" in (told := capsys.readouterr().out)
    assert "`havasu-vc repair points` makes them anew" in told
    assert run(cli, [*here, "optimize"]) == 11
    assert "`havasu-vc repair points` makes the sums anew" in capsys.readouterr().err

    assert run(cli, [*here, "repair", "points"]) == 0

    assert "its sums are made anew from its rows" in capsys.readouterr().err
    assert run(cli, [*here, "fsck", "--full"]) == 0
    assert rows(Repo.open(repo.path)) == found
    assert_clean(Repo.open(repo.path))
    assert run(cli, [*here, "optimize"]) == 0
    assert run(cli, [*here, "fsck", "--full"]) == 0
    assert rows(Repo.open(repo.path)) == found
    assert run(cli, [*here, "repair", "points"]) == 0
    assert "need no repair" in capsys.readouterr().err


def test_edits_of_a_copy_of_before(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", ROWS)
    repo.checkout_as(tmp_path / "copy.gpkg")
    drop(repo)
    execute(tmp_path / "copy.gpkg", "update points set height = 22 where id = 2")
    head = repo.head().commit
    with pytest.raises(ConflictError, match="HEAD has changed the same"):
        repo.commit_from(tmp_path / "copy.gpkg")
    assert repo.head().commit == head


def test_a_stash_and_a_commit_of_edited_tables(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", ROWS)
    repo.workspace.check_out()
    place = repo.workspace.root / "points"
    edited: by_hand.Rows = [{"id": 2, "name": "n2", "height": 22}]
    by_hand.delete(place, [2])
    by_hand.insert(place, edited)
    repo.workspace.stash()
    drop(repo)
    with pytest.raises(ConflictError, match="points"):
        repo.workspace.apply_stash(drop=True)
    assert len(repo.workspace.stashes()) == 1
    assert rows(repo)[2] == {"name": "n2"}


@pytest.mark.parametrize("case", ["widened here", "widened there"])
def test_a_type_that_is_wider_takes_the_edit_along(tmp_path: Path, case: str) -> None:
    def wider(repo: Repo) -> None:
        change(repo, widened)
        update(repo, id=1, name="touched")

    sides = (wider, edit) if case == "widened here" else (edit, wider)
    repo = diverged(tmp_path, *sides)
    assert repo.merge("side").kind == "merge"
    assert str(repo.dataset("points").schema.by_name["height"].type) == "long"
    assert rows(repo) == expected(kept=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("answer", ["ours", "theirs"])
@pytest.mark.parametrize("case", ["retyped here", "retyped there"])
def test_another_type_is_another_column(tmp_path: Path, case: str, answer: str) -> None:
    """A column of text instead of numbers: the numbers that were edited are asked for."""

    def other(repo: Repo) -> None:
        change(repo, retyped(dataType="text"))
        repo.write("points", pa.table({"id": [2], "height": ["two"]}))

    here = case == "retyped here"
    repo = diverged(tmp_path, *((other, edit) if here else (edit, other)))
    assert repo.merge("side").kind == "conflicts"
    repo.resolve_conflicts([LABEL], choice=answer)
    repo.continue_merge()
    retyped_side = "ours" if here else "theirs"
    value: Any = "two" if answer == retyped_side else 22
    assert rows(repo)[2]["height"] == value


def test_kart_merges_it_as_ever(tmp_path: Path) -> None:
    """Kart's features keep what they were stored with, whatever the schema shows of it."""
    repo = empty_repo(tmp_path / "repo", kart=True)
    table = pa.table(
        {"id": range(6), "name": list("abcdef"), "height": pa.array(range(6), pa.int32())}
    )
    repo.import_(write_file(tmp_path / "points.parquet", table), options=BY_ID)
    repo.create_branch("side")
    change(repo, dropped)
    repo.switch("side")
    edit(repo)
    blobs = run_git("ls-tree", "-r", "HEAD", "--", "points/.table-dataset/feature", cwd=repo.path)
    repo.switch("main")
    schema = run_git("rev-parse", "HEAD:points/.table-dataset/meta/schema.json", cwd=repo.path)
    assert repo.merge("side").kind == "merge"
    merged = run_git("ls-tree", "-r", "HEAD", "--", "points/.table-dataset/feature", cwd=repo.path)
    assert merged == blobs
    assert schema == run_git(
        "rev-parse", "HEAD:points/.table-dataset/meta/schema.json", cwd=repo.path
    )


@pytest.mark.parametrize("edited", [False, True])
def test_rows_without_a_key_lose_a_column_that_theirs_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edited: bool
) -> None:
    def release(*rows: tuple[object, ...]) -> None:
        columns = dict(zip(("id", "name", "part"), zip(*rows, strict=True), strict=False))
        file = write_file(tmp_path / "t.parquet", pa.table(columns))
        repo.import_(file, "t", options=SourceOptions(primary_key=()), replace=True)

    repo = empty_repo(tmp_path / "repo")
    base = ((1, "a", "x"), (2, "b", "x"), (2, "b", "x"), (3, "c", "y"))
    release(*base)
    repo.create_branch("dev")
    release(*base[:-1], (4, "d", "z"))
    repo.switch("dev")
    release((1, "changed" if edited else "a"), (2, "b"), (2, "b"), (3, "c"))
    repo.switch("main")
    assert repo.merge("dev").kind == "conflicts"
    repo.resolve_conflicts(choice="theirs")
    repo.continue_merge()
    held = sorted((row["id"], row["name"]) for row in repo.table("t").to_arrow().to_pylist())
    assert held == [(1, "changed" if edited else "a"), (2, "b"), (2, "b"), (4, "d")]
    assert repo.dataset("t").schema.names == ("id", "name")
    assert_sound(repo, capsys)
    assert list(repo.fsck(full=True)) == []


def test_a_row_in_conflict_is_shown_with_the_columns_that_each_version_has(tmp_path: Path) -> None:
    repo = diverged(tmp_path, drop, lambda repo: update(repo, id=1, name="theirs"))
    assert repo.merge("side").kind == "conflicts"

    out = io.StringIO()
    write_conflicts_json(repo.view_conflicts(), out, WriterOptions())

    row = json.loads(out.getvalue())["kart.conflicts/v1"]["points"]["feature"]["1"]
    assert row["ancestor"]["height"] == row["theirs"]["height"] == 1
    assert row["ours"] == {"id": 1, "name": "touched"}
    for by_key in (False, True):
        out = io.StringIO()
        write_conflicts_text(repo.view_conflicts(by_key=by_key), out, WriterOptions())
        assert out.getvalue().count("height = 1\n") == 2
