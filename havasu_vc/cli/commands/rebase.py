"""`havasu-vc rebase`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from havasu_vc.cli.commands.merge import parse_policy
from havasu_vc.cli.completing import complete_branches
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option
from havasu_vc.cli.picks import PickOptions, go_on, tell_sequence

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Fetched
    from havasu_vc.history.conflicts import MergePolicy
    from havasu_vc.library import Repo

__all__ = ["command", "rebase_and_tell"]


@click.command("rebase", cls=Command)
@click.argument("upstream", required=False, shell_complete=complete_branches)
@click.argument("branch", required=False, shell_complete=complete_branches)
@click.option("--onto", metavar="REV", help="Make the commits upon REV instead of UPSTREAM.")
@click.option("--root", is_flag=True, help="Take all commits of the branch, with --onto.")
@click.option(
    "-r", "--rebase-merges", "merges", is_flag=True, help="Make merges again; else left out."
)
@click.option("-i", "--interactive", is_flag=True, help="Is git's: `git rebase -i`.")
@click.option(
    "-X",
    "policies",
    metavar="POLICY",
    multiple=True,
    help="Decide conflicts: ours (UPSTREAM's), theirs, COLUMN=ours, COLUMN=theirs, fill-nulls.",
)
@click.option("--continue", "go_on_", is_flag=True, help="Conclude the commit that waits, go on.")
@click.option("--skip", is_flag=True, help="Leave out the commit that waits, and go on.")
@click.option("--abort", is_flag=True, help="Drop it all; the branch is where it was.")
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    upstream: str | None,
    branch: str | None,
    onto: str | None,
    root: bool,
    merges: bool,
    interactive: bool,
    policies: tuple[str, ...],
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
    given = upstream is not None or onto is not None
    if sum((given, go_on_, skip, abort)) > 1:
        raise click.UsageError("give UPSTREAM, --continue, --skip or --abort")
    if root and onto is None:
        raise click.UsageError("--root goes with --onto")
    if root and branch is not None:
        raise click.UsageError("with --root, give only the branch to rebase")
    repo = invocation.open_repo()
    if go_on_ or skip or abort:
        told = PickOptions(None, None, False, (), go_on_, skip, abort)
        go_on(invocation, repo, "rebase", told)
        return
    if root:
        upstream, branch = None, upstream
    elif upstream is None:
        upstream = repo.upstream(None)
    rebase_and_tell(
        invocation,
        repo,
        upstream,
        branch=branch,
        onto=onto,
        merges=merges,
        policy=parse_policy(policies),
    )


def rebase_and_tell(
    invocation: Invocation,
    repo: Repo,
    upstream: str | None,
    *,
    branch: str | None = None,
    onto: str | None = None,
    merges: bool = False,
    fork_point: bool = False,
    policy: MergePolicy | None = None,
    fetched: Fetched | None = None,
) -> None:
    """Rebase HEAD's branch and tell what came of it, and as JSON what was fetched before."""
    result = repo.rebase(
        upstream,
        branch=branch,
        onto=onto,
        merges=merges,
        fork_point=fork_point,
        policy=policy,
    )
    if invocation.json is None and result.kind == "up-to-date":
        invocation.say(f"Current branch {repo.head_branch or 'HEAD'} is up to date.")
        return
    below = onto or upstream
    before = None if below is None else repo.resolve(below).commit
    tell_sequence(invocation, repo, "rebase", result, before, fetched)
