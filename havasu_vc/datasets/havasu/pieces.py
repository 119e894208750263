"""Pieces of a diff: rows of one side that may differ, and the kernel that pairs two sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.havasu.deletes import needs_originals, read_deleted_rows
from havasu_vc.datasets.havasu.kernels import deleted_positions, positions_but
from havasu_vc.datasets.havasu.parquet import (
    Positions,
    file_name,
    group_bytes,
    key_ranges,
    one_batch,
    open_parquet,
    read_row_groups,
    row_group_starts,
)
from havasu_vc.datasets.pairing import pair_rows, row_hashes, same_key
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch, present_rows
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task
from havasu_vc.records import dataclass

__all__ = [
    "DeletedPiece",
    "FilePiece",
    "Interval",
    "Piece",
    "cut_intervals",
    "differing",
    "groups_in",
    "pair",
    "pair_parts",
    "rows",
]


@dataclass(frozen=True, slots=True)
class FilePiece:
    """The live rows of a data file."""

    path: str
    """The data file."""
    deletes: tuple[str, ...]
    """Delete files that delete from it."""
    count: int
    """Rows, deleted ones included."""
    size: int
    """Bytes."""
    groups: tuple[int, ...] | None = None
    """The row groups that count; None for all."""

    @property
    def read(self) -> tuple[tuple[str, int], ...]:
        """The data files that are read, each with how many of its rows."""
        return ((self.path, self.count),)

    def batches(self, schema: Schema, interval: Interval | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the columns of a schema."""
        deleted = deleted_positions(file_name(self.path), self.deletes)
        groups = self.groups if interval is None else groups_in(self.path, interval)
        yield from read_row_groups(self.path, schema, groups=groups, deleted=deleted)

    def numbered(self, schema: Schema, wanted: Positions | None) -> Iterator[pa.RecordBatch]:
        """Yield rows, of which only some may be `wanted`, with their places in a last column."""
        deleted = deleted_positions(file_name(self.path), self.deletes)
        groups: Sequence[int] | None = self.groups
        if wanted is not None:
            with open_parquet(self.path) as file:
                starts = row_group_starts(file)
            groups = np.unique(np.searchsorted(starts, wanted, "right") - 1).tolist()
        for batch in read_row_groups(
            self.path, schema, groups=groups, deleted=deleted, positions=True
        ):
            if wanted is None:
                yield batch
                continue
            places = batch.column(batch.num_columns - 1).to_numpy()
            keep = np.isin(places, wanted, assume_unique=True)
            if keep.any():
                yield pc.filter(batch, arrow_array(keep))


@dataclass(frozen=True, slots=True)
class DeletedPiece:
    """Rows that a delete file carries."""

    path: str
    """The delete file."""
    counts: Mapping[str, int]
    """How many of its rows are wanted, by data file; no fewer, where some are left out."""
    data: Mapping[str, str]
    """Paths of the data files."""
    size: int
    """Bytes, about."""
    but: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Delete files of the other side by data file: what they take away too is not wanted."""

    @property
    def count(self) -> int:
        """Rows."""
        return sum(self.counts.values())

    @property
    def read(self) -> tuple[tuple[str, int], ...]:
        """The files that are read, for large values data files too, each with how many rows."""
        read = [(self.path, self.count)]
        if needs_originals(self.path):
            read += ((self.data[file], count) for file, count in self.counts.items())
        return tuple(read)

    @property
    def wanted(self) -> Mapping[str, Positions | None]:
        """Which rows are wanted, by data file; None for all that it takes away from it.

        They are looked up where rows are read: nothing at a driver grows with them.
        """
        return {
            file: positions_but(self.path, file, self.but[file]) if file in self.but else None
            for file in self.counts
        }

    def batches(self, schema: Schema, interval: Interval | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the columns of a schema."""
        kept, groups = None, None
        if interval is not None:
            kept, groups = lambda rows: interval.mask(rows, schema), groups_in(self.path, interval)
        for deletion in read_deleted_rows(
            self.path, schema, self.wanted, self.data, kept=kept, groups=groups
        ):
            yield deletion.rows

    def numbered(self, schema: Schema, wanted: Positions | None) -> Iterator[pa.RecordBatch]:
        """Yield rows, of which only some may be `wanted`, with their numbers in a last column."""
        from havasu_vc.datasets.matching import numbered_here

        yield from numbered_here(self.batches(schema, None), wanted)


Piece: TypeAlias = FilePiece | DeletedPiece


@kernel
def pair(
    old: Sequence[Piece],
    new: Sequence[Piece],
    old_schema: Schema,
    new_schema: Schema,
    interval: Interval | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the changes between two sides whose keys are in an interval."""
    before = _gathered(old, old_schema, interval)
    after = _gathered(new, new_schema, interval)
    for batch in pair_rows(before, after, old_schema, new_schema):
        yield batch.data


def _gathered(pieces: Sequence[Piece], schema: Schema, interval: Interval | None) -> pa.RecordBatch:
    found = (
        batch if interval is None else interval.only(batch, schema)
        for piece in pieces
        for batch in piece.batches(schema, interval)
    )
    batches = [batch for batch in found if batch.num_rows]
    return _as_one(batches, schema) if not batches else one_batch(batches)


@kernel
def rows(
    piece: Piece, old_schema: Schema, new_schema: Schema, is_new: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece, and in a last column `_key` what stands for their key."""
    schema = new_schema if is_new else old_schema
    keyed = same_key(old_schema, new_schema)
    for batch in piece.batches(schema, None):
        keys = hash_keys(batch, schema) if keyed else row_hashes(batch, schema, new_schema)
        yield batch.append_column("_key", pa.array(keys))


@kernel
def differing(
    old: Sequence[Piece], new: Sequence[Piece], old_schema: Schema, new_schema: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the changes between pieces of two sides, and in a last column `_key` whose they are.

    A row that seems to come or go may have its partner in other pieces.
    """
    before, after = _gathered(old, old_schema, None), _gathered(new, new_schema, None)
    keyed = same_key(old_schema, new_schema)
    for changes in pair_rows(before, after, old_schema, new_schema):
        keys = np.empty(len(changes), np.uint64)
        comes = pc.is_valid(changes.new).to_numpy(zero_copy_only=False)
        goes = present_rows(pc.filter(changes.old, arrow_array(~comes)))
        for where, found, schema in (
            (comes, changes.new_rows(), new_schema),
            (~comes, goes, old_schema),
        ):
            keys[where] = (
                hash_keys(found, schema) if keyed else row_hashes(found, schema, new_schema)
            )
        yield changes.data.append_column("_key", arrow_array(keys))


@kernel
def pair_parts(
    old: Sequence[object],
    new: Sequence[object],
    half_paired: Sequence[object],
    old_schema: Schema,
    new_schema: Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield the changes between two parts that were dealt out by `_key`.

    What is `half_paired` comes from `differing`: its updates are done.
    """
    befores, afters = list(_dealt(old)), list(_dealt(new))
    for batch in _dealt(half_paired):
        changes = ChangeBatch(batch)
        stays, comes = pc.is_valid(changes.old), pc.is_valid(changes.new)
        befores.append(present_rows(pc.filter(changes.old, pc.invert(comes))))
        afters.append(present_rows(pc.filter(changes.new, pc.invert(stays))))
        yield pc.filter(batch, pc.and_(stays, comes))
    before, after = _as_one(befores, old_schema), _as_one(afters, new_schema)
    for done in pair_rows(before, after, old_schema, new_schema):
        yield done.data


def _dealt(tasks: Sequence[object]) -> Iterator[pa.RecordBatch]:
    for task in tasks:
        if isinstance(task, Task):
            for batch in run_task(task):
                yield batch.drop_columns(["_key"])


def _as_one(batches: Sequence[pa.RecordBatch], schema: Schema) -> pa.RecordBatch:
    target = arrow_schema(schema)
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=target)
    return one_batch([batch.cast(target) for batch in batches])


# Intervals of keys: how a large diff is cut so that each task reads its own row groups.
#
# Cuts are drawn from the least keys of row groups, at about equal amounts of data. Only
# the first key column counts; rows that agree in it stay together.

ROWS_A_TASK = 1 << 19
BYTES_A_TASK = 32 * 1024 * 1024
"""Bytes of both sides that a task pairs, unless single row groups have more."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Keys from `low` on and below `high`, by their first column."""

    field_id: int
    """The first key column."""
    low: Any | None
    """The least key, None for no limit."""
    high: Any | None
    """The first key beyond, None for no limit."""

    def only(self, batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
        """Return the rows in the interval."""
        keep = self.mask(batch, schema)
        return batch if keep is None else pc.filter(batch, keep)

    def mask(self, batch: pa.RecordBatch, schema: Schema) -> pa.BooleanArray | None:
        """Return which rows are in the interval; None for all.

        Limits may be of files whose key is wider than the batch's, so it is the values that
        are widened: no limit is rounded, and what is equal falls into one interval.
        """
        column = batch.column(schema.by_id[self.field_id].name)
        widest = _widest(column.type)
        column = column if column.type == widest else pc.cast(column, widest)
        keep = None
        if self.low is not None:
            keep = pc.greater_equal(column, pa.scalar(self.low, widest))
        if self.high is not None:
            below = pc.less(column, pa.scalar(self.high, widest))
            keep = below if keep is None else pc.and_(keep, below)
        return None if keep is None or pc.all(keep).as_py() else keep


def _widest(type_: pa.DataType) -> pa.DataType:
    """Return the type that a column of keys may have been widened to."""
    if pa.types.is_int32(type_):
        return pa.int64()
    return pa.decimal128(38, type_.scale) if pa.types.is_decimal(type_) else type_


def groups_in(path: str, interval: Interval) -> tuple[int, ...]:
    """Return the row groups of a data file or a delete file that may hold keys of an interval."""
    chosen = []
    for group, found in enumerate(key_ranges(path, interval.field_id)):
        if found is not None:
            least, greatest = found
            if interval.high is not None and least >= interval.high:
                continue
            if interval.low is not None and greatest < interval.low:
                continue
        chosen.append(group)
    return tuple(chosen)


def cut_intervals(files: Sequence[tuple[str, int]], field_id: int) -> tuple[Interval | None, ...]:
    """Return intervals that together hold all keys, each with about as much to read.

    `files` are the paths of files, each with the count of its rows that are read.
    """
    minima: list[tuple[Any, int, int]] = []
    for path, count in files:
        ranges = key_ranges(path, field_id)
        sizes = group_bytes(path)
        held = sum(rows for rows, _ in sizes)
        rows = count // max(len(ranges), 1)
        for found, (_, size) in zip(ranges, sizes, strict=True):
            if found is not None:
                minima.append((found[0], rows, size * min(count, held) // max(held, 1)))
    minima.sort(key=lambda item: item[0])
    cuts: list[Any] = []
    waiting = bytes_waiting = 0
    for least, rows, size in minima:
        full = waiting >= ROWS_A_TASK or (waiting and bytes_waiting + size > BYTES_A_TASK)
        if full and (not cuts or least > cuts[-1]):
            cuts.append(least)
            waiting = bytes_waiting = 0
        waiting += rows
        bytes_waiting += size
    if not cuts:
        return (None,)
    edges = [None, *cuts, None]
    return tuple(Interval(field_id, low, high) for low, high in pairwise(edges))
