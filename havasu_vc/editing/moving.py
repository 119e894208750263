"""Datasets that get another path, or go: one commit, for which no row is read or written.

A dataset is the folder of its internals, and keeps its identity wherever that stands, so that
logs, merges and blame follow it. Files that a user put beside go along with a dataset that
moves; where one is removed they stay, and are named. In Kart's repositories they are attachments
of the dataset, and go with it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from havasu_vc.checkouts import Workspace
from havasu_vc.datasets.commit_plans import MergedTree, files_beside
from havasu_vc.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    InvalidNameError,
    UncommittedChangesError,
)
from havasu_vc.model.names import check_dataset_path
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.trees import (
    Change,
    DatasetFolder,
    Existing,
)

__all__ = ["move_dataset", "remove_datasets"]


def move_dataset(
    repo: OpenRepo, dataset: str, to: str, *, message: str | None = None
) -> CommitResult:
    """Commit that a dataset, with the files beside it, is at another path."""
    path, new = dataset.strip("/"), to.strip("/")
    with Transaction(repo) as transaction:
        folder = _folder(transaction, path)
        if new == path:
            raise InvalidArgumentError(f"{path} is where it is already")
        if new in transaction.folders:
            raise InvalidNameError(new, "there is a dataset of that name")
        check_dataset_path(new, [other for other in transaction.folders if other != path])
        _require_unedited(repo, [path])
        files: dict[str, Change] = {}
        for file, blob in _beside(repo, transaction, path).items():
            files[file] = None
            files[new + file.removeprefix(path)] = blob
        moved = MergedTree(files, {path: None, new: folder.internals}, (), {new: folder.marker})
        _hold_policy(repo, transaction, {path: new})
        commit = transaction.commit([], message or f"Move {path} to {new}", merge=moved)
    return CommitResult(commit, repo.head_branch)


def remove_datasets(
    repo: OpenRepo, datasets: Sequence[str], *, message: str | None = None
) -> CommitResult:
    """Commit that datasets go. Their rows stay in the history.

    Files beside them stay, except in Kart's repositories: there they are attachments.
    """
    paths = list(dict.fromkeys(path.strip("/") for path in datasets))
    with Transaction(repo) as transaction:
        for path in paths:
            _folder(transaction, path)
        _require_unedited(repo, paths)
        beside = [file for path in paths for file in _beside(repo, transaction, path)]
        attached = None
        if repo.git.follows_kart:
            attached, beside = MergedTree.without(beside), []
        _hold_policy(repo, transaction, dict.fromkeys(paths))
        named = paths[0] if len(paths) == 1 else f"{len(paths)} datasets"
        text = message or "\n".join([f"Remove {named}", *_list(paths)])
        commit = transaction.commit([], text, removed=paths, merge=attached)
    return CommitResult(
        commit,
        repo.head_branch,
        notes=tuple(f"{each} is no part of the dataset and stays" for each in beside),
    )


def _list(paths: Sequence[str]) -> list[str]:
    return ["", *(f"* {path}" for path in paths)] if len(paths) > 1 else []


def _folder(transaction: Transaction, path: str) -> DatasetFolder:
    folder = transaction.folders.get(path)
    if folder is None:
        raise DatasetNotFoundError(path, known=transaction.folders)
    return folder


def _require_unedited(repo: OpenRepo, paths: Sequence[str]) -> None:
    """Raise where somebody's edits of a dataset wait for a commit: they are of its old place."""
    workspace = Workspace(repo)
    workspace.require_clean_in_karts()
    edited = set(workspace.edited())
    if (living := workspace.living) is not None:
        edited.update(living.changes().tables)
    for path in paths:
        if path in edited:
            raise UncommittedChangesError(
                f"{path} has edits that are not committed",
                hints=(
                    "`havasu-vc commit` commits them",
                    f"`havasu-vc restore {shlex.quote(path)}` drops them",
                ),
            )


def _hold_policy(
    repo: OpenRepo, transaction: Transaction, moves: dict[str, str] | dict[str, None]
) -> None:
    if repo.check_moves is not None and transaction.head.commit is not None:
        repo.check_moves(repo, moves, repo.resolve(transaction.head.commit))


def _beside(repo: OpenRepo, transaction: Transaction, path: str) -> dict[str, Existing]:
    return files_beside(repo.git.objects, repo.resolve(str(transaction.head.commit)).tree, path)
