"""Whether the rasters of a column are what encoding `v1` says, told without a look at pixels.

Rows come in whole columns: the bands of each slot are checked by their lengths and
numbers alone, so a gigabyte of pixels costs nothing. What is found first is said, with
the row: bands that are missing or counted wrongly, pixel types that are none, pixels of
another length than the size asks for, bands outside the table that name no file.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.buffers import Bools, Column
from havasu_vc.geo.raster_v1 import PixelType, RasterHeaders, parse_rasters, raster_headers
from havasu_vc.model import compute as pc

__all__ = ["check_rasters", "first_unsound"]

_NAMED: Final = ("band_1", "band_2", "band_3", "band_4")
_SIZES: Final = np.zeros(256, np.int64)
_SIZES[[one.value for one in PixelType]] = [one.size for one in PixelType]


def check_rasters(column: Column) -> RasterHeaders:
    """Return the headers of a raster column, `GeometryError` naming the first row not sound."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    headers = raster_headers(column)
    count = len(headers.there)
    found = np.zeros(count, np.int64)
    bad = np.zeros(count, np.bool_)
    if pa.types.is_null(column.type):
        return headers
    parts = _parts(column)
    for index, name in enumerate(_NAMED):
        valid, wrong = _checked(parts.get(name), headers, np.arange(count))
        # What stands behind a gap is counted as too little of what the header counts.
        bad |= wrong | (valid & (found < index))
        found += valid
    bands = parts.get("bands")
    if bands is not None and not pa.types.is_null(bands.type):
        owners = pc.list_parent_indices(bands).to_numpy(zero_copy_only=False)
        valid, wrong = _checked(bands.flatten(), headers, owners)
        more = np.bincount(owners, minlength=count)
        np.logical_or.at(bad, owners, wrong | ~valid)
        bad |= (more > 0) & (found < len(_NAMED))
        found += more
    bad |= found != headers.bands
    for row in np.flatnonzero(bad & headers.there).tolist():
        _refuse(column, row)
    return headers


def first_unsound(column: Column) -> tuple[int, str] | None:
    """Return the first row of a raster column that is not sound, and why; found by halving."""
    low, high = 0, len(column)
    reason = _unsound(column)
    if reason is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _unsound(column.slice(low, middle - low)) is None:
            low = middle
        else:
            high = middle
    found = _unsound(column.slice(low, 1)) or reason
    return low, found


def _unsound(column: Column) -> str | None:
    try:
        check_rasters(column)
    except GeometryError as error:
        return error.reason or error.message
    return None


def _checked(
    band: pa.Array[Any] | None, headers: RasterHeaders, owners: npt.NDArray[Any]
) -> tuple[Bools, Bools]:
    """Return which bands of one slot are there, and which of them cannot be right."""
    if band is None or pa.types.is_null(band.type):
        nothing = np.zeros(len(owners), np.bool_)
        return nothing, nothing
    valid: Bools = pc.is_valid(band).to_numpy(zero_copy_only=False)
    parts = _parts(band)
    if "pixel_type" not in parts:
        raise GeometryError("the raster column has bands without a pixel_type")
    kinds = _numbers(parts["pixel_type"], -1)
    known = (kinds >= 0) & (kinds < len(_SIZES))
    sizes = np.where(known, _SIZES[np.where(known, kinds, 0)], 0)
    blanks, pixels = (_lengths(parts.get(name), len(band)) for name in ("no_data", "data"))
    wrong = sizes == 0
    # A double is what some write as the no-data value of any type; the parser says if it fits.
    wrong |= (blanks >= 0) & (blanks != sizes)
    wrong |= (pixels >= 0) & (pixels != headers.width[owners] * headers.height[owners] * sizes)
    elsewhere = parts.get("out_db_band_no")
    numbers = np.full(len(band), -1) if elsewhere is None else _numbers(elsewhere, -1)
    wrong |= (pixels < 0) & ((numbers < 0) | (_lengths(parts.get("out_db_url"), len(band)) < 0))
    return valid, wrong & valid


def _refuse(column: pa.Array[Any], row: int) -> None:
    """Raise in the words of the parser, which takes a no-data value written as a double."""
    try:
        parse_rasters(column.slice(row, 1))
    except GeometryError as error:
        reason = error.reason or error.message
        raise GeometryError.of_value(row, reason, what="raster") from error


def _parts(array: pa.Array[Any]) -> dict[str, pa.Array[Any]]:
    names = [array.type.field(index).name for index in range(array.type.num_fields)]
    return dict(zip(names, array.flatten(), strict=True))


def _numbers(array: pa.Array[Any], missing: int) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = pc.fill_null(pc.cast(array, pa.int64()), missing).to_numpy(
        zero_copy_only=False
    )
    return found


def _lengths(array: pa.Array[Any] | None, count: int) -> npt.NDArray[np.int64]:
    """Return the length of each value, -1 for null."""
    if array is None or pa.types.is_null(array.type):
        return np.full(count, -1, np.int64)
    return _numbers(pc.binary_length(array), -1)
