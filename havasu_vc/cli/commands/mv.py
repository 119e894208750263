"""`havasu-vc mv`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option, message_options
from havasu_vc.cli.results import tell_commit

__all__ = ["command"]


@click.command("mv", cls=Command)
@click.argument("dataset", shell_complete=complete_datasets)
@click.argument("path")
@message_options
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    dataset: str,
    path: str,
    message: str | None,
) -> None:
    """Commit that DATASET is at PATH.

    No row is written. The dataset stays the same one: its log, blame and merges with
    branches that know it by its old path go on. Files beside it in its folder go along.
    """
    repo = invocation.open_repo()
    result = repo.move_dataset(dataset, path, message=message)
    tell_commit(invocation, repo, result)
