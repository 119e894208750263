"""`havasu-vc reflog`."""

from __future__ import annotations

import sys

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.passthrough import git_command, show_git

__all__ = ["command"]


@git_command("reflog")
def command(invocation: Invocation, arguments: tuple[str, ...]) -> int:
    """Show where HEAD and branches were, as `git reflog` does, which is given all arguments."""
    repo = invocation.open_repo(rows=False)
    color = invocation.colored(sys.stdout)
    return show_git(["reflog", *arguments], repo.git, color=color, pager=invocation.pager)
