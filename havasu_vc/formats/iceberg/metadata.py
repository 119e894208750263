"""`vN.metadata.json` as bytes and as a value.

What is written depends on the flavour in rasters alone. Field properties are mirrored in
table properties, and put back on reading where another writer dropped them, so a caller
sees neither the mirror nor the loss (`havasu_version` is None when something was lost).
Versions 1 and 2 are read and written. Of version 3 are read: geometries, which become
columns of WKB; times with nanoseconds, which become ones with microseconds; defaults,
which stand beside the schemas. Keys that are not known are kept; `.gz.metadata.json` is
read too.

Our Hilbert orders have no counterpart in Iceberg and are written as no order.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from havasu_vc.errors import CorruptDatasetError, UnsupportedVersionError
from havasu_vc.formats.havasu.json_text import MOST_BYTES, expect, format_json, parse_json
from havasu_vc.formats.havasu.properties import HAVASU_VERSION, PartitionSpec, SortField, SortOrder
from havasu_vc.formats.iceberg.manifests import spec_fields_from_json, spec_fields_to_json
from havasu_vc.formats.iceberg.native_geometry import (
    NativeTypes,
    raster_ids,
    with_native_types,
    with_raster_ids,
    with_type_texts,
)
from havasu_vc.formats.iceberg.schema import (
    MIRROR,
    mirrored_properties,
    restored,
    schema_from_json,
    schema_to_json,
)
from havasu_vc.formats.iceberg.single_values import Defaults, default_values, split_defaults
from havasu_vc.formats.iceberg.values import (
    MAIN,
    Flavour,
    Reference,
    Snapshot,
    TableMetadata,
    log_from_json,
    log_to_json,
    metadata_log_from_json,
    metadata_log_to_json,
    number,
    reference_from_json,
    reference_to_json,
    snapshot_from_json,
    snapshot_to_json,
    text_map,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import descendants

__all__ = [
    "check",
    "corner_of",
    "format_metadata",
    "format_metadata_3",
    "parse_corner",
    "parse_metadata",
    "raised",
]


HAVASU_KEY = "havasu.format-version"
_KNOWN = frozenset(
    (
        "format-version",
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schema",
        "schemas",
        "current-schema-id",
        "partition-spec",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
        "properties",
        "current-snapshot-id",
        "refs",
        "snapshots",
        "snapshot-log",
        "metadata-log",
        "next-row-id",
        HAVASU_KEY,
    )
)
_SECOND_REQUIRES = (
    "table-uuid",
    "location",
    "last-sequence-number",
    "last-updated-ms",
    "last-column-id",
    "schemas",
    "current-schema-id",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
)


def format_metadata(metadata: TableMetadata, *, flavour: Flavour = Flavour.HAVASU) -> bytes:
    """Return the bytes of a table's metadata."""
    return format_json(_document(metadata, flavour))


def _document(metadata: TableMetadata, flavour: Flavour) -> dict[str, Any]:
    if metadata.format_version not in (1, 2):
        raise UnsupportedVersionError(
            f"tables of Iceberg {metadata.format_version} are not written",
            hints=("Havasu tables are of Iceberg 1 or 2; version 3 has geometries of its own",),
        )
    if flavour is not Flavour.HAVASU:
        metadata = with_raster_ids(metadata)
    metadata = raised(metadata)
    check(metadata)
    second = metadata.format_version > 1
    current = metadata.current_snapshot_id
    properties = {name: item for name, item in metadata.properties.items() if name != MIRROR}
    properties |= mirrored_properties(metadata.schemas, metadata.current_schema_id)
    value: dict[str, Any] = {
        "format-version": metadata.format_version,
        HAVASU_KEY: metadata.havasu_version or HAVASU_VERSION,
        "table-uuid": metadata.table_uuid,
        "location": metadata.location,
        "last-sequence-number": metadata.last_sequence_number,
        "last-updated-ms": metadata.last_updated_ms,
        "last-column-id": metadata.last_column_id,
        **_layout_to_json(metadata, flavour),
        "properties": dict(sorted(properties.items())),
        "current-snapshot-id": -1 if current is None else current,
        "refs": _references(metadata),
        "snapshots": [snapshot_to_json(item, second) for item in metadata.snapshots.values()],
        "snapshot-log": [log_to_json(item) for item in metadata.snapshot_log],
        "metadata-log": [metadata_log_to_json(item) for item in metadata.metadata_log],
    }
    if not second:
        del value["last-sequence-number"]
    if not metadata.table_uuid:
        del value["table-uuid"]
    others = {name: item for name, item in metadata.others.items() if name not in _KNOWN}
    return {**value, **others}


def _references(metadata: TableMetadata) -> dict[str, Any]:
    references = dict(metadata.references)
    if metadata.current_snapshot_id is not None:
        references.setdefault(MAIN, Reference(metadata.current_snapshot_id))
    return {name: reference_to_json(item) for name, item in references.items()}


def _layout_to_json(metadata: TableMetadata, flavour: Flavour) -> dict[str, Any]:
    """Return schemas, partition specs and sort orders."""
    schemas = {
        schema_id: schema_to_json(schema, schema_id=schema_id, flavour=flavour)
        for schema_id, schema in metadata.schemas.items()
    }
    specs = metadata.partition_specs
    orders = {
        order_id: order for order_id, order in metadata.sort_orders.items() if not order.is_hilbert
    }
    default_order = metadata.default_sort_order_id
    if default_order not in orders:
        default_order = 0
        orders.setdefault(0, SortOrder())
    first: dict[str, Any] = {}
    if metadata.format_version == 1:
        first = {
            "schema": schemas[metadata.current_schema_id],
            "partition-spec": spec_fields_to_json(specs[metadata.default_spec_id]),
        }
    return {
        **first,
        "current-schema-id": metadata.current_schema_id,
        "schemas": list(schemas.values()),
        "default-spec-id": metadata.default_spec_id,
        "partition-specs": [
            {"spec-id": spec_id, "fields": spec_fields_to_json(spec)}
            for spec_id, spec in specs.items()
        ],
        "last-partition-id": metadata.last_partition_id,
        "default-sort-order-id": default_order,
        "sort-orders": [_order_to_json(order_id, order) for order_id, order in orders.items()],
    }


def _order_to_json(order_id: int, order: SortOrder) -> dict[str, Any]:
    fields = [
        {
            "transform": part.transform,
            "source-id": part.source_id,
            "direction": part.direction,
            "null-order": part.null_order,
        }
        for part in order.fields
    ]
    return {"order-id": order_id, "fields": fields}


def parse_metadata(data: bytes, where: str) -> TableMetadata:
    """Return the metadata of bytes; `where` names the file in errors."""
    data = _without_old_lines(_unpacked(data, where))
    value = expect(parse_json(data, where), dict, "the metadata", where)
    version = expect(value.get("format-version"), int, "format-version", where)
    if version not in (1, 2, 3):
        raise UnsupportedVersionError(
            f"{where}: tables of Iceberg {version} are not known to this version",
            hints=("upgrade havasu-vc",),
        )
    missing = [name for name in _SECOND_REQUIRES if value.get(name) is None]
    if version > 1 and missing:
        raise CorruptDatasetError(where, f"it has no {missing[0]}")
    havasu = expect(value.get(HAVASU_KEY), (str, type(None)), HAVASU_KEY, where)
    if havasu not in (None, HAVASU_VERSION):
        raise UnsupportedVersionError(
            f"{where}: Havasu tables of version {havasu!r} are not known to this version",
            hints=("upgrade havasu-vc",),
        )
    try:
        metadata = _metadata(value, version, havasu, where)
        check(metadata)
    except (CorruptDatasetError, UnsupportedVersionError):
        raise
    except ValueError as error:
        raise CorruptDatasetError(where, str(error)) from error
    return metadata


def _refuse_havasu_three(schemas: Any, where: str) -> None:
    """Refuse Havasu columns in version 3, at any depth."""
    if isinstance(schemas, list):
        for item in schemas:
            _refuse_havasu_three(item, where)
    elif isinstance(schemas, dict):
        if "havasu.geometry-encoding" in schemas or "havasu.raster-encoding" in schemas:
            raise UnsupportedVersionError(
                f"{where}: a table of Iceberg 3 has Havasu columns, "
                "which only versions 1 and 2 can",
                hints=("check the table out again to get it back as version 2",),
            )
        for item in schemas.values():
            _refuse_havasu_three(item, where)


_MOST_TIMES = 50
_FREE_BYTES = 16 * 1024 * 1024
_PIECE = 1024 * 1024
"""Versions of schemas and snapshots are much alike, but not as alike as what packs better."""


def _unpacked(data: bytes, where: str) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    unpacker = zlib.decompressobj(31)
    most = min(MOST_BYTES, _MOST_TIMES * len(data) + _FREE_BYTES)
    unpacked, left = bytearray(), data
    try:
        while left and not unpacker.eof and len(unpacked) <= most:
            unpacked += unpacker.decompress(left, _PIECE)
            left = unpacker.unconsumed_tail
    except zlib.error as error:
        raise CorruptDatasetError(where, f"it cannot be unpacked ({error})") from error
    if len(unpacked) > most:
        raise CorruptDatasetError(where, "it unpacks to more than a file of its size should")
    if not unpacker.eof:
        raise CorruptDatasetError(where, "it ends too early")
    return bytes(unpacked)


_MOST_LINES = 100_000
"""Lines of a log that are kept; writers keep a hundred unless they are told otherwise."""
_LOG = re.compile(rb'"(?:metadata|snapshot)-log"\s*+:\s*+\[')
_LINE = re.compile(rb'\s*+\{(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+\}\s*+,', re.DOTALL)


def _without_old_lines(data: bytes) -> bytes:
    """Return a document whose logs have their last lines alone.

    Nobody needs the others, and as values of Python they are eight times as large as in text.
    """
    at = 0
    while len(data) > _MOST_LINES and (found := _LOG.search(data, at)):
        first = at = found.end()
        ends: deque[int] = deque(maxlen=_MOST_LINES)
        while line := _LINE.match(data, at):
            at = line.end()
            ends.append(at)
        if len(ends) == _MOST_LINES:  # the last line has no comma after it
            data = data[:first] + data[ends[0] :]
            at -= ends[0] - first
    return data


def _metadata(value: dict[str, Any], version: int, havasu: str | None, where: str) -> TableMetadata:
    properties = text_map(value.get("properties"), "properties", where)
    schemas, said = _schemas(value, where)
    if havasu is None and version < 3:
        schemas = restored(schemas, properties, where)
    current_schema = number(value, "current-schema-id", where, default=next(iter(schemas), 0))
    specs = _specs(value, where)
    orders = _orders(value, where)
    snapshots = _snapshots(value, where)
    current: int | None = number(value, "current-snapshot-id", where, default=-1)
    current = None if current == -1 else current
    references = {
        name: reference_from_json(item, name, where)
        for name, item in _section(value, "refs", dict, where).items()
    }
    if current is not None:
        references.setdefault(MAIN, Reference(current))
    known_fields = [part.field_id for spec in specs.values() for part in spec.fields]
    return TableMetadata(
        expect(value.get("table-uuid") or "", str, "table-uuid", where),
        expect(value.get("location"), str, "location", where),
        number(value, "last-updated-ms", where),
        number(value, "last-column-id", where),
        schemas,
        current_schema,
        specs,
        number(value, "default-spec-id", where, default=next(iter(specs), 0)),
        orders,
        number(value, "default-sort-order-id", where, default=next(iter(orders), 0)),
        number(value, "last-partition-id", where, default=max(known_fields, default=999)),
        version,
        number(value, "last-sequence-number", where, default=0),
        current,
        snapshots,
        references,
        tuple(log_from_json(item, where) for item in _section(value, "snapshot-log", list, where)),
        tuple(
            metadata_log_from_json(item, where)
            for item in _section(value, "metadata-log", list, where)
        ),
        {name: item for name, item in properties.items() if name != MIRROR},
        havasu,
        {name: item for name, item in value.items() if name not in _KNOWN},
        *_defaults(schemas, said, current_schema, where),
        number(value, "next-row-id", where, default=0),
    )


def _section(value: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    found = value.get(name)
    return kind() if found is None else expect(found, kind, name, where)


def _numbered(items: list[Any], key: str, what: str, where: str) -> dict[int, Any]:
    """Return JSON objects by the id that each has."""
    found: dict[int, Any] = {}
    for item in items:
        expect(item, dict, what, where)
        item_id = number(item, key, where, default=0)
        if item_id in found:
            raise CorruptDatasetError(where, f"{key} {item_id} stands twice")
        found[item_id] = item
    return found


def _schemas(value: dict[str, Any], where: str) -> tuple[dict[int, Schema], dict[int, Defaults]]:
    """Return the schemas, and what each says of defaults."""
    items = _section(value, "schemas", list, where)
    if not items and "schema" in value:
        items = [value["schema"]]
    if value["format-version"] > 2:
        _refuse_havasu_three(items, where)
    schemas: dict[int, Schema] = {}
    defaults: dict[int, Defaults] = {}
    for schema_id, item in _numbered(items, "schema-id", "a schema", where).items():
        if value["format-version"] > 2:
            item, defaults[schema_id] = split_defaults(item)
            item = with_native_types(item)
        schemas[schema_id] = schema_from_json(item, where)
    return schemas, defaults


def _defaults(
    schemas: Mapping[int, Schema], said: Mapping[int, Defaults], current: int, where: str
) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the initial defaults of all schemas, which never change, and today's others."""
    initial: dict[int, Any] = {}
    for schema_id, found in said.items():
        values = default_values(schemas[schema_id].fields, found.initial, where)
        for field_id, item in values.items():
            if initial.setdefault(field_id, item) != item:
                raise CorruptDatasetError(
                    where, f"the initial default of field {field_id} was changed"
                )
    if current not in said:
        return initial, {}
    return initial, default_values(schemas[current].fields, said[current].write, where)


def _specs(value: dict[str, Any], where: str) -> dict[int, PartitionSpec]:
    items = _section(value, "partition-specs", list, where)
    if not items:
        items = [{"spec-id": 0, "fields": value.get("partition-spec") or []}]
    return {
        spec_id: PartitionSpec(spec_fields_from_json(item.get("fields"), where), spec_id)
        for spec_id, item in _numbered(items, "spec-id", "a partition spec", where).items()
    }


def _orders(value: dict[str, Any], where: str) -> dict[int, SortOrder]:
    items = _section(value, "sort-orders", list, where) or [{"order-id": 0, "fields": []}]
    return {
        order_id: SortOrder(
            tuple(
                _sort_field(part, where)
                for part in expect(item.get("fields"), list, "sort fields", where)
            ),
            order_id,
        )
        for order_id, item in _numbered(items, "order-id", "a sort order", where).items()
    }


def _sort_field(value: Any, where: str) -> SortField:
    expect(value, dict, "a sort field", where)
    direction = expect(value.get("direction"), str, "direction", where).lower()
    nulls = expect(value.get("null-order"), str, "null-order", where).lower()
    if direction not in ("asc", "desc") or nulls not in ("nulls-first", "nulls-last"):
        raise CorruptDatasetError(where, "a sort field has no known direction or null order")
    transform = expect(value.get("transform"), str, "transform", where)
    return SortField(number(value, "source-id", where), transform, direction, nulls)


def _snapshots(value: dict[str, Any], where: str) -> dict[int, Snapshot]:
    found: dict[int, Snapshot] = {}
    for item in _section(value, "snapshots", list, where):
        snapshot = snapshot_from_json(item, where)
        if snapshot.snapshot_id in found:
            raise CorruptDatasetError(where, f"snapshot {snapshot.snapshot_id} stands twice")
        found[snapshot.snapshot_id] = snapshot
    return found


# What must hold between the parts of table metadata, whoever wrote them.


def check(metadata: TableMetadata) -> None:
    """Raise ValueError where one part names what another does not have."""
    if metadata.current_schema_id not in metadata.schemas:
        raise ValueError(f"it has no schema {metadata.current_schema_id}, its current one")
    if metadata.default_spec_id not in metadata.partition_specs:
        raise ValueError(f"it has no partition spec {metadata.default_spec_id}, its default")
    if metadata.default_sort_order_id not in metadata.sort_orders:
        raise ValueError(f"it has no sort order {metadata.default_sort_order_id}, its default")
    current = metadata.current_snapshot_id
    if current is not None and current not in metadata.snapshots:
        raise ValueError(f"it has no snapshot {current}, its current one")
    for name, reference in metadata.references.items():
        if reference.snapshot_id not in metadata.snapshots:
            raise ValueError(f"it has no snapshot {reference.snapshot_id}, which {name!r} names")
    main = metadata.references.get(MAIN)
    if main is not None and main.snapshot_id != current:
        raise ValueError("branch main is not at the current snapshot")
    newest = max((each.sequence_number for each in metadata.snapshots.values()), default=0)
    if newest > metadata.last_sequence_number:
        raise ValueError(f"a snapshot has number {newest}, beyond the last")
    _check_partitions(metadata)


def _check_partitions(metadata: TableMetadata) -> None:
    """Refuse partitions by columns whose values have no order but a place."""
    columns = {f.id: f for each in metadata.schemas.values() for f in descendants(each.fields)}
    for spec in metadata.partition_specs.values():
        for part in spec.fields:
            column = columns.get(part.source_id)
            if column is None or part.transform == "void":
                continue
            if column.geometry is not None or column.raster is not None:
                held = "geometries" if column.raster is None else "rasters"
                raise ValueError(f"it is partitioned by {column.name!r}, which holds {held}")


def raised(metadata: TableMetadata) -> TableMetadata:
    """Return metadata whose last ids are not below any that is in use."""
    last = metadata.last_column_id
    for schema in metadata.schemas.values():
        for field in descendants(schema.fields):
            last = max(last, field.id, *(raster_ids(field) or ()))
    parts = [part.field_id for spec in metadata.partition_specs.values() for part in spec.fields]
    last_part = max((metadata.last_partition_id, *parts))
    if (last, last_part) == (metadata.last_column_id, metadata.last_partition_id):
        return metadata
    return replace(metadata, last_column_id=last, last_partition_id=last_part)


# What Iceberg 3 says otherwise than version 2: native types, row lineage, bounds of geometries.
#
# Tables of version 3 are written by `export` alone and have no Havasu columns. Their schema is
# ours with geometries as columns of plain WKB, and beside it the native types by field id.
# Every snapshot says which ids its new rows have: the first in the snapshot and in each of its
# manifests, the next free one in the metadata. Bounds of geometries are corners, 8 bytes for
# each ordinate, where those of other columns are.

_CORNERS = {2: struct.Struct("<2d"), 3: struct.Struct("<3d"), 4: struct.Struct("<4d")}


def format_metadata_3(metadata: TableMetadata, types: NativeTypes) -> bytes:
    """Return the bytes of a table's metadata in version 3.

    Each snapshot says `first-row-id` and `added-rows` among its others.
    """
    value = _document(replace(metadata, format_version=2), Flavour.ICEBERG)
    del value["havasu.format-version"]
    value["format-version"] = 3
    value["schemas"] = with_type_texts(value["schemas"], types)
    value["properties"].pop(MIRROR, None)
    return format_json({**value, "next-row-id": metadata.next_row_id})


def corner_of(x: float, y: float) -> bytes:
    """Return a corner of a geometry's bounds.

    >>> corner_of(1.0, 2.0).hex()
    '000000000000f03f0000000000000040'
    """
    return _CORNERS[2].pack(x, y)


def parse_corner(data: bytes) -> tuple[float, float] | None:
    """Return x and y of a corner, None for bytes that are none."""
    layout = _CORNERS.get(len(data) // 8)
    if layout is None or len(data) % 8:
        return None
    x, y, *_ = layout.unpack(data)
    return (x, y) if math.isfinite(x) and math.isfinite(y) else None
