"""How much ground shapes cover, and how far apart places are."""

from __future__ import annotations

import numpy as np

from havasu_vc.errors import CrsError
from havasu_vc.geo.buffers import Column, Floats
from havasu_vc.geo.crs import Crs, projection
from havasu_vc.geo.wkt import beyond_geos
from havasu_vc.records import dataclass

__all__ = [
    "Measure",
    "measure_of",
    "total_area",
]


def total_area(wkb: Column) -> float:
    """Return what the shapes of a column of WKB cover together; what is no shape covers nothing.

    Nor does what is bounded by arcs, whose area GEOS does not know.
    """
    import shapely

    values = np.where(beyond_geos(wkb), None, wkb.to_numpy(zero_copy_only=False))
    shapes = shapely.from_wkb(values, on_invalid="ignore")
    return float(np.nansum(shapely.area(shapes)))


# How far apart places are, in metres where the coordinate reference system tells.
#
# Longitudes and latitudes are measured along the sphere, projected coordinates in the
# plane. Good to about half a percent: enough to tell a person that a point moved 2 km.

_RADIUS = 6_371_008.8


@dataclass(frozen=True, slots=True)
class Measure:
    """How to measure in one coordinate reference system."""

    unit: str = "units"
    """The unit of a distance: `m`, or `units` where that is not known."""
    scale: float = 1.0
    """Units of the plane in metres."""
    on_sphere: bool = False
    """Whether coordinates are degrees of longitude and latitude."""

    def distances(self, start: Floats, end: Floats) -> Floats:
        """Return the distance between places, each a row of x and y."""
        if not self.on_sphere:
            return np.asarray(np.hypot(*(end - start).T) * self.scale, np.float64)
        (lon0, lat0), (lon1, lat1) = np.radians(start.T), np.radians(end.T)
        half = (
            np.sin((lat1 - lat0) / 2) ** 2
            + np.cos(lat0) * np.cos(lat1) * np.sin((lon1 - lon0) / 2) ** 2
        )
        return np.asarray(2 * _RADIUS * np.arcsin(np.sqrt(np.clip(half, 0, 1))), np.float64)


def measure_of(crs: Crs | None) -> Measure:
    """Return how to measure in a system; in its own units when it is not known."""
    if crs is None:
        return Measure()
    try:
        found = projection(crs)
    except CrsError:
        return Measure()
    if found.is_geographic:
        return Measure("m", 1.0, on_sphere=True)
    axes = found.axis_info
    return Measure("m", float(axes[0].unit_conversion_factor)) if axes else Measure()
