"""Edits in the table of a dataset whose rows stand in no data files, as edits of the dataset.

The table is one of a counterpart (`checkouts.counterparts`), so what differs from that are rows,
which the dataset takes in as any edit of it does. So the trees of a Kart dataset are those that
Kart would make of the same rows.
"""

from __future__ import annotations

from dataclasses import replace

from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.history.diff import meta_changes
from havasu_vc.history.owned_changes import take_changes
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.workspace.counting import check_keys
from havasu_vc.workspace.edited_dataset import edited_dataset
from havasu_vc.workspace.taking_in import TableEdits

__all__ = ["described_as_stored", "stored_edit_between", "stored_edit_of"]


def stored_edit_of(edits: TableEdits, base: Dataset, engine: Engine) -> TreeEdit:
    """Return the edit of a dataset that makes it what its table holds; it may be none.

    Raises `KeyViolationError` when keys would not be unique, and `UnsupportedTypeError`
    for columns that its kind has no type for.
    """
    if edits.is_empty:
        return TreeEdit(edits.path, {}, marker=base.marker)
    check_keys(edits)
    schema = base.fitted(edits.schema)
    _, edit = base.evolved(schema)
    with edit:
        if edits.touches_rows:
            draft = edited_dataset(edits, base.storage)
            take_changes(edit, edits.base, draft, engine)
        if not edit.counts.total and schema == base.schema:
            return TreeEdit(edits.path, {}, marker=base.marker)
        return edit.finish()


def stored_edit_between(old: Dataset, new: Dataset, engine: Engine) -> TreeEdit:
    """Return the edit of rows and columns that makes one version of a dataset the other."""
    _, edit = old.evolved(new.schema)
    with edit:
        take_changes(edit, old, new, engine)
        return edit.finish()


def described_as_stored(diff: DatasetDiff, base: Dataset) -> DatasetDiff:
    """Return how a table differs from a dataset, with documents and ids of columns as it has them.

    The rows are those of its counterpart.
    """
    sides = [_described(header, base) for header in (diff.old, diff.new)]
    return replace(diff, old=sides[0], new=sides[1], meta=meta_changes(*sides))


def _described(header: DatasetHeader | None, base: Dataset) -> DatasetHeader | None:
    if header is None or header.kind == base.kind:
        return header
    meta = dict(base.header.meta)
    try:
        schema = base.fitted(header.schema)
        if schema != base.schema:
            meta["schema.json"] = base.columns_item(schema)
    except UnsupportedTypeError:  # which a commit will tell
        meta["schema.json"] = header.meta["schema.json"]
    return replace(header, kind=base.kind, meta=meta)
