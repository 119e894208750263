"""The next version of a table, built up beside the one that is there.

A draft adds snapshots of datasets, or finds those that are still there. Data files are
linked and documents written as it goes; nobody sees them until the metadata that the
draft ends in is published, and a draft that is given up leaves files that the next
one takes over or that expire.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import HavasuError
from havasu_vc.formats.iceberg.values import (
    MAIN,
    Flavour,
    LogEntry,
    ManifestContent,
    Reference,
    Snapshot,
    Status,
    TableMetadata,
)
from havasu_vc.tables.locations import TableFolders
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import Table
from havasu_vc.workspace.manifests import Numbered, last_column_id, number_layouts
from havasu_vc.workspace.places import TablePlace
from havasu_vc.workspace.properties import CLUSTERED, COMMIT, FLAVOUR, TREE
from havasu_vc.workspace.snapshots import SnapshotParts
from havasu_vc.workspace.state import DeleteBatch, FileIdentity, TableState

__all__ = ["TableDraft", "show_as_edits"]


class TableDraft:
    """A table's next version in the making."""

    def __init__(
        self,
        place: TablePlace,
        metadata: TableMetadata | None,
        flavour: Flavour,
        *,
        copy: bool = False,
        batches: tuple[DeleteBatch, ...] = (),
    ) -> None:
        self.place = place
        """Where the table is."""
        self.metadata = metadata
        """The metadata to come; None before the first snapshot of a new table."""
        self.flavour = flavour
        """The engine that it is written for."""
        self.batches = batches
        """The delete files that were written so far, as far as they are known."""
        self._copy = copy
        self._now = max(
            int(time.time() * 1000), 0 if metadata is None else metadata.last_updated_ms + 1
        )

    @property
    def made(self) -> TableMetadata:
        """The metadata, once there is some."""
        if self.metadata is None:
            raise ValueError("a draft without a snapshot has no metadata")
        return self.metadata

    def link(self, view: HavasuDataset) -> Mapping[str, FileIdentity]:
        """Put the data files of a dataset into the table; those that are there stay."""
        return self.place.put(view, copy=self._copy)

    def show(
        self, view: HavasuDataset, *, commit: str, tree: str, clustered: str | None = None
    ) -> Snapshot:
        """Return a snapshot of a dataset: one that is there, or a new one. Its files are linked."""
        numbered = number_layouts(view, self.metadata)
        self._describe(view, numbered)
        found = self._there(tree, clustered)
        if found is not None:
            return found
        made = self.made
        parts = SnapshotParts(
            self.as_table(),
            self.numbered,
            self.flavour,
            self._now,
            complete=made.properties.get(FLAVOUR) == self.flavour.value,
        )
        origin = {COMMIT: commit, TREE: tree}
        if clustered is not None:
            origin[CLUSTERED] = clustered
        snapshot, self.batches = parts.write(view, origin, self.batches)
        self.metadata = replace(
            made,
            last_sequence_number=snapshot.sequence_number,
            snapshots={**made.snapshots, snapshot.snapshot_id: snapshot},
        )
        return snapshot

    @property
    def now(self) -> int:
        """When this draft was begun, in milliseconds; later than the version before it."""
        return self._now

    def _describe(self, view: HavasuDataset, numbered: Numbered) -> None:
        """Bring schemas, specs and orders up to a dataset."""
        known = self.metadata
        last = last_column_id(view, known)
        fields = [field.field_id for spec in numbered.specs.values() for field in spec.fields]
        layouts = {
            "schemas": numbered.schemas,
            "current_schema_id": numbered.schema_id,
            "partition_specs": numbered.specs,
            "default_spec_id": numbered.spec_id,
            "sort_orders": numbered.orders,
            "default_sort_order_id": numbered.order_id,
            "last_column_id": last,
            "last_partition_id": max([999, *fields]),
        }
        if known is None:
            made = TableMetadata(
                view.properties.table_uuid,
                self.place.location,
                self._now,
                **layouts,  # type: ignore[arg-type]
            )
        else:
            layouts["last_partition_id"] = max([known.last_partition_id, *fields])
            made = replace(known, **layouts)  # type: ignore[arg-type]
        self.metadata = made
        self.numbered = numbered

    def _there(self, tree: str, clustered: str | None) -> Snapshot | None:
        """Return the newest snapshot of a tree whose manifest list is still there."""
        wanted = (tree, clustered, self.flavour.value)
        for snapshot in reversed(list(self.made.snapshots.values())):
            summary = snapshot.summary
            found = (summary.get(TREE), summary.get(CLUSTERED), summary.get(FLAVOUR))
            if found == wanted and self._is_complete(snapshot):
                return snapshot
        return None

    def _is_complete(self, snapshot: Snapshot) -> bool:
        """Whether all that only a table has of a snapshot is there; data files are linked anew."""
        table = self.as_table()
        try:
            manifests = manifests_of(table, snapshot)
            made = [
                entry.file.path
                for manifest in manifests
                if manifest.content is ManifestContent.DELETES
                for entry in read_manifest(table, manifest)
                if entry.status is not Status.DELETED
            ]
        except (HavasuError, OSError):
            return False
        return all(map(table.places.has, (*made, *(m.path for m in manifests))))

    @cached_property
    def places(self) -> TableFolders:
        """Where files of the table may be."""
        return self.place.places

    def as_table(self) -> Table:
        """Return the draft as if it were published, to read its snapshots."""
        return Table(self.place.folder, 0, self.made, self.place.folder, self.places)


# A table made to show rows that are not checked out: to its readers, edits like any other.
#
# What is checked out stays so: the tag of its snapshot, and what the workspace knows of it.
# So rows that were set aside come back as edits that are not committed.


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
