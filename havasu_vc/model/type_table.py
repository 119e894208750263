"""The table of column types: how each is spelt, hashed, bounded and widened, wherever tables go.

A type without parameters is one row here and its codecs of values. A row that is missing, or a
spelling that is, is found by a test and by the type checker; what a format has no place for is
None, and its writer says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from havasu_vc.model.types import Primitive
from havasu_vc.records import dataclass

__all__ = ["TYPES", "Hashed", "TypeRow", "is_number", "is_whole"]


class Hashed(Enum):
    """The part of a value that goes into its hash."""

    BYTES = auto()
    """Its bytes, of any length."""
    FIXED = auto()
    """Its bytes, of one length."""
    BIT = auto()
    """Whether it is true."""
    FLOAT = auto()
    """The bits of a float of 64 bits, equal ones alike."""
    WHOLE = auto()
    """A whole number of 64 bits."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One type, as everybody around us knows it."""

    arrow: str
    """The Arrow type, as Arrow prints it."""
    avro: str | Mapping[str, Any]
    """The Avro schema in manifests."""
    single: str | None
    """The layout of single values in manifests, as `struct` takes it; None for bytes."""
    column: Mapping[str, Any]
    """The column in documents for people, which are Kart's with more types."""
    delta: str | None
    """The type in a Delta table."""
    spark: str
    """The class of `pyspark.sql.types` that it is shown with."""
    said: str
    """The value that JSON must hold, as people are told."""
    hashed: Hashed
    """The part of a value that goes into its hash."""
    wider: Primitive | None = None
    """The type that every value of it is a value of as well."""


def _whole(size: int) -> dict[str, Any]:
    return {"dataType": "integer", "size": size}


def _moment(*, utc: bool) -> dict[str, Any]:
    return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": utc}


_P = Primitive
_UUID = {"type": "fixed", "size": 16, "logicalType": "uuid", "name": "uuid_fixed"}
_TEXT = {"dataType": "text"}

TYPES: Mapping[Primitive, TypeRow] = {
    _P.BOOLEAN: TypeRow(
        "bool", "boolean", None, {"dataType": "boolean"}, "boolean", "BooleanType",
        "true or false", Hashed.BIT,
    ),
    _P.INT: TypeRow(
        "int32", "int", "<i", _whole(32), "integer", "IntegerType",
        "a whole number of 32 bits", Hashed.WHOLE, _P.LONG,
    ),
    _P.LONG: TypeRow(
        "int64", "long", "<q", _whole(64), "long", "LongType",
        "a whole number of 64 bits", Hashed.WHOLE,
    ),
    _P.FLOAT: TypeRow(
        "float", "float", "<f", {"dataType": "float", "size": 32}, "float", "FloatType",
        "a number that a float of 32 bits holds", Hashed.FLOAT, _P.DOUBLE,
    ),
    _P.DOUBLE: TypeRow(
        "double", "double", "<d", {"dataType": "float", "size": 64}, "double", "DoubleType",
        "a number that a float of 64 bits holds", Hashed.FLOAT,
    ),
    _P.DATE: TypeRow(
        "date32[day]", {"type": "int", "logicalType": "date"}, "<i", {"dataType": "date"},
        "date", "DateType", "a date such as 2020-01-31", Hashed.WHOLE,
    ),
    _P.TIME: TypeRow(
        "time64[us]", {"type": "long", "logicalType": "time-micros"}, "<q", {"dataType": "time"},
        None, "LongType", "a time such as 23:59:59.5", Hashed.WHOLE,
    ),
    _P.TIMESTAMP: TypeRow(
        "timestamp[us]", _moment(utc=False), "<q", {"dataType": "timestamp"},
        "timestamp_ntz", "TimestampNTZType", "a time such as 2020-01-31T23:59:59.5", Hashed.WHOLE,
    ),
    _P.TIMESTAMPTZ: TypeRow(
        "timestamp[us, tz=UTC]", _moment(utc=True), "<q",
        {"dataType": "timestamp", "timezone": "UTC"}, "timestamp", "TimestampType",
        "a time in UTC such as 2020-01-31T23:59:59.5", Hashed.WHOLE,
    ),
    _P.STRING: TypeRow(
        "string", "string", None, _TEXT, "string", "StringType", "text", Hashed.BYTES,
    ),
    _P.UUID: TypeRow(
        "fixed_size_binary[16]", _UUID, None, _TEXT | {"length": 36}, "string", "StringType",
        "a UUID", Hashed.FIXED,
    ),
    _P.BINARY: TypeRow(
        "binary", "bytes", None, {"dataType": "blob"}, "binary", "BinaryType",
        "bytes as hexadecimal digits", Hashed.BYTES,
    ),
}  # fmt: skip


def is_whole(type_: object) -> bool:
    """Whether values are whole numbers.

    >>> is_whole(Primitive.INT), is_whole(Primitive.DATE)
    (True, False)
    """
    return type_ in (Primitive.INT, Primitive.LONG)


def is_number(type_: object) -> bool:
    """Whether values are whole numbers or floats."""
    return is_whole(type_) or type_ in (Primitive.FLOAT, Primitive.DOUBLE)
