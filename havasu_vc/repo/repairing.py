"""Mending datasets of HEAD whose guard does not match.

That happens when git was made to finish a merge of two edited snapshots. Where HEAD is
a merge of two commits, its datasets are merged again, row by row, from these. Where it
has one parent, what can be told from the tree itself is mended (`upkeep.repair`). The
result is a commit of its own; nothing is rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from havasu_vc.datasets.any import as_havasu
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import (
    ConflictError,
    NoChangesError,
    UnfinishedMergeError,
)
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.merge_datasets import MergedDataset
from havasu_vc.repo.merge_state import MergeState
from havasu_vc.repo.merge_trees import MergeRules, merge_trees, root_tree
from havasu_vc.repo.merging import base_of
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import MergedTree, Transaction
from havasu_vc.store.commits import read_commit
from havasu_vc.store.stray import sweep
from havasu_vc.upkeep.repair import repair_dataset

__all__ = ["broken_datasets", "repair"]


def broken_datasets(repo: OpenRepo) -> tuple[str, ...]:
    """Return the datasets of HEAD whose guard does not match."""
    head = repo.head()
    broken = []
    for path, folder in repo.folders(head).items():
        if folder.marker == HAVASU_MARKER:
            try:
                repo.view(folder, "HEAD").check_guard()
            except UnfinishedMergeError:
                broken.append(path)
    return tuple(broken)


def repair(repo: OpenRepo, message: str | None) -> CommitResult:
    """Mend the datasets of HEAD whose guard does not match."""
    head = repo.head()
    broken = broken_datasets(repo)
    if head.commit is None or not broken:
        raise NoChangesError("every dataset of HEAD is sound")
    parents = read_commit(repo.git.objects, head.commit).parents
    internals: dict[str, str | None] = {}
    edits: list[TreeEdit]
    with Transaction(repo) as transaction:
        transaction.require_head(head.commit)
        if len(parents) == 2:
            merged = _merged_again(repo, transaction, broken, (parents[0], parents[1]))
            internals = {path: each.internals for path, each in merged.items()}
            edits = [each.edit for each in merged.values() if each.edit is not None]
        else:
            edits = [_mended(repo, transaction, path, parents) for path in broken]
        commit = transaction.commit(
            [edit for edit in edits if edit.blobs or edit.snapshot is not None],
            message or f"Repair {', '.join(broken)}",
            merge=MergedTree({}, internals, ()),
        )
    sweep(repo.git, broken)
    return CommitResult(commit, repo.head_branch, {edit.path: edit.counts for edit in edits})


def _mended(
    repo: OpenRepo, transaction: Transaction, path: str, parents: tuple[str, ...]
) -> TreeEdit:
    views = []
    for parent in parents:
        folder = repo.folders(repo.resolve(parent)).get(path)
        if folder is not None:
            views.append(as_havasu(repo.view(folder, parent)))
    view = as_havasu(repo.view(repo.folders(repo.head())[path], "HEAD"))
    with repo.settings.open_engine(0) as engine:
        return repair_dataset(replace(view, storage=transaction.storage), engine, parents=views)


def _merged_again(
    repo: OpenRepo, transaction: Transaction, broken: Sequence[str], parents: tuple[str, str]
) -> dict[str, MergedDataset]:
    """Merge datasets from the two parents of a merge commit."""
    short = parents[0][:10]
    state = MergeState(parents[0], parents[1], parents[1][:10], "")
    sides = [root_tree(repo, repo.resolve(parent)) for parent in parents]
    base = base_of(repo, transaction, state)
    rules = MergeRules(only=broken)
    merged = merge_trees(repo, transaction.storage, (base, sides[0], sides[1]), rules)
    for path, each in merged.items():
        if each.conflicts is not None:
            raise ConflictError(
                f"{path}: {each.conflicts.total:,} conflicts were not resolved by this merge",
                hints=(
                    f"`git reset --hard {short}`, then `havasu-vc merge {parents[1][:10]}` "
                    "and resolve them",
                ),
            )
    # What no side has is what git made of a dataset that was moved.
    return {**{path: MergedDataset(None) for path in broken}, **merged}
