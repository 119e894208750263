"""The R-tree of a layer: packed as a whole, and the functions that its triggers call.

SQLite's R-tree is three ordinary tables: nodes of at most 51 cells, the leaf of each row, the
parent of each node. Rows that come together are sorted into tiles (sort by x, cut into
slices, sort each by y) and the nodes are written full, level upon level, which takes a tenth
of the time of inserting them one by one and gives a better tree. Triggers keep it from then
on, in any program that has the functions `ST_MinX` and the like; `add_functions` gives them
to a connection of ours.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import HavasuError
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.bounds import row_bounds

__all__ = [
    "add_functions",
    "create_index",
    "drop_index",
    "index_triggers",
    "insert_rows",
    "pack_index",
]

_CELL = np.dtype([("id", ">i8"), ("box", ">f4", 4)])
_NODE_BYTES, _MOST_CELLS, _FULL = 4 + 51 * _CELL.itemsize, 51, 46
_FUNCTIONS = ("ST_MinX", "ST_MinY", "ST_MaxX", "ST_MaxY")

_TOGETHER, _MOST_MARKS = 60, 990

Boxes = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


def index_name(table: str, column: str) -> str:
    """Return the name of the R-tree of a column."""
    return f"rtree_{table}_{column}"


def create_index(database: sqlite3.Connection, table: str, column: str) -> None:
    """Make an empty R-tree of a column, and say in the file that there is one."""
    name = quoted(index_name(table, column))
    database.execute(f"CREATE VIRTUAL TABLE {name} USING rtree(id, minx, maxx, miny, maxy)")
    database.execute(
        "INSERT OR REPLACE INTO gpkg_extensions VALUES (?, ?, 'gpkg_rtree_index', "
        "'http://www.geopackage.org/spec120/#extension_rtree', 'write-only')",
        (table, column),
    )


def drop_index(database: sqlite3.Connection, table: str, column: str) -> None:
    """Remove the R-tree of a column; its triggers go with the table."""
    database.execute(f"DROP TABLE IF EXISTS {quoted(index_name(table, column))}")
    database.execute("DELETE FROM gpkg_extensions WHERE lower(table_name) = lower(?)", (table,))


def index_triggers(table: str, column: str, fid: str) -> Iterator[str]:
    """Yield the statements that keep the R-tree as rows change, as the standard has them."""
    tree, t, c, i = (quoted(each) for each in (index_name(table, column), table, column, fid))
    there = f"(NEW.{c} NOTNULL AND NOT ST_IsEmpty(NEW.{c}))"
    gone = f"(NEW.{c} ISNULL OR ST_IsEmpty(NEW.{c}))"
    put = (
        f"INSERT OR REPLACE INTO {tree} VALUES (NEW.{i}, ST_MinX(NEW.{c}), ST_MaxX(NEW.{c}), "
        f"ST_MinY(NEW.{c}), ST_MaxY(NEW.{c}));"
    )
    take = f"DELETE FROM {tree} WHERE id = OLD.{i};"
    same, other = f"OLD.{i} = NEW.{i}", f"OLD.{i} != NEW.{i}"
    for suffix, event, when, what in (
        ("insert", "INSERT", there, put),
        ("update1", f"UPDATE OF {c}", f"{same} AND {there}", put),
        ("update2", f"UPDATE OF {c}", f"{same} AND {gone}", take),
        ("update3", "UPDATE", f"{other} AND {there}", f"{take} {put}"),
        ("update4", "UPDATE", f"{other} AND {gone}",
         f"DELETE FROM {tree} WHERE id IN (OLD.{i}, NEW.{i});"),
        ("delete", "DELETE", f"OLD.{c} NOT NULL", take),
    ):  # fmt: skip
        name = quoted(f"{index_name(table, column)}_{suffix}")
        yield f"CREATE TRIGGER {name} AFTER {event} ON {t} WHEN {when} BEGIN {what} END"


def pack_index(
    database: sqlite3.Connection, table: str, column: str, ids: Ids, boxes: Boxes
) -> None:
    """Fill an R-tree that is empty; `boxes` are xmin, ymin, xmax, ymax, NaN for no geometry."""
    there = ~np.isnan(boxes).any(axis=1)
    ids, boxes = ids[there], boxes[there]
    if not len(ids):
        return
    name = index_name(table, column)
    order = _tiles(boxes)
    cells = np.empty(len(ids), _CELL)
    cells["id"] = ids[order]
    cells["box"] = _outwards(boxes[order])
    database.execute(f"DELETE FROM {quoted(f'{name}_node')}")
    depth, following, owners = 0, 2, "rowid"
    while True:
        is_root = len(cells) <= _MOST_CELLS
        count = 1 if is_root else -(-len(cells) // _FULL)
        cuts = np.linspace(0, len(cells), count + 1).astype(np.int64)
        first = 1 if is_root else following
        numbers = np.arange(first, first + count)
        blobs = _nodes(cells, cuts, depth if is_root else 0)
        insert_rows(database, f"{name}_node", (numbers.tolist(), blobs))
        by_id = np.argsort(cells["id"], kind="stable")
        owner = np.repeat(numbers, np.diff(cuts))[by_id].tolist()
        insert_rows(database, f"{name}_{owners}", (cells["id"][by_id].tolist(), owner))
        if is_root:
            return
        box = cells["box"]
        cells = np.empty(count, _CELL)
        cells["id"] = numbers
        for axis, reduce in enumerate((np.minimum, np.maximum) * 2):
            cells["box"][:, axis] = reduce.reduceat(box[:, axis], cuts[:-1])
        depth, following, owners = depth + 1, following + count, "parent"


def insert_rows(
    database: sqlite3.Connection,
    table: str,
    columns: Sequence[Sequence[object]],
    names: Sequence[str] = (),
) -> None:
    """Insert rows that come as columns, several with each statement, which takes less."""
    width, count = len(columns), len(columns[0])
    together = max(1, min(_TOGETHER, _MOST_MARKS // width))
    into = f"{quoted(table)} ({', '.join(map(quoted, names))})" if names else quoted(table)
    row = f"({', '.join('?' * width)})"
    values = chain.from_iterable(zip(*columns, strict=True))
    for rows, times in ((together, count // together), (1, count % together)):
        database.executemany(
            f"INSERT INTO {into} VALUES {', '.join([row] * rows)}",
            (tuple(islice(values, rows * width)) for _ in range(times)),
        )


def _tiles(boxes: Boxes) -> Ids:
    """Return an order in which rows that are near each other come together."""
    x, y = boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3]
    slices = max(1, round((len(boxes) / _FULL) ** 0.5))
    rank = np.empty(len(boxes), np.int64)
    rank[np.argsort(x, kind="stable")] = np.arange(len(boxes))
    return np.lexsort((y, rank // -(-len(boxes) // slices)))


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


def _nodes(cells: npt.NDArray[np.void], cuts: Ids, depth: int) -> list[bytes]:
    """Return the nodes that hold some cells each; only the root says how deep the tree is."""
    data = cells.tobytes()
    size = _CELL.itemsize
    return [
        (struct.pack(">HH", depth, end - start) + data[start * size : end * size]).ljust(
            _NODE_BYTES, b"\0"
        )
        for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    ]


# Functions that triggers call, of GeoPackage's geometries


def add_functions(database: sqlite3.Connection) -> None:
    """Give a connection the functions that triggers of an R-tree call."""
    for place, name in enumerate(_FUNCTIONS):
        database.create_function(name, 1, _side(place), deterministic=True)
    database.create_function("ST_IsEmpty", 1, _is_empty, deterministic=True)


def _side(place: int) -> Callable[[object], float | None]:
    def side(value: object) -> float | None:
        box = _box(value) if isinstance(value, bytes) else None
        return None if box is None else box[place]

    return side


def _is_empty(value: object) -> int | None:
    if not isinstance(value, bytes):
        return None
    return int(_box(value) is None)


@lru_cache(maxsize=8)
def _box(value: bytes) -> tuple[float, ...] | None:
    """Return xmin, ymin, xmax, ymax of a geometry; None of an empty one, or of none at all."""
    try:
        wkb, _ = geometry_bytes.to_canonical(pa.array([value], pa.binary()), "gpkg")
        box = row_bounds(wkb)[0]
    except HavasuError:
        return None
    return None if np.isnan(box).any() else tuple(box.tolist())
