"""A dataset under another schema: as an edit where files can stay, written anew where not."""

from __future__ import annotations

from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.documents import column_documents
from havasu_vc.datasets.kart.build import rekeyed_kart
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.kinds import require_files
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.exchange.importing import Curve, write_table
from havasu_vc.model.schema import Schema

__all__ = ["rekeyed"]


def rekeyed(
    old: Dataset, schema: Schema, meta: dict[str, bytes | None], engine: Engine
) -> TreeEdit:
    """Return the edit that gives a dataset another key: every file is written again."""
    if isinstance(old, KartDataset):
        return rekeyed_kart(old, schema, meta, engine.run(old.scan()))
    old = require_files(old)
    documents = column_documents(old.folder, schema)
    view = old.after(TreeEdit(old.path, documents))
    kept = {f"meta/{name}": data for name, data in old.items.items()}
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
        curve=None if hilbert is None else Curve(hilbert.name),
    )
    return new.replacing(old, files)
