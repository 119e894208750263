"""GeoTIFFs, and whatever else rasterio opens, as rasters, and rasters as GeoTIFFs.

A file becomes one raster, or one for each tile of a grid over it. In-db, its pixels
are in the raster; out-db, the raster names the file. Written out again, a raster has
the pixels, no-data values, system and affine that the file had. What a raster cannot
hold (colours, masks, overviews, tags, compression) is left behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from havasu_vc.errors import InvalidArgumentError, InvalidFileError, MissingProgramError
from havasu_vc.geo.raster_v1 import Band, GeoReference, PixelType, Raster
from havasu_vc.geo.raster_v1_pixels import (
    OpenUrl,
    no_data_bytes,
    pixels,
    raster_of_pixels,
)

__all__ = ["TiledRaster", "read_geotiff", "write_geotiff"]


@dataclass(frozen=True, slots=True)
class TiledRaster:
    """A raster that was read, and which part of its file it is."""

    column: int
    """The column of the file that its first one was."""
    row: int
    """The row of the file that its first one was."""
    raster: Raster
    """The cells."""


def read_geotiff(
    path: Path, *, tile: int | None = None, out_db: str | None = None
) -> Iterator[TiledRaster]:
    """Yield the rasters of a file, row of tiles by row; with `out_db`, by that URL of it."""
    if tile is not None and tile < 1:
        raise InvalidArgumentError(f"tiles have at least one cell, not {tile}")
    rasterio = _rasterio()
    try:
        with _opened(rasterio, path) as file:
            place = _georeference(file, path)
            kinds = _pixel_types(file, path)
            crs = file.crs.to_wkt(version="WKT2_2019") if file.crs else None
            for column, row, width, height in _tiles(file.width, file.height, tile):
                reference = _moved(place, column, row)
                if out_db is None:
                    raster = _read(file, (column, row, width, height), reference, crs)
                else:
                    bands = tuple(
                        Band(kind, _no_data(kind, blank, path), None, number, out_db)
                        for number, (kind, blank) in enumerate(
                            zip(kinds, file.nodatavals, strict=True)
                        )
                    )
                    raster = Raster(width, height, reference, bands, crs)
                yield TiledRaster(column, row, raster)
    except rasterio.errors.RasterioError as error:
        raise InvalidFileError(str(path), " ".join(str(error).split())[:160]) from error


def write_geotiff(raster: Raster, path: Path, *, open_url: OpenUrl | None = None) -> None:
    """Write a raster to a new GeoTIFF, which is compressed and tiled."""
    if path.exists():
        raise InvalidArgumentError(f"{path} is there already")
    if not (raster.bands and raster.width and raster.height):
        raise InvalidArgumentError("a raster without cells cannot be written as GeoTIFF")
    arrays = [pixels(raster, band, open_url) for band in range(len(raster.bands))]
    blanks = {band.no_data_value for band in raster.bands}
    kinds = {array.dtype for array in arrays}
    if len(kinds) > 1 or len({repr(one) for one in blanks}) > 1:
        raise InvalidArgumentError("the bands of a GeoTIFF share pixel type and no-data value")
    rasterio = _rasterio()
    try:
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            width=raster.width,
            height=raster.height,
            count=len(arrays),
            dtype=arrays[0].dtype.newbyteorder("="),
            crs=raster.crs_wkt,
            transform=rasterio.Affine(*raster.georeference.affine),
            nodata=raster.bands[0].no_data_value,
            compress="deflate",
            BIGTIFF="IF_SAFER",
        ) as out:
            out.write(np.stack(arrays))
    except rasterio.errors.RasterioError as error:
        path.unlink(missing_ok=True)
        raise InvalidFileError(str(path), " ".join(str(error).split())[:160]) from error


def _rasterio() -> Any:
    try:
        import rasterio
        import rasterio.errors
    except ImportError as error:
        raise MissingProgramError(
            "GeoTIFFs are read and written by rasterio, which is not installed",
            hints=("pip install 'havasu-vc[raster]'",),
        ) from error
    return rasterio


def _opened(rasterio: Any, path: Path) -> Any:
    with warnings.catch_warnings():
        # An image without a place is a raster without a place.
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        return rasterio.open(path)


def _georeference(file: Any, path: Path) -> GeoReference:
    if file.transform.is_identity and file.gcps[0]:
        raise InvalidFileError(
            str(path),
            "it is placed by control points, not by an affine map",
            hints=("warp it first: gdalwarp in.tif out.tif",),
        )
    try:
        return GeoReference.of_affine(tuple(file.transform)[:6])
    except ValueError as error:
        raise InvalidFileError(str(path), str(error)) from error


def _pixel_types(file: Any, path: Path) -> Sequence[PixelType]:
    if len(set(file.dtypes)) > 1:
        raise InvalidFileError(str(path), f"its bands differ in type: {', '.join(file.dtypes)}")
    try:
        return [PixelType.of_dtype(np.dtype(name)) for name in file.dtypes]
    except (TypeError, ValueError) as error:
        raise InvalidFileError(str(path), str(error)) from error


def _read(
    file: Any, tile: tuple[int, int, int, int], place: GeoReference, crs: str | None
) -> Raster:
    column, row, width, height = tile
    array = file.read(window=((row, row + height), (column, column + width)))
    try:
        return raster_of_pixels(list(array), place, crs_wkt=crs, no_data=file.nodatavals)
    except ValueError as error:
        raise InvalidFileError(file.name, str(error)) from error


def _no_data(kind: PixelType, value: float | None, path: Path) -> bytes | None:
    try:
        return None if value is None else no_data_bytes(value, kind)
    except ValueError as error:
        raise InvalidFileError(str(path), str(error)) from error


def _tiles(width: int, height: int, tile: int | None) -> Iterator[tuple[int, int, int, int]]:
    side = tile or max(width, height)
    for row in range(0, height, side):
        for column in range(0, width, side):
            yield column, row, min(side, width - column), min(side, height - row)


def _moved(place: GeoReference, column: int, row: int) -> GeoReference:
    """Return the map of a part of a grid."""
    x, y = place.world(column, row)
    return GeoReference(place.scale_x, place.scale_y, place.skew_x, place.skew_y, x, y)
