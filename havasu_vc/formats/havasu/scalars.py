"""Single values as entries keep them: the plainest JSON that says them exactly.

>>> to_scalar(datetime.date(2024, 2, 29), Primitive.DATE)
'2024-02-29'
>>> to_scalar(b"Havasu", Primitive.BINARY)
'486176617375'
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

from havasu_vc.formats.havasu.entry import Scalar
from havasu_vc.model.types import Primitive, Type

__all__ = ["to_scalar"]


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
        case Decimal():
            return format(value, "f")
        case _:
            return None
