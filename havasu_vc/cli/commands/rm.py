"""`havasu-vc rm`, which is also `havasu-vc data rm` as Kart has it."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option, message_options
from havasu_vc.cli.results import tell_commit

__all__ = ["command"]


@click.command("rm", cls=Command)
@click.argument(
    "datasets",
    metavar="DATASET...",
    nargs=-1,
    required=True,
    shell_complete=complete_datasets,
)
@message_options
@json_option
@click.pass_obj
def command(invocation: Invocation, datasets: tuple[str, ...], message: str | None) -> None:
    """Commit that datasets are no more.

    Their rows stay in the history: `havasu-vc restore -s HEAD^ DATASET` brings one back.
    Files beside a dataset in its folder stay.
    """
    repo = invocation.open_repo()
    tell_commit(invocation, repo, repo.remove_datasets(datasets, message=message))
