"""Mending datasets of HEAD whose guard does not match.

That happens when git was made to finish a merge of two edited snapshots. Where HEAD is
a merge of two commits, its datasets are merged again, row by row, from these. Where it
has one parent, what can be told from the tree itself is mended (`upkeep.repair`). The
result is a commit of its own; nothing is rewritten.
"""

from __future__ import annotations

from dataclasses import replace

from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import ConflictError, NoChangesError, UnfinishedMergeError
from havasu_vc.history.merging import MergePolicy
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.merge_datasets import MergedDataset, Versions, merge_dataset
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import MergedTree, Transaction
from havasu_vc.store.commits import read_commit
from havasu_vc.store.stray import sweep
from havasu_vc.store.trees import DatasetFolder
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
    edits: list[TreeEdit] = []
    internals: dict[str, str | None] = {}
    with Transaction(repo) as transaction:
        for path in broken:
            if len(parents) == 2:
                merged = _merged_again(repo, transaction, path, (parents[0], parents[1]))
                internals[path] = merged.internals
                edits += [merged.edit] if merged.edit is not None else []
            else:
                edits.append(_mended(repo, transaction, path, parents))
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
            views.append(repo.view(folder, parent))
    view = repo.view(repo.folders(repo.head())[path], "HEAD")
    with repo.settings.open_engine(0) as engine:
        return repair_dataset(replace(view, storage=transaction.storage), engine, parents=views)


def _merged_again(
    repo: OpenRepo, transaction: Transaction, path: str, parents: tuple[str, str]
) -> MergedDataset:
    """Merge a dataset from the two parents of a merge commit."""
    bases = repo.git.git("merge-base", "--all", *parents, check=False).text.split()
    revisions = [repo.resolve(commit) for commit in (bases[0] if bases else "[EMPTY]", *parents)]
    folders: list[DatasetFolder | None] = [
        repo.folders(revision).get(path) for revision in revisions
    ]
    views = [
        None if folder is None else repo.view(folder, revision.name)
        for folder, revision in zip(folders, revisions, strict=True)
    ]
    for view in views:
        if view is not None:
            view.check_guard()
    merged = merge_dataset(
        path,
        (folders[0], folders[1], folders[2]),
        Versions(*views),
        transaction.storage,
        repo.settings,
        policy=MergePolicy(),
    )
    if merged.conflicts is not None:
        short = parents[0][:10]
        raise ConflictError(
            f"{path}: {merged.conflicts.total:,} conflicts were not resolved by this merge",
            hints=(
                f"`git reset --hard {short}`, then `havasu-vc merge {parents[1][:10]}` "
                "and resolve them",
            ),
        )
    return merged
