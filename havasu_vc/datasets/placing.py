"""Where rows lie along a Hilbert curve: rows that are near each other get near numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.hilbert import hilbert_index
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task

__all__ = ["HILBERT", "with_hilbert"]

HILBERT = "_hilbert"
"""The name of the column that holds a row's place."""


@kernel
def with_hilbert(task: Task, schema: Schema, name: str, extent: Bounds) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task with their place along a Hilbert curve in a last column."""
    geometry = schema.by_name[name].geometry
    if geometry is None:
        raise ValueError(f"{name!r} is no geometry column")
    for batch in run_task(task):
        corners = row_bounds(batch.column(name), geometry.encoding)
        xs, ys = (corners[:, 0] + corners[:, 2]) / 2, (corners[:, 1] + corners[:, 3]) / 2
        places = hilbert_index(xs, ys, extent)
        yield batch.append_column(HILBERT, pa.array(places))
