"""Spark Structured Streaming follows a branch, stops and goes on: nothing twice, nothing lost."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.serving.server import catalog, serving
from tests.serving.test_engines import served_to
from tests.serving.test_feeds import FEED, Model, Row, in_order, new_model
from tests.serving.test_feeds_long import SHORT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return new_model(tmp_path)


@pytest.fixture
def url(model: Model) -> Iterator[str]:
    with serving(model.repo.path) as found:
        yield found


Follow = Callable[[], list[tuple[str, str, Row]]]
"""Lets a stream take in what is there, and end; returns what all streams together took."""


@pytest.fixture
def following(
    tmp_path: Path, spark: "SparkSession", iceberg: Callable[[Path], str]
) -> Callable[[str], Follow]:
    """Return what follows the feed of a server from its beginning, with one checkpoint."""

    def begun(url: str) -> Follow:
        feed = f"{served_to(spark, url, 'main', f'followed{url[-5:]}')}.tables.points__changes"

        def follow() -> list[tuple[str, str, Row]]:
            stream = spark.readStream.format("iceberg").table(feed)
            query = (
                stream.writeStream.format("parquet")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "taken"))
            )
            query.awaitTermination()
            found = spark.read.parquet(str(tmp_path / "taken")).collect()
            rows = [row.asDict() for row in found]
            return in_order(
                [
                    (row["_commit_id"], row["_change_type"], {"id": row["id"], "name": row["name"]})
                    for row in rows
                ]
            )

        return follow

    return begun


@pytest.mark.spark
def test_a_stream_follows_a_branch(
    model: Model, url: str, following: Callable[[str], Follow]
) -> None:
    follow = following(url)
    assert follow() == in_order(model.done)
    model.write((1, "one"), (9, "nine"))
    model.delete(2)
    model.repo.optimize()
    model.write((9, None))
    # Another stream, which has the checkpoint of the first alone.
    assert follow() == in_order(model.done)
    assert follow() == in_order(model.done)

    git = model.repo.git.git
    git("reset", "--quiet", "--hard", "HEAD^")
    model.repo.write("points", pa.table({"id": [4]}), mode="delete", message="Another future")
    with pytest.raises(Exception, match="expired or removed"):
        follow()


@pytest.mark.spark
def test_a_stream_from_the_start_takes_commits_that_were_gathered(
    model: Model, following: Callable[[str], Follow]
) -> None:
    """A branch has more commits than the feed has snapshots, and goes on while it is followed."""
    for number in range(18):
        model.write((number % 5, f"v{number}"), (100 + number, None))
    with serving(model.repo.path, first=SHORT) as url:
        follow = following(url)
        assert len(catalog(url).load_table(FEED).snapshots()) < 18
        assert follow() == in_order(model.done)
        for number in range(3):
            for each in range(3):
                model.write((200 + 10 * number + each, "new"))
            assert follow() == in_order(model.done)
