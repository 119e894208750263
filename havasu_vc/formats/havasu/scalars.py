"""Single values as entries keep them: the plainest JSON that says them exactly.

>>> to_scalar(datetime.date(2024, 2, 29), Primitive.DATE)
'2024-02-29'
>>> to_scalar(b"Havasu", Primitive.BINARY)
'486176617375'
>>> from_scalar("2024-02-29", Primitive.DATE)
datetime.date(2024, 2, 29)
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal as Number
from typing import Any
from uuid import UUID

from havasu_vc.formats.havasu.entry import Scalar
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type

__all__ = ["from_scalar", "to_scalar"]


def to_scalar(value: Any, type_: Type) -> Scalar | None:
    """Return a Python value as an entry keeps it; None for what is not finite."""
    match value:
        case bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return value.hex()
        case UUID():
            return value.hex
        case datetime.datetime():
            text = value.replace(tzinfo=None).isoformat()
            return text + "Z" if type_ is Primitive.TIMESTAMPTZ else text
        case datetime.date() | datetime.time():
            return value.isoformat()
        case Number():
            return format(value, "f")
        case _:
            return None


def from_scalar(value: Any, type_: Type) -> Any:
    """Return the Python value that a JSON value says, UUIDs as their bytes.

    Raises `ValueError`, `TypeError` or `ArithmeticError` for what says none of the type. Whether
    a number fits its type, or bytes have its length, is the caller's to ask.
    """
    match type_:
        case Primitive.BOOLEAN:
            return _checked(value, bool)
        case Primitive.INT | Primitive.LONG:
            return _checked(value, int)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return float(_checked(value, (int, float)))
    text = _checked(value, str)
    match type_:
        case Primitive.DATE:
            return datetime.date.fromisoformat(text)
        case Primitive.TIME:
            return datetime.time.fromisoformat(text)
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return datetime.datetime.fromisoformat(text)
        case Decimal():
            return Number(text)
        case Primitive.UUID:
            return UUID(text).bytes
        case Primitive.BINARY | Fixed():
            return bytes.fromhex(text)
        case _:
            return text


def _checked(value: Any, kinds: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise TypeError(f"{value!r} is of another type")
    return value
