"""Snapshots, references and logs of table metadata as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.json_text import expect
from havasu_vc.formats.iceberg.values import LogEntry, MetadataLogEntry, Reference, Snapshot

__all__ = [
    "log_from_json",
    "log_to_json",
    "metadata_log_from_json",
    "metadata_log_to_json",
    "number",
    "reference_from_json",
    "reference_to_json",
    "snapshot_from_json",
    "snapshot_to_json",
    "text_map",
]

OPERATIONS = ("append", "replace", "overwrite", "delete")
"""Operations that a snapshot's summary may name."""

_LARGEST = (1 << 63) - 1
_SNAPSHOT = frozenset(
    (
        "snapshot-id",
        "parent-snapshot-id",
        "sequence-number",
        "timestamp-ms",
        "manifest-list",
        "manifests",
        "summary",
        "schema-id",
    )
)


def number(value: Mapping[str, Any], name: str, where: str, *, default: int | None = None) -> int:
    """Return a number of 64 bits that an object has."""
    found = value.get(name)
    if found is None and default is not None:
        return default
    whole: int = expect(found, int, name, where)
    if not -_LARGEST - 1 <= whole <= _LARGEST:
        raise CorruptDatasetError(where, f"{name} has more than 64 bits")
    return whole


def _maybe(value: Mapping[str, Any], name: str, where: str) -> int | None:
    return None if value.get(name) is None else number(value, name, where)


def text_map(value: Any, what: str, where: str) -> dict[str, str]:
    """Return an object whose values are text."""
    found = {} if value is None else expect(value, dict, what, where)
    return {name: expect(item, str, f"{what}: {name!r}", where) for name, item in found.items()}


def snapshot_to_json(snapshot: Snapshot, second: bool) -> dict[str, Any]:
    """Return a snapshot as JSON values; `second` for version 2."""
    if second and snapshot.summary.get("operation") not in OPERATIONS:
        raise ValueError(f"snapshot {snapshot.snapshot_id} does not say which operation it is")
    if second and snapshot.manifest_list is None:
        raise ValueError(f"snapshot {snapshot.snapshot_id} has no manifest list")
    listed = snapshot.manifest_list is not None
    value: dict[str, Any] = {
        "snapshot-id": snapshot.snapshot_id,
        "parent-snapshot-id": snapshot.parent_id,
        "sequence-number": snapshot.sequence_number if second else None,
        "timestamp-ms": snapshot.timestamp_ms,
        "manifest-list": snapshot.manifest_list,
        "manifests": None if listed else list(snapshot.manifests),
        "summary": dict(snapshot.summary) or None,
        "schema-id": snapshot.schema_id,
    }
    others = {name: item for name, item in snapshot.others.items() if name not in _SNAPSHOT}
    return {name: item for name, item in value.items() if item is not None} | others


def snapshot_from_json(value: Any, where: str) -> Snapshot:
    """Return the snapshot of JSON values."""
    expect(value, dict, "a snapshot", where)
    manifests = value.get("manifests")
    listed = expect(value.get("manifest-list"), (str, type(None)), "manifest-list", where)
    if listed is None and manifests is None:
        raise CorruptDatasetError(where, "a snapshot has no manifest list")
    return Snapshot(
        number(value, "snapshot-id", where),
        number(value, "sequence-number", where, default=0),
        number(value, "timestamp-ms", where),
        listed,
        text_map(value.get("summary"), "summary", where),
        _maybe(value, "parent-snapshot-id", where),
        _maybe(value, "schema-id", where),
        tuple(
            expect(item, str, "a manifest", where)
            for item in expect(manifests or [], list, "manifests", where)
        ),
        {name: item for name, item in value.items() if name not in _SNAPSHOT},
    )


def reference_to_json(reference: Reference) -> dict[str, Any]:
    """Return a branch or tag as JSON values."""
    value: dict[str, Any] = {"snapshot-id": reference.snapshot_id, "type": reference.kind}
    kept = {
        "min-snapshots-to-keep": reference.min_snapshots_to_keep,
        "max-snapshot-age-ms": reference.max_snapshot_age_ms,
        "max-ref-age-ms": reference.max_ref_age_ms,
    }
    return value | {name: item for name, item in kept.items() if item is not None}


def reference_from_json(value: Any, name: str, where: str) -> Reference:
    """Return the branch or tag of JSON values."""
    expect(value, dict, f"reference {name!r}", where)
    kind = expect(value.get("type"), str, f"the type of {name!r}", where).lower()
    if kind not in ("branch", "tag"):
        raise CorruptDatasetError(where, f"{name!r} is neither a branch nor a tag")
    return Reference(
        number(value, "snapshot-id", where),
        kind,
        _maybe(value, "min-snapshots-to-keep", where),
        _maybe(value, "max-snapshot-age-ms", where),
        _maybe(value, "max-ref-age-ms", where),
    )


def log_to_json(entry: LogEntry) -> dict[str, Any]:
    """Return a line of the snapshot log as JSON values."""
    return {"timestamp-ms": entry.timestamp_ms, "snapshot-id": entry.snapshot_id}


def log_from_json(value: Any, where: str) -> LogEntry:
    """Return the line of the snapshot log of JSON values."""
    expect(value, dict, "a line of the snapshot log", where)
    return LogEntry(number(value, "timestamp-ms", where), number(value, "snapshot-id", where))


def metadata_log_to_json(entry: MetadataLogEntry) -> dict[str, Any]:
    """Return a line of the metadata log as JSON values."""
    return {"timestamp-ms": entry.timestamp_ms, "metadata-file": entry.metadata_file}


def metadata_log_from_json(value: Any, where: str) -> MetadataLogEntry:
    """Return the line of the metadata log of JSON values."""
    expect(value, dict, "a line of the metadata log", where)
    file = expect(value.get("metadata-file"), str, "metadata-file", where)
    return MetadataLogEntry(number(value, "timestamp-ms", where), file)
