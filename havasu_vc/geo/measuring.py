"""How much ground shapes cover, in the units of their coordinates."""

from __future__ import annotations

import numpy as np

from havasu_vc.geo.buffers import Column

__all__ = ["total_area"]


def total_area(wkb: Column) -> float:
    """Return what the shapes of a column of WKB cover together; what is no shape covers nothing."""
    import shapely

    shapes = shapely.from_wkb(wkb.to_numpy(zero_copy_only=False), on_invalid="ignore")
    return float(np.nansum(shapely.area(shapes)))
