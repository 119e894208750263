"""What can be read off one geometry: its area, bounds, coordinates, kind, SRID.

Measures are in the units of the coordinates, in the plane. What a geometry does
not have (the x of a line, the bounds of what is empty) is null.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.functions.arguments import Array, Geometries, masked
from havasu_vc.geo.functions.catalogue import Kernel, Result, SqlFunction

__all__ = ["FUNCTIONS"]

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


def _by_shapely(name: str) -> Kernel:
    """Return the kernel of a function of shapely's that takes one geometry."""

    def kernel(column: Array) -> Array:
        import shapely

        geometries = Geometries(column)
        found = getattr(shapely, name)(geometries.operand)
        return masked(np.broadcast_to(found, geometries.size), geometries.valid)

    return kernel


def _bound(index: int) -> Kernel:
    def kernel(column: Array) -> Array:
        found = Geometries(column).bounds[:, index]
        return masked(np.ascontiguousarray(found), ~np.isnan(found))

    return kernel


def _coordinate(axis: int) -> Kernel:
    def kernel(column: Array) -> Array:
        import shapely

        geometries = Geometries(column)
        found: npt.NDArray[Any]
        if geometries.points is not None and axis < 2:
            found = geometries.points[axis]
        else:
            found = (shapely.get_x, shapely.get_y, shapely.get_z)[axis](geometries.shapes)
        return masked(found, ~np.isnan(found))

    return kernel


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


def _of_one(name: str, result: Result, summary: str, kernel: Kernel) -> SqlFunction:
    return SqlFunction(name, "geometry", result, summary, kernel)


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
FUNCTIONS: Final = (
    *(_of_one(name, Result.NUMBER, summary, kernel) for name, summary, kernel in _NUMBERS),
    *(_of_one(name, Result.WHOLE_NUMBER, summary, kernel) for name, summary, kernel in _COUNTS),
    *(_of_one(name, Result.TRUTH, summary, kernel) for name, summary, kernel in _TRUTHS),
    _of_one("ST_GeometryType", Result.TEXT, "The kind, such as `ST_Polygon`.", _kind),
)
"""The functions that measure one geometry."""
