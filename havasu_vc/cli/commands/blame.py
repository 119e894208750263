"""`havasu-vc blame`."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from havasu_vc.cli.arguments import parse_dataset_at
from havasu_vc.cli.completing import complete_datasets, complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option
from havasu_vc.cli.pager import paged_output
from havasu_vc.cli.requests import NAMES, Spelt, takes
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.looking import BlameRequest
from havasu_vc.writers.blames import write_blame, write_blame_json_lines

__all__ = ["command"]


@click.command("blame", cls=Command)
@click.argument("dataset", metavar="DATASET[@REV]", shell_complete=complete_datasets)
@click.argument("keys", metavar="[KEY...]", nargs=-1)
@takes(
    BlameRequest,
    columns=NAMES,
    revision=Spelt("--ref", metavar="REV", show_default=True, shell_complete=complete_revisions),
    without=("dataset", "keys"),
)
@format_option("text", "json", "json-lines")
@click.pass_obj
def command(invocation: Invocation, /, request: BlameRequest, output_format: str) -> None:
    """Show who last changed each row of DATASET, and when.

    KEY chooses rows, all by default; a key of several columns is written a,b. With
    --columns each cell is told by itself. DATASET may be written DATASET:feature:KEY.
    """
    place, _, label = request.dataset.partition(":feature:")
    chosen = (*([label] if label else []), *(request.keys or ()))
    repo = invocation.open_repo()
    path, revision = parse_dataset_at(place, known=repo.datasets())
    if "HEAD" not in (revision, request.revision):
        raise InvalidArgumentError(
            f"{place!r} names a revision, and --ref {request.revision} another",
            hints=("name one of them",),
        )
    if revision == "HEAD":
        revision = request.revision
    blame = repo.blame.by(replace(request, dataset=path, keys=chosen or None, revision=revision))
    with paged_output(repo.git, wanted=invocation.pager) as out:
        if output_format == "text":
            write_blame(blame, out, color=invocation.colored(sys.stdout))
        else:
            write_blame_json_lines(blame, out, as_list=output_format == "json")
