"""`havasu-vc revert`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, gathered
from havasu_vc.cli.picks import GoingOn, pick, pick_options
from havasu_vc.merging import PickRequest

__all__ = ["command"]


@click.command("revert", cls=Command)
@click.argument("revisions", metavar="[REV]...", nargs=-1, shell_complete=complete_revisions)
@pick_options("record")
@click.pass_obj
@gathered(GoingOn)
def command(
    invocation: Invocation,
    /,
    request: PickRequest,
    revisions: tuple[str, ...],
    options: GoingOn,
) -> None:
    """Commit the opposite of what the commit REV changed.

    Rows are merged cell by cell with what came since. What is in conflict waits, as with
    a merge, until `resolve` decides it. With several commits, or those of A..B, each is taken
    back by a commit of its own; it stops at the first that is in conflict.
    """
    pick(invocation, "revert", revisions, request, options)
