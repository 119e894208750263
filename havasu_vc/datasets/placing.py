"""Where rows lie along a Hilbert curve: rows that are near each other get near numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import Floats, Ints
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task

__all__ = ["HILBERT", "LAST", "hilbert_index", "with_hilbert"]


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


# Positions along a Hilbert curve, for rows that lie together to be stored together.
#
# The plane's bounds are cut into 2^order by 2^order cells and the curve visits each
# once, neighbours after neighbours. Four bits of x and y are looked up at a time in
# a table that is made once.

LAST: Final = np.uint64(2**64 - 1)
"""The index of what is nowhere: it sorts behind all else."""

# Per orientation of the curve, for the quadrants (x, y) = (0,0) (0,1) (1,0) (1,1):
# when the quadrant is visited, and how the curve lies in it.
_VISITED: Final = ((0, 1, 3, 2), (0, 3, 1, 2), (2, 1, 3, 0), (2, 3, 1, 0))
_INSIDE: Final = ((1, 0, 2, 0), (0, 3, 1, 1), (2, 2, 0, 3), (3, 1, 3, 2))
_STEP: Final = 4


def hilbert_index(
    xs: Floats, ys: Floats, bounds: Bounds, order: Literal[16, 32] = 16
) -> npt.NDArray[np.uint64]:
    """Return where each point lies along the curve through `bounds`.

    Points outside count as on the edge, points with NaN as `LAST`.
    """
    nowhere = np.isnan(xs) | np.isnan(ys)
    x = _cells(xs, bounds.xmin, bounds.xmax, order, nowhere)
    y = _cells(ys, bounds.ymin, bounds.ymax, order, nowhere)
    visited, inside = _tables()
    orientation = np.zeros(len(x), np.uint64)
    index = np.zeros(len(x), np.uint64)
    mask = np.uint64(2**_STEP - 1)
    for shift in range(order - _STEP, -1, -_STEP):
        cell = (orientation << np.uint64(2 * _STEP)) | (
            (x >> np.uint64(shift) & mask) << np.uint64(_STEP)
        )
        cell |= y >> np.uint64(shift) & mask
        index = (index << np.uint64(2 * _STEP)) | visited[cell]
        orientation = inside[cell]
    index[nowhere] = LAST
    return index


def _cells(
    values: Floats, least: float, most: float, order: int, nowhere: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint64]:
    extent = most - least
    if not extent > 0 or not np.isfinite(extent):
        return np.zeros(len(values), np.uint64)
    scaled = np.where(nowhere, 0.0, (values - least) / extent)
    cells: Floats = np.floor(np.clip(scaled, 0.0, 1.0) * 2.0**order)
    return np.minimum(cells, 2.0**order - 1).astype(np.uint64)


@cache
def _tables() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return for orientation, x and y of `_STEP` bits: the index, and the next orientation."""
    size = 2**_STEP
    start, x, y = np.meshgrid(np.arange(4), np.arange(size), np.arange(size), indexing="ij")
    visited, inside = np.array(_VISITED), np.array(_INSIDE)
    orientation: Ints = start.copy()
    index: Ints = np.zeros_like(start)
    for bit in range(_STEP - 1, -1, -1):
        quadrant = 2 * (x >> bit & 1) + (y >> bit & 1)
        index = 4 * index + visited[orientation, quadrant]
        orientation = inside[orientation, quadrant]
    return index.ravel().astype(np.uint64), orientation.ravel().astype(np.uint64)
