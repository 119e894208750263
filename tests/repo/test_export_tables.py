"""Datasets as tables of other formats, in folders of their own."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from havasu_vc.errors import InvalidArgumentError
from tests.repo.tables import points, rows, write
from tests.support.sound import CheckedRepo, refuses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def edited(repo: CheckedRepo, tmp_path: Path) -> CheckedRepo:
    """Give the dataset deleted rows, so that its table has delete files."""
    repo.import_(write(tmp_path / "less.parquet", points(90)), "points", replace=True)
    return repo


@pytest.mark.rule("ICE-90")
def test_a_table_that_pyiceberg_reads(filled: CheckedRepo, tmp_path: Path) -> None:
    static = pytest.importorskip("pyiceberg.table").StaticTable
    repo = edited(filled, tmp_path)

    result = repo.export("points", tmp_path / "t", format="iceberg")
    repo.export("points", tmp_path / "old", format="iceberg", revision="HEAD^")

    assert result.rows == 90
    for folder, revision in ((tmp_path / "t", "HEAD"), (tmp_path / "old", "HEAD^")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = static.from_metadata(str(folder)).scan().to_arrow()
        ids = sorted(found["id"].to_pylist())
        assert ids == [row["id"] for row in rows(repo, "points", revision)]
    for path in (tmp_path / "t" / "data").iterdir():
        assert path.stat().st_nlink == 1  # a copy, which nobody's store shares


def test_a_table_comes_in_again(filled: CheckedRepo, tmp_path: Path) -> None:
    filled.export("points", tmp_path / "t", format="iceberg")

    filled.import_(f"iceberg:{tmp_path / 't'}", "again")

    assert rows(filled, "again") == rows(filled, "points")
    assert filled.dataset("again").schema == filled.dataset("points").schema
    assert filled.dataset("again").snapshot.digests == filled.dataset("points").snapshot.digests


def test_a_delta_table_comes_in_again(filled: CheckedRepo, tmp_path: Path) -> None:
    result = filled.export("points", tmp_path / "t", format="delta")
    assert result.rows == 100 and result.notes

    filled.import_(f"delta:{tmp_path / 't'}", "again")

    assert rows(filled, "again") == rows(filled, "points")


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_what_is_in_the_way_stays(filled: CheckedRepo, tmp_path: Path, format: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").touch()

    with pytest.raises(InvalidArgumentError, match="something else") as caught:
        filled.export("points", tmp_path / "other", format=format)

    assert caught.value.hints
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "options",
    [
        {"format": "iceberg", "crs": "EPSG:4326"},
        {"format": "iceberg", "columns": ["id"]},
        {"format": "parquet", "plain": True},
        {"format": "orc"},
    ],
)
def test_what_cannot_be_asked_for(
    filled: CheckedRepo, tmp_path: Path, options: dict[str, Any]
) -> None:
    with refuses(filled.repo, InvalidArgumentError):
        filled.repo.export("points", tmp_path / "t", **options)
    assert not (tmp_path / "t").exists()


@pytest.mark.slow
def test_spark_reads_plain_delta_files(
    filled: CheckedRepo, spark: "SparkSession", tmp_path: Path
) -> None:
    filled.export("points", tmp_path / "t", format="delta", plain=True)

    # Without Delta's own jar Spark reads the files that the log names.
    found = spark.read.parquet(str(tmp_path / "t" / "*.parquet")).count()

    assert found == 100
