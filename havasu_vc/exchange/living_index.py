"""The R-tree of a working copy that is made as a whole: its nodes are packed, full, as rows come.

So many rows as make a part are held, 24 bytes each, and become leaves; of these a cell each is
held, until all rows are there and the nodes above can be made. Each part has leaves all over its
own rows, so a search looks into one more for each part, however many rows there are.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from havasu_vc.exchange.living_tables import index_name, insert_rows
from havasu_vc.exchange.ogr_formats import quoted

__all__ = ["IndexPacking"]

_CELL = np.dtype([("id", np.int64), ("box", np.float32, 4)])
_STORED_CELL = np.dtype([("id", ">i8"), ("box", ">f4", 4)])
_NODE_BYTES, _MOST_CELLS, _FULL = 4 + 51 * _CELL.itemsize, 51, 46
_PART = 1 << 17
_NODES_AT_ONCE, _ROWS_AT_ONCE = 1 << 10, 1 << 15
"""So many are values of Python at a time, which take more room than numbers of numpy's."""

Boxes = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Cells = npt.NDArray[np.void]
"""Rows of an R-tree: `id`, and as `box` minx, maxx, miny, maxy, no smaller than it was."""


class IndexPacking:
    """An R-tree that was empty, while it is filled."""

    def __init__(self, database: sqlite3.Connection, table: str, column: str) -> None:
        self._database = database
        self._name = index_name(table, column)
        self._held: list[Cells] = []
        self._above: list[Cells] = []
        self._following = 2

    def add(self, ids: Sequence[int], boxes: Boxes) -> None:
        """Take in rows; `boxes` are xmin, ymin, xmax, ymax, NaN for none."""
        there = ~np.isnan(boxes).any(axis=1)
        cells = np.empty(int(there.sum()), _CELL)
        cells["id"] = np.array(ids, np.int64)[there]
        cells["box"] = _outwards(boxes[there])
        self._held.append(cells)
        if sum(map(len, self._held)) >= _PART:
            self._add_leaves()

    def finish(self) -> None:
        """Make what stands above the leaves."""
        if not self._above and 0 < sum(map(len, self._held)) <= _MOST_CELLS:
            self._add_root(np.concatenate(self._held), 0, "rowid")
            return
        self._add_leaves()
        if not self._above:
            return
        cells, depth = np.concatenate(self._above), 1
        while len(cells) > _MOST_CELLS:
            cells, depth = self._add_nodes(cells, "parent"), depth + 1
        self._add_root(cells, depth, "parent")

    def _add_leaves(self) -> None:
        cells = np.concatenate(self._held) if self._held else np.empty(0, _CELL)
        self._held = []
        if not len(cells):
            return
        # SQLite appends to a table whose rows come by their numbers; they often are in order.
        if (cells["id"][1:] < cells["id"][:-1]).any():
            cells = cells[np.argsort(cells["id"], kind="stable")]
        self._above.append(self._add_nodes(cells, "rowid"))

    def _add_nodes(self, cells: Cells, owners: str) -> Cells:
        """Write a level's nodes, and in the table `owners` what is in which; return their cells."""
        count = -(-len(cells) // _FULL)
        cuts = np.linspace(0, len(cells), count + 1).astype(np.int64)
        numbers = np.arange(self._following, self._following + count)
        self._following += count
        order = _tiles(cells["box"])
        owner, above = np.empty(len(cells), np.int64), np.empty(count, _CELL)
        above["id"] = numbers
        for start in range(0, count, _NODES_AT_ONCE):
            some = slice(start, start + _NODES_AT_ONCE)
            here = cuts[start : start + _NODES_AT_ONCE + 1]
            places, here = order[here[0] : here[-1]], here - here[0]
            inside = cells[places]
            self._insert("node", numbers[some], _nodes(inside, here, 0))
            owner[places] = np.repeat(numbers[some], np.diff(here))
            for axis, reduce in enumerate((np.minimum, np.maximum) * 2):
                above["box"][some, axis] = reduce.reduceat(inside["box"][:, axis], here[:-1])
        for start in range(0, len(cells), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            self._insert(owners, cells["id"][some], owner[some].tolist())
        return above

    def _add_root(self, cells: Cells, depth: int, owners: str) -> None:
        """Write the node over all others, in the place of an empty one."""
        self._database.execute(f"DELETE FROM {quoted(f'{self._name}_node')} WHERE nodeno = 1")
        (root,) = _nodes(cells, np.array([0, len(cells)]), depth)
        self._insert("node", np.array([1]), [root])
        self._insert(owners, cells["id"], [1] * len(cells))

    def _insert(self, part: str, numbers: Ids, values: Sequence[object]) -> None:
        insert_rows(self._database, f"{self._name}_{part}", (numbers.tolist(), values))


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
