"""Geometries of one type as arrays of vertices and of where parts begin, as GeoArrow has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.buffers import Floats
from havasu_vc.geo.wkt import geos_geometries

__all__ = ["ragged"]

Offsets = tuple[npt.NDArray[Any], ...]
_TYPE_IDS = {
    "point": 0,
    "linestring": 1,
    "polygon": 3,
    "multipoint": 4,
    "multilinestring": 5,
    "multipolygon": 6,
}


def ragged(wkb: pa.Array, kind: str, dimensions: str) -> tuple[Floats, Offsets]:
    """Return the vertices of canonical WKB, and where the parts of each level begin.

    The innermost level comes first. All must be of one `kind`, such as `multipolygon`, and
    have vertices of `xy` or `xyz`; nulls are left out. Raises `GeometryError` otherwise.
    """
    import shapely

    shapes = geos_geometries(wkb.drop_null())
    if (shapely.get_type_id(shapes) != _TYPE_IDS[kind]).any():
        raise GeometryError(f"it is no {kind}")
    upright = dimensions == "xyz"
    solid = shapes[~shapely.is_empty(shapes)]
    if (shapely.has_z(solid) != upright).any() or shapely.has_m(shapes).any():
        raise GeometryError(f"its coordinates are not {dimensions}")
    _, vertices, offsets = shapely.to_ragged_array(shapes, include_z=upright)
    return np.asarray(vertices, np.float64), tuple(offsets)
