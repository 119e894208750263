"""Bringing the change of one commit to HEAD, or taking it back: cherry-pick and revert.

Both are merges whose base is not the merge base. A cherry-pick brings what the commit
made of its parent into HEAD; a revert brings what the parent is, seen from the commit.
So rows merge cell by cell, and what is in conflict waits, is resolved, concluded and
dropped exactly as with a merge.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from havasu_vc.errors import CorruptionError, DataFileNotFoundError, InvalidArgumentError
from havasu_vc.history.conflicts import MergePolicy
from havasu_vc.merging.merge_commits import MergeResult, merge_commits, require_calm
from havasu_vc.merging.state import MergeState
from havasu_vc.model.changes import count_changes
from havasu_vc.repo.differences import diff_revisions
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import on_newest_head
from havasu_vc.repo.soundness import broken_datasets
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.revisions import EMPTY

__all__ = ["cherry_pick", "revert"]


def revert(
    repo: OpenRepo,
    revision: str,
    *,
    mainline: int | None = None,
    message: str | None = None,
    commit: bool = True,
    policy: MergePolicy | None = None,
) -> MergeResult:
    """Commit the opposite of what a commit changed; without `commit`, only try it."""
    ours, undone, parent = _commits(repo, revision, mainline)
    state = MergeState(
        ours,
        parent,
        f"the parent of {revision}",
        message or _message(undone, parent),
        policy or MergePolicy(),
        kind="revert",
        base=undone.id,
    )
    return _merged(repo, state, dry_run=not commit)


def cherry_pick(
    repo: OpenRepo,
    revision: str,
    *,
    mainline: int | None = None,
    message: str | None = None,
    record: bool = False,
    commit: bool = True,
    policy: MergePolicy | None = None,
) -> MergeResult:
    """Commit again on HEAD what a commit changed, as its author's; with `record`, say so."""
    ours, picked, parent = _commits(repo, revision, mainline)
    text = message or picked.message
    if record:
        text = f"{text.rstrip()}\n\n(cherry picked from commit {picked.id})\n"
    state = MergeState(
        ours,
        picked.id,
        revision,
        text,
        policy or MergePolicy(),
        kind="cherry-pick",
        base=parent,
        author=picked.author,
    )
    return _merged(repo, state, dry_run=not commit)


def _merged(repo: OpenRepo, state: MergeState, *, dry_run: bool) -> MergeResult:
    def attempt() -> MergeResult:
        ours = repo.head().commit or state.ours
        merged = merge_commits(repo, replace(state, ours=ours), dry_run=dry_run)
        return _counted(repo, merged, ours)

    return on_newest_head(repo, attempt)


def _counted(repo: OpenRepo, result: MergeResult, ours: str) -> MergeResult:
    """Return a result that also counts the rows of datasets that were taken as they are."""
    if result.commit in (None, ours):
        return result
    changes = dict(result.changes)
    ends = repo.resolve(ours), repo.resolve(str(result.commit))
    # The commit stands, so what cannot be counted is no error any more.
    broken = {path for end in ends for path in broken_datasets(repo, end)}
    for diff in diff_revisions(repo, *ends, skipped=broken):
        if diff.path not in changes:
            with suppress(CorruptionError, DataFileNotFoundError):
                changes[diff.path] = count_changes(diff.changes)
    return replace(result, changes=changes)


def _message(undone: Commit, parent: str) -> str:
    reversing = f", reversing\nchanges made to {parent}" if len(undone.parents) > 1 else ""
    return f'Revert "{undone.subject}"\n\nThis reverts commit {undone.id}{reversing}.\n'


def _commits(repo: OpenRepo, revision: str, mainline: int | None) -> tuple[str, Commit, str]:
    """Return HEAD's commit, the commit that is meant, and the parent that it is compared with."""
    require_calm(repo)
    ours, found = repo.resolve("HEAD").commit, repo.resolve(revision).commit
    if ours is None or found is None:
        raise InvalidArgumentError(f"{revision} is no commit")
    commit = read_commit(repo.git.objects, found)
    return ours, commit, _parent(commit, revision, mainline)


def _parent(commit: Commit, revision: str, mainline: int | None) -> str:
    parents = commit.parents
    if len(parents) > 1 and mainline is None:
        raise InvalidArgumentError(
            f"{revision} is a merge, so it is not clear what it changed",
            hints=("`--mainline 1` means what it changed of the branch it was merged into",),
        )
    if len(parents) < 2 and mainline is not None:
        raise InvalidArgumentError(f"{revision} is no merge, so it has no mainline")
    if mainline is not None and not 1 <= mainline <= len(parents):
        raise InvalidArgumentError(
            f"{revision} has no parent {mainline}", hints=(f"parents go from 1 to {len(parents)}",)
        )
    if not parents:
        return EMPTY
    return parents[(mainline or 1) - 1]
