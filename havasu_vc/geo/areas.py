"""Areas that a working copy is limited to: polygons in some system, and which geometries meet them.

    area = parse_area("EPSG:4326", "POLYGON ((174 -42, 175 -42, 175 -41, 174 -42))")
    area.local(crs).matches(column, encoding)      which rows are inside

What is inside is decided as Kart decides it, so that both programs have the same rows in one
working copy: the vertices of the polygon are transformed, nothing between them; a row without a
geometry is inside, one whose geometry is empty is not, and boxes that only touch do not meet.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from havasu_vc.errors import CrsError, GeometryError, InvalidArgumentError
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import Bools, Column, Floats
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.reproject import transform
from havasu_vc.geo.wkb import AnyEncoding, to_canonical
from havasu_vc.geo.wkt import beyond_geos, geos_geometries
from havasu_vc.model.bounds import Bounds
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import shapely

__all__ = ["FilterArea", "LocalArea", "parse_area", "require_valid"]

_KINDS: Final = ("Polygon", "MultiPolygon")
_HEX: Final = re.compile(r"\s*(?:[0-9a-fA-F]{2}){5,}\s*")


@dataclass(frozen=True, slots=True)
class FilterArea:
    """A polygon, or several, and the system that its coordinates are in."""

    crs: str
    """The name of the system, or its definition as WKT."""
    wkb: bytes
    """The polygon as canonical WKB."""

    @property
    def wkt(self) -> str:
        """The polygon as text, as Kart's settings have it."""
        import shapely

        text: str = shapely.to_wkt(self._shape, rounding_precision=-1, trim=True)
        return text.replace(", ", ",")

    @property
    def fingerprint(self) -> str:
        """The hash by which a working copy knows the area that it is limited to; Kart's."""
        return hashlib.sha256(self.crs.strip().encode() + self.wkb).hexdigest()[:40]

    @property
    def degrees(self) -> tuple[float, float, float, float]:
        """West, south, east and north of its vertices in WGS 84."""
        box = self.local(parse_crs("EPSG:4326")).bounds
        return box.xmin, box.ymin, box.xmax, box.ymax

    @property
    def _shape(self) -> shapely.Geometry:
        (shape,) = geos_geometries(pa.array([self.wkb], pa.binary()))
        return shape

    def local(self, crs: Crs | None) -> LocalArea:
        """Return it in a system; with None its coordinates are taken as they are."""
        return _local(self, crs)


@lru_cache(maxsize=64)
def _local(area: FilterArea, crs: Crs | None) -> LocalArea:
    wkb = pa.array([area.wkb], pa.binary())
    if crs is not None:
        try:
            wkb = transform(wkb, parse_crs(area.crs), crs)
        except CrsError as error:
            raise CrsError(
                f"the spatial filter cannot be brought to {crs.identifier}: {error.message}",
                hints=("give the filter in a system near that of the data",),
            ) from error
    (shape,) = geos_geometries(wkb)
    return LocalArea(shape)


def require_valid(area: FilterArea) -> FilterArea:
    """Return an area; raise where its outline crosses itself, so that no inside is sure."""
    import shapely

    if not shapely.is_valid(shapely.from_wkb(area.wkb)):
        raise InvalidArgumentError("the polygon of the spatial filter is not valid")
    return area


@lru_cache(maxsize=64)
def parse_area(crs: str, geometry: str) -> FilterArea:
    """Return the area that a system and WKT or hexadecimal WKB mean.

    Raises `InvalidArgumentError` for a system that is unknown and for what is no polygon.
    """
    try:
        parse_crs(crs)
    except CrsError as error:
        raise InvalidArgumentError(
            f"Invalid or unknown coordinate reference system of the spatial filter: {error.message}"
        ) from error
    text = geometry.strip()
    by_hex = _HEX.fullmatch(text) is not None
    column = pa.array(
        [bytes.fromhex(text) if by_hex else text], pa.binary() if by_hex else pa.string()
    )
    try:
        wkb, _ = to_canonical(column, "ewkb" if by_hex else "wkt")
        (shape,) = geos_geometries(wkb)
    except GeometryError as error:
        raise InvalidArgumentError(
            f"Invalid geometry of the spatial filter: {error.reason or error.message}",
            hints=("give a polygon as WKT or as hexadecimal WKB",),
        ) from error
    if shape.geom_type not in _KINDS:
        raise InvalidArgumentError(
            "Expected geometry for spatial filter of type POLYGON|MULTIPOLYGON but found: "
            f"{shape.geom_type.upper()}"
        )
    if shape.is_empty or not np.isfinite(shape.bounds).all():
        raise InvalidArgumentError("Invalid geometry of the spatial filter: it is empty")
    return FilterArea(crs.strip(), wkb[0].as_py())


@dataclass(frozen=True, slots=True)
class LocalArea:
    """An area in the system of some column."""

    shape: Any
    """The polygon, as shapely holds it."""

    @property
    def bounds(self) -> Bounds:
        """The box around it."""
        return Bounds(*map(float, self.shape.bounds))

    def matches(self, column: Column, encoding: AnyEncoding) -> Bools:
        """Return which geometries meet it; where there is none, the row is inside."""
        import shapely

        box = self.bounds
        west, south, east, north = row_bounds(column, encoding).T
        # Comparisons with NaN, of what is empty, are false.
        found: Bools = (east > box.xmin) & (west < box.xmax)
        found &= (north > box.ymin) & (south < box.ymax)
        rows = np.flatnonzero(found & ~self._sure(west, south, east, north))
        if rows.size:
            part = to_canonical(column.take(pa.array(rows)), encoding)[0]
            plain = np.flatnonzero(~beyond_geos(part))  # of arcs the box decides
            rows = rows[plain]
            shapely.prepare(self.shape)
            try:
                found[rows] = shapely.intersects(
                    self.shape, geos_geometries(part.take(pa.array(plain)))
                )
            except (shapely.GEOSException, GeometryError):
                found[rows] = True  # what cannot be told is shown
        found |= np.asarray(column.is_null())
        return found

    def _sure(self, west: Floats, south: Floats, east: Floats, north: Floats) -> Bools:
        """Return which boxes a rectangle holds, so that nothing more need be asked."""
        import shapely

        box, shape = self.bounds, self.shape
        if shape.geom_type != "Polygon" or not shape.equals(shapely.envelope(shape)):
            return np.zeros(len(west), np.bool_)
        held: Bools = (west > box.xmin) & (east < box.xmax)
        held &= (south > box.ymin) & (north < box.ymax)
        return held
