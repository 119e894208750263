"""A large edit of a table is committed by owners of intervals of keys, as one process would."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.datasets.havasu import diff, edit, ledger
from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine import dealing
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.errors import EngineError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import owned_changes, owned_deletes, owned_edits, owned_rows
from havasu_vc.model.task import Task
from havasu_vc.model.types import Field, Primitive
from havasu_vc.tables.table import read_table
from havasu_vc.workspace import incoming
from havasu_vc.workspace.taking_in import TableEdits
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.tables import points, rows, write
from tests.support.sound import LOCAL, assert_sound
from tests.support.templates import empty_repo
from tests.workspace import by_hand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 1200
KEYS = {"a number": ("id",), "text": ("name",), "a number and text": ("number", "name")}
Model = dict[int, dict[str, Any]]


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tables be dealt with as large ones, of which few rows are new."""
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 1)
    monkeypatch.setattr(owned_changes, "LEAST_ROWS", 0)
    monkeypatch.setattr(owned_deletes, "LEAST_ROWS", 0)
    monkeypatch.setattr(incoming, "SMALL_FILE", 1 << 40)
    for name in ("SMALL_ROWS", "SMALL_BYTES"):
        monkeypatch.setattr(diff, name, 0)


def edited(
    folder: Path, key: tuple[str, ...], seed: int = 1, order: str = "key"
) -> tuple[Path, Model, Model]:
    """Return a repository whose table was written anew in no order, and the rows of both."""
    folder.mkdir(exist_ok=True)
    repo = empty_repo(folder / "repo", settings=LOCAL)
    with tiny_thresholds(group_rows=64, most_deltas=9):
        repo.import_(
            write(folder / "points.parquet", points(COUNT)),
            "points",
            options=SourceOptions(primary_key=key),
            order=order,
        )
        for start in (COUNT, 2 * COUNT):
            repo.write("points", points(COUNT // 4, start=start), mode="append")
    repo.workspace.check_out()
    before = {row["id"]: row for row in rows(repo, "points")}
    random_ = random.Random(seed)
    after: Model = {}
    for number, row in before.items():
        chance = random_.random()
        if chance > 0.1:
            changed = {**row, "geom": before[0]["geom"]}
            after[number] = changed if chance < 0.4 else row
    for row in points(200, start=COUNT + 100).to_pylist():
        after.setdefault(row["id"], row)
    shuffled = list(after.values())
    random_.shuffle(shuffled)
    place = repo.workspace.root / "points"
    by_hand.rewrite(place, shuffled[: COUNT // 2])
    for start in range(COUNT // 2, len(shuffled), COUNT // 2):
        by_hand.insert(place, shuffled[start : start + COUNT // 2])
    return repo.path, before, after


def committed(path: Path, settings: Settings) -> tuple[Any, ...]:
    """Commit what is edited, and return all that may be seen of it."""
    repo = Repo.open(path, settings=settings)
    result = repo.workspace.commit(message="Edit")
    assert list(repo.fsck(full=True)) == []
    assert_sound(repo)
    view = require_files(repo.dataset("points"))
    changes = [batch.data for each in repo.diff("HEAD^...HEAD") for batch in each.changes]
    told = pa.Table.from_batches(changes).to_pylist()
    return result.changes, told, view.snapshot.digests, rows(repo, "points")


def held(found: tuple[Any, ...]) -> Model:
    return {row["id"]: row for row in found[-1]}


@pytest.mark.parametrize("few", [0, 1_000_000])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.few(1)
def test_owners_commit_as_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, few: int
) -> None:
    monkeypatch.setattr(owned_edits, "FEW_ROWS", few)
    repo, before, after = edited(tmp_path, KEYS[key])
    alone = edited(tmp_path / "alone", KEYS[key])[0]
    by_owners = committed(repo, LOCAL)
    monkeypatch.setattr(owned_changes, "LEAST_ROWS", 1 << 40)
    assert by_owners == committed(alone, LOCAL)
    assert held(by_owners) == after
    counts = by_owners[0]["points"]
    both = before.keys() & after.keys()
    assert counts.updates == sum(before[key] != after[key] for key in both)
    assert (counts.inserts, counts.deletes) == (
        len(after.keys() - both),
        len(before.keys() - both),
    )


@pytest.mark.parametrize("key", [("id",), ()])
@pytest.mark.few(1)
def test_owners_commit_what_lies_in_no_key_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    asked: list[str] = []
    given = owned_rows.owned_rows

    def spied(edit_: edit.Edit, *how: Any, **more: Any) -> None:
        asked.append(edit_.dataset.path)
        given(edit_, *how, **more)

    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 20_000)
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    monkeypatch.setattr(owned_changes, "owned_rows", spied)
    repo, _, after = edited(tmp_path, key, order="hilbert")
    alone = edited(tmp_path / "alone", key, order="hilbert")[0]
    by_owners = committed(repo, LOCAL)
    assert asked == ["points"]
    monkeypatch.setattr(owned_changes, "LEAST_ROWS", 1 << 40)
    assert by_owners == committed(alone, LOCAL)
    assert asked == ["points"] and held(by_owners) == after


def test_rows_that_get_lost_on_their_way_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before, _ = edited(tmp_path, ("id",))
    given_to = dealing.given_to

    def telling_more(owner: Task, pieces: Sequence[dealing.OwnedPiece]) -> Task:
        return given_to(owner, [(count + 1, task) for count, task in pieces])

    monkeypatch.setattr(dealing, "given_to", telling_more)
    repo = Repo.open(path, settings=LOCAL)
    head = repo.opened.head().commit
    with pytest.raises(EngineError, match="reached the task that was to compare them"):
        repo.workspace.commit(message="Edit")
    assert repo.opened.head().commit == head
    assert {row["id"]: row for row in rows(repo, "points")} == before


def test_spark_commits_as_threads_do(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    path, _, after = edited(tmp_path, ("id",))
    other = edited(tmp_path / "there", ("id",))[0]
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    found = [committed(path, LOCAL), committed(other, there)]
    assert found[0] == found[1]
    assert held(found[0]) == after


def marked(folder: Path, key: tuple[str, ...], *, updates: bool) -> tuple[Path, Model]:
    """Return a repository in whose table rows were deleted where they stand, and what is left.

    One of its files has lost rows before, one loses all, one most, the others few. With
    `updates` a third of the rows that go come again in a file of their own.
    """
    folder.mkdir(exist_ok=True)
    repo = empty_repo(folder / "repo", settings=LOCAL)
    with tiny_thresholds(group_rows=64, most_deltas=9):
        first = write(folder / "points.parquet", points(300))
        repo.import_(first, "points", options=SourceOptions(primary_key=key))
        for start in range(300, COUNT + 300, 300):
            repo.write("points", points(300, start=start), mode="append")
    repo.workspace.check_out()
    place = repo.workspace.root / "points"
    paths = by_hand.live_paths(read_table(place))
    numbers = [pq.read_table(path, columns=["id"])["id"].to_pylist() for path in paths]
    by_hand.delete(place, {number: range(3, 50, 5) for number in (0, 2)})
    repo.workspace.commit(message="Delete")
    after = {row["id"]: row for row in rows(repo, "points")}
    gone = {0: range(0, 300, 60), 1: range(300), 2: range(10, 300, 2), 3: range(0, 300, 7)}
    by_hand.delete(place, gone)
    left = [after.pop(numbers[file][at], None) for file in gone for at in gone[file]]
    if updates:
        come = [{**row, "geom": left[1]["geom"]} for row in left[::3] if row and left[1]]
        by_hand.insert(place, come)
        after |= {row["id"]: row for row in come}
    return repo.path, after


@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("few", [0, 1_000_000])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.thorough
def test_owners_take_away_what_was_deleted_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, few: int, updates: bool
) -> None:
    monkeypatch.setattr(owned_edits, "FEW_ROWS", few)
    monkeypatch.setattr(incoming, "SMALL_FILE", 0)
    monkeypatch.setattr(ledger, "MOST_KEYS", 100)
    monkeypatch.setattr(edit, "MOST_KEYS", 100)
    alone = marked(tmp_path / "alone", KEYS[key], updates=updates)[0]
    path, after = marked(tmp_path, KEYS[key], updates=updates)
    with monkeypatch.context() as patch:
        patch.setattr(incoming, "_rows_at", refusing)
        by_owners = committed(path, LOCAL)
    monkeypatch.setattr(owned_deletes, "LEAST_ROWS", 1 << 40)
    assert by_owners == committed(alone, LOCAL)
    assert held(by_owners) == after


def altered(place: Path) -> None:
    """Give a table a column more, one less and one under another name."""
    fields = [f for f in read_table(place).metadata.schema.fields if f.name != "number"]
    named = [replace(f, name="title") if f.name == "name" else f for f in fields]
    last = max(field.id for field in read_table(place).metadata.schema.fields)
    by_hand.alter(place, [*named, Field(last + 1, "note", Primitive.STRING)])


@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("few", [0, pytest.param(1_000_000, marks=pytest.mark.thorough)])
def test_owners_take_rows_away_where_columns_change_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int, updates: bool
) -> None:
    monkeypatch.setattr(owned_edits, "FEW_ROWS", few)
    monkeypatch.setattr(incoming, "SMALL_FILE", 0)
    monkeypatch.setattr(ledger, "MOST_KEYS", 100)
    monkeypatch.setattr(edit, "MOST_KEYS", 100)
    alone = marked(tmp_path / "alone", ("id",), updates=updates)[0]
    path, after = marked(tmp_path, ("id",), updates=updates)
    for each in (alone, path):
        altered(Repo.open(each, settings=LOCAL).workspace.root / "points")
    with monkeypatch.context() as patch:
        patch.setattr(incoming, "_rows_at", refusing)
        by_owners = committed(path, LOCAL)
    monkeypatch.setattr(owned_deletes, "LEAST_ROWS", 1 << 40)
    assert by_owners == committed(alone, LOCAL)
    wanted = {}
    for key, row in after.items():
        kept = {name: value for name, value in row.items() if name not in ("number", "name")}
        wanted[key] = {**kept, "title": row["name"], "note": None}
    assert held(by_owners) == wanted


def test_executors_take_away_what_was_deleted_in_place(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    monkeypatch.setattr(incoming, "_rows_at", refusing)
    path, after = marked(tmp_path, ("id",), updates=False)
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    assert held(committed(path, there)) == after


def refusing(path: str, edits: TableEdits, positions: Positions) -> tuple[()]:
    assert not len(positions), "the driver reads no rows"
    return ()
