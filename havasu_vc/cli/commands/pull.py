"""`havasu-vc pull`."""

from __future__ import annotations

import click

from havasu_vc.cli.commands.fetch import tell_fetch
from havasu_vc.cli.commands.merge import configured_fast_forward, merge_and_tell
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.library import Repo

__all__ = ["command"]


@click.command("pull", cls=Command)
@click.argument("remote", required=False)
@click.argument("branch", required=False)
@click.option("--ff-only", "fast_forward", flag_value="only", help="Only fast-forward.")
@click.option("--no-ff", "fast_forward", flag_value="never", help="Always make a merge commit.")
@click.pass_obj
def command(
    invocation: Invocation, remote: str | None, branch: str | None, fast_forward: str | None
) -> int:
    """Fetch, then merge what the current branch follows, row by row.

    With REMOTE and BRANCH, that branch is merged. git's settings pull.ff and merge.ff count.
    """
    repo = invocation.open_repo()
    name = repo.upstream(remote) if branch is None else "FETCH_HEAD"
    refspecs = () if branch is None else (branch,)
    tell_fetch(invocation, repo.fetch(remote, refspecs))
    if _rebases(repo):
        invocation.note(
            "pull.rebase is set, and `havasu-vc pull` merges; `git pull --rebase` rebases, and "
            "`havasu-vc merge --continue` merges the rows where it stops"
        )
    wanted = fast_forward or configured_fast_forward(repo, "pull.ff", "merge.ff")
    return merge_and_tell(invocation, repo, name, fast_forward=wanted)


def _rebases(repo: Repo) -> bool:
    value = repo.config.get(f"branch.{repo.head_branch}.rebase")
    value = repo.config.get("pull.rebase") if value is None else value
    return value is not None and value.lower() not in ("false", "no", "off", "0")
