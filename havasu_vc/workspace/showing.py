"""A table made to show rows that are not checked out: to its readers, edits like any other.

What is checked out stays so: the tag of its snapshot, and what the workspace knows of it.
So rows that were set aside come back as edits that are not committed.
"""

from __future__ import annotations

from dataclasses import replace

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.iceberg.values import MAIN, LogEntry, Reference
from havasu_vc.tables.table import Table
from havasu_vc.workspace.draft import TableDraft
from havasu_vc.workspace.places import TablePlace
from havasu_vc.workspace.state import TableState

__all__ = ["show_as_edits"]


def show_as_edits(
    view: HavasuDataset,
    place: TablePlace,
    known: TableState,
    *,
    commit: str,
    tree: str,
    clustered: str | None = None,
    copy: bool = False,
) -> Table:
    """Make a checked-out table show a version of its dataset, and return the table."""
    table = place.read()
    draft = TableDraft(place, table.metadata, known.flavour, copy=copy, batches=known.deletes)
    draft.link(view)
    snapshot = draft.show(view, commit=commit, tree=tree, clustered=clustered)
    metadata = replace(
        draft.made,
        last_updated_ms=draft.now,
        current_snapshot_id=snapshot.snapshot_id,
        references={**draft.made.references, MAIN: Reference(snapshot.snapshot_id)},
        snapshot_log=(*draft.made.snapshot_log, LogEntry(draft.now, snapshot.snapshot_id)),
    )
    return place.publish(table, metadata, known.flavour)
