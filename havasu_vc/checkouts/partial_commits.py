"""Committing, or dropping, some of the rows that are edited in tables; the rest stays edited.

The edits are set aside as a stash, the part is committed from there or left out, and the rest comes
back into the tables. Whatever happens between is in the stash.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from havasu_vc.checkouts.catching_up import following
from havasu_vc.checkouts.edits import diff_workspace
from havasu_vc.checkouts.glance import nothing_edited
from havasu_vc.checkouts.living_lookup import working_copy
from havasu_vc.checkouts.living_standing import can_stay
from havasu_vc.checkouts.requests import WorkspaceCommitRequest
from havasu_vc.checkouts.stashing import Stash, apply_stash, edits_of_stash, save_stash
from havasu_vc.errors import HavasuError, StateError
from havasu_vc.merging import require_calm
from havasu_vc.model.changes import count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.repo.filters import RepoFilter, parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import part_of
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.workspace.state import read_state

__all__ = ["commit_part", "discard_part"]


def commit_part(repo: OpenRepo, request: WorkspaceCommitRequest) -> CommitResult:
    """Commit what filters name of the edits in tables."""
    require_calm(repo)
    counts: dict[str, ChangeCounts] = {}
    living = working_copy(repo)
    if living is not None and living.edited():
        raise StateError(
            "the working copy has edits too, so those of tables cannot be committed in part",
            hints=("`havasu-vc commit` or `havasu-vc stash` them first",),
        )
    for diff in diff_workspace(repo, None, request.filters):
        found = count_changes(diff.changes)
        if found.total or diff.meta:
            counts[diff.path] = found
    if request.dry_run:
        return CommitResult(None, repo.head_branch, counts)
    if not counts:
        raise nothing_edited(request.filters)
    stash = save_stash(repo, tuple(counts), message="what a partial commit takes and leaves")
    repo.taken.clear()
    try:
        result = _commit(repo, stash, request.filters, request.message)
    finally:
        _bring_back(repo, stash)
    return result


def discard_part(
    repo: OpenRepo, filters: Sequence[str], *, dry_run: bool = False
) -> dict[str, int]:
    """Drop the edits of rows that filters name, and return how many of each dataset went."""
    require_calm(repo)
    wanted = parse_filters(filters, lenient=repo.git.follows_kart)
    if gone := _discard_living(repo, wanted, dry_run=dry_run):
        return gone
    if read_state(repo.git.git_directory) is None:
        return {}
    counts = {}
    for diff in diff_workspace(repo, None, filters):
        if found := count_changes(diff.changes).total:
            counts[diff.path] = found
    if not counts or dry_run:
        return counts
    stash = save_stash(repo, tuple(counts), message="edits of which some are being dropped")
    repo.taken.clear()
    try:
        apply_stash(repo, str(stash.number), drop=True, without=wanted)
    except HavasuError:
        # As before, with nothing dropped.
        _bring_back(repo, stash)
        raise
    return counts


def _discard_living(repo: OpenRepo, wanted: RepoFilter, *, dry_run: bool) -> dict[str, int]:
    """Drop edits of the living working copy."""
    living = working_copy(repo)
    if living is None:
        return {}
    with living.taking(dry_run) as held:
        chosen = {path: edits.chosen(repo, wanted) for path, edits in living.edited().items()}
        found = {path: edits for path, edits in chosen.items() if edits is not None}
        for path, edits in found.items():
            if edits.others and not can_stay(held.file, edits, edits.base, edits.base):
                raise StateError(
                    f"the table of {path} is not as it was made, so its edits are dropped together",
                    hints=(f"`havasu-vc restore {shlex.quote(path)}` drops all of them",),
                )
        if not dry_run:
            held.dropped.update(found)
    return {path: edits.counts.total for path, edits in found.items()}


def _commit(
    repo: OpenRepo, stash: Stash, filters: Sequence[str], message: str | None
) -> CommitResult:
    wanted = parse_filters(filters, of_changes=True)
    with following(repo), Transaction(repo) as transaction:
        parts = [
            part_of(repo, transaction.dataset(edit.path), edit, wanted)
            for edit in edits_of_stash(repo, transaction.storage, stash)
        ]
        edits = [edit for edit in parts if edit.blobs]
        text = message or f"Edit {', '.join(edit.path for edit in edits)}"
        commit = transaction.commit(edits, text)
    counts = {edit.path: edit.counts for edit in edits} | transaction.recounted
    meta = {edit.path: edit.meta for edit in edits}
    return CommitResult(commit, repo.head_branch, counts, (), meta)


def _bring_back(repo: OpenRepo, stash: Stash) -> None:
    try:
        apply_stash(repo, str(stash.number), drop=True)
    except HavasuError as error:
        repo.settings.note(
            f"what is not committed is in stash {stash.number}: {error.message}; "
            "`havasu-vc stash pop` brings it back"
        )
