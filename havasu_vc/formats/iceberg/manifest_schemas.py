"""Avro schemas of manifests and manifest lists, with the field ids of Iceberg and Havasu.

Version 3 has three more fields, of row ids and deletion vectors. The optional fields 143
(the one file that position deletes apply to) and 1250 and 1280 (Havasu's geometry bounds)
stand last, and only in manifests that hold any: some readers stumble over maps that they
do not know.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from havasu_vc.model.type_table import TYPES
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type

__all__ = ["AvroSchema", "entry_schema", "manifest_list_schema"]

AvroSchema: TypeAlias = dict[str, Any]

_LETTERS = re.compile(r"[A-Za-z0-9_]")


def _required(number: int, name: str, type_: Any) -> AvroSchema:
    return {"name": name, "type": type_, "field-id": number}


def _optional(number: int, name: str, type_: Any) -> AvroSchema:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": number}


def _map(number: int, name: str, key: int, value: int, type_: str) -> AvroSchema:
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_required(key, "key", "int"), _required(value, "value", type_)],
    }
    return _optional(number, name, {"type": "array", "items": pair, "logicalType": "map"})


def _list(number: int, name: str, element: int, items: Any) -> AvroSchema:
    return _optional(number, name, {"type": "array", "items": items, "element-id": element})


def decimal_size(precision: int) -> int:
    """Return how many bytes any decimal of a precision fits in."""
    return int(10**precision - 1).bit_length() // 8 + 1


def _partition_type(type_: Type, named: set[str]) -> Any:
    schema: Any
    match type_:
        case Primitive():
            schema = TYPES[type_].avro
        case Decimal(precision, scale):
            schema = {
                "type": "fixed",
                "size": decimal_size(precision),
                "logicalType": "decimal",
                "precision": precision,
                "scale": scale,
                "name": f"decimal_{precision}_{scale}",
            }
        case Fixed(length):
            schema = {"type": "fixed", "size": length, "name": f"fixed_{length}"}
        case _:
            raise ValueError(f"files cannot share a value of {type_}")
    name = schema.get("name") if isinstance(schema, dict) else None
    if name is None:
        return schema
    if name in named:
        return name
    named.add(name)
    return schema


def avro_name(name: str) -> str:
    r"""Return a name as Avro allows it, the way Iceberg spells it.

    >>> avro_name("bucket 4"), avro_name("4x")
    ('bucket_x204', '_4x')
    """
    if name[:1].isascii() and name[:1].isdigit():
        name = "_" + name
    return "".join(letter if _LETTERS.match(letter) else f"_x{ord(letter):X}" for letter in name)


def _partition(fields: tuple[tuple[int, str, Type], ...]) -> AvroSchema:
    named: set[str] = set()
    names: set[str] = set()
    made = []
    for number, name, type_ in fields:
        spelled = avro_name(name)
        if spelled in names:
            spelled = f"{spelled}_{number}"
        names.add(spelled)
        field = _optional(number, spelled, _partition_type(type_, named))
        made.append(field if spelled == name else {**field, "iceberg-field-name": name})
    return {"type": "record", "name": "r102", "fields": made}


def entry_schema(
    partition: tuple[tuple[int, str, Type], ...],
    *,
    format_version: int = 2,
    referenced: bool = False,
    geometry: bool = False,
) -> AvroSchema:
    """Return the schema of manifest entries; a partition field is its id, name and type."""
    second = format_version > 1
    data_file = [
        *([_required(134, "content", "int")] if second else []),
        _required(100, "file_path", "string"),
        _required(101, "file_format", "string"),
        _required(102, "partition", _partition(partition)),
        _required(103, "record_count", "long"),
        _required(104, "file_size_in_bytes", "long"),
        *([] if second else [_required(105, "block_size_in_bytes", "long")]),
        _map(108, "column_sizes", 117, 118, "long"),
        _map(109, "value_counts", 119, 120, "long"),
        _map(110, "null_value_counts", 121, 122, "long"),
        _map(137, "nan_value_counts", 138, 139, "long"),
        _map(125, "lower_bounds", 126, 127, "bytes"),
        _map(128, "upper_bounds", 129, 130, "bytes"),
        _optional(131, "key_metadata", "bytes"),
        _list(132, "split_offsets", 133, "long"),
        *([_list(135, "equality_ids", 136, "int")] if second else []),
        _optional(140, "sort_order_id", "int"),
        *([_optional(142, "first_row_id", "long")] if format_version > 2 else []),
        *(
            [_optional(143, "referenced_data_file", "string")]
            if referenced or format_version > 2
            else []
        ),
    ]
    if format_version > 2:
        data_file += [
            _optional(144, "content_offset", "long"),
            _optional(145, "content_size_in_bytes", "long"),
        ]
    if geometry:
        data_file += [
            _map(1250, "geom_lower_bounds", 1260, 1270, "bytes"),
            _map(1280, "geom_upper_bounds", 1290, 1300, "bytes"),
        ]
    snapshot = (
        _optional(1, "snapshot_id", "long") if second else _required(1, "snapshot_id", "long")
    )
    numbers = [
        _optional(3, "sequence_number", "long"),
        _optional(4, "file_sequence_number", "long"),
    ]
    file = {"type": "record", "name": "r2", "fields": data_file}
    fields = [_required(0, "status", "int"), snapshot, *(numbers if second else [])]
    fields.append(_required(2, "data_file", file))
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def manifest_list_schema(format_version: int = 2) -> AvroSchema:
    """Return the schema of the lines of a manifest list."""
    second = format_version > 1
    count = _required if second else _optional
    summary = [
        _required(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ]
    record = {"type": "record", "name": "r508", "fields": summary}
    numbers = [
        _required(517, "content", "int"),
        _required(515, "sequence_number", "long"),
        _required(516, "min_sequence_number", "long"),
    ]
    fields = [
        _required(500, "manifest_path", "string"),
        _required(501, "manifest_length", "long"),
        _required(502, "partition_spec_id", "int"),
        *(numbers if second else []),
        _required(503, "added_snapshot_id", "long"),
        count(504, "added_files_count", "int"),
        count(505, "existing_files_count", "int"),
        count(506, "deleted_files_count", "int"),
        count(512, "added_rows_count", "long"),
        count(513, "existing_rows_count", "long"),
        count(514, "deleted_rows_count", "long"),
        _list(507, "partitions", 508, record),
        _optional(519, "key_metadata", "bytes"),
        *([_optional(520, "first_row_id", "long")] if format_version > 2 else []),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}
