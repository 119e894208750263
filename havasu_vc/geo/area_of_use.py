"""Coordinates that cannot be of their system: degrees out of bounds, or far from where it is used.

A system that was named wrongly is the mistake that nothing else finds: the numbers are sound.
"""

from __future__ import annotations

from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import Crs, parse_crs, projection
from havasu_vc.geo.reproject import transform_bounds
from havasu_vc.model.bounds import Bounds

__all__ = ["outside"]

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
