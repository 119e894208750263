"""Kart's `lfs+` where this program is called `kart`: no file of a table is one of Git LFS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from havasu_vc.cli.invocation import Invocation

__all__ = ["require_helper", "run"]

_FLAGS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "fetch": ("--spatial-filter/--no-spatial-filter", "--dry-run"),
        "gc": ("--dry-run",),
        "ls-files": ("-s --size", "--all"),
        "pre-push": ("--dry-run",),
    }
)
_NAMES: Mapping[str, Sequence[str]] = MappingProxyType(
    {"ls-files": ("ref1", "ref2"), "pre-push": ("remote_name", "remote_url")}
)


def run(invocation: Invocation, arguments: Sequence[str]) -> bool:
    """Do what a command of `lfs+` does where Git LFS keeps nothing; return whether it does not."""
    part, *more = arguments
    asked = _parsed(part, more)
    repo = invocation.open_repo(rows=False)
    for name in asked.get("commits", ()):
        repo.resolve(name or "HEAD")
    kept = repo.git.common_directory / "lfs" / "objects"
    if kept.is_dir() and any(each.is_file() for each in kept.rglob("*")):
        return False
    dry = asked.get("dry_run", False)
    if part == "gc" and dry:
        click.echo("Running gc with --dry-run: found 0 LFS blobs (0B) to delete from the cache")
    elif part == "gc":
        click.echo("Deleting 0 LFS blobs (0B) from the cache...")
    elif part == "pre-push" and dry:
        click.echo("Running pre-push with --dry-run: found 0 LFS blobs (0B) to push")
    return True


def require_helper(words: Sequence[str]) -> None:
    """Raise where the words behind `helper` are none of Kart's."""
    options = [click.Option(["--socket"]), click.Option(["--timeout"], type=int)]
    params: list[click.Parameter] = [*options, click.Argument(["args"], nargs=-1)]
    command = click.Command("helper", params=params)
    with command.make_context("helper", [*words], ignore_unknown_options=True):
        return


def _parsed(part: str, words: Sequence[str]) -> dict[str, Any]:
    """Return what the words behind a command of `lfs+` say, which has what Kart's has."""
    params: list[click.Parameter] = [
        click.Option(each.split(), is_flag=True) for each in _FLAGS[part]
    ]
    params += [click.Argument([each], required=False) for each in _NAMES.get(part, ())]
    if part == "fetch":
        params += [click.Option(["--remote"]), click.Argument(["commits"], nargs=-1)]
    command = click.Command(part, params=params)
    parent = click.get_current_context(silent=True)
    with command.make_context(part, [*words], parent=parent) as context:
        return context.params
