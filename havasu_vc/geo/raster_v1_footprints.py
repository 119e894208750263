"""Footprints of rasters: the outline of their cells on the globe, as GeoJSON objects.

Edges are drawn with a few points between the corners, for what is straight in a raster's
system mostly is not in longitude and latitude. A raster over the anti-meridian or a pole
is told by its bounds instead, in two parts where they cross.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from havasu_vc.errors import CrsError, GeometryError
from havasu_vc.geo.buffers import Column
from havasu_vc.geo.crs import parse_crs, projection
from havasu_vc.geo.raster_v1 import GeoReference
from havasu_vc.geo.raster_v1_bounds import raster_row_bounds
from havasu_vc.geo.raster_v1_columns import RasterHeaders, raster_headers
from havasu_vc.model.geographic_bounds import GeographicBounds

__all__ = ["footprints"]

_BETWEEN: Final = 8
"""Steps of an edge."""
_DIGITS: Final = 7


def footprints(column: Column) -> list[dict[str, Any] | None]:
    """Return the footprint of every row; None where there are no cells or no place is known."""
    try:
        headers = raster_headers(column)
        bounds = raster_row_bounds(headers)
    except GeometryError:
        return [None] * len(column)
    texts = headers.crs_wkt.to_pylist()
    return [
        None if found is None else _footprint(headers, row, texts[row], found)
        for row, found in enumerate(bounds)
    ]


def _footprint(
    headers: RasterHeaders, row: int, wkt: str, bounds: GeographicBounds
) -> dict[str, Any]:
    wide = bounds.crosses or bounds.east - bounds.west >= 180
    if not wide and (ring := _ring(headers, row, wkt)) is not None:
        return {"type": "Polygon", "coordinates": [ring]}
    if bounds.crosses:
        parts = [(bounds.west, 180.0), (-180.0, bounds.east)]
        boxes = [[_box(west, bounds.south, east, bounds.north)] for west, east in parts]
        return {"type": "MultiPolygon", "coordinates": boxes}
    box = _box(bounds.west, bounds.south, bounds.east, bounds.north)
    return {"type": "Polygon", "coordinates": [box]}


def _ring(headers: RasterHeaders, row: int, wkt: str) -> list[list[float]] | None:
    """Return the outline of a raster's cells, counterclockwise as GeoJSON has it."""
    import pyproj

    place = GeoReference(*headers.georeference[row].tolist())
    right, bottom = int(headers.width[row]) - 0.5, int(headers.height[row]) - 0.5
    corners = np.array([(-0.5, -0.5), (-0.5, bottom), (right, bottom), (right, -0.5)])
    steps = np.arange(_BETWEEN)[:, None] / _BETWEEN
    edges = [
        start + (end - start) * steps
        for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True)
    ]
    cells = np.concatenate([*edges, corners[:1]])
    column, row_ = cells.T
    x = place.upperleft_x + place.scale_x * column + place.skew_x * row_
    y = place.upperleft_y + place.skew_y * column + place.scale_y * row_
    try:
        change = pyproj.Transformer.from_crs(projection(parse_crs(wkt)), 4326, always_xy=True)
        lon, lat = change.transform(x, y)
    except (CrsError, pyproj.exceptions.ProjError):
        return None
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        return None
    area = float(np.sum(lon[:-1] * lat[1:] - lon[1:] * lat[:-1]))
    points = np.round(np.column_stack([lon, lat]), _DIGITS)
    return [[float(x), float(y)] for x, y in (points if area >= 0 else points[::-1])]


def _box(west: float, south: float, east: float, north: float) -> list[list[float]]:
    corners = [(west, south), (east, south), (east, north), (west, north), (west, south)]
    return [[round(x, _DIGITS), round(y, _DIGITS)] for x, y in corners]
