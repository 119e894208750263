"""What many rasters are, told from their outlines: how many of which size, type and system.

Extents are united in each system before they are brought to longitude and latitude, so a
million tiles cost one transformation for each system.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field

from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.geographic import geographic_bounds
from havasu_vc.geo.raster_v1 import PixelType
from havasu_vc.geo.raster_v1_outlines import Outline
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.geographic_bounds import GeographicBounds
from havasu_vc.records import dataclass

__all__ = ["RasterSummary", "native_extent", "place_on_globe"]

BandKind = tuple[PixelType, int | float | None]
"""What a band holds, and its no-data value."""


@dataclass(slots=True)
class RasterSummary:
    """Counts over the rasters of a column."""

    rows: int = 0
    """Rows, those without a raster too."""
    rasters: int = 0
    """Rows that have a raster."""
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Columns and rows, and how many rasters have so many."""
    bands: Counter[tuple[BandKind, ...]] = field(default_factory=Counter)
    """What the bands are, and of how many rasters."""
    cells: Counter[tuple[float, float]] = field(default_factory=Counter)
    """Width and height of a cell."""
    systems: Counter[str | None] = field(default_factory=Counter)
    """Systems as WKT."""
    extents: dict[str | None, Bounds] = field(default_factory=dict)
    """The extent in each system."""
    stored_bytes: int = 0
    """Bytes of pixels in the table, before compression."""
    out_db: int = 0
    """Rasters with a band that is in another file."""
    files: set[str] = field(default_factory=set)
    """Some of those files."""

    def add(self, outlines: Iterable[Outline | None]) -> None:
        """Count rasters."""
        for raster in outlines:
            self.rows += 1
            if raster is not None:
                self._add(raster)

    def _add(self, raster: Outline) -> None:
        self.rasters += 1
        self.sizes[raster.width, raster.height] += 1
        self.bands[tuple((band.pixel_type, band.no_data_value) for band in raster.bands)] += 1
        self.cells[raster.georeference.scale_x, raster.georeference.scale_y] += 1
        self.systems[raster.crs_wkt] += 1
        extent = native_extent(raster)
        if extent is not None:
            known = self.extents.get(raster.crs_wkt)
            self.extents[raster.crs_wkt] = extent if known is None else known.union(extent)
        self.stored_bytes += raster.stored_bytes
        urls = [band.out_db_url for band in raster.bands if band.out_db_url is not None]
        self.out_db += bool(urls)
        if len(self.files) < 1000:
            self.files.update(urls)

    @property
    def on_globe(self) -> GeographicBounds | None:
        """The extent in longitude and latitude; None where some raster's is not known."""
        found = [place_on_globe(extent, wkt) for wkt, extent in self.extents.items()]
        known = [each for each in found if each is not None]
        return GeographicBounds.of(known) if known and len(known) == len(found) else None


def native_extent(raster: Outline) -> Bounds | None:
    """Return the extent of a raster's cells in its own system; None without cells."""
    if not raster.width or not raster.height:
        return None
    right, bottom = raster.width - 0.5, raster.height - 0.5
    places = ((-0.5, -0.5), (right, -0.5), (right, bottom), (-0.5, bottom))
    xs, ys = zip(*(raster.georeference.world(*place) for place in places), strict=True)
    return Bounds(min(xs), min(ys), max(xs), max(ys))


def place_on_globe(extent: Bounds | None, wkt: str | None) -> GeographicBounds | None:
    """Return an extent in longitude and latitude; None where that is not known."""
    if extent is None or wkt is None:
        return None
    try:
        return geographic_bounds(extent, parse_crs(wkt))
    except CrsError:
        return None
