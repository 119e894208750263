"""`havasu-vc import`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.arguments import parse_names, parse_source, parse_tile
from havasu_vc.cli.as_kart import is_called_kart, is_in_karts_place
from havasu_vc.cli.branches import tell_update
from havasu_vc.cli.completing import complete_files
from havasu_vc.cli.counts import counted, format_counts
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.imports import in_karts_order, of_all, path_as_karts
from havasu_vc.cli.options import (
    Command,
    engine_option,
    json_option,
    karts_import_options,
    message_options,
)
from havasu_vc.cli.quick_pyogrio import leave_frames_out
from havasu_vc.cli.requests import DRY_RUN, NAMES, Spelt, takes
from havasu_vc.datasets.kinds import kind_names
from havasu_vc.errors import InvalidArgumentError, NoChangesError
from havasu_vc.exchange.addresses import parse_table_address
from havasu_vc.exchange.boxes import parse_box
from havasu_vc.exchange.formats import FORMATS, IMPORT_EXTENSIONS
from havasu_vc.exchange.source import RasterReading, SourceOptions
from havasu_vc.library import Repo
from havasu_vc.model.types import Encoding
from havasu_vc.repo.results import ImportResult, Understood
from havasu_vc.transfer import ImportRequest
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.cli.forms.kart import Counts
    from havasu_vc.cli.forms.results import Imported, TakenTable
    from havasu_vc.transfer import TableInfo

__all__ = [
    "command",
    "import_object",
    "key_option",
    "make_karts_copy",
    "tell_import",
    "with_key",
]


AUTO = "auto"
"""A word in the place of the name of a key column that is to be found."""
_LISTED = 12
"""Columns that are told; of more, their number."""


def _key(given: Sequence[str], *, none: bool) -> tuple[str, ...] | None:
    """Return the columns of the key that is asked for; None where none is named."""
    if none and given:
        raise click.UsageError("--primary-key and --no-primary-key contradict each other")
    names = parse_names(given)
    return () if none else None if names == (AUTO,) else names or None


def _delimiter(text: str | None) -> str | None:
    # A shell makes a tab hard to type.
    return "\t" if text in ("tab", "\\t") else text


def _table_info(given: str) -> dict[str, TableInfo]:
    """Return what is said of tables; what reads it is loaded when something is."""
    from havasu_vc.transfer import parse_table_info

    return parse_table_info(_text(given))


def _lines(text: str) -> list[str]:
    """Return the lines of a text: a key may have what Python takes for the end of one."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _text(given: str) -> str:
    """Return a text as it is given, or what the file holds that it names, as in Kart."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{given[1:]} cannot be read: {error}") from error


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


key_option = click.option(
    "--primary-key",
    metavar="COLUMN,...",
    multiple=True,
    help="The columns that tell rows apart; by default what the file says. `auto` takes that, or "
    "the likeliest column whose values are unique and never null.",
)


def with_key(asked: ImportRequest, given: Sequence[str], *, none: bool = False) -> ImportRequest:
    """Return an import that takes the key which options name, or finds one."""
    if given and not any(given) and is_called_kart():
        raise click.UsageError("Cannot use column '' as primary key - column not found")
    options = dataclasses.replace(
        asked.options or SourceOptions(), primary_key=_key(given, none=none)
    )
    return dataclasses.replace(asked, options=options, find_key=parse_names(given) == (AUTO,))


@click.command("import", cls=Command)
@click.argument("source", shell_complete=complete_files, required=False)
@click.argument("destinations", metavar="[DEST | LAYER[:DEST]...]", nargs=-1)
@click.option("--list-formats", "formats", is_flag=True, help="List what can be imported and stop.")
@click.option("--list", "do_list", is_flag=True, help="List the layers of SOURCE and stop.")
@key_option
@click.option("--no-primary-key", is_flag=True, help="Compare rows as wholes, without a key.")
@takes(
    ImportRequest,
    layers=Spelt("--layer", metavar="NAME[:DEST]"),
    all_layers=Spelt("-a --all-layers --all-tables"),
    order=Spelt(type=click.Choice(("key", "hilbert", "none")), show_default=True),
    replace=Spelt("--replace --replace-existing"),
    no_checkout=Spelt("--no-checkout/--checkout"),
    dry_run=DRY_RUN,
    kind=Spelt("--as", type=click.Choice(kind_names())),
    similarity_detection_limit=Spelt(metavar="ROWS", type=click.IntRange(min=0), show_default=True),
    renames=Spelt("--rename", metavar="OLD=NEW", multiple=True, parse=_renames),
    replace_ids=Spelt(metavar="@FILE|TEXT", multiple=False, parse=lambda text: _lines(_text(text))),
    table_info=Spelt(metavar="@FILE|JSON", parse=_table_info),
    without=(
        "location",
        "destination",
        "options",
        "message",
        "branch",
        "find_key",
        "same_columns",
        "take_texts",
    ),
)
@click.option(
    "--dataset-path",
    "--dataset",
    "dataset_path",
    metavar="DEST",
    help="The dataset's path, for a single layer.",
)
@karts_import_options
@takes(
    SourceOptions,
    "reading",
    crs=Spelt(metavar="CRS"),
    geometry_encoding=Spelt(
        type=click.Choice([each.value for each in Encoding]), parse=Encoding, show_default=True
    ),
    columns=Spelt(
        metavar="COLUMN,...", multiple=True, parse=lambda texts: parse_names(texts) or None
    ),
    leave_out=NAMES,
    snapshot=Spelt(metavar="ID"),
    bbox=Spelt(metavar="WEST,SOUTH,EAST,NORTH", parse=parse_box),
    csv_wkt=Spelt(metavar="COLUMN"),
    csv_lon=Spelt(metavar="COLUMN"),
    csv_lat=Spelt(metavar="COLUMN"),
    csv_text=NAMES,
    csv_delimiter=Spelt(parse=_delimiter),
    csv_encoding=Spelt(show_default=True),
    without=("primary_key", "keep_encoding", "allowed", "columns_of_now", "for_kart", "raster"),
)
@takes(
    RasterReading,
    "raster",
    tile=Spelt(metavar="N|WxH", parse=parse_tile),
    url_base=Spelt("--out-db-base", metavar="URL"),
)
@message_options
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: ImportRequest,
    reading: SourceOptions | None,
    raster: RasterReading | None,
    source: str | None,
    destinations: tuple[str, ...],
    formats: bool,
    do_list: bool,
    primary_key: tuple[str, ...],
    no_primary_key: bool,
    dataset_path: str | None,
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
    request, destinations = of_all(request, destinations)
    if source is None:
        raise click.UsageError("Missing argument 'SOURCE'.")
    source, table = parse_table_address(parse_source(source))
    if do_list:
        _list(source, invocation, every=request.all_layers)
        return
    _require_text(invocation)
    as_kart = _names_layers(invocation, source, destinations)
    destination, named = _destinations(destinations, as_kart=as_kart)
    asked = _at_path(_named(request, source, table, destination, named), dataset_path)
    options = _options(reading or SourceOptions(), raster or RasterReading())
    replaces = request.replace or request.replace_ids is not None
    asked = dataclasses.replace(asked, options=options, replace=replaces)
    asked = with_key(asked, primary_key, none=no_primary_key)
    _check(asked, options, replaces=request.replace)
    leave_frames_out()
    repo = invocation.open_repo()
    _import(invocation, repo, asked, replaces=request.replace)
    if not (request.dry_run or request.no_checkout):
        make_karts_copy(invocation, repo)


def _require_text(invocation: Invocation) -> None:
    """Raise where an import is to be told in JSON in Kart's place, which tells lists alone so."""
    if is_called_kart() and invocation.json is not None:
        raise click.UsageError("Illegal usage: '--output-format=json' only supports --list")


def _import(invocation: Invocation, repo: Repo, asked: ImportRequest, *, replaces: bool) -> None:
    """Take layers in, and tell of them and of how long it took."""
    source, dry = str(asked.location), asked.dry_run
    begin = time.monotonic()
    result = in_karts_order(repo.import_.by(asked), asked)
    invocation.result("havasu.import/v1", import_object(result))
    seconds = time.monotonic() - begin
    tell_import(invocation, repo, result, source, seconds=seconds, replace=replaces, dry_run=dry)
    if not dry:
        tell_update(invocation, repo)


def _options(reading: SourceOptions, raster: RasterReading) -> SourceOptions:
    """Return how a source is read: a place of images by a URL means that they stay outside."""
    outside = raster.out_db or raster.url_base is not None
    raster = dataclasses.replace(raster, out_db=outside)
    return dataclasses.replace(reading, raster=raster)


def _named(
    request: ImportRequest,
    source: str,
    table: str | None,
    destination: str | None,
    named: tuple[str, ...],
) -> ImportRequest:
    """Return a request of layers of a source, by what stands after it on the command line."""
    if table is not None:
        named, destination = (f"{table}:{destination}" if destination else table, *named), None
    if not (named or destination or request.layers or request.all_layers):
        named = _asked_layers(source)
    layers = (*request.layers, *named)
    request = dataclasses.replace(request, take_texts=is_called_kart())
    return dataclasses.replace(request, location=source, destination=destination, layers=layers)


def _at_path(asked: ImportRequest, path: str | None) -> ImportRequest:
    """Return an import whose one layer becomes the dataset at a path, where one is given."""
    if path is None or (is_called_kart() and not path):
        return asked
    # A lone name behind the source is a layer's here, as the dataset is named.
    layers = asked.layers if asked.destination is None else (asked.destination, *asked.layers)
    if asked.all_layers or len(layers) > 1:
        raise click.UsageError("--dataset-path goes with a single layer")
    if any(":" in layer for layer in layers):
        raise click.UsageError("--dataset-path and LAYER:DEST contradict each other")
    if not layers:
        return dataclasses.replace(asked, destination=path)
    return dataclasses.replace(asked, destination=None, layers=(f"{layers[0]}:{path}",))


def _check(asked: ImportRequest, options: SourceOptions, *, replaces: bool) -> None:
    """Refuse options that do not go together."""
    if asked.all_layers and asked.layers:
        raise click.UsageError("--layer and --all-layers contradict each other")
    if asked.renames and not replaces:
        raise click.UsageError("--rename goes with --replace")
    if asked.find_key and (asked.history or asked.link):
        raise click.UsageError("--primary-key auto does not go with --history or --link")
    if asked.refs and not asked.history:
        raise click.UsageError("--refs goes with --history")
    if asked.history and options.snapshot is not None:
        raise click.UsageError("--history and --snapshot contradict each other")
    if asked.link and options.bbox is not None:
        raise click.UsageError("--link takes files as they are, so --bbox cannot be given with it")
    if asked.replace_ids is not None and (asked.history or asked.link):
        raise click.UsageError("--replace-ids goes neither with --history nor with --link")
    if asked.table_info and (asked.history or asked.link):
        raise click.UsageError("--table-info goes neither with --history nor with --link")


def make_karts_copy(invocation: Invocation, repo: Repo) -> None:
    """Make the GeoPackage to edit where Kart would: after its first import."""
    if not is_called_kart() or not repo.git.is_kart or repo.workspace.exists:
        return
    from havasu_vc.cli.commands.checkout import tell_karts

    tell_karts(invocation, repo, repo.workspace.create_living(None))


def _asked_layers(source: str) -> tuple[str, ...]:
    """Return the layer that a person chooses of several, as Kart asks; none where none is asked.

    Called `kart` it is asked also where no terminal is, since scripts answer there.
    """
    if not (is_called_kart() or (sys.stdin.isatty() and sys.stderr.isatty())):
        return ()
    from havasu_vc.exchange.sources import titled_layers

    layers = dict(sorted(titled_layers(source).items()))  # numbered as Kart numbers them
    if len(layers) < 2:
        return ()
    click.echo("Tables found:")
    names = list(layers)
    for line in _layer_lines(layers):
        click.echo(line)
    click.echo()
    answer = _answer()
    if answer is None:
        none = InvalidArgumentError("No table specified")
        none.hints = ("name one behind SOURCE, or take all with --all-layers",)
        raise none
    if answer.isdecimal() and answer not in layers and 0 < int(answer) <= len(names):
        answer = names[int(answer) - 1]
    return (answer,)


def _answer() -> str | None:
    """Return what somebody at a terminal, or a script, answers; None where nobody does."""
    asked = "Select a table to import"
    if not sys.stdin.isatty():
        line = sys.stdin.readline().strip()
        if line:
            click.echo(f"{asked}: ", nl=False)
        return line or None
    try:
        return click.prompt(asked, type=str, default="", show_default=False) or None
    except click.Abort:
        return None


def _names_layers(invocation: Invocation, source: str, given: tuple[str, ...]) -> bool:
    """Whether what stands behind a file names its layers: in Kart's place, of files it reads.

    A repository that is not there is told before anything is asked.
    """
    suffix = Path(source).suffix.lower()
    other = suffix in IMPORT_EXTENSIONS and suffix not in (".gpkg", ".shp")
    if not ((is_called_kart() and not other) or (given and suffix == ".gpkg")):
        return False
    return is_in_karts_place(invocation.open_repo(rows=False).git)


def _check_one_source(given: tuple[str, ...]) -> None:
    """Raise where a file stands behind the source, as of `*.gpkg`: it would name a dataset."""
    for each in given:
        if Path(each).suffix.lower() in IMPORT_EXTENSIONS and Path(each).is_file():
            raise InvalidArgumentError(
                f"{each} is a file, and what stands behind SOURCE names a dataset",
                hints=("import one file after another; -m names each commit",),
            )


def _destinations(given: tuple[str, ...], *, as_kart: bool) -> tuple[str | None, tuple[str, ...]]:
    """Return the dataset that is named behind the source, or the layers, as Kart has them.

    To Kart a lone name is a layer's.
    """
    _check_one_source(given)
    if is_called_kart() and any(each.endswith(":") for each in given):
        raise click.BadParameter("Invalid dataset path", param_hint="TABLE_DATASET")
    if len(given) == 1 and ":" not in given[0] and not as_kart:
        return given[0], ()
    if is_called_kart():  # where a path of Windows names a dataset as well
        parts = (each.partition(":") for each in given)
        given = tuple(f"{name}{colon}{path_as_karts(path)}" for name, colon, path in parts)
    return None, given


def _list(source: str, invocation: Invocation, *, every: bool) -> None:
    from havasu_vc.exchange.sources import list_source_layers

    if is_called_kart():
        if every:
            raise click.UsageError(
                "Illegal usage: '--list' is mutually exclusive with '--all-tables' / '-a'."
            )
        _list_as_kart(source, invocation)
        return
    layers = list_source_layers(source)
    if invocation.json is not None:
        invocation.result("havasu.layers/v1", list(layers))
    else:
        for layer in layers:
            click.echo(visible(layer))


def _list_as_kart(source: str, invocation: Invocation) -> None:
    """Print layers with what they are called for people, in the order in which Kart has them."""
    from havasu_vc.exchange.sources import titled_layers

    titles = dict(sorted(titled_layers(source).items()))
    if invocation.json is not None:
        invocation.result("kart.tables/v1", titles)
    else:
        click.echo("Tables found:")
        for line in _layer_lines(titles):
            click.echo(line)


def _layer_lines(titles: Mapping[str, str | None]) -> Iterator[str]:
    """Yield layers as a numbered list, each with what it is called for people, if it is."""
    for number, (name, title) in enumerate(titles.items(), 1):
        yield visible(f"{number}. {name} - {title}" if title else f"{number}. {name}")


def _list_formats() -> None:
    if is_called_kart():
        from havasu_vc.cli.kart.texts_of_places import KARTS_SOURCES

        for kind in KARTS_SOURCES:
            click.echo(f"    {kind}")
        return
    for known in FORMATS:
        if known.extensions:
            click.echo(f"{known.label.removeprefix('a ')}: {', '.join(known.extensions)}")


def _keyless(path: str, possible: tuple[str, ...]) -> str:
    """Return what to know of a table without a key."""
    said = f"{path} has no key, so a row that changes shows as one deleted and one inserted; "
    if not possible:
        return (
            f"{said}import it with --primary-key to see updates, or "
            f"`havasu-vc meta set {shlex.quote(path)} primary-key=COLUMN`"
        )
    first, *others = possible
    also = f", as {' and '.join(others)} are" if len(others) > 1 else ""
    also = f", as {others[0]} is" if len(others) == 1 else also
    return (
        f"{said}{first} is unique and never null{also}: "
        f"`havasu-vc meta set {shlex.quote(path)} primary-key={shlex.quote(first)}` makes it "
        f"the key, and --primary-key "
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
    systems["dataset"] = "the dataset's"
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
    source: str | None = None,
    *,
    seconds: float | None = None,
    replace: bool = False,
    dry_run: bool = False,
) -> None:
    """Tell what came in."""
    as_kart = bool(source) and is_called_kart() and not dry_run
    if source and as_kart:
        from havasu_vc.cli.kart.imports import import_lines

        for line in import_lines(result, source, seconds or 0):
            invocation.say(line)
    verb = "Would import" if dry_run else "Imported"
    took = "" if seconds is None else f" in {seconds:.1f} s"
    for path, counts in () if as_kart else result.datasets.items():
        if replace and not counts.total:
            invocation.say(f"No row of {path} differs")
            continue
        changed = counts.updates or counts.deletes or replace
        rows = format_counts(counts) if changed else counted(counts.inserts, "row")
        invocation.say(f"{verb} {rows} into {path}{took}")
        if path in result.understood and not replace:
            for line in _table_lines(result.understood[path]):
                invocation.say(line)
    if result.commit is not None and not as_kart:
        where = result.branch or "detached HEAD"
        subject = repo.commit_info(result.commit).message.partition("\n")[0]
        invocation.say(f"[{where} {result.commit[:ABBREVIATED]}] {subject}")
    elif not dry_run and result.commit is None and is_called_kart():
        raise NoChangesError("nothing changed, nothing is committed")
    elif not dry_run and result.commit is None:
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
