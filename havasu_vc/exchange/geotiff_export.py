"""Tables of rasters as GeoTIFFs: a folder of files, or one that all rows are tiles of.

Rows that an import made of one file become that file again, pixels and place; any other
row becomes a file that its key names. Rows are read twice, first without pixels to know
how large each file is, then with them, a batch at a time. A folder appears as a whole or
not at all.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.exchange.export import Written, replacing
from havasu_vc.exchange.geotiff_writer import CanvasOfTiles, GeoTiffWriter
from havasu_vc.geo.raster_v1_columns import parse_rasters
from havasu_vc.geo.raster_v1_outlines import parse_outlines
from havasu_vc.geo.raster_v1_pixels import OpenUrl
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["GeoTiffExport", "is_geotiff", "write_geotiffs"]

_OPEN: Final = 16
_TILES: Final = ("file", "tile_row", "tile_column")
_UNSAFE: Final = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')

Batches = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class GeoTiffExport:
    """What is written."""

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
        if path.is_dir():
            shutil.rmtree(path)
        os.replace(folder, path)
    finally:
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
