"""One snapshot of a dataset in a table: its delete files, manifests and manifest list.

What the table's current snapshot has and the dataset still wants stays in the manifests
that hold it. Only entries of files that come are read from git and described anew.
"""

from __future__ import annotations

import secrets
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.formats.iceberg.entries import data_file_of
from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    Flavour,
    ManifestEntry,
    ManifestFile,
    Snapshot,
    Status,
)
from havasu_vc.records import dataclass
from havasu_vc.tables.locations import TableFolders, local_path
from havasu_vc.tables.publishing import write_manifest, write_manifest_list
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import Table
from havasu_vc.workspace.manifests import ManifestPlan, Numbered, Read, plan_manifests
from havasu_vc.workspace.properties import DATASET, FLAVOUR
from havasu_vc.workspace.state import DeleteBatch

__all__ = [
    "SnapshotParts",
    "data_path",
    "delete_sources",
    "reusable",
    "summary_of",
    "totals",
    "totals_of",
]


def data_path(location: Path, file: str) -> Path:
    """Return where a data file of the dataset is in a table."""
    return location / "data" / f"{file}.parquet"


@dataclass
class SnapshotParts:
    """The parts of a new snapshot."""

    table: Table
    """The table that gets it, with the dataset's layouts as the current ones."""
    numbered: Numbered
    """The dataset's layouts in it."""
    flavour: Flavour
    """The engine that it is written for."""
    timestamp_ms: int
    """When it is made."""
    complete: bool = True
    """Whether manifests that are there say all that the flavour wants."""
    snapshot_id: int = field(default_factory=lambda: secrets.randbits(62) + 1)
    """Its id."""

    def write(
        self,
        view: HavasuDataset,
        origin: Mapping[str, str],
        batches: Sequence[DeleteBatch],
    ) -> tuple[Snapshot, tuple[DeleteBatch, ...]]:
        """Write all that a snapshot of a dataset names; return it, and its deletes' batches.

        `origin` is what its summary says of where the dataset comes from.
        """
        current = self.table.metadata.snapshot
        number = self.table.metadata.last_sequence_number + 1
        old = self._read(current)
        specs = {
            entry.file.path: manifest.spec_id
            for manifest, entries in old
            for entry in entries
            if entry.status is not Status.DELETED
        }
        described = {self._spelled(e): e for e in view.data_entries}
        wanted = {path: self._spec_id(entry) for path, entry in described.items()}
        kept, new, deletes = self._deletes(view, batches, specs)
        wanted |= {path: specs[path] for batch in kept for path in batch.files}
        wanted |= {file.path: spec_id for spec_id, file in deletes}
        plan = plan_manifests(old, wanted, self.snapshot_id, complete=self.complete)
        written = {file.path: file for _, file in deletes}
        for path in plan.wanting:
            file = written.get(path) or (
                self.describe(described[path])[1] if path in described else plan.known[path].file
            )
            plan.come(wanted[path], file, self.snapshot_id, number)
        snapshot = Snapshot(
            self.snapshot_id,
            number,
            self.timestamp_ms,
            None,
            {},
            None if current is None else current.snapshot_id,
            self.numbered.schema_id,
        )
        manifests = [*plan.kept, *self._write_manifests(plan, snapshot)]
        listed = write_manifest_list(self.table.location, manifests, snapshot)
        entries = [entry for group in plan.entries.values() for entry in group]
        names = {**origin, DATASET: view.path, FLAVOUR: self.flavour.value}
        summary = {**summary_of(entries, manifests), **names, **totals_of(view)}
        location = self.table.places.written(listed)
        snapshot = replace(snapshot, manifest_list=location, summary=summary)
        return snapshot, (*kept, *new)

    def describe(self, entry: Entry) -> tuple[int, DataFile]:
        """Return a data file as manifests describe it, and its spec."""
        spec = self.numbered.spec_of(entry)
        return spec.spec_id, data_file_of(
            entry,
            self._spelled(entry),
            schema=self.numbered.schema,
            spec=spec,
            flavour=self.flavour,
            sort_order_id=self.numbered.order_ids.get(entry.sort_order),
        )

    def _read(self, current: Snapshot | None) -> list[Read]:
        if current is None:
            return []
        return [
            (manifest, tuple(read_manifest(self.table, manifest)))
            for manifest in manifests_of(self.table, current)
        ]

    def _spelled(self, entry: Entry) -> str:
        return self.table.places.spelled(data_path(self.table.location, entry.file))

    def _spec_id(self, entry: Entry) -> int:
        return self.numbered.spec_ids[entry.partition_spec]

    def _deletes(
        self, view: HavasuDataset, batches: Sequence[DeleteBatch], live: dict[str, int]
    ) -> tuple[tuple[DeleteBatch, ...], tuple[DeleteBatch, ...], list[tuple[int, DataFile]]]:
        """Return the batches that stay, the one that comes, and the files of that."""
        sources = {entry.file: entry for entry in delete_sources(view)}
        kept = reusable(batches, sources, live, self.table.places)
        done = {source for batch in kept for source in batch.sources}
        remaining = [entry for file, entry in sources.items() if file not in done]
        if not remaining:
            return kept, (), []
        from havasu_vc.workspace.position_deletes import write_batch

        folder = self.table.location / "data"
        written = self.table.places.written
        batch, files = write_batch(view, remaining, folder, self.describe, written)
        return kept, (batch,), files

    def _write_manifests(self, plan: ManifestPlan, snapshot: Snapshot) -> list[ManifestFile]:
        made = (
            write_manifest(
                self.table.location,
                entries,
                self.table.metadata,
                spec_id=spec_id,
                snapshot=snapshot,
                flavour=self.flavour,
            )
            for (_, spec_id), entries in sorted(plan.entries.items())
        )
        return [replace(m, path=self.table.places.written(Path(local_path(m.path)))) for m in made]


def totals_of(view: HavasuDataset) -> dict[str, str]:
    """Return what the summary of a snapshot says of all of a dataset's data files."""
    entries = view.data_entries
    rows, size = sum(entry.rows for entry in entries), sum(entry.size for entry in entries)
    return totals(rows, len(entries), size)


def totals(rows: int, files: int, size: int) -> dict[str, str]:
    """Return what the summary of a snapshot says of so many rows, data files and bytes of these."""
    return {
        "total-records": str(rows),
        "total-data-files": str(files),
        "total-files-size": str(size),
        "total-equality-deletes": "0",
    }


def summary_of(
    entries: Sequence[ManifestEntry], manifests: Sequence[ManifestFile]
) -> dict[str, str]:
    """Return what Iceberg's readers look for in a snapshot's summary.

    `entries` are those of the manifests that were written for it.
    """
    added = [entry for entry in entries if entry.status is Status.ADDED]
    gone = [entry for entry in entries if entry.status is Status.DELETED]
    deletes = [m for m in manifests if m.content.value]
    counts = {
        "added-data-files": len(_data(added)),
        "deleted-data-files": len(_data(gone)),
        "added-delete-files": len(added) - len(_data(added)),
        "removed-delete-files": len(gone) - len(_data(gone)),
        "added-records": sum(entry.file.record_count for entry in _data(added)),
        "deleted-records": sum(entry.file.record_count for entry in _data(gone)),
    }
    totals = {
        "total-delete-files": sum((m.added_files or 0) + (m.existing_files or 0) for m in deletes),
        "total-position-deletes": sum(
            (m.added_rows or 0) + (m.existing_rows or 0) for m in deletes
        ),
    }
    operation = "overwrite" if gone or len(added) > len(_data(added)) else "append"
    found = {name: str(count) for name, count in counts.items() if count}
    return {"operation": operation, **found, **{name: str(n) for name, n in totals.items()}}


def _data(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    return [entry for entry in entries if entry.file.content is DataFileContent.DATA]


# Which of the position delete files that were written before serve a checkout again.


def delete_sources(view: HavasuDataset) -> tuple[Entry, ...]:
    """Return the live delete files of a dataset."""
    found = [entry for entry in view.entries.values() if entry.content is Content.DELETES]
    return tuple(sorted(found, key=lambda entry: entry.file))


def reusable(
    batches: Iterable[DeleteBatch],
    sources: Container[str],
    live: Container[str],
    places: TableFolders,
) -> tuple[DeleteBatch, ...]:
    """Return the batches that are live as they are and made of nothing that went."""
    return tuple(
        batch
        for batch in batches
        if all(source in sources for source in batch.sources)
        and all(path in live and places.has(path) for path in batch.files)
    )
