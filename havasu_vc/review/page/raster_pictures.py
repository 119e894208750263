"""Pictures of changed rasters: before, after, and where they differ, small and few.

Three or more bands of bytes are shown as colours, anything else as greys of the first band,
stretched alike on both sides so that they can be compared. In the picture of differences
each point stands for the cell below it that changed most, so that one changed cell of a
large raster is seen; what did not change is transparent. All pictures of a page together
stay within a number of bytes. Files of out-db rasters are opened only by leave.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import HavasuError
from havasu_vc.geo.raster_v1 import PixelType, Raster
from havasu_vc.geo.raster_v1_differences import differing_cells, raster_difference
from havasu_vc.geo.raster_v1_outlines import Outline
from havasu_vc.geo.raster_v1_pixels import OpenUrl, pixels
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass
from havasu_vc.review.page.collecting import Picture, Pictures
from havasu_vc.writers.rasters import difference_lines, raster_words, readable_rasters

__all__ = ["MOST_BYTES", "SIDE", "raster_pictures"]

SIDE: Final = 320
"""Points on the longer side of a picture at most."""
SMALL: Final = 96
"""The same of a row whose pictures would take more than a quarter of the bytes that are left."""
MOST_BYTES: Final = 2 << 20
"""Bytes of all pictures of a page together."""
_MOST_CELLS: Final = 1 << 28
"""Larger rasters are not read for a picture."""
_CHANGED: Final = (213, 94, 0)
"""Vermilion, which stands out on light and dark and for the colour-blind."""

_Image: TypeAlias = npt.NDArray[np.uint8]
_Bands: TypeAlias = list[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class _Side:
    """One version of a raster: its bands, and which cells have no value in the first."""

    bands: _Bands
    blank: npt.NDArray[np.bool_] | None


def raster_pictures(open_url: OpenUrl | None = None, *, most_bytes: int = MOST_BYTES) -> Pictures:
    """Return what makes the pictures of one page."""
    left = most_bytes

    def pictures(field: Field, old: pa.Array | None, new: pa.Array | None) -> Iterator[Picture]:
        nonlocal left
        count = len(next(column for column in (old, new) if column is not None))
        for row in range(count):
            if left <= 0:
                return
            for side in (SIDE, SMALL):
                found = list(_pictures(row, _raster(old, row), _raster(new, row), open_url, side))
                size = sum(len(picture.png) for picture in found)
                if 4 * size <= left:
                    break
            left -= size
            yield from found

    return pictures


def _raster(column: pa.Array | None, row: int) -> Raster | None:
    if column is None or not column[row].is_valid:
        return None
    return readable_rasters(column.slice(row, 1))[0]


def _pictures(
    row: int, old: Raster | None, new: Raster | None, open_url: OpenUrl | None, most: int
) -> Iterator[Picture]:
    before, after = _read(old, open_url), _read(new, open_url)
    limits = _limits([side for side in (before, after) if side is not None], most)
    for name, raster, side in (("before", old, before), ("after", new, after)):
        if raster is not None and side is not None:
            words = raster_words(Outline.of(raster))
            yield Picture(row, name, _png(_drawn(side, limits, most)), f"{name}: {words}")
    if old is None or new is None or before is None or after is None:
        return
    same_grid = before.bands[0].shape == after.bands[0].shape
    if same_grid and len(before.bands) == len(after.bands):
        lines = difference_lines(raster_difference(old, new), new.width * new.height)
        image = _difference(before, after, most)
        yield Picture(row, "difference", _png(image), f"difference: {'; '.join(lines)}")


def _read(raster: Raster | None, open_url: OpenUrl | None) -> _Side | None:
    """Return the pixels of a raster, None if it has none that may be read."""
    if raster is None or not raster.bands or not raster.width or not raster.height:
        return None
    if raster.width * raster.height > _MOST_CELLS:
        return None
    colours = _is_colour(raster)
    try:
        bands = [pixels(raster, band, open_url) for band in range(3 if colours else 1)]
        # What changed may be in any band, so all that are at hand are compared.
        more = range(len(bands), len(raster.bands))
        bands += [pixels(raster, band) for band in more if raster.bands[band].in_db]
    except HavasuError:
        return None
    value = raster.bands[0].no_data_value
    blank = None
    if value is not None:
        blank = np.isnan(bands[0]) if value != value else bands[0] == value
    return _Side(bands, blank)


def _is_colour(raster: Raster) -> bool:
    first = raster.bands[:3]
    return len(first) == 3 and all(band.pixel_type is PixelType.UINT8 for band in first)


def _steps(
    shape: tuple[int, ...], most: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows and columns that are sampled, both at one scale."""
    scale = max(max(shape) / most, 1)
    counts = [max(round(length / scale), 1) for length in shape]
    rows, columns = (
        ((np.arange(count) + 0.5) * length / count).astype(np.int64)
        for count, length in zip(counts, shape, strict=True)
    )
    return rows, columns


def _limits(sides: list[_Side], most: int) -> tuple[float, float]:
    """Return what is black and what is white in pictures of one band."""
    found = []
    for side in sides:
        rows, columns = _steps(side.bands[0].shape, most)
        values = side.bands[0][np.ix_(rows, columns)].astype(np.float64)
        keep = np.isfinite(values)
        if side.blank is not None:
            keep &= ~side.blank[np.ix_(rows, columns)]
        found.append(values[keep])
    values = np.concatenate(found) if found else np.zeros(0)
    if not len(values):
        return 0.0, 1.0
    low, high = np.percentile(values, [2, 98]).tolist()
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _drawn(side: _Side, limits: tuple[float, float], most: int) -> _Image:
    """Return a version of a raster as an image with transparency."""
    rows, columns = _steps(side.bands[0].shape, most)
    where = np.ix_(rows, columns)
    colours = len(side.bands) >= 3 and all(band.dtype == np.uint8 for band in side.bands[:3])
    parts = []
    for band in side.bands[:3] if colours else side.bands[:1] * 3:
        values = band[where]
        if not colours:
            low, high = limits
            grey = (values.astype(np.float64) - low) * (255 / (high - low))
            values = np.clip(np.rint(np.nan_to_num(grey, posinf=255, neginf=0)), 0, 255)
        parts.append(values.astype(np.uint8))
    opaque = np.full(parts[0].shape, 255, np.uint8)
    if side.blank is not None:
        opaque[side.blank[where]] = 0
    return np.stack([*parts, opaque], axis=2)


def _difference(before: _Side, after: _Side, most: int) -> _Image:
    """Return where two versions differ: stronger where by more, never too faint to see."""
    shape = before.bands[0].shape
    rows, columns = (len(steps) for steps in _steps(shape, most))
    strength = np.zeros((rows, columns))
    edges = np.linspace(0, shape[0], rows + 1).astype(np.int64)
    starts = np.linspace(0, shape[1], columns + 1).astype(np.int64)[:-1]
    largest = 0.0
    for row, (top, bottom) in enumerate(pairwise(edges)):
        for old, new in zip(before.bands, after.bands, strict=False):
            left, right = old[top:bottom], new[top:bottom]
            differ = differing_cells(left, right)
            if not differ.any():
                continue
            with np.errstate(all="ignore"):
                apart = np.abs(right.astype(np.float64) - left.astype(np.float64))
            apart = np.where(differ, np.nan_to_num(apart, nan=0, posinf=0), 0)
            largest = max(largest, float(apart.max()))
            # Cells that came or went differ by no number, and count a little.
            apart = np.where(differ, np.maximum(apart, 1e-300), 0)
            across = np.maximum.reduceat(apart.max(axis=0), starts)
            strength[row] = np.maximum(strength[row], across)
    alpha = np.where(strength > 0, 110 + 145 * np.sqrt(strength / max(largest, 1e-300)), 0)
    image = np.empty((rows, columns, 4), np.uint8)
    image[..., :3] = _CHANGED
    image[..., 3] = np.clip(alpha, 0, 255).astype(np.uint8)
    return image


def _png(image: _Image) -> bytes:
    """Return an image of red, green, blue and opacity as a PNG."""
    opaque = bool((image[..., 3] == 255).all())
    if opaque:
        image = image[..., :3]
    height, width = image.shape[:2]
    lines = np.zeros((height, 1 + width * image.shape[2]), np.uint8)
    lines[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if opaque else 6, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    parts = ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
