"""`havasu-vc git-diff` and `hook`: the commands that git itself runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.errors import HavasuError
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.writers import WriterOptions, writer_named
from havasu_vc.writers.terminal import printable

__all__ = ["git_diff", "hook"]


@click.command("git-diff", cls=Command)
@click.argument("path")
@click.argument("old")
@click.argument("new")
@click.option(
    "--most",
    type=click.IntRange(0),
    metavar="ROWS",
    default=1000,
    show_default=True,
    help="Print no more changed rows.",
)
@click.pass_obj
def git_diff(invocation: Invocation, path: str, old: str, new: str, most: int) -> None:
    """Print what changed in a dataset; `git diff` runs this.

    PATH is that of a delta or of a column of it, OLD and NEW are the ids of its versions, or a
    point for none. Nothing is fetched, and what cannot be shown is told in one line.
    """
    invocation = replace(invocation, progress=False)
    color = bool(os.environ.get("GIT_PAGER_IN_USE")) and invocation.color
    try:
        repo = invocation.open_repo()
        diff = repo.document_diff(path, old, new)
        limited = _Limited(diff.changes, most)
        options = WriterOptions(color=color or invocation.colored(sys.stdout, "auto"))
        writer_named("text")([replace(diff, changes=iter(limited))], sys.stdout, options)
        if limited.more:
            click.echo(f"… more rows of {printable(diff.path)}: `havasu-vc diff` prints them all")
    except HavasuError as error:
        click.echo(f"{printable(path)}: rows are not shown: {printable(str(error))}")


class _Limited:
    """The first rows of a change stream."""

    def __init__(self, changes: Iterator[ChangeBatch], most: int) -> None:
        self._changes, self._most = changes, most
        self.more = False

    def __iter__(self) -> Iterator[ChangeBatch]:
        left = self._most
        for batch in self._changes:
            if len(batch) > left:
                self.more = True
                yield batch.slice(0, left)
                return
            left -= len(batch)
            yield batch


@click.group("hook")
def hook() -> None:
    """Guard a repository that others push to: git runs this from its hooks."""


@hook.command(
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
