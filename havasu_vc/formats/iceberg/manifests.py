"""Manifests: which files a snapshot has, as Avro bytes and as values.

Equal values give equal bytes. Sequence numbers and snapshot ids that are null in an
entry come from the line of the manifest list that names the manifest; `inherited` fills
them in. Version 1 is read and written too; fields that a version does not have are left
out. With flavour `iceberg` geometry bounds (1250, 1280) are left out.

Reading finds fields by id, in any order, and passes over the ones it does not know.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from havasu_vc.errors import CorruptDatasetError, UnsupportedError
from havasu_vc.formats.havasu.json_text import expect, parse_json
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.avro import encode_bytes, encode_long, encode_text, format_container
from havasu_vc.formats.iceberg.manifest_reading import (
    PartitionReader,
    Record,
    data_file_of,
    decimal_size,
    entry_schema,
    integer,
    manifest_list_schema,
    partition_reader,
    read_container,
    read_records,
)
from havasu_vc.formats.iceberg.native_geometry import NativeTypes, with_type_texts
from havasu_vc.formats.iceberg.schema import schema_to_json
from havasu_vc.formats.iceberg.single_values import to_plain
from havasu_vc.formats.iceberg.transforms import partition_types
from havasu_vc.formats.iceberg.values import (
    DataFileContent,
    FieldSummary,
    Flavour,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type
from havasu_vc.records import dataclass

__all__ = [
    "Manifest",
    "format_manifest",
    "format_manifest_list",
    "inherited",
    "parse_manifest",
    "parse_manifest_list",
]


Encode: TypeAlias = Callable[[Any], bytes]

_NULL = encode_long(0)
_THERE = encode_long(1)
_END = encode_long(0)
_BLOCK_SIZE = encode_long(64 * 1024 * 1024)
_CONTENTS = {"data": ManifestContent.DATA, "deletes": ManifestContent.DELETES}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest as it was written: nothing inherited yet."""

    entries: tuple[ManifestEntry, ...]
    """Its files, in order."""
    spec: PartitionSpec
    """How its files share values."""
    content: ManifestContent = ManifestContent.DATA
    """The content of its files."""
    format_version: int = 2
    """1, 2 or 3."""
    schema_id: int | None = None
    """The schema it was written with; many writers do not say."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """All that the header says."""


def format_manifest(
    entries: Iterable[ManifestEntry],
    *,
    schema: Schema,
    schema_id: int = 0,
    spec: PartitionSpec = PartitionSpec(),  # noqa: B008 - a frozen value
    content: ManifestContent = ManifestContent.DATA,
    flavour: Flavour = Flavour.HAVASU,
    format_version: int = 2,
    types: NativeTypes = MappingProxyType({}),
) -> bytes:
    """Return the bytes of a manifest; `types` are those that version 3 says otherwise."""
    if format_version not in (1, 2, 3):
        raise ValueError(f"manifests of version {format_version} are not written")
    listed = list(entries)
    if flavour is Flavour.ICEBERG:
        listed = [_without_bounds(entry) for entry in listed]
    shared = partition_types(spec, schema)
    referenced = any(entry.file.referenced_data_file is not None for entry in listed)
    geometry = any(entry.file.geometry_lower or entry.file.geometry_upper for entry in listed)
    avro = entry_schema(
        shared, format_version=format_version, referenced=referenced, geometry=geometry
    )
    metadata = {
        "schema": _compact(
            with_type_texts(schema_to_json(schema, schema_id=schema_id, flavour=flavour), types)
        ),
        "schema-id": str(schema_id),
        "partition-spec": _compact(spec_fields_to_json(spec)),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
        "content": "data" if content is ManifestContent.DATA else "deletes",
    }
    if format_version == 1:
        del metadata["content"]
    encode = _entry_encoder(shared, format_version, referenced=referenced, geometry=geometry)
    return format_container(avro, metadata, _encoded(listed, encode, content))


def _encoded(
    entries: list[ManifestEntry], encode: Callable[[ManifestEntry], bytes], content: ManifestContent
) -> Iterator[bytes]:
    data = content is ManifestContent.DATA
    for entry in entries:
        if (entry.file.content is DataFileContent.DATA) != data:
            raise ValueError(f"{entry.file.path} is not in a manifest of its content")
        yield encode(entry)


def _without_bounds(entry: ManifestEntry) -> ManifestEntry:
    if entry.file.geometry_lower is None and entry.file.geometry_upper is None:
        return entry
    return replace(entry, file=replace(entry.file, geometry_lower=None, geometry_upper=None))


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def spec_fields_to_json(spec: PartitionSpec) -> list[dict[str, Any]]:
    """Return the fields of a partition spec as JSON values."""
    return [
        {
            "name": part.name,
            "transform": part.transform,
            "source-id": part.source_id,
            "field-id": part.field_id,
        }
        for part in spec.fields
    ]


def _entry_encoder(
    types: tuple[tuple[int, str, Type], ...],
    version: int,
    *,
    referenced: bool,
    geometry: bool,
) -> Callable[[ManifestEntry], bytes]:
    partition = tuple((number, _value_encoder(type_)) for number, _, type_ in types)
    second, third = version > 1, version > 2

    def encode(entry: ManifestEntry) -> bytes:
        file = entry.file
        parts = [encode_long(entry.status)]
        if second:
            parts += (
                _optional_long(entry.snapshot_id),
                _optional_long(entry.sequence_number),
                _optional_long(entry.file_sequence_number),
                encode_long(file.content),
            )
        else:
            if entry.snapshot_id is None:
                raise ValueError("an entry of a manifest of version 1 has no snapshot id")
            parts.append(encode_long(entry.snapshot_id))
        parts += (encode_text(file.path), encode_text(file.file_format))
        for number, encode_value in partition:
            value = file.partition.get(number)
            parts += (_NULL,) if value is None else (_THERE, encode_value(value))
        parts += (encode_long(file.record_count), encode_long(file.file_size))
        if not second:
            parts.append(_BLOCK_SIZE)
        _append_counts(parts, file.column_sizes)
        _append_counts(parts, file.value_counts)
        _append_counts(parts, file.null_value_counts)
        _append_counts(parts, file.nan_value_counts)
        _append_bounds(parts, file.lower_bounds)
        _append_bounds(parts, file.upper_bounds)
        parts.append(_optional(file.key_metadata, encode_bytes))
        parts.append(_optional_longs(file.split_offsets))
        if second:
            parts.append(_optional_longs(file.equality_ids))
        parts.append(_optional_long(file.sort_order_id))
        if third:
            parts.append(_optional_long(file.first_row_id))
        if referenced or third:
            parts.append(_optional(file.referenced_data_file, encode_text))
        if third:
            parts += (_optional_long(file.content_offset), _optional_long(file.content_size))
        if geometry:
            _append_bounds(parts, file.geometry_lower or None)
            _append_bounds(parts, file.geometry_upper or None)
        return b"".join(parts)

    return encode


def _optional(value: Any, encode: Encode) -> bytes:
    return _NULL if value is None else _THERE + encode(value)


def _optional_long(value: int | None) -> bytes:
    return _NULL if value is None else _THERE + encode_long(value)


def _optional_longs(values: Sequence[int] | None) -> bytes:
    if values is None:
        return _NULL
    if not values:
        return _THERE + _END
    return _THERE + encode_long(len(values)) + b"".join(map(encode_long, values)) + _END


def _append_counts(parts: list[bytes], counts: Mapping[int, int] | None) -> None:
    if counts is None:
        parts.append(_NULL)
        return
    parts.append(_THERE)
    if counts:
        parts.append(encode_long(len(counts)))
        for number, count in counts.items():
            parts += (encode_long(number), encode_long(count))
    parts.append(_END)


def _append_bounds(parts: list[bytes], bounds: Mapping[int, bytes] | None) -> None:
    if bounds is None:
        parts.append(_NULL)
        return
    parts.append(_THERE)
    if bounds:
        parts.append(encode_long(len(bounds)))
        for number, bound in bounds.items():
            parts += (encode_long(number), encode_long(len(bound)), bound)
    parts.append(_END)


def _value_encoder(type_: Type) -> Encode:
    """Return what encodes a partition value of a type."""
    match type_:
        case Primitive.BOOLEAN:
            return lambda value: b"\x01" if value else b"\x00"
        case Primitive.FLOAT:
            return struct.Struct("<f").pack
        case Primitive.DOUBLE:
            return struct.Struct("<d").pack
        case Primitive.STRING:
            return encode_text
        case Primitive.BINARY:
            return encode_bytes
        case Decimal(precision, _):
            size = decimal_size(precision)
            return lambda value: to_plain(value, type_).to_bytes(size, "big", signed=True)
        case Primitive.UUID | Fixed():
            return lambda value: bytes(to_plain(value, type_))
        case _:
            return lambda value: encode_long(to_plain(value, type_))


def parse_manifest(data: bytes, where: str) -> Manifest:
    """Return the manifest of Avro bytes."""
    container = read_container(data, where)
    header = container.metadata
    version = integer(header.get("format-version", "1"), "format-version", where)
    content = _CONTENTS.get(header.get("content", "data"))
    if content is None or not 1 <= version <= 3:
        raise CorruptDatasetError(where, "it is no manifest of a known kind")
    spec = PartitionSpec(
        _spec_fields(header.get("partition-spec", "[]"), where),
        integer(header.get("partition-spec-id", "0"), "partition-spec-id", where),
    )
    try:
        partition = partition_reader(container.schema, tuple(part.field_id for part in spec.fields))
        entries = tuple(
            _entry(record, partition, where) for record in read_records(container, where)
        )
    except CorruptDatasetError:
        raise
    except (ValueError, TypeError) as error:
        raise CorruptDatasetError(where, f"an entry is not possible ({error})") from error
    known = header.get("schema-id")
    return Manifest(
        entries,
        spec,
        content,
        version,
        None if known is None else integer(known, "schema-id", where),
        header,
    )


_STATUSES = tuple(Status)


def _entry(record: Record, partition: PartitionReader, where: str) -> ManifestEntry:
    get = record.get
    status, file = get(0), get(2)
    if status not in (0, 1, 2) or not file:
        raise CorruptDatasetError(where, "an entry has no status or no file")
    return ManifestEntry(
        _STATUSES[status], data_file_of(file, partition, where), get(1), get(3), get(4)
    )


def _spec_fields(text: str, where: str) -> tuple[PartitionField, ...]:
    value = parse_json(text.encode(), f"{where} (partition-spec)")
    if isinstance(value, dict):
        # Some writers put the whole spec where its fields should be.
        value = value.get("fields")
    return spec_fields_from_json(value, where)


def spec_fields_from_json(value: Any, where: str) -> tuple[PartitionField, ...]:
    """Return the fields of a partition spec; version 1 leaves out their ids."""
    fields = []
    for index, item in enumerate(expect(value, list, "partition fields", where)):
        expect(item, dict, "a partition field", where)
        if "source-ids" in item and "source-id" not in item:
            raise UnsupportedError(
                f"{where}: a partition field is made of several columns",
                hints=("that is of a later version of Iceberg than can be read",),
            )
        fields.append(
            PartitionField(
                expect(item.get("source-id"), int, "source-id", where),
                expect(item.get("field-id", 1000 + index), int, "field-id", where),
                expect(item.get("name"), str, "name", where),
                expect(item.get("transform"), str, "transform", where),
            )
        )
    return tuple(fields)


def inherited(manifest: Manifest, line: ManifestFile, where: str) -> Iterator[ManifestEntry]:
    """Yield the entries with what they inherit from the manifest's line in the list."""
    for entry in _with_row_ids(manifest, line):
        snapshot = entry.snapshot_id
        sequence, file_sequence = entry.sequence_number, entry.file_sequence_number
        if snapshot is not None and sequence is not None and file_sequence is not None:
            yield entry
            continue
        if sequence is None or file_sequence is None:
            # A manifest of version 1 has no numbers, and its line says 0 for all.
            if entry.status is not Status.ADDED and line.sequence_number:
                raise CorruptDatasetError(
                    where, f"{entry.file.path} is not new and has no sequence number"
                )
            number = line.sequence_number
            sequence = number if sequence is None else sequence
            file_sequence = number if file_sequence is None else file_sequence
        yield ManifestEntry(
            entry.status,
            entry.file,
            line.added_snapshot_id if snapshot is None else snapshot,
            sequence,
            file_sequence,
        )


def _with_row_ids(manifest: Manifest, line: ManifestFile) -> Iterator[ManifestEntry]:
    """Yield the entries with the ids of their first rows, which follow each other."""
    following = line.first_row_id
    for entry in manifest.entries:
        if following is None or entry.file.first_row_id is not None:
            yield entry
            continue
        yield replace(entry, file=replace(entry.file, first_row_id=following))
        following += entry.file.record_count


# Manifest lists: which manifests a snapshot has, as Avro bytes and as values.
#
# Equal values give equal bytes. A list of version 1 is read with content data and sequence
# numbers 0, as the specification has it.


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
