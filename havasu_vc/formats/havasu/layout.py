"""`meta/partition.json` and `meta/sort-order.json`: how rows are dealt out and ordered.

Both are Iceberg's JSON. Today's writer makes unpartitioned files sorted by key or
along a Hilbert curve; the documents record what is so, and what a user asked for.

    {"spec-id": 0, "fields": []}
    {"order-id": 1, "fields": [
     {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}]}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from havasu_vc.formats.havasu.json_text import expect, format_json, parse_json

__all__ = [
    "PartitionField",
    "PartitionSpec",
    "SortField",
    "SortOrder",
    "format_partition",
    "format_sort_order",
    "parse_partition",
    "parse_sort_order",
]


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One value that all rows of a file share."""

    source_id: int
    """The column it is made from."""
    field_id: int
    """Its own id, 1000 or more."""
    name: str
    """Its name in paths and queries."""
    transform: str
    """Iceberg's, such as `identity` or `bucket[16]`."""


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How rows are dealt out to files."""

    fields: tuple[PartitionField, ...] = ()
    """None when files hold any rows."""
    spec_id: int = 0
    """Counts up with each change."""


@dataclass(frozen=True, slots=True)
class SortField:
    """One value that rows are ordered by."""

    source_id: int
    """The column it is made from."""
    transform: str = "identity"
    """Iceberg's, or `hilbert` for a geometry column."""
    direction: str = "asc"
    """`asc` or `desc`."""
    null_order: str = "nulls-first"
    """`nulls-first` or `nulls-last`."""


@dataclass(frozen=True, slots=True)
class SortOrder:
    """How rows are ordered within a file. Order 0 is none."""

    fields: tuple[SortField, ...] = ()
    """Most significant first."""
    order_id: int = 0
    """Counts up with each change."""

    @property
    def is_hilbert(self) -> bool:
        """Whether rows lie along a Hilbert curve."""
        return any(field.transform == "hilbert" for field in self.fields)


def format_partition(spec: PartitionSpec) -> bytes:
    """Return the document of a partition spec."""
    fields = [
        {
            "name": field.name,
            "transform": field.transform,
            "source-id": field.source_id,
            "field-id": field.field_id,
        }
        for field in spec.fields
    ]
    return format_json({"spec-id": spec.spec_id, "fields": fields})


def parse_partition(data: bytes, where: str) -> PartitionSpec:
    """Return the partition spec of a document."""
    value, fields = _document(data, where)
    return PartitionSpec(
        tuple(
            PartitionField(
                expect(field.get("source-id"), int, "source-id", where),
                expect(field.get("field-id"), int, "field-id", where),
                expect(field.get("name"), str, "name", where),
                expect(field.get("transform"), str, "transform", where),
            )
            for field in fields
        ),
        expect(value.get("spec-id"), int, "spec-id", where),
    )


def format_sort_order(order: SortOrder) -> bytes:
    """Return the document of a sort order."""
    fields = [
        {
            "transform": field.transform,
            "source-id": field.source_id,
            "direction": field.direction,
            "null-order": field.null_order,
        }
        for field in order.fields
    ]
    return format_json({"order-id": order.order_id, "fields": fields})


def parse_sort_order(data: bytes, where: str) -> SortOrder:
    """Return the sort order of a document."""
    value, fields = _document(data, where)
    return SortOrder(
        tuple(
            SortField(
                expect(field.get("source-id"), int, "source-id", where),
                expect(field.get("transform"), str, "transform", where),
                expect(field.get("direction"), str, "direction", where),
                expect(field.get("null-order"), str, "null-order", where),
            )
            for field in fields
        ),
        expect(value.get("order-id"), int, "order-id", where),
    )


def _document(data: bytes, where: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    value = expect(parse_json(data, where), dict, "the document", where)
    fields = expect(value.get("fields"), list, "fields", where)
    return value, [expect(field, dict, "a field", where) for field in fields]
