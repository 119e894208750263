"""Printing a row as it was: `REV:DATASET:feature:KEY`, as git names a file by `REV:PATH`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.arguments import parse_format
from havasu_vc.cli.diffs import DiffOptions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.output import opened_output
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.writers import JsonStyle

if TYPE_CHECKING:
    from havasu_vc.library import Repo

__all__ = ["print_row", "row_name"]

_NAME = re.compile(r"([^:]+):([^:]+):feature:(.+)", re.DOTALL)


def row_name(arguments: Sequence[str]) -> tuple[str, str, str] | None:
    """Return the revision, the dataset and the key that arguments name; None if they do not.

    >>> row_name(["v1:parcels:feature:42"])
    ('v1', 'parcels', '42')
    >>> row_name(["parcels:feature:42"])
    """
    found = _NAME.fullmatch(arguments[0]) if len(arguments) == 1 else None
    return None if found is None else (found[1], found[2], found[3])


def print_row(
    invocation: Invocation, repo: Repo, name: tuple[str, str, str], options: DiffOptions
) -> None:
    """Print a row as text or JSON."""
    from havasu_vc.looking import reprojection
    from havasu_vc.writers.row import row_json, row_lines

    form, style = parse_format(options.output_format, options.json_style)
    if form not in ("text", "json"):
        raise InvalidArgumentError(f"a row is shown as text or json, not as {form}")
    revision, dataset, key = name
    view, row = repo.read_rows(dataset, [key], revision)
    if form == "json":
        reproject = None if options.crs is None else reprojection(options.crs)[1]
        text = row_json(row, view.header, JsonStyle(style), reproject)
    else:
        colored = options.output is None and invocation.colored(sys.stdout, options.color)
        text = "\n".join(row_lines(row, view.header, color=colored))
    if options.output is None:
        click.echo(text)
    else:
        with opened_output(options.output) as out:
            out.write(f"{text}\n")
