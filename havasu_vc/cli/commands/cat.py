"""`havasu-vc cat`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, format_option
from havasu_vc.cli.table_rows import FORMATS, print_rows, rows_options
from havasu_vc.looking import RowsRequest

__all__ = ["command"]


@click.command("cat", cls=Command)
@click.argument("place", metavar="DATASET[@REV]", shell_complete=complete_datasets)
@rows_options("columns", "where")
@engine_option
@format_option(*FORMATS[1:])
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: RowsRequest,
    place: str,
    output_format: str,
) -> None:
    """Print all rows of a dataset, at HEAD or at REV, in the order they are stored in.

    As CSV, as JSON, as a JSON object a line, or as a GeoJSON feature a line; `export` writes other
    formats.
    """
    repo = invocation.open_repo()
    print_rows(invocation, repo, place, request, output_format, most=None)
