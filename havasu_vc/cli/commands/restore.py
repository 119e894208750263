"""`havasu-vc restore`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import click

from havasu_vc.cli.as_kart import is_called_kart, is_in_karts_place
from havasu_vc.cli.branches import tell_update
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.filters import filters_meant, refused_parts
from havasu_vc.cli.options import Command, engine_option, json_option, message_options
from havasu_vc.cli.requests import DRY_RUN, Spelt, takes
from havasu_vc.cli.results import changes_object, tell_commit
from havasu_vc.editing import RestoreRequest
from havasu_vc.errors import (
    DatasetNotFoundError,
    NoChangesError,
    NoWorkingCopyError,
    RevisionNotFoundError,
    RowNotFoundError,
)
from havasu_vc.library import Repo
from havasu_vc.merging import require_no_merge_of_kart
from havasu_vc.repo.filter_texts import named_filters, split_filter
from havasu_vc.repo.results import CommitResult

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Restored

__all__ = ["command"]


@click.command("restore", cls=Command)
@click.argument("filters", metavar="[FILTER...]", nargs=-1)
@takes(
    RestoreRequest,
    source=Spelt("-s --source", metavar="REV", shell_complete=complete_revisions),
    columns=Spelt("--column", metavar="NAME"),
    dry_run=DRY_RUN,
    without=("filters", "message"),
)
@message_options
@engine_option
@json_option
@click.pass_obj
def command(invocation: Invocation, /, request: RestoreRequest) -> None:
    """Drop edits of the workspace, or commit things as they are at another revision.

    Without --source, what was edited in the tables of the workspace is dropped, and with it
    a commit brings things back: all, or what FILTER names, as DATASET, DATASET:feature,
    DATASET:feature:KEY, DATASET:meta or DATASET:meta:ITEM. With --column only cells of that
    column come back, in rows that are at both revisions. A dataset that was deleted comes
    back; one that is not at the other revision goes. Where `create-workingcopy` made a
    working copy and no message is given, this is done in that, and nothing is committed.
    """
    repo = invocation.open_repo()
    request = replace(request, filters=named_filters(request.filters))
    overwritten: tuple[str, ...] = ()
    as_kart = request.message is None and is_in_karts_place(repo.git)
    if as_kart:
        require_no_merge_of_kart(repo.git)
        if is_called_kart():
            request = _asked_of_kart(repo, request)
        found = _there(repo, request) if is_called_kart() else request
        if found is None:
            tell_update(invocation, repo)
            return
        request = found
        refused = refused_parts(repo, request.filters, request.source) if is_called_kart() else None
        if refused is not None:
            tell_update(invocation, repo)
            raise refused
        overwritten = _drop_overwritten(invocation, repo, request)
    if cast("str | None", request.source) is None:  # it was not given
        if request.message is not None:
            raise click.UsageError("-m goes with --source; dropping edits makes no commit")
        if request.columns:
            raise click.UsageError("--column goes with --source; edits are dropped by dataset")
        _drop_edits(invocation, repo, request.filters, dry_run=request.dry_run)
        if as_kart:
            tell_update(invocation, repo)
        return
    dropped = _drop_named_parts(repo, request)
    result = _restored(repo, request, absent=dropped or is_called_kart())
    nothing = result.commit is None and not dropped and not (request.dry_run or result.as_edits)
    if as_kart:
        tell_update(invocation, repo)
    if nothing and as_kart:
        _print(invocation, result, overwritten, dry_run=False)
        if not overwritten:
            invocation.say(f"Nothing to restore: it is as it is at {request.source}")
        return
    if nothing:
        raise NoChangesError(f"there is nothing to restore: it is as it is at {request.source}")
    _print(invocation, result, overwritten, dry_run=request.dry_run)
    tell_commit(invocation, repo, result, dry_run=request.dry_run, form=False)


def _restored(repo: Repo, request: RestoreRequest, *, absent: bool) -> CommitResult:
    """Restore what is named; rows that are neither here nor there may be `absent`."""
    try:
        return repo.restore.by(request)
    except RowNotFoundError:
        if not absent:
            raise
    found = []
    for each in request.filters:
        with suppress(RowNotFoundError):
            repo.restore.by(replace(request, filters=(each,), dry_run=True))
            found.append(each)
    if not found:
        return CommitResult(None, repo.head_branch, {}, as_edits=True)
    return repo.restore.by(replace(request, filters=tuple(found)))


def _asked_of_kart(repo: Repo, request: RestoreRequest) -> RestoreRequest:
    """Return what Kart takes a request for, which restores a working copy and never commits."""
    _require_copy(repo)
    if request.source == "[EMPTY]":
        raise RevisionNotFoundError(request.source)
    source = cast("str | None", request.source)
    return request if source else replace(request, source=cast("str", None))


def _require_copy(repo: Repo) -> None:
    if repo.git.follows_kart and repo.git.is_bare:
        raise NoWorkingCopyError("a bare repository has no working copy, and so no edits")
    repo.workspace.require_found()


def _there(repo: Repo, request: RestoreRequest) -> RestoreRequest | None:
    """Return what Kart looks for of a request: filters of datasets that are there."""
    source, filters = request.source, request.filters
    known = set(repo.datasets()) | set(() if source is None else repo.datasets(source))
    there = filters_meant(filters, known)
    return None if filters and not there else replace(request, filters=there)


def _drop_overwritten(
    invocation: Invocation, repo: Repo, request: RestoreRequest
) -> tuple[str, ...]:
    """Drop the edits of whole datasets that are brought back, as Kart does, and name them."""
    source = cast("str | None", request.source)
    if source is None or request.dry_run or request.columns or not repo.workspace.exists:
        return ()
    now, before = set(repo.datasets()), set(repo.datasets(source))
    wanted = {each.strip("/") for each in request.filters if ":" not in each}
    # What restoring would refuse is an error before anything goes.
    paths = wanted if request.filters else now | before
    if not paths or paths - now or (paths - before and repo.workspace.living is not None):
        return ()
    dropped = tuple(repo.workspace.discard(sorted(paths)))
    if not is_called_kart():
        for path in dropped:
            invocation.say(f"Dropped the edits of {path}")
    return dropped


def _drop_named_parts(repo: Repo, request: RestoreRequest) -> bool:
    """Drop edits of what is named, which the working copy gets as it was elsewhere."""
    parts = {each: split_filter(each) for each in request.filters}
    in_place = request.message is None and not request.dry_run
    if not in_place or request.columns or repo.workspace.living is None:
        return False
    named = [each for each, (_, kind, _) in parts.items() if kind in ("feature", "meta")]
    if not named:
        return False
    # What restoring would refuse is an error before anything goes.
    for path in {parts[each][0] for each in named}:
        repo.dataset(path, request.source)
    with suppress(RowNotFoundError):  # a row that is there as an edit alone
        repo.restore.by(replace(request, dry_run=True))
    return bool(repo.workspace.discard_rows(named))


def _drop_edits(
    invocation: Invocation, repo: Repo, filters: Sequence[str], *, dry_run: bool
) -> None:
    _require_copy(repo)
    known = repo.datasets()
    rows = any(":" in each for each in filters)
    for each in filters:
        path = each.partition(":")[0].strip("/")
        if (rows or not repo.workspace.exists) and path not in known:
            error = DatasetNotFoundError(path, known=known)
            error.hints += ("`--source REV` brings back a dataset that is there",)
            raise error
    # Without tables there are no edits to drop.
    dropped: Sequence[str] = ()
    if rows and repo.workspace.exists:
        dropped = tuple(repo.workspace.discard_rows(filters, dry_run=dry_run))
    elif repo.workspace.exists:
        dropped = repo.workspace.discard(filters, dry_run=dry_run)
    _print(invocation, None, dropped, dry_run=dry_run)
    what = "Would drop" if dry_run else "Dropped"
    if not dropped:
        nothing = "nothing of it is edited" if rows else "nothing is edited"
        invocation.say(
            f"Nothing to restore: {nothing}; `--source REV` commits things as they are there"
        )
    for path in dropped:
        invocation.say(f"{what} the edits {'named ' if rows else ''}of {path}")


def _print(
    invocation: Invocation,
    result: CommitResult | None,
    dropped: Sequence[str] = (),
    *,
    dry_run: bool,
) -> None:
    value: Restored = {
        "dropped": list(dropped),
        "commit": None if result is None else result.commit,
        "changes": {} if result is None else changes_object(result.changes),
        "asEdits": result is not None and result.as_edits,
        "dryRun": dry_run,
    }
    invocation.result("havasu.restore/v1", value)
