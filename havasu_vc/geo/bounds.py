"""Bounds of geometry columns, from their bytes: on the plane, and on the globe in degrees.

Rules: SRIDs do not matter, nulls, empties and vertices with NaN count nothing,
parts of collections are united, Z and M are left out, nothing wraps. A column of
plain points is reduced straight from its buffer; everything else through the
layout of its bytes.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from havasu_vc.geo.buffers import ARC_KINDS, Bools, ByteColumn, Column, Floats, Ints, point_records
from havasu_vc.geo.extent import extents, vertex_numbers, vertex_positions
from havasu_vc.geo.layout import GeometryLayout, scan
from havasu_vc.geo.wkb import AnyEncoding, layout_column
from havasu_vc.model.bounds import EVERYWHERE, Bounds
from havasu_vc.records import dataclass

__all__ = [
    "bounds_of",
    "globe_box",
    "globe_row_bounds",
    "may_reach",
    "meets_on_globe",
    "reach_of_rows",
    "row_bounds",
    "united_globe_bounds",
    "vertex_bounds",
]


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


# Bounds of geometries whose edges run on the globe, in degrees.
#
# An edge is the shortest way between its ends: it bulges towards a pole beyond both of
# them, and crosses the antimeridian where that is shorter. A ring around a pole holds the
# pole of the smaller side. So bounds lie on a circle here: where west is greater than
# east, they are from west to 180 together with -180 to east.
#
# Bounds are inclusive: ways along an ellipsoid, which differ a little from great circles,
# are given room. Nulls, empties and vertices with NaN count nothing; arcs reach anywhere.

_SPHERICAL: Final = "spherical"
_ROOM: Final = 1e-9
"""Degrees that rounding may take from a bulge: a tenth of a millimetre."""
_ELLIPSOID: Final = 1.1
"""How much higher than on a sphere a way along the ellipsoid may bulge, as a factor."""
_FAR: Final = 175.0
"""Degrees of longitude from which on the shortest way along an ellipsoid may be anywhere."""
_ALL: Final = (-180.0, -90.0, 180.0, 90.0)


def globe_row_bounds(
    column: Column, encoding: AnyEncoding = "wkb", edges: str = _SPHERICAL
) -> Floats:
    """Return west, south, east and north of every row; NaN where there are none.

    `edges` is how they run: great circles, or by the name of a way along the ellipsoid.
    """
    view = layout_column(column, encoding)
    layout = scan(view)
    bounds = np.full((view.size, 4), np.nan)
    runs = np.flatnonzero(layout.count)
    found = _Vertices.of(layout, runs)
    if len(found.run):
        extents = _run_extents(found, layout.kind[runs] == 0, edges == _SPHERICAL)
        bounds[view.rows] = _united(extents, layout.value[runs][found.firsts_run], len(view.rows))
    arcs = layout.value[np.isin(layout.kind, ARC_KINDS)]
    arcs = arcs[~np.isnan(bounds[view.rows[arcs]]).any(axis=1)]
    bounds[view.rows[arcs]] = _ALL
    return bounds


def reach_of_rows(column: Column, encoding: AnyEncoding, edges: str | None) -> Floats:
    """Return least and greatest x and y of every row; NaN where there are none.

    Those of vertices, or where `edges` run on the globe what all of the row lies in: all
    longitudes where it crosses the antimeridian.
    """
    if edges is None:
        return row_bounds(column, encoding)
    bounds = globe_row_bounds(column, encoding, edges)
    bounds[bounds[:, 0] > bounds[:, 2], ::2] = -180.0, 180.0
    return bounds


def meets_on_globe(box: tuple[float, float, float, float], bounds: Floats) -> Bools:
    """Return which bounds meet a box; NaN meets none. Either may cross the antimeridian.

    >>> meets_on_globe((170, 0, 190, 1), np.array([[-175.0, 0, -170, 9], [0, 0, 1, 1]])).tolist()
    [True, False]
    """
    west, south, east, north = box
    least, low, most, high = bounds.T
    width = east - west + (360 if west > east else 0)
    widths = most - least + np.where(least > most, 360, 0)
    beside = (np.mod(least - west, 360) <= width) | (np.mod(west - least, 360) <= widths)
    # All meridians meet at a pole.
    at_pole = ((high >= 90) & (north >= 90)) | ((low <= -90) & (south <= -90))
    within = (low <= north) & (high >= south)
    return np.asarray(within & (beside | at_pole))


def united_globe_bounds(rows: Floats) -> tuple[float, float, float, float] | None:
    """Return the narrowest bounds that hold those of some rows; None if none has any."""
    there = rows[~np.isnan(rows).any(axis=1)]
    if not len(there):
        return None
    west, south, east, north = there.T
    extents = np.column_stack([west, np.where(west > east, east + 360, east), south, north])
    found = _united(extents, np.zeros(len(there), np.int64), 1)[0]
    return (float(found[0]), float(found[1]), float(found[2]), float(found[3]))


def globe_box(vertices: Bounds) -> Bounds:
    """Return where geometries may reach whose vertices lie in a box.

    >>> globe_box(Bounds(0, 60, 90, 60)).ymax > 67.7
    True
    >>> globe_box(Bounds(-175, 10, 175, 20))
    Bounds(xmin=-180.0, ymin=10, xmax=180.0, ymax=90.0)
    """
    if not vertices.finite:
        return vertices
    width = vertices.xmax - vertices.xmin
    west, east = (vertices.xmin, vertices.xmax) if width < 180 else (-180.0, 180.0)
    south, north = vertices.ymin, vertices.ymax
    return Bounds(
        min(west, vertices.xmin),
        -_bulged(-south, width) if south < 0 else south,
        max(east, vertices.xmax),
        _bulged(north, width) if north > 0 else north,
    )


def may_reach(vertices: Bounds, box: tuple[float, float, float, float]) -> bool:
    """Return whether geometries may reach into a box whose vertices lie in another."""
    reach = globe_box(vertices)
    sides = np.array([[reach.xmin, reach.ymin, reach.xmax, reach.ymax]])
    return bool(meets_on_globe(box, sides)[0])


def _bulged(latitude: float, width: float) -> float:
    """Return how far towards the pole a way between two places of a latitude may reach."""
    if width >= _FAR or latitude >= 90:
        return max(90.0, latitude)
    top = math.tan(math.radians(latitude)) / math.cos(math.radians(width / 2))
    bulge = math.degrees(math.atan(top)) - latitude
    return min(90.0, latitude + bulge * _ELLIPSOID + math.radians(width) ** 2 + _ROOM)


@dataclass(frozen=True, slots=True)
class _Vertices:
    """The vertices of a column that are somewhere, run after run."""

    run: Ints
    """Which run each is in."""
    x: Floats
    """Longitudes."""
    y: Floats
    """Latitudes, at most those of the poles."""

    @classmethod
    def of(cls, layout: GeometryLayout, runs: Ints) -> _Vertices:
        at = vertex_positions(layout, runs)
        counts = layout.count[runs]
        big = np.repeat(layout.big[runs], counts) if layout.big.any() else None
        x, y = vertex_numbers(layout, at, big), vertex_numbers(layout, at + 8, big)
        there = np.isfinite(x) & np.isfinite(y)
        run = np.repeat(np.arange(len(runs)), counts)
        return cls(run[there], x[there], np.clip(y[there], -90, 90))

    @property
    def firsts(self) -> Ints:
        """Where each run that has vertices begins."""
        return np.flatnonzero(np.diff(self.run, prepend=-1))

    @property
    def firsts_run(self) -> Ints:
        """The runs that have vertices."""
        return self.run[self.firsts]


def _run_extents(found: _Vertices, rings: Bools, spherical: bool) -> Floats:
    """Return least and greatest longitude, unwound, and latitude of each run."""
    firsts = found.firsts
    begins = np.zeros(len(found.run), np.bool_)
    begins[firsts] = True
    # Unwound: each vertex the shortest way from the one before, over as many turns as it takes.
    steps = np.diff(found.x, prepend=found.x[:1])
    turns = np.where(begins, 0.0, -np.round(steps / 360))
    turns = np.cumsum(turns)
    turns -= np.repeat(turns[firsts], np.diff(np.append(firsts, len(turns))))
    x = found.x + 360 * turns
    west, east = np.minimum.reduceat(x, firsts), np.maximum.reduceat(x, firsts)
    low, high = _edge_extents(x, found.y, begins, spherical)
    south, north = np.minimum.reduceat(low, firsts), np.maximum.reduceat(high, firsts)
    lasts = np.append(firsts[1:], len(x)) - 1
    around = rings[found.run[firsts]] & (np.abs(x[lasts] - x[firsts]) > 180)
    if around.any():
        # A ring once around the globe: what it holds is the side of the pole that is nearer.
        area = np.add.reduceat(_areas(x, found.y, begins), firsts) * np.sign(x[lasts] - x[firsts])
        north[around & (area >= 0)] = 90.0
        south[around & (area <= 0)] = -90.0
    return np.column_stack([west, east, south, north])


def _edge_extents(x: Floats, y: Floats, begins: Bools, spherical: bool) -> tuple[Floats, Floats]:
    """Return least and greatest latitude of the edge that ends at each vertex."""
    before = np.where(begins, np.arange(len(y)), np.arange(len(y)) - 1)
    ends_low, ends_high = np.minimum(y, y[before]), np.maximum(y, y[before])
    span = np.abs(x - x[before])
    wide = np.flatnonzero((span > 0) & ((ends_high > 0) | (ends_low < 0)))
    low, high = ends_low.copy(), ends_high.copy()
    if not wide.size:
        return low, high
    a, b = _places(x[before[wide]], y[before[wide]]), _places(x[wide], y[wide])
    # The same plane as that of a and b, with fewer digits lost where they are close.
    normal = np.cross(a - b, a + b)
    leave = normal[:, 0] * a[:, 1] - normal[:, 1] * a[:, 0]
    arrive = normal[:, 0] * b[:, 1] - normal[:, 1] * b[:, 0]
    top = np.degrees(np.arctan2(np.hypot(normal[:, 0], normal[:, 1]), np.abs(normal[:, 2])))
    room = 1.0 if spherical else _ELLIPSOID
    length = np.degrees(np.linalg.norm(a - b, axis=1)) * 2
    up = np.clip((top - ends_high[wide]) * room + _ROOM, 0, length)
    down = np.clip((top + ends_low[wide]) * room + _ROOM, 0, length)
    # Beyond its ends a way is on the side that it leaves towards and comes back from; one
    # along a meridian has no other, and one of half a turn goes over a pole or either.
    over = span[wide] >= (180 - _ROOM if spherical else _FAR)
    middle = (y[before[wide]] + y[wide]) / 2
    slack = 0.0 if spherical else 5.0
    more = 0.0 if spherical else np.radians(length) ** 2
    high[wide] += np.where((leave >= 0) & (arrive <= 0), up, 0) + more
    low[wide] -= np.where((leave <= 0) & (arrive >= 0), down, 0) + more
    high[wide] = np.where(over & (middle >= -slack - _ROOM), 90.0, np.minimum(high[wide], 90.0))
    low[wide] = np.where(over & (middle <= slack + _ROOM), -90.0, np.maximum(low[wide], -90.0))
    return low, high


def _places(longitude: Floats, latitude: Floats) -> Floats:
    """Return places as vectors from the centre of the globe."""
    x, y = np.radians(longitude), np.radians(latitude)
    return np.column_stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)])


def _areas(x: Floats, y: Floats, begins: Bools) -> Floats:
    """Return the area between the equator and the edge that ends at each vertex."""
    before = np.where(begins, np.arange(len(y)), np.arange(len(y)) - 1)
    half = np.tan(np.radians(np.clip(x - x[before], -179.999, 179.999)) / 2)
    one, other = np.tan(np.radians(y) / 2), np.tan(np.radians(y[before]) / 2)
    return np.asarray(2 * np.arctan2(half * (one + other), 1 + one * other))


def _united(extents: Floats, owner: Ints, count: int) -> Floats:
    """Return bounds of each owner, over extents that come in the order of their owners."""
    bounds = np.full((count, 4), np.nan)
    if not len(owner):
        return bounds
    firsts = np.flatnonzero(np.diff(owner, prepend=-1))
    owners = owner[firsts]
    bounds[owners, 1] = np.minimum.reduceat(extents[:, 2], firsts)
    bounds[owners, 3] = np.maximum.reduceat(extents[:, 3], firsts)
    numbers = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(owner))))
    bounds[owners, 0], bounds[owners, 2] = _shortest_arcs(extents[:, 0], extents[:, 1], numbers)
    return bounds


def _shortest_arcs(west: Floats, east: Floats, owner: Ints) -> tuple[Floats, Floats]:
    """Return where the shortest arc that holds all of an owner's begins and ends.

    It lacks the widest gap between them. Owners are numbered from 0, without one left out.
    """
    start = west - 360 * np.floor((west + 180) / 360)
    # Rounding must not move what is in the turn already.
    start = np.where((west >= -180) & (west <= 180), west, start)
    stop = np.where(start == west, east, start + (east - west))
    # Each arc also a turn before, so that the gap that closes the circle is one like others.
    whose = np.concatenate([owner, owner])
    begin, end = np.concatenate([start, start - 360]), np.concatenate([stop, stop - 360])
    order = np.lexsort((-end, begin, whose))
    whose, begin, end = whose[order], begin[order], end[order]
    farthest = _farthest_before(end, whose)
    gap = begin - np.where(farthest < 0, np.inf, end[farthest])
    gap[order >= len(start)] = -np.inf
    firsts = np.flatnonzero(np.diff(whose, prepend=-1))
    at = np.flatnonzero(gap == np.maximum.reduceat(gap, firsts)[whose])
    at = at[np.diff(whose[at], prepend=-1) > 0]
    last = stop[order[farthest[at]] % len(start)]
    around = gap[at] <= 0
    return (
        np.where(around, -180.0, begin[at]),
        np.where(around, 180.0, np.where(last > 180, last - 360, last)),
    )


def _farthest_before(end: Floats, owner: Ints) -> Ints:
    """Return which arc of an owner, of those before each, reaches farthest; -1 for the first."""
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(len(end), np.int64)
    rank[by_end] = np.arange(len(end))
    reached = np.maximum.accumulate(owner * len(end) + rank) - owner * len(end)
    found = np.full(len(end), -1)
    found[1:] = np.where(owner[1:] == owner[:-1], by_end[reached[:-1]], -1)
    return found
