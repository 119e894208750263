"""Rasters as GeoTIFFs: one raster as a file, or many as the tiles of one.

A file has the pixels, no-data values, system and affine that its rasters have. Tiles are
written as they come, so memory does not grow with the file. Where a raster lies in the
file is found by its georeference, whatever order rasters come in.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.exchange.geotiff import use_rasterio
from havasu_vc.geo.raster_v1 import GeoReference, PixelType, Raster
from havasu_vc.geo.raster_v1_outlines import Outline
from havasu_vc.geo.raster_v1_pixels import OpenUrl, pixels
from havasu_vc.records import dataclass

__all__ = ["Canvas", "CanvasOfTiles", "GeoTiffWriter"]

_ALIGNED: Final = 1e-3  # of a cell
_MAX_SIDE: Final = 2**31 - 1
_MAX_CELLS: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Canvas:
    """The file that some rasters are tiles of."""

    width: int
    """Columns."""
    height: int
    """Rows."""
    georeference: GeoReference
    """Where its cells are."""
    crs_wkt: str | None
    """Its system."""
    bands: tuple[tuple[PixelType, bytes | None], ...]
    """What each band holds, and its no-data pixel."""


class CanvasOfTiles:
    """Finds the canvas of rasters whose outlines are given one by one."""

    def __init__(self) -> None:
        self._first: Outline | None = None
        self._edges = (0, 0, 0, 0)
        self._corner: tuple[tuple[int, int], GeoReference] | None = None
        self.cells = 0
        """How many cells the rasters have."""

    def add(self, raster: Outline) -> None:
        """Take a raster in; raises if it is no tile of the file that those before make."""
        if self._first is None:
            self._first = raster
        first = self._first
        if _kinds(raster) != _kinds(first):
            raise InvalidArgumentError(
                "its tiles differ in number or type of bands, or in their no-data values"
            )
        if raster.crs_wkt != first.crs_wkt:
            raise InvalidArgumentError("its tiles are in different reference systems")
        column, row = _offset(
            raster.georeference, first.georeference, (raster.width, raster.height)
        )
        left, top, right, bottom = self._edges
        self._edges = (
            min(left, column),
            min(top, row),
            max(right, column + raster.width),
            max(bottom, row + raster.height),
        )
        self.cells += raster.width * raster.height
        if self._corner is None or (row, column) < self._corner[0]:
            self._corner = (row, column), raster.georeference

    @property
    def canvas(self) -> Canvas:
        """What the rasters so far are tiles of."""
        if self._first is None or self._corner is None:
            raise ValueError("no raster was added")
        left, top, right, bottom = self._edges
        width, height = right - left, bottom - top
        if max(width, height) > _MAX_SIDE or width * height > _MAX_CELLS:
            raise InvalidArgumentError("its tiles lie too far apart for one file")
        (row, column), place = self._corner
        if (row, column) != (top, left):  # the first tile is not among the rows
            x, y = place.world(left - column, top - row)
            place = replace(place, upperleft_x=x, upperleft_y=y)
        first = self._first
        return Canvas(right - left, bottom - top, place, first.crs_wkt, _kinds(first))


class GeoTiffWriter:
    """A GeoTIFF that is written tile by tile, and compressed; cells of no tile are no data.

    It may be closed and written to again. A file whose writing failed is removed.
    """

    def __init__(self, path: Path, canvas: Canvas, *, open_url: OpenUrl | None = None) -> None:
        if not (canvas.bands and canvas.width and canvas.height):
            raise InvalidArgumentError("a raster without cells cannot be written as GeoTIFF")
        if len(set(canvas.bands)) > 1:
            raise InvalidArgumentError("the bands of a GeoTIFF share pixel type and no-data value")
        self._path = path
        self._canvas = canvas
        self._open_url = open_url
        self._rasterio = use_rasterio()
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is not None:
            self._path.unlink(missing_ok=True)

    def write(self, tile: Raster) -> None:
        """Write the cells of a raster where its georeference says."""
        size = (tile.width, tile.height)
        column, row = _offset(tile.georeference, self._canvas.georeference, size)
        window = ((row, row + tile.height), (column, column + tile.width))
        arrays = [pixels(tile, band, self._open_url) for band in range(len(tile.bands))]
        with self._translated():
            if self._file is None:
                self._file = self._opened()
            self._file.write(np.stack(arrays), window=window)

    def close(self) -> None:
        """Put what was written on disk."""
        file, self._file = self._file, None
        if file is not None:
            with self._translated():
                file.close()

    def _opened(self) -> Any:
        with warnings.catch_warnings():
            # An image without a place is meant to have none.
            warnings.simplefilter("ignore", self._rasterio.errors.NotGeoreferencedWarning)
            if self._path.exists():
                return self._rasterio.open(self._path, "r+")
            return self._rasterio.open(self._path, "w", **_options(self._canvas, self._rasterio))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._rasterio.errors.RasterioError as error:
            reason = " ".join(str(error).split())[:160]
            raise StorageError(f"{self._path} cannot be written: {reason}") from error


def _options(canvas: Canvas, rasterio: Any) -> dict[str, Any]:
    kind, blank = canvas.bands[0]
    tiled = min(canvas.width, canvas.height) >= 512
    affine = canvas.georeference.affine
    return {
        "driver": "GTiff",
        "width": canvas.width,
        "height": canvas.height,
        "count": len(canvas.bands),
        "dtype": kind.dtype.newbyteorder("="),
        "crs": canvas.crs_wkt,
        # A file without a place has none again.
        "transform": None if affine == (1, 0, 0, 0, 1, 0) else rasterio.Affine(*affine),
        "nodata": None if blank is None else np.frombuffer(blank, kind.dtype)[0].item(),
        "compress": "deflate",
        "BIGTIFF": "IF_SAFER",
        "SPARSE_OK": True,  # what no tile covers takes no room
        "tiled": tiled,
        **({"blockxsize": 512, "blockysize": 512} if tiled else {}),
    }


def _kinds(raster: Outline) -> tuple[tuple[PixelType, bytes | None], ...]:
    return tuple((band.pixel_type, band.no_data) for band in raster.bands)


def _offset(mine: GeoReference, place: GeoReference, size: tuple[int, int]) -> tuple[int, int]:
    """Return the column and row that a raster of a size begins at in a grid."""
    steps = zip(mine.numbers[:4], place.numbers[:4], strict=True)
    cell = max(abs(number) for number in place.numbers[:4])
    drift = _ALIGNED * cell / max(*size, 1)
    if any(abs(one - other) > drift for one, other in steps):
        raise InvalidArgumentError("its tiles have cells of different size or direction")
    if mine == place:
        return 0, 0
    determinant = place.scale_x * place.scale_y - place.skew_x * place.skew_y
    right, up = mine.upperleft_x - place.upperleft_x, mine.upperleft_y - place.upperleft_y
    if not determinant:
        raise InvalidArgumentError("its tiles have cells without area")
    column = (place.scale_y * right - place.skew_x * up) / determinant
    row = (place.scale_x * up - place.skew_y * right) / determinant
    if not math.isfinite(column + row):
        raise InvalidArgumentError("its tiles lie too far apart for one file")
    if max(abs(column - round(column)), abs(row - round(row))) > _ALIGNED:
        raise InvalidArgumentError("its tiles do not lie in one grid")
    return round(column), round(row)
