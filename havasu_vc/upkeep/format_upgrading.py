"""The datasets of HEAD in the newest form, in one commit: documents alone, no data file."""

from __future__ import annotations

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.upgrading import is_old, upgrade_blobs
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import NoChangesError
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction

__all__ = ["upgrade_datasets"]


def upgrade_datasets(repo: OpenRepo, message: str | None = None) -> CommitResult:
    """Commit the datasets of HEAD that are of format 1 as ones of format 2."""
    with Transaction(repo) as transaction:
        edits = []
        for path, folder in transaction.folders.items():
            inside = TreeFolder(repo.git.objects, folder.internals)
            if folder.marker == HAVASU_MARKER and is_old(inside):
                edits.append(TreeEdit(path, upgrade_blobs(inside, path, "HEAD")))
        if not edits:
            raise NoChangesError("every dataset of HEAD is of format 2 already")
        repo.git.config.unset("merge.directoryRenames")
        commit = transaction.commit(edits, message or "Upgrade datasets to format 2")
    return CommitResult(commit, repo.head_branch, {edit.path: edit.counts for edit in edits})
