"""`havasu-vc config`."""

from __future__ import annotations

import sys

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.passthrough import git_command, run_git_here, show_git
from havasu_vc.errors import RepositoryNotFoundError
from havasu_vc.store.repository import GitRepository

__all__ = ["command"]


@git_command("config")
def command(invocation: Invocation, arguments: tuple[str, ...]) -> int:
    r"""Get and set options, as `git config` does, which is given all arguments.

    \b
    user.name, user.email   who commits are by
    core.editor             the editor for commit messages
    init.defaultBranch      the first branch of new repositories
    """
    place: GitRepository | None = None
    try:
        place = GitRepository.open(invocation.place)
    except RepositoryNotFoundError:
        if "--local" in arguments:
            raise
    line = ["config", *arguments]
    if place is None or not sys.stdout.isatty() or {"-e", "--edit"} & set(arguments):
        # What a script asks for is what is set.
        return run_git_here(line, place or invocation.folder, color=invocation.color)
    return show_git(line, place, color=False, pager=invocation.pager)
