"""`havasu-vc hook`: what git runs on a server of one's own."""

from __future__ import annotations

import sys

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command

__all__ = ["command"]


@click.group("hook")
def command() -> None:
    """Guard a repository that others push to: git runs this from its hooks."""


@command.command(
    "pre-receive", cls=Command, short_help="Refuse broken datasets and commits without their data"
)
@click.option("--no-data", is_flag=True, help="Do not ask whether data files have come.")
@click.pass_obj
def pre_receive(invocation: Invocation, no_data: bool) -> None:
    """Refuse a push that brings a broken dataset, or commits whose data files are not here.

    Data is looked for where the `havasu.data.url` of this repository says, or else where the
    commits say, if `havasu.data.allow` allows that; or else in this repository, and in the
    `lfs/objects` of it. What a Git LFS server keeps elsewhere cannot be looked for.
    The file `hooks/pre-receive` of the repository runs this and may be executed.
    """
    lines = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").split("\n")
    invocation.open_repo(rows=False).check_received(lines, data=not no_data)
