"""`havasu-vc grep`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO, cast

import click

from havasu_vc.cli.arguments import revisions_and_filters
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import RevisionCommand, format_option
from havasu_vc.cli.pager import paged_output
from havasu_vc.cli.requests import NAMES, Spelt, takes
from havasu_vc.looking import SeekRequest
from havasu_vc.writers.terminal import printable, visible_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from havasu_vc.looking import FoundRows

__all__ = ["command"]


@click.command("grep", cls=RevisionCommand)
@click.argument("text", metavar="VALUE", required=False)
@click.argument(
    "arguments", metavar="[REV] [DATASET...]", nargs=-1, shell_complete=complete_revisions
)
@takes(
    SeekRequest,
    ignore_case=Spelt("-i --ignore-case"),
    regex=Spelt("-E"),
    columns=NAMES,
    without=("text", "revision", "filters"),
)
@click.option("-e", "pattern", metavar="VALUE", help="VALUE, where it begins with a dash.")
@click.option("-F", "fixed", is_flag=True, help="VALUE is taken as it is; this is the default.")
@click.option("-c", "--count", is_flag=True, help="Print how many rows each dataset has.")
@click.option("-l", "--name-only", is_flag=True, help="Print the datasets alone.")
@format_option("text", "json-lines")
@click.pass_context
def command(
    context: click.Context,
    request: SeekRequest,
    pattern: str | None,
    arguments: tuple[str, ...],
    fixed: bool,
    count: bool,
    name_only: bool,
    output_format: str,
) -> int:
    """Print the rows that hold VALUE, at HEAD or at REV.

    Cells of text hold it where it is part of them, others where it is their value. A line is
    DATASET:feature:KEY:COLUMN=TEXT, with REV: before it where one is given; rows come in the order
    in which they are stored. The exit code is 1 where no row holds it, as of `git grep`.
    """
    text = cast("str | None", request.text)
    if pattern is not None:
        arguments = arguments if text is None else (text, *arguments)
        text = pattern
    if text is None:
        raise click.UsageError("Missing argument 'VALUE'.")
    if request.regex and fixed:
        raise click.UsageError("-E and -F contradict each other")
    if (count or name_only) and output_format != "text":
        raise click.UsageError("-c and -l print text")
    invocation: Invocation = context.obj
    repo = invocation.open_repo()
    revisions, filters = revisions_and_filters(context, repo, arguments)
    revision = revisions[0] if revisions else request.revision
    found = repo.seek.by(replace(request, text=text, revision=revision, filters=filters))
    before = f"{revisions[0]}:" if revisions else ""
    with paged_output(repo.git, wanted=invocation.pager) as out:
        if count or name_only:
            return _summed(found, before, out, count=count)
        some = False
        for rows in found:
            some = True
            if output_format == "json-lines":
                _write_json(rows, out)
            else:
                _write_text(rows, before, out)
    return 0 if some else 1


def _summed(found: Iterator[FoundRows], before: str, out: TextIO, *, count: bool) -> int:
    sums: dict[str, int] = {}
    for rows in found:
        sums[rows.path] = sums.get(rows.path, 0) + rows.rows.num_rows
    for path, number in sums.items():
        out.write(printable(f"{before}{path}") + (f":{number}\n" if count else "\n"))
    return 0 if sums else 1


def _write_text(found: FoundRows, before: str, out: TextIO) -> None:
    from havasu_vc.writers.values import key_labels, plain_text

    labels = key_labels(found.rows.to_struct_array(), found.schema).to_pylist()
    held = {name: mask.to_pylist() for name, mask in found.held.items()}
    texts = {
        name: plain_text(
            found.rows.column(name), found.schema.by_name[name], zones=True
        ).to_pylist()
        for name in held
    }
    for row, label in enumerate(labels):
        for name, where in held.items():
            if where[row]:
                line = f"{before}{found.path}:feature:{label}:{name}={texts[name][row]}"
                out.write(printable(line) + "\n")


def _write_json(found: FoundRows, out: TextIO) -> None:
    from havasu_vc.writers.values import json_values, key_labels

    labels = key_labels(found.rows.to_struct_array(), found.schema).to_pylist()
    values = {
        field.name: json_values(found.rows.column(field.name), field)
        for field in found.schema.fields
    }
    held = {name: mask.to_pylist() for name, mask in found.held.items()}
    for row, label in enumerate(labels):
        line = {
            "dataset": found.path,
            "key": label,
            "columns": [name for name, where in held.items() if where[row]],
            "row": {name: column[row] for name, column in values.items()},
        }
        out.write(visible_json(json.dumps(line, ensure_ascii=False)) + "\n")
