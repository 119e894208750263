"""Datasets under other columns: evolved, and with columns that had been dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from havasu_vc.datasets.digest import Digests, hash_rows
from havasu_vc.datasets.havasu.documents import column_documents, layout_documents, layout_of
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.ledger import Change, change_blobs
from havasu_vc.datasets.protocol import RunTasks, TreeEdit
from havasu_vc.model.columns import schema_of
from havasu_vc.model.evolution import BLOCK, field_ids, with_stored_names
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import descendants

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = ["evolved", "revived", "schema_of_items"]


def schema_of_items(dataset: DatasetInFiles, columns: list[Any], *, keep_ids: bool) -> Schema:
    """Return the schema that the item `schema.json` means when it is set to some columns."""
    last = dataset.last_column_id
    kept = range(last + 1, last + 2 * BLOCK) if keep_ids else range(0)
    new_id = field_ids(last)
    return with_stored_names(schema_of(columns, dataset.schema, new_id=new_id, kept_ids=kept))


def evolved(old: DatasetInFiles, schema: Schema) -> tuple[dict[str, bytes], Edit]:
    """Return the documents of a dataset under another schema, and an edit that writes them."""
    documents: dict[str, bytes] = {}
    layout = old.layout
    if schema != old.schema:
        documents = layout_documents(schema, old.partition, old.order)
        layout = layout_of(schema, documents)
    return documents, Edit(old, layout=layout, documents=documents)


def revived(
    old: DatasetInFiles,
    schema: Schema,
    back: frozenset[int],
    run: RunTasks,
) -> tuple[DatasetInFiles, dict[str, bytes | None]]:
    """Return a dataset that has columns again which it dropped, and the documents that say so.

    `back` are these columns, or parts of columns, by id. Files that were there before still
    hold them, and count again; rows that were written since have nulls.
    """
    documents = column_documents(old.folder, schema)
    view = old.after(TreeEdit(old.path, documents))
    # Without a key each cell's hash is one of its whole row.
    counted = [
        field
        for field in schema.fields
        if not schema.key or any(each.id in back for each in descendants((field,)))
    ]
    names = {field.name for field in (*counted, *schema.key.fields)}
    chosen = schema.select(tuple(name for name in schema.names if name in names))
    sums = Digests()
    for batch in run(view.scan(chosen.names)):
        sums.add(hash_rows(batch, chosen).digests)
    # What deltas say of the columns, some of which did not know them any more.
    missing = Digests(sums.of(field.id for field in counted))
    missing.subtract({field.id: view.snapshot.digests[field.id] for field in counted})
    documents = change_blobs(old, Change(digests=missing.sums), documents)
    return old.after(TreeEdit(old.path, documents)), documents
