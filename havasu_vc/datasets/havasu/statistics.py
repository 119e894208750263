"""Column statistics of a data file, from its footer, as an entry records them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq

from havasu_vc.formats.havasu.entry import ColumnStatistics, Scalar
from havasu_vc.formats.havasu.scalars import to_scalar
from havasu_vc.model.types import Field, List, Map, Struct, Type, children

__all__ = ["column_statistics"]

_LONGEST = 16


def column_statistics(
    metadata: pq.FileMetaData, fields: tuple[Field, ...], nans: dict[int, int]
) -> dict[int, ColumnStatistics]:
    """Return the statistics of each leaf column of a file that we wrote.

    The parts of rasters have none: their area is what queries go by.
    """
    gathered: dict[int, ColumnStatistics] = {}
    # By position: names may hold dots, so paths do not tell leaves apart.
    for index, field in enumerate(_leaves(fields)):
        if field is None:
            continue
        gathered[field.id] = _of_column(metadata, index, field, nans.get(field.id))
    return gathered


def _leaves(fields: tuple[Field, ...]) -> Iterator[Field | None]:
    """Yield what each leaf column of a file holds, None for a part of a raster."""
    for field in fields:
        if field.raster is not None:
            yield from (None for _ in _leaves(children(field.type)))
        elif isinstance(field.type, Struct | List | Map):
            yield from _leaves(children(field.type))
        else:
            yield field


def _of_column(
    metadata: pq.FileMetaData, index: int, field: Field, nans: int | None
) -> ColumnStatistics:
    values = nulls = size = 0
    lower: Any = None
    upper: Any = None
    known = field.geometry is None
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(index)
        statistics = column.statistics
        values += column.num_values
        size += column.total_compressed_size
        if statistics is None:
            known = False
            continue
        nulls += statistics.null_count or 0
        if not statistics.has_min_max:
            # No value at all is no reason to give up; an unknown range is.
            known = known and column.num_values == (statistics.null_count or 0)
        elif known:
            try:
                least, greatest = statistics.min, statistics.max
            except (OverflowError, ValueError):
                known = False  # a date beyond what Python knows
                continue
            lower = least if lower is None else min(lower, least)
            upper = greatest if upper is None else max(upper, greatest)
    if not known or lower is None:
        return ColumnStatistics(values, nulls, size, nans)
    return ColumnStatistics(
        values,
        nulls,
        size,
        nans,
        scalar_floor(lower, field.type),
        scalar_ceiling(upper, field.type),
    )


def scalar_floor(value: Any, type_: Type) -> Scalar | None:
    """Return a lower bound as a typed JSON value, long ones cut short."""
    return to_scalar(value[:_LONGEST] if isinstance(value, str | bytes) else value, type_)


def scalar_ceiling(value: Any, type_: Type) -> Scalar | None:
    """Return an upper bound as a typed JSON value, long ones cut and rounded up."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return _next_text(value[:_LONGEST])
    if isinstance(value, bytes):
        if len(value) > _LONGEST:
            raised = value[:_LONGEST].rstrip(b"\xff")
            value = raised[:-1] + bytes([raised[-1] + 1]) if raised else None
    return to_scalar(value, type_)


def _next_text(text: str) -> str | None:
    for index in range(len(text) - 1, -1, -1):
        code = ord(text[index]) + 1
        if code == 0xD800:
            code = 0xE000
        if code <= 0x10FFFF:
            return text[:index] + chr(code)
    return None
