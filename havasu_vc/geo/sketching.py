"""Geometries for people to look at: few words, few coordinates, and whether they are sound.

For the handful of rows that are shown; whole columns go through the modules beside this.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.beyond_geos import beyond_geos
from havasu_vc.geo.outlines import geometry_labels

if TYPE_CHECKING:
    from shapely import Geometry

__all__ = ["geometry_words", "invalid_rows", "sketch"]

_POINTS = (1, 4)


def geometry_words(wkb: bytes) -> str:
    """Return a geometry in few words: a point's coordinates; of others their size and place.

    >>> geometry_words(bytes.fromhex("0101000000000000000000f03f0000000000000040"))
    'POINT (1 2)'
    """
    import shapely

    shape = _parsed(wkb)
    if shape is None:
        found: str = geometry_labels(pa.array([wkb], pa.binary()))[0].as_py()
        return found
    if shape.is_empty:
        return f"{shape.geom_type.upper()} EMPTY"
    if shape.geom_type == "Point":
        return str(shapely.to_wkt(shape, rounding_precision=7, trim=True))
    count = int(shapely.get_num_coordinates(shape))
    west, south, east, north = shape.bounds
    words = f"{shape.geom_type.upper()} of {count:,} vertices"
    if math.isfinite(west + east + south + north):
        words += f" around {(west + east) / 2:.8g} {(south + north) / 2:.8g}"
    if shape.has_z:
        heights = shapely.get_coordinates(shape, include_z=True)[:, 2]
        heights = heights[np.isfinite(heights)]
        if len(heights):
            low, high = float(heights.min()), float(heights.max())
            words += f", height {low:.7g}" + (f" to {high:.7g}" if high != low else "")
    return words


def sketch(wkb: bytes, *, tolerance: float = 0.0, digits: int = 6) -> dict[str, Any] | None:
    """Return longitudes and latitudes as a GeoJSON geometry, simplified and rounded.

    None for what is empty, unreadable, or not on the globe.
    """
    import shapely

    parsed = _parsed(wkb)
    if parsed is None or parsed.is_empty:
        return None
    shape = shapely.force_2d(parsed)
    xmin, ymin, xmax, ymax = shape.bounds
    if not (-180 <= xmin <= xmax <= 180 and -90 <= ymin <= ymax <= 90):
        return None
    if tolerance:
        simple = shape.simplify(tolerance, preserve_topology=False)
        shape = shape if simple.is_empty else simple
    # Rounded as text: snapping to a grid could make a shape vanish.
    found: dict[str, Any] = _rounded(json.loads(shapely.to_geojson(shape)), digits)
    return found


def invalid_rows(wkb: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which geometries of canonical WKB are against the rules of their type.

    Arcs and surfaces, of which nobody here knows whether they are, never are.
    """
    import shapely

    values = wkb.to_numpy(zero_copy_only=False)
    # A point cannot be wrong, and most tables are of points.
    wanted = np.array([value is not None and value[1] not in _POINTS for value in values], np.bool_)
    wanted &= ~beyond_geos(wkb)
    flags = np.zeros(len(values), np.bool_)
    if wanted.any():
        shapes = shapely.from_wkb(values[wanted], on_invalid="ignore")
        flags[wanted] = ~shapely.is_valid(shapes)
    return flags


def invalidity(wkb: bytes) -> tuple[str, bool]:
    """Return why a geometry is against the rules of its type, and whether a ring is open."""
    import shapely

    try:
        shape = shapely.from_wkb(wkb)
    except shapely.errors.ShapelyError as error:
        # GEOS makes no ring that is open, and no line of one point.
        cause = str(error).rpartition("Exception: ")[2]
        return cause[:1].lower() + cause[1:], "closed" in cause
    cause = shapely.is_valid_reason(shape)
    return cause[:1].lower() + cause[1:], False


def _parsed(wkb: bytes) -> Geometry | None:
    """Return a shape, None for one that cannot be read or is beyond GEOS."""
    import shapely

    try:
        if beyond_geos(pa.array([wkb], pa.binary()))[0]:
            return None
    except GeometryError:
        return None
    return shapely.from_wkb(wkb, on_invalid="ignore")


def _rounded(value: Any, digits: int) -> Any:
    match value:
        case float():
            return round(value, digits)
        case list():
            return [_rounded(part, digits) for part in value]
        case dict():
            return {name: _rounded(part, digits) for name, part in value.items()}
        case _:
            return value
