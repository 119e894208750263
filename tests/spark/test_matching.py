"""Rows in no common order, matched by Spark: the same changes as the local engine finds."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import shapely

from havasu_vc import Settings
from havasu_vc.datasets import matching
from havasu_vc.datasets.matching import Comparison, TaskSource
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine import spark_matching
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.protocol import Engine
from havasu_vc.engine.spark import SparkEngine
from havasu_vc.errors import DataFileNotFoundError, NotFoundError
from havasu_vc.history import across
from havasu_vc.history.diff import changes_counted, row_changes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import task_of
from havasu_vc.model.types import Field, Primitive
from havasu_vc.spark.changing import difference
from havasu_vc.testing import kernels
from havasu_vc.testing.dataset_contract import FIRST, SCHEMA, SECOND, changes_between, described
from havasu_vc.testing.memory import KartDatasets, MemoryDatasets
from havasu_vc.testing.tables import canonical_row
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.tables import BY_ID, NO_KEY, write
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BY_TWO = BY_ID.__class__(primary_key=("name", "id"))
WAYS = {
    "hilbert": (BY_ID, "hilbert"),
    "two columns": (BY_TWO, "hilbert"),
    "no key": (NO_KEY, "none"),
}


@pytest.fixture
def many_intervals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a handful of rows take the paths of a large table."""
    monkeypatch.setattr(matching, "INTERVAL_BYTES", 10_000)
    monkeypatch.setattr(matching, "FETCH_BYTES", 20_000)
    monkeypatch.setattr(matching, "SAMPLE_SHARE", 2)
    monkeypatch.setattr(matching, "PART_ROWS", 300)
    with tiny_thresholds(group_rows=40, diffs=True):
        yield


def table(rows: dict[int, tuple[str, int | None]], chance: random.Random) -> pa.Table:
    """Return rows in any order; some have no geometry, and without a key many are alike."""
    ids = sorted(rows)
    chance.shuffle(ids)
    places = [shapely.to_wkb(shapely.Point(n * 7 % 360 - 180, n * 3 % 90)) for n in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "geom": pa.array(
                [None if n % 11 == 0 else p for n, p in zip(ids, places, strict=True)]
            ),
            "name": [rows[n][0] for n in ids],
            "number": pa.array([rows[n][1] for n in ids], pa.int32()),
        }
    )


def random_rows(chance: random.Random) -> dict[int, tuple[str, int | None]]:
    return {
        n: (f"row {n % 7}", chance.choice([None, 1, 2]))
        for n in chance.sample(range(900), chance.randrange(200, 700))
    }


def changes(old: Dataset, new: Dataset, engine: Engine) -> list[dict[str, Any]]:
    plan = old.compare(new)
    assert plan is not None and plan.dealt
    found = [row for batch in row_changes(old, new, engine) for row in batch.data.to_pylist()]
    counts = changes_counted(old, new, engine)
    comes, goes = (sum(row[side] is None for row in found) for side in ("old", "new"))
    assert (counts.inserts, counts.total, counts.deletes) == (comes, len(found), goes)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_random_tables_differ_as_they_do_locally(
    spark: "SparkSession", tmp_path: Path, many_intervals: None, way: str
) -> None:
    chance = random.Random(way)
    options, order = WAYS[way]
    repo = empty_repo(tmp_path / "repo")
    for name in ("a", "b"):
        version = table(random_rows(chance), chance)
        if way == "no key":
            version = version.drop_columns(["id"])
        repo.import_(write(tmp_path / "t.parquet", version), name, options=options, order=order)
        if options is BY_ID:
            repo.write(name, version.select(["id"]).slice(0, 30), mode="delete")
    views = [repo.dataset(name) for name in ("a", "b")]

    with SparkEngine(spark) as engine, LocalEngine() as local:
        for old, new in (views, views[::-1]):
            found = changes(old, new, engine)
            assert len(found) > 100 and found == changes(old, new, local)
            kinds = Counter(row["_change_type"] for row in difference(spark, old, new).collect())
            assert kinds["INSERT"] == sum(row["old"] is None for row in found)
            assert kinds["DELETE"] == sum(row["new"] is None for row in found)
            updates = len(found) - kinds["INSERT"] - kinds["DELETE"]
            assert kinds["UPDATE_BEFORE"] == kinds["UPDATE_AFTER"] == updates
        assert changes(views[0], views[0].emptied(), engine) == changes(
            views[0], views[0].emptied(), local
        )


@pytest.mark.parametrize(("way", "interval"), [("hilbert", 10_000), ("two columns", 1)])
def test_few_changes_are_found_without_moving_equal_rows(
    spark: "SparkSession",
    tmp_path: Path,
    many_intervals: None,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    interval: int,
) -> None:
    """Very few are paired by one task, more in intervals between keys that are told before."""
    monkeypatch.setattr(spark_matching, "FEW_ROWS", 0)
    monkeypatch.setattr(matching, "INTERVAL_BYTES", interval)
    monkeypatch.setattr(Comparison, "hashing", lambda _: pytest.fail("all hashes are compared"))
    chance = random.Random(way)
    options, order = WAYS[way]
    rows = {n: (f"row {n % 7}", chance.choice([None, 1, 2])) for n in range(700)}
    repo = empty_repo(tmp_path / "repo")
    for name, ordered in (("a", order), ("b", "none")):
        file = write(tmp_path / "t.parquet", table(rows, chance))
        repo.import_(file, name, options=options, order=ordered)
    with SparkEngine(spark) as engine, LocalEngine() as local:
        old, new = repo.dataset("a"), repo.dataset("b")
        assert changes(old, new, engine) == []
        assert difference(spark, old, new).count() == 0
        edited = table(rows | {700: ("row 9", None), 3: ("row 8", 1)}, chance)
        kept = pc.is_in(edited["id"], pa.array([3, 700]))
        repo.write("b", edited.filter(kept), mode="upsert")
        gone = table({5: rows[5]}, chance)
        repo.write("b", gone.select(options.primary_key or ()), mode="delete")
        views = [old, repo.dataset("b")]
        for old, new in (views, views[::-1]):
            found = changes(old, new, engine)
            assert found == changes(old, new, local)
            assert len(found) == 3
            shown = Counter(row["_change_type"] for row in difference(spark, old, new).collect())
            assert sum(shown.values()) == len(found) + shown["UPDATE_AFTER"]


def test_a_release_with_other_columns_is_the_same_edit(
    spark: "SparkSession", tmp_path: Path, many_intervals: None
) -> None:
    """One is added, one goes, one is widened; rows that differ in these alone are equal or not."""
    chance = random.Random(5)
    rows = random_rows(chance)
    old = write(tmp_path / "old.parquet", table(rows, chance))
    new = table(rows, chance).drop_columns(["name"])
    wider = new.column("number").cast(pa.int64())
    new = new.set_column(new.schema.get_field_index("number"), "number", wider)
    added = pa.array([1 if n % 5 == 0 else None for n in new["id"].to_pylist()], pa.int32())
    file = write(tmp_path / "new.parquet", new.append_column("more", added))
    found = {}
    for engine in ("local", "spark"):
        repo = empty_repo(tmp_path / engine, settings=Settings(engine=engine))
        repo.import_(old, "t", options=BY_ID, order="hilbert")
        done = repo.import_(file, "t", options=BY_ID, replace=True)
        found[engine] = (done.datasets, sorted(repo.table("t").to_arrow().to_pylist(), key=repr))
        (diff,) = repo.diff("HEAD^...HEAD")
        ids = [row["new"]["id"] for batch in diff.changes for row in batch.data.to_pylist()]
        assert ids == [n for n in sorted(rows) if n % 5 == 0]
    assert found["spark"] == found["local"]


def test_kinds_and_keys_that_differ(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(across, "SMALL_BYTES", -1)
    kart, havasu = KartDatasets(tmp_path / "kart"), MemoryDatasets(tmp_path / "havasu")
    wanted = [
        tuple(None if row is None else canonical_row(row, SCHEMA) for row in change)
        for change in changes_between(FIRST, SECOND, SCHEMA)
    ]
    name = Field(2, "name", Primitive.STRING, required=True)
    other = Schema((Field(1, "fid", Primitive.LONG), name, SCHEMA.fields[2]), (2,))
    rows = [{**row, 2: "first"} if row[1] == 0 else row for row in FIRST]
    with SparkEngine(spark) as engine:
        found = list(row_changes(havasu.new(SCHEMA, FIRST), kart.new(SCHEMA, SECOND), engine))
        assert described(found, SCHEMA, SCHEMA) == wanted
        found = list(row_changes(kart.new(SCHEMA, FIRST), kart.new(other, rows), engine))
        assert [(b.counts.inserts, b.counts.updates, b.counts.deletes) for b in found] == [
            (1, 0, 1)
        ]


NUMBERS = Schema((Field(1, "number", Primitive.LONG, required=True),), (1,))


def numbers(*starts: int) -> tuple[TaskSource, ...]:
    return tuple(TaskSource(task_of(kernels.numbers, start, 10), 10, 80) for start in starts)


def test_errors_of_executors_are_raised_as_they_are(spark: "SparkSession") -> None:
    gone = task_of(kernels.fail, "NotFoundError", ("this row is gone",), (), 1)
    broken = (*numbers(0), TaskSource(gone, 10, 80))
    with SparkEngine(spark) as engine:
        for sides in ((broken, numbers(5)), (numbers(5), broken)):
            with pytest.raises(NotFoundError, match="is gone"):
                list(engine.run_matched(Comparison(*sides, NUMBERS, NUMBERS)))


def test_a_file_that_is_not_there_is_named(
    spark: "SparkSession", tmp_path: Path, many_intervals: None
) -> None:
    chance = random.Random(3)
    repo = empty_repo(tmp_path / "repo")
    for name in ("a", "b"):
        file = write(tmp_path / "t.parquet", table(random_rows(chance), chance))
        repo.import_(file, name, options=BY_ID, order="hilbert")
    views = [repo.dataset(name) for name in ("a", "b")]
    plan = views[0].compare(views[1])
    assert plan is not None
    for file in (repo.git.data_folder / "objects").rglob("*"):
        if file.is_file():
            file.unlink()
    sides = [tuple(side) for side in plan.sides()]
    comparison = Comparison(sides[0], sides[1], plan.old_schema, plan.new_schema)
    with SparkEngine(spark) as engine, pytest.raises(DataFileNotFoundError):
        list(engine.run_matched(comparison))


def test_spark_4_0_finds_its_owners_by_hashes(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its frames cannot be told which partition a row goes to."""
    comparison = Comparison(numbers(0, 20), numbers(5, 40), NUMBERS, NUMBERS)
    monkeypatch.setattr(matching, "INTERVAL_BYTES", 100)
    monkeypatch.setattr(matching, "SAMPLE_SHARE", 1)
    monkeypatch.setattr("pyspark.__version__", "4.0.1")
    monkeypatch.setattr("pyspark.sql.classic.dataframe.DataFrame.repartitionById", None)
    with SparkEngine(spark) as engine:
        rows = [row for batch in engine.run_matched(comparison) for row in batch.to_pylist()]
    keys = [(row["new"] or row["old"])["number"] for row in rows]
    assert keys == [*range(5), *range(10, 15), *range(20, 30), *range(40, 50)]


def test_what_is_left_half_way_stops(spark: "SparkSession") -> None:
    with SparkEngine(spark) as engine:
        comparison = Comparison(numbers(0, 20), numbers(5, 40), NUMBERS, NUMBERS)
        first = engine.run_matched(comparison)
        batch = next(first)
        assert batch.num_rows == sum(b.num_rows for b in engine.run_matched(comparison))
        first.close()
        assert spark.sparkContext.parallelize([1]).count() == 1
