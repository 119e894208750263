"""`havasu-vc switch`."""

from __future__ import annotations

import click

from havasu_vc.cli.branches import find_goal, follow
from havasu_vc.cli.completing import complete_branches
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.errors import NoBranchError
from havasu_vc.library import Repo
from havasu_vc.writers.commits import ABBREVIATED

__all__ = ["command", "open_to_switch", "tell_head"]


@click.command("switch", cls=Command)
@click.argument("name", metavar="BRANCH", shell_complete=complete_branches)
@click.argument("start", required=False)
@click.option("-c", "--create", is_flag=True, help="Make the branch first, at START or HEAD.")
@click.option("-d", "--detach", is_flag=True, help="Put HEAD on the commit itself.")
@click.option(
    "-f", "--force", "--discard-changes", "discard", is_flag=True, help="Drop edits in the way."
)
@click.pass_obj
def command(
    invocation: Invocation,
    name: str,
    start: str | None,
    create: bool,
    detach: bool,
    discard: bool,
) -> None:
    """Switch to another branch.

    - is the branch before. A branch that only a remote has is made, and follows it.

    Tables that are checked out come along. Edits in them that are not committed are never
    passed over: unless the dataset is the same on the other branch, commit them first.
    """
    if start is not None and not create:
        raise click.UsageError("a start goes with -c")
    if create and detach:
        raise click.UsageError("-c and -d contradict each other")
    repo = open_to_switch(invocation)
    if detach:
        repo.switch(repo.commit_info("@{-1}" if name == "-" else name).id, discard=discard)
    elif not create:
        goal = find_goal(repo, name)
        if not goal.is_branch:
            raise NoBranchError(
                f"there is no branch {goal.name!r}",
                hints=(f"`havasu-vc switch -c {name}` makes it", "`-d` puts HEAD on a commit"),
            )
        name, start, create = goal.name, goal.remote, goal.remote is not None
    if not detach:
        repo.switch(name, create=create, start=start, discard=discard)
        follow(repo, name, start)
    tell_head(invocation, repo, created=create)


def open_to_switch(invocation: Invocation) -> Repo:
    """Open the repository; Arrow is loaded only where there are tables to bring along."""
    repo = invocation.open_repo(rows=False)
    if repo.workspace.exists:
        from havasu_vc.cli.quick_arrow import leave_pandas_out

        leave_pandas_out()
    return repo


def tell_head(invocation: Invocation, repo: Repo, *, created: bool = False) -> None:
    """Tell where HEAD is now."""
    branch = repo.head_branch
    if branch is not None:
        invocation.say(f"Switched to {'a new ' if created else ''}branch '{branch}'")
        return
    info = repo.commit_info()
    subject = info.message.partition("\n")[0]
    invocation.say(f"HEAD is now at {info.id[:ABBREVIATED]} {subject}")
