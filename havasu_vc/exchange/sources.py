"""From a location that a user names to sources: which format it is, and which layers.

The format follows from the extension. A folder, or a pattern such as `parts/*.parquet`,
is one table of Parquet files or of images, or several shapefiles. A table of another
format is named with it, as `iceberg:FOLDER`.
"""

from __future__ import annotations

import glob
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, InvalidFileError, SourceNotFoundError
from havasu_vc.exchange.addresses import is_address, path_of_url
from havasu_vc.exchange.far import SourceFile, extension_of, stored_files
from havasu_vc.exchange.formats import (
    ARCHIVE,
    BY_EXTENSION,
    IMPORT_EXTENSIONS,
    TABLES,
    FileFormat,
    format_of_file,
    format_of_table,
    load,
)
from havasu_vc.exchange.layout import listed
from havasu_vc.exchange.ogr_formats import VectorFile, find_vector_files
from havasu_vc.exchange.source import (
    ONE_BY_ONE,
    Box,
    EngineOf,
    RasterReading,
    Running,
    Source,
    SourceOptions,
)
from havasu_vc.geo.bounds import globe_row_bounds, meets_on_globe, row_bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.model.types import Encoding
from havasu_vc.records import dataclass
from havasu_vc.store.object_urls import in_bucket

if TYPE_CHECKING:
    from havasu_vc.exchange.delta_source import DeltaSource
    from havasu_vc.exchange.iceberg import IcebergSource

__all__ = [
    "WindowedSource",
    "dataset_name",
    "declared_types",
    "list_source_layers",
    "meets",
    "open_sources",
    "parse_table_location",
    "read_as",
    "rows_meeting",
    "spread",
    "titled_layers",
    "windowed",
    "xml_metadata",
]


IMAGES = "images"
SHAPEFILES = BY_EXTENSION[".shp"]


GEODATABASE = ".gdb"
"""The extension of a folder that is one file to those who made it."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The files that a location stands for."""

    name: str
    format: FileFormat
    paths: tuple[SourceFile, ...]
    root: Path | None = None

    @property
    def holds_images(self) -> bool:
        """Whether rasters are made of it."""
        return self.format.many == IMAGES


def open_sources(
    location: str,
    layers: Sequence[str] = (),
    *,
    options: SourceOptions | None = None,
    likely: str | None = None,
    engine_of: EngineOf | None = None,
) -> list[Source]:
    """Open the layers of a location; with `layers`, those, in the order named.

    Of a file with several layers, of which none is named, the `likely` one is opened alone
    where it is there: options may be about its columns. What must be read as a whole to be
    opened, as a CSV is, an engine reads, if there is one.

    Raises `SourceNotFoundError` for a location or layer that is not there, and what
    is wrong with a file as `InvalidFileError`, before a row is handed out.
    """
    options = options or SourceOptions()
    sources = _open(path_of_url(location), layers, options, likely, engine_of)
    if options.bbox is None:
        return sources
    return [windowed(source, options.bbox) for source in sources]


def _open(
    location: str,
    layers: Sequence[str],
    options: SourceOptions,
    likely: str | None,
    engine_of: EngineOf | None,
) -> list[Source]:
    table = parse_table_location(location)
    if table is not None:
        source = _open_table(*table, options)
        if layers and list(layers) != [source.name]:
            raise _no_layer(location, layers[0], [source.name])
        if table[1] == location:
            note = f"{location} is read as the table of {TABLES[table[0]].label} that it is"
            source = replace(source, notes=(note, *source.notes))
        return [source]
    if options.snapshot is not None:
        raise InvalidArgumentError(
            f"{location} has no snapshots", hints=("name a table as iceberg:FOLDER",)
        )
    if is_address(location):
        from havasu_vc.exchange.postgis_source import open_tables

        return list(open_tables(location, layers, options))
    found = _find(location)
    if options.raster != RasterReading() and not found.holds_images:
        raise InvalidArgumentError(
            f"{location} holds no images, which are all that tiles and out-db rasters are made of"
        )
    if found.format.reader is not None:
        if layers and list(layers) != [found.name]:
            raise _no_layer(location, layers[0], [found.name])
        opener = load(found.format.reader)
        judging = {"engine_of": engine_of} if found.format.judged else {}
        how = {"root": found.root, **judging}
        return [cast(Source, opener(found.paths, found.name, options, **how))]
    places = _layers_of(found)
    if not places:
        raise InvalidFileError(location, "there is no layer in it")
    wanted = layers or ([likely] if likely in places else list(places))
    missing = next((layer for layer in wanted if layer not in places), None)
    if missing is not None:
        raise _no_layer(location, missing, list(places))
    from havasu_vc.exchange.ogr import open_layer

    return [open_layer(places[layer], layer, options) for layer in wanted]


def list_source_layers(location: str) -> list[str]:
    """Return the names of the layers at a location."""
    location = path_of_url(location)
    table = parse_table_location(location)
    if table is not None:
        return [_open_table(*table, SourceOptions()).name]
    if is_address(location):
        from havasu_vc.exchange.postgis_source import table_titles

        return list(table_titles(location))
    found = _find(location)
    return [found.name] if found.format.reader is not None else list(_layers_of(found))


def declared_types(source: Source) -> Mapping[str, str]:
    """Return the types in SQL that columns are declared with, where the file says so."""
    whole = source.whole if isinstance(source, WindowedSource) else source
    found: Mapping[str, str] = getattr(whole, "declared", {})
    return found


def dataset_name(source: Source) -> str:
    """Return the name of a source's dataset where none is given: of a table without a schema."""
    whole = source.whole if isinstance(source, WindowedSource) else source
    return str(getattr(whole, "own_name", source.name))


def xml_metadata(source: Source) -> str | None:
    """Return the metadata in XML that the file has of a layer."""
    whole = source.whole if isinstance(source, WindowedSource) else source
    found: str | None = getattr(whole, "xml", None)
    return found


def titled_layers(location: str) -> dict[str, str | None]:
    """Return what the layers at a location are called for people, by name.

    Only a GeoPackage and PostgreSQL say so, or that they are not; others are called by their names.
    """
    if is_address(location):
        from havasu_vc.exchange.postgis_source import table_titles

        return table_titles(location)
    layers = list_source_layers(location)
    if not location.lower().endswith(".gpkg"):
        return {name: name for name in layers}
    named: dict[str, str | None] = dict.fromkeys(layers)
    from contextlib import closing

    from havasu_vc.exchange.ogr_formats import read_only

    query = "SELECT table_name, identifier FROM gpkg_contents"
    with suppress(sqlite3.Error), closing(sqlite3.connect(read_only(location), uri=True)) as file:
        said = dict(file.execute(query).fetchall())
        for name in named.keys() & said.keys():
            named[name] = None if said[name] is None else str(said[name])
    return named


def parse_table_location(location: str) -> tuple[str, str] | None:
    """Return the format and place of a table, None for a file, folder or pattern.

    A folder that is a table is one also where no word says so: its files are more than its rows.

    >>> parse_table_location("iceberg:/data/roads"), parse_table_location("roads.gpkg")
    (('iceberg', '/data/roads'), None)
    """
    format_, colon, place = location.partition(":")
    if not colon or format_ not in TABLES:
        there = format_of_table(location) if location and "\x00" not in location else None
        return None if there is None or there.table is None else (there.table, location)
    if not place:
        raise InvalidArgumentError(f"{location} names no table", hints=(f"{format_}:FOLDER",))
    return format_, place


def _open_table(format_: str, place: str, options: SourceOptions) -> DeltaSource | IcebergSource:
    reader = TABLES[format_].reader
    assert reader is not None
    return cast("DeltaSource | IcebergSource", load(reader)(place, options))


def _layers_of(found: _Found) -> dict[str, VectorFile]:
    from havasu_vc.exchange.gdal import list_layers
    from havasu_vc.exchange.ogr_formats import refuse_endless_views

    files = [file for path in found.paths for file in find_vector_files(Path(str(path)))]
    for file in files:
        if file.driver == "GPKG":
            refuse_endless_views(file.path, file.input_bytes)
    return {layer: file for file in files for layer in list_layers(file.path)}


def _no_layer(location: str, layer: str, layers: Sequence[str]) -> SourceNotFoundError:
    return SourceNotFoundError(
        f"there is no layer {layer!r} in {location}",
        hints=(
            f"the layers are {listed(layers)}",
            "LAYER:DATASET takes a layer in as a dataset of another name",
        ),
    )


def _find(location: str) -> _Found:
    if not location or "\x00" in location:
        raise SourceNotFoundError("the source has no name that a file could have")
    if in_bucket(location):
        name, files = stored_files(location)
        return _Found(name, BY_EXTENSION[extension_of(files[0])], tuple(files))
    path = Path(location)
    if path.is_dir():
        return _folder(path, location)
    if not path.exists():
        if glob.has_magic(location):
            return _pattern(location)
        raise SourceNotFoundError(f"there is no file {location}", hints=_elsewhere(location))
    if not path.is_file():
        raise InvalidFileError(location, "neither a file nor a folder")
    return _file(path, location)


def _elsewhere(location: str) -> tuple[str, ...]:
    """Return how to come by what other programs read from a location of that kind."""
    if location == "-" or "://" in location or location.startswith(("/vsi", "PG:")):
        return ("only files are imported: get it as a file first",)
    prefix, colon, rest = location.partition(":")
    if colon and prefix.isalpha() and Path(rest).exists():
        return (f"name it without {prefix}:",)
    return ()


def _file(path: Path, location: str) -> _Found:
    extension = path.suffix.lower()
    format = SHAPEFILES if extension == ARCHIVE else format_of_file(path)
    if format is not None:
        if format.reader is not None:
            _require_content(path)
        return _Found(path.stem, format, (path,))
    raise _of_no_format(location, extension)


def _of_no_format(location: str, extension: str) -> InvalidFileError:
    hints = [f"what can be imported: {', '.join(IMPORT_EXTENSIONS)}"]
    if extension:
        hints.append("`ogr2ogr -f GPKG new.gpkg FILE` makes a GeoPackage of what GDAL reads")
    said = f"files of type {extension} cannot be imported" if extension else "it has no extension"
    return InvalidFileError(location, said, hints=tuple(hints))


def _require_content(path: Path) -> None:
    if not path.stat().st_size:
        raise InvalidFileError(
            str(path), "the file is empty", hints=("get the file again from where it came",)
        )


def _folder(path: Path, location: str) -> _Found:
    """Return a folder of Parquet files or images, at any depth, or of shapefiles."""
    found: dict[str, list[Path]] = {}
    alone: Path | None = None
    for folder, folders, names in os.walk(path):
        # Engines keep their own files under names with these marks.
        if (table := format_of_table(folder)) is not None:
            raise InvalidFileError(
                location,
                f"{folder} is a table of {table.label}, whose files are more than its rows",
                hints=(f"import it by itself: {table.table}:{folder}",),
            )
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for name in sorted(names):
            format = None if name.startswith(("_", ".")) else format_of_file(Path(name))
            if format is not None and format.many is not None:
                found.setdefault(format.many, []).append(Path(folder, name))
            elif format is not None:
                alone = alone or Path(folder, name)
    if len(found) > 1:
        raise InvalidArgumentError(
            f"{location} holds {' and '.join(found)}", hints=("name one of the files",)
        )
    name = path.resolve().name
    for paths in found.values():
        format = BY_EXTENSION[paths[0].suffix.lower()]
        if format.reader is None:
            return _Found(name, format, tuple(paths))
        return _Found(Path(name).stem or name, format, tuple(paths), root=path)
    if path.suffix.lower() == GEODATABASE:
        raise _of_no_format(location, GEODATABASE)
    error = SourceNotFoundError(
        f"there is no Parquet file, no image and no shapefile in {location}"
    )
    if alone is not None:
        error.hints = (f"files such as {alone.name} are imported one by one",)
    raise error


def _pattern(location: str) -> _Found:
    paths = [Path(path) for path in sorted(glob.glob(location, recursive=True))]
    paths = [path for path in paths if path.is_file()]
    if not paths:
        raise SourceNotFoundError(f"no file matches {location}")
    if len(paths) == 1:
        return _file(paths[0], location)
    formats = [format_of_file(path) for path in paths]
    first = formats[0]
    kinds = {None if each is None or each.reader is None else each.many for each in formats}
    if first is None or len(kinds) > 1 or None in kinds:
        raise InvalidArgumentError(
            f"{location} matches files that are not all Parquet, nor all images",
            hints=("import the files one by one",),
        )
    for path in paths:
        _require_content(path)
    root = Path(os.path.commonpath([path.parent for path in paths]))
    name = root.name or paths[0].stem
    return _Found(name, first, tuple(paths), root=root)


# A source of which only the rows in a box are taken.
#
# The box is in the coordinates of the source, and a row is in it when the box of its
# geometry's vertices meets it, or where edges run on the globe what all of it lies in.
# Rows without a geometry are in none. West may be east of east: then the box crosses the
# anti-meridian. Formats that know where their rows lie leave out what cannot be in the
# box before this looks at each row.


def windowed(source: Source, box: Box) -> WindowedSource:
    """Return the rows of a source that are in a box."""
    geometries = source.schema.geometries
    if not geometries:
        raise InvalidArgumentError(
            f"{source.name} has no geometry column that a box could choose rows by"
        )
    return WindowedSource(source, box, geometries[0].name)


@dataclass(frozen=True, slots=True)
class WindowedSource:
    """Some rows of another source."""

    whole: Source
    """The source."""
    box: Box
    """Where rows are taken."""
    column: str
    """The column of geometries."""

    @property
    def name(self) -> str:
        """As the source is called."""
        return self.whole.name

    @property
    def schema(self) -> Schema:
        """The source's."""
        return self.whole.schema

    @property
    def crs(self) -> Mapping[str, str]:
        """The source's."""
        return self.whole.crs

    @property
    def title(self) -> str | None:
        """The source's."""
        return self.whole.title

    @property
    def description(self) -> str | None:
        """The source's."""
        return self.whole.description

    @property
    def rows(self) -> int | None:
        """Not known before they are read."""
        return None

    @property
    def input_bytes(self) -> int:
        """Size on disk of the whole source."""
        return self.whole.input_bytes

    @property
    def key_hint(self) -> tuple[str, ...]:
        """The source's."""
        return self.whole.key_hint

    @property
    def notes(self) -> tuple[str, ...]:
        """The source's."""
        return self.whole.notes

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return tasks that yield the rows in the box."""
        read = columns
        if columns is not None and self.column not in columns:
            read = [name for name in self.schema.names if name in {*columns, self.column}]
        field = self.schema.by_name[self.column]
        if field.geometry is None:
            raise ValueError(f"{self.column!r} is no geometry column")
        kept = None if columns is None else self.schema.select(tuple(columns)).names
        how = (self.column, field.geometry.encoding, self.box, kept, field.edges)
        return [task_of(rows_in_box, task, *how) for task in self.whole.tasks(read)]


@kernel
def rows_in_box(
    task: Task,
    column: str,
    encoding: Encoding,
    box: Box,
    kept: tuple[str, ...] | None,
    edges: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task that are in a box, with the columns that are kept."""
    for batch in run_task(task):
        inside = rows_meeting(batch.column(column), encoding, box, edges)
        if not inside.any():
            continue
        rows = batch if inside.all() else batch.filter(pa.array(inside))
        yield rows if kept is None else rows.select(list(kept))


def rows_meeting(
    column: pa.Array, encoding: Encoding, box: Box, edges: str | None = None
) -> npt.NDArray[np.bool_]:
    """Return which geometries have a box that meets a box; `edges` as of a geography."""
    if edges is None:
        return meets(box, row_bounds(column, encoding))
    return meets_on_globe(box, globe_row_bounds(column, encoding, edges))


def meets(box: Box, bounds: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which boxes, rows of xmin, ymin, xmax, ymax, meet a box; NaN meets none.

    >>> meets((170, 0, -170, 1), np.array([[175.0, 0, 176, 9], [0, 0, 1, 1]])).tolist()
    [True, False]
    """
    west, south, east, north = box
    within = (bounds[:, 1] <= north) & (bounds[:, 3] >= south)
    after, before = bounds[:, 2] >= west, bounds[:, 0] <= east
    # Also where NaN compares as false both times.
    return np.asarray(within & ((after & before) if west <= east else (after | before)))


def spread(source: Source) -> Source:
    """Return a source whose tasks run on other machines, where its format tells these apart."""
    if isinstance(source, WindowedSource):
        return replace(source, whole=spread(source.whole))
    return replace(cast("Any", source), spread=True) if hasattr(source, "spread") else source


def read_as(source: Source, schema: Schema, engine: Running = ONE_BY_ONE) -> Source:
    """Return a source read in the types of a dataset, where its format leaves types to be judged.

    Raises `InvalidFileError` for a value that a column of the dataset cannot hold.
    """
    if isinstance(source, WindowedSource):
        return replace(source, whole=read_as(source.whole, schema, engine))
    judged = getattr(source, "read_as", None)
    return source if judged is None else cast("Source", judged(schema, engine))
