"""Data frames as commits: upsert, append, delete, or overwrite, by key.

Executors deal the rows out by key, and tasks that each own an interval of keys look up what
is there and write what changes (`datasets.havasu.owning`); the driver adds up their reports.
Where a dataset has no key, or rows lie in no order of it, executors write the frame to files
in the repository's staging folder, and what these hold is compared with the dataset in
batches. Unless all that tasks say they wrote is there, nothing is committed; nothing is part
of the repository before the commit, and staged files go in any case.

Staged frames: the rows of a data frame as files, known from what Spark's tasks report.

Each task writes a file under a name of its own and reports, as the one row that it gives
to Spark, how many rows are in it and how large it is. Spark takes the report of one attempt
of each task, so a file that a failed or a slower attempt left behind is named by no report
and counts for nothing. A report whose file is not in the driver's folder as it says comes
from a machine that has another folder there: then nothing is taken at all.
"""

from __future__ import annotations

import itertools
import platform
import re
import secrets
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from havasu_vc.datasets.dealing import dealt
from havasu_vc.datasets.havasu.apply import collect_changes
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.far import sent
from havasu_vc.datasets.havasu.owners import UNSEEN
from havasu_vc.datasets.havasu.parquet import BATCH_ROWS, open_parquet
from havasu_vc.datasets.pairing import conform
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, TreeEdit
from havasu_vc.editing import MODES, changes_of, whole_rows
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.engine.protocol import Engine
from havasu_vc.engine.session import ensure_package, setting
from havasu_vc.engine.spark import SparkEngine
from havasu_vc.engine.spark_dealing import pieces_frame
from havasu_vc.engine.worker import forget_archives
from havasu_vc.errors import (
    EngineError,
    InvalidArgumentError,
    KeyViolationError,
    SchemaViolationError,
)
from havasu_vc.history.owned_edits import can_be_owned, collect_owned, cuts_of, owners_of
from havasu_vc.library import Repo
from havasu_vc.model.arrow import gathered
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import Field, List, Map, Primitive, Struct, Type
from havasu_vc.records import dataclass
from havasu_vc.repo.results import CommitResult
from havasu_vc.spark.live_rows import far_url, havasu_view, in_place
from havasu_vc.spark.reading import opened, quoted, read_view
from havasu_vc.spark.session import query_error
from havasu_vc.store.log import commits
from havasu_vc.transfer import replacement

__all__ = ["StagedFile", "sink", "stage", "write"]


def write(
    frame: DataFrame,
    repo: Repo | str | Path,
    dataset: str,
    *,
    mode: str = "upsert",
    when: str | None = None,
    message: str | None = None,
) -> CommitResult:
    """Commit the rows of a frame to a dataset.

    `upsert` inserts and updates by key, and columns that the frame lacks keep their values.
    `append` only inserts, `delete` needs the key columns alone, and `overwrite` makes the
    dataset hold just these rows: what differs is committed. With `when`, SQL about the rows
    `old` and `new`, an upsert updates only where it holds; rows with new keys come in any case.
    """
    if mode not in MODES:
        raise InvalidArgumentError(
            f"there is no mode {mode!r}", hints=(f"modes: {', '.join(MODES)}",)
        )
    if when is not None and mode != "upsert":
        raise InvalidArgumentError("a condition is for mode 'upsert' alone")
    source = opened(repo)
    schema = source.dataset(dataset).schema
    if mode not in ("append", "overwrite") and not schema.key:
        raise InvalidArgumentError(
            f"{dataset} has no key, so rows cannot be told apart", hints=("use mode 'append'",)
        )
    prepared = _prepared(frame, schema, mode)
    _ = source.git.committer  # that nobody is configured must not come out after hours
    folder = source.git.data_folder / "staging" / f"frame-{secrets.token_hex(8)}"
    work = EngineSettings(session=frame.sparkSession, scratch=folder)
    settings = replace(source.settings, engine="spark", engine_settings=work)

    def make(found: Dataset, engine: Engine) -> TreeEdit:
        view = havasu_view(found)
        rows = prepared
        if when is not None:
            rows = _prepared(_wanted(source, view, frame, when), schema, mode)
        if can_be_owned(view, view.schema) and isinstance(engine, SparkEngine):
            return _owned(source, view, rows, mode, engine)
        return _staged(view, rows, mode, engine, folder)

    writer = source.with_settings(settings)
    try:
        return writer.commit_edits([(dataset, make)], message or f"Write to {dataset}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wanted(repo: Repo, view: DatasetInFiles, frame: DataFrame, when: str) -> DataFrame:
    """Return the rows of a frame that have new keys, or for which a condition holds."""
    there = read_view(frame.sparkSession, in_place(repo, view, session=frame.sparkSession)).alias(
        "old"
    )
    keys = [(F.col(f"new.{quoted(n)}"), F.col(f"old.{quoted(n)}")) for n in view.key.names]
    pairs = frame.alias("new").join(there, [new == old for new, old in keys], "left")
    try:
        chosen = pairs.where(keys[0][1].isNull() | F.expr(when))
    except PySparkException as error:
        raise query_error(error) from error
    return chosen.select(*(F.col(f"new.{quoted(n)}").alias(n) for n in frame.columns))


def _owned(
    repo: Repo, view: DatasetInFiles, frame: DataFrame, mode: str, engine: SparkEngine
) -> TreeEdit:
    """Return the edit that a frame means, made by owners of intervals of keys.

    Where the data is in a bucket and not here, executors read and write it there.
    """
    storage = view.storage
    here = not storage.on_demand and all(map(storage.has, view.stored_entries))
    url = None if here else far_url(repo)
    session = engine.session()
    with Edit(havasu_view(in_place(repo, view, url, session=session))) as edit:
        cuts = cuts_of(edit)
        owners = owners_of(edit, cuts, mode, url=url)
        schema = view.schema

        def deal(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return dealt((_stored_rows(batch, schema, mode) for batch in batches), cuts)

        ensure_package(session)
        pieces = pieces_frame(frame, deal, len(owners))
        collect_owned(
            edit, lambda: engine.run_owners(pieces, owners, description="Writing"), url=url
        )
        if not edit.counts.total:
            return TreeEdit(view.path, {})
        made = edit.finish()
        return made if url is None else sent(made, view.storage.staging, url)


def _stored_rows(batch: pa.RecordBatch, schema: Schema, mode: str) -> pa.RecordBatch:
    """Return rows in the types of a dataset, with the columns that they have."""
    if mode == "upsert":
        return conform(batch, schema.select(tuple(batch.schema.names)))
    if mode == "delete":
        return conform(batch, schema.select(schema.key.names))
    (whole,) = whole_rows(pa.Table.from_batches([batch]), schema).to_batches() or (None,)
    return batch.slice(0, 0) if whole is None else whole


def _staged(
    view: DatasetInFiles, frame: DataFrame, mode: str, engine: Engine, folder: Path
) -> TreeEdit:
    """Return the edit that a frame means, written to files first."""
    if view.key and mode != "overwrite":
        frame = frame.orderBy(*(quoted(name) for name in view.key.names))
    files = stage(frame, folder)
    if mode == "overwrite":
        size = sum(file.size for file in files)
        return replacement(view, _tasks(files, view.schema), view.schema, {}, engine, size)
    with Edit(view) as edit:
        collect_changes(edit, _changes(view, files, mode))
        return edit.finish() if edit.counts.total else TreeEdit(view.path, {})


def _prepared(frame: DataFrame, schema: Schema, mode: str) -> DataFrame:
    """Return a frame with our types, of the columns that count."""
    names = schema.key.names if mode == "delete" else tuple(frame.columns)
    unknown = [name for name in names if name not in schema.by_name]
    if unknown:
        raise SchemaViolationError(
            f"the dataset has no column {unknown[0]!r}", hints=("add it with `havasu-vc meta set`",)
        )
    missing = [name for name in schema.key.names if name not in frame.columns]
    if missing:
        raise KeyViolationError(f"the rows have no key column {missing[0]!r}")
    columns = [_stored(frame[quoted(n)], schema.by_name[n]).alias(n) for n in names]
    return frame.select(*columns)


def _stored(column: Column, field: Field) -> Column:
    if field.type is Primitive.UUID:
        return F.unhex(F.regexp_replace(column.cast("string"), "-", ""))
    if _has_uuid(field.type):
        raise InvalidArgumentError(
            f"column {field.name!r} holds UUIDs inside of other values, which Spark cannot write"
        )
    return column


def _has_uuid(type_: Type) -> bool:
    match type_:
        case Struct(fields):
            return any(_has_uuid(field.type) for field in fields)
        case List(element):
            return _has_uuid(element.type)
        case Map(key, value):
            return _has_uuid(key.type) or _has_uuid(value.type)
        case _:
            return type_ is Primitive.UUID


def _tasks(files: Sequence[StagedFile], schema: Schema) -> list[Task]:
    return [task_of(staged_rows, str(file.path), schema) for file in files]


@kernel
def staged_rows(path: str, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that Spark wrote, in all columns of a schema."""
    for batch in _batches(path):
        yield from whole_rows(pa.Table.from_batches([batch]), schema).to_batches()


def _changes(view: DatasetInFiles, files: Sequence[StagedFile], mode: str) -> Iterator[ChangeBatch]:
    """Yield the changes that staged rows mean; they come in key order, file after file."""
    for file in files:
        for batch in _batches(str(file.path)):
            yield from changes_of(view, pa.Table.from_batches([batch]), mode)


def _batches(path: str) -> Iterator[pa.RecordBatch]:
    with open_parquet(path) as file:
        yield from file.iter_batches(BATCH_ROWS, use_threads=False)


_REPORT = "part int, host string, name string, num_rows bigint, size bigint, reason string"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_GROUP_BYTES = 32 << 20
_ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a task wrote and that is here as the task said."""

    path: Path
    """Where it is."""
    num_rows: int
    """Its rows."""
    size: int
    """Its bytes."""


def stage(frame: DataFrame, folder: Path) -> list[StagedFile]:
    """Write a frame's rows to files of a new folder, and return these in the frame's order.

    Raises EngineError when what a task wrote is not in the folder.
    """
    spark = frame.sparkSession
    ensure_package(spark)
    folder.mkdir(parents=True)
    place = str(folder)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        forget_archives()
        context = TaskContext.get()
        yield written(batches, place, 0 if context is None else context.partitionId())

    # A batch passes to a task's Python as a whole, however wide its rows are.
    with setting(spark, _BATCH_ROWS, "4096"), setting(spark, _BATCH_BYTES, str(_GROUP_BYTES)):
        reports = frame.mapInArrow(run, _REPORT).collect()
    return [_checked(folder, row) for row in sorted(reports) if row.num_rows or row.reason]


def written(batches: Iterable[pa.RecordBatch], place: str, part: int) -> pa.RecordBatch:
    """Write the rows of a task to a file of its own, and return the report of it.

    What goes wrong is reported as well: tried again, it would be no better.
    """
    name = f"{part:06}-{uuid.uuid4().hex}.parquet"
    path = Path(place, name)
    try:
        rows = _write(batches, path)
        return _report(part, name, rows, path.stat().st_size if rows else 0, None)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        absent = not Path(place).is_dir()
        return _report(part, name, 0, 0, _ABSENT if absent else error.strerror or str(error))


def _report(part: int, name: str, rows: int, size: int, reason: str | None) -> pa.RecordBatch:
    values = (part, platform.node(), name, rows, size, reason)
    types = (pa.int32(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.string())
    names = [each.split()[0] for each in _REPORT.split(", ")]
    columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names)


def _write(batches: Iterable[pa.RecordBatch], path: Path) -> int:
    """Write batches to a file, which is made with the first row; return their rows."""
    groups = _groups(batches)
    first = next(groups, None)
    if first is None:
        return 0
    count = 0
    # Opened here and not by Parquet, so that a folder that is not there is one.
    with path.open("xb") as file, pq.ParquetWriter(file, first.schema) as writer:
        for group in itertools.chain((first,), groups):
            writer.write_table(group)
            count += group.num_rows
    return count


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    rows = (batch for batch in batches if batch.num_rows)
    yield from map(pa.Table.from_batches, gathered(rows, _GROUP_BYTES, lambda batch: batch.nbytes))


def _checked(folder: Path, report: Sequence[object]) -> StagedFile:
    """Return the file that a task reported; raises unless it is here as the task said."""
    _, host, name, num_rows, size, reason = report
    assert isinstance(num_rows, int) and isinstance(size, int)
    path = folder / str(name)
    if reason is None:
        found = _found(path)
        if found == (num_rows, size):
            return StagedFile(path, num_rows, size)
        what = "is not here" if found is None else "is not here as it was written"
        raise _unreachable(f"what the worker on {host} wrote {what}: {path}")
    if reason == _ABSENT:
        raise _unreachable(f"the worker on {host} does not see the folder {folder}")
    raise EngineError(
        f"the worker on {host} cannot write to {folder}: {reason}",
        hints=("nothing was committed",),
    )


def _found(path: Path) -> tuple[int, int] | None:
    """Return how many rows and bytes a file has; None if it is not here."""
    try:
        with path.open("rb") as file, pq.ParquetFile(file) as parquet:
            return parquet.metadata.num_rows, path.stat().st_size
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowInvalid):
        return -1, -1


def _unreachable(message: str) -> EngineError:
    return EngineError(message, hints=UNSEEN)


# Streams into a dataset: each batch is a commit, made once however often Spark gives it again.
#
# Spark counts the batches of a stream, and after a crash gives the last one again. So a commit
# says in a trailer of its message which batch of which stream it is, and a batch that the
# branch has already is passed over. A batch that changes nothing makes no commit; given again,
# it changes nothing again.


TRAILER = "Havasu-Batch"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def sink(
    repo: Repo | str | Path,
    dataset: str,
    name: str,
    *,
    mode: str = "upsert",
    when: str | None = None,
    message: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return the function for `foreachBatch` that commits each batch of a stream exactly once.

    `name` tells the stream from others that write to the branch: a stream that starts anew,
    with another checkpoint, counts its batches from 0 and needs another name. The other
    arguments are those of `write`.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"a stream cannot be called {name!r}", hints=("use letters, digits, '.', '_' and '-'",)
        )
    source = opened(repo)
    subject = message or f"Write to {dataset}"

    def put(frame: DataFrame, batch: int) -> None:
        last = _last_batch(source, name)
        if last is not None and batch <= last:
            return
        text = f"{subject}\n\n{TRAILER}: {name}/{batch}"
        write(frame, source, dataset, mode=mode, when=when, message=text)

    return put


def _last_batch(repo: Repo, name: str) -> int | None:
    """Return the last batch of a stream that HEAD has; None for none."""
    start = repo.head().commit
    line = re.compile(rf"^{TRAILER}: {re.escape(name)}/(\d+)$", re.MULTILINE)
    for commit in () if start is None else commits(repo.git, start):
        found = line.findall(commit.message)
        if found:
            return int(found[-1])
    return None
