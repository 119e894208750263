"""Edits of a table that was served to a client: who served it says what it was made of.

A table in a folder says itself which commit it is of. One that a catalog handed out is a
document with snapshots of several commits, and the client names the one that it wrote upon.
"""

from __future__ import annotations

from dataclasses import replace

from havasu_vc.checkouts.counterpart_edits import stored_edit_of
from havasu_vc.checkouts.counterparts import needs_counterpart, stored_view, tree_view
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.drafts import Draft
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.store.trees import edit_tree
from havasu_vc.tables.table import Table
from havasu_vc.workspace.incoming import edit_of
from havasu_vc.workspace.taking_in import read_edits

__all__ = ["ServedBase", "edit_of_new", "edit_of_served"]


@dataclass(frozen=True, slots=True)
class ServedBase:
    """The version of a dataset that a table was served of."""

    path: str
    """The dataset."""
    commit: str
    """The commit."""
    tree: str
    """The dataset's internals there."""
    snapshot_id: int
    """The snapshot of it in the table."""


def edit_of_served(
    repo: OpenRepo, transaction: Transaction, table: Table, base: ServedBase
) -> TreeEdit:
    """Return the edit of the base that makes it what a table shows; it may be none."""
    revision = base.commit[:10]
    view = replace(
        tree_view(repo, base.path, base.tree, revision),
        storage=transaction.storage,
    )
    with repo.settings.open_engine(0) as engine:
        edits = read_edits(view, table, base.snapshot_id, engine)
        if needs_counterpart(repo, base.tree):
            stored = stored_view(repo, base.path, base.tree, transaction.storage, revision)
            return stored_edit_of(edits, stored, engine)
        return edit_of(edits, transaction.storage, engine)


def edit_of_new(
    repo: OpenRepo, transaction: Transaction, table: Table, created: TreeEdit
) -> TreeEdit:
    """Return the edit that creates a dataset with the rows that a table shows.

    `created` is the one that creates it without rows.
    """
    draft = Draft(repo.git.objects)
    folder = TreeFolder(draft, edit_tree(draft, EMPTY_TREE, dict(created.blobs)))
    view = HavasuDataset(created.path, folder, transaction.storage, "the request")
    with repo.settings.open_engine(0) as engine:
        edits = read_edits(view, table, None, engine)
        edit = edit_of(edits, transaction.storage, engine)
    blobs = {**created.blobs, **edit.blobs}
    kept = {name: data for name, data in blobs.items() if data is not None}
    return replace(created, blobs=kept, counts=edit.counts)
