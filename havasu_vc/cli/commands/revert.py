"""`havasu-vc revert`."""

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


@click.command("revert", cls=Command)
@click.argument("revision", metavar="[REV]", required=False, shell_complete=complete_revisions)
@pick_options
@click.pass_obj
@gathered(PickOptions)
def command(invocation: Invocation, /, revision: str | None, options: PickOptions) -> None:
    """Commit the opposite of what the commit REV changed.

    Rows are merged cell by cell with what came since. What is in conflict waits, as with
    a merge, until `resolve` decides it.
    """

    def run(repo: Repo, commit: str, choice: PickChoice) -> MergeResult:
        return repo.revert(
            commit,
            mainline=choice.mainline,
            message=choice.message,
            commit=choice.commit,
            policy=choice.policy,
        )

    pick(invocation, "revert", revision, options, run)
