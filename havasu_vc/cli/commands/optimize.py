"""`havasu-vc optimize`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option, message_options
from havasu_vc.cli.results import tell_commit

__all__ = ["command"]


@click.command("optimize", cls=Command)
@click.argument("datasets", nargs=-1, metavar="[DATASET...]", shell_complete=complete_datasets)
@message_options
@click.option("-n", "--dry-run", is_flag=True, help="Tell what would be done, and stop.")
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation, datasets: tuple[str, ...], message: str | None, dry_run: bool
) -> None:
    """Fold small and partly deleted files into a few clean ones.

    No row changes. It is a commit of its own, whose trailer names it; all datasets are
    meant where none is named.
    """
    repo = invocation.open_repo()
    result = repo.optimize(datasets, message=message, dry_run=dry_run)
    tell_commit(invocation, repo, result, dry_run=dry_run)
