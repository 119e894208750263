"""Partitions: whether two files lie in one, and what a manifest list says of those of many."""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Iterable
from typing import Any

from havasu_vc.formats.havasu.layout import PartitionSpec
from havasu_vc.formats.iceberg.manifests import partition_types
from havasu_vc.formats.iceberg.single_values import to_single_value
from havasu_vc.formats.iceberg.values import DataFile, FieldSummary
from havasu_vc.model.schema import Schema

__all__ = ["divides", "partition_key", "summarise"]


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


def summarise(
    files: Iterable[DataFile], spec: PartitionSpec, schema: Schema
) -> tuple[FieldSummary, ...]:
    """Return what a manifest list says of the partitions of some files, by field."""
    types = partition_types(spec, schema)
    rows = {partition_key(file): file.partition for file in files}.values()
    summaries = []
    for number, _, type_ in types:
        values = [row.get(number) for row in rows]
        there = [value for value in values if value is not None]
        numbers = [v for v in there if not (isinstance(v, float) and math.isnan(v))]
        summaries.append(
            FieldSummary(
                len(there) < len(values),
                len(numbers) < len(there),
                to_single_value(min(numbers), type_) if numbers else None,
                to_single_value(max(numbers), type_) if numbers else None,
            )
        )
    return tuple(summaries)
