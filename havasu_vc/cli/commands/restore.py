"""`havasu-vc restore`."""

from __future__ import annotations

from typing import TextIO

import click

from havasu_vc.cli.arguments import join_message
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, message_options
from havasu_vc.cli.results import tell_commit
from havasu_vc.errors import NoChangesError

__all__ = ["command"]


@click.command("restore", cls=Command)
@click.argument("filters", metavar="[FILTER...]", nargs=-1)
@click.option(
    "-s",
    "--source",
    metavar="REV",
    default="HEAD^",
    show_default=True,
    shell_complete=complete_revisions,
    help="Where to take it from.",
)
@message_options
@click.option("-n", "--dry-run", is_flag=True, help="Tell what would change, and stop.")
@engine_option
@click.pass_obj
def command(
    invocation: Invocation,
    filters: tuple[str, ...],
    source: str,
    messages: tuple[str, ...],
    message_file: TextIO | None,
    dry_run: bool,
) -> None:
    """Commit datasets, rows or meta items as they are at another revision.

    FILTER is DATASET, DATASET:feature, DATASET:feature:KEY, DATASET:meta or
    DATASET:meta:ITEM; without one, all datasets are restored. A dataset that was deleted
    comes back; one that is not at the other revision goes.
    """
    repo = invocation.open_repo()
    message = join_message(messages, message_file.read() if message_file else None)
    result = repo.restore(filters, source=source, message=message, dry_run=dry_run)
    if result.commit is None and not dry_run:
        raise NoChangesError(f"there is nothing to restore: it is as it is at {source}")
    tell_commit(invocation, repo, result, dry_run=dry_run)
