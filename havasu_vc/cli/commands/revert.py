"""`havasu-vc revert`."""

from __future__ import annotations

from typing import TextIO

import click

from havasu_vc.cli.arguments import join_message
from havasu_vc.cli.commands.merge import parse_policy
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.cli.picks import conclude, pick_options, tell_pick

__all__ = ["command"]


@click.command("revert", cls=Command)
@click.argument("revision", metavar="[REV]", required=False, shell_complete=complete_revisions)
@pick_options
@click.pass_obj
def command(
    invocation: Invocation,
    revision: str | None,
    mainline: int | None,
    messages: tuple[str, ...],
    message_file: TextIO | None,
    dry_run: bool,
    policies: tuple[str, ...],
    go_on: bool,
    abort: bool,
) -> None:
    """Commit the opposite of what the commit REV changed.

    Rows are merged cell by cell with what came since. What is in conflict waits, as with
    a merge, until `resolve` decides it.
    """
    if sum((revision is not None, go_on, abort)) != 1:
        raise click.UsageError("give a commit, --continue or --abort")
    message = join_message(messages, message_file.read() if message_file else None)
    repo = invocation.open_repo()
    if revision is None:
        conclude(invocation, repo, message=message, abort=abort)
        return
    result = repo.revert(
        revision,
        mainline=mainline,
        message=message,
        commit=not dry_run,
        policy=parse_policy(policies),
    )
    tell_pick(invocation, repo, result, dry_run=dry_run)
