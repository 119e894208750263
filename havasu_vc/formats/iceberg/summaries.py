"""The line of a manifest list that sums a manifest up, so that readers can skip it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from havasu_vc.formats.havasu.layout import PartitionSpec
from havasu_vc.formats.iceberg.manifests import partition_types
from havasu_vc.formats.iceberg.single_values import to_plain, to_single_value
from havasu_vc.formats.iceberg.values import (
    FieldSummary,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Primitive, Type

__all__ = ["manifest_file_of", "summaries_of"]


def manifest_file_of(
    entries: Sequence[ManifestEntry],
    path: str,
    length: int,
    *,
    schema: Schema,
    spec: PartitionSpec,
    content: ManifestContent = ManifestContent.DATA,
    sequence_number: int,
    snapshot_id: int,
) -> ManifestFile:
    """Return the line for a manifest of these entries, written for a snapshot."""
    counts = dict.fromkeys(Status, 0)
    rows = dict.fromkeys(Status, 0)
    least = sequence_number
    for entry in entries:
        counts[entry.status] += 1
        rows[entry.status] += entry.file.record_count
        if entry.status is not Status.DELETED and entry.sequence_number is not None:
            least = min(least, entry.sequence_number)
    return ManifestFile(
        path,
        length,
        spec.spec_id,
        content,
        sequence_number,
        least,
        snapshot_id,
        counts[Status.ADDED],
        counts[Status.EXISTING],
        counts[Status.DELETED],
        rows[Status.ADDED],
        rows[Status.EXISTING],
        rows[Status.DELETED],
        summaries_of(entries, schema, spec),
    )


def summaries_of(
    entries: Sequence[ManifestEntry], schema: Schema, spec: PartitionSpec
) -> tuple[FieldSummary, ...]:
    """Return what the partitions of entries have in common, by partition field."""
    return tuple(
        _summary([entry.file.partition.get(number) for entry in entries], type_)
        for number, _, type_ in partition_types(spec, schema)
    )


def _summary(values: list[Any], type_: Type) -> FieldSummary:
    numbers = type_ in (Primitive.FLOAT, Primitive.DOUBLE)
    known = [value for value in values if value is not None]
    sound = [value for value in known if not (numbers and math.isnan(value))]
    return FieldSummary(
        len(known) < len(values),
        len(sound) < len(known) if numbers else False,
        to_single_value(min(sound, key=lambda v: _order(v, type_)), type_) if sound else None,
        to_single_value(max(sound, key=lambda v: _order(v, type_)), type_) if sound else None,
    )


def _order(value: Any, type_: Type) -> Any:
    """Return what sorts values as Iceberg does; UUIDs by their bytes."""
    plain = to_plain(value, type_)
    return plain.encode("utf-8") if isinstance(plain, str) else plain
