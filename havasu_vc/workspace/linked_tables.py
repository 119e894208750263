"""A table of others as a dataset that names its files where they are.

The dataset has an entry for each data file of one snapshot, and deletes of its own for the
rows that the table's delete files take away; no data file is copied. What a later snapshot
changes is told by where files are, since no writer of Iceberg ever writes into a file. A
file that says nothing of some of its columns (without field ids, or with values that only
its partition has) cannot be linked and is copied.
"""

from __future__ import annotations

from pathlib import Path

from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.engine.protocol import Engine
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.model.schema import Schema
from havasu_vc.store.files import linked_location
from havasu_vc.tables.scanning import deleted_rows, row_sources
from havasu_vc.tables.snapshots import SnapshotFile, live_files
from havasu_vc.tables.table import Table
from havasu_vc.workspace.taking_in import (
    TableEdits,
    added_files,
    changed_documents,
    come_files,
    layout_after,
    rows_apart,
)

__all__ = ["read_linked_edits"]


def read_linked_edits(
    base: DatasetInFiles, table: Table, snapshot_id: int | None, schema: Schema, engine: Engine
) -> TableEdits:
    """Return how one snapshot of a table differs from a dataset that links to its files.

    `schema` is what the dataset's columns become. The dataset may have no file yet.
    """
    live = () if snapshot_id is None else live_files(table, snapshot_id)
    sources = row_sources(table, live)
    gone = {each.file.path: deleted_rows(source) for each, source in sources}
    known = {entry.location: entry for entry in base.data_entries if entry.location is not None}
    stay: list[tuple[SnapshotFile, Entry]] = []
    come: list[SnapshotFile] = []
    for each, source in sources:
        entry = known.get(linked_location(Path(source.path)))
        if entry is None:
            come.append(each)
        else:
            stay.append((each, entry))
    coming = come_files(base, table, come, schema)
    documents = changed_documents(base, schema, [each.schema for each in coming])
    layout = layout_after(base, schema, documents)
    added = added_files(base, layout, coming, lambda path: gone[path], engine)
    apart = rows_apart(base, ((entry, gone[each.file.path]) for each, entry in stay))
    left = {entry.file for _, entry in stay} - apart.emptied.keys()
    return TableEdits(
        base,
        schema,
        layout,
        documents,
        tuple(entry for entry in base.data_entries if entry.file not in left),
        added,
        apart.deleted,
        apart.restored,
        linked=True,
    )
