"""Outlines of rasters: all that a raster says of itself without its pixels.

An outline is read from a column whose bands have no `data`, so that a table of rasters is
described, and put together as files, without reading what it is mostly made of. A band
that names a file counts as out-db here, though pixels may stand beside the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from havasu_vc.errors import CrsError, GeometryError
from havasu_vc.geo.buffers import Column
from havasu_vc.geo.crs import Crs, parse_crs, projection
from havasu_vc.geo.raster_v1 import (
    GeoReference,
    PixelType,
    Raster,
    RasterHeaders,
    lenient_no_data,
    raster_headers,
)
from havasu_vc.geo.reproject import geographic_bounds
from havasu_vc.model import compute as pc
from havasu_vc.model.bounds import Bounds, GeographicBounds
from havasu_vc.records import dataclass

__all__ = [
    "OUTLINE_LEAVES",
    "BandOutline",
    "Outline",
    "Places",
    "RasterSummary",
    "footprints",
    "native_extent",
    "parse_outlines",
    "place_on_globe",
    "places_of_rasters",
    "raster_row_bounds",
    "united_places",
]


_BAND: Final = ("pixel_type", "no_data", "out_db_band_no", "out_db_url")
_NAMED: Final = ("band_1", "band_2", "band_3", "band_4")
OUTLINE_LEAVES: Final = (
    "width",
    "height",
    "num_bands",
    "crs_wkt",
    "geo_reference",
    *(f"{band}.{part}" for band in _NAMED for part in _BAND),
    *(f"bands.list.element.{part}" for part in _BAND),
)
"""The Parquet columns inside a raster that an outline needs."""


@dataclass(frozen=True, slots=True)
class BandOutline:
    """A band without its pixels."""

    pixel_type: PixelType
    """The type of a cell."""
    no_data: bytes | None = None
    """The pixel that stands for no value; None if there is none."""
    out_db_band: int | None = None
    """Which band of the file, the first one is 0."""
    out_db_url: str | None = None
    """The file that holds the pixels; None where they are in the raster."""

    @property
    def no_data_value(self) -> int | float | None:
        """The no-data pixel as a number."""
        return None if self.no_data is None else self.pixel_type.number(self.no_data)


@dataclass(frozen=True, slots=True)
class Outline:
    """A raster without its pixels."""

    width: int
    """Columns."""
    height: int
    """Rows."""
    georeference: GeoReference
    """Where the cells are."""
    crs_wkt: str | None
    """The system as WKT; None if it is not known."""
    bands: tuple[BandOutline, ...]
    """The grids."""

    @classmethod
    def of(cls, raster: Raster) -> Outline:
        """Return the outline of a whole raster."""
        bands = tuple(
            BandOutline(
                band.pixel_type,
                band.no_data,
                None if band.in_db else band.out_db_band,
                None if band.in_db else band.out_db_url,
            )
            for band in raster.bands
        )
        return cls(raster.width, raster.height, raster.georeference, raster.crs_wkt, bands)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the pixels that are in the raster."""
        sizes = (band.pixel_type.size for band in self.bands if band.out_db_url is None)
        return self.width * self.height * sum(sizes)


def parse_outlines(column: pa.Array | pa.ChunkedArray) -> list[Outline | None]:
    """Return the outlines of a raster column, None for null, with or without its pixels."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    headers = raster_headers(column)
    parts = dict(zip(column.type.names, column.flatten(), strict=True))
    bands: list[list[BandOutline]] = [[] for _ in range(len(column))]
    for name in _NAMED:
        if name in parts:
            for row, band in _bands(parts[name], np.arange(len(column))):
                bands[row].append(band)
    more = parts.get("bands")
    if more is not None and not pa.types.is_null(more.type):
        owners = pc.list_parent_indices(more).to_numpy(zero_copy_only=False)
        for row, band in _bands(more.flatten(), owners):
            bands[row].append(band)
    texts = headers.crs_wkt.to_pylist()
    found: list[Outline | None] = [None] * len(column)
    for row in np.flatnonzero(headers.there).tolist():
        place = GeoReference(*headers.georeference[row].tolist())
        size = int(headers.width[row]), int(headers.height[row])
        found[row] = Outline(*size, place, texts[row], tuple(bands[row]))
    return found


def _bands(column: pa.Array, owners: Any) -> Iterator[tuple[int, BandOutline]]:
    if pa.types.is_null(column.type):
        return
    parts = dict(zip(column.type.names, column.flatten(), strict=True))
    values = [parts[name].to_pylist() for name in _BAND]
    for index in np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False)).tolist():
        kind, blank, number, url = (each[index] for each in values)
        row = int(owners[index])
        try:
            pixel = PixelType.of(kind)
            yield (
                row,
                BandOutline(
                    pixel, None if blank is None else lenient_no_data(blank, pixel), number, url
                ),
            )
        except (ValueError, TypeError) as error:
            raise GeometryError.of_value(row, str(error), what="raster") from error


# Bounds of raster columns: longitude and latitude of WGS 84, whatever system each has.
#
# The area of a raster is that of its cells, half a cell beyond their centres. A file
# has bounds only if every raster in it does: one without a CRS that can be used could
# be anywhere, and bounds that leave it out would lose it in queries.

Places: TypeAlias = tuple[GeographicBounds, ...] | None
"""The place of some rasters: nothing where there is none with cells, None where one is unknown."""


def united_places(parts: Iterable[Places]) -> GeographicBounds | None:
    """Return the bounds that hold all rasters; None if there are none, or one is unknown."""
    known: list[GeographicBounds] = []
    for part in parts:
        if part is None:
            return None
        known += part
    return GeographicBounds.of(known)


def places_of_rasters(headers: RasterHeaders) -> Places:
    """Return the bounds that hold the rasters of a column, at most one rectangle."""
    rows = raster_row_bounds(headers)
    cells = headers.there & (headers.width > 0) & (headers.height > 0)
    found = [rows[row] for row in np.flatnonzero(cells).tolist()]
    known = {one for one in found if one is not None}
    if any(one is None for one in found):
        return None
    area = GeographicBounds.of(known)
    return () if area is None else (area,)


def raster_row_bounds(headers: RasterHeaders) -> list[GeographicBounds | None]:
    """Return the bounds of every row; None where there are no cells or no place is known."""
    areas = headers.native_bounds
    found: list[GeographicBounds | None] = [None] * len(areas)
    systems: dict[str, Crs | None] = {}
    places: dict[tuple[str, Bounds], GeographicBounds | None] = {}
    texts = headers.crs_wkt.to_pylist()
    for row in np.flatnonzero(np.isfinite(areas).all(axis=1)).tolist():
        text = texts[row]
        if text is None:
            continue
        if text not in systems:
            systems[text] = _system(text)
        crs = systems[text]
        if crs is None:
            continue
        area = Bounds(*areas[row].tolist())
        # Tables of many bands or times hold the same tile again and again.
        if (text, area) not in places:
            places[text, area] = _place(area, crs)
        found[row] = places[text, area]
    return found


def _system(text: str) -> Crs | None:
    try:
        return parse_crs(text)
    except CrsError:
        return None


def _place(area: Bounds, crs: Crs) -> GeographicBounds | None:
    try:
        return geographic_bounds(area, crs)
    except CrsError:
        return None


# Footprints of rasters: the outline of their cells on the globe, as GeoJSON objects.
#
# Edges are drawn with a few points between the corners, for what is straight in a raster's
# system mostly is not in longitude and latitude. A raster over the anti-meridian or a pole
# is told by its bounds instead, in two parts where they cross.

_BETWEEN: Final = 8
"""Steps of an edge."""
_DIGITS: Final = 7


def footprints(column: Column) -> list[dict[str, Any] | None]:
    """Return the footprint of every row; None where there are no cells or no place is known."""
    try:
        headers = raster_headers(column)
        bounds = raster_row_bounds(headers)
    except GeometryError:
        return [None] * len(column)
    texts = headers.crs_wkt.to_pylist()
    return [
        None if found is None else _footprint(headers, row, texts[row], found)
        for row, found in enumerate(bounds)
    ]


def _footprint(
    headers: RasterHeaders, row: int, wkt: str, bounds: GeographicBounds
) -> dict[str, Any]:
    wide = bounds.crosses or bounds.east - bounds.west >= 180
    if not wide and (ring := _ring(headers, row, wkt)) is not None:
        return {"type": "Polygon", "coordinates": [ring]}
    if bounds.crosses:
        parts = [(bounds.west, 180.0), (-180.0, bounds.east)]
        boxes = [[_box(west, bounds.south, east, bounds.north)] for west, east in parts]
        return {"type": "MultiPolygon", "coordinates": boxes}
    box = _box(bounds.west, bounds.south, bounds.east, bounds.north)
    return {"type": "Polygon", "coordinates": [box]}


def _ring(headers: RasterHeaders, row: int, wkt: str) -> list[list[float]] | None:
    """Return the outline of a raster's cells, counterclockwise as GeoJSON has it."""
    import pyproj

    place = GeoReference(*headers.georeference[row].tolist())
    right, bottom = int(headers.width[row]) - 0.5, int(headers.height[row]) - 0.5
    corners = np.array([(-0.5, -0.5), (-0.5, bottom), (right, bottom), (right, -0.5)])
    steps = np.arange(_BETWEEN)[:, None] / _BETWEEN
    edges = [
        start + (end - start) * steps
        for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True)
    ]
    cells = np.concatenate([*edges, corners[:1]])
    column, row_ = cells.T
    x = place.upperleft_x + place.scale_x * column + place.skew_x * row_
    y = place.upperleft_y + place.skew_y * column + place.scale_y * row_
    try:
        change = pyproj.Transformer.from_crs(projection(parse_crs(wkt)), 4326, always_xy=True)
        lon, lat = change.transform(x, y)
    except (CrsError, pyproj.exceptions.ProjError):
        return None
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        return None
    area = float(np.sum(lon[:-1] * lat[1:] - lon[1:] * lat[:-1]))
    points = np.round(np.column_stack([lon, lat]), _DIGITS)
    return [[float(x), float(y)] for x, y in (points if area >= 0 else points[::-1])]


def _box(west: float, south: float, east: float, north: float) -> list[list[float]]:
    corners = [(west, south), (east, south), (east, north), (west, north), (west, south)]
    return [[round(x, _DIGITS), round(y, _DIGITS)] for x, y in corners]


# What many rasters are, told from their outlines: how many of which size, type and system.
#
# Extents are united in each system before they are brought to longitude and latitude, so a
# million tiles cost one transformation for each system.

BandKind = tuple[PixelType, int | float | None]
"""The type of a band's cells, and its no-data value."""


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
    """The kinds of bands, and how many rasters have them."""
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
