"""A read without a jar, Iceberg's read of the checkout and our own scan give the same rows."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Settings
from havasu_vc.datasets.havasu.statistics import block_names
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.spark import read
from havasu_vc.workspace import incoming
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.tables import BY_ID, points, write
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Catalog = Callable[[Path], str]
Columns = list[dict[str, Any]]


class Watched:
    """A dataset along a Hilbert curve, its checkout, and three ways to read them."""

    def __init__(self, spark: "SparkSession", iceberg: Catalog, folder: Path) -> None:
        self.spark = spark
        self.repo = empty_repo(folder / "repo", settings=Settings(engine="local"))
        file = write(folder / "points.parquet", points(600))
        self.repo.import_(file, options=BY_ID, order="hilbert")
        (data,) = (self.view.file_path(entry) for entry in self.view.data_entries)
        # A scan by any of them must not be led astray by columns that are nobody's.
        assert set(block_names(2)) < set(pq.read_schema(data).names)
        self.table = f"{iceberg(Path(self.repo.workspace.check_out().root))}.points"

    @property
    def view(self) -> HavasuDataset:
        found = self.repo.dataset("points")
        assert isinstance(found, HavasuDataset)
        return found

    @property
    def columns(self) -> Columns:
        found: Columns = self.repo.get_meta("points", ["schema.json"])["schema.json"]
        return found

    def check(self) -> None:
        own = in_order(self.repo.table("points").to_arrow())
        assert in_order(read(self.spark, self.repo, "points").toArrow()) == own
        assert in_order(self.spark.table(self.table).toArrow()) == own
        window = (-100, 0, 50, 60)
        inside = read(self.spark, self.repo, "points", intersects=window, columns=["id"])
        assert 0 < inside.count() < len(own)

    def evolve(self, columns: Columns) -> None:
        self.repo.set_meta("points", {"schema.json": columns})

    def edit(self, draw: random.Random) -> None:
        ids = draw.sample(range(700), 40)
        given: dict[str, Any] = {"id": ids}
        for column in self.columns[2:]:
            if column["dataType"] == "text":
                given[column["name"]] = [f"{column['name']} {draw.random()}" for _ in ids]
            else:
                kind = pa.int32() if column["size"] == 32 else pa.int64()
                given[column["name"]] = pa.array([draw.randrange(99) for _ in ids], kind)
        self.repo.write("points", pa.table(given))
        there = self.repo.table("points").to_arrow()["id"].to_pylist()
        gone = draw.sample(sorted(there), 20)
        self.repo.write("points", pa.table({"id": gone}), mode="delete")


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.sort_by("id").to_pylist()
    return rows


@pytest.fixture
def watched(spark: "SparkSession", iceberg: Catalog, tmp_path: Path) -> Iterator[Watched]:
    with tiny_thresholds(group_rows=200):
        yield Watched(spark, iceberg, tmp_path)


def swapped(columns: Columns) -> Columns:
    *rest, first, second = columns
    names = first["name"], second["name"]
    return [*rest, {**first, "name": names[1]}, {**second, "name": names[0]}]


def reused(columns: Columns) -> Columns:
    *rest, last = columns
    again = {"name": last["name"], "dataType": "text"}
    return [*rest, {**last, "name": f"was {last['name']}"}, again]


def dropped(columns: Columns) -> Columns:
    return columns if len(columns) < 5 else columns[:-1]


def added(columns: Columns) -> Columns:
    return [*columns, {"name": f"more{len(columns)}", "dataType": "integer", "size": 32}]


def widened(columns: Columns) -> Columns:
    return [{**each, "size": 64} if each.get("size") == 32 else each for each in columns]


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happened_before(watched: Watched, seed: int) -> None:
    draw = random.Random(seed)
    steps = [swapped, reused, dropped, added, widened, swapped]
    draw.shuffle(steps)
    for step in steps[:4]:
        watched.evolve(step(watched.columns))
        watched.edit(draw)
        watched.check()


def test_files_that_spark_wrote_under_other_names(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "SMALL_FILE", 0)
    spark, table = watched.spark, watched.table
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN name TO title")
    spark.sql(f"INSERT INTO {table} SELECT id + 1000, geom, upper(title), 1 FROM {table}")
    watched.repo.workspace.commit(message="By Spark")

    foreign = [each for each in watched.view.data_entries if each.origin is Origin.FOREIGN]
    assert foreign
    assert "title" in pq.read_schema(watched.view.file_path(foreign[0])).names
    watched.check()
    watched.evolve(swapped(reused(watched.columns)))
    watched.edit(random.Random(1))
    watched.check()
