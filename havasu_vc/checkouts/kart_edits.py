"""What was edited in the table of a Kart dataset, as changes of its features.

The table is one of a Havasu counterpart (`checkouts.kart_tables`), so what differs from that
are rows; each becomes a feature as any edit of a Kart dataset makes it. So the trees
are those that Kart would make of the same rows.
"""

from __future__ import annotations

import json
from dataclasses import replace

from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.formats.kart.columns import columns_of_schema, format_columns, kart_schema
from havasu_vc.history.diff import meta_changes, row_changes
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.workspace.edited_dataset import edited_dataset
from havasu_vc.workspace.key_check import check_keys
from havasu_vc.workspace.taking_in import TableEdits

__all__ = ["as_kart", "kart_edit_between", "kart_edit_of", "told_as_kart"]


def kart_edit_of(edits: TableEdits, base: KartDataset, engine: Engine) -> TreeEdit:
    """Return the edit of a Kart dataset that makes it what its table holds; it may be none.

    Raises `KeyViolationError` when keys would not be unique, and `UnsupportedTypeError`
    for columns that Kart has no type for.
    """
    if edits.is_empty:
        return TreeEdit(edits.path, {}, marker=base.marker)
    check_keys(edits)
    schema = as_kart(edits.schema, base.schema)
    _, edit = base.evolved(schema)
    with edit:
        if edits.touches_rows:
            draft = edited_dataset(edits, base.storage)
            edit.collect(row_changes(edits.base, draft, engine))
        if not edit.counts.total and schema == base.schema:
            return TreeEdit(edits.path, {}, marker=base.marker)
        return edit.finish()


def kart_edit_between(old: KartDataset, new: KartDataset, engine: Engine) -> TreeEdit:
    """Return the edit of rows and columns that makes one version of a dataset the other."""
    _, edit = old.evolved(new.schema)
    with edit:
        edit.collect(row_changes(old, new, engine))
        return edit.finish()


def as_kart(schema: Schema, base: Schema) -> Schema:
    """Return a schema for a Kart dataset that has another one: the same when nothing differs."""
    found = Schema(schema.fields, base.identifier_ids)
    return base if kart_schema(found) == base else found


def told_as_kart(diff: DatasetDiff, kart: KartDataset) -> DatasetDiff:
    """Return how a table of a Kart dataset differs, with documents and ids of columns as Kart's."""
    sides = [_told(header, kart) for header in (diff.old, diff.new)]
    return replace(diff, old=sides[0], new=sides[1], meta=meta_changes(*sides))


def _told(header: DatasetHeader | None, kart: KartDataset) -> DatasetHeader | None:
    if header is None or header.kind == "kart":
        return header
    meta = dict(kart.header.meta)
    try:
        schema = as_kart(header.schema, kart.schema)
        if schema != kart.schema:
            meta["schema.json"] = json.loads(format_columns(columns_of_schema(schema)))
    except UnsupportedTypeError:  # which a commit will tell
        meta["schema.json"] = header.meta["schema.json"]
    return replace(header, kind="kart", meta=meta)
