"""Old snapshots leave a table, and the files that only they needed with them.

The newest few stay, so that whoever reads one goes on reading; so does every snapshot
that a branch or tag names. Files go once no metadata names them, never before: from
snapshots that leave, whoever wrote them, and among files named as ours also what a
checkout that died left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from havasu_vc.errors import HavasuError
from havasu_vc.formats.iceberg.values import LogEntry, Snapshot, Status, TableMetadata
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import METADATA, Table
from havasu_vc.workspace.places import TablePlace

__all__ = ["expired", "forget_metadata", "remove_unneeded"]


def expired(metadata: TableMetadata, keep: int) -> TableMetadata:
    """Return a table's metadata with no more than its newest snapshots and those with names."""
    named = {reference.snapshot_id for reference in metadata.references.values()}
    named.add(metadata.current_snapshot_id or 0)
    newest = sorted(
        metadata.snapshots.values(), key=lambda each: (each.sequence_number, each.timestamp_ms)
    )
    staying = named | {each.snapshot_id for each in newest[-max(keep, 1) :]}
    if staying.issuperset(metadata.snapshots):
        return metadata
    return replace(
        metadata,
        snapshots={number: s for number, s in metadata.snapshots.items() if number in staying},
        snapshot_log=_log(metadata.snapshot_log, staying),
    )


def _log(entries: Iterable[LogEntry], staying: set[int]) -> tuple[LogEntry, ...]:
    """Return the log since the last snapshot in it that left; before, it would have a hole."""
    found: list[LogEntry] = []
    for entry in entries:
        if entry.snapshot_id in staying:
            found.append(entry)
        else:
            found.clear()
    return tuple(found)


def remove_unneeded(place: TablePlace, old: Table, new: Table) -> int:
    """Remove what a table needed before some snapshots left it; return how many files.

    Nothing is removed where a document cannot be read: then it is not known what is needed.
    """
    gone = [
        snapshot
        for number, snapshot in old.metadata.snapshots.items()
        if number not in new.metadata.snapshots
    ]
    if not gone:
        return 0
    try:
        needed = set(_named(new, new.metadata.snapshots.values(), set()))
        unneeded = set(_named(old, gone, needed)) - needed
    except (HavasuError, OSError):
        return 0
    unneeded.update(place.abandoned(needed))
    place.discard(unneeded)
    return len(unneeded)


def _named(table: Table, snapshots: Iterable[Snapshot], passed: set[str]) -> Iterator[str]:
    """Yield the names of all that snapshots name, without looking into some manifests."""
    seen = set(passed)
    for snapshot in snapshots:
        if snapshot.manifest_list is not None:
            yield table.places.name(snapshot.manifest_list)
        for manifest in manifests_of(table, snapshot):
            name = table.places.name(manifest.path)
            if name in seen:
                continue
            seen.add(name)
            yield name
            for entry in read_manifest(table, manifest):
                if entry.status is Status.DELETED:
                    continue
                yield table.places.name(entry.file.path)


def forget_metadata(place: TablePlace, old: Table, new: Table) -> None:
    """Remove metadata files that have left the log."""
    logged = {entry.metadata_file for entry in new.metadata.metadata_log}
    folder = new.places.name(f"{new.metadata.location}/{METADATA}/x").rpartition("/")[0]
    for entry in old.metadata.metadata_log:
        if entry.metadata_file not in logged:
            with suppress(HavasuError, OSError):
                name = new.places.name(entry.metadata_file)
                if name.rpartition("/")[0] == folder:
                    place.discard((name,))
