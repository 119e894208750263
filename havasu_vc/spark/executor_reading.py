"""Reading data files where they are: in a bucket, by the executors, without a jar.

In a clone whose data is at a URL (`havasu.data.url`), a file that is not here is read there,
by pyarrow and with the credentials of the executors' environment: its footer, then of the row
groups that may match the columns that a query names. Nothing is kept, and nothing is hashed:
`havasu-vc data fetch` brings files, checked, and from then on Spark reads them itself.

Pieces of a history that executors work on: tasks, and what their rows are shown as.

A commit's changes are planned where they are read, so that the driver walks commits and
nothing else. Only what is large is planned in the driver, to be cut into many tasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from havasu_vc.datasets.havasu.far import far_dataset
from havasu_vc.datasets.havasu.live import LiveFile, SpatialTest, ValueRange, scan_matching
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.matching import Comparison
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.session import is_apart
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import NotYetSupportedError
from havasu_vc.geo.predicates import SpatialPredicate
from havasu_vc.history.diff import row_changes
from havasu_vc.library import Repo
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass
from havasu_vc.spark.physical import spark_schema
from havasu_vc.spark.rows import frame_of, shown_rows
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import DatasetFolder

__all__ = [
    "Piece",
    "Place",
    "commit_piece",
    "comparison_of",
    "difference_tasks",
    "far_frame",
    "far_url",
    "havasu_view",
    "in_place",
    "view_at",
]

_GROUPS_A_TASK = 4


def in_place(
    repo: Repo, view: Dataset, url: str | None = None, *, session: SparkSession | None = None
) -> Dataset:
    """Return a view that reads in place what is in a bucket and not here, if that is so.

    An executor is told the `url` that the driver found. What is given to a `session` of other
    machines names no file of this one.
    """
    files = view.in_files
    apart = session is not None and is_apart(session)
    far = None if files is None else far_dataset(files, url or far_url(repo), apart=apart)
    return far or view


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


Place = tuple[str, str]
"""Where a version of a dataset is: the marker of its kind, and the tree of its internals."""

LARGE_BYTES = 64 * 1024 * 1024
"""The share of a commit that one task may read; more is cut."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A task that yields changes, and whose they are."""

    task: Task | None
    """Yields change batches; None where a shuffle does."""
    old_schema: Schema
    """Columns of the rows before."""
    new_schema: Schema
    """Columns of the rows after."""
    labels: tuple[object, ...] = field(default=())
    """Values that stand beside each row: commit, time, author."""


def difference_tasks(old: Dataset | None, new: Dataset | None) -> list[Task] | None:
    """Return tasks that together yield the changes between two versions, in no order.

    None comes back where only a task for everything can tell: for two kinds of dataset, a
    Kart dataset that got another key, or rows that no order of files pairs.
    """
    if old is None or new is None:
        there = old or new
        scans = [] if there is None else there.scan()
        return [task_of(one_sided, scan, _schema_of(there), new is not None) for scan in scans]
    plan = old.compare(new)
    return None if plan is None or plan.dealt else plan.tasks()


def comparison_of(old: Dataset | None, new: Dataset | None) -> Comparison | None:
    """Return how two versions are compared whose rows no order of files pairs; None for others."""
    plan = None if old is None or new is None else old.compare(new)
    if plan is None or not plan.dealt:
        return None
    sides = [tuple(side) for side in plan.sides()]
    return Comparison(sides[0], sides[1], plan.old_schema, plan.new_schema)


def shared_ids(old: Dataset, new: Dataset) -> Schema:
    """Return the columns of the old version, with the ids that the new one gives them.

    A Kart dataset and the Havasu one that it became have the names of columns in common.
    """
    if old.kind == new.kind:
        return old.schema
    known = new.schema.by_name
    unknown = itertools.count(max((*new.schema.by_id, *old.schema.by_id), default=0) + 1)
    ids = [
        known[each.name].id if each.name in known else next(unknown) for each in old.schema.fields
    ]
    fields = zip(old.schema.fields, ids, strict=True)
    return Schema(tuple(replace(each, id=number) for each, number in fields))


def _schema_of(view: Dataset | None) -> Schema:
    assert view is not None
    return view.schema


@kernel
def one_sided(task: Task, schema: Schema, is_new: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task as changes: all inserted, or all deleted."""
    nothing = pa.struct(list(arrow_schema(schema)))
    for batch in run_task(task):
        rows, none = struct_of(batch), pa.nulls(batch.num_rows, nothing)
        sides = (none, rows) if is_new else (rows, none)
        yield ChangeBatch.from_structs(*sides).data


def commit_piece(repo: Repo, path: str, places: tuple[Place | None, Place | None]) -> Task:
    """Return the task that yields what changed from one place of a dataset to another."""
    return task_of(commit_changes, str(repo.git.git_directory), path, *places, far_url(repo))


@kernel
def commit_changes(
    directory: str, path: str, old: Place | None, new: Place | None, url: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the changes between two versions of a dataset, in a repository by its directory."""
    repo = _open(directory)
    before, after = (view_at(repo, path, place, url) for place in (old, new))
    with LocalEngine(threads=1) as engine:
        for batch in row_changes(before, after, engine):
            yield batch.data


@lru_cache(maxsize=4)
def _open(directory: str) -> Repo:
    return Repo(GitRepository.open(directory), Settings())


def view_at(
    repo: Repo,
    path: str,
    place: Place | None,
    url: str | None = None,
    *,
    session: SparkSession | None = None,
) -> Dataset | None:
    """Return the dataset at a place; what is not here is read at `url`, if that is given."""
    if place is None:
        return None
    marker, tree = place
    view = repo.view(DatasetFolder(path, marker, tree, tree), tree[:10])
    return in_place(repo, view, url, session=session)


def havasu_view(view: Dataset) -> HavasuDataset:
    """Return a view that is of a Havasu dataset; raises for other kinds."""
    files = view.in_files
    if files is not None:
        return files
    raise NotYetSupportedError(
        f"{view.path} is no Havasu dataset, and Spark writes no others yet",
        hints=("`Repo.write` and the command line do",),
    )
