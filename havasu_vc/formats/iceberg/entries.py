"""Our entries as Iceberg's data files.

What an entry says in typed JSON becomes single values under the column's type, exactly:
text and bytes are cut to 16 characters or bytes, upper bounds rounded up, NaN is never a
bound, and a zero is -0.0 below and 0.0 above. Columns that repeat (in lists and maps) and
geometries have no ordinary bounds. Bounds of geometries and rasters become two points, as
little-endian WKB without SRID; the lower one of rasters may lie east of the upper one.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.entry import Content, Entry, Scalar, from_scalar
from havasu_vc.formats.havasu.properties import PartitionSpec
from havasu_vc.formats.iceberg.single_values import to_plain, to_single_value
from havasu_vc.formats.iceberg.transforms import partition_types
from havasu_vc.formats.iceberg.values import (
    DataFile,
    FieldSummary,
    Flavour,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Primitive, Type, children

__all__ = ["corner", "data_file_of", "manifest_file_of", "point_of", "summaries_of"]


LONGEST = 16
"""Bounds of text and bytes are cut to so many characters or bytes."""

_POINT = struct.Struct("<BIdd")
_SRID = 0x2000_0000


def data_file_of(
    entry: Entry,
    path: str,
    *,
    schema: Schema,
    spec: PartitionSpec = PartitionSpec(),  # noqa: B008 - a frozen value
    flavour: Flavour = Flavour.HAVASU,
    sort_order_id: int | None = None,
) -> DataFile:
    """Return a data file as a manifest describes it; `path` is where the table has it."""
    if entry.content is not Content.DATA:
        raise ValueError(f"{entry.file} is no data file")
    sizes, values, nulls, nans = {}, {}, {}, {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for leaf, repeated in _leaves(schema.fields, False):
        statistics = entry.statistics.get(leaf.id)
        if statistics is None:
            continue
        sizes[leaf.id] = statistics.size
        values[leaf.id] = statistics.values
        nulls[leaf.id] = statistics.nulls
        if statistics.nans is not None:
            nans[leaf.id] = statistics.nans
        if repeated or leaf.geometry is not None:
            continue
        if (least := _bound(statistics.lower, leaf.type, entry, least=True)) is not None:
            lower[leaf.id] = least
        if (most := _bound(statistics.upper, leaf.type, entry, least=False)) is not None:
            upper[leaf.id] = most
    corners = {} if flavour is Flavour.ICEBERG else _corners(entry, schema)
    return DataFile(
        path,
        entry.rows,
        entry.size,
        partition=_partition(entry, spec, schema),
        column_sizes=sizes,
        value_counts=values,
        null_value_counts=nulls,
        nan_value_counts=nans,
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=entry.splits or None,
        sort_order_id=sort_order_id,
        geometry_lower={i: corner(west, south) for i, (west, south, _, _) in corners.items()}
        or None,
        geometry_upper={i: corner(east, north) for i, (_, _, east, north) in corners.items()}
        or None,
    )


def _corners(entry: Entry, schema: Schema) -> dict[int, tuple[float, float, float, float]]:
    """Return the sides of what holds the geometries or rasters of each column."""
    found: dict[int, tuple[float, float, float, float]] = {}
    for field in sorted(schema.fields, key=lambda each: each.id):
        bounds, area = entry.bounds.get(field.id), entry.areas.get(field.id)
        if field.geometry is not None and bounds is not None and bounds.finite:
            found[field.id] = (bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax)
        elif field.raster is not None and area is not None:
            found[field.id] = (area.west, area.south, area.east, area.north)
    return found


def _leaves(fields: tuple[Field, ...], repeated: bool) -> Iterator[tuple[Field, bool]]:
    """Yield the fields that hold values, and whether they are in a list or map."""
    for field in fields:
        inside = children(field.type)
        if inside and field.raster is None:
            yield from _leaves(inside, repeated or isinstance(field.type, List | Map))
        elif field.raster is None:
            yield field, repeated


def corner(x: float, y: float) -> bytes:
    """Return a point as Havasu's geometry bounds hold it.

    >>> corner(170, 10).hex()
    '010100000000000000004065400000000000002440'
    """
    return _POINT.pack(1, 1, x, y)


def point_of(data: bytes) -> tuple[float, float] | None:
    """Return x and y of a bound: a point of any byte order, with an SRID, Z and M or without."""
    if len(data) < 21 or data[0] > 1:
        return None
    order = "<" if data[0] else ">"
    kind = struct.unpack_from(f"{order}I", data, 1)[0]
    start = 9 if kind & _SRID else 5
    if (kind & 0x0FFF_FFFF) % 1000 != 1 or len(data) < start + 16:
        return None
    x, y = struct.unpack_from(f"{order}dd", data, start)
    return (x, y) if math.isfinite(x) and math.isfinite(y) else None


def _partition(entry: Entry, spec: PartitionSpec, schema: Schema) -> dict[int, Any]:
    values: dict[int, Any] = {}
    for number, name, type_ in partition_types(spec, schema):
        given = entry.partition.get(str(number))
        try:
            values[number] = None if given is None else _value(given, type_)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise CorruptDatasetError(
                entry.file, f"the value of partition field {name!r} is no {type_}"
            ) from error
    return values


def _bound(given: Scalar | None, type_: Type, entry: Entry, *, least: bool) -> bytes | None:
    if given is None:
        return None
    try:
        value = _cut(_value(given, type_), least=least)
        return None if value is None else to_single_value(value, type_)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise CorruptDatasetError(entry.file, f"bound {given!r} is no {type_}") from error


def _value(given: Scalar, type_: Type) -> Any:
    """Return the Python value of a typed JSON value, as single values have it."""
    value = from_scalar(given, type_)
    return UUID(bytes=value) if type_ is Primitive.UUID else value


def _cut(value: Any, *, least: bool) -> Any:
    """Return a bound as Iceberg keeps it; None when there is none above what was cut off."""
    match value:
        case float():
            if math.isnan(value):
                return None
            return (-0.0 if least else 0.0) if value == 0 else value
        case str() | bytes() if len(value) > LONGEST:
            return value[:LONGEST] if least else _next(value[:LONGEST])
        case _:
            return value


def _next(value: str | bytes) -> str | bytes | None:
    """Return the least text or bytes that is more than all that begin so."""
    if isinstance(value, bytes):
        kept = value.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    for index in range(len(value) - 1, -1, -1):
        code = ord(value[index]) + 1
        if code == 0xD800:
            code = 0xE000  # surrogates are no characters
        if code <= 0x10FFFF:
            return value[:index] + chr(code)
    return None


# The line of a manifest list that sums a manifest up, so that readers can skip it.


def manifest_file_of(
    entries: Sequence[ManifestEntry],
    path: str,
    length: int,
    *,
    schema: Schema,
    spec: PartitionSpec,
    content: ManifestContent = ManifestContent.DATA,
    sequence_number: int,
    snapshot_id: int,
) -> ManifestFile:
    """Return the line for a manifest of these entries, written for a snapshot."""
    counts = dict.fromkeys(Status, 0)
    rows = dict.fromkeys(Status, 0)
    least = sequence_number
    for entry in entries:
        counts[entry.status] += 1
        rows[entry.status] += entry.file.record_count
        if entry.status is not Status.DELETED and entry.sequence_number is not None:
            least = min(least, entry.sequence_number)
    return ManifestFile(
        path,
        length,
        spec.spec_id,
        content,
        sequence_number,
        least,
        snapshot_id,
        counts[Status.ADDED],
        counts[Status.EXISTING],
        counts[Status.DELETED],
        rows[Status.ADDED],
        rows[Status.EXISTING],
        rows[Status.DELETED],
        summaries_of(entries, schema, spec),
    )


def summaries_of(
    entries: Sequence[ManifestEntry], schema: Schema, spec: PartitionSpec
) -> tuple[FieldSummary, ...]:
    """Return what the partitions of entries have in common, by partition field."""
    return tuple(
        _summary([entry.file.partition.get(number) for entry in entries], type_)
        for number, _, type_ in partition_types(spec, schema)
    )


def _summary(values: list[Any], type_: Type) -> FieldSummary:
    numbers = type_ in (Primitive.FLOAT, Primitive.DOUBLE)
    known = [value for value in values if value is not None]
    sound = [value for value in known if not (numbers and math.isnan(value))]
    return FieldSummary(
        len(known) < len(values),
        len(sound) < len(known) if numbers else False,
        to_single_value(min(sound, key=lambda v: _order(v, type_)), type_) if sound else None,
        to_single_value(max(sound, key=lambda v: _order(v, type_)), type_) if sound else None,
    )


def _order(value: Any, type_: Type) -> Any:
    """Return what sorts values as Iceberg does; UUIDs by their bytes."""
    plain = to_plain(value, type_)
    return plain.encode("utf-8") if isinstance(plain, str) else plain
