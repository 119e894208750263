"""Showing geometries of a diff in another coordinate reference system."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.reproject import transform
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.types import Field
from havasu_vc.writers import Reproject

__all__ = ["reprojection"]


def reprojection(text: str) -> tuple[Crs, Reproject]:
    """Return the system that a text means, and what brings geometry columns into it.

    A column whose own system is not known raises `CrsError`.
    """
    target = parse_crs(text)

    def reproject(column: pa.Array, field: Field, header: DatasetHeader) -> pa.Array:
        if field.geometry is None:
            raise ValueError(f"{field.name!r} is no geometry column")
        source = _source(field, header)
        encoding = field.geometry.encoding
        wkb, srids = to_canonical(column, encoding)
        if srids is not None:
            srids = np.where(srids != 0, target.srid, srids).astype(srids.dtype)
        return from_canonical(transform(wkb, source, target), srids, encoding)

    return target, reproject


def _source(field: Field, header: DatasetHeader) -> Crs:
    name = None if field.geometry is None else field.geometry.crs
    if name is None:
        raise CrsError(
            f"column {field.name!r} of {header.path} has no coordinate reference system to"
            " transform from",
            hints=("leave --crs out to see the coordinates as they are",),
        )
    parsed = parse_crs(header.crs.get(name, name))
    return Crs(name, parsed.wkt, parsed.srid)
