"""Files beside datasets, which Kart calls attachments: committed without a work tree.

In a repository of Kart's git has no index to commit from, so this is the way to put a licence
or a picture beside a dataset. Elsewhere git itself commits files.
"""

from __future__ import annotations

from collections.abc import Mapping

from havasu_vc.errors import (
    InvalidArgumentError,
    NoChangesError,
    NotYetSupportedError,
)
from havasu_vc.model.names import DATASET_MARKERS, KART_VERSION, OLD_VERSION, unsafe_reason
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.other_branch import other_branch
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import MergedTree, Transaction
from havasu_vc.store.objects import ObjectId
from havasu_vc.store.trees import read_blob

__all__ = ["commit_files", "not_a_users_file"]


def not_a_users_file(path: str) -> str | None:
    """Return why a file is none that a person may commit beside datasets; None where it is."""
    reason = unsafe_reason(path)
    if reason is None and (
        set(path.split("/")) & set(DATASET_MARKERS) or path in (KART_VERSION, OLD_VERSION)
    ):
        return "it is none of the user's files"
    return reason


def commit_files(
    repo: OpenRepo,
    files: Mapping[str, bytes | None],
    message: str,
    *,
    ref: str | None = None,
    allow_empty: bool = False,
) -> CommitResult:
    """Commit what files are to hold, None for none, to HEAD or to another branch."""
    branch = other_branch(repo, ref)
    if not repo.git.follows_kart:
        raise NotYetSupportedError(
            "files are committed so in Kart's repositories alone",
            hints=("`git add FILE` and `git commit` commit files here",),
        )
    for path in files:
        if (reason := not_a_users_file(path)) is not None:
            raise InvalidArgumentError(f"{path!r} cannot be committed: {reason}")
    with Transaction(repo, branch=branch) as transaction:
        head = transaction.head.commit
        tree: ObjectId | None = None if head is None else repo.resolve(head).tree
        changed = {
            path: data
            for path, data in files.items()
            if data != (None if tree is None else read_blob(repo.git.objects, tree, path))
        }
        if not changed and not allow_empty and repo.amended is None:
            raise NoChangesError("no file differs; nothing is committed")
        merge = MergedTree(changed, {}, ()) if changed else None
        identity = transaction.commit((), message, merge=merge)
    return CommitResult(identity, branch or repo.head_branch)
