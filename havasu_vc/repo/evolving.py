"""A dataset under another schema: as an edit where files can stay, written anew where not."""

from __future__ import annotations

from dataclasses import replace

from havasu_vc.datasets.folder import edited
from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.documents import layout_documents, layout_of
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.exchange.importing import write_table
from havasu_vc.formats.havasu.properties import format_properties
from havasu_vc.model.counts import ChangeCounts
from havasu_vc.model.schema import Schema

__all__ = ["evolved", "rekeyed"]


def evolved(old: HavasuDataset, schema: Schema) -> tuple[dict[str, bytes], Edit]:
    """Return the documents of a dataset under another schema, and an edit that writes them."""
    documents: dict[str, bytes] = {}
    layout = old.layout
    if schema != old.schema:
        documents = layout_documents(schema, old.partition, old.order)
        layout = layout_of(schema, documents)
        documents["meta/properties.json"] = format_properties(old.properties.raised(schema.last_id))
    return documents, Edit(old, layout=layout, documents=documents)


def rekeyed(
    old: HavasuDataset, schema: Schema, meta: dict[str, bytes | None], engine: Engine
) -> TreeEdit:
    """Return the edit that gives a dataset another key: every file is written again."""
    documents: dict[str, bytes | None] = {**layout_documents(schema, old.partition, old.order)}
    view = HavasuDataset(
        old.path, edited(old.folder, TreeEdit(old.path, documents)), old.storage, old.revision
    )
    kept = {
        f"meta/{name}": old.folder.read_blob(blob)
        for name, blob in old.folder.blobs("meta")
        if name in ("title", "description") or name.startswith("crs/")
    }
    kept.update({name: data for name, data in meta.items() if data is not None})
    hilbert = schema.geometries[0] if old.order.is_hilbert and schema.geometries else None
    new = NewDataset(
        old.path,
        schema,
        table_uuid=old.properties.table_uuid,
        meta=kept,
        hilbert=None if hilbert is None else hilbert.id,
    )
    files = write_table(
        view.scan(),
        new,
        old.storage,
        engine,
        input_bytes=old.size,
        hilbert=None if hilbert is None else hilbert.name,
    )
    return replace(new.edit(files), counts=ChangeCounts())
