"""Sources that come in again over a Kart dataset: what differs from it by key is committed.

A source without a key is told by what its rows hold, as Kart does it: those that were
there before have the number that they were given then.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from havasu_vc.datasets.any import AnyDataset
from havasu_vc.datasets.editing import collect_changes, evolved
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kart.build import NewKartDataset
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.formats.kart.generated_keys import GENERATED_KEYS
from havasu_vc.history.diff import row_changes
from havasu_vc.model.schema import Schema
from havasu_vc.store.edits import ObjectSink, edit_tree

__all__ = ["columns_to_match", "kart_replacement"]


def columns_to_match(old: AnyDataset, incoming: Schema) -> Schema:
    """Return a dataset's columns as a source may have them: without a key made for its rows."""
    if not isinstance(old, KartDataset) or old.generated_keys is None:
        return old.schema
    if len(old.key.fields) != 1 or old.key.fields[0].name in incoming.by_name:
        return old.schema
    return Schema(tuple(f for f in old.schema.fields if f.id != old.key.fields[0].id), ())


def kart_replacement(
    old: KartDataset,
    rows: Iterable[pa.RecordBatch],
    schema: Schema,
    meta: dict[str, bytes],
    sink: ObjectSink,
    engine: Engine,
) -> TreeEdit:
    """Return the edit that makes a Kart dataset hold some rows, and no others."""
    keys = None if schema.key else old.generated_keys
    if keys is not None:
        (key,) = old.key.fields
        schema = Schema((key, *schema.fields), (key.id,))
    staged = NewKartDataset(old.path, schema, sink, structure=old.structure, keys=keys)
    staged.write(rows)
    tree = edit_tree(sink, None, staged.finish().blobs)
    new = KartDataset(old.path, TreeFolder(sink, tree), old.storage, "the source")
    more, edit = evolved(old, schema)
    if keys is not None:
        meta = {**meta, f"meta/{GENERATED_KEYS}": keys.format()}
    with edit:
        changed = {name: data for name, data in meta.items() if old.folder.read(name) != data}
        edit.add_documents(changed)
        collect_changes(edit, row_changes(old, new, engine))
        if not (edit.counts.total or changed or (more and schema != old.schema)):
            return TreeEdit(old.path, {})
        return edit.finish()
