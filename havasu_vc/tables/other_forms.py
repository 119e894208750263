"""Data files and delete files of Avro and ORC, rewritten as Parquet for as long as they are read.

Iceberg lets a table have them, and its rules are the same for all: columns have field ids, deletes
name rows by their place. So such a file is made one of Parquet with the same rows in the same
order, and what reads Parquet reads it. That takes one pass over the file and disk for it, in
batches or stripes. Rows of Avro are decoded one by one, which is slow.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Context, Decimal
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from havasu_vc.errors import NotYetSupportedError
from havasu_vc.formats.iceberg.avro import Malformed, UnknownCodec, read_blocks
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.tables.table import damaged, missing

__all__ = ["OTHER_FORMS", "in_parquet", "kept_in_parquet"]

OTHER_FORMS = frozenset(("AVRO", "ORC"))
"""Formats that manifests name and that are read by way of Parquet."""
_MARKS = {b"Obj\x01": "AVRO", b"ORC": "ORC"}
_ROWS = 8192

_Value: TypeAlias = Callable[[Any], Any]
"""Returns a value of Avro as Arrow takes it."""


@contextmanager
def in_parquet(path: str) -> Iterator[str]:
    """Give a file of Parquet with the rows of a file: itself where it is one."""
    form = _form(path)
    if form is None:
        yield path
        return
    with TemporaryDirectory(prefix="havasu-vc-form-") as folder:
        yield _rewritten(path, form, folder)


def kept_in_parquet(path: str) -> str:
    """Return the same for a file that is read again and again, as deletes are."""
    form = _form(path)
    if form is None:
        return path
    found = os.stat(path)
    return _kept(path, form, found.st_size, found.st_mtime_ns)[1]


@lru_cache(maxsize=1024)
def _kept(path: str, form: str, *identity: int) -> tuple[TemporaryDirectory[str], str]:
    folder = TemporaryDirectory(prefix="havasu-vc-form-")
    return folder, _rewritten(path, form, folder.name)


def _form(path: str) -> str | None:
    """Return which other form a file has, by its first bytes unless its name says Parquet."""
    if path.endswith(".parquet"):
        return None
    try:
        with open(path, "rb") as file:
            mark = file.read(4)
    except OSError:
        return None  # whoever opens it says what is wrong
    return _MARKS.get(mark) or _MARKS.get(mark[:3])


def _rewritten(path: str, form: str, folder: str) -> str:
    made = str(Path(folder, "rows.parquet"))
    schema, batches = _orc(path) if form == "ORC" else _avro(path)
    try:
        with pq.ParquetWriter(made, schema, compression="lz4") as writer:
            for batch in batches:
                writer.write_batch(batch)
    except UnknownCodec as error:
        raise NotYetSupportedError(f"{path}: {error}, which is not read") from error
    except (pa.ArrowException, Malformed, LookupError, ValueError, TypeError) as error:
        if "out of range for nanosecond" in str(error):
            raise NotYetSupportedError(
                f"{path}: it holds moments before 1677 or after 2262, which Arrow does not read in "
                "files of ORC",
                hints=("have Spark rewrite the table: its property write.format.default=parquet",),
            ) from error
        raise damaged(path, f"it is no sound file of {form}: {_first_line(error)}") from error
    return made


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


# ORC: Arrow reads it. Attributes of its types say what Iceberg's types are that it has not.


def _orc(path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    try:
        file = orc.ORCFile(path)
        schema = pa.schema([_orc_field(field) for field in file.schema])
    except FileNotFoundError:
        raise missing(path) from None
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, f"it is no sound file of ORC: {_first_line(error)}") from error

    def batches() -> Iterator[pa.RecordBatch]:
        for stripe in range(file.nstripes):
            found = file.read_stripe(stripe)
            columns = [c.cast(f.type) for c, f in zip(found.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return schema, batches()


def _orc_field(field: pa.Field, name: str | None = None) -> pa.Field:
    said = field.metadata or {}
    number = said.get(b"iceberg.id")
    metadata = None if number is None else {FIELD_ID: number}
    return pa.field(name or field.name, _orc_type(field.type, said), field.nullable, metadata)


def _orc_type(type_: pa.DataType, said: Mapping[bytes, bytes]) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([_orc_field(type_.field(n)) for n in range(type_.num_fields)])
    if pa.types.is_map(type_):
        return pa.map_(_orc_field(type_.key_field, "key"), _orc_field(type_.item_field, "value"))
    if pa.types.is_list(type_):
        return pa.list_(_orc_field(type_.value_field, "element"))
    if pa.types.is_timestamp(type_) and said.get(b"iceberg.timestamp-unit") != b"NANOS":
        return pa.timestamp("us", type_.tz)
    if said.get(b"iceberg.long-type") == b"TIME":
        return pa.time64("us")
    if said.get(b"iceberg.binary-type") == b"UUID":
        return pa.binary(16)
    if said.get(b"iceberg.binary-type") == b"FIXED" and (size := said.get(b"iceberg.length")):
        return pa.binary(int(size))
    return type_


# Avro: decoded here, as Iceberg's own documents are.


def _avro(path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        said, blocks = read_blocks(data)
        if not isinstance(said, dict) or said.get("type") != "record":
            raise Malformed("its schema is no record")
        type_, value = _avro_type(said)
    except FileNotFoundError:
        raise missing(path) from None
    except (Malformed, LookupError, ValueError, TypeError, OverflowError) as error:
        raise damaged(path, f"it is no sound file of AVRO: {_first_line(error)}") from error
    schema = pa.schema(list(type_))

    def batches() -> Iterator[pa.RecordBatch]:
        for block in blocks:
            records = block.records()
            while rows := [value(record) for record in islice(records, _ROWS)]:
                yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return schema, batches()


def _avro_field(name: str, said: Any, number: Any) -> tuple[pa.Field, _Value]:
    optional = isinstance(said, list) and "null" in said
    if isinstance(said, list):
        rest = [each for each in said if each != "null"]
        if len(rest) != 1:
            raise Malformed(f"{name} is of several types")
        (said,) = rest
    type_, value = _avro_type(said)
    metadata = None if number is None else {FIELD_ID: str(number).encode()}
    read = value if not optional else lambda each: None if each is None else value(each)
    return pa.field(name, type_, optional, metadata), read


def _avro_type(said: Any) -> tuple[pa.DataType, _Value]:
    """Return what values of an Avro type are to Arrow, and how they become so."""
    plain = said if isinstance(said, dict) else {"type": said}
    kind, logical = plain.get("type"), plain.get("logicalType")
    if isinstance(kind, (dict, list)):
        return _avro_type(kind)
    if logical in ("decimal", "uuid") or kind == "fixed":
        return _avro_bytes(plain, kind, logical)
    match kind, logical:
        case "record", _:
            return _avro_struct(plain)
        case "map", _:
            key = pa.field("key", pa.string(), False, _numbered(plain.get("key-id")))
            item, value = _avro_field("value", plain.get("values"), plain.get("value-id"))
            return pa.map_(key, item), lambda pairs: [(k, value(v)) for k, v in pairs.items()]
        case "array", "map":
            (key, one), (item, two) = (
                _avro_field(name, each.get("type"), each.get("field-id"))
                for name, each in zip(("key", "value"), plain["items"]["fields"], strict=True)
            )
            return pa.map_(key, item), lambda pairs: [(one(k), two(v)) for k, v in pairs.items()]
        case "array", _:
            item, value = _avro_field("element", plain.get("items"), plain.get("element-id"))
            return pa.list_(item), lambda values: [value(each) for each in values]
    return _moment(plain, logical) or _SIMPLE[str(kind)], _itself


def _numbered(number: Any) -> dict[bytes, bytes] | None:
    return None if number is None else {FIELD_ID: str(number).encode()}


def _avro_struct(said: Mapping[str, Any]) -> tuple[pa.DataType, _Value]:
    parts = []
    for each in said.get("fields", ()):
        number = each.get("field-id")
        # Names that Avro does not allow are spelled otherwise, and the true one is told.
        name = str(each.get("iceberg-field-name") or each.get("name"))
        field, value = _avro_field(name, each.get("type"), number)
        parts.append((str(each.get("name")) if number is None else number, field, value))

    def read(record: Mapping[Any, Any]) -> dict[str, Any]:
        return {field.name: value(record[key]) for key, field, value in parts}

    return pa.struct([field for _, field, _ in parts]), read


def _avro_bytes(said: Mapping[str, Any], kind: Any, logical: Any) -> tuple[pa.DataType, _Value]:
    if logical == "decimal":
        precision, scale = int(said["precision"]), int(said.get("scale", 0))
        exact = Context(prec=80)

        def number(data: bytes) -> Decimal:
            return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, exact)

        return pa.decimal128(precision, scale), number
    if kind == "fixed":
        return pa.binary(int(said["size"])), _itself
    return _SIMPLE[str(kind)], _itself


def _moment(said: Mapping[str, Any], logical: Any) -> pa.DataType | None:
    zone = "UTC" if said.get("adjust-to-utc") is True else None
    return {
        "date": pa.date32(),
        "time-micros": pa.time64("us"),
        "timestamp-micros": pa.timestamp("us", zone),
        "timestamp-nanos": pa.timestamp("ns", zone),
        "local-timestamp-micros": pa.timestamp("us"),
    }.get(str(logical))


def _itself(value: Any) -> Any:
    return value


_SIMPLE: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
