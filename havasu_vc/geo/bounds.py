"""Bounds of geometry columns, from the bytes of their values.

Rules: SRIDs do not matter, nulls, empties and vertices with NaN count nothing,
parts of collections are united, Z and M are left out, nothing wraps. A column of
plain points is reduced straight from its buffer; everything else through the
layout of its bytes.
"""

from typing import Final

import numpy as np

from havasu_vc.geo.buffers import ByteColumn, Column, Floats
from havasu_vc.geo.extent import extents
from havasu_vc.geo.layout import scan
from havasu_vc.geo.points import point_records
from havasu_vc.geo.wkb import AnyEncoding, layout_column
from havasu_vc.model.bounds import EVERYWHERE, Bounds

__all__ = ["bounds_of", "row_bounds", "vertex_bounds"]


def bounds_of(column: Column, encoding: AnyEncoding = "wkb") -> Bounds | None:
    """Return the bounds of a whole column; None if it has no coordinates.

    `EVERYWHERE` if it holds arcs, whose extent is not known.
    """
    view = layout_column(column, encoding)
    points = point_records(view)
    if points is not None:
        return _bounds_of_points(points["x"], points["y"])
    rows = _value_bounds(view)
    rows = rows[~np.isnan(rows).any(axis=1)]
    if not len(rows):
        return None
    if np.isneginf(rows[:, 0]).any() and not np.isfinite(rows).all():
        unbounded = (rows == _EVERYWHERE).all(axis=1)
        if unbounded.any():
            return EVERYWHERE
    least, most = rows[:, :2].min(axis=0), rows[:, 2:].max(axis=0)
    return Bounds(float(least[0]), float(least[1]), float(most[0]), float(most[1]))


def row_bounds(column: Column, encoding: AnyEncoding = "wkb") -> Floats:
    """Return xmin, ymin, xmax, ymax of every row; NaN where there are none."""
    view = layout_column(column, encoding)
    bounds = np.full((view.size, 4), np.nan)
    points = point_records(view)
    if points is None:
        bounds[view.rows] = _value_bounds(view)
        return bounds
    x, y = points["x"], points["y"]
    nowhere = np.isnan(x) | np.isnan(y)
    for index, axis in enumerate((x, y, x, y)):
        bounds[view.rows, index] = np.where(nowhere, np.nan, axis)
    return bounds


def vertex_bounds(column: Column, encoding: AnyEncoding = "wkb") -> Floats:
    """Return xmin, ymin, xmax, ymax of the vertices of every row, of arcs too; NaN for none."""
    view = layout_column(column, encoding)
    bounds = np.full((view.size, 4), np.nan)
    bounds[view.rows] = extents(scan(view)).envelopes[:, [0, 2, 1, 3]]
    return bounds


def _bounds_of_points(x: Floats, y: Floats) -> Bounds | None:
    least_x, least_y = float(x.min()), float(y.min())
    if np.isnan(least_x) or np.isnan(least_y):
        there = ~(np.isnan(x) | np.isnan(y))
        return _bounds_of_points(x[there], y[there]) if there.any() else None
    return Bounds(least_x, least_y, float(x.max()), float(y.max()))


_EVERYWHERE: Final = np.array([-np.inf, -np.inf, np.inf, np.inf])


def _value_bounds(view: ByteColumn) -> Floats:
    found = extents(scan(view))
    bounds = found.envelopes[:, [0, 2, 1, 3]]
    bounds[found.arcs & ~found.empty] = _EVERYWHERE
    return bounds
