"""The R-tree of a working copy that is made as a whole: its nodes are packed, full, in one go.

A row of it takes 24 bytes until then, and while it is packed as many again for a time.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from havasu_vc.exchange.living_tables import index_name, insert_rows
from havasu_vc.exchange.ogr_formats import quoted

__all__ = ["index_cells", "pack_index"]

_CELL = np.dtype([("id", np.int64), ("box", np.float32, 4)])
_STORED_CELL = np.dtype([("id", ">i8"), ("box", ">f4", 4)])
_NODE_BYTES, _MOST_CELLS, _FULL = 4 + 51 * _CELL.itemsize, 51, 46
_NODES_AT_ONCE, _ROWS_AT_ONCE = 1 << 11, 1 << 16
"""So many are values of Python at a time, which take more room than numbers of numpy's."""

Boxes = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Cells = npt.NDArray[np.void]
"""Rows of an R-tree: `id`, and as `box` minx, maxx, miny, maxy, no smaller than it was."""


def index_cells(ids: Sequence[int], boxes: Boxes) -> bytes:
    """Return rows as an R-tree holds them; `boxes` are xmin, ymin, xmax, ymax, NaN for none."""
    there = ~np.isnan(boxes).any(axis=1)
    cells = np.empty(int(there.sum()), _CELL)
    cells["id"] = np.array(ids, np.int64)[there]
    cells["box"] = _outwards(boxes[there])
    return cells.tobytes()


def pack_index(database: sqlite3.Connection, table: str, column: str, held: bytearray) -> None:
    """Fill an R-tree that is empty with rows, which `index_cells` returned piece by piece."""
    cells = np.frombuffer(held, _CELL)
    if not len(cells):
        return
    # SQLite appends to a table whose rows come by their numbers; they often are in order.
    if (cells["id"][1:] < cells["id"][:-1]).any():
        cells = cells[np.argsort(cells["id"], kind="stable")]
    name = index_name(table, column)
    order = _tiles(cells["box"])
    database.execute(f"DELETE FROM {quoted(f'{name}_node')}")
    depth, following, owners = 0, 2, "rowid"
    while True:
        is_root = len(cells) <= _MOST_CELLS
        count = 1 if is_root else -(-len(cells) // _FULL)
        cuts = np.linspace(0, len(cells), count + 1).astype(np.int64)
        first = 1 if is_root else following
        numbers = np.arange(first, first + count)
        owner, above = np.empty(len(cells), np.int64), np.empty(count, _CELL)
        for start in range(0, count, _NODES_AT_ONCE):
            some = slice(start, start + _NODES_AT_ONCE)
            here = cuts[start : start + _NODES_AT_ONCE + 1]
            places, here = order[here[0] : here[-1]], here - here[0]
            inside = cells[places]
            blobs = _nodes(inside, here, depth if is_root else 0)
            insert_rows(database, f"{name}_node", (numbers[some].tolist(), blobs))
            owner[places] = np.repeat(numbers[some], np.diff(here))
            for axis, reduce in enumerate((np.minimum, np.maximum) * 2):
                above["box"][some, axis] = reduce.reduceat(inside["box"][:, axis], here[:-1])
        for start in range(0, len(cells), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            ids = cells["id"][some].tolist()
            insert_rows(database, f"{name}_{owners}", (ids, owner[some].tolist()))
        if is_root:
            return
        above["id"] = numbers
        cells, order = above, np.arange(count)
        depth, following, owners = depth + 1, following + count, "parent"


def _tiles(boxes: npt.NDArray[np.float32]) -> Ids:
    """Return an order in which rows that are near each other come together."""
    with np.errstate(invalid="ignore"):  # a box that is everywhere has no middle
        x, y = (boxes[:, axis] / 2 + boxes[:, axis + 1] / 2 for axis in (0, 2))
    slices = max(1, round((len(boxes) / _FULL) ** 0.5))
    size = -(-len(boxes) // slices)
    order = np.argsort(x)
    for first in range(0, len(order), size):
        within = order[first : first + size]
        order[first : first + size] = within[np.argsort(y[within])]
    return order


def _outwards(boxes: Boxes) -> npt.NDArray[np.float32]:
    """Return minx, maxx, miny, maxy in single precision, no box smaller than it was."""
    wide = boxes[:, [0, 2, 1, 3]]
    found = wide.astype(np.float32)
    down, up = np.float32(-np.inf), np.float32(np.inf)
    for axes, towards, wrong in (([0, 2], down, np.greater), ([1, 3], up, np.less)):
        part = found[:, axes]
        found[:, axes] = np.where(
            wrong(part.astype(np.float64), wide[:, axes]), np.nextafter(part, towards), part
        )
    return found


def _nodes(cells: Cells, cuts: Ids, depth: int) -> list[bytes]:
    """Return the nodes that hold some cells each; only the root says how deep the tree is."""
    data = cells.astype(_STORED_CELL).tobytes()
    size = _STORED_CELL.itemsize
    return [
        (struct.pack(">HH", depth, end - start) + data[start * size : end * size]).ljust(
            _NODE_BYTES, b"\0"
        )
        for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    ]
