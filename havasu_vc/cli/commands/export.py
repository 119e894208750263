"""`havasu-vc export`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.arguments import parse_dataset_at, parse_names
from havasu_vc.cli.as_kart import is_called_kart, stop_while_merging
from havasu_vc.cli.commands.checkout import copy_object
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.counts import counted, format_counts
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.exchange.formats import FOLDER_EXPORTS, FORMATS, ExportFormat, GdalForm
from havasu_vc.exchange.geoparquet import VERSIONS
from havasu_vc.exchange.parquet_writer import ParquetForm
from havasu_vc.store.ending import last_step
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.transfer import ExportRequest

if TYPE_CHECKING:
    from havasu_vc.library import Repo
    from havasu_vc.repo.results import ExportResult

__all__ = ["command"]

_IN_FOLDERS = {"shapefile": ".shp", "flatgeobuf": ".fgb", "csv": ".csv"}
"""The ends of files that GDAL writes one for each layer of a folder."""
_DRIVERS = {
    "esri shapefile": "shapefile",
    "flatgeobuf": "flatgeobuf",
    "geojson": "geojson",
    "geojsonseq": "geojsonseq",
    "gpkg": "gpkg",
    "csv": "csv",
}


def _options(texts: Sequence[str]) -> dict[str, str]:
    return dict(map(_option, texts))


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
    if chosen is None and re.fullmatch(r"[A-Za-z ]{2,}", name) and colon and rest[:2] != "//":
        as_kart = is_called_kart()  # which takes whatever stands there for a format
        if name.lower() not in FOLDER_EXPORTS and (as_kart or not file.parent.is_dir()):
            raise InvalidArgumentError(
                f"there is no format {name!r} to export to; `--list-formats` lists them"
            )
    return chosen, file


def _list_formats(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    if is_called_kart():
        from havasu_vc.cli.kart.texts_of_places import KARTS_EXPORTS

        for name, label in KARTS_EXPORTS:
            click.echo(f"    {name}: {label}")
        context.exit()
    for each in FORMATS:
        if each.export is not None:
            click.echo(f"{each.export.value}: {each.label.removeprefix('a ')}")
        for name in each.folders:
            click.echo(f"{name}: {each.label.removeprefix('a ')} in a folder")
    context.exit()


def _in_folder(name: str, file: Path, dataset: str, layer: str | None) -> Path:
    """Return the file of a layer in a folder that `DRIVER:FOLDER` names, as GDAL has it there."""
    end = _IN_FOLDERS.get(name)
    return file if end is None or file.suffix else file / f"{layer or dataset}{end}"


@contextmanager
def _folder_made(folder: Path) -> Iterator[None]:
    """Make a folder that is not there, which goes again where nothing comes into it."""
    there = folder.exists()
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from error
    try:
        yield
    finally:
        if not there:
            with suppress(OSError):
                folder.rmdir()


def _as_karts(gdal: GdalForm, dataset: str, chosen: str | None, file: Path) -> GdalForm:
    """Return what is asked of GDAL with what Kart takes where nothing is said."""
    if chosen == "shapefile" or (chosen is None and file.suffix.lower() == ".shp"):
        return replace(gdal, shapeless=True)
    if chosen != "gpkg" and (chosen is not None or file.suffix.lower() != ".gpkg"):
        return gdal
    as_field = True if gdal.key_as_field is None else gdal.key_as_field
    return replace(gdal, layer=gdal.layer or dataset, key_as_field=as_field)


def _columns(texts: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns that are named; None where the option is not given."""
    names = parse_names(texts)
    if texts and not names:
        raise click.UsageError("--columns names no column")
    return names or None


@click.command("export", cls=Command)
@click.argument("dataset", metavar="DATASET[@REV]", shell_complete=complete_datasets)
@click.argument("file", type=click.Path())
@click.option(
    "--list-formats",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_formats,
    help="List what can be exported to and stop.",
)
@click.option(
    "--ref", metavar="REV", help="The revision to export; DATASET is then taken as it stands."
)
@click.option(
    "--changes",
    metavar="A...B",
    help="Export only the rows that differ between two revisions.",
)
@takes(
    ExportRequest,
    format=Spelt(
        "--format --to",
        type=click.Choice(
            [*(each.value for each in ExportFormat), *FOLDER_EXPORTS], case_sensitive=False
        ),
    ),
    crs=Spelt(metavar="CRS"),
    columns=Spelt(metavar="COLUMN,...", multiple=True, parse=_columns),
    part_bytes=Spelt(
        "--part-size", metavar="MIB", type=click.IntRange(min=1), parse=lambda size: size << 20
    ),
    without=("dataset", "file", "revision", "parquet", "gdal"),
)
@click.option(
    "--key", "keys", metavar="KEY", multiple=True, help="Of rasters, only the row with this key."
)
@click.option(
    "--tiles-apart", is_flag=True, help="Write each tile of an image as a GeoTIFF of its own."
)
@takes(
    ParquetForm,
    "parquet",
    version=Spelt("--geoparquet-version", type=click.Choice(VERSIONS)),
    covering=Spelt("--covering/--no-covering"),
    native=Spelt(
        "--geometry-encoding",
        type=click.Choice(("native", "wkb")),
        parse=lambda encoding: encoding != "wkb",
    ),
    without=("with_geo",),
)
@takes(
    GdalForm,
    "gdal",
    layer=Spelt(metavar="NAME"),
    layer_options=Spelt(
        "-lco --layer-creation-option", metavar="NAME=VALUE", multiple=True, parse=_options
    ),
    dataset_options=Spelt(
        "-dsco --dataset-creation-option", metavar="NAME=VALUE", multiple=True, parse=_options
    ),
    geometry_type=Spelt("--override-geometry-type", metavar="TYPE"),
    drop_null=Spelt("--drop-null-geometry-features"),
    drop_empty=Spelt("--drop-empty-geometry-features"),
    key_as_fid=Spelt("--primary-key-as-fid/--no-primary-key-as-fid"),
    key_as_field=Spelt("--primary-key-as-field/--no-primary-key-as-field"),
    without=("shapeless",),
)
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: ExportRequest,
    parquet: ParquetForm | None,
    gdal: GdalForm | None,
    ref: str | None,
    changes: str | None,
    keys: tuple[str, ...],
    tiles_apart: bool,
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
    repo = invocation.open_repo()
    stop_while_merging(repo.git)
    known = repo.datasets() if "@" in request.dataset else ()
    asked, into = _asked(replace(request, parquet=parquet, gdal=gdal), ref, known)
    path, file, chosen = asked.dataset, asked.file, asked.format
    _check(asked, images=bool(keys or tiles_apart))
    if changes is not None:
        _check_changes(asked, ref)
        if asked.revision != "HEAD":
            raise click.UsageError("--changes names the revisions; leave @REV out")
    elif chosen == "geotiff":
        _check_images(asked)
    if changes is not None:
        overwrite = asked.overwrite
        result = repo.export_changes(path, file, changes, format=chosen, overwrite=overwrite)
        what = "row"
    elif chosen == "geotiff":
        result, what = _images(repo, asked, keys, apart=tiles_apart), "raster"
    else:
        with _folder_made(Path(file).parent) if into else nullcontext():
            result = repo.export.by(asked)
        what = "row"
    with last_step():
        _tell(invocation, result, path, what)


def _tell(invocation: Invocation, result: ExportResult, path: str, what: str) -> None:
    invocation.result("havasu.export/v1", copy_object(result))
    # An update is two rows of the file, before and after, and one change.
    wrote = counted(result.rows, what)
    if result.changes is not None and result.changes.total:
        wrote = format_counts(result.changes)
    invocation.say(f"Wrote {wrote} of {path} to {result.path}")
    invocation.notes(result.notes)


def _asked(
    request: ExportRequest, ref: str | None, known: Sequence[str]
) -> tuple[ExportRequest, bool]:
    """Return what is asked for, and whether its file goes into a folder that FILE names."""
    path, revision = parse_dataset_at(request.dataset, ref, known=known)
    if str(request.file) == "-":
        raise click.UsageError(
            f"an export is a file; `havasu-vc cat {shlex.quote(request.dataset)}` prints rows"
        )
    if in_bucket(str(request.file)):
        return replace(request, dataset=path, revision=revision), False
    chosen, file = _driver(Path(request.file), request.format)
    gdal, into = request.gdal, request.format is None and chosen is not None
    if into and chosen is not None:
        layer = None if gdal is None else gdal.layer
        file = _in_folder(chosen, file, path.replace("/", "__"), layer)
    if is_called_kart():
        form = _as_karts(gdal or GdalForm(), path, chosen, file)
        gdal = None if form == GdalForm() else form
    if chosen is None and file.suffix.lower() in (".tif", ".tiff"):
        chosen = "geotiff"
    asked = replace(request, dataset=path, file=file, revision=revision, format=chosen, gdal=gdal)
    return asked, into


def _images(
    repo: Repo, asked: ExportRequest, keys: tuple[str, ...], *, apart: bool
) -> ExportResult:
    return repo.rasters.export(
        asked.dataset,
        Path(asked.file),
        asked.revision,
        keys=keys,
        column=asked.columns[0] if asked.columns else None,
        apart=apart,
        overwrite=asked.overwrite,
    )


def _check(asked: ExportRequest, *, images: bool) -> None:
    """Refuse options that go with another format."""
    if asked.format != "geotiff" and images:
        raise click.UsageError("--key and --tiles-apart are for --to geotiff")
    if asked.format == "geotiff" and asked.parquet is not None:
        raise click.UsageError("--covering and --geoparquet-version are for GeoParquet")
    if asked.part_bytes is not None and asked.format != "parquet-dataset":
        raise click.UsageError("--part-size is for --to parquet-dataset")


def _check_images(asked: ExportRequest) -> None:
    """Refuse what rasters are not written with."""
    if asked.crs is not None or asked.plain or asked.gdal is not None or asked.drop_geometry:
        raise click.UsageError(
            "rasters are written as they are, without --crs, --plain or options for GDAL"
        )
    if len(asked.columns or ()) > 1:
        raise click.UsageError("--columns names one raster column")


def _check_changes(asked: ExportRequest, ref: str | None) -> None:
    """Refuse what changes are not written to, and options that they do not go with."""
    if asked.format in ("delta", "iceberg", "iceberg-v3", "parquet-dataset"):
        raise click.UsageError("changes are written to one file, not to a folder")
    if asked.format == "geotiff":
        raise click.UsageError("changes of rasters are not written as images")
    others = {
        "--ref": ref,
        "--crs": asked.crs,
        "--columns": asked.columns,
        "--plain": asked.plain,
        "--covering or --geoparquet-version": asked.parquet,
        "an option for GDAL": asked.gdal,
        "--drop-geometry": asked.drop_geometry,
        "--part-size": asked.part_bytes,
    }
    if given := [option for option, value in others.items() if value]:
        raise click.UsageError(f"{given[0]} cannot be given with --changes")
