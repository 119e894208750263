"""The merge that waits, as people look at it: values for writers to print.

Meta items come from the commits themselves, rows from the state of the merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import CorruptionError
from havasu_vc.history.answered import conflict_keys
from havasu_vc.history.conflicts import DatasetConflicts, conflict_columns
from havasu_vc.history.merge_datasets import DATASET, SCHEMA
from havasu_vc.merging.resolving import conflicts, labels
from havasu_vc.merging.state import MergeState, require_state
from havasu_vc.model.conflicts import (
    ConflictCounts,
    ConflictedDataset,
    MergeContext,
    MergeSide,
    MetaConflict,
)
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import WaitingMerge
from havasu_vc.repo.soundness import defect_of
from havasu_vc.store.refs import list_branches
from havasu_vc.store.revisions import EMPTY, merge_base

__all__ = [
    "conflict_counts",
    "merge_context",
    "view_conflicts",
    "viewed_conflicts",
    "waiting_merge",
]

VERSIONS = (("ancestor", "base"), ("ours", "ours"), ("theirs", "theirs"))
"""Names of the versions of a row, Kart's and ours."""


def view_conflicts(repo: OpenRepo, filters: Sequence[str] = ()) -> Iterator[ConflictedDataset]:
    """Return the conflicts that are not resolved, by dataset, each read when it is asked for.

    Whether there is a merge and what the filters say is looked at first, so that nothing is
    printed of what cannot be.
    """
    state, found = require_state(repo.git), conflicts(repo, filters)
    return (viewed_conflicts(repo, state, each) for each in found)


def viewed_conflicts(
    repo: OpenRepo, state: MergeState, found: DatasetConflicts
) -> ConflictedDataset:
    """Return the conflicts of one dataset."""
    views = {
        "ancestor": _view(repo, found.path, _base(repo, state)),
        "ours": _view(repo, found.path, state.ours),
        "theirs": _view(repo, found.path, state.theirs),
    }
    there = views["ours"] or views["theirs"] or views["ancestor"]
    if there is None:
        raise CorruptionError(
            f"the state of the merge is damaged: no side has a dataset {found.path!r}",
            hints=("`havasu-vc merge --abort` drops it; nothing committed is lost",),
        )
    meta = tuple(
        MetaConflict(
            name,
            {v: value for v, view in views.items() if (value := _item(view, name)) is not None},
            {n: each.kinds for n, each in found.columns.items()} if name == SCHEMA else {},
        )
        for name in sorted(found.items)
    )
    if found.rows is None or not found.rows.num_rows:
        return ConflictedDataset(there.header, meta)
    header = replace(there.header, schema=conflict_columns(found.rows))
    rows = found.rows
    keys = conflict_keys(rows.combine_chunks().to_batches()[0], header.schema)
    order = there.listing_order(keys, header.schema)
    return ConflictedDataset(header, meta, _rows(rows if order is None else rows.take(order)))


def _rows(rows: pa.Table) -> pa.RecordBatch:
    table = rows.combine_chunks()
    columns = [table.column(name).combine_chunks() for _, name in VERSIONS]
    names = ["label", *(version for version, _ in VERSIONS)]
    return pa.RecordBatch.from_arrays([labels(rows), *columns], names)


def _view(repo: OpenRepo, path: str, revision: str) -> Dataset | None:
    found = repo.resolve(revision)
    folder = repo.folders(found).get(path)
    view = None if folder is None else repo.view(folder, found.name)
    # Of a broken version nothing can be shown; it may be taken or left as a whole.
    return None if view is None or defect_of(view) is not None else view


def _item(view: Dataset | None, name: str) -> Any:
    if view is None:
        return None
    return {"rows": view.rows} if name == DATASET else view.header.meta.get(name)


def _base(repo: OpenRepo, state: MergeState) -> str:
    return state.base or merge_base(repo.git, state.ours, state.theirs) or EMPTY


def conflict_counts(found: Sequence[DatasetConflicts]) -> dict[str, ConflictCounts]:
    """Return how much is in conflict and not resolved, by dataset."""
    return {
        each.path: ConflictCounts(each.unresolved_rows, each.unresolved_items)
        for each in found
        if each.unresolved
    }


def merge_context(repo: OpenRepo, revision: str) -> MergeContext | None:
    """Return the commits of a merge into HEAD; None where they have nothing in common."""
    ours, theirs = repo.resolve("HEAD").commit, repo.resolve(revision).commit
    base = merge_base(repo.git, ours, theirs) if ours and theirs else None
    if ours is None or theirs is None or base is None:
        return None
    return _context(repo, base, ours, theirs, revision)


def _context(repo: OpenRepo, base: str, ours: str, theirs: str, name: str) -> MergeContext:
    branches = {branch.name for branch in list_branches(repo.git)}
    return MergeContext(
        MergeSide(base),
        MergeSide(ours, repo.head_branch),
        MergeSide(theirs, name if name in branches else None),
    )


def waiting_merge(repo: OpenRepo) -> WaitingMerge:
    """Return the merge that waits, and how much of it."""
    state = require_state(repo.git)
    base = _base(repo, state)
    ancestor = repo.resolve(base).commit or base
    context = _context(repo, ancestor, state.ours, state.theirs, state.name)
    return WaitingMerge(state.kind, context, state.message, conflict_counts(state.conflicts))
