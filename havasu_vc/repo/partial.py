"""Part of an edit: the rows of it that filters name, or all others, as an edit of its own.

What is left over is not touched; it is still an edit of the version that the whole was made of.
"""

from __future__ import annotations

from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.errors import InvalidArgumentError, StateError
from havasu_vc.history.diff import meta_changes, row_changes
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.repo.filters import RepoFilter, only_keys
from havasu_vc.repo.opened import OpenRepo

__all__ = ["part_of", "rest_of"]


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
            hints=(f"`havasu-vc commit {edit.path}`",),
        )
    after = base.after(edit, "the edit")
    meta = meta_changes(base.header, after.header)
    if meta:
        raise StateError(
            f"{edit.path}: {', '.join(each.name for each in meta)} was edited as well, so rows of "
            "it cannot be committed alone",
            hints=(f"`havasu-vc commit {edit.path}` commits all of it",),
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
            hints=(f"`havasu-vc restore {edit.path}` drops all of them",),
        )
    after = base.after(edit, "the edit")
    if meta := meta_changes(base.header, after.header):
        raise StateError(
            f"{edit.path}: {', '.join(each.name for each in meta)} was edited as well, so edits of "
            "rows cannot be dropped alone",
            hints=(f"`havasu-vc restore {edit.path}` drops all of them",),
        )
    with repo.settings.open_engine(base.size) as engine:
        changes = row_changes(base, after, engine)
        return base.apply(only_keys(changes, chosen.keys, [base.schema], others=True))
