"""`havasu-vc count`."""

from __future__ import annotations

import click

from havasu_vc.cli.arguments import parse_dataset_at
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option
from havasu_vc.cli.table_rows import rows_options
from havasu_vc.looking import RowsRequest

__all__ = ["command"]


@click.command("count", cls=Command)
@click.argument("places", metavar="DATASET[@REV]...", nargs=-1, shell_complete=complete_datasets)
@rows_options("where")
@engine_option
@json_option
@click.pass_obj
def command(invocation: Invocation, /, request: RowsRequest, places: tuple[str, ...]) -> None:
    """Print how many rows datasets have, at HEAD or at REV; without a name, all of HEAD.

    That is known without reading a row; with --where, those columns are read.
    """
    repo = invocation.open_repo()
    found: dict[str, int] = {}
    for place in places or repo.datasets():
        path, revision = parse_dataset_at(place)
        number = repo.count_rows(path, revision, where=request.where)
        found[place] = number
        if invocation.json is None:
            click.echo(str(number) if len(places) == 1 else f"{number}\t{visible(place)}")
    invocation.result("havasu.count/v1", found)
