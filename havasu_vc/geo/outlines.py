"""Geometries as plain paths and short labels: what a map draws and a table says.

`outlines` gives the points, lines and rings of a whole column as flat arrays; vertices
without a place (NaN, infinity) are left out, and so is what is empty. `geometry_labels`
says of each row what it is, a point by its coordinates. Both work on the layout of the
bytes, so that curves and what GEOS refuses are shown as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import GeometryError
from havasu_vc.geo.beyond_geos import beyond_geos
from havasu_vc.geo.buffers import Bools, Floats, Ints, byte_column, simple_column
from havasu_vc.geo.extent import vertex_numbers, vertex_positions
from havasu_vc.geo.kinds import KINDS
from havasu_vc.geo.layout import Layout, scan
from havasu_vc.records import dataclass

__all__ = [
    "LINE_PATH",
    "POINT_PATH",
    "RING_PATH",
    "UNREADABLE",
    "Outlines",
    "geometry_labels",
    "outlines",
    "simplified",
]

POINT_PATH, LINE_PATH, RING_PATH = 0, 1, 2
"""What a path is."""
UNREADABLE = "unreadable geometry"
"""The label of what is not sound WKB."""


@dataclass(frozen=True, slots=True)
class Outlines:
    """The paths of a column of geometries, in the order of their rows."""

    rows: Ints
    """Which row each path belongs to."""
    kinds: npt.NDArray[np.uint8]
    """What each path is."""
    counts: Ints
    """How many vertices each path has, never 0."""
    x: Floats
    """Of all vertices, one path after another."""
    y: Floats
    """Of all vertices, one path after another."""

    def within(self, kept: Bools) -> Outlines:
        """Return the paths with only the vertices that are kept."""
        owner = np.repeat(np.arange(len(self.counts)), self.counts)[kept]
        counts = np.bincount(owner, minlength=len(self.counts))
        full = counts > 0
        return Outlines(self.rows[full], self.kinds[full], counts[full], self.x[kept], self.y[kept])


def outlines(wkb: pa.Array[Any]) -> Outlines:
    """Return the paths of a column of WKB; rows that cannot be read have none."""
    layout = _scanned(wkb)
    items = np.flatnonzero(layout.count)
    positions = vertex_positions(layout, items)
    counts = layout.count[items]
    big = np.repeat(layout.big[items], counts) if layout.big.any() else None
    x, y = (vertex_numbers(layout, positions + offset, big) for offset in (0, 8))
    kind = layout.kind[items]
    kinds = np.select([kind == 1, kind == 0], [POINT_PATH, RING_PATH], LINE_PATH)
    rows = layout.column.rows[layout.value[items]]
    found = Outlines(rows, kinds.astype(np.uint8), counts, x, y)
    there: Bools = np.isfinite(x) & np.isfinite(y)
    return found if there.all() else found.within(there)


def simplified(wkb: pa.Array[Any], rows: Ints, vertices: int) -> pa.Array[Any]:
    """Return a column of WKB with the geometries `rows` cut down to about so many vertices.

    What GEOS cannot read stays as it is.
    """
    import shapely

    values = wkb.to_pylist()
    curved = beyond_geos(wkb)
    for row in rows.tolist():
        if curved[row]:
            continue
        shape = shapely.from_wkb(values[row], on_invalid="ignore")
        if shape is None:
            continue
        xmin, ymin, xmax, ymax = shape.bounds
        tolerance = max(xmax - xmin, ymax - ymin) / 8192
        while np.isfinite(tolerance) and shapely.get_num_coordinates(shape) > vertices:
            simple = shape.simplify(tolerance, preserve_topology=False)
            if simple.is_empty:
                break
            shape, tolerance = simple, tolerance * 2
            if tolerance * 8 > max(xmax - xmin, ymax - ymin):
                break
        values[row] = shapely.to_wkb(shape)
    return pa.array(values, pa.binary())


def geometry_labels(wkb: pa.Array[Any]) -> pa.Array[Any]:
    """Return each geometry in few words; null stays null.

    >>> point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    >>> geometry_labels(pa.array([point, None, b"?"])).to_pylist()
    ['POINT (1 2)', None, 'unreadable geometry']
    """
    layout = _scanned(wkb)
    labels = np.full(len(wkb), UNREADABLE, object)
    tops = np.flatnonzero(layout.is_top)
    totals = np.bincount(layout.value, layout.count, minlength=len(layout.column.starts))
    totals = totals.astype(np.int64)[layout.value[tops]]
    kinds, rows = layout.kind[tops], layout.column.rows[layout.value[tops]]
    heights = _heights(layout)
    for kind in np.unique(kinds).tolist():
        these = kinds == kind
        if kind == 1:
            labels[rows[these]] = _point_labels(layout, tops[these], heights)
            continue
        name = KINDS.get(kind, "GEOMETRY")
        values = layout.value[tops[these]].tolist()
        labels[rows[these]] = [
            f"{name} of {count:,} vertices{heights.get(value, '')}" if count else f"{name} EMPTY"
            for count, value in zip(totals[these].tolist(), values, strict=True)
        ]
    return pc.if_else(wkb.is_valid(), pa.array(labels, pa.string()), None)


def _point_labels(layout: Layout, items: Ints, heights: dict[int, str]) -> list[str]:
    positions = vertex_positions(layout, items)
    big = layout.big[items] if layout.big.any() else None
    x, y = (vertex_numbers(layout, positions + offset, big) for offset in (0, 8))
    values = layout.value[items].tolist()
    return [
        "POINT EMPTY"
        if a != a and b != b
        else f"POINT ({_number(a)} {_number(b)}){heights.get(value, '')}"
        for a, b, value in zip(x.tolist(), y.tolist(), values, strict=True)
    ]


def _heights(layout: Layout) -> dict[int, str]:
    """Return in words between which heights a value lies, of those that have some."""
    items = np.flatnonzero((layout.dimensions & 1).astype(bool) & (layout.count > 0))
    if not len(items):
        return {}
    owners = np.repeat(layout.value[items], layout.count[items])
    big = np.repeat(layout.big[items], layout.count[items]) if layout.big.any() else None
    z = vertex_numbers(layout, vertex_positions(layout, items) + 16, big)
    least, most = np.full(owners.max() + 1, np.nan), np.full(owners.max() + 1, np.nan)
    np.fmin.at(least, owners, z)
    np.fmax.at(most, owners, z)
    return {
        value: f", height {low:.7g}" + (f" to {high:.7g}" if high != low else "")
        for value, low, high in zip(range(len(least)), least.tolist(), most.tolist(), strict=True)
        if low == low
    }


def _number(value: float) -> str:
    text = repr(value)
    return text.removesuffix(".0")


def _scanned(wkb: pa.Array[Any]) -> Layout:
    """Return the layout of a column, values that are not sound WKB left out."""
    column = simple_column(wkb)
    try:
        return scan(byte_column(column))
    except GeometryError:
        sound = [_is_sound(column.slice(row, 1)) for row in range(len(column))]
        return scan(byte_column(pc.if_else(pa.array(sound), column, None)))


def _is_sound(value: pa.Array[Any]) -> bool:
    try:
        scan(byte_column(value))
    except GeometryError:
        return False
    return True
