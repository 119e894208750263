"""Where row groups end: after so many rows, or before so many bytes.

A row counts with the bytes of its values alone, so the cuts do not depend on how the
rows were dealt out to batches, and equal rows give equal files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.model import kernels as pc

__all__ = ["cut_row_groups", "row_sizes"]

Sizes = npt.NDArray[np.int64]


def cut_row_groups(
    batches: Iterable[pa.RecordBatch], *, most_rows: int, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows cut where row groups end; a single row may be larger than a group."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        ends = np.cumsum(row_sizes(batch))
        at = 0
        while at < batch.num_rows:
            before = int(ends[at - 1]) if at else 0
            fitting = int(np.searchsorted(ends, before + most_bytes - size, "right")) - at
            count = min(max(fitting, 0 if rows else 1), most_rows - rows)
            if count:
                waiting.append(batch.slice(at, count))
                at += count
                rows += count
                size += int(ends[at - 1]) - before
            if rows == most_rows or at < batch.num_rows:
                yield pa.concat_batches(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def row_sizes(batch: pa.RecordBatch) -> Sizes:
    """Return about how many bytes each row takes in memory."""
    total = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        total += _sizes(column)
    return total


def _sizes(column: pa.Array) -> Sizes:
    type_ = column.type
    if pa.types.is_struct(type_):
        found = np.zeros(len(column), np.int64)
        for child in column.flatten():
            found += _sizes(child)
        return found
    if pa.types.is_map(type_):
        return _of_lists(column, (column.keys, column.items))
    if pa.types.is_list(type_):
        return _of_lists(column, (column.values,))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        lengths: Sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
        return lengths + 4
    return np.full(len(column), max(type_.bit_width // 8, 1), np.int64)


def _of_lists(column: pa.Array, parts: tuple[pa.Array, ...]) -> Sizes:
    offsets = column.offsets.to_numpy().astype(np.int64)
    found = np.full(len(column), 4, np.int64)
    for part in parts:
        sums = np.concatenate([[0], np.cumsum(_sizes(part))])
        found += sums[offsets[1:]] - sums[offsets[:-1]]
    if column.null_count:
        # What a null spans depends on how it was made.
        found[~pc.is_valid(column).to_numpy(zero_copy_only=False)] = 4
    return found
