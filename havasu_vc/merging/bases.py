"""The tree that both sides of a merge came from, also where there are several.

Branches that were merged crosswise have several merge bases. As git does, these are
merged into one that no commit has. Where they are in conflict themselves, it has what
stood before both: whoever settled that on a side since then has changed it, and two
sides that settled it differently are in conflict again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from havasu_vc.errors import NotYetSupportedError, StateError
from havasu_vc.history.conflicts import DatasetConflicts, MergePolicy, conflict_columns
from havasu_vc.history.merge_datasets import DATASET, SCHEMA, MergedDataset, markers_of
from havasu_vc.merging.trees import MergeRules, RootTree, merge_base_files, merge_trees, root_tree
from havasu_vc.model import compute as pc
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.transaction import MergedTree, edit_changes
from havasu_vc.store.drafts import Draft
from havasu_vc.store.revisions import EMPTY
from havasu_vc.store.trees import edit_tree

if TYPE_CHECKING:
    from havasu_vc.datasets.storage import Storage

__all__ = ["base_tree", "merge_bases"]


def merge_bases(repo: OpenRepo, ours: str, theirs: str, name: str) -> tuple[str, ...]:
    """Return the best common ancestors of two commits; raises when there is none."""
    bases = _bases(repo, ours, theirs)
    if not bases:
        raise StateError(
            f"{name} has no history in common with HEAD",
            hints=("import its datasets instead",),
        )
    return bases


def _bases(repo: OpenRepo, one: str, *others: str) -> tuple[str, ...]:
    found = repo.git.git("merge-base", "--all", one, *others, check=False).text.split()
    return tuple(sorted(found))


def base_tree(repo: OpenRepo, storage: Storage, commits: Sequence[str]) -> RootTree:
    """Return the tree that merge bases stand for; files that it needs are staged."""
    return _common(repo, storage, commits, Draft(repo.git.objects))


def _common(repo: OpenRepo, storage: Storage, commits: Sequence[str], draft: Draft) -> RootTree:
    if not commits:
        return root_tree(repo, repo.resolve(EMPTY))
    first, *rest = commits
    merged, done = root_tree(repo, repo.resolve(first)), [first]
    for commit in rest:
        # As git: what the next has in common with a merge of those so far.
        inner = _common(repo, storage, _bases(repo, commit, *done), draft)
        trees = (inner, merged, root_tree(repo, repo.resolve(commit)))
        merged, done = _merged(repo, storage, trees, draft), [*done, commit]
    return merged


def _merged(
    repo: OpenRepo, storage: Storage, trees: tuple[RootTree, RootTree, RootTree], draft: Draft
) -> RootTree:
    """Return the tree that two merge bases stand for."""
    trees = tuple(replace(tree, source=draft) for tree in trees)  # type: ignore[assignment]
    storage = replace(storage, sink=draft)
    rules = MergeRules(MergePolicy())
    merged = merge_trees(repo, storage, trees, rules)
    waiting = {path: each.conflicts for path, each in merged.items() if each.conflicts is not None}
    if waiting:
        resolved = {path: as_in_base(found) for path, found in waiting.items()}
        merged = merge_trees(repo, storage, trees, replace(rules, resolved=resolved))
    before = trees[0].folders()
    for path, each in merged.items():
        if each.conflicts is not None:
            # One has it and one has not; before them it stood so.
            folder = before.get(path)
            marker = each.marker if folder is None else folder.marker
            merged[path] = MergedDataset(
                None if folder is None else folder.internals, marker=marker
            )
    edits = [each.edit for each in merged.values() if each.edit is not None and each.edit.blobs]
    internals = {path: each.internals for path, each in merged.items()}
    files = merge_base_files(repo, draft, (trees[0].tree, trees[1].tree, trees[2].tree))
    changes = {
        **MergedTree(files, internals, (), markers_of(merged)).changes(),
        **edit_changes(edits),
    }
    tree = edit_tree(draft, trees[1].tree, changes)
    return RootTree("the common base", draft, tree)


def as_in_base(found: DatasetConflicts) -> DatasetConflicts:
    """Resolve conflicts by what stood there before; a dataset as a whole stays in conflict."""
    if SCHEMA in found.items:
        raise NotYetSupportedError(
            f"the columns of {found.path} are in conflict between the merge bases themselves "
            "(both sides were merged crosswise)",
            hints=("merge a commit of theirs from before the crossing first",),
        )
    items = {name: None if name == DATASET else "base" for name in found.items}
    if found.rows is None:
        return replace(found, items=items)
    table = found.rows.combine_chunks()
    result = _cells_of_base(table) if conflict_columns(table).key else None
    said = pa.array(["base"] * table.num_rows, pa.string())
    table = table.set_column(table.schema.get_field_index("resolution"), "resolution", said)
    if result is not None:
        table = table.set_column(table.schema.get_field_index("result"), "result", result)
    return replace(found, rows=table, items=items)


def _cells_of_base(table: pa.Table) -> pa.StructArray:
    """Return the merged rows with the cells in conflict, or all of a row, as they were."""
    sides = {name: table.column(name).combine_chunks() for name in ("base", "merged")}
    listed = table.column("columns").combine_chunks()
    names, rows = pc.list_flatten(listed), pc.list_parent_indices(listed).to_numpy()
    whole = pc.is_null(sides["merged"]).to_numpy(zero_copy_only=False)
    columns = []
    for field in sides["base"].type:
        cells = whole.copy()
        cells[rows[pc.equal(names, field.name).to_numpy(zero_copy_only=False)]] = True
        values = [pc.struct_field(sides[name], field.name) for name in ("base", "merged")]
        columns.append(pc.if_else(pa.array(np.asarray(cells)), *values))
    absent = pc.is_null(sides["base"])
    return pa.StructArray.from_arrays(columns, fields=list(sides["base"].type), mask=absent)
