"""Iceberg's binary form of one value: what bounds and partition summaries are made of.

Python values stand on the other side: `date`, `time`, `datetime` (with UTC for
`timestamptz`), `Decimal`, `UUID`, `bytes`. Numbers are little-endian, decimals and UUIDs
big-endian. A bound written before a column was promoted (int to long, float to double)
is read as the wider type.

>>> to_single_value(34, Primitive.INT).hex(), to_single_value(Number("14.20"), Decimal(9, 2)).hex()
('22000000', '058c')
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Inexact, InvalidOperation
from decimal import Decimal as Number
from typing import Any
from uuid import UUID

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.entry import from_scalar
from havasu_vc.model.types import (
    TYPES,
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    descendants,
)
from havasu_vc.records import dataclass

__all__ = [
    "Defaults",
    "default_values",
    "from_plain",
    "from_single_value",
    "split_defaults",
    "to_plain",
    "to_single_value",
]


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


# Default values of Iceberg 3: what a column holds where nobody gave it a value.
#
# `initial-default` stands for rows of files that were written before the column was added,
# and never changes; `write-default` is what writers put in today. Both stand in the schema's
# JSON as single values: dates and times as ISO text, decimals and UUIDs as text, bytes as
# hex, structs by field id. Within a struct each field has defaults of its own, which fill
# what the struct's own default leaves out.

INITIAL, WRITE = "initial-default", "write-default"
_DEEPEST = 64
_UNITS = {Primitive.INT: 31, Primitive.LONG: 63}


@dataclass(frozen=True, slots=True)
class Defaults:
    """The defaults that the JSON of one schema says, by field id."""

    initial: Mapping[int, Any]
    """As JSON values."""
    write: Mapping[int, Any]
    """As JSON values."""


def split_defaults(schema: Any) -> tuple[Any, Defaults]:
    """Return the JSON of a schema without its defaults, and these."""
    initial: dict[int, Any] = {}
    write: dict[int, Any] = {}
    return _without(schema, initial, write, 0), Defaults(initial, write)


def _without(value: Any, initial: dict[int, Any], write: dict[int, Any], depth: int) -> Any:
    if depth > 2 * _DEEPEST:
        return value  # whoever parses it refuses it
    if isinstance(value, list):
        return [_without(item, initial, write, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    number = value.get("id")
    if isinstance(number, int):
        for name, found in ((INITIAL, initial), (WRITE, write)):
            if value.get(name) is not None:
                found[number] = value[name]
    return {
        name: _without(item, initial, write, depth + 1)
        if name in ("fields", "type", "element", "key", "value")
        else item
        for name, item in value.items()
        if name not in (INITIAL, WRITE)
    }


def default_values(
    fields: tuple[Field, ...], said: Mapping[int, Any], where: str
) -> dict[int, Any]:
    """Return what columns hold, by field id at any depth, as Arrow takes it for their types.

    Raises `CorruptDatasetError` for a value that is none of its column's type.
    """
    found: dict[int, Any] = {}
    for field in descendants(fields):
        if field.id not in said:
            continue
        try:
            found[field.id] = _value(said[field.id], field, said)
        except (ValueError, TypeError, InvalidOperation, OverflowError) as error:
            raise CorruptDatasetError(
                where, f"the default of column {field.name!r} is no {_named(field)}"
            ) from error
    return found


def _named(field: Field) -> str:
    return "geometry" if field.geometry is not None else str(field.type)


def _value(value: Any, field: Field, said: Mapping[int, Any]) -> Any:
    if value is None:
        return None
    if field.geometry is not None or field.raster is not None:
        raise ValueError("geometries and rasters have no defaults")
    match field.type:
        case Struct(parts):
            if not isinstance(value, dict):
                raise TypeError
            return {part.name: _part(value, part, said) for part in parts}
        case List(element):
            return [_value(item, element, said) for item in _checked(value, list)]
        case Map(key, item):
            keys = _checked(_checked(value, dict).get("keys"), list)
            items = _checked(value.get("values"), list)
            pairs = zip(keys, items, strict=True)
            return [(_value(k, key, said), _value(i, item, said)) for k, i in pairs]
        case _:
            return _simple(value, field.type)


def _part(value: dict[str, Any], part: Field, said: Mapping[int, Any]) -> Any:
    """Return a field of a struct's default: the struct's word, else the field's own."""
    given = value.get(str(part.id))
    return _value(said.get(part.id) if given is None else given, part, said)


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r} is of another type")
    return value


def _simple(value: Any, type_: Type) -> Any:
    """Return a value that fits its type as it stands: nothing is rounded, cut or padded."""
    if type_ in (Primitive.TIMESTAMP, Primitive.TIMESTAMPTZ):
        value = _microseconds(_checked(value, str))
    found = from_scalar(value, type_)
    match type_:
        case Primitive.INT | Primitive.LONG:
            fits = -(1 << _UNITS[type_]) <= found < 1 << _UNITS[type_]
        case Primitive.FLOAT | Primitive.DOUBLE:
            fits = math.isfinite(found)
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            fits = (found.tzinfo is not None) == (type_ is Primitive.TIMESTAMPTZ)
        case Decimal(precision, scale):
            digits, exponent = found.as_tuple().digits, found.as_tuple().exponent
            fits = exponent == -scale and len(digits) <= precision
        case Fixed(length):
            fits = len(found) == length
        case _:
            fits = True
    if not fits:
        raise ValueError(f"{value!r} does not fit {type_}")
    return found


def _microseconds(text: str) -> str:
    """Return an instant without the zeros of its nanoseconds."""
    whole, dot, fraction = text.partition(".")
    digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
    if not dot or len(digits) <= 6:
        return text
    if digits[6:].strip("0"):
        raise ValueError(f"{text} has nanoseconds")
    return f"{whole}.{digits[:6]}{fraction[len(digits) :]}"
