"""A table made to show rows that are not checked out: to its readers, edits like any other.

What is checked out stays so: the tag of its snapshot, and what the workspace knows of it.
So rows that were set aside come back as edits that are not committed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.iceberg.values import MAIN, LogEntry, Reference
from havasu_vc.store.durability import fsync_folder, reporting_storage_errors
from havasu_vc.tables.publishing import publish
from havasu_vc.tables.table import Table, read_table
from havasu_vc.workspace.draft import TableDraft
from havasu_vc.workspace.state import TableState

__all__ = ["show_as_edits"]


def show_as_edits(
    view: HavasuDataset,
    location: Path,
    known: TableState,
    *,
    commit: str,
    tree: str,
    clustered: str | None = None,
    copy: bool = False,
) -> Table:
    """Make a checked-out table show a version of its dataset, and return the table."""
    location = Path(os.path.realpath(location))
    table = read_table(location)
    draft = TableDraft(location, table.metadata, known.flavour, copy=copy, batches=known.deletes)
    draft.link(view)
    snapshot = draft.show(view, commit=commit, tree=tree, clustered=clustered)
    with reporting_storage_errors(location):
        fsync_folder(location / "data")
    metadata = replace(
        draft.made,
        last_updated_ms=draft.now,
        current_snapshot_id=snapshot.snapshot_id,
        references={**draft.made.references, MAIN: Reference(snapshot.snapshot_id)},
        snapshot_log=(*draft.made.snapshot_log, LogEntry(draft.now, snapshot.snapshot_id)),
    )
    return publish(table, location, metadata, flavour=known.flavour)
