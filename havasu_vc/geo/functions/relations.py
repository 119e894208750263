"""How two geometries lie to each other: ST_Intersects, ST_Within and the like.

A constant is prepared once; plain points meet it without becoming objects of GEOS.
SRIDs are not compared: both arguments are taken to be in one system.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from havasu_vc.geo.buffers import Bools, Floats
from havasu_vc.geo.functions.arguments import Array, Geometries, masked, numbers
from havasu_vc.geo.functions.catalogue import Kernel, Result, SqlFunction

if TYPE_CHECKING:
    import shapely

__all__ = ["FUNCTIONS"]

# What a relation is with its arguments exchanged; GEOS prepares the first one.
_EXCHANGED: Final = {
    "intersects": "intersects",
    "disjoint": "disjoint",
    "touches": "touches",
    "crosses": "crosses",
    "overlaps": "overlaps",
    "equals": "equals",
    "within": "contains",
    "contains": "within",
    "covers": "covered_by",
    "covered_by": "covers",
}
# What a relation of points to a constant is, in words that GEOS has for coordinates.
_OF_POINTS: Final = {"intersects": "intersects_xy", "covered_by": "intersects_xy"} | {
    "within": "contains_xy"
}


def _relation(name: str) -> Kernel:
    def kernel(left_column: Array, right_column: Array) -> Array:
        left, right = Geometries(left_column), Geometries(right_column)
        found = _related(name, left, right)
        if found is None:
            found = _related(_EXCHANGED[name], right, left)
        if found is None:
            import shapely

            found = getattr(shapely, name)(left.shapes, right.shapes)
        return masked(np.broadcast_to(found, left.size), left.valid, right.valid)

    return kernel


def _related(name: str, left: Geometries, right: Geometries) -> Bools | None:
    """Return the relation of the left ones to a constant on the right; None if it is none."""
    import shapely

    constant = right.constant
    if constant is None:
        return None
    opposite = name == "disjoint"
    of_points = _OF_POINTS.get("intersects" if opposite else name)
    if left.points is not None and of_points is not None and left.constant is None:
        found = _points_related(of_points, constant, *left.points)
        return np.logical_not(found) if opposite else found
    related: Bools = getattr(shapely, _EXCHANGED[name])(constant, left.operand)
    return related


def _points_related(name: str, constant: "shapely.Geometry", x: Floats, y: Floats) -> Bools:
    """Relate points to a constant: bounds first, then GEOS for those inside them."""
    import shapely

    xmin, ymin, xmax, ymax = constant.bounds
    near = (x >= xmin) & (x <= xmax)
    near &= (y >= ymin) & (y <= ymax)
    rows = np.flatnonzero(near)
    if rows.size:
        near[rows] = getattr(shapely, name)(constant, x[rows], y[rows])
    found: Bools = near
    return found


def _distance(left_column: Array, right_column: Array) -> Array:
    left, right = Geometries(left_column), Geometries(right_column)
    found = np.broadcast_to(_distances(left, right), left.size)
    # Nothing is at any distance from what is empty.
    return masked(found, left.valid, right.valid, ~np.isnan(found))


def _distances(left: Geometries, right: Geometries) -> npt.NDArray[Any]:
    import shapely

    if left.points is not None and right.points is not None:
        return np.hypot(left.points[0] - right.points[0], left.points[1] - right.points[1])
    if right.constant is not None:
        left, right = right, left
    found: npt.NDArray[Any] = shapely.distance(left.operand, right.operand)
    return found


def _within_distance(left_column: Array, right_column: Array, distance: Array) -> Array:
    import shapely

    left, right = Geometries(left_column), Geometries(right_column)
    reach, given = numbers(distance, "the distance")
    if left.points is not None and right.points is not None:
        found = _distances(left, right) <= reach
    else:
        first, second = (right, left) if right.constant is not None else (left, right)
        found = shapely.dwithin(first.operand, second.operand, reach)
    return masked(np.broadcast_to(found, left.size), left.valid, right.valid, given)


def _relate(name: str, verb: str, summary: str) -> SqlFunction:
    return SqlFunction(f"ST_{name}", "a, b", Result.TRUTH, summary, _relation(verb))


FUNCTIONS: Final = (
    _relate("Intersects", "intersects", "Whether a and b share a point."),
    _relate("Disjoint", "disjoint", "Whether a and b share no point."),
    _relate("Within", "within", "Whether a lies inside b, and not on its boundary alone."),
    _relate("Contains", "contains", "Whether b lies inside a, and not on its boundary alone."),
    _relate("CoveredBy", "covered_by", "Whether no point of a lies outside b."),
    _relate("Covers", "covers", "Whether no point of b lies outside a."),
    _relate("Touches", "touches", "Whether the boundaries of a and b meet and nothing else."),
    _relate("Crosses", "crosses", "Whether a and b share some of their insides and not all."),
    _relate(
        "Overlaps",
        "overlaps",
        "Whether a and b, of one dimension, share some of their insides and not all.",
    ),
    _relate("Equals", "equals", "Whether a and b are the same set of points."),
    SqlFunction(
        "ST_Distance",
        "a, b",
        Result.NUMBER,
        "The least distance between a and b, in the units of their coordinates.",
        _distance,
    ),
    SqlFunction(
        "ST_DWithin",
        "a, b, distance",
        Result.TRUTH,
        "Whether a and b are no further apart than distance, in the units of their coordinates.",
        _within_distance,
    ),
)
"""The functions of two geometries that tell how they lie."""
