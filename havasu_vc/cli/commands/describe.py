"""`havasu-vc describe`: a dataset, or as git has it a commit by its nearest tag."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.arguments import parse_dataset_at
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option
from havasu_vc.cli.passthrough import show_git
from havasu_vc.errors import HavasuError

if TYPE_CHECKING:
    from havasu_vc.library import Repo
    from havasu_vc.looking import Description

__all__ = ["command"]


@click.command("describe", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument(
    "arguments",
    metavar="[DATASET[@REV] | GIT'S ARGUMENTS]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_datasets,
)
@format_option("text", "json")
@click.pass_obj
def command(invocation: Invocation, arguments: tuple[str, ...], output_format: str) -> int:
    """Tell what a dataset is: columns, key, reference system, extent and statistics.

    No row is read. Where the one argument names no dataset it is `git describe`, which is given
    all of them and names a commit by its nearest tag.
    """
    repo = invocation.open_repo()
    place = _dataset_at(repo, arguments[0]) if len(arguments) == 1 else None
    if place is None:
        if len(arguments) == 1 and not arguments[0].startswith("-"):
            _require_known(repo, arguments[0])
        color = invocation.colored(sys.stdout)
        return show_git(["describe", *arguments], repo.git, color=color, pager=invocation.pager)
    found = repo.describe_dataset(*place)
    if output_format == "json":
        click.echo(json.dumps({"havasu.describe/v1": asdict(found)}, indent=2))
        return 0
    for line in _lines(found):
        click.echo(visible(line))
    return 0


def _dataset_at(repo: Repo, text: str) -> tuple[str, str] | None:
    """Return the dataset and the revision that a text names; None where it names none."""
    try:
        path, revision = parse_dataset_at(text, known=repo.datasets())
        return (path, revision) if path.strip("/") in repo.datasets(revision) else None
    except HavasuError:
        return None


def _require_known(repo: Repo, text: str) -> None:
    """Raise what is wrong with the name of a dataset, unless it is a revision, which git names."""
    try:
        repo.commit_info(text)
    except HavasuError:
        repo.describe_dataset(*parse_dataset_at(text))


def _lines(found: Description) -> list[str]:
    lines = [
        f"{found.path}: {found.kind}, {counted(found.rows, 'row')}, {format_size(found.size)}",
        *([f"title: {found.title}"] if found.title else []),
        f"key: {', '.join(each.name for each in found.columns if each.key) or 'none'}",
        *([f"crs: {', '.join(found.crs)}"] if found.crs else []),
    ]
    if (extent := found.extent) is not None:
        edges = (extent.west, extent.south, extent.east, extent.north)
        lines.append(f"extent: {', '.join(f'{edge:.6g}' for edge in edges)} (longitude, latitude)")
    lines.append("columns:")
    for each in found.columns:
        parts = [each.name, each.type, *(["not null"] if each.required else [])]
        parts += [counted(each.nulls, "null")] if each.nulls else []
        if each.lower is not None:
            parts.append(f"{_short(each.lower)} to {_short(each.upper)}")
        lines.append("  " + ", ".join(parts))
    return lines


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value) or "''"
    return text if len(text) <= 40 else text[:39] + "…"
