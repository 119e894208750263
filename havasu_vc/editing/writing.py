"""Committing rows that a program has: upsert, append, delete and overwrite, by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.pairing import conform, describe_key, pair_rows
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    KeyViolationError,
    SchemaViolationError,
)
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import kernel, task_of
from havasu_vc.repo.edits import aligned, commit_edits
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult

if TYPE_CHECKING:
    from havasu_vc.exchange.frames import Rows

__all__ = ["MODES", "changes_of", "whole_rows", "write_rows"]

MODES = ("upsert", "append", "delete", "overwrite")
BATCH_ROWS = 1 << 16


def write_rows(
    repo: OpenRepo,
    dataset: str,
    rows: Rows,
    *,
    mode: str = "upsert",
    message: str | None = None,
) -> CommitResult:
    """Commit rows by key: `upsert`, `append`, `delete`, or `overwrite` to hold just these.

    Rows are a data frame of pandas, GeoPandas or Polars, a table or batches of Arrow, a relation
    of DuckDB, or a list of dicts. Columns that they do not have stay as they are.
    """
    from havasu_vc.exchange.frames import arrow_table, conforming

    path = dataset
    if mode not in MODES:
        raise InvalidArgumentError(
            f"there is no mode {mode!r}", hints=(f"modes: {', '.join(MODES)}",)
        )
    held, _ = arrow_table(rows)  # once: a race that is lost makes the edit again

    def make(view: Dataset, engine: Engine) -> TreeEdit:
        table = conforming(held, view.schema, view.crs)
        if mode == "overwrite":
            from havasu_vc.transfer import replacement

            whole = whole_rows(table, view.schema)
            tasks = [task_of(given, batch) for batch in whole.to_batches(BATCH_ROWS)]
            return replacement(view, tasks, view.schema, {}, engine, whole.nbytes)
        if mode != "append" and not view.key:
            raise InvalidArgumentError(
                f"{path} has no key, so rows cannot be told apart", hints=("use mode 'append'",)
            )
        with view.edit() as edit:
            edit.collect(changes_of(view, table, mode))
            return edit.finish() if edit.counts.total else TreeEdit(path, {})

    try:
        return commit_edits(repo, [(path, make)], message or f"Write to {path}")
    except DatasetNotFoundError as error:
        error.hints = (f"`repo.import_(rows, {path!r})` makes a dataset of rows", *error.hints)
        raise


@kernel
def given(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield rows that are part of the task itself."""
    yield batch


def whole_rows(table: pa.Table, schema: Schema) -> pa.Table:
    """Return rows with all columns of the schema, nulls where they have none."""
    batches = [_filled(batch, schema) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, arrow_schema(schema))


def _filled(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    unknown = sorted(set(batch.schema.names) - set(schema.names))
    if unknown:
        raise SchemaViolationError(
            f"the dataset has no column {unknown[0]!r}", hints=("add it with `havasu-vc meta set`",)
        )
    for field in arrow_schema(schema):
        if field.name not in batch.schema.names:
            batch = batch.append_column(field, pa.nulls(batch.num_rows, field.type))
    return conform(batch.select(list(schema.names)), schema)


def changes_of(view: Dataset, table: pa.Table, mode: str) -> Iterator[ChangeBatch]:
    """Yield the changes that rows mean in one of the modes but `overwrite`, in key order."""
    if not table.num_rows:
        return
    schema = view.schema
    empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
    if not view.key:
        for batch in whole_rows(table, schema).to_batches(BATCH_ROWS):
            yield from pair_rows(empty, batch, schema, schema)
        return
    keys = schema.select(schema.key.names)
    missing = [name for name in keys.names if name not in table.schema.names]
    if missing:
        raise KeyViolationError(f"the rows have no key column {missing[0]!r}")
    for piece in _in_order(table, keys):
        wanted = conform(piece.select(list(keys.names)), keys)
        if mode == "append":
            yield from pair_rows(empty, _filled(piece, schema), schema, schema)
            continue
        current = view.rows_with_keys(wanted)
        found = aligned(current, wanted, schema)
        if mode == "delete":
            chosen = pc.take(current, pc.drop_null(found))
            yield from pair_rows(chosen, empty, schema, schema)
        else:
            new = _updated(piece, current, found, schema)
            yield from pair_rows(
                pc.take(current, pc.unique(pc.drop_null(found))), new, schema, schema
            )


def _in_order(table: pa.Table, keys: Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows in key order, in pieces; raises when a key is null or comes twice."""
    given = table.select(list(keys.names))
    wanted = [conform(batch, keys) for batch in given.to_batches()]
    for index, name in enumerate(table.schema.names):
        if name in keys.names:
            column = pa.chunked_array([batch.column(name) for batch in wanted])
            table = table.set_column(index, name, column)
    by = [(name, "ascending") for name in keys.names]
    order = pc.sort_indices(table.select(list(keys.names)), sort_keys=by)
    last: tuple[object, ...] | None = None
    for start in range(0, table.num_rows, BATCH_ROWS):
        chosen = pc.take(table, order.slice(start, BATCH_ROWS)).combine_chunks()
        (piece,) = chosen.to_batches()
        found = [piece.column(name) for name in keys.names]
        first = tuple(column[0].as_py() for column in found)
        same = np.ones(piece.num_rows - 1, bool)
        for column in found:
            equal = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
            same &= equal.to_numpy(zero_copy_only=False)
        if same.any() or first == last:
            where = int(np.flatnonzero(same)[0]) if same.any() else 0
            key = describe_key(tuple(column[where].as_py() for column in found))
            raise KeyViolationError(
                f"the key {key} comes twice among the rows", hints=("give each row once",)
            )
        last = tuple(column[-1].as_py() for column in found)
        yield piece


def _updated(
    piece: pa.RecordBatch, current: pa.RecordBatch, found: pa.Array, schema: Schema
) -> pa.RecordBatch:
    """Return rows with all columns; those not given keep the values of rows that are there."""
    for field in arrow_schema(schema):
        if field.name not in piece.schema.names:
            piece = piece.append_column(field, pc.take(current.column(field.name), found))
    return _filled(piece, schema)
