"""Files to export to, in any format, streamed and written as a whole or not at all.

A file is written in a folder of its own beside its place and moved there when it is
done, so that nobody ever sees half of it and an export that fails leaves no trace. A
file that is there is replaced only when told to. What a format cannot hold is refused
or noted (`export_columns`).
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.export_columns import (
    Notes,
    OutgoingGeometry,
    outgoing_geometry,
)
from havasu_vc.exchange.formats import (
    EXPORT_EXTENSIONS,
    ExportFormat,
    GdalForm,
    format_written,
    load,
)
from havasu_vc.exchange.gdal import list_layers
from havasu_vc.exchange.parquet_writer import ParquetForm
from havasu_vc.exchange.replacing import replacing, require_unheld
from havasu_vc.geo.crs import parse_crs, projection
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.records import dataclass

__all__ = [
    "EXPORT_EXTENSIONS",
    "ExportFormat",
    "Written",
    "format_of",
    "outgoing_geometries",
    "write_file",
]


_BY_GDAL = (
    ExportFormat.GPKG,
    ExportFormat.SHAPEFILE,
    ExportFormat.GEOJSON,
    ExportFormat.GEOJSONSEQ,
    ExportFormat.FLATGEOBUF,
)
_GDAL = "gdal_writer:write_rows"
_JSON = (ExportFormat.GEOJSON, ExportFormat.GEOJSONSEQ)
_DEGREES = ("OGC:CRS84", "EPSG:4326")


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of an export."""

    rows: int
    """How many rows the file has."""
    notes: tuple[str, ...] = ()
    """Losses of the format, one line each."""
    changes: ChangeCounts | None = None
    """The changes that an export of them has; an update is two of its rows."""


def format_of(path: Path) -> ExportFormat:
    """Return the format that a file's name asks for."""
    found = EXPORT_EXTENSIONS.get(path.suffix.lower())
    if found is None:
        kind, sign, folder = str(path).partition(":")
        if sign and kind in ("delta", "iceberg"):  # as `import` takes it
            hint = f"`--to {kind} {shlex.quote(folder)}` makes such a table"
        else:
            hint = f"end it in one of {', '.join(EXPORT_EXTENSIONS)}"
        raise InvalidArgumentError(
            f"{path.name} does not say which format to export to", hints=(hint,)
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
    gdal: GdalForm | None = None,
) -> Written:
    """Write the rows of a dataset, which come in stored types, to a file.

    `crs` names the coordinate reference system to write in; without one GeoJSON is
    written in OGC:CRS84, as its standard says, and all else as the dataset is. `parquet`
    says how GeoParquet is written.
    """
    chosen = format or format_of(path)
    notes = Notes()
    form: object = _parquet_form(parquet, chosen)
    if gdal is not None and (chosen is not ExportFormat.CSV or gdal.asks_gdal):
        if chosen not in (*_BY_GDAL, ExportFormat.CSV):
            raise InvalidArgumentError(
                f"options for GDAL do not go with {chosen.label}, which it does not write",
                hints=(f"it writes {', '.join(each.value for each in _BY_GDAL)}",),
            )
        if chosen is ExportFormat.CSV and gdal.key_as_fid:
            raise InvalidArgumentError(
                "rows of a CSV have no number beside their columns that the key could be"
            )
        form = gdal
    geometries = outgoing_geometries(header, chosen, crs, notes)
    keep = _has_other_layers(path, chosen, gdal, overwrite=overwrite)
    with replacing(path, overwrite=overwrite or keep) as temporary:
        if keep:
            shutil.copyfile(path, temporary)
        rows = _write(temporary, header, geometries, batches, format=chosen, notes=notes, form=form)
    return Written(rows, tuple(notes.lines))


def _has_other_layers(
    path: Path, format: ExportFormat, gdal: GdalForm | None, *, overwrite: bool
) -> bool:
    """Whether a file is there that gets one more layer, or a layer of it anew.

    Raises `InvalidArgumentError` where it has the layer, unless that is to be replaced.
    """
    if format is not ExportFormat.GPKG or gdal is None or gdal.layer is None:
        return False
    try:
        with open(path, "rb") as file:
            if file.read(15) != b"SQLite format 3":
                return False
    except OSError:
        return False
    require_unheld(path)
    if gdal.layer in list_layers(str(path)) and not overwrite:
        raise InvalidArgumentError(
            f"{path} has a layer {gdal.layer!r} already", hints=("--overwrite replaces it",)
        )
    return True


def _write(
    path: Path,
    header: DatasetHeader,
    geometries: Mapping[str, OutgoingGeometry],
    batches: Iterator[pa.RecordBatch],
    *,
    format: ExportFormat,
    notes: Notes,
    form: object,
) -> int:
    writer = _GDAL if isinstance(form, GdalForm) else format_written(format).writer
    assert writer is not None
    rows: int = load(writer)(
        path, header, geometries, batches, format=format, notes=notes, form=form
    )
    return rows


def _parquet_form(wanted: ParquetForm | None, format: ExportFormat) -> ParquetForm:
    if wanted is not None and format is not ExportFormat.GEOPARQUET:
        raise InvalidArgumentError(
            f"only GeoParquet has a version and columns of bounding boxes, not {format.value}",
            hints=("write a file that ends in .parquet, without another format",),
        )
    form = wanted or ParquetForm(with_geo=format is ExportFormat.GEOPARQUET)
    form.check()
    return form


def outgoing_geometries(
    header: DatasetHeader, format: ExportFormat, crs: str | None, notes: Notes
) -> dict[str, OutgoingGeometry]:
    """Return how each geometry column goes out, having noted what a format loses."""
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
        if format in _JSON and known:
            _note_degrees(geometry, format, notes, as_wanted=wanted is not None)
        _note_losses(geometry, format, notes)
        found[field.name] = geometry
    return found


def _note_degrees(
    geometry: OutgoingGeometry, format: ExportFormat, notes: Notes, *, as_wanted: bool
) -> None:
    """Say what becomes of a system that is not the longitudes and latitudes of GeoJSON."""
    name, source, target = geometry.field.name, geometry.source, geometry.target
    degrees = [parse_crs(each) for each in _DEGREES]
    if source is None or target is None:
        return
    if not as_wanted and source.identifier not in _DEGREES:
        notes.say(
            f"column {name!r} is transformed from {source.identifier} to longitudes and latitudes, "
            "as GeoJSON has them"
        )
    elif as_wanted and format is ExportFormat.GEOJSONSEQ and target not in degrees:
        raise InvalidArgumentError(
            f"GeoJSON by lines is in longitudes and latitudes, not in {target.identifier}",
            hints=("leave --crs out, or export to .geojson or .parquet",),
        )
    elif as_wanted and target.identifier.startswith("CUSTOM:"):
        notes.say(
            f"the system of column {name!r} has no code, by which GeoJSON would name it: it is "
            "read as longitudes and latitudes"
        )


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
