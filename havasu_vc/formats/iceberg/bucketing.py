"""The transform `bucket`: Murmur3 (32 bits, x86, seed 0) of a value, of one and of arrays.

Integers, dates, times and timestamps are hashed as 8 bytes, little-endian; decimals as
their unscaled value in as few bytes as hold it, UUIDs, text and bytes as they are.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.formats.iceberg.single_values import decimal_bytes, to_plain
from havasu_vc.model import kernels as pc
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type

__all__ = ["bucket", "bucket_array", "murmur3"]

Words: TypeAlias = npt.NDArray[np.uint32]

_C1, _C2 = 0xCC9E2D51, 0x1B873593
_POSITIVE = 0x7FFFFFFF


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _mixed(words: Words) -> Words:
    return _rotated(words * np.uint32(_C1), 15) * np.uint32(_C2)


def _hashes(rows: npt.NDArray[np.uint8]) -> Words:
    """Return the hash of each row of a matrix of bytes."""
    count, length = rows.shape
    whole = length // 4
    state = np.zeros(count, np.uint32)
    words = np.ascontiguousarray(rows[:, : whole * 4]).view("<u4").reshape(count, whole)
    for column in range(whole):
        state ^= _mixed(words[:, column])
        state = _rotated(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    if length % 4:
        tail = np.zeros(count, np.uint32)
        for index in range(length - 1, whole * 4 - 1, -1):
            tail = (tail << np.uint32(8)) | rows[:, index]
        state ^= _mixed(tail)
    state ^= np.uint32(length)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def murmur3(data: bytes) -> int:
    """Return the hash of bytes.

    >>> murmur3(b"iceberg")
    1210000089
    """
    rows = np.frombuffer(data, np.uint8).reshape(1, len(data))
    return int(_hashes(rows)[0])


def bucket(plain: Any, source: Type, count: int) -> int:
    """Return the bucket of a value as `single_values.to_plain` gives it."""
    match source:
        case Primitive.STRING:
            data = plain.encode()
        case Primitive.BINARY | Primitive.UUID | Fixed():
            data = bytes(plain)
        case Decimal():
            data = decimal_bytes(plain)
        case _:
            data = int(plain).to_bytes(8, "little", signed=True)
    return (murmur3(data) & _POSITIVE) % count


def bucket_array(values: pa.Array, source: Type, count: int) -> pa.Array:
    """Return the bucket of each value of an Arrow array."""
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    match source:
        case Primitive.STRING | Primitive.BINARY | Primitive.UUID | Fixed():
            hashes = _of_bytes(values, missing)
        case Decimal():
            unique = pc.dictionary_encode(values)
            each = [
                None if value is None else decimal_bytes(to_plain(value, source))
                for value in unique.dictionary.to_pylist()
            ]
            taken = pc.take(pa.array(each, pa.binary()), unique.indices)
            hashes = _of_bytes(taken, missing)
        case _:
            hashes = _hashes(_integers(values).view(np.uint8).reshape(len(values), 8))
    buckets = (hashes & np.uint32(_POSITIVE)) % np.uint32(count)
    return pa.array(buckets.astype(np.int32), pa.int32(), mask=missing)


def _integers(values: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_date32(values.type) or pa.types.is_time32(values.type):
        values = pc.cast(values, pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = pc.cast(values, pa.timestamp("us", values.type.tz), safe=False)
    plain = pc.fill_null(pc.cast(values, pa.int64()), 0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(plain.astype("<i8"))


def _of_bytes(values: pa.Array, missing: npt.NDArray[np.bool_]) -> Words:
    """Return the hash of each value, taking those of one length together."""
    stored = pc.cast(values, pa.large_binary())
    lengths = pc.fill_null(pc.binary_length(stored), 0).to_numpy(zero_copy_only=False)
    hashes = np.zeros(len(values), np.uint32)
    offsets = np.frombuffer(stored.buffers()[1], np.int64)[stored.offset :]
    body = stored.buffers()[2]
    content = np.frombuffer(body, np.uint8) if body is not None else np.zeros(0, np.uint8)
    for length in np.unique(lengths):
        rows = np.flatnonzero((lengths == length) & ~missing)
        if rows.size == 0:
            continue
        if length == 0:
            hashes[rows] = murmur3(b"")
            continue
        starts = offsets[rows]
        hashes[rows] = _hashes(content[starts[:, None] + np.arange(length)])
    return hashes
