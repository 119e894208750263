"""`havasu-vc head`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, format_option
from havasu_vc.cli.table_rows import FORMATS, columns_option, print_rows, where_option

__all__ = ["command"]


@click.command("head", cls=Command)
@click.argument("place", metavar="DATASET[@REV]", shell_complete=complete_datasets)
@click.option(
    "-n",
    "most",
    metavar="N",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="So many.",
)
@columns_option
@where_option
@engine_option
@format_option(*FORMATS)
@click.pass_obj
def command(
    invocation: Invocation,
    place: str,
    most: int,
    columns: tuple[str, ...],
    where: tuple[str, ...],
    output_format: str,
) -> None:
    """Print the first rows of a dataset, at HEAD or at REV, in the order they are stored in."""
    repo = invocation.open_repo()
    print_rows(invocation, repo, place, output_format, columns=columns, where=where, most=most)
