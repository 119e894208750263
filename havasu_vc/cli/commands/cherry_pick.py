"""`havasu-vc cherry-pick`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, gathered
from havasu_vc.cli.picks import GoingOn, pick, pick_options
from havasu_vc.merging import PickRequest

__all__ = ["command"]


@click.command("cherry-pick", cls=Command)
@click.argument("revisions", metavar="[REV]...", nargs=-1, shell_complete=complete_revisions)
@pick_options()
@click.pass_obj
@gathered(GoingOn)
def command(
    invocation: Invocation,
    /,
    request: PickRequest,
    revisions: tuple[str, ...],
    options: GoingOn,
) -> None:
    """Commit on the current branch what the commit REV changed, as its author's.

    Rows are merged cell by cell. What is in conflict waits, as with a merge, until
    `resolve` decides it. With several commits, or those of A..B, each is committed on its
    own; it stops at the first that is in conflict.
    """
    pick(invocation, "cherry-pick", revisions, request, options)
