"""Edits that lost a race: made against one head, brought onto the next, row by row.

Another process committed to the same dataset first. Its rows are ours now, the edit's
are theirs, and the head that the edit was made against is the base. Only when both
changed the same cells is there something to report; nothing is lost either way.

Part of an edit: the rows of it that filters name, or all others, as an edit of its own.

What is left over is not touched; it is still an edit of the version that the whole was made of.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.errors import ConcurrentChangeError, ConflictError, InvalidArgumentError, StateError
from havasu_vc.history.conflicts import DatasetConflicts, MergePolicy, conflict_columns
from havasu_vc.history.diff import row_changes
from havasu_vc.history.merge_datasets import DatasetMerger, Versions, in_place
from havasu_vc.model.diffs import DatasetDiff, meta_changes
from havasu_vc.model.names import check_dataset_path
from havasu_vc.repo.filters import RepoFilter, only_keys
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import DatasetFolder

__all__ = ["after_edit", "on_newest_head", "part_of", "rebase_edit", "rebase_edits", "rest_of"]


def rebase_edits(
    repo: OpenRepo,
    storage: Storage,
    edits: Sequence[TreeEdit],
    old: Revision,
    new: Revision,
    *,
    before: Mapping[str, DatasetFolder] | None = None,
) -> list[TreeEdit]:
    """Return edits of `new` that do what `edits` of `old` do.

    `before` are the datasets of `old`, where some stand elsewhere in `new`.
    """
    before, after = repo.folders(old) if before is None else before, repo.folders(new)
    rebased = []
    for edit in edits:
        first, second = before.get(edit.path), after.get(edit.path)
        if first is not None and second is not None and first.internals == second.internals:
            rebased.append(edit)
        elif first is None and second is None:
            check_dataset_path(edit.path, after)  # one may have come above it or below
            rebased.append(edit)
        elif first is None or second is None or edit.fresh:
            raise ConcurrentChangeError(
                f"{edit.path} was changed by another process meanwhile; nothing is changed",
                hints=("look at `havasu-vc log`, then try again",),
            )
        else:
            base, now = repo.view(first, old.name), repo.view(second, new.name)
            rebased.append(rebase_edit(repo, storage, edit, base, now))
    return rebased


def rebase_edit(
    repo: OpenRepo, storage: Storage, edit: TreeEdit, base: Dataset, now: Dataset
) -> TreeEdit:
    """Return the edit of a dataset as it is now that does what `edit` does to its base."""
    versions = Versions(base, now, after_edit(base, edit, storage))
    versions = in_place(versions, repo.settings, staged=True)
    merger = DatasetMerger(
        edit.path, versions, storage, repo.settings, MergePolicy(), None, joins=False
    )
    merged = merger.merged(None)
    if merged.conflicts is not None:
        raise ConflictError(
            f"{edit.path}: another process changed the same cells meanwhile "
            f"({_summary(merged.conflicts)}); nothing is changed",
            hints=("look at `havasu-vc show`, then make the edit again",),
        )
    return merged.edit if merged.edit is not None else TreeEdit(edit.path, {})


def _summary(conflicts: DatasetConflicts) -> str:
    """Return how many conflicts there are, and what the first of them is about."""
    count = f"{conflicts.total:,} conflict{'' if conflicts.total == 1 else 's'}"
    if conflicts.rows is None or not conflicts.rows.num_rows:
        names = [f"column {name}" if name else "the key" for name in conflicts.columns]
        return f"{count}: {', '.join([*names, *conflicts.items])}"
    row = conflicts.rows.slice(0, 1).select(["columns", "base", "ours", "theirs"]).to_pylist()[0]
    values = next(row[side] for side in ("ours", "theirs", "base") if row[side] is not None)
    key = conflict_columns(conflicts.rows).key.names
    where = ", ".join(f"{name} = {values[name]}" for name in key)
    columns = ", ".join(row["columns"] or ())
    told = [where, f"column {columns}" if columns else ""]
    first = ", ".join(filter(None, told))
    if not first:
        return count
    return f"{count}{': ' if conflicts.total == 1 else ', the first: '}{first}"


def after_edit(base: Dataset, edit: TreeEdit, storage: Storage) -> Dataset:
    """Return a dataset as an edit makes it."""
    return base.with_storage(storage).after(edit, "your edit")


# Trying again what lost a race: another process moved the branch meanwhile.
#
# Edits are brought onto the new head where they are committed (`transaction`). What is made
# of HEAD as a whole, such as a revert, is made again of the new one, and nobody hears of it.

_T = TypeVar("_T")

ATTEMPTS = 20
_PAUSE = 0.05


def on_newest_head(repo: OpenRepo, attempt: Callable[[], _T]) -> _T:
    """Return what an attempt does; it looks at HEAD anew each time that HEAD had moved on.

    The branch stays the one that HEAD was on at first.
    """
    branch = repo.head_branch
    for number in range(1, ATTEMPTS):
        try:
            return attempt()
        except ConcurrentChangeError:
            if repo.head_branch != branch:
                raise
            # Whoever commits all the time lets go for a moment now and then.
            time.sleep(_PAUSE * number)
    return attempt()


def part_of(repo: OpenRepo, base: Dataset, edit: TreeEdit, wanted: RepoFilter) -> TreeEdit:
    """Return what filters name of an edit of `base`, which has the storage to stage it in."""
    chosen = wanted.of(edit.path)
    if chosen is None or not edit.blobs:
        return TreeEdit(edit.path, {})
    if chosen.rows and chosen.meta and chosen.keys is None and chosen.items is None:
        return edit
    if chosen.items is not None or not chosen.rows:
        raise InvalidArgumentError(
            f"{edit.path}: meta items are committed with the dataset as a whole",
            hints=(f"`havasu-vc commit {shlex.quote(edit.path)}`",),
        )
    after = base.after(edit, "the edit")
    meta = meta_changes(base.header, after.header)
    if meta:
        raise StateError(
            f"{edit.path}: {', '.join(each.name for each in meta)} was edited as well, so rows of "
            "it cannot be committed alone",
            hints=(f"`havasu-vc commit {shlex.quote(edit.path)}` commits all of it",),
        )
    with repo.settings.open_engine(base.size) as engine:
        changes = row_changes(base, after, engine)
        diff = wanted.apply(DatasetDiff(edit.path, base.header, after.header, (), changes))
        return TreeEdit(edit.path, {}) if diff is None else base.apply(diff.changes)


def rest_of(repo: OpenRepo, base: Dataset, edit: TreeEdit, wanted: RepoFilter) -> TreeEdit:
    """Return an edit of `base` without what filters name, which are rows by their keys."""
    chosen = wanted.of(edit.path)
    if chosen is None or not edit.blobs:
        return edit
    if chosen.is_whole:
        return TreeEdit(edit.path, {})
    if chosen.keys is None or chosen.meta or chosen.items is not None:
        raise InvalidArgumentError(
            f"{edit.path}: edits are dropped by row, or of the dataset as a whole",
            hints=(f"`havasu-vc restore {shlex.quote(edit.path)}` drops all of them",),
        )
    after = base.after(edit, "the edit")
    if meta := meta_changes(base.header, after.header):
        raise StateError(
            f"{edit.path}: {', '.join(each.name for each in meta)} was edited as well, so edits of "
            "rows cannot be dropped alone",
            hints=(f"`havasu-vc restore {shlex.quote(edit.path)}` drops all of them",),
        )
    with repo.settings.open_engine(base.size) as engine:
        changes = row_changes(base, after, engine)
        return base.apply(only_keys(changes, chosen.keys, [base.schema], others=True))
