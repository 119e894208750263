"""`havasu-vc reset`."""

from __future__ import annotations

from dataclasses import replace

import click

from havasu_vc.checkouts import ResetRequest
from havasu_vc.cli.as_kart import is_called_kart, stop_while_merging
from havasu_vc.cli.branches import head_object, tell_head, tell_update
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.errors import StateError
from havasu_vc.library import Repo
from havasu_vc.writers.commits import ABBREVIATED

__all__ = ["command"]


@click.command("reset", cls=Command)
@click.argument("revision", metavar="[REV]", default="HEAD", shell_complete=complete_revisions)
@takes(
    ResetRequest,
    mode=Spelt(
        flags={
            "soft": "Leave your files and the index alone.",
            "mixed": "Leave your files alone; default.",
            "hard": "Drop edits that are not committed.",
            "keep": "Refuse where edits would be lost.",
        }
    ),
    discard=Spelt("--discard-changes -f --force"),
    without=("revision",),
)
@json_option
@click.pass_obj
def command(invocation: Invocation, /, request: ResetRequest) -> None:
    """Move the current branch to the commit REV, as git does.

    Datasets follow the branch in every mode, and so do tables without edits. The commits
    that are left behind stay in the reflog: `havasu-vc reset HEAD@{1}` takes the move back.
    In Kart's repositories it refuses where tables have edits, unless a mode is given.
    """
    repo = invocation.open_repo()
    stop_while_merging(repo.git)
    mode = request.mode
    if mode is None and repo.git.follows_kart:
        mode = _as_kart(repo, request)
    if is_called_kart() and not request.revision:
        request = replace(request, revision="HEAD")
    if mode is None:
        # Alone it drops edits, as Kart has it; Kart without it refuses where tables have some.
        mode = "hard" if request.discard or is_called_kart() else "mixed"
    if request.discard and request.mode not in (None, "hard", "keep"):
        raise click.UsageError("--discard-changes goes with --hard")
    was = repo.head().commit
    discard = request.discard and mode != "soft"  # in a bare repository there are no edits
    commit = repo.reset.by(replace(request, mode=mode, discard=discard))
    invocation.result("havasu.reset/v1", head_object(repo))
    if mode == "hard" or repo.head().commit != was:
        tell_update(invocation, repo)
    if repo.head_branch is None:
        tell_head(invocation, repo)
        return
    subject = repo.commit_info(commit).message.partition("\n")[0]
    invocation.say(f"{repo.head_branch} is now at {commit[:ABBREVIATED]} {subject}")


def _as_kart(repo: Repo, request: ResetRequest) -> str:
    """Return how a reset without a mode is done in a repository of Kart's."""
    if request.revision == "HEAD" and not request.discard:
        raise StateError(
            "resetting the branch to HEAD changes nothing, unless edits are dropped as well",
            hints=("`havasu-vc reset --discard-changes` drops them",),
        )
    return "soft" if repo.git.is_bare else "hard"
