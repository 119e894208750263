"""`dataset.json`: what a dataset is, from the day it was made.

    {"format": 2, "table-uuid": "…", "markers": "hash32", "havasu.format-version": "0.1.0",
     "last-column-id": 9}

The table-uuid is drawn once and stays through renames and moves. `last-column-id` is what it
was on that day; columns that came later tell of themselves. Other properties are kept. It
does not change, so that git never has to merge it.

`meta/partition.json` and `meta/sort-order.json`: how rows are dealt out and ordered.

Both are Iceberg's JSON. Today's writer makes unpartitioned files sorted by key or
along a Hilbert curve; the documents record what is so, and what a user asked for.

    {"spec-id": 0, "fields": []}
    {"order-id": 1, "fields": [
     {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from havasu_vc.errors import UnsupportedVersionError
from havasu_vc.formats.havasu.json_text import expect, format_json, parse_json
from havasu_vc.records import dataclass

__all__ = [
    "DATASET",
    "FORMAT",
    "HAVASU_VERSION",
    "Digest",
    "PartitionField",
    "PartitionSpec",
    "Properties",
    "Snapshot",
    "SortField",
    "SortOrder",
    "format_partition",
    "format_properties",
    "format_sort_order",
    "parse_partition",
    "parse_properties",
    "parse_sort_order",
]

HAVASU_VERSION = "0.1.0"
"""The version of the Havasu specification that tables follow."""

DATASET = "dataset.json"
"""Where the properties are, below the dataset's folder."""
_MARKERS = "hash32"
_OWN = ("format", "table-uuid", "markers", "havasu.format-version", "last-column-id")


@dataclass(frozen=True, slots=True)
class Properties:
    """Facts of a dataset."""

    table_uuid: str
    """Drawn once; the dataset's identity."""
    last_column_id: int
    """No column had a higher id when the dataset was made."""
    others: Mapping[str, str] = field(default_factory=dict)
    """All else that is recorded."""


def format_properties(properties: Properties) -> bytes:
    """Return the document."""
    return format_json(
        {
            "format": FORMAT,
            "table-uuid": properties.table_uuid,
            "markers": _MARKERS,
            "havasu.format-version": HAVASU_VERSION,
            "last-column-id": properties.last_column_id,
            **dict(sorted(properties.others.items())),
        }
    )


def parse_properties(data: bytes, where: str) -> Properties:
    """Return the properties of a document."""
    value = expect(parse_json(data, where), dict, "the properties", where)
    number = expect(value.get("format"), int, "format", where)
    markers = expect(value.get("markers"), str, "markers", where)
    if number != FORMAT or markers != _MARKERS:
        raise UnsupportedVersionError(
            f"{where}: dataset format {number} ({markers}) is not known to this version",
            hints=("upgrade havasu-vc",),
        )
    version = expect(value.get("havasu.format-version"), str, "havasu.format-version", where)
    if version != HAVASU_VERSION:
        raise UnsupportedVersionError(
            f"{where}: Havasu tables of version {version!r} are not known to this version",
            hints=("upgrade havasu-vc",),
        )
    return Properties(
        expect(value.get("table-uuid"), str, "table-uuid", where),
        expect(value.get("last-column-id"), int, "last-column-id", where),
        {
            name: expect(item, str, f"property {name!r}", where)
            for name, item in value.items()
            if name not in _OWN
        },
    )


# What the deltas of a dataset add up to.

FORMAT = 2
"""The version of the dataset format that this code reads and writes."""

Digest = tuple[int, int]
"""Two lanes of 64 bits."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The sums of a dataset."""

    rows: int
    """Live rows."""
    deleted_rows: int
    """Rows in data files that delete files take away."""
    size: int
    """Bytes of all files."""
    digests: Mapping[int, Digest] = field(default_factory=dict)
    """By field id: the sum of the hashes of its live cells."""


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
