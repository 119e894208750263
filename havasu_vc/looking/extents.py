"""Where the rows of a dataset lie on the globe, as far as that is known without reading them."""

from __future__ import annotations

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.reproject import geographic_bounds
from havasu_vc.model.bounds import Bounds, GeographicBounds

__all__ = ["extent_of"]


def extent_of(view: Dataset) -> GeographicBounds | None:
    """Return bounds in longitude and latitude of the first geometry column; None if unknown.

    A dataset whose rows are not in data files keeps no bounds.
    """
    files = view.in_files
    column = next(iter(view.schema.geometries), None)
    if files is None or column is None or column.geometry is None:
        return None
    found: Bounds | None = None
    for entry in files.data_entries:
        bounds = entry.bounds.get(column.id)
        if bounds is not None:
            found = bounds if found is None else found.union(bounds)
    name = column.geometry.crs
    if found is None or name is None:
        return None
    try:
        parsed = parse_crs(view.crs.get(name, name))
        return geographic_bounds(found, Crs(name, parsed.wkt, parsed.srid))
    except CrsError:
        return None
