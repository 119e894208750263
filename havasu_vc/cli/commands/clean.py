"""`havasu-vc clean`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from havasu_vc.checkouts import CleanRequest
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.cli.requests import DRY_RUN, Spelt, takes
from havasu_vc.errors import StateError

__all__ = ["command"]


@click.command("clean", cls=Command)
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(path_type=Path))
@takes(
    CleanRequest,
    dry_run=DRY_RUN,
    folders=Spelt("-d"),
    ignored=Spelt("-x"),
    without=("paths", "folder"),
)
@click.option("-f", "--force", is_flag=True, help="Remove it.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: CleanRequest,
    force: bool,
) -> None:
    """Remove what nothing tracks from the work tree, as git clean does.

    That is: files that git does not know; tables that an engine made beside those of `checkout`;
    and layers that an editor made in the working copy, which `add-dataset` would make datasets.
    What is checked out stays with -x too, edits and all. One of -n and -f is needed, unless
    clean.requireForce is false. Without PATH it is about the current folder and what is below it;
    a PATH that is a folder needs no -d.
    In a repository of Kart's it is about layers alone.
    """
    repo = invocation.open_repo(rows=False)
    if not request.dry_run and not force and repo.git.config.boolean("clean.requireForce", True):
        raise StateError(
            "neither -n nor -f is given, so nothing is removed",
            hints=("`havasu-vc clean -n` tells what would go, `havasu-vc clean -f` removes it",),
        )
    paths = [invocation.folder / path for path in request.paths]
    asked = replace(request, paths=paths, folder=invocation.folder)
    found = repo.workspace.clean.by(asked)
    word = "Would remove" if request.dry_run else "Removed"
    for kind, names in (("", found.files), ("table ", found.tables), ("layer ", found.layers)):
        for name in names:
            invocation.say(f"{word} {kind}{name}")
