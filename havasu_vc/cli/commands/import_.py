"""`havasu-vc import`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.arguments import parse_names, parse_source, parse_tile
from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.completing import complete_files
from havasu_vc.cli.counts import counted, format_counts
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, gathered, json_option, message_options
from havasu_vc.cli.quick_pyogrio import leave_frames_out
from havasu_vc.datasets.kinds import kind_names
from havasu_vc.errors import NoChangesError
from havasu_vc.exchange.formats import FORMATS
from havasu_vc.exchange.source import RasterReading, SourceOptions
from havasu_vc.library import Repo
from havasu_vc.model.types import Encoding
from havasu_vc.records import dataclass
from havasu_vc.repo.results import ImportResult, Understood
from havasu_vc.sharing import parse_box
from havasu_vc.transfer import parse_table_info
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.cli.forms.kart import Counts
    from havasu_vc.cli.forms.results import Imported, TakenTable

__all__ = ["command", "import_object", "make_karts_copy", "tell_import"]


AUTO = "auto"
"""A word in the place of the name of a key column that is to be found."""
_LISTED = 12
"""Columns that are told; of more, their number."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """The options that say how the source is read."""

    primary_key: tuple[str, ...]
    no_primary_key: bool
    crs: str | None
    geometry_encoding: str
    snapshot: int | None
    bbox: str | None
    columns: tuple[str, ...]
    leave_out: tuple[str, ...]
    csv_wkt: str | None
    csv_lon: str | None
    csv_lat: str | None
    csv_drop_coordinates: bool
    csv_text: tuple[str, ...]
    csv_delimiter: str | None
    csv_encoding: str
    tile: str | None
    out_db: bool
    out_db_base: str | None
    mixed_crs: bool

    @property
    def find_key(self) -> bool:
        """Whether the key is to be found."""
        return parse_names(self.primary_key) == (AUTO,)

    def options(self) -> SourceOptions:
        key = None if self.find_key else parse_names(self.primary_key) or None
        if self.no_primary_key:
            if self.primary_key:
                raise click.UsageError("--primary-key and --no-primary-key contradict each other")
            key = ()
        return SourceOptions(
            primary_key=key,
            crs=self.crs,
            geometry_encoding=Encoding(self.geometry_encoding),
            snapshot=self.snapshot,
            bbox=None if self.bbox is None else parse_box(self.bbox),
            columns=parse_names(self.columns) or None,
            leave_out=parse_names(self.leave_out),
            csv_wkt=self.csv_wkt,
            csv_lon=self.csv_lon,
            csv_lat=self.csv_lat,
            csv_drop_coordinates=self.csv_drop_coordinates,
            csv_text=parse_names(self.csv_text),
            csv_delimiter=_delimiter(self.csv_delimiter),
            csv_encoding=self.csv_encoding,
            raster=RasterReading(
                tile=None if self.tile is None else parse_tile(self.tile),
                out_db=self.out_db or self.out_db_base is not None,
                url_base=self.out_db_base,
                mixed_crs=self.mixed_crs,
            ),
        )


def _delimiter(text: str | None) -> str | None:
    # A shell makes a tab hard to type.
    return "\t" if text in ("tab", "\\t") else text


@click.command("import", cls=Command)
@click.argument("source", shell_complete=complete_files, required=False)
@click.argument("destinations", metavar="[DEST | LAYER[:DEST]...]", nargs=-1)
@click.option(
    "--layer",
    "layers",
    metavar="NAME[:DEST]",
    multiple=True,
    help="Take this layer, perhaps as another dataset; may be repeated.",
)
@click.option("-a", "--all-layers", "--all-tables", is_flag=True, help="Take all layers.")
@click.option("--list-formats", "formats", is_flag=True, help="List what can be imported and stop.")
@click.option("--list", "do_list", is_flag=True, help="List the layers of SOURCE and stop.")
@click.option(
    "--primary-key",
    metavar="COLUMN,...",
    multiple=True,
    help="The columns that tell rows apart; by default what the file says. `auto` takes that, or "
    "the likeliest column whose values are unique and never null.",
)
@click.option("--no-primary-key", is_flag=True, help="Compare rows as wholes, without a key.")
@click.option("--crs", metavar="CRS", help="Use this CRS instead of the file's; such as EPSG:2193.")
@click.option(
    "--geometry-encoding",
    type=click.Choice([each.value for each in Encoding]),
    default=Encoding.EWKB.value,
    show_default=True,
    help="How geometries are stored.",
)
@click.option(
    "--order",
    type=click.Choice(("key", "hilbert", "none")),
    default="key",
    show_default=True,
    help="How rows are ordered in files: by key, by place, or as they come.",
)
@click.option(
    "--replace",
    "--replace-existing",
    is_flag=True,
    help="Compare with the datasets that are there and commit only what differs.",
)
@click.option(
    "--rename",
    "renames",
    metavar="OLD=NEW",
    multiple=True,
    help="With --replace, column OLD of the dataset is called NEW in SOURCE; it keeps its "
    "history. May be repeated.",
)
@click.option(
    "--replace-ids",
    metavar="@FILE|TEXT",
    help="Replace only the rows with these keys, one a line; implies --replace.",
)
@click.option(
    "--table-info",
    metavar="@FILE|JSON",
    help="Titles and descriptions by dataset, instead of the file's, as a JSON object.",
)
@click.option(
    "--similarity-detection-limit",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    metavar="ROWS",
    help="With --replace, where a Kart dataset made its keys: how many rows may come and go for "
    "ones that hardly changed to be searched, which keep their keys. 0 searches none.",
)
@click.option(
    "--as",
    "kind",
    type=click.Choice(kind_names()),
    help="The kind of new datasets; by default that of the repository.",
)
@click.option("--no-checkout", is_flag=True, help="Make no GeoPackage to edit, called `kart`.")
@click.option("-n", "--dry-run", is_flag=True, help="Read and check everything, commit nothing.")
@click.option(
    "--snapshot",
    type=int,
    metavar="ID",
    help="Take this snapshot of an Iceberg table, or version of a Delta table.",
)
@click.option(
    "--history", is_flag=True, help="Make a commit of each version of the table, oldest first."
)
@click.option(
    "--refs",
    is_flag=True,
    help="With --history, make the branches and tags of an Iceberg table git's.",
)
@click.option(
    "--link",
    is_flag=True,
    help="Leave the data files of an Iceberg table where they are, and name them.",
)
@click.option(
    "--bbox",
    metavar="WEST,SOUTH,EAST,NORTH",
    help="Take only the rows whose geometry's box meets this one, in the source's coordinates.",
)
@click.option("--columns", metavar="COLUMN,...", multiple=True, help="Take only these columns.")
@click.option("--leave-out", metavar="COLUMN,...", multiple=True, help="Leave these columns out.")
@click.option("--csv-wkt", metavar="COLUMN", help="The CSV column with geometries as WKT.")
@click.option("--csv-lon", metavar="COLUMN", help="The CSV column with longitudes or eastings.")
@click.option("--csv-lat", metavar="COLUMN", help="The CSV column with latitudes or northings.")
@click.option(
    "--csv-drop-coordinates",
    is_flag=True,
    help="Leave the two coordinate columns out once they are a geometry.",
)
@click.option(
    "--csv-text",
    metavar="COLUMN,...",
    multiple=True,
    help="CSV columns that are text, such as codes, whatever their values look like.",
)
@click.option("--csv-delimiter", metavar="TEXT", help="What stands between CSV values.")
@click.option("--csv-encoding", default="utf-8", show_default=True, help="How a CSV is encoded.")
@click.option(
    "--tile",
    metavar="N|WxH",
    help="Cut images into tiles of this many columns and rows, a row of the table each.",
)
@click.option(
    "--out-db",
    is_flag=True,
    help="Leave the pixels of images where they are; rasters name the file.",
)
@click.option(
    "--out-db-base",
    metavar="URL",
    help="The same, with files named by their path below this URL.",
)
@click.option("--mixed-crs", is_flag=True, help="Let images of one table be in different systems.")
@message_options
@engine_option
@json_option
@click.pass_obj
@gathered(_Reading)
def command(
    invocation: Invocation,
    /,
    source: str | None,
    destinations: tuple[str, ...],
    layers: tuple[str, ...],
    all_layers: bool,
    formats: bool,
    do_list: bool,
    order: str,
    replace: bool,
    renames: tuple[str, ...],
    replace_ids: str | None,
    table_info: str | None,
    kind: str | None,
    no_checkout: bool,
    dry_run: bool,
    history: bool,
    refs: bool,
    link: bool,
    similarity_detection_limit: int,
    message: str | None,
    options: _Reading,
) -> None:
    r"""Take tables in from SOURCE and commit them.

    SOURCE is a GeoParquet, Parquet, GeoPackage, Shapefile, GeoJSON, FlatGeobuf or CSV
    file; a folder or a pattern of Parquet files is one table, also at s3://, gs:// or abfs://,
    where they are read in place. iceberg:FOLDER is an Iceberg
    table, as Spark and PyIceberg write them; instead of FOLDER a metadata file may be named.
    delta:FOLDER is a Delta table. Either may be in a bucket, as iceberg:s3://lake/roads. The
    dataset is called DEST, or as the layer is; of a file with several layers those are taken
    that are named, or all with --all-layers. A GeoTIFF, or a folder or pattern of them, is
    one table with a raster in each row.

    With --replace a dataset that is there is compared by key with the source, and only
    what differs is committed: the way to take in the next release of a published table. With
    --replace-ids only rows whose keys are listed are taken in, or go where SOURCE has none.

    \b
    havasu-vc import survey.gpkg --list
    havasu-vc import survey.gpkg --layer parcels
    havasu-vc import parcels.csv --primary-key id --csv-wkt shape --crs EPSG:2193
    havasu-vc import september.gpkg parcels --replace -m "September"
    """
    if formats:
        _list_formats()
        return
    if source is None:
        raise click.UsageError("Missing argument 'SOURCE'.")
    source = parse_source(source)
    if do_list:
        _list(source, invocation)
        return
    destination, named = _destinations(destinations)
    layers = (*layers, *named)
    if all_layers and layers:
        raise click.UsageError("--layer and --all-layers contradict each other")
    if renames and not replace:
        raise click.UsageError("--rename goes with --replace")
    if options.find_key and (history or link):
        raise click.UsageError("--primary-key auto does not go with --history or --link")
    if refs and not history:
        raise click.UsageError("--refs goes with --history")
    if history and options.snapshot is not None:
        raise click.UsageError("--history and --snapshot contradict each other")
    if link and options.bbox is not None:
        raise click.UsageError("--link takes files as they are, so --bbox cannot be given with it")
    if replace_ids is not None and (history or link):
        raise click.UsageError("--replace-ids goes neither with --history nor with --link")
    if table_info is not None and (history or link):
        raise click.UsageError("--table-info goes neither with --history nor with --link")
    leave_frames_out()
    repo = invocation.open_repo()
    begin = time.monotonic()
    result = repo.import_(
        source,
        destination,
        layers=layers,
        all_layers=all_layers,
        options=options.options(),
        order=order,
        replace=replace or replace_ids is not None,
        replace_ids=None if replace_ids is None else _text(replace_ids).splitlines(),
        table_info={} if table_info is None else parse_table_info(_text(table_info)),
        dry_run=dry_run,
        message=message,
        kind=kind,
        history=history,
        refs=refs,
        link=link,
        find_key=options.find_key,
        renames=_renames(renames),
        similarity_detection_limit=similarity_detection_limit,
    )
    invocation.result("havasu.import/v1", import_object(result))
    seconds = time.monotonic() - begin
    tell_import(invocation, repo, result, seconds=seconds, replace=replace, dry_run=dry_run)
    if not dry_run and not no_checkout:
        make_karts_copy(invocation, repo)


def make_karts_copy(invocation: Invocation, repo: Repo) -> None:
    """Make the GeoPackage to edit where Kart would: after its first import."""
    if not is_called_kart() or not repo.git.is_kart or repo.workspace.exists:
        return
    made = repo.workspace.create_living(None)
    invocation.say(f"Wrote {counted(made.rows, 'row')} to {made.path}")
    invocation.notes(made.notes)


def _text(given: str) -> str:
    """Return a text as it is given, or what the file holds that it names, as in Kart."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{given[1:]} cannot be read: {error}") from error


def _destinations(given: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the dataset that is named behind the source, or the layers, as Kart has them.

    To Kart a lone name is a layer's.
    """
    if len(given) == 1 and ":" not in given[0] and not is_called_kart():
        return given[0], ()
    return None, given


def _renames(given: tuple[str, ...]) -> dict[str, str]:
    """Return new names of columns by old ones."""
    found: dict[str, str] = {}
    for text in given:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise click.UsageError(f"--rename takes OLD=NEW, not {text!r}")
        if old in found or new in found.values():
            raise click.UsageError(f"--rename {text} names a column twice")
        found[old] = new
    return found


def _list(source: str, invocation: Invocation) -> None:
    from havasu_vc.exchange.sources import list_source_layers

    layers = list_source_layers(source)
    if invocation.json is not None:
        invocation.result("havasu.layers/v1", list(layers))
    else:
        for layer in layers:
            click.echo(visible(layer))


def _list_formats() -> None:
    for known in FORMATS:
        if known.extensions:
            click.echo(f"{known.label.removeprefix('a ')}: {', '.join(known.extensions)}")


def _keyless(path: str, possible: tuple[str, ...]) -> str:
    """Return what to know of a table without a key."""
    said = f"{path} has no key, so a row that changes shows as one deleted and one inserted; "
    if not possible:
        return (
            f"{said}import it with --primary-key to see updates, or "
            f"`havasu-vc meta set {path} primary-key=COLUMN`"
        )
    first, *others = possible
    also = f", as {' and '.join(others)} are" if len(others) > 1 else ""
    also = f", as {others[0]} is" if len(others) == 1 else also
    return (
        f"{said}{first} is unique and never null{also}: "
        f"`havasu-vc meta set {path} primary-key={first}` makes it the key, and --primary-key "
        "auto takes it at once"
    )


def import_object(result: ImportResult) -> Imported:
    """Return what came in for programs."""
    datasets: dict[str, Counts] = {
        path: {"inserts": c.inserts, "updates": c.updates, "deletes": c.deletes}
        for path, c in result.datasets.items()
    }
    return {
        "commit": result.commit,
        "branch": result.branch,
        "datasets": datasets,
        "understood": {path: _understood(each) for path, each in result.understood.items()},
        "notes": list(result.notes),
    }


def _understood(table: Understood) -> TakenTable:
    return {
        "rows": table.rows,
        "key": list(table.key),
        "keyFrom": table.key_from,
        "possibleKeys": list(table.possible_keys),
        "crsFrom": table.crs_from,
        "columns": [
            {"name": each.name, "type": each.type, "geometryType": each.shape, "crs": each.crs}
            for each in table.columns
        ],
    }


def _table_lines(table: Understood) -> Iterator[str]:
    """Yield how a table was taken, for a person."""
    if table.key:
        given = {
            "option": "as told",
            "file": "as the file says",
            "dataset": "the dataset's",
            "found": "found: unique and never null",
        }
        yield f"  key: {', '.join(table.key)} ({given[table.key_from or 'file']})"
    systems = {"option": "as told", "file": "as the file says", "assumed": "assumed"}
    for each in table.columns:
        if each.type == "geometry":
            system = "no CRS" if each.crs is None else each.crs
            of = "" if table.crs_from is None or each.crs is None else systems[table.crs_from]
            shape = each.shape or "any geometry"
            yield f"  geometry: {each.name}, {shape}, {system}" + (f" ({of})" if of else "")
    plain = [f"{each.name} {each.type}" for each in table.columns if each.type != "geometry"]
    if plain:
        more = f" and {len(plain) - _LISTED} more" if len(plain) > _LISTED else ""
        yield f"  columns: {', '.join(plain[:_LISTED])}{more}"


def tell_import(
    invocation: Invocation,
    repo: Repo,
    result: ImportResult,
    *,
    seconds: float | None = None,
    replace: bool = False,
    dry_run: bool = False,
) -> None:
    """Tell what came in."""
    verb = "Would import" if dry_run else "Imported"
    took = "" if seconds is None else f" in {seconds:.1f} s"
    for path, counts in result.datasets.items():
        if replace and not counts.total:
            invocation.say(f"No row of {path} differs")
            continue
        changed = counts.updates or counts.deletes or replace
        rows = format_counts(counts) if changed else counted(counts.inserts, "row")
        invocation.say(f"{verb} {rows} into {path}{took}")
        if path in result.understood and not replace:
            for line in _table_lines(result.understood[path]):
                invocation.say(line)
    if result.commit is not None:
        where = result.branch or "detached HEAD"
        subject = repo.commit_info(result.commit).message.partition("\n")[0]
        invocation.say(f"[{where} {result.commit[:ABBREVIATED]}] {subject}")
    elif not dry_run and is_called_kart():
        raise NoChangesError("nothing changed, nothing is committed")
    elif not dry_run:
        invocation.say("Nothing changed, nothing is committed")
    for path in result.datasets if dry_run or result.commit is not None else ():
        taken = result.understood.get(path)
        if taken is None:
            keyed = dry_run or bool(repo.dataset(path).schema.key)
        else:
            keyed = taken.key_from is not None
        if not keyed:
            invocation.note(_keyless(path, () if taken is None else taken.possible_keys))
    invocation.notes(result.notes)
