"""Reading data files where they are: in a bucket, by the executors, without a jar.

In a clone whose data is at a URL (`havasu.data.url`), a file that is not here is read there,
by pyarrow and with the credentials of the executors' environment: its footer, then of the row
groups that may match the columns that a query names. Nothing is kept, and nothing is hashed:
`havasu-vc data fetch` brings files, checked, and from then on Spark reads them itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from havasu_vc.datasets.havasu.live import LiveFile, SpatialTest, ValueRange, scan_matching
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.geo.predicates import SpatialPredicate
from havasu_vc.library import Repo
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, run_task, task_of
from havasu_vc.sharing import FarDataset
from havasu_vc.spark.physical import spark_schema
from havasu_vc.spark.rows import frame_of, shown_rows

__all__ = ["far_frame", "far_url", "in_place"]

_GROUPS_A_TASK = 4


def in_place(repo: Repo, view: Dataset, url: str | None = None) -> Dataset:
    """Return a view that reads in place what is in a bucket and not here, if that is so.

    An executor is told the `url` that the driver found.
    """
    place = None if view.in_files is None else url or far_url(repo)
    if place is None:
        return view
    return FarDataset(view.path, view.folder, view.storage, view.revision, url=place)


_found: WeakKeyDictionary[Repo, str | None] = WeakKeyDictionary()


def far_url(repo: Repo) -> str | None:
    """Return the bucket that has the data; None where it is elsewhere or not told."""
    if repo not in _found:
        _found[repo] = repo.far_place()
    return _found[repo]


def far_frame(
    spark: SparkSession,
    files: Sequence[LiveFile],
    schema: Schema,
    ranges: Mapping[int, ValueRange],
    tests: Sequence[SpatialTest],
) -> DataFrame:
    """Return the live rows of files at URLs, as far as they may match."""
    boxes = [
        (test.column, test.window.bounds, test.predicate is SpatialPredicate.CONTAINS)
        for test in tests
        if test.window.bounds is not None
    ]
    tasks = [
        task_of(scan_matching, file.path, schema, file.deletes, (part, parts), dict(ranges), boxes)
        for file in files
        for parts in [max(-(-len(file.entry.splits) // _GROUPS_A_TASK), 1)]
        for part in range(parts)
    ]

    def rows_of(task: Task) -> Iterator[pa.RecordBatch]:
        for batch in run_task(task):
            yield shown_rows(batch, schema)

    return frame_of(spark, tasks, rows_of, spark_schema(schema))
