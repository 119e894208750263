"""Measures of one geometry, and how two lie to each other: ST_Area, ST_Intersects and the like.

Measures are in the units of the coordinates, in the plane. What a geometry does
not have (the x of a line, the bounds of what is empty) is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.buffers import Bools, Floats
from havasu_vc.geo.functions.catalogue import (
    Array,
    Formula,
    Geometries,
    Result,
    SqlFunction,
    masked,
    numbers,
)
from havasu_vc.geo.wkt import contained

if TYPE_CHECKING:
    import shapely

__all__ = ["MEASURES", "RELATIONS"]


_KINDS: Final = (
    "ST_Point",
    "ST_LineString",
    "ST_LinearRing",
    "ST_Polygon",
    "ST_MultiPoint",
    "ST_MultiLineString",
    "ST_MultiPolygon",
    "ST_GeometryCollection",
)


def _by_shapely(name: str) -> Formula:
    """Return the formula of a function of shapely's that takes one geometry."""

    def formula(column: Array) -> Array:
        import shapely

        geometries = Geometries(column)
        found = getattr(shapely, name)(geometries.operand)
        return masked(np.broadcast_to(found, geometries.size), geometries.valid)

    return formula


def _bound(index: int) -> Formula:
    def formula(column: Array) -> Array:
        found = Geometries(column).bounds[:, index]
        return masked(np.ascontiguousarray(found), ~np.isnan(found))

    return formula


def _coordinate(axis: int) -> Formula:
    def formula(column: Array) -> Array:
        import shapely

        geometries = Geometries(column)
        found: npt.NDArray[Any]
        if geometries.points is not None and axis < 2:
            found = geometries.points[axis]
        else:
            shapes = geometries.shapes.copy()
            shapes[shapely.is_empty(shapes)] = None  # GEOS 3.14 refuses to say where that is
            found = (shapely.get_x, shapely.get_y, shapely.get_z)[axis](shapes)
        return masked(found, ~np.isnan(found))

    return formula


def _vertices_of_line(column: Array) -> Array:
    import shapely

    geometries = Geometries(column)
    lines = shapely.get_type_id(geometries.shapes) == 1
    return masked(shapely.get_num_coordinates(geometries.shapes), lines)


def _parts(column: Array) -> Array:
    import shapely

    geometries = Geometries(column)
    return masked(shapely.get_num_geometries(geometries.shapes), geometries.valid)


def _kind(column: Array) -> Array:
    import shapely

    geometries = Geometries(column)
    found = shapely.get_type_id(geometries.shapes)
    return pa.array(_KINDS, pa.string()).take(pa.array(found, mask=found < 0))


def _srid(column: Array) -> Array:
    geometries = Geometries(column)
    srids = geometries.srids
    return masked(np.zeros(geometries.size, np.int32) if srids is None else srids, geometries.valid)


def _perimeter(column: Array) -> Array:
    import shapely

    geometries = Geometries(column)
    areal = shapely.get_dimensions(geometries.shapes) == 2
    found = np.where(areal, shapely.length(geometries.shapes), 0.0)
    return masked(found, geometries.valid)


def _length(column: Array) -> Array:
    import shapely

    geometries = Geometries(column)
    areal = shapely.get_dimensions(geometries.shapes) == 2
    found = np.where(areal, 0.0, shapely.length(geometries.shapes))
    return masked(found, geometries.valid)


def _of_one(name: str, result: Result, summary: str, formula: Formula) -> SqlFunction:
    return SqlFunction(name, "geometry", result, summary, formula)


_NUMBERS: Final = (
    ("ST_Area", "The area.", _by_shapely("area")),
    ("ST_Length", "The length of lines; 0 for points and areas.", _length),
    ("ST_Perimeter", "The length of the boundary of areas; 0 for points and lines.", _perimeter),
    ("ST_XMin", "The least x.", _bound(0)),
    ("ST_YMin", "The least y.", _bound(1)),
    ("ST_XMax", "The greatest x.", _bound(2)),
    ("ST_YMax", "The greatest y.", _bound(3)),
    ("ST_X", "The x of a point; null for all else.", _coordinate(0)),
    ("ST_Y", "The y of a point; null for all else.", _coordinate(1)),
    ("ST_Z", "The z of a point; null for all else, and without z.", _coordinate(2)),
)
_COUNTS: Final = (
    ("ST_NPoints", "How many vertices a geometry has.", _by_shapely("get_num_coordinates")),
    ("ST_NumPoints", "How many vertices a line has; null for all else.", _vertices_of_line),
    ("ST_NumGeometries", "How many parts a geometry has; 1 if it is no collection.", _parts),
    ("ST_SRID", "The SRID, 0 if there is none.", _srid),
)
_TRUTHS: Final = (
    ("ST_IsValid", "Whether a geometry is valid by the rules of OGC.", _by_shapely("is_valid")),
    ("ST_IsSimple", "Whether a geometry does not meet itself.", _by_shapely("is_simple")),
    ("ST_IsEmpty", "Whether a geometry has no points.", _by_shapely("is_empty")),
    ("ST_IsClosed", "Whether a line ends where it begins.", _by_shapely("is_closed")),
)
MEASURES: Final = (
    *(_of_one(name, Result.NUMBER, summary, formula) for name, summary, formula in _NUMBERS),
    *(_of_one(name, Result.WHOLE_NUMBER, summary, formula) for name, summary, formula in _COUNTS),
    *(_of_one(name, Result.TRUTH, summary, formula) for name, summary, formula in _TRUTHS),
    _of_one("ST_GeometryType", Result.TEXT, "The kind, such as `ST_Polygon`.", _kind),
)
"""The functions that measure one geometry."""


# How two geometries lie to each other: ST_Intersects, ST_Within and the like.
#
# A constant is prepared once; plain points meet it without becoming objects of GEOS.
# SRIDs are not compared: both arguments are taken to be in one system.

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


def _relation(name: str) -> Formula:
    def formula(left_column: Array, right_column: Array) -> Array:
        left, right = Geometries(left_column), Geometries(right_column)
        found = _related(name, left, right)
        if found is None:
            found = _related(_EXCHANGED[name], right, left)
        if found is None:
            import shapely

            found = getattr(shapely, name)(left.shapes, right.shapes)
        return masked(np.broadcast_to(found, left.size), left.valid, right.valid)

    return formula


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
    if name == "within":
        return contained(constant, left.operand)
    related: Bools = getattr(shapely, _EXCHANGED[name])(constant, left.operand)
    return related


def _points_related(name: str, constant: shapely.Geometry, x: Floats, y: Floats) -> Bools:
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


RELATIONS: Final = (
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
