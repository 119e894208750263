"""Foreign formats: a row for each, with the names, the readers and the writers that it has.

A file is of the format that its name ends in, and its first bytes must agree. A folder or a
pattern is of the format of its files. A table that is a folder itself stands behind its format's
name, as in `iceberg:FOLDER`. Readers and writers are named, and loaded when they are needed:

    reader of files     `open(paths, name, options, *, root)`, which returns one source; of a format
                        that is `judged` it takes `engine_of` besides
    reader of tables    `open(place, options)`
    writer of files     `write(path, header, geometries, batches, *, format, notes, form)`

A format without a reader has layers, which GDAL opens as its driver (`ogr`).

What whoever exports asks of GDAL: the layer's name and type, and options of its driver.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from havasu_vc.records import dataclass

__all__ = [
    "ARCHIVE",
    "EXPORT_EXTENSIONS",
    "FOLDER_EXPORTS",
    "FORMATS",
    "IMPORT_EXTENSIONS",
    "TABLES",
    "ExportFormat",
    "FileFormat",
    "GdalForm",
    "format_of_file",
    "format_of_table",
    "format_written",
    "load",
    "table_documents",
]

ARCHIVE = ".zip"
"""The end of the name of an archive, in which shapefiles are read."""


class ExportFormat(StrEnum):
    """A format of files to export to."""

    GEOPARQUET = "geoparquet"
    PARQUET = "parquet"
    GPKG = "gpkg"
    SHAPEFILE = "shapefile"
    GEOJSON = "geojson"
    GEOJSONSEQ = "geojsonseq"
    FLATGEOBUF = "flatgeobuf"
    CSV = "csv"

    @property
    def label(self) -> str:
        """Its name for people."""
        return format_written(self).label


@dataclass(frozen=True, slots=True)
class FileFormat:
    """One format."""

    label: str
    """Its name for people, as something that one exports to."""
    extensions: tuple[str, ...] = ()
    """The ends of names of files that are read as it."""
    first_bytes: re.Pattern[bytes] | None = None
    """The beginning of a file, where that is looked at before GDAL opens it."""
    title: str | None = None
    """Its name in errors about a file; None for that of the driver."""
    driver: str | None = None
    """GDAL's name of it, where GDAL reads it."""
    reader: str | None = None
    """The function that opens it, by module; None where it has layers."""
    judged: bool = False
    """Whether it tells no types, so that whoever opens one has an engine read it all."""
    many: str | None = None
    """Files of it in a folder, in words; None where they are not looked for there."""
    table: str | None = None
    """The word before the place of a table that is a folder."""
    marks: tuple[str, re.Pattern[str]] | None = None
    """The folder and the names of the documents by which such a table is known."""
    folders: tuple[str, ...] = ()
    """Names under which datasets are exported to folders of it."""
    export: ExportFormat | None = None
    """The name under which datasets are exported to a file of it."""
    written: tuple[str, ...] = ()
    """The ends of names by which a file to export to asks for it."""
    writer: str | None = None
    """The function that writes a file of it, by module."""


_PARQUET = "parquet_writer:write_rows"
_GDAL = "gdal_writer:write_rows"
_IMAGES = "geotiff_source:open_geotiffs"

FORMATS = (
    FileFormat(
        "GeoParquet",
        (".parquet", ".geoparquet", ".pq", ".parq"),
        reader="parquet:open_parquet",
        many="Parquet files",
        folders=("parquet-dataset",),
        export=ExportFormat.GEOPARQUET,
        written=(".parquet", ".geoparquet"),
        writer=_PARQUET,
    ),
    FileFormat("Parquet", export=ExportFormat.PARQUET, writer=_PARQUET),
    FileFormat(
        "GeoPackage",
        (".gpkg",),
        re.compile(rb"SQLite format 3\x00"),
        title="GeoPackage",
        driver="GPKG",
        export=ExportFormat.GPKG,
        written=(".gpkg",),
        writer=_GDAL,
    ),
    FileFormat(
        "a shapefile",
        (".shp",),
        re.compile(rb"\x00\x00\x27\x0a"),
        title="shapefile",
        driver="ESRI Shapefile",
        many="shapefiles",
        export=ExportFormat.SHAPEFILE,
        written=(".shp",),
        writer=_GDAL,
    ),
    FileFormat(
        "GeoJSON",
        (".geojson", ".json"),
        re.compile(rb"(?:\xef\xbb\xbf)?\s*\{"),
        driver="GeoJSON",
        export=ExportFormat.GEOJSON,
        written=(".geojson", ".json"),
        writer=_GDAL,
    ),
    FileFormat(
        "GeoJSON",
        (".geojsonl", ".geojsons", ".geojsonseq", ".ndjson", ".jsonl"),
        re.compile(rb"(?:\xef\xbb\xbf)?[\s\x1e]*\{"),
        title="sequence of GeoJSON",
        driver="GeoJSONSeq",
        export=ExportFormat.GEOJSONSEQ,
        written=(".geojsonl", ".geojsons", ".ndjson"),
        writer=_GDAL,
    ),
    FileFormat(
        "FlatGeobuf",
        (".fgb",),
        re.compile(rb"fgb"),
        driver="FlatGeobuf",
        export=ExportFormat.FLATGEOBUF,
        written=(".fgb",),
        writer=_GDAL,
    ),
    FileFormat(
        "CSV",
        (".csv", ".tsv", ".tab", ".txt"),
        reader="csv:open_one",
        judged=True,
        export=ExportFormat.CSV,
        written=(".csv", ".tsv"),
        writer="csv_writer:write_rows",
    ),
    FileFormat(
        "Delta",
        reader="delta:open_delta",
        table="delta",
        marks=("_delta_log", re.compile(r"\d{20}\..*(json|parquet)|_last_checkpoint")),
        folders=("delta",),
    ),
    FileFormat(
        "Iceberg",
        reader="iceberg:open_iceberg",
        table="iceberg",
        marks=("metadata", re.compile(r".*\.metadata\.json(\.gz)?")),
        folders=("iceberg", "iceberg-v3"),
    ),
    FileFormat(
        "GeoTIFF",
        (".tif", ".tiff"),
        title="TIFF",
        driver="GTiff",
        reader=_IMAGES,
        many="images",
        folders=("geotiff",),
    ),
    FileFormat("JPEG 2000", (".jp2",), driver="JP2OpenJPEG", reader=_IMAGES, many="images"),
    FileFormat("Erdas Imagine", (".img",), driver="HFA", reader=_IMAGES, many="images"),
)
"""Every format that is read or written."""

BY_EXTENSION: Mapping[str, FileFormat] = MappingProxyType(
    {extension: each for each in FORMATS for extension in each.extensions}
)
"""Formats by the ends of names of files that are read."""
IMPORT_EXTENSIONS = (*BY_EXTENSION, ARCHIVE)
"""The ends of names of files that can be imported."""
EXPORT_EXTENSIONS: Mapping[str, ExportFormat] = MappingProxyType(
    {end: each.export for each in FORMATS if each.export is not None for end in each.written}
)
"""The format that a file to export to asks for, by the end of its name."""
TABLES: Mapping[str, FileFormat] = MappingProxyType(
    {each.table: each for each in FORMATS if each.table is not None}
)
"""Formats of tables that are folders, by the word before their place."""
FOLDER_EXPORTS = tuple(name for each in FORMATS for name in each.folders)
"""Names of formats that datasets are exported to as folders."""


def table_documents(paths: Iterable[str]) -> tuple[str, FileFormat] | None:
    """Return where the first table is of which one of some files is a document, and its format.

    >>> where, format = table_documents(["a.parquet", "lake/wells/metadata/v1.metadata.json"])
    >>> where, format.label
    ('lake/wells', 'Iceberg')
    """
    for path in paths:
        folder, _, name = path.rpartition("/")
        place, _, within = folder.rpartition("/")
        for each in TABLES.values():
            if each.marks is not None and within == each.marks[0] and each.marks[1].fullmatch(name):
                return place, each
    return None


def format_of_table(folder: str | Path) -> FileFormat | None:
    """Return the format of the table that a folder is; None where it is none."""
    for each in TABLES.values():
        if each.marks is not None and (documents := Path(folder, each.marks[0])).is_dir():
            found = table_documents(f"{each.marks[0]}/{name}" for name in os.listdir(documents))
            if found is not None:
                return each
    return None


def format_of_file(path: Path) -> FileFormat | None:
    """Return the format that a file is read as; None where there is none of its name."""
    return BY_EXTENSION.get(path.suffix.lower())


def format_written(wanted: ExportFormat) -> FileFormat:
    """Return the row of a format to export to."""
    return next(each for each in FORMATS if each.export is wanted)


def load(function: str) -> Any:
    """Return a reader or writer, whose module is loaded now."""
    module, _, name = function.partition(":")
    return getattr(import_module(f"havasu_vc.exchange.{module}"), name)


@dataclass(frozen=True, slots=True)
class GdalForm:
    """How GDAL is to write a layer, where that is said."""

    layer: str | None = None
    """The name of the layer, by default the file's."""
    layer_options: Mapping[str, str] = field(default_factory=dict)
    """An option of GDAL's driver for the layer, as in ogr2ogr; may be repeated."""
    dataset_options: Mapping[str, str] = field(default_factory=dict)
    """An option of GDAL's driver for the file, as in ogr2ogr; may be repeated."""
    geometry_type: str | None = None
    """Declare the layer with this type, as 'MULTIPOLYGON Z'."""
    drop_null: bool = False
    """No rows without geometry."""
    drop_empty: bool = False
    """No rows without geometry, and none whose geometry is empty."""
    key_as_fid: bool | None = None
    """Whether a GeoPackage tells rows apart by the key, in its column `fid`; by default where
    that can be."""
    key_as_field: bool | None = None
    """Whether the key is a column as well; by default where it would be lost otherwise."""
    shapeless: bool = False
    """Whether a shapefile is made of a table without geometries too, with none in each row."""

    @property
    def asks_gdal(self) -> bool:
        """Whether more is asked than the name of a layer, which any writer knows."""
        return self != GdalForm(layer=self.layer, shapeless=self.shapeless)
