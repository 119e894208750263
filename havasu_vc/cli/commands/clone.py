"""`havasu-vc clone`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.branches import head_object
from havasu_vc.cli.commands.checkout import copy_object, tables_object, tell_tables
from havasu_vc.cli.completing import complete_files
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option, spatial_filter_option
from havasu_vc.library import Repo

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Cloned, Tables, WrittenCopy
    from havasu_vc.sharing import FetchResult

__all__ = ["command"]


@click.command("clone", cls=Command)
@click.argument("url", shell_complete=complete_files)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("-b", "--branch", metavar="NAME", help="Be on this branch.")
@click.option("--bare", is_flag=True, help="Make a repository without a work tree.")
@click.option("--depth", type=click.IntRange(1), help="Bring only so many commits of history.")
@click.option(
    "--filter",
    "what",
    metavar="data|SPEC",
    help="With `data`, leave data files until something reads them; with a filter of git's, such "
    "as blob:none, git's objects, and so the rows of Kart datasets.",
)
@click.option(
    "--dataset",
    "datasets",
    metavar="PATH",
    multiple=True,
    help="Bring only this dataset's data; may be repeated.",
)
@click.option(
    "--bbox",
    metavar="W,S,E,N",
    help="Bring only data files that may have geometries in this box, in their own coordinates.",
)
@click.option("--data-url", metavar="URL", help="The folder or bucket with the data files.")
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
@click.option("--bundle-uri", metavar="URI", help="Take objects from this bundle first.")
@click.option(
    "--workingcopy",
    "--workingcopy-location",
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
    url: str,
    directory: Path | None,
    what: str | None,
    datasets: tuple[str, ...],
    bbox: str | None,
    do_checkout: bool,
    as_karts: bool,
    bundle_uri: str | None,
    branch: str | None,
    bare: bool,
    depth: int | None,
    data_url: str | None,
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
    from havasu_vc.checkouts import is_place
    from havasu_vc.sharing import CloneRequest, Part, folder_of, parse_box

    no_checkout = not do_checkout
    place = invocation.folder / (directory or folder_of(url, bare=bare))
    part = Part(datasets, None if bbox is None else parse_box(bbox)) if datasets or bbox else None
    if location is not None and (bare or no_checkout):
        raise click.UsageError("--workingcopy does not go with --bare or --no-checkout")
    if location is not None and not is_place(location):
        raise click.UsageError(
            f"--workingcopy {location}: it is a file that ends in .gpkg, or "
            "postgresql://USER@HOST/DATABASE/SCHEMA"
        )
    tables = not (bare or no_checkout or what == "data" or bbox is not None)
    limits = None
    if spatial_filter is not None:
        from havasu_vc.repo.spatial_filters import parse_spatial_filter

        limits = parse_spatial_filter(spatial_filter, invocation.folder)
    limited = limits is not None and not limits.is_none
    on_demand = what == "data" or (limited and not after)
    later = None if what in (None, "data") else what
    request = CloneRequest(
        url,
        place,
        on_demand=on_demand,
        part=part,
        base=invocation.folder,
        tables=tables,
        branch=branch,
        bare=bare,
        depth=depth,
        data_url=data_url,
        kart=as_karts,
        filter=later,
        bundle_uri=bundle_uri,
    )
    repo, fetched = Repo.clone(request, settings=invocation.settings())
    if fetched.files:
        size = format_size(fetched.size)
        invocation.say(f"Cloned into {place}: {counted(fetched.files, 'data file')}, {size}")
    else:
        invocation.say(f"Cloned into {place}")
    if limits is not None:
        repo.workspace.take_spatial_filter(limits)
        if limited and location is None and not repo.workspace.is_meant and not repo.git.is_bare:
            location = repo.workspace.default_location
    if repo.workspace.plan_living(location) and not no_checkout and repo.datasets():
        made = repo.workspace.create_living()
        invocation.say(f"Wrote {counted(made.rows, 'row')} to {made.path}")
        invocation.notes(made.notes)
        repo.finish_clone()
        _print(invocation, repo, fetched, copy=copy_object(made))
        return
    if repo.git.is_bare or no_checkout or repo.git.is_kart or not repo.datasets():
        repo.finish_clone()
        _print(invocation, repo, fetched)
        return
    if what == "data" or bbox is not None:
        invocation.say("No tables are made; `havasu-vc checkout` makes them and brings their data")
        _print(invocation, repo, fetched)
        return
    result = repo.workspace.check_out()
    repo.finish_clone()
    _print(invocation, repo, fetched, tables=tables_object(result))
    tell_tables(invocation, result)


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
