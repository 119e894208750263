"""Amending: the next commit stands in the place of a branch's, with its parents and its author.

The commit that was there stays in the reflog, as git has it. What a commit holds of edits
is made as ever, so tables, copies and rows can all be what is amended with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from havasu_vc.errors import NoChangesError, StateError
from havasu_vc.merging import merge_waits, require_calm
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.other_branch import other_branch
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.refs import read_head, read_ref
from havasu_vc.store.repository import Operation

__all__ = ["amend", "amending"]


@contextmanager
def amending(repo: OpenRepo, ref: str | None = None) -> Iterator[Commit]:
    """Have a commit that a block makes stand in the place of HEAD's, which is given to it.

    With `ref`, in the place of that branch's.
    """
    branch = other_branch(repo, ref)
    head = read_head(repo.git)
    commit = head.commit if branch is None else read_ref(repo.git, f"refs/heads/{branch}")
    if commit is None:
        raise NoChangesError("you have nothing yet to amend", hints=("`havasu-vc commit`",))
    operation = repo.git.operation
    if operation in (Operation.MERGE, Operation.CHERRY_PICK) or merge_waits(repo.git):
        what = "merge" if operation is Operation.NONE else operation.value
        raise StateError(
            f"you are in the middle of a {what} -- cannot amend",
            hints=(
                f"`havasu-vc {what} --continue` concludes it, `havasu-vc {what} --abort` drops it",
            ),
        )
    require_calm(repo)
    repo.amended = read_commit(repo.git.objects, commit)
    try:
        yield repo.amended
    finally:
        repo.amended = None


def amend(repo: OpenRepo, *, message: str | None = None) -> CommitResult:
    """Give HEAD's commit another message; without one, only another date and committer."""
    with amending(repo) as amended, Transaction(repo) as transaction:
        commit = transaction.commit((), message or amended.message)
    return CommitResult(commit, repo.head_branch)
