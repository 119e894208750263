"""`havasu-vc upgrade`."""

from __future__ import annotations

from pathlib import Path

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command

__all__ = ["command"]


@click.command("upgrade", cls=Command)
@click.argument("destination", type=click.Path(path_type=Path))
@click.pass_obj
def command(invocation: Invocation, destination: Path) -> None:
    """Make a Kart V3 repository in DESTINATION of one in Kart's V2.

    All commits of all branches and tags are made again, with their authors and dates.
    The old repository stays as it is.
    """
    repo = invocation.open_repo()
    new = repo.upgrade(invocation.folder / destination)
    invocation.say(f"Upgraded {repo.path} to {new.path}")
