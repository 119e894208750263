"""Iceberg's binary form of one value: what bounds and partition summaries are made of.

Python values stand on the other side: `date`, `time`, `datetime` (with UTC for
`timestamptz`), `Decimal`, `UUID`, `bytes`. Numbers are little-endian, decimals and UUIDs
big-endian. A bound written before a column was promoted (int to long, float to double)
is read as the wider type.

>>> to_single_value(34, Primitive.INT).hex(), to_single_value(Number("14.20"), Decimal(9, 2)).hex()
('22000000', '058c')
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Inexact
from decimal import Decimal as Number
from typing import Any
from uuid import UUID

from havasu_vc.model.type_table import TYPES
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type

__all__ = ["from_plain", "from_single_value", "to_plain", "to_single_value"]

_EPOCH = datetime(1970, 1, 1)
_DAY_ZERO = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_EXACT = Context(prec=60, traps=[Inexact])
_NUMBERS = {type_: row.single for type_, row in TYPES.items() if row.single is not None}
_SHORTER = {Primitive.LONG: "<i", Primitive.DOUBLE: "<f"}


def to_plain(value: Any, type_: Type) -> Any:
    """Return a value as Iceberg counts it: days and microseconds for dates and times."""
    match type_:
        case Primitive.DATE:
            return (value - _DAY_ZERO).days
        case Primitive.TIME:
            return (
                (value.hour * 60 + value.minute) * 60 + value.second
            ) * 1_000_000 + value.microsecond
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            if value.tzinfo is not None:
                value = value.astimezone(UTC).replace(tzinfo=None)
            return (value - _EPOCH) // _MICROSECOND
        case Decimal(_, scale):
            return int(value.scaleb(scale, _EXACT).to_integral_exact(context=_EXACT))
        case Primitive.UUID:
            return value.bytes
        case _:
            return value


def from_plain(value: Any, type_: Type) -> Any:
    """Return the Python value of one that Iceberg counts; ValueError beyond Python's range."""
    try:
        match type_:
            case Primitive.DATE:
                return _DAY_ZERO + timedelta(days=value)
            case Primitive.TIME:
                if not 0 <= value < _DAY:
                    raise ValueError(f"{value} is no time of a day")
                return (_EPOCH + value * _MICROSECOND).time()
            case Primitive.TIMESTAMP:
                return _EPOCH + value * _MICROSECOND
            case Primitive.TIMESTAMPTZ:
                return (_EPOCH + value * _MICROSECOND).replace(tzinfo=UTC)
            case Decimal(_, scale):
                return Number(value).scaleb(-scale, _EXACT)
            case Primitive.UUID:
                return UUID(bytes=value)
            case _:
                return value
    except OverflowError as error:
        raise ValueError(f"{value} is beyond the range of {type_}") from error


def to_single_value(value: Any, type_: Type) -> bytes:
    """Return the single value of a Python value of a simple type."""
    plain = to_plain(value, type_)
    if layout := _NUMBERS.get(type_):  # type: ignore[arg-type]
        try:
            return struct.pack(layout, plain)
        except (struct.error, OverflowError) as error:
            raise ValueError(f"{value!r} does not fit {type_}") from error
    match type_:
        case Primitive.BOOLEAN:
            return b"\x01" if plain else b"\x00"
        case Primitive.STRING:
            encoded: bytes = plain.encode()
            return encoded
        case Primitive.BINARY | Primitive.UUID | Fixed():
            return bytes(plain)
        case Decimal():
            return decimal_bytes(plain)
        case _:
            raise ValueError(f"{type_} has no single values")


def decimal_bytes(unscaled: int) -> bytes:
    """Return an unscaled decimal in as few bytes as hold it, most significant first."""
    length = ((unscaled if unscaled >= 0 else ~unscaled).bit_length()) // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def from_single_value(data: bytes, type_: Type) -> Any:
    """Return the Python value of a single value; ValueError if it is none of the type."""
    if layout := _NUMBERS.get(type_):  # type: ignore[arg-type]
        if len(data) != struct.calcsize(layout):
            layout = _SHORTER.get(type_, layout)  # type: ignore[arg-type]
        try:
            return from_plain(struct.unpack(layout, data)[0], type_)
        except struct.error:
            raise ValueError(f"{len(data)} bytes are no {type_}") from None
    match type_:
        case Primitive.BOOLEAN if len(data) == 1:
            return data != b"\x00"
        case Primitive.STRING:
            return data.decode()
        case Primitive.BINARY:
            return data
        case Fixed(length) if len(data) <= length:
            # A bound may be cut short.
            return data
        case Primitive.UUID if len(data) == 16:
            return UUID(bytes=data)
        case Decimal() if 1 <= len(data) <= 16:
            return from_plain(int.from_bytes(data, "big", signed=True), type_)
        case _:
            raise ValueError(f"{len(data)} bytes are no {type_}")
