"""`meta/partition.json` and `meta/sort-order.json`: how rows are dealt out and ordered.

Both are Iceberg's JSON. Today's writer makes unpartitioned files sorted by key or
along a Hilbert curve; the documents record what is so, and what a user asked for.

    {"spec-id": 0, "fields": []}
    {"order-id": 1, "fields": [
     {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from havasu_vc.formats.havasu.json_text import expect, format_json, parse_json
from havasu_vc.records import dataclass

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


_PARTITION = {"name": str, "transform": str, "source-id": int, "field-id": int}
_SORT = {"transform": str, "source-id": int, "direction": str, "null-order": str}
"""The parts of a field in each document, in order, and their types."""


def format_partition(spec: PartitionSpec) -> bytes:
    """Return the document of a partition spec."""
    return _format("spec-id", spec.spec_id, spec.fields, _PARTITION)


def parse_partition(data: bytes, where: str) -> PartitionSpec:
    """Return the partition spec of a document."""
    number, fields = _parse(data, where, "spec-id", _PARTITION)
    return PartitionSpec(tuple(PartitionField(**field) for field in fields), number)


def format_sort_order(order: SortOrder) -> bytes:
    """Return the document of a sort order."""
    return _format("order-id", order.order_id, order.fields, _SORT)


def parse_sort_order(data: bytes, where: str) -> SortOrder:
    """Return the sort order of a document."""
    number, fields = _parse(data, where, "order-id", _SORT)
    return SortOrder(tuple(SortField(**field) for field in fields), number)


def _format(
    label: str,
    number: int,
    fields: Sequence[PartitionField] | Sequence[SortField],
    said: Mapping[str, type],
) -> bytes:
    values = [{name: getattr(field, _attribute(name)) for name in said} for field in fields]
    return format_json({label: number, "fields": values})


def _parse(
    data: bytes, where: str, label: str, said: Mapping[str, type]
) -> tuple[int, list[dict[str, Any]]]:
    value = expect(parse_json(data, where), dict, "the document", where)
    found = expect(value.get("fields"), list, "fields", where)
    fields = [expect(field, dict, "a field", where) for field in found]
    parsed = [
        {
            _attribute(name): expect(field.get(name), type_, name, where)
            for name, type_ in said.items()
        }
        for field in fields
    ]
    return expect(value.get(label), int, label, where), parsed


def _attribute(name: str) -> str:
    return name.replace("-", "_")
