"""Editing a dataset of any kind: the one place that knows which edit goes with which view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, Union

import pyarrow as pa

from havasu_vc.datasets.any import AnyDataset
from havasu_vc.datasets.digest import Digests, hash_rows
from havasu_vc.datasets.folder import edited
from havasu_vc.datasets.havasu import locate
from havasu_vc.datasets.havasu.apply import collect_changes as collect_havasu
from havasu_vc.datasets.havasu.documents import (
    column_documents,
    layout_documents,
    layout_of,
)
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.ledger import Change, change_blobs
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task
from havasu_vc.model.types import descendants

if TYPE_CHECKING:
    from havasu_vc.datasets.kart.edit import KartEdit

__all__ = [
    "AnyEdit",
    "collect_changes",
    "edit_of",
    "evolved",
    "last_column_id",
    "revived",
    "rows_with_keys",
]

AnyEdit: TypeAlias = Union[Edit, "KartEdit"]
"""An edit of a dataset of some kind."""


def edit_of(view: AnyDataset) -> AnyEdit:
    """Return an edit of a dataset; use it as a context manager."""
    if isinstance(view, HavasuDataset):
        return Edit(view)
    from havasu_vc.datasets.kart.edit import KartEdit

    return KartEdit(view)


def evolved(old: AnyDataset, schema: Schema) -> tuple[dict[str, bytes], AnyEdit]:
    """Return the documents of a dataset under another schema, and an edit that writes them."""
    if not isinstance(old, HavasuDataset):
        from havasu_vc.datasets.kart.edit import KartEdit

        edit = KartEdit(old, schema=schema)
        return {n: d for n, d in edit.documents.items() if d is not None}, edit
    documents: dict[str, bytes] = {}
    layout = old.layout
    if schema != old.schema:
        documents = layout_documents(schema, old.partition, old.order)
        layout = layout_of(schema, documents)
    return documents, Edit(old, layout=layout, documents=documents)


def revived(
    old: HavasuDataset,
    schema: Schema,
    back: frozenset[int],
    run: Callable[[list[Task]], Iterator[pa.RecordBatch]],
) -> tuple[HavasuDataset, dict[str, bytes | None]]:
    """Return a dataset that has columns again which it dropped, and the documents that say so.

    `back` are these columns, or parts of columns, by id. Files that were there before still
    hold them, and count again; rows that were written since have nulls.
    """
    documents = column_documents(old.folder, schema)
    shown = edited(old.folder, TreeEdit(old.path, documents))
    view = HavasuDataset(old.path, shown, old.storage, old.revision)
    counted = [f for f in schema.fields if any(each.id in back for each in descendants((f,)))]
    names = {field.name for field in (*counted, *schema.key.fields)}
    chosen = schema.select(tuple(name for name in schema.names if name in names))
    sums = Digests()
    for batch in run(view.scan(chosen.names)):
        sums.add(hash_rows(batch, chosen).digests)
    # What deltas say of the columns, some of which did not know them any more.
    missing = Digests(sums.of(field.id for field in counted))
    missing.subtract({field.id: view.snapshot.digests[field.id] for field in counted})
    documents = change_blobs(old, Change(digests=missing.sums), documents)
    shown = edited(old.folder, TreeEdit(old.path, documents))
    return replace(view, folder=shown), documents


def collect_changes(edit: AnyEdit, changes: Iterator[ChangeBatch]) -> None:
    """Check changes against the dataset that is edited and take them in."""
    if isinstance(edit, Edit):
        collect_havasu(edit, changes)
    else:
        edit.collect(changes)


def last_column_id(view: AnyDataset) -> int:
    """Return the highest field id that a dataset ever had, as far as it knows."""
    return view.last_column_id if isinstance(view, HavasuDataset) else view.schema.last_id


def rows_with_keys(view: AnyDataset, keys: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows whose keys are among some, in no particular order.

    `keys` has the key columns in stored types. Rarely a row comes whose key only hashes alike.
    """
    if isinstance(view, HavasuDataset):
        return locate.rows_with_keys(view, keys)
    from havasu_vc.datasets.kart.kernels import scan_files

    names = view.key.names
    columns = [keys.column(name).to_pylist() for name in names]
    wanted = [key for key in zip(*columns, strict=True) if None not in key]
    rows = list(scan_files(view.files_of(wanted), view.form()))
    if not rows:
        return pa.RecordBatch.from_pylist([], schema=arrow_schema(view.schema))
    return rows[0]
