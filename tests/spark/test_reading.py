"""What Spark reads without a jar is what our own scan reads, whatever happened before."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu import writing
from havasu_vc.datasets.havasu.parquet import splits_streams
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.session import setting
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.history.diff import row_changes
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.spark import live_rows
from havasu_vc.spark.changing import difference
from havasu_vc.spark.reading import read_view
from havasu_vc.spark.rows import shown_rows, shown_schema
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets, run_all
from havasu_vc.testing.tables import Row
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.points import make
from tests.spark.versions import Past
from tests.support.examples import examples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLES = examples(
    12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="havasu-spark-"))
    yield made
    shutil.rmtree(made)


def rows_of_frame(frame: "DataFrame") -> list[str]:
    return sorted(map(repr, frame.toArrow().to_pylist()))


def rows_of_scan(view: HavasuDataset) -> list[str]:
    batches = [shown_rows(batch, view.schema) for batch in run_all(view.scan())]
    return sorted(map(repr, pa.Table.from_batches(batches, shown_schema(view.schema)).to_pylist()))


@EXAMPLES
@given(data=st.data())
def test_a_read_is_the_scan(spark: "SparkSession", folder: Path, data: st.DataObject) -> None:
    with tiny_thresholds():
        past = Past(MemoryDatasets(folder), data)
        for _ in range(4):
            past.step()
    for version in past.versions[-2:]:
        view = version.dataset
        frame = read_view(spark, view)

        assert frame.columns == list(view.schema.names)
        assert rows_of_frame(frame) == rows_of_scan(view)
        assert frame.count() == len(version.rows)


@EXAMPLES
@given(data=st.data())
def test_a_changelog_is_the_diff(spark: "SparkSession", folder: Path, data: st.DataObject) -> None:
    with tiny_thresholds(diffs=data.draw(st.booleans())):
        past = Past(MemoryDatasets(folder), data)
        for _ in range(3):
            past.step()
        old, new = past.versions[0].dataset, past.versions[-1].dataset
        with LocalEngine(threads=1) as engine:
            found = difference(spark, old, new).toArrow().to_pylist()
            expected: list[Any] = []
            for batch in row_changes(old, new, engine):
                for before, after in zip(batch.old, batch.new, strict=True):
                    sides = [before.is_valid, after.is_valid]
                    expected += {
                        (True, True): ["UPDATE_BEFORE", "UPDATE_AFTER"],
                        (True, False): ["DELETE"],
                        (False, True): ["INSERT"],
                    }[tuple(sides)]

    assert sorted(row["_change_type"] for row in found) == sorted(expected)
    wanted = rows_of_scan(new)
    for row in found:
        if row.pop("_change_type") in ("INSERT", "UPDATE_AFTER"):
            assert repr(row) in wanted


LONG, TEXT = Primitive.LONG, Primitive.STRING
BEFORE = Schema((Field(1, "id", LONG, required=True), Field(2, "name", TEXT)), (1,))


@pytest.mark.parametrize("name", ["name", "NAME"])
def test_a_name_that_is_used_again_reads_no_other_column(
    spark: "SparkSession", folder: Path, name: str
) -> None:
    datasets = MemoryDatasets(folder)
    rows: list[Row] = [{1: number, 2: "old"} for number in range(5)]
    with tiny_thresholds():
        view = datasets.new(BEFORE, rows)
        view = datasets.evolve(view, Schema(BEFORE.fields[:1], (1,)))
        view = datasets.evolve(view, Schema((BEFORE.fields[0], Field(3, name, TEXT)), (1,)))
        changes = changes_between([], [{1: 9, 3: "new"}], view.schema)
        view = datasets.apply(view, stream_of(changes, view.schema))
    assert len(view.entries) == 2

    found = read_view(spark, view, where=f"{name} = 'new' OR {name} IS NULL").collect()

    assert sorted(found) == [(0, None), (1, None), (2, None), (3, None), (4, None), (9, "new")]


def test_files_that_sparks_reader_cannot_read(
    spark: "SparkSession", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = writing.choose_encodings

    def with_split_streams(
        physical: pa.Schema, sample: pa.RecordBatch
    ) -> tuple[dict[str, str], list[str] | bool]:
        """Choose as files of ours were written at first."""
        encodings, dictionaries = before(physical, sample)
        return {**encodings, "size": "BYTE_STREAM_SPLIT"}, dictionaries

    datasets = MemoryDatasets(folder)
    columns = (*BEFORE.fields, Field(3, "size", Primitive.DOUBLE))
    rows: list[Row] = [{1: number, 2: "old", 3: number / 7} for number in range(100)]
    with monkeypatch.context() as patch:
        patch.setattr(writing, "choose_encodings", with_split_streams)
        view = datasets.new(Schema(columns, (1,)), rows)
    with tiny_thresholds(group_rows=100):
        changes = changes_between(rows, [{1: 5, 2: "new", 3: 0.5}, *rows[6:]], view.schema)
        view = datasets.apply(view, stream_of(changes, view.schema))
    assert any(splits_streams(view.file_path(entry)) for entry in view.data_entries)

    frame = read_view(spark, view)

    assert rows_of_frame(frame) == rows_of_scan(view)
    few = read_view(spark, view, columns=["id"], where="size < 1").collect()
    assert sorted(few) == [(5,), (6,)]


@pytest.mark.parametrize(
    ("table", "here", "broadcast", "scans"),
    [(9999, 9, 9, 4), (9999, 9, 9, 0), (0, 9, 9, 4), (0, 0, 9, 4), (0, 0, 0, 4)],
)
def test_deletes_few_and_many(
    spark: "SparkSession",
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: int,
    here: int,
    broadcast: int,
    scans: int,
) -> None:
    monkeypatch.setattr(live_rows, "_MOST_BITS", table)
    monkeypatch.setattr(live_rows, "_MOST_TABLE", table)
    monkeypatch.setattr(live_rows, "_MOST_HERE", here)
    monkeypatch.setattr(live_rows, "_MOST_BROADCAST", broadcast)
    monkeypatch.setattr(live_rows, "_MOST_SCANS", scans)
    rows: list[Row] = [{1: number, 2: "x"} for number in range(9)]
    with tiny_thresholds(most_deltas=9):
        datasets = MemoryDatasets(folder)
        view = datasets.new(BEFORE, rows)
        for gone in (7, 2):
            after = [row for row in rows if row[1] != gone]
            view = datasets.apply(view, stream_of(changes_between(rows, after, BEFORE), BEFORE))
            rows = after
    assert len(view.entries) == 3

    assert sorted(row.id for row in read_view(spark, view).collect()) == [0, 1, 3, 4, 5, 6, 8]
    assert ("Join" in plan_of(read_view(spark, view))) == (table == 0)


@pytest.mark.parametrize("vectorised", ["true", "false"])
def test_one_scan_reads_files_with_deletes_and_those_without(
    spark: "SparkSession", tmp_path: Path, vectorised: str
) -> None:
    repo = make(tmp_path / "repo", {number: (f"n{number}", number) for number in range(3000)})
    with tiny_thresholds(group_rows=500):
        repo.write("points", pa.table({"id": [5, 640, 2999], "name": ["a", "b", "c"]}))
        repo.write("points", pa.table({"id": [6, 641]}), mode="delete")
    view = repo.dataset("points")
    assert isinstance(view, HavasuDataset)
    assert len(view.data_entries) == 2
    with setting(spark, "spark.sql.parquet.enableVectorizedReader", vectorised):
        frame = read_view(spark, view)

        assert rows_of_frame(frame) == rows_of_scan(view)
        assert frame.where("id < 700 AND id > 630").count() == 68
        plan = plan_of(frame.where("id < 9"))
    assert plan.count("FileScan") == 1
    assert "Join" not in plan
    assert "LessThan(id,9)" in plan


def test_an_unknown_spark_is_read_by_joins(
    spark: "SparkSession", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Row] = [{1: number, 2: "x"} for number in range(9)]
    with tiny_thresholds(most_deltas=9):
        datasets = MemoryDatasets(folder)
        view = datasets.new(BEFORE, rows)
        changes = changes_between(rows, rows[1:], BEFORE)
        view = datasets.apply(view, stream_of(changes, BEFORE))
    for name in ("PartitionPath", "InMemoryFileIndex", "NoopCache$", "BitSet", "ExpressionUtils"):
        with monkeypatch.context() as patch:
            jvm = spark.sparkContext._jvm
            patch.setattr(spark.sparkContext, "_jvm", _Without(jvm, name))

            assert sorted(row.id for row in read_view(spark, view).collect()) == [*range(1, 9)]
            assert "Join" in plan_of(read_view(spark, view))


class _Without:
    """A JVM that has no class of some name, as if a later Spark had moved it."""

    def __init__(self, there: Any, name: str) -> None:
        self.there = there
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name == self.name:
            raise AttributeError(name)
        found = getattr(self.there, name)
        return _Without(found, self.name) if type(found).__name__ == "JavaPackage" else found


def test_filters_reach_the_reader(spark: "SparkSession", folder: Path) -> None:
    view = MemoryDatasets(folder).new(BEFORE, [{1: number, 2: "x"} for number in range(5)])
    renamed = replace(BEFORE.fields[1], name="label", physical_name="name")
    view = MemoryDatasets(folder).evolve(view, Schema((BEFORE.fields[0], renamed), (1,)))

    frame = read_view(spark, view, columns=["id"], where="label = 'x'")

    plan = plan_of(frame)
    assert "EqualTo(name,x)" in plan
    assert frame.count() == 5
    assert "ReadSchema: struct<id:bigint>" in plan_of(read_view(spark, view, columns=["id"]))


def test_files_are_left_out_by_range(spark: "SparkSession", folder: Path) -> None:
    datasets = MemoryDatasets(folder)
    with tiny_thresholds():
        view = datasets.new(BEFORE, [{1: number, 2: "x"} for number in range(5)])
        changes = changes_between([], [{1: 9, 2: "y"}], view.schema)
        view = datasets.apply(view, stream_of(changes, view.schema))

    chosen = read_view(spark, view, where={"id": (4, 8), "name": "x"})

    assert chosen.collect() == [(4, "x")]
    assert len(chosen.inputFiles()) == 1
    assert read_view(spark, view, where={"id": (20, None)}).collect() == []


def plan_of(frame: "DataFrame") -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"columns": ["no"]}, "no column 'no'"),
        ({"where": "no ="}, "the condition cannot be understood"),
        ({"where": {"id": (1, 2, 3)}}, "a range is a pair"),
        ({"where": {"no": 1}}, "no column 'no'"),
    ],
)
def test_what_cannot_be_asked(
    spark: "SparkSession", folder: Path, options: dict[str, Any], reason: str
) -> None:
    view = MemoryDatasets(folder).new(BEFORE, [])

    with pytest.raises(InvalidArgumentError, match=reason):
        read_view(spark, view, **options)
