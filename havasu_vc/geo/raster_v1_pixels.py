"""Pixels of rasters as numpy arrays, from the raster itself or from the file it names.

In-db pixels are not copied. Those of an out-db band are read from the window of
its file that the georeference names, after a check that the file is what the
raster says: its band, pixel type, CRS and cells. Which files may be opened is not
decided here: the caller gives a function that turns a URL into a path or refuses.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

import numpy as np
import numpy.typing as npt

from havasu_vc.errors import CrsError, GeometryError, HavasuError, MissingProgramError
from havasu_vc.geo.crs import parse_crs, projection
from havasu_vc.geo.raster_v1 import Band, GeoReference, PixelType, Raster
from havasu_vc.records import dataclass

__all__ = [
    "ALLOWED",
    "FileHead",
    "FileWindow",
    "OpenUrl",
    "PlaceOfPixels",
    "band_of_pixels",
    "check_band",
    "file_head",
    "opener",
    "out_db_pixels",
    "pixels",
    "raster_of_pixels",
]


OpenUrl: TypeAlias = Callable[[str], str]
"""Turns the URL of an out-db band into what rasterio opens, or raises an error of ours."""
Pixels: TypeAlias = npt.NDArray[Any]

_ALIGNED: Final = 1e-6  # of a cell
_MAX_BYTES: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class FileWindow:
    """Where the cells of a raster lie in a file."""

    column: int
    """The first column."""
    row: int
    """The first row."""
    width: int
    """Columns."""
    height: int
    """Rows."""


@dataclass(frozen=True, slots=True)
class FileHead:
    """The head of a file of pixels."""

    dtypes: tuple[str, ...]
    """The type of each band's pixels."""
    crs_wkt: str | None
    """Its system."""
    georeference: GeoReference
    """Where its cells lie."""
    width: int
    """Columns."""
    height: int
    """Rows."""


def file_head(band: Band, open_url: OpenUrl) -> FileHead:
    """Return what the file of an out-db band is; no pixel is read."""
    with _opened(band, open_url) as file:
        return _head(file)


def check_band(raster: Raster, band: int, head: FileHead) -> None:
    """Raise if the file of an out-db band is not what the raster says."""
    _window(raster, band, head)


def pixels(raster: Raster, band: int, open_url: OpenUrl | None = None) -> Pixels:
    """Return a band (the first is 0) as an array of rows, read-only.

    Without `open_url` an out-db band is an error.
    """
    if not 0 <= band < len(raster.bands):
        raise GeometryError(f"the raster has {len(raster.bands)} bands and no band {band + 1}")
    found = raster.bands[band]
    if found.data is None:
        if open_url is None:
            raise GeometryError(
                f"the pixels of band {band + 1} are in another file, {found.out_db_url}",
                hints=("read it where files of other places are allowed",),
            )
        return out_db_pixels(raster, band, open_url)
    array = np.frombuffer(found.data, found.pixel_type.dtype)
    array.flags.writeable = False
    return array.reshape(raster.height, raster.width)


def band_of_pixels(array: Pixels, no_data: float | None = None) -> Band:
    """Return an array of rows as an in-db band."""
    if array.ndim != 2:
        raise ValueError(f"a band has rows and columns, not {array.ndim} dimensions")
    kind = PixelType.of_dtype(array.dtype)
    stored = np.ascontiguousarray(array, kind.dtype)
    return Band(kind, None if no_data is None else no_data_bytes(no_data, kind), stored.tobytes())


def no_data_bytes(value: float, kind: PixelType) -> bytes:
    """Return a no-data value as the bytes of one pixel."""
    with np.errstate(all="ignore"):
        pixel = np.array([value]).astype(kind.dtype)
    rounded = kind.dtype.kind == "f" and (math.isnan(value) or np.isfinite(pixel[0]))
    if pixel[0] != value and not rounded:
        raise ValueError(f"the no-data value {value} is no pixel of {kind.label}")
    return pixel.tobytes()


def raster_of_pixels(
    arrays: Sequence[Pixels],
    georeference: GeoReference,
    *,
    crs_wkt: str | None = None,
    no_data: Sequence[float | None] | None = None,
) -> Raster:
    """Return arrays of rows, one per band, as a raster with all its pixels inside."""
    if not len(arrays):
        raise ValueError("a raster made of arrays has at least one")
    if len({array.shape for array in arrays}) > 1:
        raise ValueError("the bands of a raster have one size")
    height, width = arrays[0].shape
    blanks = no_data if no_data is not None else [None] * len(arrays)
    bands = tuple(band_of_pixels(array, blank) for array, blank in zip(arrays, blanks, strict=True))
    return Raster(width, height, georeference, bands, crs_wkt)


def out_db_pixels(
    raster: Raster, band: int, open_url: OpenUrl, *, max_bytes: int = _MAX_BYTES
) -> Pixels:
    """Return the pixels of an out-db band from its file, which is checked first."""
    found = raster.bands[band]
    size = raster.width * raster.height * found.pixel_type.size
    if size > max_bytes:
        raise GeometryError(f"band {band + 1} is {size:,} bytes, more than is read in one piece")
    with _opened(found, open_url) as file:
        window = _window(raster, band, _head(file))
        import rasterio.errors

        try:
            array: Pixels = file.read(
                (found.out_db_band or 0) + 1,
                window=(
                    (window.row, window.row + window.height),
                    (window.column, window.column + window.width),
                ),
            )
        except rasterio.errors.RasterioError as error:
            raise _unreadable(found, error) from error
    array = array.astype(found.pixel_type.dtype, copy=False)
    array.flags.writeable = False
    return array


@contextmanager
def _opened(band: Band, open_url: OpenUrl) -> Iterator[Any]:
    if band.out_db_url is None:
        raise ValueError("the band is not out-db")
    try:
        import rasterio
        import rasterio.errors
    except ImportError as error:
        raise MissingProgramError(
            "pixels in files of their own are read by rasterio, which is not installed",
            hints=("pip install 'havasu-vc[raster]'",),
        ) from error
    path = open_url(band.out_db_url)
    try:
        # GDAL would look for sidecars and siblings of the file as well.
        with rasterio.Env(GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR"):
            file = rasterio.open(path)
    except rasterio.errors.RasterioError as error:
        raise _unreadable(band, error) from error
    with file:
        yield file


def _unreadable(band: Band, error: Exception) -> GeometryError:
    reason = " ".join(str(error).split())[:120]
    return GeometryError(f"the pixels in {band.out_db_url} cannot be read: {reason}")


def _head(file: Any) -> FileHead:
    return FileHead(
        tuple(file.dtypes),
        None if file.crs is None else file.crs.to_wkt(),
        GeoReference.of_affine(tuple(file.transform)[:6]),
        file.width,
        file.height,
    )


def _window(raster: Raster, band: int, file: FileHead) -> FileWindow:
    """Check a file against what a raster says of it; return where in it the raster lies."""
    found = raster.bands[band]
    where = f"band {band + 1} in {found.out_db_url}"
    number = found.out_db_band or 0
    count = len(file.dtypes)
    if number >= count:
        raise GeometryError(f"{where} should be band {number + 1} of a file that has {count}")
    dtype = np.dtype(file.dtypes[number])
    if dtype.newbyteorder("<") != found.pixel_type.dtype:
        raise GeometryError(f"{where} has pixels of {dtype}, not {found.pixel_type.name.lower()}")
    _check_crs(raster, file, where)
    return _place(raster, file, where)


def _check_crs(raster: Raster, file: FileHead, where: str) -> None:
    if raster.crs_wkt == file.crs_wkt:
        return
    if raster.crs_wkt is None or file.crs_wkt is None:
        lacking = "the raster" if raster.crs_wkt is None else "the file"
        raise GeometryError(f"{where} cannot be placed: {lacking} has no CRS")
    try:
        mine, theirs = (projection(parse_crs(text)) for text in (raster.crs_wkt, file.crs_wkt))
    except CrsError as error:
        raise GeometryError(f"{where} has a CRS that cannot be read") from error
    if not mine.equals(theirs, ignore_axis_order=True):
        raise GeometryError(f"{where} has the CRS {theirs.name}, the raster {mine.name}")


def _place(raster: Raster, file: FileHead, where: str) -> FileWindow:
    mine = raster.georeference
    theirs = file.georeference
    cell = max(abs(number) for number in theirs.numbers[:4])
    # Over the whole grid the cells may drift apart by less than can be seen.
    drift = _ALIGNED * cell / max(raster.width, raster.height, 1)
    if any(
        abs(one - other) > drift
        for one, other in zip(mine.numbers[:4], theirs.numbers[:4], strict=True)
    ):
        raise GeometryError(f"{where} has cells of another size or direction than the raster")
    determinant = theirs.scale_x * theirs.scale_y - theirs.skew_x * theirs.skew_y
    if not determinant:
        raise GeometryError(f"{where} has cells without area")
    right = mine.upperleft_x - theirs.upperleft_x
    up = mine.upperleft_y - theirs.upperleft_y
    column = (theirs.scale_y * right - theirs.skew_x * up) / determinant
    row = (theirs.scale_x * up - theirs.skew_y * right) / determinant
    if not math.isfinite(column + row):
        raise GeometryError(f"{where} and the raster are not in one grid")
    first = round(column), round(row)
    room = max(_ALIGNED, _ALIGNED / 1000 * max(abs(column), abs(row)))
    if max(abs(column - first[0]), abs(row - first[1])) > room:
        raise GeometryError(f"{where} has cells that lie between those of the raster")
    window = FileWindow(*first, raster.width, raster.height)
    inside = window.column >= 0 and window.row >= 0
    inside &= window.column + window.width <= file.width
    inside &= window.row + window.height <= file.height
    if not inside:
        raise GeometryError(
            f"{where} has {file.width} × {file.height} cells, and the raster reaches beyond them"
        )
    return window


# Which files of out-db rasters may be opened: those that the user's own settings allow.
#
# A URL in a raster comes from whoever wrote the table. Opening it would read any file of
# this machine, or tell a stranger's server that it is read. So nothing is opened but what
# lies below a prefix that the user allowed, links followed, and only by the scheme that the
# prefix names.
#
#     git config --add havasu.outdb.allow file:///data/orthophotos
#     git config --add havasu.outdb.allow https://tiles.example.org/cogs

ALLOWED: Final = "havasu.outdb.allow"
"""The git setting with what URLs of out-db rasters may begin with."""
_REMOTE: Final = {
    "https": "/vsicurl/https://",
    "http": "/vsicurl/http://",
    "s3": "/vsis3/",
    "gs": "/vsigs/",
    "abfs": "/vsiadls/",
    "az": "/vsiaz/",
}


def opener(allowed: Sequence[str]) -> OpenUrl:
    """Return what turns an allowed URL into what GDAL opens, and raises for any other.

    Both the prefixes and the URLs may be paths of this machine too.
    """
    prefixes = [_split(prefix) for prefix in allowed if prefix]

    def open_url(url: str) -> str:
        parts = _split(url)
        if parts is not None:
            for prefix in prefixes:
                if prefix is not None and _covers(prefix, parts):
                    return _path(parts)
        raise GeometryError(
            f"the pixels are in {_shown(url)}, which your settings do not allow to be opened",
            hints=(f"git config --global --add {ALLOWED} {_folder(url)}",),
        )

    return open_url


class PlaceOfPixels:
    """Whether the files with the pixels of rasters are there and what the rasters say.

    Each file is looked at once.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self._prefixes = [_split(prefix) for prefix in allowed if prefix]
        self._open = opener(allowed)
        self._known: dict[str, tuple[bool, str | None]] = {}
        self._heads: dict[str, FileHead | HavasuError] = {}

    def problem(self, url: str) -> tuple[bool, str | None]:
        """Return whether it is known what is at a URL, and what is wrong with it.

        Only files of this machine that the settings allow are looked for.
        """
        if url not in self._known:
            self._known[url] = self._looked(url)
        return self._known[url]

    def mismatch(self, raster: Raster) -> str | None:
        """Return how a raster differs from its files on this machine; they are there.

        Raises where nothing is installed that reads them.
        """
        for number, band in enumerate(raster.bands):
            if not band.out_db_url or not _is_local(band.out_db_url):
                continue
            try:
                check_band(raster, number, self._head(band, band.out_db_url))
            except GeometryError as error:
                return error.message
        return None

    def _head(self, band: Band, url: str) -> FileHead:
        if url not in self._heads:
            try:
                self._heads[url] = file_head(band, self._open)
            except (GeometryError, MissingProgramError) as error:
                self._heads[url] = error
        found = self._heads[url]
        if isinstance(found, HavasuError):
            raise found
        return found

    def _looked(self, url: str) -> tuple[bool, str | None]:
        parts = _split(url)
        if parts is None or not any(each and _covers(each, parts) for each in self._prefixes):
            return False, f"its pixels are in {_shown(url)}, which {ALLOWED} does not allow"
        if parts.scheme != "file":
            return True, None
        there = os.path.isfile(os.path.realpath(unquote(parts.path)))
        return True, None if there else f"its pixels are in {_shown(url)}, which is not there"


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL that is plain: no credentials, no way up, no control characters."""
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in url):
        return None
    if url.startswith("/"):
        url = Path(url).as_uri()
    try:
        parts = urlsplit(url)
        steps = unquote(parts.path, errors="strict").replace("\\", "/").split("/")
    except ValueError:
        return None
    local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    remote = parts.scheme in _REMOTE and bool(parts.netloc) and "@" not in parts.netloc
    return parts if (local or remote) and ".." not in steps else None


def _is_local(url: str) -> bool:
    parts = _split(url)
    return parts is not None and parts.scheme == "file"


def _covers(prefix: SplitResult, url: SplitResult) -> bool:
    if prefix.scheme != url.scheme:
        return False
    if url.scheme == "file":
        # Where links lead counts, not how they are called.
        root, file = (os.path.realpath(unquote(each.path)) for each in (prefix, url))
        return file == root or file.startswith(root.rstrip("/") + "/")
    if prefix.netloc.lower() != url.netloc.lower():
        return False
    root, file = unquote(prefix.path).rstrip("/"), unquote(url.path)
    return file == root or file.startswith(root + "/")


def _path(url: SplitResult) -> str:
    if url.scheme != "file":
        place = f"{url.netloc}{url.path}"
        web = url.scheme in ("http", "https") and url.query
        return _REMOTE[url.scheme] + (f"{place}?{url.query}" if web else unquote(place))
    path = os.path.realpath(unquote(url.path))
    try:
        with open(path, "rb") as file:
            head = file.read(1024)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise GeometryError(f"the pixels in {path} cannot be read: {reason}") from error
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        # XML that GDAL takes for an image names files and servers of its own.
        raise GeometryError(f"{path} is no image but a description of one, which is not opened")
    return path


def _shown(url: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in url[:200])


def _folder(url: str) -> str:
    """Return the folder that a URL is in, where it is safe to paste into a shell."""
    folder = url.rpartition("/")[0]
    plain = folder.isascii() and all(c.isalnum() or c in ":/._-~%+" for c in folder)
    return folder if plain and len(folder) < 200 else "URL"
