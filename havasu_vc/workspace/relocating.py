"""A table whose folder was moved or copied, made at home where it is.

Iceberg's documents name files by whole paths, and position deletes repeat the paths of
data files. So manifests and position deletes are written anew with the paths of the new
place, for the snapshots that have a name: what is current, what was checked out, other
branches and tags. Ids and numbers stay, and so do edits. Data files are not touched.

A checked-out table once more, as DuckDB reads its geometries.

DuckDB takes columns of WKB in GeoParquet for geometries whatever a table says, and then fails
where the table says bytes. Iceberg 3 has a type for them, which other engines refuse as yet. So
beside the table's own metadata lies a document that names the same manifests and files under
that type: `iceberg_scan('TABLE/metadata/duckdb.metadata.json')`. It is of the checkout: what
others write to the table later is in the table's own metadata alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from havasu_vc.datasets.havasu.native_types import native_types
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.formats.iceberg.metadata import format_metadata_3
from havasu_vc.formats.iceberg.values import (
    MAIN,
    DataFile,
    DataFileContent,
    Flavour,
    LogEntry,
    ManifestEntry,
    ManifestFile,
    Snapshot,
    TableMetadata,
)
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.store.disk import replace_file, reporting_storage_errors
from havasu_vc.tables.positions import read_position_deletes, write_position_deletes
from havasu_vc.tables.publishing import publish, write_manifest, write_manifest_list
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import METADATA, Table, local_path, location_of, read_table
from havasu_vc.workspace.properties import FLAVOUR, VERSION, is_untouched

__all__ = ["Relocated", "relocate_table", "show_to_duckdb"]

_WITH_PATHS = ("statistics", "partition-statistics")
"""Parts of metadata that name files and are not needed."""


@dataclass(frozen=True, slots=True)
class Relocated:
    """A table that is at home again."""

    table: Table
    """The table that is there now."""
    paths: Mapping[str, str]
    """The new path of each delete file that was written anew, by its old one."""


def relocate_table(location: Path) -> Relocated:
    """Make the table in a folder say that it is there; one that does stays as it is."""
    location = Path(os.path.realpath(location))
    table = read_table(location)
    if table.moved_from is None:
        return Relocated(table, {})
    mover = _Mover(table, local_path(table.metadata.location).rstrip(os.sep))
    metadata = mover.metadata()
    flavour = table.metadata.properties.get(FLAVOUR, "")
    written = publish(
        table,
        location,
        metadata,
        flavour=Flavour(flavour) if flavour in list(Flavour) else Flavour.HAVASU,
    )
    # It has the old paths; the next checkout makes it anew.
    (location / METADATA / FOR_DUCKDB).unlink(missing_ok=True)
    return Relocated(written, mover.rewritten)


@dataclass
class _Mover:
    """Writes the documents of a table with other paths."""

    table: Table
    old: str
    rewritten: dict[str, str] = field(default_factory=dict)
    _deletes: dict[str, DataFile] = field(default_factory=dict)
    _manifests: dict[str, ManifestFile | None] = field(default_factory=dict)

    def metadata(self) -> TableMetadata:
        """Return the metadata of the table at its new place."""
        known = self.table.metadata
        named = {reference.snapshot_id for reference in known.references.values()}
        named.add(known.current_snapshot_id or 0)
        snapshots = {
            number: self._snapshot(snapshot)
            for number, snapshot in known.snapshots.items()
            if number in named
        }
        properties = dict(known.properties)
        if is_untouched(self.table):
            properties[VERSION] = str(self.table.version + 1)
        return replace(
            known,
            location=location_of(self.table.location),
            last_updated_ms=known.last_updated_ms + 1,
            snapshots=snapshots,
            snapshot_log=_log(known, snapshots),
            metadata_log=(),
            properties=properties,
            others={name: item for name, item in known.others.items() if name not in _WITH_PATHS},
        )

    def path(self, path: str) -> str:
        """Return a path of the table as it is now; one outside of it stays."""
        local = local_path(path)
        if not local.startswith(self.old + os.sep):
            return path
        return location_of(self.table.location / local[len(self.old) + 1 :])

    def _snapshot(self, snapshot: Snapshot) -> Snapshot:
        listed = snapshot.manifest_list
        there = replace(
            snapshot,
            manifest_list=None if listed is None else self.path(listed),
            manifests=tuple(self.path(each) for each in snapshot.manifests),
        )
        manifests = [self._manifest(each) for each in manifests_of(self.table, there)]
        made = replace(there, manifests=())
        written = write_manifest_list(
            self.table.location, [each for each in manifests if each is not None], made
        )
        return replace(made, manifest_list=location_of(written))

    def _manifest(self, manifest: ManifestFile) -> ManifestFile | None:
        """Return a manifest with new paths; None for one without entries."""
        if manifest.path not in self._manifests:
            there = replace(manifest, path=self.path(manifest.path))
            entries = [self._entry(each) for each in read_manifest(self.table, there)]
            known = self.table.metadata
            maker = Snapshot(manifest.added_snapshot_id, manifest.sequence_number, 0, None)
            flavour = known.properties.get(FLAVOUR, "")
            self._manifests[manifest.path] = (
                write_manifest(
                    self.table.location,
                    entries,
                    known,
                    spec_id=manifest.spec_id,
                    snapshot=maker,
                    flavour=Flavour(flavour) if flavour in list(Flavour) else Flavour.HAVASU,
                )
                if entries
                else None
            )
        return self._manifests[manifest.path]

    def _entry(self, entry: ManifestEntry) -> ManifestEntry:
        file = entry.file
        if file.content is DataFileContent.POSITION_DELETES:
            return replace(entry, file=self._position_deletes(file))
        return replace(entry, file=replace(file, path=self.path(file.path)))

    def _position_deletes(self, file: DataFile) -> DataFile:
        if file.path not in self._deletes:
            there = self.table.places.file(self.path(file.path))
            if there.exists():
                deletes = {
                    self.path(name): positions
                    for name, positions in read_position_deletes(there).items()
                }
                made = write_position_deletes(there.parent, deletes, partition=_plain(file))
            else:
                # Named by an entry that is deleted; nobody reads it.
                made = replace(file, path=str(there))
            self._deletes[file.path] = made
            self.rewritten[file.path] = made.path
        return self._deletes[file.path]


def _plain(file: DataFile) -> dict[int, Any]:
    return dict(file.partition)


def _log(known: TableMetadata, snapshots: Mapping[int, Snapshot]) -> tuple[LogEntry, ...]:
    """Return the log since the last entry of a snapshot that is gone."""
    found: list[LogEntry] = []
    for entry in known.snapshot_log:
        if entry.snapshot_id in snapshots:
            found.append(entry)
        else:
            found.clear()
    return tuple(found)


FOR_DUCKDB = "duckdb.metadata.json"
"""The document's name."""


def show_to_duckdb(view: DatasetInFiles, metadata: TableMetadata, folder: Path) -> None:
    """Have the document of a table there, or none where its files call nothing a geometry."""
    types = native_types(view)
    snapshot = metadata.snapshot
    place = folder / METADATA / FOR_DUCKDB
    if not types or snapshot is None:
        with reporting_storage_errors(place):
            place.unlink(missing_ok=True)
        return
    rows = {"first-row-id": 0, "added-rows": view.rows}
    schemas = {
        number: Schema(
            tuple(
                replace(column, geometry=None, extra=()) if column.id in types else column
                for column in schema.fields
            )
        )
        for number, schema in metadata.schemas.items()
    }
    shown = replace(
        metadata,
        schemas=schemas,
        snapshots={snapshot.snapshot_id: replace(snapshot, parent_id=None, others=rows)},
        references={MAIN: metadata.references[MAIN]},
        snapshot_log=metadata.snapshot_log[-1:],
        metadata_log=(),
        next_row_id=view.rows,
    )
    replace_file(place, format_metadata_3(shown, types))
