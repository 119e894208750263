"""`havasu-vc build-annotations`: Kart's command of that name, for who uses both programs."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.errors import NotFoundError

if TYPE_CHECKING:
    from havasu_vc.model.commits import CommitInfo

__all__ = ["build_annotations"]


@click.command("build-annotations", cls=Command, hidden=True)
@click.option("--all-reachable", is_flag=True, help="Commits that any ref reaches.")
@click.pass_obj
def build_annotations(invocation: Invocation, all_reachable: bool) -> None:
    """Note for Kart how many rows commits changed: those that stdin names, a line each.

    This program counts rows when it is asked how many there are, and needs no such notes.
    """
    repo = invocation.open_repo()
    if all_reachable:
        click.echo("Enumerating reachable commits...")
        commits: list[CommitInfo] = []
        with suppress(NotFoundError):  # there is none
            commits += repo.log(every_ref=True)
    else:
        named = (line.strip() for line in sys.stdin)
        commits = [repo.commit_info(name) for name in named if name]
    if commits:
        click.echo("Building feature change counts...")
    for number, commit in enumerate(commits, 1):
        subject = commit.message.partition("\n")[0]
        click.echo(f"({number}/{len(commits)}): {commit.id[:7]} {subject}")
        repo.annotate(commit.id)
    click.echo("done.")
