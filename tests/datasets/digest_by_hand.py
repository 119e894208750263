"""Digests by hand: `docs/format/digests.md` for one value at a time, in numbers of Python.

Nothing of the package's hashing is used, so what both agree on is what the page says.
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal as DecimalType
from havasu_vc.model.types import Field, List, Map, Primitive, Struct

ALL = (1 << 64) - 1
STEP, FIELD = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
NULL, LANE = 0xA0761D6478BD642F, 0xC2B2AE3D27D4EB4F
EPOCH = dt.datetime(1970, 1, 1)
Digests = dict[int, tuple[int, int]]


def mix(number: int) -> int:
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & ALL
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & ALL
    return number ^ number >> 31


def of_bytes(data: bytes) -> int:
    words = [data[at : at + 8].ljust(8, b"\0") for at in range(0, len(data), 8)]
    mixed = (
        mix((int.from_bytes(word, "little") + index * STEP) & ALL)
        for index, word in enumerate(words, 1)
    )
    return mix((sum(mixed) + len(data)) & ALL)


def cell(key: int, field: int, value: int) -> int:
    return mix(key ^ mix((value + field * FIELD) & ALL))


def of_number(value: Any) -> int:
    match value:
        case bool() | int():
            return mix(int(value) & ALL)
        case float():
            bits = 0x7FF8000000000000 if value != value else None
            return mix(struct.unpack("<Q", struct.pack("<d", value))[0] if bits is None else bits)
        case dt.datetime():
            return mix((value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1) & ALL)
        case dt.date():
            return mix((value - EPOCH.date()).days & ALL)
        case dt.time():
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return mix(seconds * 1_000_000 + value.microsecond)
    raise TypeError(f"{value!r} is no number")


def of_decimal(value: Decimal, scale: int) -> int:
    unscaled = int(value.scaleb(scale))
    low, high = unscaled & ALL, unscaled >> 64 & ALL
    small = high == (ALL if low >> 63 else 0)
    return mix(low) if small else mix(low ^ mix(high))


def in_order(hashes: Sequence[int]) -> int:
    placed = sum(mix((each + index * STEP) & ALL) for index, each in enumerate(hashes, 1))
    return mix((placed + len(hashes)) & ALL)


def of_value(value: Any, field: Field) -> int:
    if field.geometry is not None:
        return of_geometry(value)
    match field.type:
        case Struct(parts):
            named = [(part, value[part.name]) for part in parts]
            cells = (cell(0, p.id, of_value(v, p)) for p, v in named if v is not None)
            return mix(sum(cells) & ALL)
        case List(element):
            return in_order([_or_null(each, element) for each in value])
        case Map(key, item):
            pairs = ((of_value(k, key), _or_null(v, item)) for k, v in value)
            return in_order([mix((k + mix(v)) & ALL) for k, v in pairs])
        case DecimalType(_, scale):
            return of_decimal(value, scale)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return of_number(float(value))
    match value:
        case str():
            return of_bytes(value.encode())
        case bytes():
            return of_bytes(value)
        case uuid.UUID():
            return of_bytes(value.bytes)
    return of_number(value)


def _or_null(value: Any, field: Field) -> int:
    return NULL if value is None else of_value(value, field)


def of_geometry(ewkb: bytes) -> int:
    """Return the hash of a little-endian EWKB: of the WKB without an SRID, then the SRID."""
    kind = int.from_bytes(ewkb[1:5], "little")
    if not kind & 0x20000000:
        return of_bytes(ewkb)
    srid = int.from_bytes(ewkb[5:9], "little")
    plain = ewkb[:1] + (kind & ~0x20000000).to_bytes(4, "little") + ewkb[9:]
    return mix((of_bytes(plain) + srid) & ALL) if srid else of_bytes(plain)


def of_rows(rows: Iterable[Mapping[str, Any]], schema: Schema) -> Digests:
    """Return the digests of all columns over rows by name."""
    sums = {field.id: [0, 0] for field in schema.fields}
    keyed = sorted(schema.key.fields, key=lambda field: field.id)
    for row in rows:
        there = [field for field in schema.fields if row[field.name] is not None]
        key = 0
        for field in keyed:
            value = of_value(row[field.name], field)
            key = mix((key + mix((value + field.id * FIELD) & ALL)) & ALL)
        if not keyed:
            values = (of_value(row[f.name], f) + f.id * FIELD for f in there)
            key = mix(sum(mix(each & ALL) for each in values) & ALL)
        for field in there:
            first = cell(key, field.id, of_value(row[field.name], field))
            sums[field.id][0] += first
            sums[field.id][1] += mix(first ^ LANE)
    return {number: (first & ALL, second & ALL) for number, (first, second) in sums.items()}
