"""Coordinates from one reference system to another: whole columns, rectangles and points.

x and y of all vertices are gathered from the bytes, transformed in one call and
written back in their places; Z, M, SRIDs, structure and NaN stay as they are. x
is longitude or easting on both sides.

Coordinates that cannot be of their system: degrees out of bounds, or far from where it is used.

A system that was named wrongly is the mistake that nothing else finds: the numbers are sound.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import CrsError
from havasu_vc.geo.buffers import (
    ByteColumn,
    Column,
    Floats,
    binary_column,
    byte_column,
    overlapping,
    pack,
    simple_column,
)
from havasu_vc.geo.crs import Crs, parse_crs, projection
from havasu_vc.geo.extent import vertex_positions
from havasu_vc.geo.layout import scan
from havasu_vc.model.bounds import Bounds, GeographicBounds

if TYPE_CHECKING:
    import pyproj

__all__ = ["geographic_bounds", "geographic_positions", "outside", "transform", "transform_bounds"]

_SAMPLES: Final = 21  # on each edge
# A smooth edge as deep as the bounds are wide bulges by its depth over the square of the samples.
_BULGE: Final = 1 / _SAMPLES**2


def transform(wkb: Column, source: Crs, target: Crs) -> pa.Array[Any]:
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
def _transformer(source: Crs, target: Crs) -> pyproj.Transformer:
    import pyproj

    try:
        return pyproj.Transformer.from_crs(projection(source), projection(target), always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise CrsError(
            f"{source.identifier} cannot be transformed to {target.identifier}"
        ) from error


# Rectangles and points of any system in longitude and latitude of WGS 84.
#
# Bounds are as inclusive as they can be: edges are sampled and what bulges between
# the samples is allowed for, a rectangle that holds a pole goes all around, and one
# across the antimeridian comes out as crossing bounds. Where a part of the edge has
# no place on the globe there are no bounds (None) rather than too small ones.

_SAMPLES_BETWEEN: Final = 43  # on each side, between its ends


def geographic_bounds(bounds: Bounds, crs: Crs) -> GeographicBounds | None:
    """Return the bounds in WGS 84 that cover a rectangle of another system.

    None where they cannot be known, which is not the same as nowhere.
    """
    if not bounds.finite:
        return None
    degrees, transformer = _to_degrees(crs)
    if degrees:
        # Such grids often reach half a cell beyond the poles.
        south, north = max(bounds.ymin, -90.0), min(bounds.ymax, 90.0)
        if south > north:
            return None
        bounds = Bounds(bounds.xmin, south, bounds.xmax, north)
        if transformer is None:
            return GeographicBounds.around(bounds.xmin, south, bounds.xmax, north)
        if bounds.xmax - bounds.xmin >= 360:
            bounds = Bounds(-180.0, south, 180.0, north)
    if transformer is None:
        raise AssertionError("only longitude and latitude need no transformation")
    edge = _edge(bounds, transformer)
    if edge is None:
        return None
    box = _extent(edge) if degrees else _box(bounds, transformer)
    if box is None:
        return None
    turn = float(np.ptp(edge[0], axis=1).max())
    return _widened(box, _bulges(edge), around=turn >= 360)


def geographic_positions(points: npt.NDArray[Any], crs: Crs) -> Floats:
    """Return the longitude and latitude of each x and y, without those that have none."""
    _, transformer = _to_degrees(crs)
    x, y = points[:, 0], points[:, 1]
    if transformer is not None:
        x, y = transformer.transform(x, y)
    found = np.column_stack([x, y]).astype(np.float64)
    return found[np.isfinite(found).all(axis=1) & (np.abs(found[:, 1]) <= 90)]


@lru_cache(maxsize=64)
def _to_degrees(crs: Crs) -> tuple[bool, pyproj.Transformer | None]:
    """Return whether a system counts in degrees, and how to get from it to WGS 84."""
    import pyproj

    source, target = projection(crs), projection(parse_crs("EPSG:4326"))
    degrees = _is_degrees(source)
    if degrees and source.equals(target, ignore_axis_order=True):
        return True, None
    try:
        found = pyproj.Transformer.from_crs(source, target, always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise CrsError(
            f"{crs.identifier} cannot be transformed to longitude and latitude"
        ) from error
    return degrees, found


def _is_degrees(source: pyproj.CRS) -> bool:
    if not source.is_geographic:
        return False
    return all(axis.unit_name == "degree" for axis in source.axis_info[:2])


def _edge(bounds: Bounds, transformer: pyproj.Transformer) -> Floats | None:
    """Return the longitudes, unwound, and the latitudes along each of the four sides.

    None where a part of the edge has no place on the globe.
    """
    steps = np.linspace(0, 1, _SAMPLES_BETWEEN + 2)
    x = bounds.xmin + steps * (bounds.xmax - bounds.xmin)
    y = bounds.ymin + steps * (bounds.ymax - bounds.ymin)
    # The products can miss the corners by the last bit.
    x[-1], y[-1] = bounds.xmax, bounds.ymax
    across = np.stack([x, np.full_like(x, x[-1]), x[::-1], np.full_like(x, x[0])])
    up = np.stack([np.full_like(y, y[0]), y, np.full_like(y, y[-1]), y[::-1]])
    found = np.stack(transformer.transform(across, up))
    if not np.isfinite(found).all():
        return None
    found[0] = np.unwrap(found[0].ravel(), period=360).reshape(4, -1)
    return found


def _bulges(edge: Floats) -> Floats:
    """Return how far west, south, east and north the edge may reach beyond its samples.

    Beside a sample that is above both its neighbours, a parabola through the three
    rises by an eighth of their second difference at most; twice that is allowed.
    """
    left, middle, right = edge[:, :, :-2], edge[:, :, 1:-1], edge[:, :, 2:]
    room = np.abs(left - 2 * middle + right) / 4
    top, bottom = (middle >= left) & (middle >= right), (middle <= left) & (middle <= right)
    highest = np.where(top, middle + room, -np.inf).max(axis=(1, 2))
    lowest = np.where(bottom, middle - room, np.inf).min(axis=(1, 2))
    over = np.maximum(highest - edge.max(axis=(1, 2)), 0)
    under = np.maximum(edge.min(axis=(1, 2)) - lowest, 0)
    return np.concatenate([under, over])


def _extent(edge: Floats) -> tuple[float, float, float, float]:
    """Return the extent of an edge that runs along meridians and parallels."""
    (west, south), (east, north) = edge.min(axis=(1, 2)).tolist(), edge.max(axis=(1, 2)).tolist()
    return west, south, east, north


def _box(
    bounds: Bounds, transformer: pyproj.Transformer
) -> tuple[float, float, float, float] | None:
    """Return what PROJ finds, which knows of poles; west is greater than east across 180."""
    import pyproj

    try:
        west, south, east, north = transformer.transform_bounds(
            bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax, densify_pts=_SAMPLES_BETWEEN
        )
    except pyproj.exceptions.ProjError:
        return None
    return (west, south, east, north) if np.isfinite([west, south, east, north]).all() else None


def _widened(
    box: tuple[float, float, float, float], bulges: Floats, *, around: bool
) -> GeographicBounds:
    west, south, east, north = box
    left, below, right, above = bulges.tolist()
    south, north = south - below, north + above
    if around:
        return GeographicBounds.around(-180.0, south, 180.0, north)
    east += 360 if west > east else 0
    return GeographicBounds.around(west - left, south, east + right, north)


_DEGREES = Bounds(-180.0, -90.0, 360.0, 90.0)
"""Longitudes are counted to 180 both ways, or to 360 eastwards."""


def outside(bounds: Bounds, crs: Crs) -> str | None:
    """Return what is odd about where coordinates lie; None for nothing, or where none can tell."""
    if not bounds.finite:
        return None
    place = f"from {bounds.xmin:,.6g}, {bounds.ymin:,.6g} to {bounds.xmax:,.6g}, {bounds.ymax:,.6g}"
    known = projection(crs)
    if known.is_geographic:
        if _DEGREES.covers(bounds):
            return None
        return f"coordinates lie {place}, which are no degrees, as {crs.identifier} has them"
    area = known.area_of_use
    if not known.is_projected or area is None or area.west > area.east:
        return None
    try:
        used = transform_bounds(
            Bounds(area.west, area.south, area.east, area.north), parse_crs("OGC:CRS84"), crs
        )
    except CrsError:
        return None
    if not used.finite:
        return None
    # Data reaches beyond the area that a system is made for; as far again is another place.
    width, height = used.xmax - used.xmin, used.ymax - used.ymin
    wide = Bounds(used.xmin - width, used.ymin - height, used.xmax + width, used.ymax + height)
    if wide.covers(bounds):
        return None
    degrees = "; they look like degrees" if _DEGREES.covers(bounds) else ""
    return f"coordinates lie {place}, far from where {crs.identifier} is used{degrees}"
