"""Files to export to, in any format, streamed and written as a whole or not at all.

A file is written in a folder of its own beside its place and moved there when it is
done, so that nobody ever sees half of it and an export that fails leaves no trace. A
file that is there is replaced only when told to. What a format cannot hold is refused
or noted (`export_columns`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.exchange.csv_writer import write_csv
from havasu_vc.exchange.export_columns import ExportFormat, Notes
from havasu_vc.exchange.export_geometry import OutgoingGeometry, outgoing_geometry
from havasu_vc.exchange.gdal_writer import GdalLayer, write_gdal
from havasu_vc.exchange.held_files import require_unheld
from havasu_vc.exchange.parquet_writer import ParquetForm, write_parquet
from havasu_vc.geo.crs import parse_crs, projection
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.records import dataclass

__all__ = ["EXPORT_EXTENSIONS", "ExportFormat", "Written", "format_of", "write_file"]

EXPORT_EXTENSIONS: dict[str, ExportFormat] = {
    ".parquet": ExportFormat.GEOPARQUET,
    ".geoparquet": ExportFormat.GEOPARQUET,
    ".gpkg": ExportFormat.GPKG,
    ".shp": ExportFormat.SHAPEFILE,
    ".geojson": ExportFormat.GEOJSON,
    ".json": ExportFormat.GEOJSON,
    ".geojsonl": ExportFormat.GEOJSONSEQ,
    ".geojsons": ExportFormat.GEOJSONSEQ,
    ".ndjson": ExportFormat.GEOJSONSEQ,
    ".fgb": ExportFormat.FLATGEOBUF,
    ".csv": ExportFormat.CSV,
    ".tsv": ExportFormat.CSV,
}
"""The format that an extension stands for."""
_SHAPEFILE_PARTS = (".shx", ".dbf", ".prj", ".cpg", ".qix", ".sbn", ".sbx", ".qpj")
_JSON = (ExportFormat.GEOJSON, ExportFormat.GEOJSONSEQ)


@dataclass(frozen=True, slots=True)
class Written:
    """What an export did."""

    rows: int
    """How many rows the file has."""
    notes: tuple[str, ...] = ()
    """What could not be kept as it is, one line each."""


def format_of(path: Path) -> ExportFormat:
    """Return the format that a file's name asks for."""
    found = EXPORT_EXTENSIONS.get(path.suffix.lower())
    if found is None:
        raise InvalidArgumentError(
            f"{path.name} does not say which format to export to",
            hints=(f"end it in one of {', '.join(EXPORT_EXTENSIONS)}",),
        )
    return found


def write_file(
    path: Path,
    header: DatasetHeader,
    batches: Iterator[pa.RecordBatch],
    *,
    format: ExportFormat | None = None,
    overwrite: bool = False,
    crs: str | None = None,
    parquet: ParquetForm | None = None,
) -> Written:
    """Write the rows of a dataset, which come in stored types, to a file.

    `crs` names the coordinate reference system to write in; without one GeoJSON is
    written in OGC:CRS84, as its standard says, and all else as the dataset is. `parquet`
    says how GeoParquet is written.
    """
    chosen = format or format_of(path)
    notes = Notes()
    form = _parquet_form(parquet, chosen)
    geometries = _geometries(header, chosen, crs, notes)
    with replacing(path, overwrite=overwrite) as temporary:
        rows = _write(temporary, header, geometries, batches, format=chosen, notes=notes, form=form)
    return Written(rows, tuple(notes.lines))


def _write(
    path: Path,
    header: DatasetHeader,
    geometries: Mapping[str, OutgoingGeometry],
    batches: Iterator[pa.RecordBatch],
    *,
    format: ExportFormat,
    notes: Notes,
    form: ParquetForm,
) -> int:
    match format:
        case ExportFormat.GEOPARQUET | ExportFormat.PARQUET:
            return write_parquet(path, header.schema, geometries, batches, notes=notes, form=form)
        case ExportFormat.CSV:
            return write_csv(path, header.schema, geometries, batches, notes=notes)
        case _:
            layer = GdalLayer(
                path.stem, header.schema, geometries, layer_metadata(header, path.stem)
            )
            return write_gdal(path, layer, batches, format=format, notes=notes)


def _parquet_form(wanted: ParquetForm | None, format: ExportFormat) -> ParquetForm:
    if wanted is not None and format is not ExportFormat.GEOPARQUET:
        raise InvalidArgumentError(
            f"only GeoParquet has a version and columns of bounding boxes, not {format.value}",
            hints=("write a file that ends in .parquet, without another format",),
        )
    form = wanted or ParquetForm(with_geo=format is ExportFormat.GEOPARQUET)
    form.check()
    return form


def layer_metadata(header: DatasetHeader, name: str) -> dict[str, str]:
    """Return title and description as a GeoPackage has them."""
    title, description = header.meta.get("title"), header.meta.get("description")
    return {
        "IDENTIFIER": str(title).strip() if title else name,
        "DESCRIPTION": str(description).strip() if description else "",
    }


def _geometries(
    header: DatasetHeader, format: ExportFormat, crs: str | None, notes: Notes
) -> dict[str, OutgoingGeometry]:
    fields = header.schema.geometries
    wanted = parse_crs(crs) if crs is not None and fields else None
    found = {}
    for field in fields:
        known = field.geometry is not None and field.geometry.crs is not None
        target = wanted
        if wanted is None and format in _JSON and known:
            target = parse_crs("OGC:CRS84")
        if format in _JSON and not known:
            notes.say(
                f"column {field.name!r} has no coordinate reference system; GeoJSON is read as "
                "longitudes and latitudes"
            )
        geometry = outgoing_geometry(field, header.crs, target, notes)
        _note_losses(geometry, format, notes)
        found[field.name] = geometry
    return found


def _note_losses(geometry: OutgoingGeometry, format: ExportFormat, notes: Notes) -> None:
    """Say what a format has no words for."""
    name, target = geometry.field.name, geometry.target
    if geometry.field.edges and format not in (ExportFormat.GEOPARQUET, ExportFormat.PARQUET):
        notes.say(
            f"the edges of column {name!r} run on the globe, which {format.label} cannot say: "
            "they are read as straight"
        )
    if format is ExportFormat.SHAPEFILE and target is not None and projection(target).is_compound:
        notes.say(f"the system of the heights of column {name!r} is left out by a shapefile")


@contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a path to write to, and move what was written to its place at the end.

    A GeoPackage that another program has open is never replaced.
    """
    _refuse_existing(path, overwrite=overwrite)
    is_database = path.suffix.lower() == ".gpkg"
    if is_database:
        require_unheld(path)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {(error.strerror or str(error)).lower()}",
            hints=("name a folder that is there and can be written to",),
        ) from error
    try:
        yield folder / path.name
        if is_database:
            require_unheld(path)
        _move(folder, path, overwrite=overwrite)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_existing(path: Path, *, overwrite: bool) -> None:
    if path.is_dir():
        raise InvalidArgumentError(f"{path} is a folder", hints=("name a file",))
    if not overwrite and (path.exists() or path.is_symlink()):
        raise InvalidArgumentError(f"{path} is there already", hints=("--overwrite replaces it",))


def _move(folder: Path, path: Path, *, overwrite: bool) -> None:
    written = sorted(folder.iterdir(), key=lambda part: part.name == path.name)
    try:
        for part in written:
            _sync(part)
        if path.suffix.lower() == ".shp":
            for suffix in _SHAPEFILE_PARTS:
                stale = path.with_suffix(suffix)
                if not (folder / stale.name).exists():
                    stale.unlink(missing_ok=True)
        for part in written:
            if part.name == path.name and not overwrite:
                _place(part, path)
            else:
                os.replace(part, path.parent / part.name)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(f"{path} cannot be written: {reason}") from error


def _place(part: Path, path: Path) -> None:
    """Move a file to a place where there must be none."""
    try:
        os.link(part, path)
    except FileExistsError as error:
        raise InvalidArgumentError(
            f"{path} is there already", hints=("--overwrite replaces it",)
        ) from error
    except OSError:
        os.replace(part, path)  # a file system without hard links


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
