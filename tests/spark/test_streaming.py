"""Streams whose batches are commits: each once, also where Spark dies and gives one again."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from havasu_vc import Repo
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.spark import sink, write
from tests.repo import points
from tests.support.spark import has_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PROGRAM = """
import os, signal, sys
from havasu_vc.spark import session, sink

folder, repo, fatal = sys.argv[1:]
spark = session(master="local[1]")
put = sink(repo, "points", "meter-1", mode="append")

def each(frame, batch):
    put(frame, batch)
    if batch == int(fatal):
        os.kill(os.getpid(), signal.SIGKILL)

rows = spark.readStream.schema("id long, name string, height int").option("maxFilesPerTrigger", 1)
stream = rows.json(folder + "/in").writeStream.foreachBatch(each)
stream.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
stream.start().awaitTermination()
spark.stop()
"""


def rows_of(repo: Repo) -> dict[int, str]:
    return {row["id"]: row["name"] for row in repo.table("points").to_arrow().to_pylist()}


def frame(spark: "SparkSession", *rows: tuple[int, str, int]) -> Any:
    return spark.createDataFrame(list(rows), "id long, name string, height int")


def test_a_batch_that_is_given_again_is_passed_over(spark: "SparkSession", tmp_path: Path) -> None:
    repo = points.make(tmp_path / "repo", {1: ("one", 1)})
    put = sink(repo, "points", "meter", mode="append", message="Readings")
    put(frame(spark, (2, "two", 2)), 0)
    put(frame(spark, (3, "three", 3)), 1)
    ends = [repo.head().commit]
    for again in (put, sink(repo, "points", "meter", mode="append")):
        again(frame(spark, (3, "three", 3)), 1)
        again(frame(spark, (2, "two", 2)), 0)
        ends.append(repo.head().commit)
    assert len(set(ends)) == 1
    sink(repo, "points", "meter.2", mode="append")(frame(spark, (4, "four", 4)), 0)
    assert rows_of(repo) == {1: "one", 2: "two", 3: "three", 4: "four"}
    assert [commit.message.splitlines()[-1] for commit in repo.log()][:3] == [
        "Havasu-Batch: meter.2/0",
        "Havasu-Batch: meter/1",
        "Havasu-Batch: meter/0",
    ]
    with pytest.raises(InvalidArgumentError, match="cannot be called"):
        sink(repo, "points", "a/b")


def test_an_upsert_with_a_condition(spark: "SparkSession", tmp_path: Path) -> None:
    """Like MERGE: what matched is updated where it holds, and what did not is inserted."""
    repo = points.make(tmp_path / "repo", {n: (f"n{n}", n) for n in range(4)} | {9: ("n9", None)})
    rows = frame(spark, (0, "a", 5), (1, "b", 0), (3, "c", 3), (7, "d", 0), (9, "e", 1))
    write(rows, repo, "points", when="new.height > old.height OR old.height IS NULL")
    wanted = {0: "a", 1: "n1", 2: "n2", 3: "n3", 7: "d", 9: "e"}
    assert rows_of(repo) == wanted
    some = rows.selectExpr("id", "'z' AS name")
    write(some, repo, "points", when="old.height = 3")
    assert rows_of(repo) == {**wanted, 3: "z"}
    for when, mode in (("new.heigth > 1", "upsert"), ("true", "append")):
        before = repo.head().commit
        with pytest.raises(InvalidArgumentError):
            write(rows, repo, "points", mode=mode, when=when)
        assert repo.head().commit == before


@pytest.mark.slow
def test_a_stream_that_is_killed_goes_on(tmp_path: Path) -> None:
    """After its commit and before Spark knows of it, twice."""
    if not has_java():
        pytest.skip("there is no Java")
    repo = points.make(tmp_path / "repo", {0: ("zero", 0)})
    (tmp_path / "in").mkdir()
    for number in range(1, 5):
        row = f'{{"id": {number}, "name": "n{number}", "height": 1}}'
        (tmp_path / "in" / f"{number}.json").write_text(row)
    for fatal, ends in ((0, -signal.SIGKILL), (2, -signal.SIGKILL), (-1, 0)):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(repo.path), str(fatal)],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == ends, done.stderr[-2000:]
    repo = Repo.open(repo.path)
    assert rows_of(repo) == {0: "zero"} | {n: f"n{n}" for n in range(1, 5)}
    marks = [commit.message.splitlines()[-1] for commit in repo.log()]
    assert marks[:4] == [f"Havasu-Batch: meter-1/{n}" for n in (3, 2, 1, 0)]
