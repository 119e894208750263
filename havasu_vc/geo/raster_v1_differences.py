"""Differences of two versions of a raster: its grid, its place, and band by band its cells.

Cells are compared as numbers where both versions hold them in grids of one size; those of
bands in other files are not opened, so only what names them is compared. Equal bytes cost
one comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from havasu_vc.geo.raster_v1 import Band, PixelType, Raster
from havasu_vc.records import dataclass

__all__ = ["BandDifference", "RasterDifference", "differing_cells", "raster_difference"]


@dataclass(frozen=True, slots=True)
class BandDifference:
    """How one band differs."""

    band: int
    """Which one; the first is 1."""
    kind: str = "changed"
    """`changed`, `added` or `removed`."""
    cells: int | None = None
    """How many cells differ; None where they cannot be told apart one by one."""
    largest: int | float | None = None
    """By how much a value changed at most, no-data cells apart; None if none did."""
    pixel_types: tuple[PixelType, PixelType] | None = None
    """The types before and after, if they differ."""
    no_data: tuple[int | float | None, int | float | None] | None = None
    """The no-data values before and after, if they differ."""
    files: tuple[str | None, str | None] | None = None
    """The files that hold the pixels, None for the raster itself, if they differ."""
    file_bands: tuple[int | None, int | None] | None = None
    """The bands of those files, if they differ in a file that is the same."""


@dataclass(frozen=True, slots=True)
class RasterDifference:
    """How two versions of a raster differ; nothing set means that they are alike."""

    sizes: tuple[tuple[int, int], tuple[int, int]] | None = None
    """Columns and rows before and after, if they differ."""
    affines: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """The maps before and after, anchored at corners, if they differ."""
    crs: tuple[str | None, str | None] | None = None
    """The systems before and after as WKT, if they differ."""
    bands: tuple[BandDifference, ...] = ()
    """The bands that differ."""


def raster_difference(old: Raster, new: Raster) -> RasterDifference:
    """Return how two rasters differ."""
    sizes = ((old.width, old.height), (new.width, new.height))
    places = (old.georeference.affine, new.georeference.affine)
    bands = [
        found
        for number, (before, after) in enumerate(zip(old.bands, new.bands, strict=False), 1)
        if (found := _band_difference(number, before, after, sizes)) is not None
    ]
    shared = min(len(old.bands), len(new.bands))
    bands += [BandDifference(n + 1, "removed") for n in range(shared, len(old.bands))]
    bands += [BandDifference(n + 1, "added") for n in range(shared, len(new.bands))]
    return RasterDifference(
        sizes if sizes[0] != sizes[1] else None,
        places if old.georeference != new.georeference else None,
        (old.crs_wkt, new.crs_wkt) if old.crs_wkt != new.crs_wkt else None,
        tuple(bands),
    )


def _band_difference(
    number: int, old: Band, new: Band, sizes: tuple[tuple[int, int], tuple[int, int]]
) -> BandDifference | None:
    files = tuple(None if band.in_db else band.out_db_url for band in (old, new))
    places = tuple(None if band.in_db else band.out_db_band for band in (old, new))
    cells: int | None = None
    largest: int | float | None = None
    differ = files != (None, None) or sizes[0] != sizes[1]
    if not differ and old.data == new.data and old.pixel_type is new.pixel_type:
        cells = 0
    elif not differ:
        cells, largest = _compare(old, new)
    same_cells = cells == 0 or (differ and files[0] == files[1])
    same_blank = _bits(old) == _bits(new)
    if same_cells and same_blank and places == (places[0],) * 2 and _one_type(old, new):
        return None
    return BandDifference(
        number,
        cells=cells,
        largest=largest,
        pixel_types=None if _one_type(old, new) else (old.pixel_type, new.pixel_type),
        no_data=None if same_blank else (old.no_data_value, new.no_data_value),
        files=None if files[0] == files[1] else (files[0], files[1]),
        file_bands=None
        if files[0] != files[1] or places[0] == places[1]
        else (places[0], places[1]),
    )


def _one_type(old: Band, new: Band) -> bool:
    return old.pixel_type is new.pixel_type


def _bits(band: Band) -> object:
    """Return what tells no-data values apart across pixel types."""
    value = band.no_data_value
    return "nan" if value is not None and value != value else value


def _compare(old: Band, new: Band) -> tuple[int, int | float | None]:
    """Return how many cells of two in-db bands of one size differ, and by how much at most."""
    before, after = _numbers(old), _numbers(new)
    differ = differing_cells(before, after)
    count = int(np.count_nonzero(differ))
    if not count:
        return 0, None
    left, right = before[differ], after[differ]
    valued = np.ones(len(left), np.bool_)
    for values, band in ((left, old), (right, new)):
        blank = band.no_data_value
        if blank is not None:
            valued &= ~np.isnan(values) if blank != blank else values != blank
        if values.dtype.kind == "f":
            valued &= np.isfinite(values)
    if not valued.any():
        return count, None
    kinds = {left.dtype.kind, right.dtype.kind}
    wide = np.float64 if "f" in kinds else np.int64
    largest = np.abs(right[valued].astype(wide) - left[valued].astype(wide)).max()
    return count, largest.item()


def differing_cells(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which of two aligned arrays of cells differ; NaN equals NaN."""
    differ: npt.NDArray[np.bool_] = before != after
    if before.dtype.kind == "f" and after.dtype.kind == "f":
        differ &= ~(np.isnan(before) & np.isnan(after))
    return differ


def _numbers(band: Band) -> npt.NDArray[Any]:
    assert band.data is not None
    return np.frombuffer(band.data, band.pixel_type.dtype)
