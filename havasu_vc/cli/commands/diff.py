"""`havasu-vc diff`."""

from __future__ import annotations

import click

from havasu_vc.cli.arguments import revisions_and_filters
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.diffs import DiffOptions, diff_options, print_diff
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import RevisionCommand

__all__ = ["command"]


@click.command("diff", cls=RevisionCommand)
@click.argument(
    "arguments", metavar="[REVISIONS] [FILTER...]", nargs=-1, shell_complete=complete_revisions
)
@diff_options
@click.pass_context
def command(context: click.Context, /, arguments: tuple[str, ...], options: DiffOptions) -> int:
    r"""Show what differs between two revisions, or what is edited in the workspace.

    \b
                  from what was checked out to the tables of the workspace
    A             from A to the tables of the workspace; without one, to HEAD
    A..B or A B   from A to B
    A...B         from the merge base of A and B to B; in Kart's repositories the two are exchanged
    A^?           A's first parent, or nothing where A is the first commit
    [EMPTY]       the revision that holds nothing

    A filter is DATASET, DATASET:feature, DATASET:feature:KEY, DATASET:meta or
    DATASET:meta:ITEM; * in DATASET stands for anything. `--` stands between revisions
    and filters where an argument could be either.
    """
    invocation: Invocation = context.obj
    repo = invocation.open_repo()
    revisions, filters = revisions_and_filters(context, repo, arguments, most=2)
    between = "..." if repo.git.follows_kart else ".."
    range_text = between.join(revisions) if revisions else "HEAD"
    if ".." not in range_text and repo.workspace.exists:
        diffs = repo.workspace.diff(range_text if revisions else None, filters)
        return print_diff(invocation, repo, diffs, options, revisions=(range_text, filters))
    if ".." not in range_text:
        repo.workspace.require_found()
    if not revisions and not filters and options.output_format == "text":
        invocation.note(
            "there is no workspace to compare with; `havasu-vc checkout` makes one, "
            "`havasu-vc show` shows the last commit, `havasu-vc diff A...B` compares two"
        )
    # Kart's JSON lines name every dataset.
    equal_ones = options.output_format == "json-lines"
    diffs = repo.diff(range_text, filters, equal_ones=equal_ones)
    return print_diff(
        invocation,
        repo,
        diffs,
        options,
        revisions=(range_text, filters),
        with_files=True,
    )
