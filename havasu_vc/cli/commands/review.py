"""`havasu-vc review`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from havasu_vc.cli.arguments import revisions_and_filters
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.diffs import check_terminal
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import (
    RevisionCommand,
    engine_option,
    format_option,
    output_option,
)
from havasu_vc.cli.output import opened_output
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.cli.standard_streams import give_back_memory
from havasu_vc.review import ReviewOptionsRequest
from havasu_vc.writers import WRITERS, writer_named

__all__ = ["command"]

REVIEWS = sorted((name for name, known in WRITERS.items() if known.reviews), reverse=True)
"""The diff formats that are reviews; the first is for people."""


@click.command("review", cls=RevisionCommand)
@click.argument(
    "arguments", metavar="BASE...HEAD [FILTER...]", nargs=-1, shell_complete=complete_revisions
)
@format_option(
    *REVIEWS,
    "json",
    help="; ".join(
        [f"{name}: {WRITERS[name].help.removesuffix('.')}" for name in REVIEWS]
        + ["json: All that a review tells."]
    ),
)
@output_option
@takes(
    ReviewOptionsRequest,
    limit=Spelt("--max-bytes", type=click.IntRange(4_000)),
    crs=Spelt(metavar="CRS"),
    samples=Spelt(type=click.IntRange(0, 1000), show_default=True),
    without=("revisions", "filters"),
)
@engine_option
@click.pass_context
def command(
    context: click.Context,
    /,
    request: ReviewOptionsRequest,
    arguments: tuple[str, ...],
    output_format: str,
    output: Path | None,
) -> None:
    """Sum up what changed between two revisions, for people who decide on it.

    The summary comes first: schema and other meta items in words, then for each dataset
    how many rows changed, which columns, where, and what is odd; then rows worth seeing.
    Where HEAD does not merge with BASE, what is in conflict and how to settle it stands first.
    """
    give_back_memory()
    invocation: Invocation = context.obj
    repo = invocation.open_repo()
    revisions, filters = revisions_and_filters(context, repo, arguments, most=2)
    if not revisions:
        raise click.UsageError("name what to review, such as main...HEAD")
    request = replace(request, revisions="..".join(revisions), filters=filters)
    if output_format == "html" and request.crs is not None:
        raise click.UsageError("a page shows a map of the world; --crs is not for it")
    if output_format == "json":
        from havasu_vc.review import format_json

        found = repo.review(request.revisions, filters, samples=request.samples, crs=request.crs)
        text = format_json(found)
        with opened_output(output) as out:
            out.write(text)
    else:
        check_terminal(output_format, output)
        how = repo.review_options.by(request)
        with opened_output(output) as out:
            writer_named(output_format)((), out, how)
    if output is not None and str(output) != "-":
        invocation.say(f"Wrote the review of {request.revisions} to {output}")
