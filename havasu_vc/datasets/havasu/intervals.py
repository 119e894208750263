"""Intervals of keys: how a large diff is cut so that each task reads its own row groups.

Cuts are drawn from the least keys of row groups, at about equal amounts of data. Only
the first key column counts; rows that agree in it stay together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from havasu_vc.datasets.havasu.parquet import group_bytes, key_ranges
from havasu_vc.model import kernels as pc
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["Interval", "cut_intervals", "groups_in"]

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
    """Return the row groups of a file that may hold keys of an interval."""
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

    `files` are the paths of data files, each with the count of its rows that are read.
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
