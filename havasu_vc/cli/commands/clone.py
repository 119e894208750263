"""`havasu-vc clone`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart, stand_in
from havasu_vc.cli.branches import head_object
from havasu_vc.cli.commands.checkout import (
    copy_object,
    tables_object,
    tell_karts,
    tell_tables,
)
from havasu_vc.cli.completing import complete_files
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.invocation import Invocation, require_no_file
from havasu_vc.cli.options import Command, json_option, spatial_filter_option
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.errors import NotYetSupportedError, StateError
from havasu_vc.exchange.boxes import parse_box
from havasu_vc.library import Repo
from havasu_vc.sharing import CloneRequest, Part

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Cloned, Tables, WrittenCopy
    from havasu_vc.repo.spatial_filters import SpatialFilter
    from havasu_vc.sharing import FetchResult

__all__ = ["command"]


@click.command("clone", cls=Command)
@click.argument("url", shell_complete=complete_files)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@takes(
    Part,
    "part",
    datasets=Spelt("--dataset", metavar="PATH"),
    box=Spelt("--bbox", metavar="W,S,E,N", parse=parse_box),
)
@takes(
    CloneRequest,
    branch=Spelt("-b --branch", metavar="NAME"),
    depth=Spelt(type=click.INT),
    filter=Spelt(metavar="data|SPEC"),
    data_url=Spelt(metavar="URL"),
    bundle_uri=Spelt(metavar="URI"),
    without=("url", "folder", "on_demand", "part", "base", "tables", "kart"),
)
@click.option(
    "--checkout/--no-checkout",
    "-c/-n",
    "do_checkout",
    default=True,
    help="Whether to make tables or a working copy.",
)
@click.option(
    "--kart",
    "as_karts",
    is_flag=True,
    default=is_called_kart,
    help="Make a repository that Kart opens, with a working copy as Kart's.",
)
@click.option(
    "--workingcopy",
    "--workingcopy-location",
    "--workingcopy-path",
    "location",
    metavar="PLACE",
    help="Make the working copy PLACE, as create-workingcopy does, and no tables.",
)
@spatial_filter_option
@click.option(
    "--spatial-filter-after-clone/--spatial-filter-during-clone",
    "after",
    help="Bring all data files of Havasu datasets at once, or only what the area needs.",
)
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: CloneRequest,
    directory: Path | None,
    do_checkout: bool,
    as_karts: bool,
    location: str | None,
    spatial_filter: str | None,
    after: bool,
) -> None:
    """Clone a repository with its data into DIRECTORY.

    URL is anything that git takes. The tables of its branch are checked out in `tables/`;
    where havasu.workingcopy.location is set, a working copy is made instead.
    A clone that was cut off goes on when the same command is given again.

    With `--spatial-filter`, a working copy is made that has the rows of an area, and data files
    that it does not need come when something reads them. Of Kart datasets all rows are brought.

    With `--dataset`, they are those of the datasets named. With `--filter=data` or `--bbox`
    no tables are made: `havasu-vc checkout` makes them, and brings what they lack. Data files
    that were not brought come when something reads them.
    """
    from havasu_vc.sharing import folder_of

    if as_karts:
        stand_in()
    _check(request, location, tables=do_checkout and not request.bare)
    limits = _limits(invocation, spatial_filter, as_karts=as_karts)
    limited = limits is not None and not limits.is_none
    of_data = request.filter == "data"
    of_box = request.part is not None and request.part.box is not None
    require_no_file(invocation.here, directory)
    nowhere = is_called_kart() and not request.url  # which is here to Kart
    named = directory or ("" if nowhere else folder_of(request.url, bare=request.bare))
    folder = invocation.here / named
    request = replace(
        request,
        folder=folder.resolve() if is_called_kart() else folder,
        on_demand=of_data or (limited and not after),
        base=invocation.here,
        tables=do_checkout and not (request.bare or of_data or of_box),
        kart=as_karts,
        filter=None if of_data else request.filter,
    )
    repo, fetched = _clone(invocation, request)
    came = f": {counted(fetched.files, 'data file')}, {format_size(fetched.size)}"
    invocation.say(f"Cloned into {request.folder}{came if fetched.files else ''}", aside=True)
    invocation.note_system()
    if limits is not None:
        repo.workspace.take_spatial_filter(limits)
        if limited and location is None and not repo.workspace.is_meant and not repo.git.is_bare:
            location = repo.workspace.default_location
    if location is not None and is_called_kart():
        location = repo.workspace.named_in(invocation.here, location)
    planned = repo.workspace.plan_living(location)
    _check_out(
        invocation, repo, fetched, living=planned, wanted=do_checkout, whole=not (of_data or of_box)
    )


def _clone(invocation: Invocation, request: CloneRequest) -> tuple[Repo, FetchResult]:
    """Clone; called `kart`, tell so in git's words, as Kart has it."""
    begins = f"Cloning into '{request.folder}/.clone'..."
    if request.bare:
        begins = f"Cloning into bare repository '{request.folder}'..."
    try:
        repo, fetched = Repo.clone(request, settings=invocation.settings())
    except StateError as error:
        if is_called_kart() and invocation.progress and "does not exist" not in error.message:
            invocation.say(begins, aside=True)
        raise
    if is_called_kart():
        _tell_as_git(invocation, repo, request, begins)
    return repo, fetched


def _tell_as_git(invocation: Invocation, repo: Repo, request: CloneRequest, begins: str) -> None:
    if invocation.progress:  # or else git is told to be quiet
        invocation.say(begins, aside=True)
    near = request.base is not None and (request.base / request.url).exists()
    if near and request.depth is not None:
        invocation.say(
            "warning: --depth is ignored in local clones; use file:// instead.", aside=True
        )
    if repo.git.git("rev-list", "-n1", "--all").text == "":
        invocation.say("warning: You appear to have cloned an empty repository.", aside=True)
    if near and invocation.progress:
        invocation.say("done.", aside=True)


def _check_out(
    invocation: Invocation,
    repo: Repo,
    fetched: FetchResult,
    *,
    living: bool,
    wanted: bool,
    whole: bool,
) -> None:
    """Make the tables or the working copy of a clone, where it is to have some."""
    if living and wanted and repo.datasets():
        made = repo.workspace.create_living()
        if is_called_kart() and repo.git.is_kart:
            tell_karts(invocation, repo, made)
        else:
            invocation.say(f"Wrote {counted(made.rows, 'row')} to {made.path}")
            invocation.notes(made.notes)
        repo.finish_clone()
        _print(invocation, repo, fetched, copy=copy_object(made))
    elif not wanted or repo.git.is_bare or repo.git.is_kart or not repo.datasets():
        repo.finish_clone()
        _print(invocation, repo, fetched)
    elif not whole:
        invocation.say("No tables are made; `havasu-vc checkout` makes them and brings their data")
        _print(invocation, repo, fetched)
    else:
        result = repo.workspace.check_out()
        repo.finish_clone()
        _print(invocation, repo, fetched, tables=tables_object(result))
        tell_tables(invocation, result)


def _check(request: CloneRequest, location: str | None, *, tables: bool) -> None:
    """Refuse a place where no working copy can be made, and a depth that is none."""
    from havasu_vc.checkouts import require_place

    if request.depth is not None and request.depth < 1 and not is_called_kart():
        raise click.BadParameter(
            f"{request.depth} is not in the range x>=1.", param_hint="'--depth'"
        )
    if location is None:
        return
    if not tables and not is_called_kart():
        raise click.UsageError("--workingcopy does not go with --bare or --no-checkout")
    require_place(location)


def _limits(
    invocation: Invocation, spatial_filter: str | None, *, as_karts: bool
) -> SpatialFilter | None:
    if spatial_filter is None:
        return None
    from havasu_vc.repo.spatial_filters import parse_spatial_filter

    limits = parse_spatial_filter(spatial_filter, invocation.here)
    if limits.reference is not None and as_karts:
        raise NotYetSupportedError(
            f"a clone takes no spatial filter by its name, {spatial_filter}",
            hints=(
                "give it as CRS;POLYGON((...)) or @FILE, or clone first: `havasu-vc checkout "
                "--spatial-filter NAME` takes it",
            ),
        )
    return limits


def _print(
    invocation: Invocation,
    repo: Repo,
    fetched: FetchResult,
    *,
    tables: Tables | None = None,
    copy: WrittenCopy | None = None,
) -> None:
    if invocation.json is not None:
        value: Cloned = {
            **head_object(repo),
            "path": str(repo.path),
            "files": fetched.files,
            "size": fetched.size,
            "tables": tables,
            "workingCopy": copy,
        }
        invocation.result("havasu.clone/v1", value)
