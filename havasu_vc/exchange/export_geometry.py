"""Geometries on their way out: from a column's encoding and system to the one wanted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from havasu_vc.errors import CrsError
from havasu_vc.exchange.export_columns import Notes
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.reproject import transform
from havasu_vc.model.crs import Crs
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

__all__ = ["OutgoingGeometry", "outgoing_geometry", "type_name"]

_NAMES = (
    "Geometry", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString",
    "MultiPolygon", "GeometryCollection", "CircularString", "CompoundCurve", "CurvePolygon",
    "MultiCurve", "MultiSurface", "Curve", "Surface", "PolyhedralSurface", "TIN", "Triangle",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutgoingGeometry:
    """A geometry column on its way out."""

    field: Field
    """As the dataset has it."""
    source: Crs | None
    """Its coordinate reference system; None when unknown."""
    target: Crs | None
    """The one it is written in."""
    notes: Notes

    def canonical(self, column: pa.Array) -> pa.Array:
        """Return a stored column as little-endian ISO WKB in the target system."""
        if self.field.geometry is None:
            raise ValueError(f"{self.field.name!r} is no geometry column")
        wkb, srids = geometry_bytes.to_canonical(column, self.field.geometry.encoding.value)
        if srids is not None:
            known = {0, self.source.srid if self.source else 0}
            if not set(np.unique(srids).tolist()) <= known:
                self.notes.say(
                    f"the SRIDs that values of column {self.field.name!r} have of their own "
                    "are left out"
                )
        if self.source is not None and self.target is not None and self.source != self.target:
            wkb = transform(wkb, self.source, self.target)
        return wkb


def outgoing_geometry(
    field: Field, crs: Mapping[str, str], wanted: Crs | None, notes: Notes
) -> OutgoingGeometry:
    """Return how a geometry column goes out.

    Raises `CrsError` if another system is wanted and the column's is not known.
    """
    source = None
    if field.geometry is not None and field.geometry.crs is not None:
        source = _known(field.geometry.crs, crs)
    if wanted is not None and source is None:
        raise CrsError(
            f"column {field.name!r} has no coordinate reference system to transform from",
            hints=("set the dataset's first",),
        )
    return OutgoingGeometry(field, source, wanted or source, notes)


def _known(identifier: str, crs: Mapping[str, str]) -> Crs:
    """Return a dataset's system: its own definition under its own name."""
    if identifier not in crs:
        return parse_crs(identifier)
    parsed = parse_crs(crs[identifier])
    return Crs(identifier, parsed.wkt, parsed.srid)


def type_name(code: int) -> str:
    """Return the name of an ISO type code.

    >>> type_name(1), type_name(3006)
    ('Point', 'MultiPolygon ZM')
    """
    kind, dimensions = code % 1000, ("", " Z", " M", " ZM")[code // 1000]
    return (_NAMES[kind] if kind < len(_NAMES) else "Geometry") + dimensions
