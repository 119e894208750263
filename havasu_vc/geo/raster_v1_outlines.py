"""Outlines of rasters: all that a raster says of itself without its pixels.

An outline is read from a column whose bands have no `data`, so that a table of rasters is
described, and put together as files, without reading what it is mostly made of. A band
that names a file counts as out-db here, though pixels may stand beside the name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.raster_v1 import GeoReference, PixelType, Raster, lenient_no_data
from havasu_vc.geo.raster_v1_columns import raster_headers
from havasu_vc.model import kernels as pc
from havasu_vc.records import dataclass

__all__ = ["OUTLINE_LEAVES", "BandOutline", "Outline", "parse_outlines"]

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
    """What a band is, without its pixels."""

    pixel_type: PixelType
    """What a cell holds."""
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
    """What a raster is, without its pixels."""

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
            raise GeometryError(f"the raster in row {row} cannot be used: {error}") from error
