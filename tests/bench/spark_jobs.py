"""Work on Spark, in a process of its own: reads against Spark's own, windows, full compares.

    python -m tests.bench.spark_jobs reads REPO

One session with 2 GB of memory does everything; the first runs only warm it up.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from havasu_vc import Repo, SourceOptions
from havasu_vc.datasets.havasu.live import live_files
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.engine.session import start_session
from havasu_vc.engine.settings import Settings
from havasu_vc.model.changes import count_changes
from havasu_vc.spark import changes, read, session, write
from tests.bench.data import EAST, NORTH, SOUTH, WEST
from tests.bench.edits import DATASET
from tests.bench.process_memory import MB, kind_of, sampled, seconds_of, tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WARM, TIMES = 2, 5


def start(memory: str = "2g") -> SparkSession:
    """Start Spark, so that it counts what it reads."""
    uncounted = "spark.hadoop.parquet.hadoop.vectored.io.enabled"
    return session(settings={"spark.driver.memory": memory, uncounted: "false"})


def reads(repo: str) -> dict[str, Any]:
    """Scan and sum a dataset, and the same files by Spark alone."""
    spark, opened = start(), Repo.open(repo)
    view = opened.dataset(DATASET)
    assert isinstance(view, HavasuDataset)
    files = live_files(view)
    plain = spark.read.parquet(*(file.path for file in files))
    ours = read(spark, opened, DATASET)
    columns = ours.columns
    scan = alternated(lambda: emptied(ours), lambda: emptied(plain.select(*columns)))
    total = alternated(lambda: summed(ours), lambda: summed(plain))
    deleted = sum(file.deleted for file in files)
    return {"scan": scan, "sum": total, "files": len(files), "deleted": deleted}


def window(repo: str) -> dict[str, Any]:
    """Read what is in a window of a hundredth of the extent, and everything."""
    spark, opened = start(), Repo.open(repo)
    width, height = (EAST - WEST) / 10, (NORTH - SOUTH) / 10
    west, south = WEST + 4.3 * width, SOUTH + 3.6 * height
    box = (west, south, west + width, south + height)
    whole, part = read(spark, opened, DATASET), read(spark, opened, DATASET, intersects=box)
    seconds = alternated(lambda: emptied(part), lambda: emptied(whole))
    before = bytes_read(spark)
    emptied(part)
    of_part = bytes_read(spark) - before
    emptied(whole)
    of_whole = bytes_read(spark) - before - of_part
    return {"seconds": seconds, "bytes": [of_part, of_whole], "rows": part.count()}


def compare(repo: str, revisions: str, room: str = "2g") -> dict[str, Any]:
    """Compare two versions and count the changes, and read both for comparison."""
    spark, opened = start(room), Repo.open(repo)
    sides = [read(spark, opened, DATASET, ref=ref) for ref in revisions.split("..")]
    reading = median(sum(timed(partial(emptied, side)) for side in sides) for _ in range(WARM + 1))
    begin = time.perf_counter()
    with sampled(os.getpid()) as held:
        rows = changes(spark, opened, DATASET, revisions).groupBy("_change_type").count().collect()
    counts = {row[0]: row[1] for row in rows}
    seconds = time.perf_counter() - begin
    memory = {"memory": held.peak, "worker": held.worker}
    return {"seconds": seconds, "reading": reading, "changes": counts, **memory}


def update(repo: str, rows: str) -> dict[str, Any]:
    """Update some rows of the checked-out table, evenly spread."""
    spark = session(Path(repo))
    table = f"havasu.{DATASET}"
    count = spark.table(table).count()
    by = max(count // int(rows), 1)
    spark.sql(f"UPDATE {table} SET name = concat(name, '!') WHERE fid % {by} = 0")
    changed = spark.table(table).where(f"fid % {by} = 0").count()
    return {"rows": changed}


def change_all(repo: str) -> dict[str, Any]:
    """Change every row by a data frame, and tell what the driver's process held at most."""
    spark, opened = start(), Repo.open(repo)
    count = opened.dataset(DATASET).rows
    rows = spark.range(1, count + 1).selectExpr("id AS fid", "concat('all ', id) AS name")
    begin = time.perf_counter()
    with sampled(os.getpid()) as sizes:
        changed = write(rows, opened, DATASET).changes[DATASET].updates
    seconds = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_SELF)
    memory = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / MB
    return {"seconds": seconds, "rows": changed, "memory": memory, "worker": sizes.worker}


def diverge(repo: str, share: str = "30") -> dict[str, Any]:
    """Change three tenths of the rows on this branch, and other three tenths on `side`.

    A share of 100 is all rows on both, in other columns.
    """
    spark, opened = start(), Repo.open(repo)
    opened.create_branch("side")
    count = opened.dataset(DATASET).rows
    changed = []
    for branch, least, column in (("side", 0, "name"), ("main", 5, "note")):
        opened.switch(branch)
        rows = spark.range(1, count + 1)
        if share != "100":
            rows = rows.where(f"id % 10 between {least} and {least + 2}")
            column = "name"
        rows = rows.selectExpr("id AS fid", f"concat('{branch} ', id) AS {column}")
        changed.append(write(rows, opened, DATASET).changes[DATASET].updates)
    return {"rows": changed}


def work(master: str, shared: str, small: str, *given: str) -> dict[str, Any]:
    """Import, release, merge and compare in a session that has started, and time each.

    `given` are the table and its release, and the repositories to import into, of the table, and
    with the branch to merge. Where /proc tells, the processor time of this process and its JVM too.
    """
    table, release, empty, base, diverged = given
    spark, _ = start_session(master, {}, Path(shared), quick=True)  # as commands start it
    engine = EngineSettings(session=spark, scratch=Path(shared))
    settings = Settings(engine="spark", engine_settings=engine)
    key = SourceOptions(primary_key=("fid",))
    # Executors start, and each loads what tasks need: of two files a second worker reads one.
    halves = in_two_files(small, Path(shared, "halves"))
    warming = Repo.init(Path(shared, "warming"), settings=settings)
    warming.import_(halves, DATASET, options=key)
    warming.import_(halves, DATASET, replace=True)
    works: dict[str, Callable[[], object]] = {
        "import": lambda: Repo.open(empty, settings=settings).import_(table, DATASET, options=key),
        "release": lambda: Repo.open(base, settings=settings).import_(
            release, DATASET, replace=True
        ),
        "compare": lambda: counted(Repo.open(diverged, settings=settings)),
        "merge": lambda: Repo.open(diverged, settings=settings).merge("side"),
    }
    found = {}
    for name, each in works.items():
        before = driver_seconds()
        found[name] = [timed(each), driver_seconds() - before]
    return found


def counted(repo: Repo) -> int:
    """Return how many rows `side` changes."""
    return sum(count_changes(diff.changes).total for diff in repo.diff("main...side"))


def in_two_files(table: str, folder: Path) -> Path:
    """Write half of a table to each of two files of a folder."""
    rows = pq.read_table(table)
    folder.mkdir()
    half = len(rows) // 2
    for number, part in enumerate((rows.slice(0, half), rows.slice(half))):
        pq.write_table(part, folder / f"{number}.parquet")
    return folder


def driver_seconds() -> float:
    """Return the processor time of this process and of the JVM that it started."""
    used = time.process_time()
    for process in tree(os.getpid()):
        if kind_of(process) == "java":
            used += seconds_of(process)
    return used


def alternated(one: Callable[[], object], other: Callable[[], object]) -> list[float]:
    """Return the medians of two things that are measured in turn."""
    pairs = [(timed(one), timed(other)) for _ in range(WARM + TIMES)][WARM:]
    return [median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)]


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def emptied(frame: DataFrame) -> None:
    """Compute all rows, for nobody."""
    frame.write.format("noop").mode("overwrite").save()


def summed(frame: DataFrame) -> object:
    return frame.selectExpr("sum(height)").first()


def bytes_read(spark: SparkSession) -> int:
    """Return how many bytes all stages have read so far."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    gateway: Any = context._gateway
    store = context._jsc.sc().statusStore()
    quantiles = gateway.new_array(jvm.double, 0)
    stages = store.stageList(None, False, False, quantiles, jvm.java.util.ArrayList()).iterator()
    total = 0
    while stages.hasNext():
        total += stages.next().inputBytes()
    return total


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    job.__name__: job for job in (reads, window, compare, update, change_all, diverge, work)
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
