"""Repositories in Spark: views, changelogs, histories, and commits of frames."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.havasu.owners import OwnerReport, parse_report
from havasu_vc.errors import (
    DatasetNotFoundError,
    EngineError,
    InvalidArgumentError,
    KeyViolationError,
    SchemaViolationError,
)
from havasu_vc.history import owned_edits
from havasu_vc.spark import changes, history, read, register, write
from tests.repo import points

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: points.Rows = {number: (f"n{number}", number) for number in range(6)}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = points.make(tmp_path / "repo", ROWS)
    points.write(repo, {**ROWS, 2: ("two", 2), 7: ("n7", None)}, message="Edit")
    return repo


def frame(spark: "SparkSession", rows: points.Rows) -> Any:
    found = [(key, *values) for key, values in rows.items()]
    return spark.createDataFrame(found, "id long, name string, height int")


def test_views_of_two_revisions(spark: "SparkSession", repo: Repo, tmp_path: Path) -> None:
    points.add(repo, tmp_path, {1: ("a", 1)}, "nz/points-of")

    assert register(spark, repo, prefix="now_") == {
        "nz/points-of": "now_nz_points_of",
        "points": "now_points",
    }
    register(spark, repo.path, "HEAD~2", prefix="then_")
    query = "SELECT now.id FROM now_points now LEFT ANTI JOIN then_points old ON now.id = old.id"
    assert spark.sql(query).collect() == [(7,)]


def test_changes_of_a_range(spark: "SparkSession", repo: Repo) -> None:
    found = changes(spark, repo, "points", "HEAD^...HEAD").orderBy("id", "_change_type").collect()

    assert found == [
        ("UPDATE_AFTER", 2, "two", 2),
        ("UPDATE_BEFORE", 2, "n2", 2),
        ("INSERT", 7, "n7", None),
    ]
    assert changes(spark, repo, "points", "HEAD...HEAD").collect() == []
    whole = changes(spark, repo, "points", "[EMPTY]...HEAD^")
    assert {row._change_type for row in whole.collect()} == {"INSERT"}
    assert changes(spark, repo, "points", "HEAD^..[EMPTY]").count() == 6
    with pytest.raises(DatasetNotFoundError):
        changes(spark, repo, "nowhere")


def test_a_history_has_every_change_once(spark: "SparkSession", repo: Repo) -> None:
    repo.optimize()
    repo.create_branch("side")
    points.write(repo, {key: row for key, row in points.read(repo).items() if key != 5})
    repo.switch("side")
    points.write(repo, {**points.read(repo), 3: ("side", 3)})
    repo.merge("main")

    found = history(spark, repo, "points").collect()

    kinds = sorted((row._change_type, (row.new or row.old).id) for row in found)
    first = [("INSERT", number) for number in range(6)]
    assert kinds == sorted([*first, ("INSERT", 7), ("UPDATE", 2), ("UPDATE", 3), ("DELETE", 5)])
    assert {row.author for row in found} == {"Test User <test@example.com>"}
    assert len({row.commit for row in found}) == 4
    (edited,) = [row for row in found if row.new is not None and row.new.name == "two"]
    assert edited.old.name == "n2"


def test_a_history_is_shown_in_the_columns_of_its_end(spark: "SparkSession", repo: Repo) -> None:
    points.add_column(repo, "added")

    found = history(spark, repo, "points")

    assert found.select("new.*").columns == ["id", "name", "height", "added"]
    assert found.count() == 8


@pytest.mark.parametrize(
    ("mode", "given", "wanted"),
    [
        ("upsert", {0: ("zero", 0), 9: ("nine", 9)}, {0: ("zero", 0), 9: ("nine", 9)}),
        ("append", {9: ("nine", 9)}, {9: ("nine", 9)}),
    ],
)
def test_a_frame_is_committed(
    spark: "SparkSession", repo: Repo, mode: str, given: Any, wanted: Any
) -> None:
    before = points.read(repo)
    result = write(frame(spark, given), repo, "points", mode=mode, message="From Spark")

    assert result.commit == repo.head().commit
    assert repo.commit_info().message.strip() == "From Spark"
    assert points.read(repo) == before | wanted
    points.assert_clean(repo)


@pytest.mark.smoke
def test_a_frame_may_lack_columns_or_be_keys(spark: "SparkSession", repo: Repo) -> None:
    before = points.read(repo)
    write(frame(spark, {1: ("one", None)}).drop("height"), repo, "points")
    write(read(spark, repo, "points", where={"id": (3, None)}), repo, "points", mode="delete")

    assert points.read(repo) == {0: before[0], 1: ("one", 1), 2: before[2]}
    assert not list((repo.git.data_folder / "staging").glob("frame-*"))


def test_an_overwrite_commits_what_differs(spark: "SparkSession", repo: Repo) -> None:
    wanted = {**points.read(repo), 3: ("three", 3)}
    del wanted[0]

    result = write(frame(spark, wanted), repo, "points", mode="overwrite")

    assert points.read(repo) == wanted
    assert (result.changes["points"].updates, result.changes["points"].deletes) == (1, 1)
    assert write(frame(spark, wanted), repo, "points", mode="overwrite").commit is None


@pytest.mark.parametrize(
    ("mode", "change", "kind", "reason"),
    [
        ("merge", lambda f: f, InvalidArgumentError, "no mode 'merge'"),
        ("upsert", lambda f: f.drop("id"), KeyViolationError, "no key column 'id'"),
        ("upsert", lambda f: f.union(f), KeyViolationError, "twice"),
        ("append", lambda f: f.selectExpr("0L AS id"), Exception, "0"),
        ("upsert", lambda f: f.withColumnRenamed("name", "n"), SchemaViolationError, "column 'n'"),
    ],
)
def test_what_cannot_be_written(
    spark: "SparkSession", repo: Repo, mode: str, change: Any, kind: Any, reason: str
) -> None:
    head = repo.head().commit
    with pytest.raises(kind, match=reason):
        write(change(frame(spark, {1: ("one", 1)})), repo, "points", mode=mode)

    assert repo.head().commit == head
    points.assert_clean(repo)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_file_that_an_attempt_left_behind_counts_for_nothing(
    spark: "SparkSession", repo: Repo, mode: str
) -> None:
    """A slower or a failed attempt of a task may have written the same rows, and others."""
    folder = str(repo.git.data_folder / "staging")

    def left_behind(batches: Any) -> Any:
        (place,) = Path(folder).iterdir()
        for batch in batches:
            pq.write_table(pa.Table.from_batches([batch]), place / "part-00099-left.parquet")
            more = pa.table({"id": [77], "name": ["left"], "height": pa.array([7], pa.int32())})
            pq.write_table(more, place / "part-00098-left.parquet")
            yield batch

    rows = frame(spark, {9: ("nine", 9)})
    before = points.read(repo) if mode == "append" else {}
    write(rows.mapInArrow(left_behind, rows.schema), repo, "points", mode=mode)

    assert points.read(repo) == {**before, 9: ("nine", 9)}


@pytest.mark.parametrize("mode", ["upsert", "append", "delete", "overwrite"])
def test_a_folder_that_a_worker_does_not_see(spark: "SparkSession", repo: Repo, mode: str) -> None:
    folder, head = str(repo.git.data_folder / "staging"), repo.head().commit

    def hidden(batches: Any) -> Any:
        for place in Path(folder).iterdir():
            shutil.rmtree(place, ignore_errors=True)  # another task may do so just now
        yield from batches

    rows = frame(spark, dict.fromkeys(range(9, 20), ("n", 9)))
    with pytest.raises(EngineError, match=r"does not see the folder .*staging/") as raised:
        write(rows.mapInArrow(hidden, rows.schema), repo, "points", mode=mode)

    assert raised.value.hints[0] == "nothing was committed"
    assert repo.head().commit == head
    points.assert_clean(repo)


def test_a_file_that_is_not_here_as_a_worker_wrote_it(
    spark: "SparkSession", repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, head = repo.git.data_folder / "staging", repo.head().commit

    def lost(batch: pa.RecordBatch) -> OwnerReport:
        """Take away what the worker wrote, as where it has another folder under that path."""
        report = parse_report(batch)
        for written in report.files:
            (found,) = folder.rglob(written.entry.file)
            found.unlink()
        return report

    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    monkeypatch.setattr(owned_edits, "parse_report", lost)
    given = frame(spark, {1: ("n", 9), 9: ("n", 9)})
    with pytest.raises(EngineError, match="is not here"):
        write(given, repo, "points", mode="overwrite")
    assert repo.head().commit == head
