"""`havasu-vc repair`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option, message_options
from havasu_vc.cli.requests import POLICY, Spelt, takes
from havasu_vc.cli.results import print_commit, tell_commit
from havasu_vc.errors import NoChangesError
from havasu_vc.repo.results import CommitResult
from havasu_vc.upkeep import RepairRequest

__all__ = ["command"]


@click.command("repair", cls=Command)
@click.argument("datasets", metavar="[DATASET...]", nargs=-1, shell_complete=complete_datasets)
@takes(
    RepairRequest,
    source=Spelt("--from", metavar="COMMIT"),
    policy=POLICY,
    without=("datasets", "message"),
)
@message_options
@json_option
@click.pass_obj
def command(invocation: Invocation, /, request: RepairRequest) -> None:
    """Mend broken datasets, those named or all, in a commit on top of HEAD.

    A dataset is broken when git or a hand merged it as text, or a document of it is damaged.
    The history is walked back to where it was sound last. Where a merge broke it, the sound
    versions are merged again, row by row; else the last one is taken, and commits whose
    changes could not be kept are named. Nothing is rewritten, so no push need be forced.
    """
    repo = invocation.open_repo()
    try:
        result = repo.repair.by(request)
    except NoChangesError as nothing:
        # To find all sound is no failure.
        print_commit(invocation, repo, CommitResult(None, repo.head_branch))
        invocation.say(f"There is nothing to repair: {nothing.message}")
    else:
        tell_commit(invocation, repo, result)
