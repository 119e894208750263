"""The files of a snapshot, and what two snapshots do not have in common.

A file lives in a snapshot when some manifest of it names the file and does not call it
deleted. Two snapshots are compared by their manifests first, which never change: only
those that one side has are read, and then the files that these hold are paired by what
they are and where. Entry status and snapshot ids say nothing about a difference: they
are wrong after a rollback, and after rewritten manifests.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from havasu_vc.errors import NotFoundError, NotYetSupportedError
from havasu_vc.formats.havasu.properties import PartitionSpec
from havasu_vc.formats.iceberg.manifests import inherited, parse_manifest, parse_manifest_list
from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    ManifestEntry,
    ManifestFile,
    Snapshot,
    Status,
)
from havasu_vc.records import dataclass
from havasu_vc.tables.other_forms import OTHER_FORMS
from havasu_vc.tables.table import Table, damaged, reading_document

__all__ = [
    "FileDifference",
    "SnapshotFile",
    "compare_files",
    "difference",
    "divides",
    "live_files",
    "live_files_of",
    "manifests_of",
    "partition_key",
    "read_manifest",
    "snapshot_of",
]


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A data or delete file that a snapshot holds."""

    file: DataFile
    """The file."""
    spec_id: int
    """The partition spec that its partition values are of."""
    sequence_number: int
    """Its data sequence number: which deletes apply to it, or to what it applies."""
    file_sequence_number: int = 0
    """When the file was added to the table."""
    snapshot_id: int | None = None
    """The snapshot that added it, as far as its manifest tells."""

    @property
    def place(self) -> Hashable:
        """A value that tells it from other files of its snapshot; vectors share a file."""
        file = self.file
        return file.content, file.path, file.content_offset

    @property
    def is_data(self) -> bool:
        """Whether it holds rows rather than deletes."""
        return self.file.content is DataFileContent.DATA


@dataclass(frozen=True, slots=True)
class FileDifference:
    """The files that one snapshot has and another has not."""

    removed: tuple[SnapshotFile, ...] = ()
    """Only in the old snapshot."""
    added: tuple[SnapshotFile, ...] = ()
    """Only in the new snapshot."""
    renumbered: tuple[tuple[SnapshotFile, SnapshotFile], ...] = ()
    """In both, old and new, but other deletes may apply: sequence number or partition differ."""

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.renumbered)

    @property
    def removed_data(self) -> tuple[SnapshotFile, ...]:
        """The data files among the removed."""
        return tuple(each for each in self.removed if each.is_data)

    @property
    def added_data(self) -> tuple[SnapshotFile, ...]:
        """The data files among the added."""
        return tuple(each for each in self.added if each.is_data)

    @property
    def removed_deletes(self) -> tuple[SnapshotFile, ...]:
        """The delete files among the removed."""
        return tuple(each for each in self.removed if not each.is_data)

    @property
    def added_deletes(self) -> tuple[SnapshotFile, ...]:
        """The delete files among the added."""
        return tuple(each for each in self.added if not each.is_data)


def compare_files(old: Iterable[SnapshotFile], new: Iterable[SnapshotFile]) -> FileDifference:
    """Return what only one of two snapshots has; a file that is named twice counts twice."""
    before: dict[Hashable, list[SnapshotFile]] = {}
    for each in old:
        before.setdefault(each.place, []).append(each)
    added, renumbered = [], []
    for each in new:
        same = before.get(each.place)
        if not same:
            added.append(each)
            continue
        partner = next((one for one in same if _reach(one) == _reach(each)), same[0])
        same.remove(partner)
        if _reach(partner) != _reach(each):
            renumbered.append((partner, each))
    removed = [each for left in before.values() for each in left]
    return FileDifference(tuple(removed), tuple(added), tuple(renumbered))


def _reach(live: SnapshotFile) -> Hashable:
    """Return what decides which deletes meet which data."""
    return (
        live.sequence_number,
        live.spec_id,
        partition_key(live.file),
        live.file.referenced_data_file,
        live.file.equality_ids,
    )


# Whether two files lie in one partition.


def partition_key(file: DataFile) -> Hashable:
    """Return what two files have in common exactly when they lie in one partition of a spec."""
    return tuple((number, _exact(value)) for number, value in sorted(file.partition.items()))


def _exact(value: Any) -> Hashable:
    # Zero and minus zero are two partitions, and not a number is one.
    if not isinstance(value, float):
        return value  # type: ignore[no-any-return]
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


def divides(spec: PartitionSpec | None) -> bool:
    """Whether a spec deals rows out at all; fields that were dropped leave `void` behind."""
    return spec is not None and any(field.transform != "void" for field in spec.fields)


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


def live_files(
    table: Table, snapshot_id: int | None = None, *, parquet: bool = True
) -> tuple[SnapshotFile, ...]:
    """Return the data and delete files of a snapshot, the current one when none is named.

    Where only rows are read, files need not be of `parquet`.
    """
    manifests = manifests_of(table, snapshot_of(table, snapshot_id))
    return live_files_of(table, manifests, parquet=parquet)


def live_files_of(
    table: Table, manifests: Iterable[ManifestFile], *, parquet: bool = True
) -> tuple[SnapshotFile, ...]:
    """Return the files that some manifests hold, in the order of these."""
    return tuple(
        SnapshotFile(
            _usable(entry.file, parquet=parquet),
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


def _usable(file: DataFile, *, parquet: bool) -> DataFile:
    if file.key_metadata is not None:
        raise _encrypted(file.path)
    if not parquet and file.file_format.upper() in OTHER_FORMS:
        return replace(file, split_offsets=None)  # it is rewritten whole
    if file.file_format.upper() != "PARQUET" and not _is_vector(file):
        raise NotYetSupportedError(
            f"{file.path} is an {file.file_format} file; only Parquet files stay as they are",
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
