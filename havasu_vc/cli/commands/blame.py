"""`havasu-vc blame`."""

from __future__ import annotations

import sys

import click

from havasu_vc.cli.arguments import parse_names
from havasu_vc.cli.completing import complete_datasets, complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option
from havasu_vc.cli.pager import paged_output
from havasu_vc.writers.blames import write_blame, write_blame_json_lines

__all__ = ["command"]


@click.command("blame", cls=Command)
@click.argument("dataset", shell_complete=complete_datasets)
@click.argument("keys", metavar="[KEY...]", nargs=-1)
@click.option(
    "--columns", metavar="COLUMN,...", multiple=True, help="Tell it of the cells of these columns."
)
@click.option(
    "--ref",
    "revision",
    metavar="REV",
    default="HEAD",
    show_default=True,
    shell_complete=complete_revisions,
    help="The revision to look at.",
)
@format_option("text", "json", "json-lines")
@click.pass_obj
def command(
    invocation: Invocation,
    dataset: str,
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    revision: str,
    output_format: str,
) -> None:
    """Show who last changed each row of DATASET, and when.

    KEY chooses rows, all by default; a key of several columns is written a,b. With
    --columns each cell is told by itself. DATASET may be written DATASET:feature:KEY.
    """
    path, _, label = dataset.partition(":feature:")
    chosen = (*([label] if label else []), *keys)
    repo = invocation.open_repo()
    blame = repo.blame(path, keys=chosen or None, columns=parse_names(columns), revision=revision)
    with paged_output(repo.git, wanted=invocation.pager) as out:
        if output_format == "text":
            write_blame(blame, out, color=invocation.colored(sys.stdout))
        else:
            write_blame_json_lines(blame, out, as_list=output_format == "json")
