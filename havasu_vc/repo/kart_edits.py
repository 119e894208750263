"""What was edited in the table of a Kart dataset, as changes of its features.

The table is one of a Havasu counterpart (`repo.kart_tables`), so what differs from that
are rows; each becomes a feature as any edit of a Kart dataset makes it. So the trees
are those that Kart would make of the same rows.
"""

from __future__ import annotations

from havasu_vc.datasets.editing import collect_changes, evolved
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.formats.kart.columns import kart_schema
from havasu_vc.history.diff import row_changes
from havasu_vc.model.schema import Schema
from havasu_vc.workspace.edited_dataset import edited_dataset
from havasu_vc.workspace.key_check import check_keys
from havasu_vc.workspace.taking_in import TableEdits

__all__ = ["as_kart", "kart_edit_between", "kart_edit_of"]


def kart_edit_of(edits: TableEdits, base: KartDataset, engine: Engine) -> TreeEdit:
    """Return the edit of a Kart dataset that makes it what its table holds; it may be none.

    Raises `KeyViolationError` when keys would not be unique, and `UnsupportedTypeError`
    for columns that Kart has no type for.
    """
    if edits.is_empty:
        return TreeEdit(edits.path, {}, marker=base.marker)
    check_keys(edits)
    schema = as_kart(edits.schema, base.schema)
    _, edit = evolved(base, schema)
    with edit:
        if edits.touches_rows:
            draft = edited_dataset(edits, base.storage)
            collect_changes(edit, row_changes(edits.base, draft, engine))
        if not edit.counts.total and schema == base.schema:
            return TreeEdit(edits.path, {}, marker=base.marker)
        return edit.finish()


def kart_edit_between(old: KartDataset, new: KartDataset, engine: Engine) -> TreeEdit:
    """Return the edit of rows and columns that makes one version of a dataset the other."""
    _, edit = evolved(old, new.schema)
    with edit:
        collect_changes(edit, row_changes(old, new, engine))
        return edit.finish()


def as_kart(schema: Schema, base: Schema) -> Schema:
    """Return a schema for a Kart dataset that has another one: the same when nothing differs."""
    found = Schema(schema.fields, base.identifier_ids)
    return base if kart_schema(found) == base else found
