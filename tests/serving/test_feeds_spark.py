"""Spark Structured Streaming follows a branch, stops and goes on: nothing twice, nothing lost."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.serving.server import serving
from tests.serving.test_engines import served_to
from tests.serving.test_feeds import Model, Row, in_order, new_model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return new_model(tmp_path)


@pytest.fixture
def url(model: Model) -> Iterator[str]:
    with serving(model.repo.path) as found:
        yield found


@pytest.mark.spark
def test_a_stream_follows_a_branch(
    model: Model,
    url: str,
    tmp_path: Path,
    spark: "SparkSession",
    iceberg: Callable[[Path], str],
) -> None:
    feed = f"{served_to(spark, url, 'main', 'followed')}.tables.points__changes"

    def follow() -> None:
        """Let a stream take in what is there, and end."""
        stream = spark.readStream.format("iceberg").table(feed)
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "taken"))
        )
        query.awaitTermination()

    def taken() -> list[tuple[str, str, Row]]:
        found = spark.read.parquet(str(tmp_path / "taken")).collect()
        rows = [row.asDict() for row in found]
        return in_order(
            [
                (row["_commit_id"], row["_change_type"], {"id": row["id"], "name": row["name"]})
                for row in rows
            ]
        )

    follow()
    assert taken() == in_order(model.done)
    model.write((1, "one"), (9, "nine"))
    model.delete(2)
    model.repo.optimize()
    model.write((9, None))
    follow()  # another stream, which has the checkpoint of the first alone
    assert taken() == in_order(model.done)
    follow()
    assert taken() == in_order(model.done)

    git = model.repo.git.git
    git("reset", "--quiet", "--hard", "HEAD^")
    model.repo.write("points", pa.table({"id": [4]}), mode="delete", message="Another future")
    with pytest.raises(Exception, match="expired or removed"):
        follow()
