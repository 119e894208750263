"""Geometries of a diff in another coordinate reference system, and back into their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.reproject import transform
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.types import Field
from havasu_vc.writers import Reproject

__all__ = ["OwnSystem", "into_own_system", "reprojection"]

OwnSystem = Callable[[pa.Array, Field, DatasetHeader], pa.Array]
"""A function that brings a geometry column into the system that its dataset has it in."""


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


def into_own_system(text: str) -> OwnSystem:
    """Return what brings geometry columns out of the system that a text means into their own."""
    source = parse_crs(text)

    def bring(column: pa.Array, field: Field, header: DatasetHeader) -> pa.Array:
        if field.geometry is None:
            raise ValueError(f"{field.name!r} is no geometry column")
        wkb, srids = to_canonical(column, field.geometry.encoding)
        there = transform(wkb, source, _source(field, header))
        return from_canonical(there, srids, field.geometry.encoding)

    return bring


def _source(field: Field, header: DatasetHeader) -> Crs:
    name = None if field.geometry is None else field.geometry.crs
    if name is None:
        raise CrsError(
            f"column {field.name!r} of {header.path} has no coordinate reference system to"
            " transform by",
            hints=("leave --crs out to take the coordinates as they are",),
        )
    parsed = parse_crs(header.crs.get(name, name))
    return Crs(name, parsed.wkt, parsed.srid)
