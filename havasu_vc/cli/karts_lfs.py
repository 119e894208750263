"""Kart's `lfs+` where this program is called `kart`: no file of a table is one of Git LFS."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import click

from havasu_vc.cli.invocation import Invocation

__all__ = ["run"]


def run(invocation: Invocation, arguments: Sequence[str]) -> bool:
    """Do what a command of `lfs+` does where Git LFS keeps nothing; return whether it does not."""
    part, *more = arguments
    repo = invocation.open_repo(rows=False)
    if part == "fetch":
        for before, name in pairwise(("", *more)):
            if not name.startswith("-") and before != "--remote":
                repo.resolve(name)
    kept = repo.git.common_directory / "lfs" / "objects"
    if kept.is_dir() and any(each.is_file() for each in kept.rglob("*")):
        return False
    dry = "--dry-run" in more
    if part == "gc" and dry:
        click.echo("Running gc with --dry-run: found 0 LFS blobs (0B) to delete from the cache")
    elif part == "gc":
        click.echo("Deleting 0 LFS blobs (0B) from the cache...")
    elif part == "pre-push" and dry:
        click.echo("Running pre-push with --dry-run: found 0 LFS blobs (0B) to push")
    return True
