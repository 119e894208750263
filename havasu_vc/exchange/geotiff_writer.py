"""Rasters as GeoTIFFs: one raster as a file, or many as the tiles of one.

A file has the pixels, no-data values, system and affine that its rasters have. Tiles are
written as they come, so memory does not grow with the file. Where a raster lies in the
file is found by its georeference, whatever order rasters come in.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.exchange.export import Written
from havasu_vc.exchange.geotiff import use_rasterio
from havasu_vc.exchange.replacing import replacing
from havasu_vc.geo.raster_v1 import GeoReference, PixelType, Raster, parse_rasters
from havasu_vc.geo.raster_v1_outlines import Outline, parse_outlines
from havasu_vc.geo.raster_v1_pixels import OpenUrl, pixels
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.store.ending import last_step

__all__ = [
    "Canvas",
    "CanvasOfTiles",
    "GeoTiffExport",
    "GeoTiffWriter",
    "is_geotiff",
    "write_geotiffs",
]


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
    """The pixel type of each band, and its no-data pixel."""


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
        """The canvas that the rasters so far are tiles of."""
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


# Tables of rasters as GeoTIFFs: a folder of files, or one that all rows are tiles of.
#
# Rows that an import made of one file become that file again, pixels and place; any other
# row becomes a file that its key names. Rows are read twice, first without pixels to know
# how large each file is, then with them, a batch at a time. A folder appears as a whole or
# not at all.

_OPEN: Final = 16
_TILES: Final = ("file", "tile_row", "tile_column")
_UNSAFE: Final = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')

Batches = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class GeoTiffExport:
    """An export of rasters."""

    schema: Schema
    """The columns of the table."""
    raster: str
    """The raster column."""
    apart: bool = False
    """Whether each row is a file, even where rows are tiles of one."""
    open_url: OpenUrl | None = None
    """Opens the files of out-db rasters; None where none may be."""

    @property
    def naming(self) -> tuple[str, ...]:
        """The columns whose values name the file of a row."""
        names = self.schema.names
        key = self.schema.key.names or tuple(name for name in _TILES if name in names)
        if not self.apart and set(_TILES) <= set(names):
            return ("file",)
        return key


@dataclass(slots=True)
class _Files:
    """The files of a folder in the making: how large each is to be, and those that are open."""

    folder: Path
    open_url: OpenUrl | None
    canvases: dict[str, CanvasOfTiles] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    opened: OrderedDict[str, GeoTiffWriter] = field(default_factory=OrderedDict)

    def writer(self, name: str) -> GeoTiffWriter:
        """Return the writer of a file; few are open at a time."""
        found = self.opened.pop(name, None)
        if found is None:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            found = GeoTiffWriter(path, self.canvases[name].canvas, open_url=self.open_url)
            if len(self.opened) >= _OPEN:
                _, oldest = self.opened.popitem(last=False)
                oldest.close()
        self.opened[name] = found
        return found

    def close(self) -> None:
        for writer in self.opened.values():
            writer.close()


def is_geotiff(path: Path) -> bool:
    """Whether a path names one GeoTIFF rather than a folder of them."""
    return path.suffix.lower() in (".tif", ".tiff")


def write_geotiffs(
    out: Path, export: GeoTiffExport, outlines: Batches, rows: Batches, *, overwrite: bool = False
) -> Written:
    """Write the rasters of a table to a folder, or to one file where `out` names one.

    `outlines` and `rows` yield the same rows, the first perhaps without their pixels.
    """
    if is_geotiff(out):
        with replacing(out, overwrite=overwrite) as temporary:
            files = _Files(temporary.parent, export.open_url)
            return _write(files, export, outlines, rows, only=temporary.name)
    with _replacing_folder(out, overwrite=overwrite) as folder:
        return _write(_Files(folder, export.open_url), export, outlines, rows)


def _write(
    files: _Files, export: GeoTiffExport, outlines: Batches, rows: Batches, only: str | None = None
) -> Written:
    notes = _measure(files, export, outlines, only)
    try:
        count = _fill(files, export, rows, only)
    finally:
        files.close()
    return Written(count, tuple(notes))


def _measure(
    files: _Files, export: GeoTiffExport, outlines: Batches, only: str | None
) -> list[str]:
    """Find how large each file is; return what a person should know."""
    notes: list[str] = []
    nulls = 0
    for batch in outlines():
        for name, raster in zip(
            _names(batch, export, only), parse_outlines(batch.column(export.raster)), strict=True
        ):
            if raster is None:
                nulls += 1
                continue
            if name in files.canvases and only is None and export.naming != ("file",):
                raise InvalidArgumentError(
                    f"two rows would be the file {name}", hints=("give the table a key",)
                )
            with _naming(name):
                files.canvases.setdefault(name, CanvasOfTiles()).add(raster)
    if not files.canvases:
        raise InvalidArgumentError("there is no raster to export")
    if nulls:
        notes.append(f"{nulls:,} rows have no raster and are left out")
    for name, found in files.canvases.items():
        with _naming(name):
            canvas = found.canvas
        if found.cells < canvas.width * canvas.height:
            blank = "0" if canvas.bands[0][1] is None else "no data"
            notes.append(f"{name} has cells that no tile covers; they are {blank}")
    return notes[:20]


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Name the file in what is wrong with its tiles."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{name}: {error.message}",
            hints=("--tiles-apart writes a file of each row, into a folder",),
        ) from error


def _fill(files: _Files, export: GeoTiffExport, rows: Batches, only: str | None) -> int:
    count = 0
    for batch in rows():
        names = _names(batch, export, only)
        for index, name in enumerate(names):
            (raster,) = parse_rasters(batch.column(export.raster).slice(index, 1))
            if raster is not None:
                files.writer(name).write(raster)
                count += 1
    return count


def _names(batch: pa.RecordBatch, export: GeoTiffExport, only: str | None) -> list[str]:
    """Return the file of each row."""
    if only is not None:
        return [only] * batch.num_rows
    naming = export.naming
    if not naming:
        raise InvalidArgumentError(
            "the table has no key, so nothing names the files of its rows",
            hints=("name one file, such as all.tif, that all rows are tiles of",),
        )
    columns = [batch.column(name).to_pylist() for name in naming]
    return [_file_name(naming, values) for values in zip(*columns, strict=True)]


def _file_name(naming: Sequence[str], values: Sequence[object]) -> str:
    """Return a relative path; raises for what would lead out of the folder.

    >>> _file_name(("file", "tile_row"), ("a/b.tiff", 2)), _file_name(("id",), (7,))
    ('a/b_2.tif', '7.tif')
    """
    first, *rest = (str(value) for value in values)
    if naming[0] == "file":
        path = PurePosixPath(first)
        first = str(path.with_suffix("")) if path.suffix and path.name else first
    text = "_".join([first, *rest]) + ".tif"
    parts = text.split("/")
    if text.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise InvalidArgumentError(f"{text!r} is no name for a file in a folder")
    return _UNSAFE.sub("_", text)


@contextmanager
def _replacing_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a folder to write to, and move it to its place at the end."""
    if path.is_file() or path.is_symlink():
        raise InvalidArgumentError(f"{path} is no folder")
    if path.is_dir() and any(path.iterdir()) and not overwrite:
        raise InvalidArgumentError(
            f"{path} is there already", hints=("--overwrite replaces what is in it",)
        )
    if path.is_dir() and overwrite:
        _require_images_only(path)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        folder.chmod(0o755)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {(error.strerror or str(error)).lower()}",
            hints=("name a folder in one that is there and can be written to",),
        ) from error
    try:
        yield folder
        with last_step():
            if path.is_dir():
                shutil.rmtree(path)
            os.replace(folder, path)
    finally:
        with last_step():
            shutil.rmtree(folder, ignore_errors=True)


def _require_images_only(path: Path) -> None:
    """Refuse to replace a folder that holds anything but images: it was not exported."""
    for folder, _, names in os.walk(path):
        for name in names:
            if not name.lower().endswith((".tif", ".tiff", ".aux.xml")):
                raise InvalidArgumentError(
                    f"{Path(folder, name)} is no GeoTIFF, so {path} is not replaced",
                    hints=("name another folder",),
                )
