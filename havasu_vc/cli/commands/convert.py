"""`havasu-vc convert`."""

from __future__ import annotations

import click

from havasu_vc.cli.arguments import join_message
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option
from havasu_vc.cli.results import tell_commit

__all__ = ["command"]


@click.command("convert", cls=Command)
@click.argument("dataset", shell_complete=complete_datasets)
@click.option(
    "--to",
    "kind",
    type=click.Choice(["havasu", "kart"]),
    required=True,
    help="What to store the dataset as.",
)
@click.option("--history", is_flag=True, help="With --to, every commit that changed it as well.")
@click.option("-m", "--message", "messages", metavar="TEXT", multiple=True, help="The message.")
@engine_option
@click.pass_obj
def command(
    invocation: Invocation, dataset: str, kind: str, history: bool, messages: tuple[str, ...]
) -> None:
    """Commit DATASET with the same rows, stored as another kind of dataset.

    A Havasu dataset is made of Parquet files, a Kart dataset of one git object per row,
    which Kart reads and writes. A diff over the commit shows no change of rows.

    With --history every commit that changed the dataset comes again, with its author and
    date, beside those that are there, and a merge commit joins them to HEAD.
    """
    repo = invocation.open_repo()
    result = repo.convert(dataset, kind, message=join_message(messages), history=history)
    tell_commit(invocation, repo, result)
