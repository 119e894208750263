"""Reading data files where they are: in a bucket, by the executors, without a jar.

In a clone whose data is at a URL (`havasu.data.url`), a file that is not here is read there,
by pyarrow and with the credentials of the executors' environment: its footer, then of the row
groups that may match the columns that a query names. Nothing is kept, and nothing is hashed:
`havasu-vc data fetch` brings files, checked, and from then on Spark reads them itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from havasu_vc.datasets.havasu.live import LiveFile, SpatialTest, ValueRange, scan_matching
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import HavasuError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.geo.predicates import SpatialPredicate
from havasu_vc.library import Repo
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, run_task, task_of
from havasu_vc.records import dataclass
from havasu_vc.spark.physical import spark_schema
from havasu_vc.spark.rows import frame_of, shown_rows
from havasu_vc.store.far_files import url_below
from havasu_vc.store.object_urls import with_endpoint

__all__ = ["FarDataset", "far_frame", "far_url", "in_place"]

_GROUPS_A_TASK = 4
_FAR = ("s3", "gs", "gcs", "abfs", "abfss")


@dataclass(frozen=True)
class FarDataset(HavasuDataset):
    """A dataset whose files are read at a URL where they are not here."""

    url: str = ""
    """Where data files are kept."""

    def file_path(self, entry: Entry) -> str:
        """Return the path of a file, or the URL of one that is not here."""
        if entry.location is not None or self.storage.has(entry.file):
            return super().file_path(entry)
        return url_below(self.url, entry.file)

    def place(self, file: str) -> str:
        """Return the path of a file, or the URL of one that is not here."""
        return super().place(file) if self.storage.has(file) else url_below(self.url, file)

    def bring(
        self, entries: Iterable[Entry], *, deletes: bool = True, helpful: Iterable[Entry] = ()
    ) -> None:
        """Bring nothing: what is not here is read where it is."""


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
        try:
            url = repo.usable_data_place()
        except HavasuError:  # no remote, or a place that is not allowed
            url = repo.git.config.get("havasu.data.url")
        if url is not None and urlsplit(url).scheme in _FAR:
            # Executors have credentials of their own, and need not know where the server is.
            _found[repo] = with_endpoint(url, os.environ)
        else:
            _found[repo] = None
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
