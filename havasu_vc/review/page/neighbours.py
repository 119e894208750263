"""Unchanged rows beside the changed ones, which the map shows in grey.

They tell where a change is, and whether what it touches still fits.

Where changes are few, the rows of the newer version are read once, by the files that lie where
changes are. What counts as beside is a cell of a coarse grid over the change, so that a row is
looked at by a few operations whatever the number of changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import GeometryError, HavasuError
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.looking import Table, spread_batches
from havasu_vc.model import compute as pc
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.types import Field
from havasu_vc.review.page.packing import Packer
from havasu_vc.review.page.places import NEW, RowShapes
from havasu_vc.writers.protocol import Reproject

__all__ = ["Neighbours"]

MOST_CHANGES = 2000
"""Beside more changed rows no others are shown."""
MOST = 3000
"""Rows that are shown at most."""
MOST_READ = 1 << 18
"""Rows that are looked at at most; of a larger table, some from everywhere."""
CELLS = 256
"""Cells of the grid across, and as many up."""

_Floats = npt.NDArray[np.float64]


class Neighbours:
    """The unchanged rows of one dataset that lie beside changed ones."""

    def __init__(self, diff: DatasetDiff, reproject: Reproject | None, places: RowShapes) -> None:
        self._field = places.fields[1]
        self._shapes = RowShapes(diff, reproject)
        self._wanted = places.one_place and places.kind == "globe"
        self._boxes: list[_Floats] = []
        self._changed: list[pa.Array] = []
        self._count = 0
        self.total = 0
        """How many there are, shown or not."""

    def see(self, old: pa.Array | None, new: pa.Array | None) -> None:
        """Look at geometries of changed rows, before and after."""
        for column in (old, new):
            if column is None or not self._wanted or self._field is None:
                continue
            self._count += len(column)
            if self._count > 2 * MOST_CHANGES:
                self._wanted = False
                return
            try:
                self._boxes.append(_bounds(column, self._field))
            except GeometryError:
                continue
        if new is not None and self._wanted:
            self._changed.append(new)

    def read(self, view: Dataset, settings: Settings) -> None:
        """Find them in the newer version; what cannot be read shows none."""
        boxes = np.concatenate([*self._boxes, np.zeros((0, 4))])
        boxes = boxes[np.isfinite(boxes).all(axis=1)]
        if not self._wanted or self._field is None or not len(boxes):
            return
        try:
            found = pa.chunked_array(list(self._beside(view, settings, _Grid(boxes))))
        except (HavasuError, pa.ArrowInvalid):
            return
        self.total = len(found)
        step = max(1, -(-self.total // MOST))
        column = found.take(pa.array(np.arange(0, self.total, step))).combine_chunks()
        self._count = len(column)
        self._shapes.add(0, column, np.arange(len(column)), NEW)

    def _beside(self, view: Dataset, settings: Settings, grid: _Grid) -> Iterator[pa.Array]:
        field, seen, changed = self._field, 0, None
        assert field is not None
        west, south, east, north = grid.whole
        box = (west, south, east, north)
        for batch in spread_batches(Table(view, settings), [field.name], box):
            column = batch.column(0)
            near = np.flatnonzero(grid.touched_by(_bounds(column, field)))
            found = column.take(pa.array(near))
            if changed is None:
                changed = pa.concat_arrays([pa.array([], column.type), *self._changed])
            yield found.filter(pc.invert(pc.is_in(found, value_set=changed)))
            seen += len(batch)
            if seen >= MOST_READ:
                return

    def pack(self, packer: Packer) -> dict[str, Any] | None:
        """Lay out their shapes and say where they are; None where there are none."""
        if not self.total:
            return None
        return {
            "count": self._count,
            "total": self.total,
            "places": self._shapes.laid().pack(packer),
        }


class _Grid:
    """The cells over a change that hold some of it, and those beside them."""

    def __init__(self, boxes: _Floats) -> None:
        least, most = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
        sizes = boxes[:, 2:] - boxes[:, :2]
        size = max(float((most - least).max()), float(sizes.max()), 1e-9)
        margin = size / 64 + float(np.median(sizes.max(axis=1)))
        self._origin, self._cell = least - margin, (size + 2 * margin) / CELLS
        self.whole = (*(least - margin).tolist(), *(most + margin).tolist())
        marked = np.zeros((CELLS + 1, CELLS + 1), np.int64)
        first, last = self._cells(boxes + np.array([-margin, -margin, margin, margin]))
        for (left, low), (right, high) in zip(first.tolist(), last.tolist(), strict=True):
            marked[left + 1 : right + 2, low + 1 : high + 2] = 1
        self._sums = marked.cumsum(axis=0).cumsum(axis=1)

    def _cells(self, boxes: _Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        first, last = (
            np.clip((boxes[:, part] - self._origin) // self._cell, 0, CELLS - 1).astype(np.int64)
            for part in (slice(0, 2), slice(2, 4))
        )
        return first, last

    def touched_by(self, boxes: _Floats) -> npt.NDArray[np.bool_]:
        """Return which boxes touch a marked cell."""
        there: npt.NDArray[np.bool_] = np.asarray(np.isfinite(boxes).all(axis=1))
        west, south, east, north = self.whole
        boxes = np.where(there[:, None], boxes, 0.0)
        there &= (boxes[:, 0] <= east) & (boxes[:, 2] >= west)
        there &= (boxes[:, 1] <= north) & (boxes[:, 3] >= south)
        first, last = self._cells(boxes)
        sums = self._sums
        (left, low), (right, high) = first.T, last.T + 1
        inside = sums[right, high] - sums[left, high] - sums[right, low] + sums[left, low]
        return np.asarray(there & (inside > 0))


def _bounds(column: pa.Array, field: Field) -> _Floats:
    assert field.geometry is not None
    return row_bounds(column, field.geometry.encoding)
