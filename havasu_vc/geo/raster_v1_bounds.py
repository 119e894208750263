"""Bounds of raster columns: longitude and latitude of WGS 84, whatever system each has.

The area of a raster is that of its cells, half a cell beyond their centres. A file
has bounds only if every raster in it does: one without a CRS that can be used could
be anywhere, and bounds that leave it out would lose it in queries.
"""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.geographic import geographic_bounds
from havasu_vc.geo.raster_v1_columns import RasterHeaders
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.crs import Crs
from havasu_vc.model.geographic_bounds import GeographicBounds

__all__ = [
    "Places",
    "places_of_rasters",
    "raster_row_bounds",
    "united_places",
]


Places: TypeAlias = tuple[GeographicBounds, ...] | None
"""What holds some rasters: nothing where there is none with cells, None where one is unknown."""


def united_places(parts: Iterable[Places]) -> GeographicBounds | None:
    """Return the bounds that hold all rasters; None if there are none, or one is unknown."""
    known: list[GeographicBounds] = []
    for part in parts:
        if part is None:
            return None
        known += part
    return GeographicBounds.of(known)


def places_of_rasters(headers: RasterHeaders) -> Places:
    """Return the bounds that hold the rasters of a column, at most one rectangle."""
    rows = raster_row_bounds(headers)
    cells = headers.there & (headers.width > 0) & (headers.height > 0)
    found = [rows[row] for row in np.flatnonzero(cells).tolist()]
    known = {one for one in found if one is not None}
    if any(one is None for one in found):
        return None
    area = GeographicBounds.of(known)
    return () if area is None else (area,)


def raster_row_bounds(headers: RasterHeaders) -> list[GeographicBounds | None]:
    """Return the bounds of every row; None where there are no cells or no place is known."""
    areas = headers.native_bounds
    found: list[GeographicBounds | None] = [None] * len(areas)
    systems: dict[str, Crs | None] = {}
    places: dict[tuple[str, Bounds], GeographicBounds | None] = {}
    texts = headers.crs_wkt.to_pylist()
    for row in np.flatnonzero(np.isfinite(areas).all(axis=1)).tolist():
        text = texts[row]
        if text is None:
            continue
        if text not in systems:
            systems[text] = _system(text)
        crs = systems[text]
        if crs is None:
            continue
        area = Bounds(*areas[row].tolist())
        # Tables of many bands or times hold the same tile again and again.
        if (text, area) not in places:
            places[text, area] = _place(area, crs)
        found[row] = places[text, area]
    return found


def _system(text: str) -> Crs | None:
    try:
        return parse_crs(text)
    except CrsError:
        return None


def _place(area: Bounds, crs: Crs) -> GeographicBounds | None:
    try:
        return geographic_bounds(area, crs)
    except CrsError:
        return None
