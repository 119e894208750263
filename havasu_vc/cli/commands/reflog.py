"""`havasu-vc reflog`."""

from __future__ import annotations

import sys

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.cli.passthrough import show_git

__all__ = ["command"]


@click.command(
    "reflog",
    cls=Command,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", metavar="[ARGUMENT...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def command(invocation: Invocation, arguments: tuple[str, ...]) -> int:
    """Show where HEAD and branches were, as `git reflog` does, which is given all arguments."""
    repo = invocation.open_repo(rows=False)
    color = invocation.colored(sys.stdout)
    return show_git(["reflog", *arguments], repo.git, color=color, pager=invocation.pager)
