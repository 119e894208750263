"""Manifest lists: which manifests a snapshot has, as Avro bytes and as values.

Equal values give equal bytes. A list of version 1 is read with content data and sequence
numbers 0, as the specification has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.iceberg.avro import encode_bytes, encode_long, encode_text, format_container
from havasu_vc.formats.iceberg.manifest_reading import Record, read_container, read_records
from havasu_vc.formats.iceberg.manifest_schemas import manifest_list_schema
from havasu_vc.formats.iceberg.values import FieldSummary, ManifestContent, ManifestFile

__all__ = ["format_manifest_list", "parse_manifest_list"]

_NULL = encode_long(0)
_THERE = encode_long(1)


def format_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    snapshot_id: int,
    parent_id: int | None = None,
    sequence_number: int = 0,
    format_version: int = 2,
) -> bytes:
    """Return the bytes of a snapshot's manifest list."""
    if format_version not in (1, 2, 3):
        raise ValueError(f"manifest lists of version {format_version} are not written")
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(sequence_number),
        "format-version": str(format_version),
    }
    if format_version == 1:
        del metadata["sequence-number"]
    lines = (_encode(manifest, format_version) for manifest in manifests)
    return format_container(manifest_list_schema(format_version), metadata, lines)


def _encode(manifest: ManifestFile, version: int) -> bytes:
    second = version > 1
    parts = [
        encode_text(manifest.path),
        encode_long(manifest.length),
        encode_long(manifest.spec_id),
    ]
    if second:
        parts += (
            encode_long(manifest.content),
            encode_long(manifest.sequence_number),
            encode_long(manifest.min_sequence_number),
        )
    parts.append(encode_long(manifest.added_snapshot_id))
    counts = (
        manifest.added_files,
        manifest.existing_files,
        manifest.deleted_files,
        manifest.added_rows,
        manifest.existing_rows,
        manifest.deleted_rows,
    )
    for count in counts:
        if second:
            parts.append(encode_long(count or 0))
        else:
            parts.append(_NULL if count is None else _THERE + encode_long(count))
    parts.append(_encode_summaries(manifest.partitions))
    parts.append(_optional_bytes(manifest.key_metadata))
    if version > 2:
        first = manifest.first_row_id
        parts.append(_NULL if first is None else _THERE + encode_long(first))
    return b"".join(parts)


def _encode_summaries(summaries: tuple[FieldSummary, ...] | None) -> bytes:
    if summaries is None:
        return _NULL
    parts = [_THERE]
    if summaries:
        parts.append(encode_long(len(summaries)))
    for summary in summaries:
        nan = summary.contains_nan
        parts += (
            b"\x01" if summary.contains_null else b"\x00",
            _NULL if nan is None else _THERE + (b"\x01" if nan else b"\x00"),
            _optional_bytes(summary.lower),
            _optional_bytes(summary.upper),
        )
    parts.append(encode_long(0))
    return b"".join(parts)


def _optional_bytes(value: bytes | None) -> bytes:
    return _NULL if value is None else _THERE + encode_bytes(value)


def parse_manifest_list(data: bytes, where: str) -> tuple[ManifestFile, ...]:
    """Return the lines of a manifest list."""
    container = read_container(data, where)
    return tuple(_manifest_file(record, where) for record in read_records(container, where))


def _manifest_file(record: Record, where: str) -> ManifestFile:
    get = record.get
    path, length = get(500), get(501)
    if path is None or length is None or length < 0:
        raise CorruptDatasetError(where, "a manifest has no path or no length")
    content = get(517) or 0
    if content not in (0, 1):
        raise CorruptDatasetError(where, f"{path} has content {content}, which is nothing known")
    added, existing, deleted = (_count(record, number, where) for number in (504, 505, 506))
    rows_added, rows_existing, rows_deleted = (
        _count(record, number, where) for number in (512, 513, 514)
    )
    summaries = get(507)
    return ManifestFile(
        path,
        length,
        get(502) or 0,
        ManifestContent(content),
        get(515) or 0,
        get(516) or 0,
        get(503) or 0,
        added,
        existing,
        deleted,
        rows_added,
        rows_existing,
        rows_deleted,
        None if summaries is None else tuple(_summary(item, where) for item in summaries),
        get(519),
        get(520),
    )


def _count(record: Record, number: int, where: str) -> int | None:
    count: int | None = record.get(number)
    if count is not None and count < 0:
        raise CorruptDatasetError(where, "a count is negative")
    return count


def _summary(record: Mapping[int | str, Any], where: str) -> FieldSummary:
    null = record.get(509)
    if null is None:
        raise CorruptDatasetError(where, "a partition summary says nothing of nulls")
    return FieldSummary(null, record.get(518), record.get(510), record.get(511))
