"""`havasu-vc create-patch` and `apply`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from havasu_vc.cli.arguments import names_something, parse_size
from havasu_vc.cli.as_kart import is_called_kart, is_in_karts_place, results_on_stdout
from havasu_vc.cli.branches import tell_update
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.diffs import crs_as_kart, tell_what_is_hidden
from havasu_vc.cli.options import (
    Command,
    engine_option,
    join_message,
    json_option,
    output_option,
    style_option,
)
from havasu_vc.cli.output import opened_output, require_file
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.cli.results import tell_bare_commit, tell_commit
from havasu_vc.editing import PatchRequest
from havasu_vc.errors import InvalidArgumentError, NoWorkingCopyError
from havasu_vc.writers import JsonStyle, WriterOptions, writer_named

if TYPE_CHECKING:
    from havasu_vc.library import Repo

__all__ = ["apply", "create_patch"]


@click.command("create-patch", cls=Command)
@click.argument("revision", metavar="[REV]", default="HEAD", shell_complete=complete_revisions)
@click.argument("filters", metavar="[FILTER...]", nargs=-1)
@output_option
@style_option
@click.option(
    "--diff-format",
    type=click.Choice(("none", "full", "no-data-changes")),
    default="full",
    show_default=True,
    help="Leave row changes out but for whether there are some (no-data-changes), or all changes "
    "(none).",
)
@click.option("--crs", metavar="CRS", help="Write geometries in this CRS.")
@engine_option
@click.pass_obj
def create_patch(
    invocation: Invocation,
    revision: str,
    filters: tuple[str, ...],
    output: Path | None,
    json_style: str,
    diff_format: str,
    crs: str | None,
) -> None:
    """Write a commit as a patch that `havasu-vc apply` takes.

    The patch is JSON in Kart's form and names the commit that it is made on.
    """
    source = click.get_current_context().get_parameter_source("revision")
    if is_called_kart() and source is ParameterSource.DEFAULT:
        raise click.UsageError("Missing argument 'COMMIT'.")
    repo = invocation.open_repo()
    _require_datasets(repo, revision, filters)
    alone = diff_format == "no-data-changes"
    # Where it is told whether rows changed, it is told of all datasets.
    commit, found = (
        repo.show(revision, filters, equal_ones=True)
        if alone
        else repo.create_patch(revision, filters)
    )
    # A patch without a dataset that cannot be read would be another commit's.
    diffs = list(found)
    files = repo.file_changes(f"{revision}^?..{revision}", filters, contents=True)
    options = WriterOptions(
        json_style=JsonStyle(json_style),
        commit=commit,
        files=files,
        header_alone=diff_format == "none",
        data_changes=alone,
        as_kart=is_called_kart(),
    )
    if crs is not None:
        from havasu_vc.looking import reprojection

        target, reproject = reprojection(crs_as_kart(crs))
        options = replace(options, reproject=reproject, crs_name=target.identifier)
    require_file(output, "json", as_kart=is_in_karts_place(repo.git))
    with opened_output(output) as out:
        writer_named("patch")(diffs, out, options)
    if diff_format == "full":
        tell_what_is_hidden(invocation, diffs)


def _require_datasets(repo: Repo, revision: str, filters: Sequence[str]) -> None:
    """Raise for a word behind the revision that is a second one, and chooses nothing."""
    for each in filters:
        if ":" in each or "*" in each or names_something(repo, each, (f"{revision}^?", revision)):
            continue
        if is_called_kart():
            raise click.UsageError(f"Got unexpected extra argument ({each})")
        raise InvalidArgumentError(
            f"a patch is of one commit, and {each!r} is no dataset there",
            hints=("`havasu-vc diff A...B -o json` tells what differs between two commits",),
        )


@click.command("apply", cls=Command)
@click.argument("source", metavar="PATCH", type=click.File("rb"))
@takes(
    PatchRequest,
    ref=Spelt(metavar="BRANCH"),
    commit=Spelt(
        "--commit/--no-commit",
        help="Try the patch, in the working copy if there is one; commit nothing.",
    ),
    message=Spelt("-m --message", metavar="TEXT", multiple=True, parse=join_message),
    limit=Spelt("--max-size", metavar="SIZE", type=click.STRING, parse=parse_size),
    without=("source", "rows_left_out", "needs_message", "needs_base", "keeps_columns"),
)
@click.option("--amend", is_flag=True, help="Commit in the place of the branch's commit.")
@engine_option
@json_option
@click.pass_obj
def apply(invocation: Invocation, /, request: PatchRequest, amend: bool) -> None:
    """Commit the changes of PATCH, a file that `havasu-vc create-patch` or Kart wrote.

    PATCH may be - for stdin. The commit has the author, time and message of the patch. Geometries
    of one that `create-patch --crs` wrote are brought into the dataset's system. With --amend
    the commit stands in the place of HEAD's, or with --ref that branch's, whose changes it holds
    as well.
    """
    if amend and not request.commit:
        raise click.UsageError("--no-commit and --amend are incompatible")
    if is_called_kart():
        request = _as_kart(request)
    repo = invocation.open_repo()
    if not request.commit and is_in_karts_place(repo.git) and repo.workspace.living is None:
        raise NoWorkingCopyError("--no-commit requires a working copy")
    with repo.amending(request.ref) if amend else nullcontext():
        result = repo.apply_patch.by(request)
    here = request.ref in (None, "HEAD", repo.head_branch, f"refs/heads/{repo.head_branch}")
    if results_on_stdout() and result.commit is not None:
        tell_bare_commit(invocation, repo, result, here=here)
        return
    if here:
        tell_update(invocation, repo)
    tell_commit(invocation, repo, result, dry_run=not request.commit)


def _as_kart(request: PatchRequest) -> PatchRequest:
    """Return what Kart makes of a request: a message and a base are needed, lacking rows not."""
    if not request.commit and request.ref is not None:
        raise click.UsageError("--no-commit and --ref are incompatible")
    empty = request.allow_empty or not request.commit
    wanted = replace(request, allow_empty=empty, rows_left_out=True, needs_message=True)
    return replace(wanted, needs_base=True, keeps_columns=True)
