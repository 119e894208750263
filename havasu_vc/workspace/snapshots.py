"""One snapshot of a dataset in a table: its delete files, manifests and manifest list.

What the table's current snapshot has and the dataset still wants stays in the manifests
that hold it. Only entries of files that come are read from git and described anew.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TypeAlias

from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.formats.iceberg.entries import data_file_of
from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    Flavour,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Snapshot,
    Status,
)
from havasu_vc.records import dataclass
from havasu_vc.tables.publishing import write_manifest, write_manifest_list
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import Table, TableFolders, local_path
from havasu_vc.workspace.numbering import Numbered
from havasu_vc.workspace.properties import DATASET, FLAVOUR
from havasu_vc.workspace.state import DeleteBatch

__all__ = [
    "DATA_SEQUENCE",
    "ManifestPlan",
    "Read",
    "SnapshotParts",
    "data_path",
    "delete_sources",
    "is_ours",
    "plan_manifests",
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
        view: DatasetInFiles,
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
            self.numbered.in_table(entry),
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
        self, view: DatasetInFiles, batches: Sequence[DeleteBatch], live: dict[str, int]
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
            if self._tells(spec_id, entries)
        )
        return [replace(m, path=self.table.places.written(Path(local_path(m.path)))) for m in made]

    def _tells(self, spec_id: int, entries: Sequence[ManifestEntry]) -> bool:
        """Whether entries get a manifest: not files that went, parted by a column that went too.

        DuckDB 1.5 ends where it meets one.
        """
        sources = {part.source_id for part in self.numbered.specs[spec_id].fields}
        gone = all(entry.status is Status.DELETED for entry in entries)
        return not gone or sources <= self.numbered.schema.by_id.keys()


def totals_of(view: DatasetInFiles) -> dict[str, str]:
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


def delete_sources(view: DatasetInFiles) -> tuple[Entry, ...]:
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


# Which manifests a checkout keeps, and what goes into new ones.
#
# A manifest of ours whose files all stay is named again as it is. One that loses a file is
# written anew with the others; files that come get a manifest of their own. Where small
# manifests pile up they are written as one, so a table that is checked out a thousand
# times has few. Sequence numbers follow one rule: data files have 1 whenever they come,
# delete files that of the snapshot that brought them.


DATA_SEQUENCE = 1
"""The data sequence number of every data file, so that deletes of any age apply to it."""

_OURS = re.compile(r"[0-9a-f]{32}-m\.avro")

MANY = 8
"""Manifests of one kind beyond which the small ones are merged."""
SMALL = 256
"""A manifest of fewer files is small."""

Read: TypeAlias = tuple[ManifestFile, Sequence[ManifestEntry]]
"""A manifest and its entries, with what they inherit filled in."""
Group: TypeAlias = tuple[ManifestContent, int]
"""Files of one manifest hold the same and share a partition spec."""


@dataclass
class ManifestPlan:
    """The manifests of a snapshot."""

    kept: list[ManifestFile] = field(default_factory=list)
    """Manifests that are named again."""
    entries: dict[Group, list[ManifestEntry]] = field(default_factory=dict)
    """The entries of new manifests."""
    wanting: list[str] = field(default_factory=list)
    """Paths of wanted files that no manifest of ours describes yet."""
    known: dict[str, ManifestEntry] = field(default_factory=dict)
    """Live entries of the table as it was, by path."""

    def add(self, spec_id: int, entry: ManifestEntry) -> None:
        """Put an entry into a new manifest."""
        is_data = entry.file.content is DataFileContent.DATA
        content = ManifestContent.DATA if is_data else ManifestContent.DELETES
        self.entries.setdefault((content, spec_id), []).append(entry)

    def come(self, spec_id: int, file: DataFile, snapshot_id: int, sequence_number: int) -> None:
        """Put a file that is described now into a new manifest."""
        was = self.known.get(file.path)
        is_data = file.content is DataFileContent.DATA
        number = DATA_SEQUENCE if is_data else sequence_number
        if was is None:
            new = ManifestEntry(Status.ADDED, file, snapshot_id, number, sequence_number)
        else:
            new = replace(was, status=Status.EXISTING, file=file)
            new = replace(new, sequence_number=number if is_data else was.sequence_number)
        self.add(spec_id, new)


def is_ours(manifest: ManifestFile) -> bool:
    """Whether we wrote a manifest, so that what it says of files is complete."""
    return _OURS.fullmatch(manifest.path.rpartition("/")[2]) is not None


def plan_manifests(
    old: Iterable[Read], wanted: Mapping[str, int], snapshot_id: int, *, complete: bool = True
) -> ManifestPlan:
    """Return what to keep of the table's manifests so that just the wanted files live.

    `wanted` gives the partition spec of each file by path. The plan's `wanting` have to be
    described before its entries are complete. Unless our manifests are `complete` for the
    flavour that is wanted, none is kept.
    """
    plan = ManifestPlan()
    found: set[str] = set()
    kept: list[Read] = []
    for manifest, entries in old:
        live = [entry for entry in entries if entry.status is not Status.DELETED]
        plan.known.update((entry.file.path, entry) for entry in live)
        ours = complete and is_ours(manifest)
        good = [
            entry
            for entry in live
            if ours
            and wanted.get(entry.file.path) == manifest.spec_id
            and entry.file.path not in found
            and _rightly_numbered(entry)
        ]
        found.update(entry.file.path for entry in good)
        if good and len(good) == len(live):
            kept.append((manifest, live))
            continue
        for entry in good:
            plan.add(manifest.spec_id, replace(entry, status=Status.EXISTING))
        for entry in live:
            if entry.file.path not in wanted:
                gone = replace(entry, status=Status.DELETED, snapshot_id=snapshot_id)
                plan.add(manifest.spec_id, gone)
    plan.kept = _merged(kept, plan)
    plan.wanting = [path for path in wanted if path not in found]
    return plan


def _rightly_numbered(entry: ManifestEntry) -> bool:
    is_data = entry.file.content is DataFileContent.DATA
    return not is_data or entry.sequence_number == DATA_SEQUENCE


def _merged(kept: Sequence[Read], plan: ManifestPlan) -> list[ManifestFile]:
    """Return the manifests to keep, once small ones of kinds that have many are taken up."""
    groups: dict[Group, list[Read]] = {}
    for manifest, live in kept:
        groups.setdefault((manifest.content, manifest.spec_id), []).append((manifest, live))
    staying: list[ManifestFile] = []
    for (_, spec_id), members in groups.items():
        small = [each for each in members if len(each[1]) < SMALL]
        if len(members) <= MANY or len(small) < 2:
            staying += [manifest for manifest, _ in members]
            continue
        staying += [manifest for manifest, live in members if len(live) >= SMALL]
        for _, live in small:
            for entry in live:
                plan.add(spec_id, replace(entry, status=Status.EXISTING))
    return staying
