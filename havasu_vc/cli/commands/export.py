"""`havasu-vc export`."""

from __future__ import annotations

from pathlib import Path

import click

from havasu_vc.cli.arguments import parse_dataset_at, parse_names
from havasu_vc.cli.commands.checkout import copy_object
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.counts import counted
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option
from havasu_vc.exchange.formats import FOLDER_EXPORTS, ExportFormat
from havasu_vc.exchange.geoparquet import VERSIONS
from havasu_vc.exchange.parquet_writer import ParquetForm

__all__ = ["command"]


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
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
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
) -> None:
    r"""Write the rows of DATASET at a revision to FILE.

    What FILE ends in says the format: .parquet, .gpkg, .shp, .geojson, .geojsonl, .fgb,
    .csv. --to iceberg, iceberg-v3 and delta make a table in a folder; one that is there gets
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
    chosen = None if file_format is None else file_format.lower()
    if chosen is None and file.suffix.lower() in (".tif", ".tiff"):
        chosen = "geotiff"
    if chosen != "geotiff" and (keys or tiles_apart):
        raise click.UsageError("--key and --tiles-apart are for --to geotiff")
    parquet = _parquet_form(covering, geometry_encoding, geoparquet_version)
    if parquet is not None and chosen == "geotiff":
        raise click.UsageError("--covering and --geoparquet-version are for GeoParquet")
    names = parse_names(columns)
    if changes is not None:
        others = {
            "--ref": ref,
            "--crs": crs,
            "--columns": columns,
            "--plain": plain,
            "--covering or --geoparquet-version": parquet,
        }
        _check_changes(chosen, [option for option, given in others.items() if given])
        if "@" in dataset and revision != "HEAD":
            raise click.UsageError("--changes names the revisions; leave @REV out")
    elif chosen == "geotiff":
        if crs is not None or plain:
            raise click.UsageError("rasters are written as they are, without --crs and --plain")
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
    if chosen in ("delta", "iceberg", "iceberg-v3"):
        raise click.UsageError("changes are written to files, not to tables")
    if chosen == "geotiff":
        raise click.UsageError("changes of rasters are not written as images")
    if others:
        raise click.UsageError(f"{others[0]} cannot be given with --changes")
