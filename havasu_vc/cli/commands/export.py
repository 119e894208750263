"""`havasu-vc export`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from havasu_vc.cli.arguments import parse_dataset_at, parse_names
from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.commands.checkout import copy_object
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.counts import counted
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, gathered, json_option
from havasu_vc.exchange.formats import FOLDER_EXPORTS, ExportFormat, GdalForm
from havasu_vc.exchange.geoparquet import VERSIONS
from havasu_vc.exchange.parquet_writer import ParquetForm
from havasu_vc.records import dataclass

__all__ = ["command"]

_DRIVERS = {
    "esri shapefile": "shapefile",
    "flatgeobuf": "flatgeobuf",
    "geojson": "geojson",
    "geojsonseq": "geojsonseq",
    "gpkg": "gpkg",
    "csv": "csv",
}


@dataclass(frozen=True, slots=True)
class _Layer:
    """The options that are GDAL's."""

    layer: str | None
    layer_options: tuple[str, ...]
    dataset_options: tuple[str, ...]
    geometry_type: str | None
    drop_null: bool
    drop_empty: bool
    key_as_fid: bool | None
    key_as_field: bool | None

    def form(self) -> GdalForm | None:
        """Return what is asked of GDAL, None where nothing is."""
        form = GdalForm(
            self.layer,
            dict(_option(each) for each in self.layer_options),
            dict(_option(each) for each in self.dataset_options),
            self.geometry_type,
            self.drop_null,
            self.drop_empty,
            self.key_as_fid,
            self.key_as_field,
        )
        return None if form == GdalForm() else form

    def as_karts(self, dataset: str, chosen: str | None, file: Path) -> _Layer:
        """Return the options with what Kart takes where nothing is said."""
        if chosen != "gpkg" and (chosen is not None or file.suffix.lower() != ".gpkg"):
            return self
        as_field = True if self.key_as_field is None else self.key_as_field
        return replace(self, layer=self.layer or dataset, key_as_field=as_field)


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{text!r} is no option of GDAL's: they are NAME=VALUE")
    return name, value


def _driver(file: Path, chosen: str | None) -> tuple[str | None, Path]:
    """Read `DRIVER:FILE`, in which Kart names formats as GDAL does."""
    name, colon, rest = str(file).partition(":")
    if chosen is None and colon and rest and (known := _DRIVERS.get(name.lower())) is not None:
        return known, Path(rest)
    return chosen, file


@click.command("export", cls=Command)
@click.argument("dataset", metavar="DATASET[@REV]", shell_complete=complete_datasets)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--ref", metavar="REV", help="The revision to export; DATASET is then taken as it stands."
)
@click.option(
    "--changes",
    metavar="A...B",
    help="Export only the rows that differ between two revisions.",
)
@click.option(
    "--format",
    "--to",
    "file_format",
    type=click.Choice(
        [*(each.value for each in ExportFormat), *FOLDER_EXPORTS],
        case_sensitive=False,
    ),
    help="The format; by default what the file's name ends in.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
@click.option("--plain", is_flag=True, help="In a Delta table write geometries as binary columns.")
@click.option("--crs", metavar="CRS", help="Transform geometries to this CRS.")
@click.option("--columns", metavar="COLUMN,...", multiple=True, help="Write only these columns.")
@click.option(
    "--key", "keys", metavar="KEY", multiple=True, help="Of rasters, only the row with this key."
)
@click.option(
    "--tiles-apart", is_flag=True, help="Write each tile of an image as a GeoTIFF of its own."
)
@click.option(
    "--covering/--no-covering",
    default=None,
    help="In GeoParquet write the box of each row to a column `bbox`, by which readers skip rows.",
)
@click.option(
    "--geometry-encoding",
    type=click.Choice(("native", "wkb")),
    help="In GeoParquet, how geometries that came in a native encoding go out.  [default: native]",
)
@click.option(
    "--geoparquet-version",
    type=click.Choice(VERSIONS),
    help="The version of GeoParquet; by default the newest.",
)
@click.option("--layer", metavar="NAME", help="The name of the layer.  [default: the file's]")
@click.option(
    "-lco",
    "--layer-creation-option",
    "layer_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of GDAL's driver for the layer, as in ogr2ogr; may be repeated.",
)
@click.option(
    "-dsco",
    "--dataset-creation-option",
    "dataset_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of GDAL's driver for the file, as in ogr2ogr; may be repeated.",
)
@click.option(
    "--override-geometry-type",
    "geometry_type",
    metavar="TYPE",
    help="Declare the layer with this type, as 'MULTIPOLYGON Z'.",
)
@click.option(
    "--drop-null-geometry-features", "drop_null", is_flag=True, help="No rows without geometry."
)
@click.option(
    "--drop-empty-geometry-features",
    "drop_empty",
    is_flag=True,
    help="No rows without geometry, and none whose geometry is empty.",
)
@click.option(
    "--primary-key-as-fid/--no-primary-key-as-fid",
    "key_as_fid",
    default=None,
    help="Whether a GeoPackage tells rows apart by the key, in its column `fid`.",
)
@click.option(
    "--primary-key-as-field/--no-primary-key-as-field",
    "key_as_field",
    default=None,
    help="Whether the key is a column as well.",
)
@click.option(
    "--part-size",
    type=click.IntRange(min=1),
    metavar="MIB",
    help="With --to parquet-dataset, about how much each file has.  [default: 128]",
)
@click.option("--drop-geometry", is_flag=True, help="Write no geometries.")
@engine_option
@json_option
@click.pass_obj
@gathered(_Layer)
def command(
    invocation: Invocation,
    /,
    dataset: str,
    file: Path,
    ref: str | None,
    changes: str | None,
    file_format: str | None,
    overwrite: bool,
    plain: bool,
    crs: str | None,
    columns: tuple[str, ...],
    keys: tuple[str, ...],
    tiles_apart: bool,
    covering: bool | None,
    geometry_encoding: str | None,
    geoparquet_version: str | None,
    part_size: int | None,
    drop_geometry: bool,
    options: _Layer,
) -> None:
    r"""Write the rows of DATASET at a revision to FILE.

    What FILE ends in says the format: .parquet, .gpkg, .shp, .geojson, .geojsonl, .fgb,
    .csv. --to parquet-dataset makes a folder of GeoParquet files, written side by side.
    --to iceberg, iceberg-v3 and delta make a table in a folder; one that is there gets
    another version with --overwrite. --to geotiff makes a folder of images of rasters, or
    one image of all where FILE ends in .tif; tiles of an image become that image again.
    With --changes FILE gets the rows that differ between two revisions, each with what
    happened to it. A column of boxes that GeoParquet came with is written again, unless
    --no-covering is said.

    \b
    havasu-vc export parcels parcels.gpkg
    havasu-vc export parcels@v1 then.parquet --columns id,owner,geom
    havasu-vc export parcels changes.csv --changes v1...HEAD
    """
    path, revision = parse_dataset_at(dataset, ref)
    if str(file) == "-":
        raise click.UsageError(f"an export is a file; `havasu-vc cat {dataset}` prints rows")
    chosen, file = _driver(file, None if file_format is None else file_format.lower())
    if is_called_kart():
        options = options.as_karts(path, chosen, file)
    gdal = options.form()
    if chosen is None and file.suffix.lower() in (".tif", ".tiff"):
        chosen = "geotiff"
    if chosen != "geotiff" and (keys or tiles_apart):
        raise click.UsageError("--key and --tiles-apart are for --to geotiff")
    parquet = _parquet_form(covering, geometry_encoding, geoparquet_version)
    if parquet is not None and chosen == "geotiff":
        raise click.UsageError("--covering and --geoparquet-version are for GeoParquet")
    if part_size is not None and chosen != "parquet-dataset":
        raise click.UsageError("--part-size is for --to parquet-dataset")
    names = parse_names(columns)
    if changes is not None:
        others = {
            "--ref": ref,
            "--crs": crs,
            "--columns": columns,
            "--plain": plain,
            "--covering or --geoparquet-version": parquet,
            "an option for GDAL": gdal,
            "--drop-geometry": drop_geometry,
            "--part-size": part_size,
        }
        _check_changes(chosen, [option for option, given in others.items() if given])
        if "@" in dataset and revision != "HEAD":
            raise click.UsageError("--changes names the revisions; leave @REV out")
    elif chosen == "geotiff":
        if crs is not None or plain or gdal is not None or drop_geometry:
            raise click.UsageError(
                "rasters are written as they are, without --crs, --plain or options for GDAL"
            )
        if len(names) > 1:
            raise click.UsageError("--columns names one raster column")
    repo = invocation.open_repo()
    if changes is not None:
        result = repo.export_changes(path, file, changes, format=chosen, overwrite=overwrite)
        what = "changed row"
    elif chosen == "geotiff":
        result = repo.rasters.export(
            path,
            file,
            revision,
            keys=keys,
            column=names[0] if names else None,
            apart=tiles_apart,
            overwrite=overwrite,
        )
        what = "raster"
    else:
        result = repo.export(
            path,
            file,
            revision=revision,
            format=chosen,
            overwrite=overwrite,
            crs=crs,
            columns=names or None,
            plain=plain,
            parquet=parquet,
            gdal=gdal,
            drop_geometry=drop_geometry,
            part_bytes=None if part_size is None else part_size << 20,
        )
        what = "row"
    invocation.result("havasu.export/v1", copy_object(result))
    invocation.say(f"Wrote {counted(result.rows, what)} of {path} to {result.path}")
    invocation.notes(result.notes)


def _parquet_form(
    covering: bool | None, geometry_encoding: str | None, version: str | None
) -> ParquetForm | None:
    """Return how GeoParquet is asked for, None where nothing is said of it."""
    if (covering, geometry_encoding, version) == (None, None, None):
        return None
    native = geometry_encoding != "wkb"
    return ParquetForm(version=version or VERSIONS[-1], covering=covering, native=native)


def _check_changes(chosen: str | None, others: list[str]) -> None:
    """Refuse what changes are not written to, and options that they do not go with."""
    if chosen in ("delta", "iceberg", "iceberg-v3", "parquet-dataset"):
        raise click.UsageError("changes are written to one file, not to a folder")
    if chosen == "geotiff":
        raise click.UsageError("changes of rasters are not written as images")
    if others:
        raise click.UsageError(f"{others[0]} cannot be given with --changes")
