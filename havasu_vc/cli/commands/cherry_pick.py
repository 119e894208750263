"""`havasu-vc cherry-pick`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, gathered
from havasu_vc.cli.picks import PickChoice, PickOptions, pick, pick_options
from havasu_vc.library import Repo

if TYPE_CHECKING:
    from havasu_vc.merging import MergeResult

__all__ = ["command"]


@click.command("cherry-pick", cls=Command)
@click.argument("revision", metavar="[REV]", required=False, shell_complete=complete_revisions)
@pick_options
@click.option("-x", "record", is_flag=True, help="Name REV in the message.")
@click.pass_obj
@gathered(PickOptions)
def command(
    invocation: Invocation, /, revision: str | None, record: bool, options: PickOptions
) -> None:
    """Commit on the current branch what the commit REV changed, as its author's.

    Rows are merged cell by cell. What is in conflict waits, as with a merge, until
    `resolve` decides it.
    """

    def run(repo: Repo, commit: str, choice: PickChoice) -> MergeResult:
        return repo.cherry_pick(
            commit,
            mainline=choice.mainline,
            message=choice.message,
            record=record,
            commit=choice.commit,
            policy=choice.policy,
        )

    pick(invocation, "cherry-pick", revision, options, run)
