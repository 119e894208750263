"""Records of manifests and manifest lists, checked once by their schema and then by value.

A file's own Avro schema says what its fields hold. It is held against what Iceberg's
ids must hold before any record is read, so that records need few checks of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from havasu_vc.errors import CorruptDatasetError, UnsupportedError
from havasu_vc.formats.iceberg.avro import Container, Malformed, UnknownCodec, parse_container
from havasu_vc.formats.iceberg.single_values import from_plain
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.model.types import TYPES, Decimal, Fixed, Primitive, Type
from havasu_vc.records import dataclass

__all__ = [
    "AvroSchema",
    "PartitionReader",
    "data_file_of",
    "entry_schema",
    "integer",
    "manifest_list_schema",
    "partition_reader",
    "read_container",
    "read_records",
]


Record: TypeAlias = dict[int | str, Any]

_NAMES: dict[str, int] = {
    "status": 0,
    "snapshot_id": 1,
    "data_file": 2,
    "sequence_number": 3,
    "file_sequence_number": 4,
    "content": 134,
    "file_path": 100,
    "file_format": 101,
    "partition": 102,
    "record_count": 103,
    "file_size_in_bytes": 104,
    "column_sizes": 108,
    "value_counts": 109,
    "null_value_counts": 110,
    "nan_value_counts": 137,
    "lower_bounds": 125,
    "upper_bounds": 128,
    "key_metadata": 131,
    "split_offsets": 132,
    "equality_ids": 135,
    "sort_order_id": 140,
    "referenced_data_file": 143,
    "first_row_id": 142,
    "content_offset": 144,
    "content_size_in_bytes": 145,
    "geom_lower_bounds": 1250,
    "geom_upper_bounds": 1280,
}
_LIST_NAMES: dict[str, int] = {
    "manifest_path": 500,
    "manifest_length": 501,
    "partition_spec_id": 502,
    "content": 517,
    "sequence_number": 515,
    "min_sequence_number": 516,
    "added_snapshot_id": 503,
    "added_files_count": 504,
    "added_data_files_count": 504,
    "existing_files_count": 505,
    "existing_data_files_count": 505,
    "deleted_files_count": 506,
    "deleted_data_files_count": 506,
    "added_rows_count": 512,
    "existing_rows_count": 513,
    "deleted_rows_count": 514,
    "partitions": 507,
    "contains_null": 509,
    "contains_nan": 518,
    "lower_bound": 510,
    "upper_bound": 511,
    "key_metadata": 519,
    "first_row_id": 520,
}
_COUNTS, _BOUNDS = "map of long to long", "map of long to bytes"
_SHAPES: dict[int, str] = {
    **dict.fromkeys((0, 1, 3, 4, 103, 104, 134, 140, 142, 144, 145), "long"),
    **dict.fromkeys((100, 101, 143), "text"),
    **dict.fromkeys((2, 102), "record"),
    **dict.fromkeys((108, 109, 110, 137), _COUNTS),
    **dict.fromkeys((125, 128, 1250, 1280), _BOUNDS),
    **dict.fromkeys((132, 135), "list of long"),
    **dict.fromkeys((131, 510, 511, 519), "bytes"),
    **dict.fromkeys((501, 502, 503, 504, 505, 506, 512, 513, 514, 515, 516, 517, 520), "long"),
    **dict.fromkeys((509, 518), "boolean"),
    500: "text",
    507: "list of record",
}
_SIMPLE = {
    "int": "long",
    "long": "long",
    "string": "text",
    "bytes": "bytes",
    "boolean": "boolean",
    "float": "float",
    "double": "float",
}


def read_container(data: bytes, where: str) -> Container:
    """Return the container of Avro bytes, its fields known by Iceberg's ids."""
    try:
        container = parse_container(data)
    except UnknownCodec as error:
        raise UnsupportedError(
            f"{where}: {error}", hints=("deflate, snappy and zstandard can be read",)
        ) from error
    except Malformed as error:
        raise CorruptDatasetError(where, str(error)) from error
    names = _LIST_NAMES if _is_manifest_list(container.schema) else _NAMES
    try:
        return replace(container, schema=_identified(container.schema, names, 0))
    except Malformed as error:
        raise CorruptDatasetError(where, str(error)) from error


def _is_manifest_list(schema: Any) -> bool:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list):
        return False
    return any(
        isinstance(field, dict)
        and (field.get("field-id") == 500 or field.get("name") == "manifest_path")
        for field in fields
    )


def _identified(schema: Any, names: Mapping[str, int], depth: int) -> Any:
    """Return a schema whose known fields have their ids, after checking what they hold."""
    if not isinstance(schema, dict) or schema.get("type") != "record" or depth > 2:
        return schema
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise Malformed("a record of its schema has no fields")
    made = [_identified_field(field, names, depth) for field in fields]
    numbers = [field["field-id"] for field in made if isinstance(field.get("field-id"), int)]
    if len(set(numbers)) != len(numbers):
        raise Malformed("its schema has two fields of one id")
    return {**schema, "fields": made}


def _identified_field(
    field: dict[str, Any], names: Mapping[str, int], depth: int
) -> dict[str, Any]:
    number = field.get("field-id", names.get(str(field.get("name"))))
    if not isinstance(number, int) or isinstance(number, bool):
        return field
    type_ = field.get("type")
    wanted = _SHAPES.get(number)
    if wanted is not None and _shape(type_) != wanted:
        raise Malformed(f"field {number} of its schema is no {wanted}")
    if number in (2, 507):
        type_ = _inside(type_, names, depth)
    return {**field, "field-id": number, "type": type_}


def _inside(type_: Any, names: Mapping[str, int], depth: int) -> Any:
    if isinstance(type_, list):
        return [_inside(branch, names, depth) for branch in type_]
    if isinstance(type_, dict) and type_.get("type") == "array":
        return {**type_, "items": _identified(type_.get("items"), names, depth + 1)}
    return _identified(type_, names, depth + 1)


def _shape(type_: Any) -> str:
    """Return what values of an Avro type are, whether or not they may be null."""
    if isinstance(type_, list):
        branches = [branch for branch in type_ if branch != "null"]
        return _shape(branches[0]) if len(branches) == 1 else "union"
    if isinstance(type_, str):
        return _SIMPLE.get(type_, "other")
    if not isinstance(type_, dict):
        return "other"
    match type_.get("type"):
        case "record":
            return "record"
        case "fixed":
            return "bytes"
        case "array":
            items = type_.get("items")
            if type_.get("logicalType") == "map" and isinstance(items, dict):
                fields = items.get("fields")
                if isinstance(fields, list) and all(isinstance(part, dict) for part in fields):
                    return "map of " + " to ".join(_shape(part.get("type")) for part in fields)
            return f"list of {_shape(items)}"
        case str(inner):
            return _SIMPLE.get(inner, "other")
        case _:
            return "other"


def read_records(container: Container, where: str) -> Iterator[Record]:
    """Yield the records of a container."""
    try:
        for record in container.records():
            if not isinstance(record, dict):
                raise CorruptDatasetError(where, "it holds no records")
            yield record
    except Malformed as error:
        raise CorruptDatasetError(where, str(error)) from error


def integer(text: str, name: str, where: str) -> int:
    """Return a number that stands as text in a header."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise CorruptDatasetError(where, f"{name} is not a number")
    return int(text)


PartitionReader: TypeAlias = Callable[[Record], dict[int, Any]]
"""Returns partition values as Python values by field id."""


@dataclass(frozen=True, slots=True)
class _PartitionField:
    key: int | str
    number: int
    type: Type | None
    scale: int | None = None
    nanoseconds: bool = False


def partition_reader(schema: Any, ids: tuple[int, ...]) -> PartitionReader:
    """Return what turns partition records into Python values; `ids` are the spec's."""
    named: dict[str, dict[str, Any]] = {}
    fields = [
        _partition_field(field, ids[index] if index < len(ids) else None, named)
        for index, field in enumerate(_partition_fields(schema))
    ]
    known = [field for field in fields if field is not None]

    def read(record: Record) -> dict[int, Any]:
        values: dict[int, Any] = {}
        for field in known:
            value = record.get(field.key)
            if value is not None and field.type is not None:
                if field.scale is not None:
                    value = int.from_bytes(value, "big", signed=True)
                if field.nanoseconds:
                    value = _microseconds(value)
                value = from_plain(value, field.type)
            values[field.number] = value
        return values

    return read


def _partition_fields(schema: Any) -> list[dict[str, Any]]:
    """Return the fields of the partition record of an entry's schema."""
    for number in (2, 102):
        fields = schema.get("fields", []) if isinstance(schema, dict) else []
        found = [field for field in fields if field.get("field-id") == number]
        if not found:
            return []
        schema = found[0].get("type")
        if isinstance(schema, list):
            schema = next((branch for branch in schema if isinstance(branch, dict)), {})
    return [field for field in schema.get("fields", []) if isinstance(field, dict)]


def _partition_field(
    field: dict[str, Any], spec_id: int | None, named: dict[str, dict[str, Any]]
) -> _PartitionField | None:
    given = field.get("field-id")
    key: int | str = given if isinstance(given, int) else str(field.get("name"))
    number = given if isinstance(given, int) else spec_id
    if number is None:
        return None
    type_ = field.get("type")
    if isinstance(type_, list):
        type_ = next((branch for branch in type_ if branch != "null"), None)
    if isinstance(type_, str):
        # A type of the same name was declared by an earlier field.
        type_ = named.get(type_)
    if not isinstance(type_, dict):
        return _PartitionField(key, number, None)
    if isinstance(name := type_.get("name"), str):
        named[name] = type_
    base = type_.get("type")
    match type_.get("logicalType"):
        case "date" if base == "int":
            return _PartitionField(key, number, Primitive.DATE)
        case "time-micros" if base == "long":
            return _PartitionField(key, number, Primitive.TIME)
        case "timestamp-micros" if base == "long":
            zoned = type_.get("adjust-to-utc") is True
            instant = Primitive.TIMESTAMPTZ if zoned else Primitive.TIMESTAMP
            return _PartitionField(key, number, instant)
        case "local-timestamp-micros" if base == "long":
            return _PartitionField(key, number, Primitive.TIMESTAMP)
        case "timestamp-nanos" if base == "long":
            zoned = type_.get("adjust-to-utc") is True
            instant = Primitive.TIMESTAMPTZ if zoned else Primitive.TIMESTAMP
            return _PartitionField(key, number, instant, nanoseconds=True)
        case "uuid" if base == "fixed" and type_.get("size") == 16:
            return _PartitionField(key, number, Primitive.UUID)
        case "decimal" if base in ("fixed", "bytes"):
            precision, scale = type_.get("precision"), type_.get("scale", 0)
            if not isinstance(precision, int) or not isinstance(scale, int):
                raise Malformed("a decimal of its schema has no precision")
            try:
                return _PartitionField(key, number, Decimal(precision, scale), scale)
            except ValueError as error:
                raise Malformed(str(error)) from error
        case _:
            return _PartitionField(key, number, None)


def _microseconds(value: int) -> int:
    if value % 1000:
        raise ValueError(f"a partition at {value} nanoseconds")
    return value // 1000


def data_file_of(record: Record, partition: PartitionReader, where: str) -> DataFile:
    """Return the file that a record describes."""
    get = record.get
    path, rows, size = get(100), get(103), get(104)
    if path is None or rows is None or size is None:
        raise CorruptDatasetError(where, "an entry has no path, no rows or no size")
    if rows < 0 or size < 0:
        raise CorruptDatasetError(where, f"{path} has a negative size")
    shared = get(102)
    content = get(134) or 0
    if content not in (0, 1, 2):
        raise CorruptDatasetError(where, f"{path} has content {content}, which is nothing known")
    splits, equality = get(132), get(135)
    return DataFile(
        path,
        rows,
        size,
        DataFileContent(content),
        (get(101) or "PARQUET").upper(),
        partition(shared) if shared else {},
        get(108),
        get(109),
        get(110),
        get(137),
        get(125),
        get(128),
        get(131),
        None if splits is None else tuple(splits),
        None if equality is None else tuple(equality),
        get(140),
        get(143),
        get(1250),
        get(1280),
        get(142),
        get(144),
        get(145),
    )


# Avro schemas of manifests and manifest lists, with the field ids of Iceberg and Havasu.
#
# Version 3 has three more fields, of row ids and deletion vectors. The optional fields 143
# (the one file that position deletes apply to) and 1250 and 1280 (Havasu's geometry bounds)
# stand last, and only in manifests that hold any: some readers stumble over maps that they
# do not know.

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


def _partition_type(type_: Type, number: int, named: set[str]) -> Any:
    """Return the type of a partition field, whole: PyIceberg knows none by its name alone."""
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
        return {**schema, "name": f"{name}_{number}"}
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
        field = _optional(number, spelled, _partition_type(type_, number, named))
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
