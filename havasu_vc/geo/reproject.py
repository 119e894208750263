"""Coordinates of whole columns from one reference system to another.

x and y of all vertices are gathered from the bytes, transformed in one call and
written back in their places; Z, M, SRIDs, structure and NaN stay as they are. x
is longitude or easting on both sides.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from havasu_vc.errors import CrsError
from havasu_vc.geo.buffers import (
    ByteColumn,
    Column,
    binary_column,
    byte_column,
    overlapping,
    pack,
    simple_column,
)
from havasu_vc.geo.crs import projection
from havasu_vc.geo.extent import vertex_positions
from havasu_vc.geo.layout import scan
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.crs import Crs

if TYPE_CHECKING:
    import pyproj

__all__ = ["transform", "transform_bounds"]

_SAMPLES: Final = 21  # on each edge
# A smooth edge as deep as the bounds are wide bulges by its depth over the square of the samples.
_BULGE: Final = 1 / _SAMPLES**2


def transform(wkb: Column, source: Crs, target: Crs) -> "pa.Array[Any]":
    """Return a column of canonical WKB with its coordinates in the target system."""
    array = simple_column(wkb)
    view = pack(byte_column(array))
    if source == target or not len(view.starts):
        return array
    data = view.data.copy()
    view = ByteColumn(data, view.starts, view.lengths, view.rows, view.size)
    layout = scan(view)
    runs = np.flatnonzero(layout.count)
    at = vertex_positions(layout, runs)
    numbers = overlapping(data, "<f8")
    x, y = numbers[at], numbers[at + 8]
    there = np.isfinite(x) & np.isfinite(y)
    if not there.all():
        at, x, y = at[there], x[there], y[there]
    new_x, new_y = _transformer(source, target).transform(x, y)
    lost = ~(np.isfinite(new_x) & np.isfinite(new_y))
    if lost.any():
        value = np.searchsorted(view.starts, at[np.argmax(lost)], side="right") - 1
        raise CrsError(
            f"the geometry in row {int(view.rows[value])} lies where {source.identifier}"
            f" cannot be transformed to {target.identifier}"
        )
    numbers[at], numbers[at + 8] = new_x, new_y
    return binary_column(data, view.lengths, view.rows, view.size)


def transform_bounds(bounds: Bounds, source: Crs, target: Crs) -> Bounds:
    """Return bounds in the target system that cover the transformed ones.

    They are wider by a little, for the edges are sampled and what is between samples
    may bulge. Bounds that come to lie across the antimeridian widen to all longitudes.
    """
    import pyproj

    if source == target or not bounds.finite:
        return bounds
    try:
        xmin, ymin, xmax, ymax = _transformer(source, target).transform_bounds(
            bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax, densify_pts=_SAMPLES
        )
    except pyproj.exceptions.ProjError as error:
        raise _out_of_reach(source, target) from error
    if not np.isfinite([xmin, ymin, xmax, ymax]).all():
        raise _out_of_reach(source, target)
    if xmin > xmax:
        xmin, xmax = -180.0, 180.0
    bulge = _BULGE * max(xmax - xmin, ymax - ymin)
    return Bounds(xmin - bulge, ymin - bulge, xmax + bulge, ymax + bulge)


def _out_of_reach(source: Crs, target: Crs) -> CrsError:
    return CrsError(
        f"these bounds lie where {source.identifier} cannot be transformed to {target.identifier}"
    )


@lru_cache(maxsize=64)
def _transformer(source: Crs, target: Crs) -> "pyproj.Transformer":
    import pyproj

    try:
        return pyproj.Transformer.from_crs(projection(source), projection(target), always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise CrsError(
            f"{source.identifier} cannot be transformed to {target.identifier}"
        ) from error
