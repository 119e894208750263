"""Datasets that a patch brings whole: apart, because few patches do and it takes much to load."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from havasu_vc.datasets.folder import MemoryFolder
from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.kinds import DatasetKind
from havasu_vc.datasets.pairing import conform
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.editing.metadata import check_shapes, meta_documents
from havasu_vc.editing.patch_systems import header_after, own_batches
from havasu_vc.editing.writing import given
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import DatasetNotFoundError
from havasu_vc.exchange.importing import write_table
from havasu_vc.formats.patch import DatasetPatch, PatchBatch
from havasu_vc.looking import OwnSystem
from havasu_vc.model.columns import schema_of
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.names import unsafe_reason
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import task_of
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.transfer import kind_of_new

__all__ = ["created"]


def created(
    part: DatasetPatch, repo: OpenRepo, storage: Storage, engine: Engine, own: OwnSystem | None
) -> TreeEdit:
    """Return the edit that makes a dataset which a patch brings whole."""
    meta = {change.name: change.new for change in part.meta}
    columns = meta.pop("schema.json", None)
    if columns is None:
        raise DatasetNotFoundError(part.path)
    kind = kind_of_new(repo)
    if not kind.in_files:
        return _created_with(part, kind, meta, kind.schema_of_items(columns), storage, own)
    schema = schema_of(columns)
    check_shapes(schema)
    folder = MemoryFolder()
    nowhere = HavasuDataset(part.path, folder, storage)
    nowhere.__dict__["_columns"] = (schema, {})
    _, documents = meta_documents(nowhere, meta)
    texts = {name: data for name, data in documents.items() if data is not None}
    new = NewDataset(part.path, schema, table_uuid=str(uuid.uuid4()), meta=texts)
    batches = [conform(each.changes.new_rows(), schema) for each in _rows(part, schema, own)]
    size = sum(batch.nbytes for batch in batches)
    tasks = [task_of(given, batch) for batch in batches]
    return new.edit(write_table(tasks, new, storage, engine, input_bytes=size))


def _created_with(
    part: DatasetPatch,
    kind: DatasetKind,
    meta: dict[str, Any],
    schema: Schema,
    storage: Storage,
    own: OwnSystem | None,
) -> TreeEdit:
    """Return the edit that makes a dataset, of a kind that keeps any item, as a patch has it."""
    documents = {
        f"meta/{name}": value.encode() if isinstance(value, str) else json.dumps(value).encode()
        for name, value in meta.items()
        if value is not None and (unsafe_reason(name) is None)
    }
    new = kind.new(part.path, schema, storage, meta=documents)
    new.write(conform(each.changes.new_rows(), schema) for each in _rows(part, schema, own))
    return new.finish()


def _rows(part: DatasetPatch, schema: Schema, own: OwnSystem | None) -> Iterator[PatchBatch]:
    """Yield the rows of a dataset that was not there."""
    header = header_after(part, DatasetHeader(part.path, "", schema, {}), schema)
    return own_batches(part, None, header, own)
