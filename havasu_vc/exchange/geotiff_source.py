"""GeoTIFFs as sources: one file, a folder of them, or a pattern.

The files are one table, a row for each file or each tile of one:

    file                     text     the file's path below the folder, the key
    tile_row, tile_column    integer  which tile, counted from 0; with tiles part of the key
    rast                     raster   the cells

So the next release of a folder has the same keys, and a comparison by key finds the tiles
that differ. Only headers are read to open a source. Tasks are runs of small files, or rows
of tiles of a large one, so memory does not grow with a file that is tiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, InvalidFileError
from havasu_vc.exchange.geotiff import (
    ImageHeader,
    TiledRaster,
    read_image_header,
    read_tiles,
    tile_grid,
)
from havasu_vc.exchange.layout import SourceLayout, lay_out
from havasu_vc.exchange.source import MOST_BATCH_BYTES, TASK_BYTES, RasterReading, SourceOptions
from havasu_vc.geo.crs import parse_crs, same_crs
from havasu_vc.geo.raster_v1 import format_rasters
from havasu_vc.model.rasters import RASTER_TYPE
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.records import dataclass

__all__ = ["TILE_SIZE", "GeoTiffSource", "open_geotiffs", "tile_size"]

TILE_SIZE: Final = "havasu-vc.tile"
"""The field property that remembers how files were cut, for their next release."""
_LARGEST: Final = 1 << 30
"""Larger rasters are refused: a row is written and compared as a whole."""
_LARGE: Final = 64 << 20
_FEW_BYTES: Final = 4096
"""The size that a raster without pixels counts for."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows of tiles of one file; a plain value that tasks carry."""

    file: str
    """The name of the file in the table."""
    header: ImageHeader
    url: str | None
    """The URL that rasters name instead of holding pixels."""
    tile: tuple[int, int] | None
    rows: tuple[int, int]
    """First row of tiles, and the one after the last."""


@dataclass(frozen=True)
class GeoTiffSource:
    """Some GeoTIFFs as one table."""

    name: str
    schema: Schema
    crs: Mapping[str, str]
    rows: int | None
    input_bytes: int
    layout: SourceLayout
    files: tuple[tuple[str, ImageHeader, str | None], ...]
    """The name of each file, its header, and its URL for out-db rasters."""
    options: SourceOptions
    notes: tuple[str, ...] = ()
    title: str | None = None
    description: str | None = None
    key_hint: tuple[str, ...] = ()

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return a task for about 64 MiB of pixels each."""
        layout = self.layout.select(columns)
        if self.options.raster.tile is None:
            for _, header, url in self.files:
                if url is None:
                    _check_size(header)
        tasks, run, size = [], list[_Piece](), 0
        for piece, bytes_ in self._pieces():
            if run and size + bytes_ > TASK_BYTES:
                tasks.append(task_of(read_images, tuple(run), layout))
                run, size = [], 0
            run.append(piece)
            size += bytes_
        if run:
            tasks.append(task_of(read_images, tuple(run), layout))
        return tasks

    def cut_as(self, schema: Schema) -> GeoTiffSource:
        """Return the same files cut as those of a table were; raises if they are to be otherwise.

        Rows of tiles of another size would have the keys of these, and other cells.
        """
        known, wanted = tile_size(schema), self.options.raster.tile
        if wanted is not None and wanted != known:
            asked = _size_words(wanted)
            said = (
                f"cut into tiles of {_size_words(known)}, not {asked}"
                if known
                else (f"whole, not cut into tiles of {asked}")
            )
            raise InvalidArgumentError(
                f"the images of the dataset are {said}",
                hints=("leave out --tile, or import under another name",),
            )
        if known is None or wanted is not None:
            return self
        options = replace(self.options, raster=replace(self.options.raster, tile=known))
        return _source(self.name, self.files, options, self.input_bytes)

    def _pieces(self) -> Iterator[tuple[_Piece, int]]:
        """Yield pieces of files, and how many bytes of pixels each has."""
        tile = self.options.raster.tile
        for name, header, url in self.files:
            grid = tile_grid(header, tile)
            row_bytes = grid.width * min(grid.down, grid.height) * header.pixel_bytes
            if url is not None:
                row_bytes = grid.columns * _FEW_BYTES
            step = max(TASK_BYTES // max(row_bytes, 1), 1)
            for first in range(0, grid.rows, step):
                last = min(first + step, grid.rows)
                yield _Piece(name, header, url, tile, (first, last)), (last - first) * row_bytes


def open_geotiffs(
    paths: Sequence[Path], name: str, options: SourceOptions, *, root: Path | None = None
) -> GeoTiffSource:
    """Open files as one table, named by their paths below `root`."""
    named = sorted((_name(path, root), path) for path in paths)
    raster = options.raster
    files = []
    for file, path in named:
        header = read_image_header(path, crs=options.crs)
        files.append((file, header, _url(path, file, raster) if raster.out_db else None))
    if options.crs is None and not raster.mixed_crs:
        _require_one_crs([header for _, header, _ in files])
    size = sum(_FEW_BYTES if raster.out_db else path.stat().st_size for path in paths)
    return _source(name, tuple(files), options, size)


def tile_size(schema: Schema) -> tuple[int, int] | None:
    """Return columns and rows of the tiles that a table's files were cut into, if they were."""
    for field in schema.fields:
        across, _, down = dict(field.extra).get(TILE_SIZE, "").partition("x")
        if field.raster is not None and across.isdecimal() and down.isdecimal():
            return int(across), int(down)
    return None


@kernel
def read_images(pieces: tuple[_Piece, ...], layout: SourceLayout) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some files in stored types."""
    wanted = layout.schema.names
    rows: list[tuple[str, int, int, TiledRaster]] = []
    size = 0
    for piece in pieces:
        for row, column, tile in _tiles(piece, pixels="rast" in wanted):
            bytes_ = _bytes(tile)
            if rows and size + bytes_ > MOST_BATCH_BYTES:
                yield _batch(rows, layout)
                rows, size = [], 0
            rows.append((piece.file, row, column, tile))
            size += bytes_
    if rows:
        yield _batch(rows, layout)


def _tiles(piece: _Piece, *, pixels: bool) -> Iterator[tuple[int, int, TiledRaster]]:
    grid = tile_grid(piece.header, piece.tile)
    url = piece.url if pixels else piece.url or "unread:"
    for tile in read_tiles(piece.header, grid, range(*piece.rows), out_db=url):
        yield tile.row // grid.down, tile.column // grid.across, tile


def _bytes(tile: TiledRaster) -> int:
    return 256 + sum(len(band.data) for band in tile.raster.bands if band.data is not None)


def _batch(rows: list[tuple[str, int, int, TiledRaster]], layout: SourceLayout) -> pa.RecordBatch:
    files, down, across, tiles = zip(*rows, strict=True)
    made = {
        "file": lambda: pa.array(files, pa.string()),
        "tile_row": lambda: pa.array(down, pa.int32()),
        "tile_column": lambda: pa.array(across, pa.int32()),
        "rast": lambda: format_rasters([tile.raster for tile in tiles]),
    }
    names = layout.schema.names
    return layout.store(pa.RecordBatch.from_arrays([made[name]() for name in names], list(names)))


def _source(
    name: str,
    files: tuple[tuple[str, ImageHeader, str | None], ...],
    options: SourceOptions,
    input_bytes: int,
) -> GeoTiffSource:
    tile = options.raster.tile
    parts = [] if tile is None else [("tile_row", pa.int32()), ("tile_column", pa.int32())]
    arrow = pa.schema([("file", pa.string()), *parts, ("rast", RASTER_TYPE)])
    hint = ("file", *(part for part, _ in parts))
    layout = lay_out(arrow, {}, options, key_hint=hint)
    if tile is not None:
        layout = replace(layout, schema=_remembering(layout.schema, tile))
    grids = [tile_grid(header, tile) for _, header, _ in files]
    return GeoTiffSource(
        name=name,
        schema=layout.schema,
        crs={},
        rows=sum(grid.rows * grid.columns for grid in grids),
        input_bytes=input_bytes,
        layout=layout,
        files=files,
        options=options,
        notes=tuple(_notes(files, options)),
        key_hint=hint,
    )


def _size_words(tile: tuple[int, int]) -> str:
    return f"{tile[0]} × {tile[1]}"


def _remembering(schema: Schema, tile: tuple[int, int]) -> Schema:
    said = (TILE_SIZE, f"{tile[0]}x{tile[1]}")
    fields = [
        field if field.raster is None else replace(field, extra=(*field.extra, said))
        for field in schema.fields
    ]
    return Schema(tuple(fields), schema.identifier_ids)


def _name(path: Path, root: Path | None) -> str:
    name = path.name if root is None else path.relative_to(root).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidFileError(
            ascii(str(path)), "its name is not UTF-8", hints=("rename the file",)
        ) from error
    return name


def _url(path: Path, file: str, raster: RasterReading) -> str:
    if raster.url_base is None:
        return path.resolve().as_uri()
    if not urlsplit(raster.url_base).scheme:
        raise InvalidArgumentError(
            f"{raster.url_base!r} is no URL", hints=("such as https://example.org/orthophotos/",)
        )
    return f"{raster.url_base.rstrip('/')}/{quote(file)}"


def _check_size(header: ImageHeader) -> None:
    size = header.width * header.height * header.pixel_bytes
    if size > _LARGEST:
        raise InvalidFileError(
            header.path,
            f"its {size / (1 << 30):,.1f} GiB of pixels are too many for one row",
            hints=("cut it into tiles with --tile 512",),
        )


def _require_one_crs(headers: Sequence[ImageHeader]) -> None:
    first = headers[0]
    for header in headers[1:]:
        if not _same_crs(first.crs_wkt, header.crs_wkt):
            raise InvalidFileError(
                header.path,
                f"its coordinate reference system is {_crs_name(header.crs_wkt)}, but"
                f" {_crs_name(first.crs_wkt)} in {first.path}",
                hints=(
                    "--crs names one for all files; --mixed-crs takes each in its own",
                    "or import the files apart",
                ),
            )


def _same_crs(one: str | None, other: str | None) -> bool:
    if one == other or one is None or other is None:
        return one == other
    return same_crs(one, other)


def _crs_name(wkt: str | None) -> str:
    if wkt is None:
        return "not known"
    return parse_crs(wkt).identifier


def _notes(
    files: Sequence[tuple[str, ImageHeader, str | None]], options: SourceOptions
) -> Iterator[str]:
    """Yield what a person should know, one line for all files alike."""
    lost: dict[str, list[str]] = {}
    for name, header, _ in files:
        for what in header.left_behind:
            lost.setdefault(what, []).append(name)
        if header.crs_wkt is None:
            lost.setdefault("", []).append(name)
    for what, names in lost.items():
        which = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        if what:
            yield f"{which}: a raster does not hold {what}, which is left behind"
        else:
            yield f"{which}: without a coordinate reference system; --crs names one"
    if options.raster.tile is None and not options.raster.out_db:
        large = [
            name
            for name, header, _ in files
            if header.width * header.height * header.pixel_bytes > _LARGE
        ]
        if large:
            yield f"{large[0]} is one large row; with --tile 512 a change costs only its tiles"
