"""`havasu-vc repair`."""

from __future__ import annotations

import click

from havasu_vc.cli.arguments import join_message
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.cli.results import tell_commit
from havasu_vc.errors import NoChangesError

__all__ = ["command"]


@click.command("repair", cls=Command)
@click.option("-m", "--message", "messages", metavar="TEXT", multiple=True, help="The message.")
@click.pass_obj
def command(invocation: Invocation, messages: tuple[str, ...]) -> None:
    """Finish merges that git left half done, where that needs no decision.

    A dataset whose `snapshot.json` does not fit the rest of it was put together by git,
    not row by row; its rows are taken from the commit's parents.
    """
    repo = invocation.open_repo()
    try:
        result = repo.repair(message=join_message(messages))
    except NoChangesError as nothing:
        # To find all sound is no failure.
        invocation.say(f"There is nothing to repair: {nothing.message}")
    else:
        tell_commit(invocation, repo, result)
