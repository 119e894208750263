"""Which rows of a geometry column match a spatial predicate, exactly.

Boxes decide what boxes can; only the rows in doubt become geometries. Coordinates are
compared as they are, in the plane of the column, and SRIDs are not looked at. Rows that
are null or empty match nothing, and an empty window is matched by nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import Bools, Column, Floats
from havasu_vc.geo.predicates import SpatialPredicate, Window
from havasu_vc.geo.wkb import AnyEncoding, to_canonical
from havasu_vc.geo.wkt import geos_geometries

__all__ = ["matching_rows"]


def matching_rows(
    column: Column, encoding: AnyEncoding, predicate: SpatialPredicate, window: Window
) -> Bools:
    """Return which rows of a column match a window; rows without a geometry do not."""
    boxes = row_bounds(column, encoding)
    found = _by_boxes(predicate, window, boxes)
    sure = _inside(predicate, window, boxes) & found
    rows = np.flatnonzero(found & ~sure)
    if rows.size:
        part = column if rows.size == len(column) else column.take(pa.array(rows))
        found[rows] = _exactly(part, encoding, predicate, window.geometry)
    return found


def _by_boxes(predicate: SpatialPredicate, window: Window, boxes: Floats) -> Bools:
    """Return which rows can match by their boxes; those without coordinates cannot."""
    bounds = window.bounds
    if bounds is None:
        return np.zeros(len(boxes), np.bool_)
    west, south, east, north = boxes.T
    if predicate is SpatialPredicate.CONTAINS:
        found = (west <= bounds.xmin) & (east >= bounds.xmax)
        found &= (south <= bounds.ymin) & (north >= bounds.ymax)
    else:
        found = (west <= bounds.xmax) & (east >= bounds.xmin)
        found &= (south <= bounds.ymax) & (north >= bounds.ymin)
    can: Bools = found  # comparisons with NaN are false
    return can


def _inside(predicate: SpatialPredicate, window: Window, boxes: Floats) -> Bools:
    """Return which rows a rectangle is sure to hold as a whole."""
    nothing = np.zeros(len(boxes), np.bool_)
    bounds = window.bounds
    if bounds is None or predicate is SpatialPredicate.CONTAINS or not window.is_rectangle:
        return nothing
    west, south, east, north = boxes.T
    # Strictly: what lies on the edge alone is not within.
    inside = (west > bounds.xmin) & (east < bounds.xmax)
    inside &= (south > bounds.ymin) & (north < bounds.ymax)
    sure: Bools = inside
    return sure


def _exactly(
    column: Column, encoding: AnyEncoding, predicate: SpatialPredicate, shape: Any
) -> Bools:
    import shapely

    geometries = geos_geometries(to_canonical(column, encoding)[0])
    shapely.prepare(shape)
    match predicate:
        case SpatialPredicate.INTERSECTS:
            found = shapely.intersects(shape, geometries)
        case SpatialPredicate.WITHIN:
            found = shapely.contains(shape, geometries)
        case _:
            found = shapely.within(shape, geometries)
    matched: Bools = np.asarray(found, np.bool_)
    return matched
