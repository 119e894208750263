"""Changes as data frames: between two revisions, or commit by commit.

The tasks of a diff run in Spark's Python workers, and their rows stay with Spark: the
driver plans and holds no row. Rows of both sides are shown in the columns of one version,
the newer one, matched by field id.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from havasu_vc.datasets.matching import Comparison
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.session import is_apart
from havasu_vc.engine.settings import Settings
from havasu_vc.engine.shipping import ensure_package
from havasu_vc.engine.spark_dealing import outcomes_frame
from havasu_vc.engine.spark_matching import Matched, changes_in
from havasu_vc.errors import DatasetNotFoundError
from havasu_vc.history.changelog import CHANGE_TYPE, changelog, rows_as
from havasu_vc.history.diff import row_changes
from havasu_vc.library import Repo
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.commits import moment_of
from havasu_vc.model.names import TABLES
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass
from havasu_vc.spark.live_rows import far_url, in_place
from havasu_vc.spark.physical import spark_schema
from havasu_vc.spark.reading import opened
from havasu_vc.spark.rows import frame_of, shown_rows
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.log import commits
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import resolve_compared
from havasu_vc.store.trees import DatasetFolder, find_entry

__all__ = ["CHANGE_TYPE", "changes", "history"]

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


_LABELS = T.StructType(
    [
        T.StructField("commit", T.StringType()),
        T.StructField("time", T.TimestampType()),
        T.StructField("author", T.StringType()),
    ]
)
_ARROW_LABELS = (pa.string(), pa.timestamp("us", "UTC"), pa.string())
Shape = Callable[[ChangeBatch, Piece, Schema], pa.RecordBatch]


def changes(
    spark: SparkSession,
    repo: Repo | str | Path,
    dataset: str,
    revisions: str = "HEAD^...HEAD",
) -> DataFrame:
    """Return the rows that differ between two revisions, as a changelog.

    `_change_type` is INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER, and the other columns
    are those of the newer revision. An update is two rows.
    """
    source = opened(repo)
    ends = resolve_compared(source.git, revisions)
    folders = [source.folders(end).get(dataset.strip("/")) for end in (ends.old, ends.new)]
    if folders == [None, None]:
        raise DatasetNotFoundError(dataset, revisions)
    old, new = (
        _view(spark, source, folder, end.name)
        for folder, end in zip(folders, (ends.old, ends.new), strict=True)
    )
    before, after = (None if folder is None else _place_of(folder) for folder in folders)
    whole = commit_piece(source, dataset.strip("/"), (before, after))
    return difference(spark, old, new, whole)


def difference(
    spark: SparkSession,
    old: Dataset | None,
    new: Dataset | None,
    whole: Task | None = None,
) -> DataFrame:
    """Return the changelog from one version to another; one of them may not be there.

    `whole` does it where it cannot be cut into tasks.
    """
    shown = new or old
    if shown is None:
        raise ValueError("there is no version at all")
    schemas = shared_ids(old or shown, shown), (new or shown).schema
    fields = [T.StructField(CHANGE_TYPE, T.StringType()), *spark_schema(shown.schema)]
    comparison = comparison_of(old, new)
    if comparison is not None:
        return _matched(spark, comparison, Piece(None, *schemas), shown.schema, fields)
    tasks = difference_tasks(old, new)
    if tasks is None:
        tasks = [] if whole is None else [whole]
    pieces = [Piece(task, *schemas) for task in tasks]
    return _frame(spark, pieces, shown.schema, T.StructType(fields), _as_changelog)


def history(
    spark: SparkSession, repo: Repo | str | Path, dataset: str, ref: str = "HEAD"
) -> DataFrame:
    """Return every row change of every commit that a revision reaches.

    Columns are `commit`, `time`, `author`, `_change_type` (INSERT, UPDATE or DELETE), and
    the row before and after as `old` and `new`. Commits that only rewrote files changed no
    row. A merge brings in what commits of the other branch did, which are there themselves.
    """
    source = opened(repo)
    view = source.dataset(dataset, ref)
    start = source.resolve(ref)
    pieces = [
        piece
        for commit in commits(source.git, start.commit or "")
        if len(commit.parents) < 2
        for piece in _pieces_of(spark, source, view, commit)
    ]
    row = spark_schema(view.schema)
    fields = [*_LABELS, T.StructField(CHANGE_TYPE, T.StringType())]
    fields += [T.StructField("old", row), T.StructField("new", row)]
    return _frame(spark, pieces, view.schema, T.StructType(fields), _as_history)


def _view(
    spark: SparkSession, repo: Repo, folder: DatasetFolder | None, revision: str
) -> Dataset | None:
    if folder is None:
        return None
    view = in_place(repo, repo.view(folder, revision), session=spark)
    view.check_guard()
    return view


def _place_of(folder: DatasetFolder) -> Place:
    return folder.marker, folder.internals


def _pieces_of(spark: SparkSession, repo: Repo, shown: Dataset, commit: Commit) -> Iterator[Piece]:
    """Yield what one commit is worked on by: a task for a small one, many for a large one.

    Other machines see no repository: what they work on is planned here.
    """
    objects, path = repo.git.objects, shown.path
    parents = [read_commit(objects, each).tree for each in commit.parents if objects.has(each)]
    before = _place_in(repo, parents[0], path) if parents else None
    after = _place_in(repo, commit.tree, path)
    if before == after:
        return
    author = f"{commit.author.name} <{commit.author.email}>"
    moment = moment_of(commit.author.time)
    labels = (commit.id, moment, author)
    old, new = (view_at(repo, path, place, session=spark) for place in (before, after))
    schemas = [shared_ids(view, shown) for view in (old, new) if view is not None]
    sizes = [0 if view is None else view.size for view in (old, new)]
    tasks = None
    if abs(sizes[1] - sizes[0]) > LARGE_BYTES or is_apart(spark):
        tasks = difference_tasks(old, new)
    if tasks is None:
        tasks = [commit_piece(repo, path, (before, after))]
    for task in tasks:
        yield Piece(task, schemas[0], schemas[-1], labels)


def _place_in(repo: Repo, tree: str, path: str) -> Place | None:
    for marker in TABLES:
        found = find_entry(repo.git.objects, tree, f"{path}/{marker}")
        if found is not None:
            return marker, found.id
    return None


def _frame(
    spark: SparkSession, pieces: Sequence[Piece], schema: Schema, shown: T.StructType, shape: Shape
) -> DataFrame:
    def rows_of(piece: Piece) -> Iterator[pa.RecordBatch]:
        for batch in run_task(piece.task) if piece.task is not None else ():
            if batch.num_rows:
                yield shape(ChangeBatch(batch), piece, schema)

    return frame_of(spark, pieces, rows_of, shown)


def _matched(
    spark: SparkSession,
    comparison: Comparison,
    piece: Piece,
    schema: Schema,
    fields: list[T.StructField],
) -> DataFrame:
    """Return the changelog of rows in no common order, which Spark's own shuffle finds.

    Where the rows are that differ is known when this returns, and stays with the executors
    for as long as the session lives; where they are very few, the changes themselves are known.
    """
    ensure_package(spark)
    found = Matched(spark, comparison)
    changes = found.changes
    if changes is None:
        changes = outcomes_frame(spark, found.few)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in changes_in(batches):
            if batch.num_rows:
                yield _as_changelog(ChangeBatch(batch), piece, schema)

    return changes.mapInArrow(run, T.StructType(fields))


def _as_changelog(batch: ChangeBatch, piece: Piece, schema: Schema) -> pa.RecordBatch:
    """Return changes as rows, each old one right before the new one that takes its place."""
    old = _rows_of(batch.old, piece.old_schema, schema)
    new = _rows_of(batch.new, piece.new_schema, schema)
    kinds, rows = changelog(batch, old, new)
    columns = [kinds, *(column.combine_chunks() for column in rows.columns)]
    return pa.RecordBatch.from_arrays(columns, [CHANGE_TYPE, *schema.names])


def _as_history(batch: ChangeBatch, piece: Piece, schema: Schema) -> pa.RecordBatch:
    kinds = pc.if_else(
        batch.old.is_null(), "INSERT", pc.if_else(batch.new.is_null(), "DELETE", "UPDATE")
    )
    labels = [
        pa.repeat(pa.scalar(value, type_), len(batch))
        for value, type_ in zip(piece.labels, _ARROW_LABELS, strict=True)
    ]
    sides = [
        _side_of(batch.old, piece.old_schema, schema),
        _side_of(batch.new, piece.new_schema, schema),
    ]
    names = [*_LABELS.names, CHANGE_TYPE, "old", "new"]
    return pa.RecordBatch.from_arrays([*labels, kinds, *sides], names)


def _rows_of(side: pa.StructArray, given: Schema, schema: Schema) -> pa.RecordBatch:
    """Return the rows of one side, in the columns of a schema as Spark shows them."""
    return shown_rows(rows_as(side, given, schema), schema)


def _side_of(side: pa.StructArray, given: Schema, schema: Schema) -> pa.StructArray:
    rows = _rows_of(side, given, schema)
    packed = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
    if not side.null_count:
        return packed
    there = side.is_valid().to_numpy(zero_copy_only=False)
    places = np.where(there, np.cumsum(there) - 1, 0)
    return packed.take(pa.array(places, mask=~there))


# Tasks of what changed between two versions.


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
