"""`havasu-vc diff` and `show`."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.arguments import parse_format, revisions_and_filters
from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.diffs import DiffOptions, diff_options, print_diff
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.diffs import estimates_counts, filters_counted, one_after_the_other
from havasu_vc.cli.kart.filters import filters_of_edits
from havasu_vc.cli.options import PLACE, RevisionCommand, tile_format_option
from havasu_vc.cli.output import opened_output
from havasu_vc.errors import HavasuError, InvalidArgumentError, NoWorkingCopyError
from havasu_vc.merging import merged_tree
from havasu_vc.writers import JsonStyle

if TYPE_CHECKING:
    from havasu_vc.library import Repo
    from havasu_vc.model.diffs import DatasetDiff

__all__ = ["command", "print_row", "row_name", "show"]


@click.command("diff", cls=RevisionCommand)
@click.argument(
    "arguments", metavar="[REVISIONS] [FILTER...]", nargs=-1, shell_complete=complete_revisions
)
@click.option(
    "--from",
    "file",
    metavar="FILE",
    type=PLACE,
    help="Show what was edited in a copy of `checkout --as` or a table of `checkout --to`, "
    "against the commit that it is of, or against A.",
)
@diff_options
@tile_format_option
@click.pass_context
def command(
    context: click.Context,
    /,
    arguments: tuple[str, ...],
    file: str | Path | None,
    options: DiffOptions,
) -> int:
    r"""Show what differs between two revisions, or what is edited in the workspace.

    With -q nothing is printed, and the exit code is 1 where something differs.

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
    if invocation.quiet and options.output_format == "text":
        # As of `git diff --quiet`, the exit code tells.
        options = replace(options, output_format="quiet", summary=None, only_feature_count=None)
    repo = _warning(invocation, options).open_repo()
    if file is not None:
        asked = revisions_and_filters(context, repo, arguments)
        return _of_file(invocation, repo, file, asked, options)
    revisions, filters = revisions_and_filters(context, repo, arguments, most=2)
    filters = filters_counted(options.only_feature_count, filters)
    equal_ones = _names_all(options)
    between = "..." if repo.git.follows_kart else ".."
    range_text = between.join(revisions) if revisions else "HEAD"
    if ".." not in range_text and repo.workspace.exists:
        chosen = filters_of_edits(filters, range_text)
        diffs = _of_edits(repo, range_text if revisions else None, chosen, options)
        # Kart tells of files too, which no working copy has: those since a revision or of a merge.
        merged = merged_tree(repo.git) if is_called_kart() else None
        files = is_called_kart() and bool(revisions or merged)
        of = (f"{range_text}...{merged or 'HEAD'}" if files else range_text, filters)
        return print_diff(invocation, repo, diffs, options, revisions=of, with_files=files)
    if ".." not in range_text:
        _require_copy(repo)
    if not revisions and not filters and options.output_format == "text":
        invocation.note(
            "there is no workspace to compare with; `havasu-vc checkout` makes one, "
            "`havasu-vc show` shows the last commit, `havasu-vc diff A...B` compares two"
        )
    diffs = repo.diff(range_text, filters, equal_ones=equal_ones, moves=options.tells_moves)
    return print_diff(
        invocation,
        repo,
        diffs,
        options,
        revisions=(range_text, filters),
        with_files=True,
    )


def _names_all(options: DiffOptions) -> bool:
    """Whether all datasets of Kart's are named: in lines, or where it is told if rows changed."""
    form = options.output_format.partition(":")[0]
    return form == "json-lines" or (form == "json" and options.diff_format == "no-data-changes")


def _of_edits(
    repo: Repo, since: str | None, filters: Sequence[str], options: DiffOptions
) -> Iterator[DatasetDiff]:
    """Return what is edited in the workspace, perhaps since another revision."""
    if since is not None and estimates_counts(options.only_feature_count):
        return one_after_the_other(repo.diff(f"{since}...HEAD"), repo.workspace.diff())
    of_all = options.output_format == "json-lines"
    return (repo.workspace.diff_of_all if of_all else repo.workspace.diff)(since, filters)


def _warning(invocation: Invocation, options: DiffOptions) -> Invocation:
    """Return what tells of rows in the way, which in Kart `-o quiet` does not."""
    silent = is_called_kart() and options.output_format == "quiet"
    return replace(invocation, quiet=True) if silent else invocation


def _require_copy(repo: Repo) -> None:
    """Raise where there is nothing to compare with, as Kart does in a bare repository."""
    if repo.git.follows_kart and repo.git.is_bare:
        raise NoWorkingCopyError(
            "a bare repository has no working copy to compare with",
            hints=(
                "`havasu-vc show` shows the last commit",
                "`havasu-vc diff A...B` compares two",
            ),
        )
    repo.workspace.require_found()
    if is_called_kart():
        raise NoWorkingCopyError("there is no working copy at any place")


def _of_file(
    invocation: Invocation,
    repo: Repo,
    file: str | Path,
    asked: tuple[tuple[str, ...], tuple[str, ...]],
    options: DiffOptions,
) -> int:
    """Show what was edited in a copy, or in a table elsewhere."""
    from havasu_vc.cli.commands.commit import is_table

    revisions, filters = asked
    revision = revisions[0] if revisions else None
    if revision is not None and ".." in revision:
        raise click.UsageError("--from compares FILE with one revision, such as HEAD")
    diff = repo.workspace.diff_from if is_table(file) else repo.diff_copy
    edits = diff(str(file), filters, revision)
    return print_diff(invocation, repo, edits, options, revisions=("HEAD", filters))


@click.command("show", cls=RevisionCommand)
@click.argument(
    "arguments",
    metavar="[REV] [FILTER...] | REV:DATASET:feature:KEY",
    nargs=-1,
    shell_complete=complete_revisions,
)
@diff_options
@click.pass_context
def show(context: click.Context, /, arguments: tuple[str, ...], options: DiffOptions) -> int:
    """Show a commit and what it changed, or a row as it was.

    Filters are those of `havasu-vc diff`.
    """
    invocation: Invocation = context.obj
    repo = invocation.open_repo()
    named = row_name(arguments)
    if named is not None and named[0] not in repo.datasets():
        print_row(invocation, repo, named, options)
        return 0
    if len(arguments) == 1:
        _refuse_path_at(repo, arguments[0])
    revisions, filters = revisions_and_filters(context, repo, arguments)
    filters = filters_counted(options.only_feature_count, filters)
    revision = revisions[0] if revisions else "HEAD"
    equal_ones = _names_all(options)
    moves = options.tells_moves
    commit, diffs = repo.show(revision, filters, equal_ones=equal_ones, moves=moves)
    return print_diff(
        invocation,
        repo,
        diffs,
        options,
        commit=commit,
        revisions=(f"{revision}^?..{revision}", filters),
        with_files=True,
    )


def _refuse_path_at(repo: Repo, text: str) -> None:
    """Answer `REV:DATASET`, which git would show whole."""
    revision, colon, path = text.partition(":")
    if not colon or ":" in path or revision in repo.datasets():
        return
    try:
        known = repo.datasets(revision)
    except HavasuError:
        return
    if path.strip("/") in known:
        path = path.strip("/")
        raise InvalidArgumentError(
            f"{path!r} is a dataset, and `show` tells what a commit changed",
            hints=(
                f"`havasu-vc cat {shlex.quote(path)}@{revision}` prints its rows as they were",
                f"`havasu-vc show {revision} {shlex.quote(path)}` shows what the "
                f"commit changed of it",
            ),
        )


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
