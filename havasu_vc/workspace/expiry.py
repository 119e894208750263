"""Old snapshots leave a table, and the files that only they needed with them.

The newest few stay, so that whoever reads one goes on reading; so does every snapshot
that a branch or tag names. Files go once no metadata names them, never before: from
snapshots that leave, whoever wrote them, and among files named as ours also what a
checkout that died left behind.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from havasu_vc.errors import HavasuError
from havasu_vc.formats.iceberg.values import LogEntry, Snapshot, Status, TableMetadata
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import METADATA, Table
from havasu_vc.workspace.linking import TEMPORARY

__all__ = ["expired", "remove_unneeded"]

UNFINISHED_SECONDS = 3600.0
"""What nothing names and is older was left by a checkout that died."""

_OURS = re.compile(
    rf"[0-9a-f]{{64}}(-deletes)?\.parquet|{re.escape(TEMPORARY)}.*|[0-9a-f]{{32}}-m\.avro|snap-\d+-[0-9a-f]{{32}}\.avro|\.[0-9a-f]{{16}}.*"
)


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


def remove_unneeded(old: Table, new: Table) -> int:
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
    oldest = time.time() - UNFINISHED_SECONDS
    unneeded.update(_abandoned(new, needed, oldest))
    for path in unneeded:
        with suppress(OSError):
            os.unlink(path)
    return len(unneeded)


def _named(table: Table, snapshots: Iterable[Snapshot], passed: set[str]) -> Iterator[str]:
    """Yield the paths of all that snapshots name, without looking into some manifests."""
    seen = set(passed)
    for snapshot in snapshots:
        if snapshot.manifest_list is not None:
            yield os.fspath(table.places.file(snapshot.manifest_list))
        for manifest in manifests_of(table, snapshot):
            path = os.fspath(table.places.file(manifest.path))
            if path in seen:
                continue
            seen.add(path)
            yield path
            for entry in read_manifest(table, manifest):
                if entry.status is Status.DELETED:
                    continue
                yield os.fspath(table.places.file(entry.file.path))


def _abandoned(table: Table, needed: set[str], oldest: float) -> Iterator[str]:
    """Yield files that are named as ours, that nothing names, and that nobody just made."""
    root = Path(os.path.realpath(table.location))
    for folder in (root / "data", root / METADATA):
        with suppress(OSError), os.scandir(folder) as items:
            for item in items:
                if (
                    _OURS.fullmatch(item.name)
                    and item.path not in needed
                    and item.stat(follow_symlinks=False).st_ctime < oldest
                ):
                    yield item.path
