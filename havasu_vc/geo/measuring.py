"""How much ground shapes cover, in the units of their coordinates."""

from __future__ import annotations

import numpy as np

from havasu_vc.geo.beyond_geos import beyond_geos
from havasu_vc.geo.buffers import Column

__all__ = ["total_area"]


def total_area(wkb: Column) -> float:
    """Return what the shapes of a column of WKB cover together; what is no shape covers nothing.

    Nor does what is bounded by arcs, whose area GEOS does not know.
    """
    import shapely

    values = np.where(beyond_geos(wkb), None, wkb.to_numpy(zero_copy_only=False))
    shapes = shapely.from_wkb(values, on_invalid="ignore")
    return float(np.nansum(shapely.area(shapes)))
