"""Edits of a table as a dataset of their own, which no commit has yet.

A draft has the files that live in the table now: those of the base that stayed, with an
entry for each file that came, and one delete file for all rows that are gone. It is
compared, merged and scanned like any other version of the dataset. Its sums of columns
are those of the base, since nobody who compares needs them; a commit counts anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.delete_writing import write_delete_file
from havasu_vc.datasets.havasu.deletes import Deletion, read_deleted_rows, read_positions
from havasu_vc.datasets.havasu.documents import past_documents
from havasu_vc.datasets.havasu.ledger import Change as Rows
from havasu_vc.datasets.havasu.ledger import change_blobs
from havasu_vc.datasets.havasu.parquet import Positions, read_rows
from havasu_vc.datasets.havasu.plan import past_path
from havasu_vc.datasets.havasu.verify import mark_verified
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.havasu.writing import WrittenFile, distinct_files
from havasu_vc.datasets.storage import Storage
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import (
    PartitionSpec,
    SortOrder,
    format_partition,
    format_sort_order,
)
from havasu_vc.model.arrays import arrow_array
from havasu_vc.store.files import linked_location
from havasu_vc.store.objects import Draft
from havasu_vc.store.trees import Change, edit_tree
from havasu_vc.workspace.foreign import stage_file
from havasu_vc.workspace.taking_in import AddedFile, TableEdits

__all__ = ["edited_dataset", "foreign_documents", "stage_added"]


def stage_added(edits: TableEdits, storage: Storage) -> list[tuple[AddedFile, Entry]]:
    """Stage the files that came, each under a name of its own, and return their entries.

    Two files with the same bytes, as a table without a key may have, become two files.
    """
    staged: list[tuple[AddedFile, Entry]] = []
    seen = set(edits.base.entries)
    for each in edits.added:
        if len(each.deleted) == each.entry.rows:
            continue
        if edits.linked and not each.copied and each.entry.file not in seen:
            storage.linked.link(each.entry.file, each.path)
            seen.add(each.entry.file)
            location = linked_location(each.path)
            staged.append((each, replace(each.entry, location=location)))
            continue
        stage_file(each.path, each.entry.file, storage.staging, own=each.own)
        written = WrittenFile(each.entry)
        if each.entry.file in seen:
            (written,) = distinct_files(
                [written], edits.layout, storage.staging, storage.keys, seen=seen
            )
        seen.add(written.entry.file)
        staged.append((each, written.entry))
    return staged


def foreign_documents(edits: TableEdits) -> dict[str, bytes | None]:
    """Return the documents that the edits change, and those that entries of new files name."""
    documents: dict[str, bytes | None] = dict(edits.documents)
    spec, order = format_partition(PartitionSpec()), format_sort_order(SortOrder())
    named = [spec, order, *(each.schema.document for each in edits.added)]
    for document in named if edits.added else ():
        documents[past_path(document_hash(document))] = document
    return documents


def edited_dataset(edits: TableEdits, storage: Storage) -> HavasuDataset:
    """Return the dataset that the table holds; its new files are in `storage`'s staging."""
    base, folder = edits.base, edits.base.folder
    if not isinstance(folder, TreeFolder):
        raise TypeError("what is checked out is in git")
    view = replace(base, storage=storage)
    staged = stage_added(edits, storage)
    leaving = {entry.file for entry in edits.removed}
    deletes = [
        entry
        for entry in base.entries.values()
        if not (leaving | edits.restored.keys()).isdisjoint(entry.targets)
    ]
    deleted = write_delete_file(
        _deletions(edits, view, staged, leaving, deletes),
        edits.layout,
        storage.staging,
        origin=Origin.EDIT,
    )
    come = [entry for _, entry in staged]
    if deleted is not None:
        with suppress(OSError):
            mark_verified(storage.keys, deleted.entry.file)
        come.append(deleted.entry)
    gone = frozenset((*leaving, *(entry.file for entry in deletes)))
    documents = past_documents(folder, edits.layout, foreign_documents(edits))
    changes: Mapping[str, Change] = change_blobs(
        view, Rows(gone, come, _rows(base, gone, come)), documents
    )
    draft = Draft(folder.source)
    tree = edit_tree(draft, folder.tree, changes)
    return HavasuDataset(base.path, TreeFolder(draft, tree), storage, "the workspace")


def _rows(base: HavasuDataset, gone: frozenset[str], come: list[Entry]) -> int:
    signs = {Content.DATA: 1, Content.DELETES: -1}
    before = sum(signs[base.entries[file].content] * base.entries[file].rows for file in gone)
    return sum(signs[entry.content] * entry.rows for entry in come) - before


def _deletions(
    edits: TableEdits,
    view: HavasuDataset,
    staged: list[tuple[AddedFile, Entry]],
    leaving: set[str],
    replaced: list[Entry],
) -> Iterator[Deletion]:
    """Yield what the draft's own delete file holds, in order of data file."""
    carried = _carried(edits, view, leaving, replaced)
    added = {entry.file: each for each, entry in staged if len(each.deleted)}
    for file in sorted(carried.keys() | edits.deleted.keys() | added.keys()):
        parts = list(carried.get(file, ()))
        if file in edits.deleted:
            path = view.file_path(view.entries[file])
            parts.append(_read(file, path, edits, edits.deleted[file]))
        if file in added:
            parts.append(_read(file, str(added[file].path), edits, added[file].deleted))
        positions = np.concatenate([part.positions for part in parts])
        order = np.argsort(positions, kind="stable")
        rows = pa.concat_batches([part.rows for part in parts])
        yield Deletion(file, positions[order], rows.take(arrow_array(order)))


def _read(file: str, path: str, edits: TableEdits, positions: Positions) -> Deletion:
    return Deletion(file, positions, read_rows(path, edits.schema, positions, threads=True))


def _carried(
    edits: TableEdits, view: HavasuDataset, leaving: set[str], replaced: list[Entry]
) -> dict[str, list[Deletion]]:
    """Return what delete files that go say of rows that stay deleted."""
    carried: dict[str, list[Deletion]] = {}
    for entry in replaced:
        path = view.file_path(entry)
        kept: dict[str, Positions] = {}
        for file, positions in read_positions(path).items():
            back = edits.restored.get(file)
            left = positions if back is None else np.setdiff1d(positions, back)
            if file not in leaving and len(left):
                kept[file] = left
        data = {file: str(view.storage.location(file)) for file in kept}
        for deletion in read_deleted_rows(path, edits.schema, kept, data) if kept else ():
            carried.setdefault(deletion.file, []).append(deletion)
    return carried
