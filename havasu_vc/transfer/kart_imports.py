"""Sources that come in again over a Kart dataset: what differs from it by key is committed.

A source without a key is told by what its rows hold, as Kart does it: those that were
there before have the number that they were given then, and so have those that differ in
one column from a row of the last import that is no more in the source.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kart.build import NewKartDataset
from havasu_vc.datasets.kart.key_giving import EarlierImport
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import CorruptDatasetError, InvalidArgumentError
from havasu_vc.formats.kart.columns import GENERATED_KEYS
from havasu_vc.history.diff import row_changes
from havasu_vc.model.schema import Schema
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.log import commits
from havasu_vc.store.trees import ObjectSink, edit_tree, find_entry

__all__ = [
    "SIMILARITY_DETECTION_LIMIT",
    "columns_to_match",
    "earlier_import",
    "kart_replacement",
]

SIMILARITY_DETECTION_LIMIT = 10_000
"""How many rows may have come and gone for pairs to be looked for, as in Kart."""


def columns_to_match(old: Dataset, incoming: Schema) -> Schema:
    """Return a dataset's columns as a source may have them: without a key made for its rows."""
    if not isinstance(old, KartDataset) or old.generated_keys is None:
        return old.schema
    if len(old.key.fields) != 1 or old.key.fields[0].name in incoming.by_name:
        return old.schema
    return Schema(tuple(f for f in old.schema.fields if f.id != old.key.fields[0].id), ())


def earlier_import(repo: OpenRepo, head: str, old: Dataset, limit: int) -> EarlierImport | None:
    """Return where rows of a source without a key are looked for; None if they have keys."""
    if limit < 0:
        raise InvalidArgumentError("how many rows are searched is at least zero")
    if not isinstance(old, KartDataset) or GENERATED_KEYS not in dict(old.folder.blobs("meta")):
        return None
    return EarlierImport(partial(_last_import, repo, head, old), limit)


def _last_import(repo: OpenRepo, head: str, old: KartDataset) -> KartDataset:
    """Return the dataset as the last import left it, which gave the keys that are known.

    That is the first of the commits up to HEAD, in order of time, since when the document
    has been what it is.
    """
    place = f"{old.path}/{old.marker}/meta/{GENERATED_KEYS}"
    wanted = find_entry(repo.git.objects, repo.resolve(head).tree, place)
    found = old
    with suppress(CorruptDatasetError):  # a shallow clone may not go back that far
        for commit in commits(repo.git, head):
            if find_entry(repo.git.objects, commit.tree, place) != wanted:
                break
            folder = find_entry(repo.git.objects, commit.tree, f"{old.path}/{old.marker}")
            if folder is not None:
                inside = TreeFolder(repo.git.objects, folder.id)
                found = replace(old, folder=inside, revision=commit.id[:10])
    return found


def kart_replacement(
    old: KartDataset,
    rows: Iterable[pa.RecordBatch],
    schema: Schema,
    meta: dict[str, bytes],
    sink: ObjectSink,
    engine: Engine,
    *,
    earlier: EarlierImport | None = None,
) -> TreeEdit:
    """Return the edit that makes a Kart dataset hold some rows, and no others."""
    keys = None if schema.key else old.generated_keys
    if keys is not None:
        (key,) = old.key.fields
        schema = Schema((key, *schema.fields), (key.id,))
    staged = NewKartDataset(
        old.path, schema, sink, structure=old.structure, keys=keys, earlier=earlier
    )
    staged.write(rows)
    tree = edit_tree(sink, None, staged.finish().blobs)
    new = KartDataset(old.path, TreeFolder(sink, tree), old.storage, "the source")
    more, edit = old.evolved(schema)
    if keys is not None:
        meta = {**meta, f"meta/{GENERATED_KEYS}": keys.format()}
    with edit:
        changed = {name: data for name, data in meta.items() if old.folder.read(name) != data}
        edit.add_documents(changed)
        edit.collect(row_changes(old, new, engine))
        if not (edit.counts.total or changed or (more and schema != old.schema)):
            return TreeEdit(old.path, {})
        return edit.finish()
