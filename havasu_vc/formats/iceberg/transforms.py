"""Partition transforms: how a column's value becomes the value that its files share.

    identity  bucket[N]  truncate[W]  year  month  day  hour  void

Any other is kept by name and can neither be applied nor written for. Applied to an Arrow
array the work is vectorised; null stays null.

>>> parse_transform("bucket[16]").apply(34, Primitive.INT)
3
>>> parse_transform("truncate[10]").apply(-1, Primitive.INT)
-10
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal as Number
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, UnsupportedError
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.single_values import decimal_bytes, from_plain, to_plain
from havasu_vc.model import compute as pc
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Fixed, Primitive, Type, is_whole
from havasu_vc.records import dataclass

__all__ = [
    "Transform",
    "bucket",
    "bucket_array",
    "field_names",
    "murmur3",
    "parse_spec",
    "parse_transform",
    "partition_types",
    "since_epoch",
    "since_epoch_array",
    "truncate",
    "truncate_array",
]


_TRANSFORM = re.compile(r"(bucket|truncate)\[(\d{1,9})\]|(identity|year|month|day|hour|void)")
_TEXTS = frozenset((Primitive.STRING, Primitive.BINARY))
_INSTANTS = frozenset((Primitive.TIMESTAMP, Primitive.TIMESTAMPTZ))
_UNHASHED = frozenset((Primitive.BOOLEAN, Primitive.FLOAT, Primitive.DOUBLE))


@dataclass(frozen=True, slots=True)
class Transform:
    """One transform.

    >>> str(parse_transform("Bucket[ 4 ]".replace(" ", "").lower()))
    'bucket[4]'
    """

    kind: str
    """`identity`, `bucket`, `truncate`, `year`, `month`, `day`, `hour`, `void`, or unknown."""
    width: int | None = None
    """Buckets, or the width of `truncate`."""
    known: bool = True
    """Whether it can be applied."""

    def __str__(self) -> str:
        return self.kind if self.width is None else f"{self.kind}[{self.width}]"

    def accepts(self, source: Type) -> bool:
        """Whether a column of that type can be transformed."""
        match self.kind:
            case "void":
                return True
            case "identity":
                return isinstance(source, Primitive | Decimal | Fixed)
            case "bucket":
                simple = isinstance(source, Primitive | Decimal | Fixed)
                return simple and source not in _UNHASHED
            case "truncate":
                return is_whole(source) or source in _TEXTS or isinstance(source, Decimal)
            case "year" | "month" | "day":
                return source is Primitive.DATE or source in _INSTANTS
            case "hour":
                return source in _INSTANTS
            case _:
                return False

    def result_type(self, source: Type) -> Type:
        """Return the type of what it makes of a column of a type."""
        if not self.accepts(source):
            raise UnsupportedError(
                f"partition transform {self} cannot be used on {source}",
                hints=("only plain columns can be partitioned by, and geometries never",),
            )
        match self.kind:
            case "bucket" | "year" | "month" | "hour":
                return Primitive.INT
            case "day":
                return Primitive.DATE
            case _:
                return source

    def apply(self, value: Any, source: Type) -> Any:
        """Return what it makes of one Python value."""
        result = self.result_type(source)
        if value is None or self.kind == "void":
            return None
        match self.kind:
            case "bucket":
                assert self.width is not None
                return bucket(to_plain(value, source), source, self.width)
            case "truncate":
                assert self.width is not None
                return truncate(value, source, self.width)
            case "identity":
                return value
            case _:
                return since_epoch(value, source, self.kind, result)

    def apply_array(self, values: pa.Array, source: Type) -> pa.Array:
        """Return what it makes of each value of an Arrow array."""
        result = self.result_type(source)
        match self.kind:
            case "identity":
                return values
            case "void":
                return pa.nulls(len(values), values.type)
            case "bucket":
                assert self.width is not None
                return bucket_array(values, source, self.width)
            case "truncate":
                assert self.width is not None
                return truncate_array(values, source, self.width)
            case _:
                return since_epoch_array(values, self.kind, result)


def parse_transform(text: str) -> Transform:
    """Return the transform of a name; one that is not known is kept as it is."""
    match = _TRANSFORM.fullmatch(text)
    if match is None:
        return Transform(text, known=False)
    if match[3]:
        return Transform(match[3])
    width = int(match[2])
    return Transform(match[1], width) if width else Transform(text, known=False)


# The transform `bucket`: Murmur3 (32 bits, x86, seed 0) of a value, of one and of arrays.
#
# Integers, dates, times and timestamps are hashed as 8 bytes, little-endian; decimals as
# their unscaled value in as few bytes as hold it, UUIDs, text and bytes as they are.

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


# The transforms `truncate`, `year`, `month`, `day` and `hour`, of one value and of arrays.

_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_HOUR = 3_600_000_000
_DAY = 24 * _HOUR


def truncate(value: Any, source: Type, width: int) -> Any:
    """Return a number rounded down to a multiple, or the first so many characters or bytes."""
    match source:
        case Primitive.INT | Primitive.LONG:
            return value - value % width
        case Decimal():
            unscaled = to_plain(value, source)
            number: Number = from_plain(unscaled - unscaled % width, source)
            return number
        case _:
            return value[:width]


def truncate_array(values: pa.Array, source: Type, width: int) -> pa.Array:
    """Return `truncate` of each value."""
    match source:
        case Primitive.INT | Primitive.LONG:
            filled = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
            kept = filled - filled % filled.dtype.type(width)
            return pa.array(
                kept, values.type, mask=pc.is_null(values).to_numpy(zero_copy_only=False)
            )
        case Primitive.STRING:
            return pc.utf8_slice_codeunits(values, 0, width)
        case Primitive.BINARY:
            return pc.binary_slice(values, 0, width)
        case _:
            unique = pc.dictionary_encode(values)
            cut = [
                None if value is None else _held(truncate(value, source, width), value, source)
                for value in unique.dictionary.to_pylist()
            ]
            return pc.take(pa.array(cut, values.type), unique.indices)


def _held(cut: Number, value: Number, source: Type) -> Number:
    """Return a decimal that its type holds. Iceberg, too, writes no partition of more digits."""
    if isinstance(source, Decimal) and abs(to_plain(cut, source)) >= 10**source.precision:
        raise InvalidArgumentError(
            f"{value} is rounded down to {cut}, which is beyond {source}",
            hints=("partition by the column itself, by bucket(16, …) or by another width",),
        )
    return cut


def since_epoch(value: Any, source: Type, unit: str, result: Type) -> Any:
    """Return the years, months, days or hours from 1970 on to a date or an instant."""
    plain = to_plain(value, source)
    if unit == "hour":
        return plain // _HOUR
    days = plain if source is Primitive.DATE else plain // _DAY
    if unit == "day":
        return from_plain(days, result)
    then = date(1970, 1, 1) + timedelta(days=days)
    years = then.year - 1970
    return years if unit == "year" else years * 12 + then.month - 1


def since_epoch_array(values: pa.Array, unit: str, result: Type) -> pa.Array:
    """Return `since_epoch` of each value."""
    if pa.types.is_timestamp(values.type):
        values = pc.cast(values, pa.timestamp(values.type.unit))
    times = values.to_numpy(zero_copy_only=False)
    counts = times.astype(f"datetime64[{_UNITS[unit]}]").astype(np.int64)
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    plain = pa.array(np.where(missing, 0, counts).astype(np.int32), pa.int32(), mask=missing)
    return pc.cast(plain, pa.date32()) if result is Primitive.DATE else plain


# A partition spec as people write it: `bucket(16, id), days(at), country`.
#
# The words are Spark's: `years`, `months`, `days`, `hours`, `bucket(N, column)`,
# `truncate(W, column)` (also `truncate(column, W)`), or a column alone. Fields get the
# names and ids that Iceberg would give them.

_PART = re.compile(r"\s*(?:(?P<word>\w+)\s*\((?P<inside>[^()]*)\)|(?P<column>[^(),]+))\s*(?:,|$)")
_TIMES = {"year": "year", "month": "month", "day": "day", "hour": "hour", "date": "day"}
_SUFFIX = {"truncate": "trunc"}
_FIRST_ID = 1000
_HINT = "write it as in 'bucket(16, id), days(at), country'"


def parse_spec(text: str, schema: Schema) -> PartitionSpec:
    """Return the partition spec that a text describes for some columns.

    >>> from havasu_vc.model.types import Field
    >>> schema = Schema((Field(1, "id", Primitive.INT),))
    >>> parse_spec("bucket(16, id)", schema).fields[0].name
    'id_bucket'
    """
    fields: list[PartitionField] = []
    at = 0
    while at < len(text) or not fields:
        match = _PART.match(text, at)
        if match is None or match.end() == at:
            raise InvalidArgumentError(f"{text!r} is no partition spec", hints=(_HINT,))
        at = match.end()
        column, transform = _read(match, text)
        source = _source(column, schema)
        _check(transform, source)
        name = field_names(source.name, transform)[0]
        for field in fields:
            if (
                field.source_id == source.id
                and field_names(source.name, field.transform)[0] == name
            ):
                raise InvalidArgumentError(f"{text!r} has {name} twice", hints=(_HINT,))
        if any(field.name == name for field in fields):  # as a column `n_bucket` beside `n`
            name = f"{name}_{len(fields) + 1}"
        fields.append(PartitionField(source.id, _FIRST_ID + len(fields), name, transform))
    return PartitionSpec(tuple(fields))


def field_names(column: str, transform: str) -> tuple[str, ...]:
    """Return what Iceberg calls a partition field: where a table is made, and where it changes.

    >>> field_names("id", "bucket[16]")
    ('id_bucket', 'id_bucket_16')
    """
    made = parse_transform(transform)
    if made.kind == "identity":
        return (column,)
    name = f"{column}_{_SUFFIX.get(made.kind, made.kind)}"
    return (name,) if made.width is None else (name, f"{name}_{made.width}")


def _read(match: re.Match[str], text: str) -> tuple[str, str]:
    """Return the column and the transform of one part."""
    if match["column"] is not None:
        return match["column"].strip(), "identity"
    word = match["word"].lower()
    inside = [part.strip() for part in match["inside"].split(",")]
    if word == "identity" and len(inside) == 1:
        return inside[0], "identity"
    if word.removesuffix("s") in _TIMES and len(inside) == 1:
        return inside[0], _TIMES[word.removesuffix("s")]
    if word in ("bucket", "truncate") and len(inside) == 2:
        width, column = inside if inside[0].isdigit() else reversed(inside)
        if re.fullmatch(r"[1-9]\d{0,8}", width):
            return column, f"{word}[{width}]"
    raise InvalidArgumentError(f"{text!r} is no partition spec", hints=(_HINT,))


def _source(name: str, schema: Schema) -> Field:
    bare = name.strip("`")
    found = schema.by_name.get(bare)
    if found is None:
        raise InvalidArgumentError(
            f"there is no column {bare!r} to partition by",
            hints=(f"columns are {', '.join(schema.names)}",),
        )
    return found


def _check(transform: str, source: Field) -> None:
    if source.geometry is not None or source.raster is not None:
        raise InvalidArgumentError(
            f"{source.name} holds geometries or rasters, which nothing is partitioned by",
            hints=("without a spec rows are sorted along a Hilbert curve of their geometries",),
        )
    try:
        parse_transform(transform).result_type(source.type)
    except UnsupportedError as error:
        raise InvalidArgumentError(error.message, hints=error.hints) from error
    if transform == "identity" and source.type in (Primitive.FLOAT, Primitive.DOUBLE):
        raise InvalidArgumentError(f"{source.name} holds floats, which are no partitions")


def partition_types(spec: PartitionSpec, schema: Schema) -> tuple[tuple[int, str, Type], ...]:
    """Return the id, name and type of each value that the files of a spec share.

    The source of a `void` field may be gone; its value is always null.
    """
    by_id = {column.id: column for column in schema.fields}
    types: list[tuple[int, str, Type]] = []
    for part in spec.fields:
        transform = parse_transform(part.transform)
        source = by_id.get(part.source_id)
        if source is None and transform.kind != "void":
            raise ValueError(f"partition field {part.name!r} has no source column")
        result: Type = Primitive.INT
        if source is not None and isinstance(source.type, Primitive | Decimal | Fixed):
            result = transform.result_type(source.type)
        types.append((part.field_id, part.name, result))
    return tuple(types)
