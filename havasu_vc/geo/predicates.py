"""Which files a spatial query must read: predicates on rows projected onto bounds of files.

A predicate on rows is turned into a test of the bounds of a file that is true
whenever a row of the file can match (an inclusive projection), for all files in
one call. What is not known is never left out: a file without bounds is always
read. The negation of a predicate leaves no file out, so there is no such test.

Bounds of geometries lie in the plane of their own CRS and do not wrap. Bounds of
rasters are WGS 84 and may wrap; a window meets them where it lies on the globe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import CrsError, GeometryError, InvalidArgumentError
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import Bools, Column, Floats
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.reproject import geographic_bounds, geographic_positions
from havasu_vc.geo.wkb import AnyEncoding, to_canonical
from havasu_vc.geo.wkt import contained, geos_geometries
from havasu_vc.model.bounds import Bounds, GeographicBounds
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import shapely

__all__ = [
    "SpatialPredicate",
    "Window",
    "WindowValue",
    "box_array",
    "geometry_files",
    "matching_rows",
    "raster_files",
]


_WGS84: Final = "EPSG:4326"
# Degrees by which two ways to compute one longitude may differ: a tenth of a millimetre.
_NOISE: Final = 1e-9
_FAR: Final = 1e100
"""Beyond this, products of coordinates may be infinite, and what GEOS says of them is not so."""


class SpatialPredicate(StrEnum):
    """The relation of a row to the window of a query."""

    INTERSECTS = "intersects"
    """Share a point with the window."""
    WITHIN = "within"
    """Lie inside the window; also what the window covers."""
    CONTAINS = "contains"
    """Hold the whole window; also what covers the window."""


WindowValue: TypeAlias = (
    "Window | shapely.Geometry | str | bytes | bytearray | memoryview | Sequence[float]"
)
"""A window as a program gives it: text or bytes of a geometry, one of shapely's, four numbers."""


@dataclass(frozen=True, slots=True)
class Window:
    """The geometry that rows are compared with.

    >>> Window.parse("POLYGON ((0 0, 4 0, 4 2, 0 2, 0 0))").bounds
    Bounds(xmin=0.0, ymin=0.0, xmax=4.0, ymax=2.0)
    """

    geometry: shapely.Geometry
    """As shapely holds it."""
    crs: Crs | None = None
    """Its system; None where it is that of the column."""

    @classmethod
    def parse(cls, value: str | bytes, crs: Crs | None = None) -> Self:
        """Return the window that WKT, GeoJSON, WKB or EWKB describes."""
        encoding: AnyEncoding = "ewkb"
        if isinstance(value, str):
            encoding = "geojson" if value.lstrip().startswith("{") else "wkt"
        column = pa.array([value], pa.string() if isinstance(value, str) else pa.binary())
        try:
            wkb, srids = to_canonical(column, encoding)
            (geometry,) = geos_geometries(wkb)
        except GeometryError as error:
            raise InvalidArgumentError(
                "the window of a query is not a geometry that can be read",
                hints=("give WKT, GeoJSON or WKB, such as POLYGON ((0 0, 1 0, 1 1, 0 0))",),
            ) from error
        if crs is None and srids is not None:
            crs = parse_crs(f"EPSG:{srids[0]}")
        return cls(geometry, crs)

    @classmethod
    def of_bounds(cls, bounds: Bounds, crs: Crs | None = None) -> Self:
        """Return a rectangle as a window."""
        import shapely

        return cls(shapely.box(bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax), crs)

    @property
    def on_globe(self) -> shapely.Geometry:
        """The geometry with the SRID of its system: longitude and latitude unless one is told."""
        import shapely

        if self.crs is None:
            return shapely.set_srid(self.geometry, 4326)
        authority, _, code = self.crs.identifier.partition(":")
        known = authority == "EPSG" and code.isdigit()
        return shapely.set_srid(self.geometry, int(code) if known else 0)

    @property
    def is_rectangle(self) -> bool:
        """Whether the window is all that is within its bounds."""
        import shapely

        shape = self.geometry
        return shape.geom_type == "Polygon" and bool(shape.equals(shapely.envelope(shape)))

    @property
    def bounds(self) -> Bounds | None:
        """The bounds of the window; None if it is empty or not finite."""
        found = np.asarray(self.geometry.bounds)
        return Bounds(*found.tolist()) if np.isfinite(found).all() else None


def box_array(bounds: Iterable[Bounds | GeographicBounds | None]) -> Floats:
    """Return bounds as rows of west, south, east, north; NaN where they are not known."""
    rows: list[tuple[float, float, float, float]] = []
    for one in bounds:
        match one:
            case None:
                rows.append((np.nan,) * 4)
            case GeographicBounds():
                rows.append((one.west, one.south, one.east, one.north))
            case _:
                rows.append((one.xmin, one.ymin, one.xmax, one.ymax))
    return np.array(rows, np.float64).reshape(-1, 4)


def geometry_files(predicate: SpatialPredicate, window: Window, boxes: Floats) -> Bools:
    """Return which files can hold a geometry that matches, given the bounds of each.

    The window is in the system of the column. All files are, if it is empty.
    """
    bounds = window.bounds
    if bounds is None:
        return np.ones(len(boxes), np.bool_)
    west, south, east, north = boxes.T
    if predicate is SpatialPredicate.CONTAINS:
        apart = (west > bounds.xmin) | (bounds.xmax > east)
        apart |= (south > bounds.ymin) | (bounds.ymax > north)
        covering: Bools = ~apart  # comparisons with NaN are false: what is not known is read
        return covering
    apart = (west > bounds.xmax) | (bounds.xmin > east)
    apart |= (south > bounds.ymax) | (bounds.ymin > north)
    planned: Bools = ~apart
    return _met_by_shape(window, boxes, planned)


def raster_files(predicate: SpatialPredicate, window: Window, boxes: Floats) -> Bools:
    """Return which files can hold a raster that matches, given the bounds of each in WGS 84.

    The window is in its own system, by default longitude and latitude. Where it cannot
    be brought to WGS 84, all files are.
    """
    everything = np.ones(len(boxes), np.bool_)
    bounds = window.bounds
    if bounds is None:
        return everything
    crs = window.crs or parse_crs(_WGS84)
    try:
        around = geographic_bounds(bounds, crs)
        if around is None:
            return everything
        planned = _meets_around(around, boxes)
        if predicate is SpatialPredicate.CONTAINS:
            for longitude, latitude in geographic_positions(_vertices(window), crs):
                planned &= _holds(float(longitude), float(latitude), boxes)
    except CrsError:
        return everything
    return planned


def _met_by_shape(window: Window, boxes: Floats, planned: Bools) -> Bools:
    """Leave out boxes that the window's shape misses although its bounds do not."""
    import shapely

    shape = window.geometry
    if shape.geom_type == "Point" or not shapely.is_valid(shape):
        return planned
    if not (np.abs(shapely.bounds(shape)) < _FAR).all():
        return planned
    # What has no area is no sound rectangle for GEOS, and it takes products of coordinates.
    exact = planned & (np.abs(boxes) < _FAR).all(axis=1)
    exact &= (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    rows = np.flatnonzero(exact)
    if rows.size:
        shapely.prepare(shape)
        planned[rows] = shapely.intersects(shape, shapely.box(*boxes[rows].T))
    return planned


def _meets_around(window: GeographicBounds, boxes: Floats) -> Bools:
    """Return which boxes share a point with a window on the globe."""
    west, south, east, north = boxes.T
    end = np.where(west > east, east + 360, east)
    apart = np.ones(len(boxes), np.bool_)
    for turn in (-360, 0, 360):
        start = window.west + turn
        apart &= (start > end + _NOISE) | (start + window.width < west - _NOISE)
    # The poles are one point each, whatever the longitude.
    for pole, mine, theirs in ((90, window.north, north), (-90, -window.south, -south)):
        if abs(pole) - mine <= _NOISE:
            apart &= ~(abs(pole) - theirs <= _NOISE)
    apart |= (window.south > north + _NOISE) | (window.north < south - _NOISE)
    planned: Bools = ~apart
    return planned


def _holds(longitude: float, latitude: float, boxes: Floats) -> Bools:
    return _meets_around(GeographicBounds.around(longitude, latitude, longitude, latitude), boxes)


def _vertices(window: Window) -> npt.NDArray[Any]:
    """Return at most 256 vertices of the window; any of them must lie in what contains it."""
    import shapely

    found: npt.NDArray[Any] = shapely.get_coordinates(window.geometry)
    found = found[np.isfinite(found).all(axis=1)]
    return found[:: max(1, -(-len(found) // 256))]


# Which rows of a geometry column match a spatial predicate, exactly.
#
# Boxes decide what boxes can; only the rows in doubt become geometries. Coordinates are
# compared as they are, in the plane of the column, and SRIDs are not looked at. Rows that
# are null or empty match nothing, and an empty window is matched by nothing.


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
            found = contained(shape, geometries)
        case _:
            found = shapely.within(shape, geometries)
    matched: Bools = np.asarray(found, np.bool_)
    return matched
