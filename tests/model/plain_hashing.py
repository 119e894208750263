"""The hashes of `docs/format/digests.md` in plain Python, one value at a time.

It follows the page and shares nothing with `model.hashing`, so that each proves the other.
"""

from __future__ import annotations

import datetime
import math
import struct
from decimal import Context
from decimal import Decimal as Number
from typing import Any

from havasu_vc.model.types import Decimal, Field, Fixed, List, Map, Primitive, Struct

ALL = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
FIELD = 0xD6E8FEB86659FD93
NULL = 0xA0761D6478BD642F
LANE = 0xC2B2AE3D27D4EB4F


def mix(x: int) -> int:
    """Scramble 64 bits."""
    x &= ALL
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & ALL
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & ALL
    return x ^ x >> 31


def hash_bytes(data: bytes) -> int:
    """Hash a run of bytes."""
    total = len(data)
    for number, start in enumerate(range(0, len(data), 8), 1):
        word = int.from_bytes(data[start : start + 8].ljust(8, b"\0"), "little")
        total += mix(word + number * STEP)
    return mix(total)


def cell(key: int, field_id: int, value: int) -> int:
    """Hash one cell of a row."""
    return mix(key ^ mix(value + field_id * FIELD))


def micros(value: datetime.timedelta) -> int:
    """Count whole microseconds."""
    return value // datetime.timedelta(microseconds=1)


def hash_value(value: Any, field: Field) -> int:
    """Hash a value that is not null."""
    match field.type:
        case Primitive.STRING:
            return hash_bytes(value.encode())
        case Primitive.BINARY | Primitive.UUID | Fixed():
            return hash_bytes(value)
        case Primitive.FLOAT | Primitive.DOUBLE:
            bits = 0x7FF8000000000000
            if not math.isnan(value):
                (bits,) = struct.unpack("<Q", struct.pack("<d", value))
            return mix(bits)
        case Primitive.DATE:
            return mix((value - datetime.date(1970, 1, 1)).days)
        case Primitive.TIME:
            midnight = datetime.datetime.combine(datetime.date.min, datetime.time())
            return mix(micros(datetime.datetime.combine(datetime.date.min, value) - midnight))
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            epoch = datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo)
            return mix(micros(value - epoch))
        case Primitive():
            return mix(int(value))
        case Decimal(_, scale):
            return hash_decimal(int(Number(value).scaleb(scale, Context(prec=60))))
        case Struct(fields):
            return mix(
                sum(
                    cell(0, f.id, hash_value(value[f.name], f))
                    for f in fields
                    if value[f.name] is not None
                )
            )
        case List(element):
            return positional([or_null(item, element) for item in value])
        case Map(key, inner):
            pairs = [(hash_value(k, key), or_null(v, inner)) for k, v in value]
            return positional([mix(k + mix(v)) for k, v in pairs])


def hash_decimal(unscaled: int) -> int:
    """Hash a decimal by its unscaled number."""
    low, high = unscaled & ALL, unscaled >> 64 & ALL
    if -(1 << 63) <= unscaled < 1 << 63:
        return mix(low)
    return mix(low ^ mix(high))


def or_null(value: Any, field: Field) -> int:
    """Hash a value inside a list or map, where a null counts."""
    return NULL if value is None else hash_value(value, field)


def positional(hashes: list[int]) -> int:
    """Hash a sequence."""
    return mix(len(hashes) + sum(mix(h + number * STEP) for number, h in enumerate(hashes, 1)))


def key_hash(values: dict[int, int]) -> int:
    """Hash a key from its columns' hashes by field id."""
    combined = 0
    for field_id in sorted(values):
        combined = mix(combined + mix(values[field_id] + field_id * FIELD))
    return combined


def whole_row_key(values: dict[int, int | None]) -> int:
    """Hash a row of a table without a key, from its columns' hashes by field id."""
    return mix(sum(mix(v + f * FIELD) for f, v in values.items() if v is not None))


def digest(cells: list[int]) -> tuple[int, int]:
    """Sum the cells of a column in two lanes."""
    return sum(cells) & ALL, sum(mix(each ^ LANE) for each in cells) & ALL
