"""`havasu-vc pull`."""

from __future__ import annotations

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.commands.fetch import fetch_object, tell_fetch
from havasu_vc.cli.commands.merge import configured_fast_forward, merge_and_tell
from havasu_vc.cli.commands.rebase import rebase_and_tell
from havasu_vc.cli.completing import complete_remotes
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option
from havasu_vc.errors import NoBranchError, StateError
from havasu_vc.library import Repo
from havasu_vc.merging import MergeRequest, RebaseRequest

__all__ = ["command"]


@click.command("pull", cls=Command)
@click.argument("remote", required=False, shell_complete=complete_remotes)
@click.argument("branch", required=False)
@click.option("--ff-only", "fast_forward", flag_value="only", help="Only fast-forward.")
@click.option("--no-ff", "fast_forward", flag_value="never", help="Always make a merge commit.")
@click.option(
    "-r/ ",
    "--rebase/--no-rebase",
    "rebase",
    default=None,
    help="Rebase rather than merge.  [default: pull.rebase, or no]",
)
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    remote: str | None,
    branch: str | None,
    fast_forward: str | None,
    rebase: bool | None,
) -> int:
    """Fetch, then merge what the current branch follows, row by row, or rebase upon it.

    With REMOTE and BRANCH, that branch is merged. git's settings pull.rebase, pull.ff and
    merge.ff count.
    """
    repo = invocation.open_repo()
    name = _followed(repo, remote) if branch is None else "FETCH_HEAD"
    refspecs = () if branch is None else (branch,)
    came = repo.fetch(remote, refspecs)
    tell_fetch(invocation, came)
    fetched = fetch_object(came)
    rebases = _rebases(repo) if rebase is None else "true" if rebase else None
    if rebases == "interactive":
        raise StateError(
            "pull.rebase asks for an interactive rebase, which is git's",
            hints=(f"what came is fetched: `git rebase -i {name}`, or `havasu-vc rebase {name}`",),
        )
    if rebases is not None and fast_forward is None:
        asked = RebaseRequest(name, merges=rebases == "merges", fork_point=branch is None)
        rebase_and_tell(invocation, repo, asked, fetched)
        return 0
    wanted = fast_forward or configured_fast_forward(repo, "pull.ff", "merge.ff")
    request = MergeRequest(name, fast_forward=wanted)
    return merge_and_tell(invocation, repo, request, fetched=fetched)


def _followed(repo: Repo, remote: str | None) -> str:
    """Return the branch that the current one follows.

    In Kart's place one that follows none takes the branch of its name of the remote, or origin.
    """
    try:
        return repo.upstream(remote)
    except NoBranchError:
        known = {name for name, _, _ in repo.remotes()}
        if not is_called_kart() or repo.head_branch is None or (remote or "origin") not in known:
            raise
        return f"{remote or 'origin'}/{repo.head_branch}"


def _rebases(repo: Repo) -> str | None:
    """Return what git's settings say: `true`, `merges` or `interactive`; None where to merge."""
    value = repo.config.get(f"branch.{repo.head_branch}.rebase")
    value = repo.config.get("pull.rebase") if value is None else value
    if value is None or value.lower() in ("false", "no", "off", "0"):
        return None
    known = {"m": "merges", "merges": "merges", "i": "interactive", "interactive": "interactive"}
    return known.get(value.lower(), "true")
