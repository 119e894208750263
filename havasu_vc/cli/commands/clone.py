"""`havasu-vc clone`."""

from __future__ import annotations

from pathlib import Path

import click

from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.repo import Repo

__all__ = ["command"]


@click.command("clone", cls=Command)
@click.argument("url")
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("-b", "--branch", metavar="NAME", help="Be on this branch.")
@click.option("--bare", is_flag=True, help="Make a repository without a work tree.")
@click.option("--depth", type=click.IntRange(1), help="Bring only so many commits of history.")
@click.option(
    "--filter",
    "what",
    type=click.Choice(("data",)),
    help="With `data`, leave data files until something reads them.",
)
@click.option("--data-url", metavar="URL", help="The folder or bucket with the data files.")
@click.option("-n", "--no-checkout", is_flag=True, help="Make no tables in the work tree.")
@click.pass_obj
def command(
    invocation: Invocation,
    url: str,
    directory: Path | None,
    branch: str | None,
    bare: bool,
    depth: int | None,
    what: str | None,
    data_url: str | None,
    no_checkout: bool,
) -> None:
    """Clone a repository with its data into DIRECTORY.

    URL is anything that git takes. The tables of its branch are checked out in `tables/`.
    A clone that was cut off while data came goes on with `havasu-vc fetch`.
    """
    from havasu_vc.repo.cloning import CloneRequest, folder_of

    place = invocation.folder / (directory or folder_of(url))
    request = CloneRequest(
        url,
        place,
        branch,
        bare=bare,
        depth=depth,
        data_url=data_url,
        on_demand=what == "data",
    )
    repo, fetched = Repo.clone(request, settings=invocation.settings())
    if fetched.files:
        size = format_size(fetched.size)
        invocation.say(f"Cloned into {place}: {counted(fetched.files, 'data file')}, {size}")
    else:
        invocation.say(f"Cloned into {place}")
    if not (bare or no_checkout or repo.git.is_kart) and repo.datasets():
        result = repo.workspace.check_out()
        invocation.say(f"Checked out {counted(len(repo.datasets()), 'table')} in {result.root}")
