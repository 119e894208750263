"""Data frames as commits: upsert, append, delete, or overwrite, by key.

Executors deal the rows out by key, and tasks that each own an interval of keys look up what
is there and write what changes (`datasets.havasu.owning`); the driver adds up their reports.
Where a dataset has no key, or rows lie in no order of it, what is there is dealt out as well
(`history.owned_rows`). Unless all that tasks say they wrote is there, nothing is committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.far import sent
from havasu_vc.datasets.pairing import conform
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, TreeEdit
from havasu_vc.editing import MODES, whole_rows
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.engine.protocol import Batches, Engine
from havasu_vc.engine.shipping import ensure_package
from havasu_vc.engine.spark import SparkEngine
from havasu_vc.engine.spark_dealing import dealing_frame, pieces_frame
from havasu_vc.errors import (
    InvalidArgumentError,
    KeyViolationError,
    SchemaViolationError,
)
from havasu_vc.history.owned_edits import can_be_owned, collect_owned, cuts_of, owners_of
from havasu_vc.history.owned_rows import collect_rows, dealt_rows, live_pieces, rows_plan
from havasu_vc.library import Repo
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task
from havasu_vc.model.types import Field, List, Map, Primitive, Struct, Type
from havasu_vc.repo.results import CommitResult
from havasu_vc.spark.live_rows import far_url, havasu_view, in_place
from havasu_vc.spark.reading import opened, quoted, read_view
from havasu_vc.spark.session import query_error
from havasu_vc.store.log import commits

__all__ = ["sink", "write"]


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
    work = EngineSettings(session=frame.sparkSession)
    settings = replace(source.settings, engine="spark", engine_settings=work)

    def make(found: Dataset, engine: Engine) -> TreeEdit:
        view = havasu_view(found)
        rows = prepared
        if when is not None:
            rows = _prepared(_wanted(source, view, frame, when), schema, mode)
        assert isinstance(engine, SparkEngine)
        return _owned(source, view, rows, mode, engine)

    writer = source.with_settings(settings)
    return writer.commit_edits([(dataset, make)], message or f"Write to {dataset}")


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
    """Return the edit that a frame means, made by owners of keys.

    Where the data is in a bucket and not here, executors read and write it there.
    """
    storage = view.storage
    here = not storage.on_demand and all(map(storage.has, view.stored_entries))
    url = None if here else far_url(repo)
    session = engine.session()
    with Edit(havasu_view(in_place(repo, view, url, session=session))) as edit:
        schema = view.schema
        ordered = can_be_owned(view, schema)
        # Rows without a key are looked up only where they are to be all there are.
        plan = None
        if not ordered:
            there = live_pieces(edit.dataset) if schema.key or mode == "overwrite" else []
            plan = rows_plan(edit, there, (), engine, view.size)
        cuts = cuts_of(edit) if plan is None else plan.cuts

        def deal(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return dealt_rows((_stored_rows(b, schema, mode) for b in batches), schema, cuts.values)

        def run(owners: Sequence[Task]) -> Batches:
            pieces = pieces_frame(frame, deal, len(owners))
            if plan is not None:
                pieces = pieces.union(dealing_frame(session, plan.dealing_old(), len(owners)))
            return engine.run_owners(pieces, owners, description="Writing")

        ensure_package(session)
        if plan is None:
            owners = owners_of(edit, cuts, mode, url=url)
            collect_owned(edit, lambda: run(owners), url=url)
        else:
            collect_rows(edit, plan, run, mode, engine, url=url)
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
