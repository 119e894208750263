"""The commit that an engine's edits make: its files as they are, or the changed rows.

Many rows in large files come in as they are: nothing is copied, nothing is written but
the deletes. A few rows come in like any small edit, also where the engine rewrote
whole files for them, so that history grows with what changed. Edits that change no row
and no column, as a compaction, make no commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.digest import Digests, hash_rows
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.delete_writing import write_delete_file
from havasu_vc.datasets.havasu.deletes import Deletion, read_deleted_rows, read_positions
from havasu_vc.datasets.havasu.documents import past_documents
from havasu_vc.datasets.havasu.edit import SMALL_FILE, Edit
from havasu_vc.datasets.havasu.far import is_apart, put_at, sent, url_of, version_of, where_it_is
from havasu_vc.datasets.havasu.ledger import MOST_KEYS, change_blobs
from havasu_vc.datasets.havasu.ledger import Change as Rows
from havasu_vc.datasets.havasu.locate import sound_key_cache
from havasu_vc.datasets.havasu.parquet import Positions, read_rows
from havasu_vc.datasets.havasu.plan import past_path
from havasu_vc.datasets.havasu.verify import mark_verified
from havasu_vc.datasets.havasu.writing import WrittenFile, distinct_files
from havasu_vc.datasets.protocol import DatasetInFiles, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import (
    PartitionSpec,
    SortOrder,
    format_partition,
    format_sort_order,
)
from havasu_vc.history.owned_changes import take_changes
from havasu_vc.history.owned_deletes import for_owners, take_away
from havasu_vc.history.summing import add_up
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.hashing import Hashes
from havasu_vc.store.files import linked_location
from havasu_vc.store.object_systems import put_object, url_below
from havasu_vc.store.objects import Draft
from havasu_vc.store.trees import Change, edit_tree
from havasu_vc.tables.bucket import copied_here
from havasu_vc.workspace.counting import check_keys, count_edits
from havasu_vc.workspace.counting_apart import Told, count_apart
from havasu_vc.workspace.far_tables import keep_there, named_url
from havasu_vc.workspace.foreign import stage_file
from havasu_vc.workspace.taking_in import AddedFile, TableEdits, deleted_before

__all__ = [
    "edit_of",
    "edited_dataset",
    "fits_as_files",
    "foreign_documents",
    "linked_edit_of",
    "stage_added",
]


def edit_of(edits: TableEdits, storage: Storage, engine: Engine) -> TreeEdit:
    """Return the edit of the base that makes it what the table holds; it may be none.

    Raises `KeyViolationError` when keys would not be unique. New files are in `storage`'s
    staging.
    """
    if edits.is_empty:
        return TreeEdit(edits.path, {})
    if url_of(edits.base) is not None:
        # Which engine works is told only now.
        edits = replace(edits, base=where_it_is(edits.base, apart=engine.apart))
        made = _edit_there(edits, storage, engine)
        url = put_at(edits.base.with_storage(storage))
        return made if url is None else sent(made, storage.staging, url)
    check_keys(edits)
    counts = count_edits(edits)
    if not counts.total:
        return _columns_alone(edits, storage)
    if fits_as_files(edits, counts):
        return _as_files(edits, storage, engine, counts)
    return _as_rows(edits, storage, engine)


def _edit_there(edits: TableEdits, storage: Storage, engine: Engine) -> TreeEdit:
    """Return the edit of a dataset whose files are in a bucket; what is staged here is sent."""
    told = count_apart(edits, engine)
    if not told.counts.total:
        return _columns_alone(edits, storage)
    if fits_as_files(edits, told.counts):
        return _as_files(edits, storage, engine, told.counts, told=told)
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
    view = edits.base.with_storage(storage)
    with Edit(view, layout=edits.layout, documents=documents) as edit:
        return edit.finish(fold=False)


def _as_rows(edits: TableEdits, storage: Storage, engine: Engine) -> TreeEdit:
    view = edits.base.with_storage(storage)
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
    told: Told | None = None,
) -> TreeEdit:
    """Return the edit that takes files as they are; of files in a bucket, tasks have `told`."""
    view = edits.base.with_storage(storage)
    gone, come = Digests(), Digests()
    with Edit(view, layout=edits.layout, documents=foreign_documents(edits)) as edit:
        tasks = [task for e in edits.removed for task in view.scan_file(e, edits.schema)]
        what, anywhere = f"Reading {edits.path}", told is not None or not storage.on_demand
        rows, sums = add_up(tasks, edits.schema, engine, description=what, anywhere=anywhere)
        if rows != sum(edits.live_before(entry) for entry in edits.removed):
            raise CorruptDatasetError(edits.path, "its files do not hold the rows that they did")
        gone.add(sums)
        few = counts.total <= MOST_KEYS and told is None
        if not few:
            many = told is None or counts.total > MOST_KEYS
            edit.touch(None if many or told is None else told.touched)
        for entry in edits.removed:
            edit.remove(entry)
            if few:
                edit.touch(_live_keys(view, entry, deleted_before(view, entry)))
        for each, entry in _taken(edits, storage, engine):
            edit.adopt(entry, elsewhere=not storage.has(entry.file))
            if few:
                frame = edits.frame.with_storage(storage)
                edit.touch(_live_keys(frame, entry, each.deleted))
            come.add(each.measured.digests)
            for rows_gone, positions in _rows_at(each.place, edits, each.deleted):
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


def _taken(edits: TableEdits, storage: Storage, engine: Engine) -> list[tuple[AddedFile, Entry]]:
    """Return the files that came as entries, staged, or copied to where the data is."""
    staged = stage_added(edits, storage)
    if (url := put_at(edits.base.with_storage(storage))) is not None:
        places = [
            (each.url, entry.file)
            for each, entry in staged
            if each.url is not None and not storage.staging.has(entry.file)
        ]
        keep_there(places, url, engine, f"Taking in {edits.path}")
    return staged


def _live_keys(view: DatasetInFiles, entry: Entry, deleted: Positions) -> Hashes:
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


# Edits of a table as a dataset of their own, which no commit has yet.
#
# A draft has the files that live in the table now: those of the base that stayed, with an
# entry for each file that came, and one delete file for all rows that are gone. It is
# compared, merged and scanned like any other version of the dataset. Its sums of columns
# are those of the base, since nobody who compares needs them; a commit counts anew.


def stage_added(edits: TableEdits, storage: Storage) -> list[tuple[AddedFile, Entry]]:
    """Stage the files that came, each under a name of its own, and return their entries.

    Two files with the same bytes, as a table without a key may have, become two files. One that
    stays in a bucket is not staged if it has the name for itself.
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
        if each.url is not None:
            if each.entry.file not in seen:
                seen.add(each.entry.file)
                staged.append((each, each.entry))
                continue
            with copied_here(each.url) as path:
                stage_file(Path(path), each.entry.file, storage.staging)
        else:
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


def edited_dataset(edits: TableEdits, storage: Storage) -> DatasetInFiles:
    """Return the dataset that the table holds; its new files are in `storage`'s staging."""
    base, folder = edits.base, edits.base.folder
    if not isinstance(folder, TreeFolder):
        raise TypeError("what is checked out is in git")
    view = base.with_storage(storage)
    staged = stage_added(edits, storage)
    leaving = {entry.file for entry in edits.removed}
    deletes = [
        entry
        for entry in base.entries.values()
        if not (leaving | edits.restored.keys()).isdisjoint(entry.targets)
    ]
    places = _places(staged, storage)
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
    if (url := url_of(view)) is not None and is_apart(view):
        places |= _sent_along(come, storage, url)
    return version_of(view, TreeFolder(draft, tree), "the workspace", places)


def _places(staged: Sequence[tuple[AddedFile, Entry]], storage: Storage) -> dict[str, str]:
    """Return where files that stay in a bucket are read, by what they are called."""
    return {
        entry.file: named_url(each.url, entry.file)
        for each, entry in staged
        if each.url is not None and not storage.staging.has(entry.file)
    }


def _sent_along(come: Iterable[Entry], storage: Storage, url: str) -> dict[str, str]:
    """Send what is staged here to where others read it; what no commit names `gc` takes."""
    staged = [entry.file for entry in come if storage.staging.has(entry.file)]
    for file in staged:
        put_object(url_below(url, file), storage.staging.path(file))
    return {file: url_below(url, file) for file in staged}


def _rows(base: DatasetInFiles, gone: frozenset[str], come: list[Entry]) -> int:
    signs = {Content.DATA: 1, Content.DELETES: -1}
    before = sum(signs[base.entries[file].content] * base.entries[file].rows for file in gone)
    return sum(signs[entry.content] * entry.rows for entry in come) - before


def _deletions(
    edits: TableEdits,
    view: DatasetInFiles,
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
            parts.append(_read(file, added[file].place, edits, added[file].deleted))
        positions = np.concatenate([part.positions for part in parts])
        order = np.argsort(positions, kind="stable")
        rows = pa.concat_batches([part.rows for part in parts])
        yield Deletion(file, positions[order], rows.take(arrow_array(order)))


def _read(file: str, path: str, edits: TableEdits, positions: Positions) -> Deletion:
    return Deletion(file, positions, read_rows(path, edits.schema, positions, threads=True))


def _carried(
    edits: TableEdits, view: DatasetInFiles, leaving: set[str], replaced: list[Entry]
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
