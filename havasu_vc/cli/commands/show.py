"""`havasu-vc show`."""

from __future__ import annotations

import click

from havasu_vc.cli.arguments import revisions_and_filters
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.diffs import DiffOptions, diff_options, print_diff
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import RevisionCommand
from havasu_vc.cli.rows import print_row, row_name

__all__ = ["command"]


@click.command("show", cls=RevisionCommand)
@click.argument(
    "arguments",
    metavar="[REV] [FILTER...] | REV:DATASET:feature:KEY",
    nargs=-1,
    shell_complete=complete_revisions,
)
@diff_options
@click.pass_context
def command(context: click.Context, /, arguments: tuple[str, ...], options: DiffOptions) -> int:
    """Show a commit and what it changed, or a row as it was.

    Filters are those of `havasu-vc diff`.
    """
    invocation: Invocation = context.obj
    repo = invocation.open_repo()
    named = row_name(arguments)
    if named is not None and named[0] not in repo.datasets():
        print_row(invocation, repo, named, options)
        return 0
    revisions, filters = revisions_and_filters(context, repo, arguments)
    revision = revisions[0] if revisions else "HEAD"
    equal_ones = options.output_format == "json-lines"
    commit, diffs = repo.show(revision, filters, equal_ones=equal_ones)
    return print_diff(
        invocation,
        repo,
        diffs,
        options,
        commit=commit,
        revisions=(f"{revision}^?..{revision}", filters),
        with_files=True,
    )
