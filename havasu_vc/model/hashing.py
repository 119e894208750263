"""Vectorised hashes of values, rows and columns: one number per row, a column at a time.

The hash of a value depends on the value alone: not on its position, on chunking, or
on the width of the type that holds it, so that a widened column keeps its hashes.
Nulls have no hash; every function says where there was one.

The functions, all modulo 2^64, with the constants below (`docs/format/digests.md`):

    mix(x)            the finaliser of SplitMix64
    number(v)         mix(v as 64 bits): integers two's complement, floats as the bits
                      of the double with one NaN, booleans 0 and 1
    bytes(b)          mix(sum over words i of mix(word_i + (i + 1) * STEP) + len(b)), where
                      the words are 8 bytes, little endian, the last padded with zeros
    struct, list      built from the hashes inside, by field id and by position; the parts
                      of a raster count as 1 to 42, whatever block of ids the column has
    cell(k, f, v)     mix(k ^ mix(v + f * FIELD)): value v of field f in the row of key k

They find mistakes and pair rows quickly; they are no defence against tampering.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.model import compute as pc
from havasu_vc.model.rasters import RASTER_PARTS, raster_fields
from havasu_vc.model.types import TYPES, Decimal, Field, Hashed, List, Map, Primitive, Struct

__all__ = ["Hashes", "cell_hashes", "hash_values", "mix", "mix_here"]

Hashes = npt.NDArray[np.uint64]
"""One 64-bit hash per row."""

STEP = np.uint64(0x9E3779B97F4A7C15)
FIELD = np.uint64(0xD6E8FEB86659FD93)
NULL = np.uint64(0xA0761D6478BD642F)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_NAN = np.uint64(0x7FF8000000000000)
_RASTER = Struct(raster_fields(tuple(range(1, RASTER_PARTS + 1))))
_BLOCK = 1 << 15
"""Rows mixed at a time, so that they stay in the processor's cache."""
_ALL = (1 << 64) - 1
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""Masks that keep so many bytes of a word."""
_MOST_WORDS = 8
"""Values of at most so many words are hashed word by word, if most have about as many."""
_BYTES = 1 << 19
"""Bytes hashed at a time: each takes as many again, several times."""


def mix(values: Hashes) -> Hashes:
    """Return each number scrambled."""
    mixed = values.copy()
    mix_here(mixed)
    return mixed


def mix_here(values: Hashes) -> None:
    """Scramble numbers that nobody else has, where they are: a tenth of hashing was copies."""
    scratch = np.empty(min(len(values), _BLOCK), np.uint64)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        part = scratch[: len(block)]
        np.right_shift(block, np.uint64(30), out=part)
        np.bitwise_xor(block, part, out=block)
        np.multiply(block, _FIRST, out=block)
        np.right_shift(block, np.uint64(27), out=part)
        np.bitwise_xor(block, part, out=block)
        np.multiply(block, _SECOND, out=block)
        np.right_shift(block, np.uint64(31), out=part)
        np.bitwise_xor(block, part, out=block)


def cell_hashes(keys: Hashes, field_id: int, values: Hashes) -> Hashes:
    """Return the hash of each cell of one column; the caller leaves nulls out."""
    shift = np.uint64(field_id * int(FIELD) & _ALL)
    cells = values + shift
    mix_here(cells)
    cells ^= keys
    mix_here(cells)
    return cells


def hash_values(column: pa.Array, field: Field) -> Hashes:
    """Return the hash of each value; what stands for a null means nothing."""
    type_ = field.type if field.raster is None else _RASTER
    match type_:
        case Struct(fields):
            return _struct(column, fields)
        case List(element):
            return _list(column, element)
        case Map(key, value):
            return _map(column, key, value)
        case Decimal():
            return _decimal(column)
        case Primitive():
            return _primitive(column, TYPES[type_].hashed)
        case _:
            return _fixed(column)


def _primitive(column: pa.Array, hashed: Hashed) -> Hashes:
    match hashed:
        case Hashed.BYTES:
            return _bytes(column)
        case Hashed.FIXED:
            return _fixed(column)
        case Hashed.BIT:
            return mix(pc.fill_null(pc.cast(column, pa.uint8()), 0).to_numpy().astype(np.uint64))
        case Hashed.FLOAT:
            return mix(_float_bits(column))
        case Hashed.WHOLE:
            return mix(_integers(column))


def _integers(column: pa.Array) -> Hashes:
    bits = column.type.bit_width
    dtype = np.int32 if bits == 32 else np.int64
    numbers = _buffer_view(column, np.dtype(dtype))
    return numbers.astype(np.int64, copy=False).view(np.uint64)


def _float_bits(column: pa.Array) -> Hashes:
    dtype = np.dtype(np.float32 if column.type.bit_width == 32 else np.float64)
    numbers = _buffer_view(column, dtype).astype(np.float64)
    bits = numbers.view(np.uint64)
    bits[np.isnan(numbers)] = _NAN
    return bits


def _buffer_view(column: pa.Array, dtype: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(data, dtype, count=len(column), offset=column.offset * dtype.itemsize)


def _decimal(column: pa.Array) -> Hashes:
    words = np.frombuffer(
        column.buffers()[1] or b"", np.uint64, count=2 * len(column), offset=16 * column.offset
    ).reshape(len(column), 2)
    # A number that fits 64 bits hashes as that integer, so that precision may widen.
    low = words[:, 0]
    small = words[:, 1].view(np.int64) == (low.view(np.int64) >> np.int64(63))
    return np.where(small, mix(low), mix(low ^ mix(words[:, 1])))


def _fixed(column: pa.Array) -> Hashes:
    width = column.type.byte_width
    data = column.buffers()[1]
    offsets = np.arange(len(column) + 1, dtype=np.int64) * width
    start = column.offset * width
    raw = np.frombuffer(data, np.uint8)[start:] if data is not None else np.empty(0, np.uint8)
    return hash_ragged(raw, offsets)


def _bytes(column: pa.Array) -> Hashes:
    _, offsets_buffer, data = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(column) + 1, column.offset * 4)
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return hash_ragged(raw, offsets.astype(np.int64))


def hash_ragged(raw: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    """Return the hash of each run of bytes between two offsets."""
    hashes = np.empty(len(offsets) - 1, np.uint64)
    start = 0
    while start < len(hashes):
        end = int(np.searchsorted(offsets, offsets[start] + _BYTES, "right")) - 1
        end = min(end, start + (1 << 16), len(hashes))
        if end > start:
            hashes[start:end] = _hash_block(raw, offsets[start : end + 1])
        else:
            end = start + 1
            hashes[start] = _hash_long(raw[offsets[start] : offsets[end]])
        start = end
    return hashes


def _hash_long(value: npt.NDArray[np.uint8]) -> np.uint64:
    """Return the hash of one value that is more than a block, piece by piece."""
    total = np.zeros(1, np.uint64)
    for start in range(0, len(value), _BYTES):
        piece = value[start : start + _BYTES]
        padded = np.zeros((len(piece) + 7) & ~7, np.uint8)
        padded[: len(piece)] = piece
        words = padded.view(np.uint64)
        first = (start >> 3) + 1
        words += np.arange(first, first + len(words), dtype=np.uint64) * STEP
        total += mix(words).sum(dtype=np.uint64)
    return np.uint64(mix(total + np.uint64(len(value)))[0])


def _hash_block(raw: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    lengths = np.diff(offsets)
    counts = (lengths + 7) >> 3
    most = int(counts.max())
    # Copied with room to spare, so that as many words can be read at any offset.
    block = np.zeros(int(offsets[-1] - offsets[0]) + 8 * max(most, 1), np.uint8)
    block[: offsets[-1] - offsets[0]] = raw[offsets[0] : offsets[-1]]
    anywhere: Hashes = np.ndarray((len(block) - 7,), np.uint64, block.data, strides=(1,))
    begins = offsets[:-1] - offsets[0]
    if most <= _MOST_WORDS and most * len(counts) <= 2 * int(counts.sum()):
        sums = _sums_by_word(anywhere, begins, lengths, most)
    else:
        sums = _sums_by_value(anywhere, begins, lengths, counts)
    sums += lengths.astype(np.uint64)
    mix_here(sums)
    return sums


def _sums_by_word(
    anywhere: Hashes,
    begins: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    most: int,
) -> Hashes:
    """Return the sum of the words of each value: all first ones, all second ones, and so on.

    Short values take half the time that `_sums_by_value` does, of one length a fifth: their
    words are evenly apart.
    """
    sums = np.zeros(len(lengths), np.uint64)
    shortest, longest = int(lengths.min()), int(lengths.max())
    for number in range(most):
        if shortest == longest:
            words = anywhere[8 * number :: longest][: len(lengths)].copy()
        else:
            words = anywhere[begins + 8 * number]
        if shortest < 8 * (number + 1):
            left = lengths - 8 * number
            words &= _FIRST_BYTES[left.clip(0, 8)] if shortest < longest else _FIRST_BYTES[left[0]]
        words += np.uint64((number + 1) * int(STEP) & _ALL)
        mix_here(words)
        if shortest <= 8 * number:
            words[left <= 0] = 0
        sums += words
    return sums


def _sums_by_value(
    anywhere: Hashes,
    begins: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> Hashes:
    """Return the sum of the words of each value, all words of one after those of the other."""
    ends = np.cumsum(counts)
    index = np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - counts, counts)
    words = anywhere[np.repeat(begins, counts) + (index << 3)]
    some = counts > 0
    words[ends[some] - 1] &= _FIRST_BYTES[(lengths[some] - 1 & 7) + 1]
    words += (index + 1).astype(np.uint64) * STEP
    mix_here(words)
    return _segment_sums(words, ends, counts)


def _segment_sums(
    values: Hashes, ends: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> Hashes:
    running = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=running[1:])
    sums: Hashes = running[ends] - running[ends - counts]
    return sums


def _struct(column: pa.StructArray, fields: tuple[Field, ...]) -> Hashes:
    total = np.zeros(len(column), np.uint64)
    for field, child in zip(fields, column.flatten(), strict=True):
        hashes = cell_hashes(np.zeros(len(child), np.uint64), field.id, hash_values(child, field))
        total += _without_nulls(hashes, child, np.uint64(0))
    return mix(total)


def _list(column: pa.ListArray, element: Field) -> Hashes:
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return _positional(_hash_child(values, element), offsets - offsets[0])


def _map(column: pa.MapArray, key: Field, value: Field) -> Hashes:
    offsets = column.offsets.to_numpy().astype(np.int64)
    first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = _hash_child(column.keys.slice(first, length), key)
    values = _hash_child(column.items.slice(first, length), value)
    return _positional(mix(keys + mix(values)), offsets - first)


def _hash_child(values: pa.Array, field: Field) -> Hashes:
    return _without_nulls(hash_values(values, field), values, NULL)


def _positional(values: Hashes, offsets: npt.NDArray[np.int64]) -> Hashes:
    counts = np.diff(offsets)
    index = np.arange(len(values), dtype=np.int64) - np.repeat(offsets[:-1], counts)
    placed = mix(values + (index + 1).astype(np.uint64) * STEP)
    sums = _segment_sums(placed, offsets[1:], counts)
    return mix(sums + counts.astype(np.uint64))


def _without_nulls(hashes: Hashes, column: pa.Array, instead: np.uint64) -> Hashes:
    if column.null_count:
        hashes[~pc.is_valid(column).to_numpy(zero_copy_only=False)] = instead
    return hashes
