"""`havasu-vc rebase`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.commands.picks import GoingOn, go_on, tell_sequence
from havasu_vc.cli.completing import complete_branches
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option
from havasu_vc.cli.requests import POLICY, Spelt, takes
from havasu_vc.merging import RebaseRequest

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Fetched
    from havasu_vc.library import Repo

__all__ = ["command", "rebase_and_tell"]


@click.command("rebase", cls=Command)
@click.argument("upstream", required=False, shell_complete=complete_branches)
@click.argument("branch", required=False, shell_complete=complete_branches)
@takes(
    RebaseRequest,
    onto=Spelt(metavar="REV"),
    merges=Spelt("-r --rebase-merges"),
    policy=POLICY,
    without=("upstream", "branch", "fork_point"),
)
@click.option("--root", is_flag=True, help="Take all commits of the branch, with --onto.")
@click.option("-i", "--interactive", is_flag=True, help="Is git's: `git rebase -i`.")
@click.option("--continue", "go_on_", is_flag=True, help="Conclude the commit that waits, go on.")
@click.option("--skip", is_flag=True, help="Leave out the commit that waits, and go on.")
@click.option("--abort", is_flag=True, help="Drop it all; the branch is where it was.")
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: RebaseRequest,
    root: bool,
    interactive: bool,
    go_on_: bool,
    skip: bool,
    abort: bool,
) -> None:
    """Make the commits of the current branch that UPSTREAM lacks again, upon UPSTREAM.

    Without UPSTREAM, the branch that the current one follows is meant. Rows are merged cell by
    cell. It stops at a commit that is in conflict, until `resolve` decides it and `rebase
    --continue` goes on. With BRANCH, that is switched to first.
    """
    if interactive:
        raise click.UsageError(
            "-i is git's: `git rebase -i UPSTREAM` edits the list of commits, and `havasu-vc "
            "rebase --continue` merges the rows where it stops"
        )
    given = request.upstream is not None or request.onto is not None
    if sum((given, go_on_, skip, abort)) > 1:
        raise click.UsageError("give UPSTREAM, --continue, --skip or --abort")
    if root and request.onto is None:
        raise click.UsageError("--root goes with --onto")
    if root and request.branch is not None:
        raise click.UsageError("with --root, give only the branch to rebase")
    repo = invocation.open_repo()
    if go_on_ or skip or abort:
        told = GoingOn(go_on_, skip, abort)
        go_on(invocation, repo, "rebase", told)
        return
    if root:
        request = replace(request, upstream=None, branch=request.upstream)
    elif request.upstream is None:
        request = replace(request, upstream=repo.upstream(None))
    rebase_and_tell(invocation, repo, request)


def rebase_and_tell(
    invocation: Invocation,
    repo: Repo,
    request: RebaseRequest,
    fetched: Fetched | None = None,
) -> None:
    """Rebase HEAD's branch and tell what came of it, and as JSON what was fetched before."""
    result = repo.rebase.by(request)
    if invocation.json is None and result.kind == "up-to-date":
        invocation.say(f"Current branch {repo.head_branch or 'HEAD'} is up to date.")
        return
    below = request.onto or request.upstream
    before = None if below is None else repo.resolve(below).commit
    tell_sequence(invocation, repo, "rebase", result, before, fetched)
