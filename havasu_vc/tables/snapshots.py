"""The files of a snapshot, and what two snapshots do not have in common.

A file lives in a snapshot when some manifest of it names the file and does not call it
deleted. Two snapshots are compared by their manifests first, which never change: only
those that one side has are read, and then the files that these hold are paired by what
they are and where. Entry status and snapshot ids say nothing about a difference: they
are wrong after a rollback, and after rewritten manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from havasu_vc.errors import NotFoundError, NotYetSupportedError
from havasu_vc.formats.iceberg.manifests import inherited, parse_manifest, parse_manifest_list
from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    ManifestEntry,
    ManifestFile,
    Snapshot,
    Status,
)
from havasu_vc.tables.live import FileDifference, LiveFile, compare_files
from havasu_vc.tables.locations import damaged, reading_document
from havasu_vc.tables.table import Table

__all__ = [
    "difference",
    "live_files",
    "live_files_of",
    "manifests_of",
    "read_manifest",
    "snapshot_of",
]

_LARGEST = 1 << 30


def snapshot_of(table: Table, snapshot_id: int | None = None) -> Snapshot | None:
    """Return a snapshot by id; when none is named the current one, None in an empty table."""
    wanted = table.metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    if wanted is None:
        return None
    found = table.metadata.snapshots.get(wanted)
    if found is None:
        raise NotFoundError(
            f"the table at {table.location} has no snapshot {wanted}",
            hints=("it may have expired; SELECT * FROM <table>.snapshots lists those there are",),
        )
    return found


def manifests_of(table: Table, snapshot: Snapshot | None) -> tuple[ManifestFile, ...]:
    """Return the manifests of a snapshot, in the order of its list."""
    if snapshot is None:
        return ()
    if snapshot.manifest_list is None:
        return tuple(_embedded(table, path) for path in snapshot.manifests)
    path = table.places.file(snapshot.manifest_list)
    with reading_document(path):
        return tuple(parse_manifest_list(_document(path), str(path)))


def _embedded(table: Table, location: str) -> ManifestFile:
    """Return what version 1 leaves out where it names manifests without a list."""
    path = table.places.file(location)
    with reading_document(path):
        data = _document(path)
        return ManifestFile(location, len(data), parse_manifest(data, str(path)).spec.spec_id)


def read_manifest(table: Table, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Yield the entries of a manifest, with what they inherit from it filled in."""
    if manifest.key_metadata is not None:
        raise _encrypted(manifest.path)
    path = table.places.file(manifest.path)
    with reading_document(path):
        yield from inherited(parse_manifest(_document(path), str(path)), manifest, str(path))


def live_files(table: Table, snapshot_id: int | None = None) -> tuple[LiveFile, ...]:
    """Return the data and delete files of a snapshot, the current one when none is named."""
    return live_files_of(table, manifests_of(table, snapshot_of(table, snapshot_id)))


def live_files_of(table: Table, manifests: Iterable[ManifestFile]) -> tuple[LiveFile, ...]:
    """Return the files that some manifests hold, in the order of these."""
    return tuple(
        LiveFile(
            _usable(entry.file),
            manifest.spec_id,
            entry.sequence_number or 0,
            entry.file_sequence_number or 0,
            entry.snapshot_id,
        )
        for manifest in manifests
        for entry in read_manifest(table, manifest)
        if entry.status is not Status.DELETED
    )


def difference(table: Table, old_id: int | None, new_id: int | None) -> FileDifference:
    """Return the files that only one of two snapshots holds; None is a table without rows."""
    old, new = (
        {} if each is None else _by_path(manifests_of(table, snapshot_of(table, each)))
        for each in (old_id, new_id)
    )
    return compare_files(
        live_files_of(table, (old[path] for path in old if path not in new)),
        live_files_of(table, (new[path] for path in new if path not in old)),
    )


def _by_path(manifests: Iterable[ManifestFile]) -> dict[str, ManifestFile]:
    return {manifest.path: manifest for manifest in manifests}


def _usable(file: DataFile) -> DataFile:
    if file.key_metadata is not None:
        raise _encrypted(file.path)
    if file.file_format.upper() != "PARQUET" and not _is_vector(file):
        raise NotYetSupportedError(
            f"{file.path} is an {file.file_format} file; only Parquet files are read",
            hints=(
                "set the table property write.format.default to parquet, then"
                " CALL <catalog>.system.rewrite_data_files",
            ),
        )
    return file


def _is_vector(file: DataFile) -> bool:
    return file.is_vector and file.content is DataFileContent.POSITION_DELETES


def _encrypted(path: str) -> NotYetSupportedError:
    return NotYetSupportedError(f"{path} is encrypted, which is not supported")


def _document(path: Path) -> bytes:
    size = path.stat().st_size
    if size > _LARGEST:
        raise damaged(path, f"it has {size} bytes, more than a document of a table may have")
    return path.read_bytes()
