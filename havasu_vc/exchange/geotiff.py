"""GeoTIFFs, and other images that GDAL opens, as rasters.

A file becomes one raster, or one for each tile of a grid over it. In-db, its pixels
are in the raster; out-db, the raster names the file. Tiles are read row of tiles by
row, a few at a time, so memory does not grow with the file. What a raster cannot hold
(colours, masks, overviews, tags, compression) is left behind. `geotiff_writer` writes
rasters out again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from havasu_vc.errors import CrsError, InvalidArgumentError, InvalidFileError, MissingProgramError
from havasu_vc.exchange.formats import format_of_file
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.raster_v1 import Band, GeoReference, PixelType, Raster
from havasu_vc.geo.raster_v1_outlines import BandOutline, Outline
from havasu_vc.geo.raster_v1_pixels import no_data_bytes
from havasu_vc.records import dataclass

__all__ = [
    "Grid",
    "ImageHeader",
    "TiledRaster",
    "read_image_header",
    "read_tiles",
    "tile_grid",
    "use_rasterio",
]

_PIECE_BYTES: Final = 32 << 20
_CACHE_MB: Final = 64


@dataclass(frozen=True, slots=True)
class Grid:
    """How an image is cut: whole tiles, and smaller ones at its right and lower edge."""

    width: int
    """Columns of the image."""
    height: int
    """Rows of the image."""
    across: int
    """Columns of a tile."""
    down: int
    """Rows of a tile."""

    @property
    def columns(self) -> int:
        """How many tiles lie side by side."""
        return -(-self.width // self.across)

    @property
    def rows(self) -> int:
        """How many rows of tiles there are."""
        return -(-self.height // self.down)


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """The header of an image, read before a pixel is; each part is one a raster can have."""

    path: str
    """Where it is."""
    width: int
    """Columns."""
    height: int
    """Rows."""
    georeference: GeoReference
    """Where its cells are."""
    pixel_type: PixelType
    """The type of the pixels of all its bands."""
    no_data: tuple[bytes | None, ...]
    """The no-data pixel of each band."""
    crs_wkt: str | None
    """Its system as WKT2; None where it has none."""
    left_behind: tuple[str, ...] = ()
    """Parts of it that no raster holds, in words."""

    @property
    def outline(self) -> Outline:
        """The raster that it becomes, without its pixels."""
        bands = tuple(BandOutline(self.pixel_type, blank) for blank in self.no_data)
        return Outline(self.width, self.height, self.georeference, self.crs_wkt, bands)

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one cell in all bands."""
        return self.pixel_type.size * len(self.no_data)


@dataclass(frozen=True, slots=True)
class TiledRaster:
    """A raster that was read, and which part of its file it is."""

    column: int
    """The column of the file that its first one was."""
    row: int
    """The row of the file that its first one was."""
    raster: Raster
    """The cells."""


def tile_grid(header: ImageHeader, tile: tuple[int, int] | None) -> Grid:
    """Return how an image is cut into tiles of so many columns and rows; None is one tile."""
    if tile is not None and min(tile) < 1:
        raise InvalidArgumentError(f"tiles have at least one cell, not {min(tile)}")
    across, down = tile or (header.width, header.height)
    return Grid(header.width, header.height, across, down)


def read_image_header(path: Path, *, crs: str | None = None) -> ImageHeader:
    """Return what an image says of itself; `crs` stands in for the system that it says.

    Raises `InvalidFileError` for an image that no raster can hold.
    """
    with _opened(path) as file:
        kind = _pixel_type(file, path)
        return ImageHeader(
            str(path),
            file.width,
            file.height,
            _georeference(file, path),
            kind,
            tuple(_no_data(kind, value) for value in file.nodatavals),
            _crs_wkt(file, path) if crs is None else parse_crs(crs).wkt,
            tuple(_left_behind(file)),
        )


def read_tiles(
    header: ImageHeader, grid: Grid, rows: range, *, out_db: str | None = None
) -> Iterator[TiledRaster]:
    """Yield the tiles of some rows of tiles, from left to right and down."""
    if out_db is not None:
        bands = tuple(
            Band(header.pixel_type, blank, None, number, out_db)
            for number, blank in enumerate(header.no_data)
        )
        for row in rows:
            for column in range(grid.columns):
                yield _tile(header, grid, column, row, bands)
        return
    path = Path(header.path)
    with _opened(path) as file:
        _check_unchanged(header, file)
        for row in rows:
            for first, last in _pieces(header, grid):
                cells = _read(file, grid, (first, last), row)
                start = first * grid.across
                for column in range(first, last):
                    left = column * grid.across - start
                    part = cells[:, :, left : left + grid.across]
                    bands = tuple(
                        Band(header.pixel_type, blank, np.ascontiguousarray(band).data.cast("B"))
                        for band, blank in zip(part, header.no_data, strict=True)
                    )
                    yield _tile(header, grid, column, row, bands)


def _tile(
    header: ImageHeader, grid: Grid, column: int, row: int, bands: tuple[Band, ...]
) -> TiledRaster:
    left, top = column * grid.across, row * grid.down
    width, height = min(grid.across, grid.width - left), min(grid.down, grid.height - top)
    x, y = header.georeference.world(left, top)
    place = replace(header.georeference, upperleft_x=x, upperleft_y=y)
    return TiledRaster(left, top, Raster(width, height, place, bands, header.crs_wkt))


def _pieces(header: ImageHeader, grid: Grid) -> Iterator[tuple[int, int]]:
    """Yield first and last column of the runs of tiles that are read at once."""
    tile = grid.across * grid.down * header.pixel_bytes
    step = max(_PIECE_BYTES // max(tile, 1), 1)
    for first in range(0, grid.columns, step):
        yield first, min(first + step, grid.columns)


def _read(file: Any, grid: Grid, columns: tuple[int, int], row: int) -> Any:
    left, right = columns[0] * grid.across, min(columns[1] * grid.across, grid.width)
    top, bottom = row * grid.down, min((row + 1) * grid.down, grid.height)
    cells = file.read(window=((top, bottom), (left, right)))
    return cells.astype(cells.dtype.newbyteorder("<"), copy=False)


def use_rasterio() -> Any:
    """Return the library, or raise with the way to install it."""
    try:
        import rasterio
        import rasterio.errors
    except ImportError as error:
        raise MissingProgramError(
            "GeoTIFFs are read and written by rasterio, which is not installed",
            hints=("pip install 'havasu-vc[raster]'",),
        ) from error
    return rasterio


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    rasterio = use_rasterio()
    # A file is what its name says: one of XML called .tif could have GDAL read any other file.
    format = format_of_file(path)
    driver = None if format is None else format.driver
    try:
        with rasterio.Env(GDAL_CACHEMAX=_CACHE_MB), _open(rasterio, path, driver) as file:
            yield file
    except rasterio.errors.RasterioError as error:
        raise _invalid(path, error) from error


def _open(rasterio: Any, path: Path, driver: str | None) -> Any:
    with warnings.catch_warnings():
        # An image without a place is a raster without a place.
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        return rasterio.open(path, driver=driver)


def _invalid(path: Path, error: Exception) -> InvalidFileError:
    reason = " ".join(str(error.__cause__ or error).split())
    again = ("get the file again from where it came",)
    if "not recognized as being in a supported file format" in reason:
        format = format_of_file(path)
        kind = "TIFF" if format is None else format.title or format.label
        return InvalidFileError(str(path), f"no {kind} image, or damaged", hints=again)
    if "TIFFReadDirectory" in reason:
        return InvalidFileError(str(path), "its header cannot be read: it is damaged", hints=again)
    if not path.exists():
        return InvalidFileError(str(path), "it is not there")
    if "ead failed" in reason or "ead error" in reason or "IReadBlock" in reason:
        return InvalidFileError(str(path), "its pixels cannot be read: it is damaged", hints=again)
    return InvalidFileError(str(path), reason[:160], hints=again)


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


def _pixel_type(file: Any, path: Path) -> PixelType:
    if not file.count:
        raise InvalidFileError(str(path), "it has no bands")
    if len(set(file.dtypes)) > 1:
        raise InvalidFileError(str(path), f"its bands differ in type: {', '.join(file.dtypes)}")
    try:
        return PixelType.of_dtype(np.dtype(file.dtypes[0]))
    except TypeError as error:
        raise InvalidFileError(str(path), f"it has pixels of type {file.dtypes[0]}") from error
    except ValueError as error:
        raise InvalidFileError(str(path), str(error)) from error


def _no_data(kind: PixelType, value: float | None) -> bytes | None:
    try:
        return None if value is None else no_data_bytes(value, kind)
    except ValueError:
        return None  # no pixel can have it, so it marks none


def _crs_wkt(file: Any, path: Path) -> str | None:
    if not file.crs:
        return None
    rasterio = use_rasterio()
    try:
        wkt: str = file.crs.to_wkt(version="WKT2_2019")
    except (rasterio.errors.CRSError, CrsError) as error:
        raise CrsError(
            f"{path}: its coordinate reference system is unknown",
            hints=("name one with --crs, such as --crs EPSG:4326",),
        ) from error
    return wkt


def _left_behind(file: Any) -> Iterator[str]:
    """Yield what would be missed: without it the pixels mean something else."""
    from rasterio.enums import ColorInterp, MaskFlags

    if any(band is ColorInterp.palette for band in file.colorinterp):
        yield "a colour table"
    if any(set(flags) == {MaskFlags.per_dataset} for flags in file.mask_flag_enums):
        yield "a mask"
    if any(scale != 1 for scale in file.scales) or any(offset != 0 for offset in file.offsets):
        yield "a scale or offset of values"
    kind = PixelType.of_dtype(np.dtype(file.dtypes[0]))
    if any(value is not None and _no_data(kind, value) is None for value in file.nodatavals):
        yield "a no-data value that no pixel can have"


def _check_unchanged(header: ImageHeader, file: Any) -> None:
    same = (file.width, file.height, file.count) == (
        header.width,
        header.height,
        len(header.no_data),
    )
    if not same or np.dtype(file.dtypes[0]) != header.pixel_type.dtype.newbyteorder("="):
        raise InvalidFileError(header.path, "it changed while it was read")
