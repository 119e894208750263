"""`havasu-vc config`."""

from __future__ import annotations

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.cli.passthrough import run_git_here
from havasu_vc.errors import RepositoryNotFoundError
from havasu_vc.store.repository import GitRepository

__all__ = ["command"]


@click.command(
    "config",
    cls=Command,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", metavar="[ARGUMENT...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def command(invocation: Invocation, arguments: tuple[str, ...]) -> int:
    r"""Get and set options, as `git config` does, which is given all arguments.

    \b
    user.name, user.email   who commits are by
    core.editor             the editor for commit messages
    init.defaultBranch      the first branch of new repositories
    """
    place: GitRepository | None = None
    try:
        place = GitRepository.open(invocation.folder)
    except RepositoryNotFoundError:
        if "--local" in arguments:
            raise
    return run_git_here(["config", *arguments], place or invocation.folder, color=invocation.color)
