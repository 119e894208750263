"""The merge that waits, as people look at it: values for writers to print.

Meta items come from the commits themselves, rows from the state of the merge.

Conflicts of a merge of two commits, foreseen without merging them.

Git is asked as a host asks it. Where it does not merge by itself, the merge is gone through row
by row and a few conflicts of each kind are kept; what is needed on the way is put into a folder
that goes again, and nothing into the repository.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import CorruptionError
from havasu_vc.history.conflicts import DatasetConflicts, Glance, conflict_columns
from havasu_vc.history.merge import conflict_keys
from havasu_vc.history.merge_datasets import DATASET, SCHEMA
from havasu_vc.history.partners import partners
from havasu_vc.merging.kart_merges import waiting_state
from havasu_vc.merging.resolving import conflicts, labels
from havasu_vc.merging.state import MergeState
from havasu_vc.merging.trees import (
    MergeRules,
    base_tree,
    clashing_files,
    merge_bases,
    merge_trees,
    root_tree,
)
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema, arrow_type
from havasu_vc.model.changes import struct_of
from havasu_vc.model.diffs import (
    ConflictCounts,
    ConflictedDataset,
    MergeContext,
    MergeSide,
    MetaConflict,
)
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.other_branch import other_branch
from havasu_vc.repo.results import WaitingMerge
from havasu_vc.repo.soundness import defect_of
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.objects import Draft
from havasu_vc.store.refs import list_branches
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import EMPTY, merge_base

__all__ = [
    "Foreseen",
    "conflict_counts",
    "foreseen",
    "git_merges",
    "merge_context",
    "view_conflicts",
    "viewed_conflicts",
    "waiting_merge",
]

VERSIONS = (("ancestor", "base"), ("ours", "ours"), ("theirs", "theirs"))
"""Names of the versions of a row, Kart's and ours."""


def view_conflicts(
    repo: OpenRepo, filters: Sequence[str] = (), *, by_key: bool = False
) -> Iterator[ConflictedDataset]:
    """Return the conflicts that are not resolved, by dataset, each read when it is asked for.

    Rows come in the order in which their dataset lists them, or else `by_key`. Whether there is
    a merge and what the filters say is looked at first, so that nothing is printed of what cannot
    be.
    """
    state = waiting_state(repo)
    found = conflicts(repo, filters, state)
    return (viewed_conflicts(repo, state, each, by_key=by_key) for each in found)


def viewed_conflicts(
    repo: OpenRepo, state: MergeState, found: DatasetConflicts, *, by_key: bool = False
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
    order = None if by_key else there.listing_order(keys, header.schema)
    if order is not None:
        rows, keys = rows.take(order), keys.take(order)
    shown = _rows(rows)
    own = {
        name: own
        for name, view in views.items()
        if view is not None
        and (own := _in_own_columns(view, keys, header.schema, shown.column(name))) is not None
    }
    return ConflictedDataset(header, meta, shown, own)


def _in_own_columns(
    view: Dataset, keys: pa.RecordBatch, merged: Schema, shown: pa.StructArray
) -> tuple[Schema, pa.StructArray] | None:
    """Return a version of rows in its own columns, some of which the merge has not; None for alike.

    They are found by their keys; rows without one are shown in the columns of the merge.
    """
    schema = view.schema
    if arrow_schema(schema) == arrow_schema(merged) or not merged.key:
        return None
    if not is_of_kart(view.header.kind) and schema.ids == merged.ids:
        return None  # where nothing but names differs, one name lets the cells be compared
    if {key.id for key in schema.key.fields} != {key.id for key in merged.key.fields}:
        return None
    wanted = pa.RecordBatch.from_arrays(
        [
            pc.cast(keys.column(merged.by_id[key.id].name), arrow_type(key.type))
            for key in schema.key.fields
        ],
        list(schema.key.names),
    )
    there = pc.is_valid(shown)
    rows = view.rows_with_keys(pc.filter(wanted, there))
    at = partners(wanted, rows.select(list(schema.key.names)))
    at = pc.if_else(there, at, pa.scalar(None, at.type))
    if at.null_count != shown.null_count:
        return None  # the version is of a merge of ancestors, which no commit has
    return schema, pc.take(struct_of(rows), at)


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


def merge_context(repo: OpenRepo, revision: str, *, into: str | None = None) -> MergeContext | None:
    """Return the commits of a merge into HEAD or a branch; None if they have nothing in common."""
    branch = other_branch(repo, into)
    ours = repo.resolve("HEAD" if branch is None else f"refs/heads/{branch}").commit
    theirs = repo.resolve(revision).commit
    base = merge_base(repo.git, ours, theirs) if ours and theirs else None
    if ours is None or theirs is None or base is None:
        return None
    found = _context(repo, base, ours, theirs, revision)
    return found if branch is None else replace(found, ours=MergeSide(ours, branch))


def _context(repo: OpenRepo, base: str, ours: str, theirs: str, name: str) -> MergeContext:
    branches = {branch.name for branch in list_branches(repo.git)}
    branch = repo.head_branch if name == "HEAD" else name
    return MergeContext(
        MergeSide(base),
        MergeSide(ours, repo.head_branch),
        MergeSide(theirs, branch if branch in branches else None),
    )


def waiting_merge(repo: OpenRepo) -> WaitingMerge:
    """Return the merge that waits, and how much of it."""
    state = waiting_state(repo)
    base = _base(repo, state)
    ancestor = repo.resolve(base).commit or base
    context = _context(repo, ancestor, state.ours, state.theirs, state.name)
    return WaitingMerge(state.kind, context, state.message, conflict_counts(state.conflicts))


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The conflicts of a merge that was not made."""

    rows: Mapping[str, int]
    """How many rows, by dataset that has any."""
    datasets: tuple[tuple[DatasetConflicts, ConflictedDataset], ...]
    """Conflicts by path, of rows the first of each kind; and their meta items to look at."""
    files: tuple[str, ...]
    """Files beside the datasets that git cannot merge."""


def git_merges(git: GitRepository, ours: str, theirs: str) -> bool | None:
    """Whether git merges two commits by itself, as hosts have it do; nothing of it is kept.

    None where it cannot say, as one before 2.38.
    """
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as folder:
        places = {
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(git.common_directory / "objects"),
        }
        ask = ("merge-tree", "--write-tree", "--name-only", ours, theirs)
        code = git.git(*ask, check=False, environment=places).code
    return code == 0 if code in (0, 1) else None


def foreseen(repo: OpenRepo, ours: str, theirs: str, *, most: int) -> Foreseen:
    """Return what a merge of two commits would leave in conflict, with so many rows of a kind."""
    glance = Glance(most)
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as folder:
        staging = DataFileStore(Path(folder))
        storage = replace(repo.storage, staging=staging, sink=Draft(repo.git.objects))
        sides = [root_tree(repo, repo.resolve(commit)) for commit in (ours, theirs)]
        base = base_tree(repo, storage, merge_bases(repo, ours, theirs, theirs))
        trees = (base.tree, sides[0].tree, sides[1].tree)
        files = tuple(clashing_files(repo, *trees, source=base.source))
        rules = MergeRules(glance=glance)
        merged = merge_trees(repo, storage, (base, sides[0], sides[1]), rules)
        found = [each.conflicts for each in merged.values() if each.conflicts is not None]
        state = MergeState(ours, theirs, theirs, "", conflicts=tuple(found))
        datasets = tuple(
            (each, viewed_conflicts(repo, state, replace(each, rows=None)))
            for each in sorted(found, key=lambda each: each.path)
        )
    return Foreseen(glance.rows, datasets, files)
