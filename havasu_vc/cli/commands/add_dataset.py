"""`havasu-vc add-dataset`."""

from __future__ import annotations

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.commands.import_ import import_object, tell_import
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option, message_options
from havasu_vc.cli.results import tell_commit
from havasu_vc.repo.results import CommitResult

__all__ = ["command"]


@click.command("add-dataset", cls=Command)
@click.argument("tables", metavar="[TABLE...]", nargs=-1)
@click.option("--all-layers", "every", is_flag=True, help="All tables that are no dataset yet.")
@message_options
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    tables: tuple[str, ...],
    every: bool,
    message: str | None,
) -> None:
    """Commit tables that an editor made in the working copy as datasets of their names.

    `status` names the tables that are no dataset yet. From then on their edits are tracked as
    those of the others are.
    """
    if every == bool(tables):
        raise click.UsageError("name tables, or give --all-layers")
    repo = invocation.open_repo()
    result = repo.add_datasets(tables, message=message)
    if is_called_kart():
        # As Kart tells it, which scripts read: the commit, with what is new.
        meta = dict.fromkeys(result.datasets, ("schema.json",))
        commit = CommitResult(result.commit, result.branch, result.datasets, result.notes, meta)
        tell_commit(invocation, repo, commit)
        return
    invocation.result("havasu.import/v1", import_object(result))
    tell_import(invocation, repo, result)
