"""Pieces of a diff: rows of one side that may differ, and the kernel that pairs two sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.havasu.deletes import read_deleted_rows
from havasu_vc.datasets.havasu.intervals import Interval, groups_in
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.parquet import Positions, one_batch, read_row_groups
from havasu_vc.datasets.pairing import pair_rows, row_hashes, same_key
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task

__all__ = ["DeletedPiece", "FilePiece", "Piece", "pair", "rows"]


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

    def batches(self, schema: Schema, interval: Interval | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the columns of a schema."""
        deleted = deleted_positions(Path(self.path).name, self.deletes)
        groups = None if interval is None else groups_in(self.path, interval)
        yield from read_row_groups(self.path, schema, groups=groups, deleted=deleted)


@dataclass(frozen=True, slots=True)
class DeletedPiece:
    """Rows that a delete file carries."""

    path: str
    """The delete file."""
    wanted: Mapping[str, Positions]
    """Which rows, by data file."""
    data: Mapping[str, str]
    """Paths of the data files."""
    count: int
    """Rows."""
    size: int
    """Bytes, about."""

    def batches(self, schema: Schema, interval: Interval | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the columns of a schema."""
        for deletion in read_deleted_rows(self.path, schema, self.wanted, self.data):
            yield deletion.rows


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
    batches = [
        batch if interval is None else interval.only(batch, schema)
        for piece in pieces
        for batch in piece.batches(schema, interval)
    ]
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
    return one_batch(batches)


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
def pair_parts(
    old: Sequence[object], new: Sequence[object], old_schema: Schema, new_schema: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the changes between two parts that were dealt out by `_key`."""
    sides: list[pa.RecordBatch] = []
    for tasks, schema in ((old, old_schema), (new, new_schema)):
        batches = [
            batch.drop_columns(["_key"])
            for task in tasks
            if isinstance(task, Task)
            for batch in run_task(task)
        ]
        target = arrow_schema(schema)
        empty = pa.RecordBatch.from_pylist([], schema=target)
        sides.append(one_batch([b.cast(target) for b in batches]) if batches else empty)
    before, after = sides
    for batch in pair_rows(before, after, old_schema, new_schema):
        yield batch.data
