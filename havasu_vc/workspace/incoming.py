"""The commit that an engine's edits make: its files as they are, or the changed rows.

Many rows in large files come in as they are: nothing is copied, nothing is written but
the deletes. A few rows come in like any small edit, also where the engine rewrote
whole files for them, so that history grows with what changed. Edits that change no row
and no column, as a compaction, make no commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.digest import Digests, hash_rows
from havasu_vc.datasets.havasu.edit import SMALL_FILE, Edit
from havasu_vc.datasets.havasu.ledger import MOST_KEYS
from havasu_vc.datasets.havasu.locate import sound_key_cache
from havasu_vc.datasets.havasu.parquet import Positions, read_rows
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.history.owned_changes import take_changes
from havasu_vc.history.owned_deletes import for_owners, take_away
from havasu_vc.history.summing import add_up
from havasu_vc.model.diffs import ChangeCounts
from havasu_vc.model.hashing import Hashes
from havasu_vc.workspace.counting import check_keys, count_edits
from havasu_vc.workspace.edited_dataset import edited_dataset, foreign_documents, stage_added
from havasu_vc.workspace.taking_in import TableEdits, deleted_before

__all__ = ["edit_of", "fits_as_files", "linked_edit_of"]


def edit_of(edits: TableEdits, storage: Storage, engine: Engine) -> TreeEdit:
    """Return the edit of the base that makes it what the table holds; it may be none.

    Raises `KeyViolationError` when keys would not be unique. New files are in `storage`'s
    staging.
    """
    if edits.is_empty:
        return TreeEdit(edits.path, {})
    check_keys(edits)
    counts = count_edits(edits)
    if not counts.total:
        return _columns_alone(edits, storage)
    if fits_as_files(edits, counts):
        return _as_files(edits, storage, engine, counts)
    return _as_rows(edits, storage, engine)


def linked_edit_of(edits: TableEdits, storage: Storage, engine: Engine) -> TreeEdit:
    """Return the edit of the base that makes it link to the files that a table holds.

    Only rows that live again in a file that stays are written anew.
    """
    if edits.is_empty:
        return TreeEdit(edits.path, {})
    check_keys(edits)
    if edits.restored:
        return _as_rows(edits, storage, engine)
    return _as_files(edits, storage, engine, count_edits(edits), fold=False)


def fits_as_files(edits: TableEdits, counts: ChangeCounts) -> bool:
    """Whether files come in as they are: they are large, and most of their rows are new.

    So do rows that only go.
    """
    if not edits.added and not edits.restored:
        return True
    size = sum(each.entry.size for each in edits.added)
    live = sum(each.entry.rows - len(each.deleted) for each in edits.added)
    changed = counts.inserts + counts.updates
    return size >= SMALL_FILE and 2 * changed >= live and not edits.restored


def _columns_alone(edits: TableEdits, storage: Storage) -> TreeEdit:
    documents = dict(edits.documents)
    if edits.schema == edits.base.schema:
        return TreeEdit(edits.path, {})
    view = replace(edits.base, storage=storage)
    with Edit(view, layout=edits.layout, documents=documents) as edit:
        return edit.finish(fold=False)


def _as_rows(edits: TableEdits, storage: Storage, engine: Engine) -> TreeEdit:
    view = replace(edits.base, storage=storage)
    new = edited_dataset(edits, storage)
    with Edit(view, layout=edits.layout, documents=dict(edits.documents)) as edit:
        take_changes(edit, view, new, engine)
        if not edit.counts.total and not edits.documents:
            return TreeEdit(edits.path, {})
        return edit.finish()


def _as_files(
    edits: TableEdits,
    storage: Storage,
    engine: Engine,
    counts: ChangeCounts,
    *,
    fold: bool = True,
) -> TreeEdit:
    view = replace(edits.base, storage=storage)
    gone, come = Digests(), Digests()
    with Edit(view, layout=edits.layout, documents=foreign_documents(edits)) as edit:
        tasks = [task for e in edits.removed for task in view.scan_file(e, edits.schema)]
        rows, sums = add_up(tasks, edits.schema, engine, description=f"Reading {edits.path}")
        if rows != sum(edits.live_before(entry) for entry in edits.removed):
            raise CorruptDatasetError(edits.path, "its files do not hold the rows that they did")
        gone.add(sums)
        few = counts.total <= MOST_KEYS
        if not few:
            edit.touch(None)
        for entry in edits.removed:
            edit.remove(entry)
            if few:
                edit.touch(_live_keys(view, entry, deleted_before(view, entry)))
        for each, entry in stage_added(edits, storage):
            edit.adopt(entry)
            if few:
                frame = replace(edits.frame, storage=storage)
                edit.touch(_live_keys(frame, entry, each.deleted))
            come.add(each.measured.digests)
            for rows_gone, positions in _rows_at(str(each.path), edits, each.deleted):
                come.subtract(hash_rows(rows_gone, edits.schema).digests)
                edit.delete(entry, positions, rows_gone)
        owned = for_owners(edit, edits.deleted)
        if owned:
            take_away(edit, edits.deleted, edits.removed, engine)
        for file, positions in () if owned else edits.deleted.items():
            entry = view.entries[file]
            for rows_gone, where in _rows_at(view.file_path(entry), edits, positions):
                hashed = hash_rows(rows_gone, edits.schema)
                gone.add(hashed.digests)
                edit.touch(hashed.keys)
                edit.delete(entry, where, rows_gone)
        edit.count_digests(counts, gone.sums, come.sums)
        return edit.finish(fold=fold)


def _live_keys(view: HavasuDataset, entry: Entry, deleted: Positions) -> Hashes:
    """Return the hashes of the keys of a data file's rows, some deleted ones apart."""
    cache = sound_key_cache(view, entry)
    return cache.keys[~np.isin(cache.positions, deleted)]


def _rows_at(
    path: str, edits: TableEdits, positions: Positions
) -> Iterable[tuple[pa.RecordBatch, Positions]]:
    """Yield the rows at some positions of a file, piece by piece."""
    for start in range(0, len(positions), 1 << 16):
        piece = positions[start : start + (1 << 16)]
        yield read_rows(path, edits.schema, piece, threads=True), piece
