"""Commands that are there only where this program is called `kart`."""

from __future__ import annotations

from pathlib import Path

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.cli.passthrough import git_command, show_git
from havasu_vc.errors import NotYetSupportedError

__all__ = ["ext_run", "lfs"]


@git_command("lfs", help_option=False)
def lfs(invocation: Invocation, arguments: tuple[str, ...]) -> int:
    """Run Git LFS on the repository, which has what tiles are kept in."""
    repo = invocation.open_repo(rows=False)
    return show_git(["lfs", *arguments], repo.git, color=False, pager=False)


@click.command(
    "ext-run", cls=Command, hidden=True, context_settings={"ignore_unknown_options": True}
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def ext_run(script: Path, arguments: tuple[str, ...]) -> None:
    """Refuse a script, which only Kart itself runs in its own Python."""
    raise NotYetSupportedError(
        f"{script} is for Kart's own Python, which this program has not",
        hints=("a program of yours imports `havasu_vc`",),
    )
