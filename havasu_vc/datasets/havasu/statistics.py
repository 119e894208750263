"""Column statistics of a data file, from its footer, as an entry records them.

Bounds of blocks of rows, as columns of a data file that lies along a Hilbert curve.

Parquet skips row groups and pages by the least and greatest value of a column, and no
column of points and polygons has any. So each row carries the bounds of the block of 4,096
rows that it stands in, in four columns of doubles. In a block they are all the same, and
take next to no space; a reader that filters by them, as every Parquet reader can, reads the
blocks that a window meets. A block without coordinates has bounds that nothing meets.

The columns are no part of the dataset's schema. Their field ids are the highest that a
column can have, and their names tell whose bounds they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from havasu_vc.formats.havasu.entry import ColumnStatistics, Scalar, to_scalar
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import LARGEST_FIELD_ID, Field, List, Map, Struct, Type, children

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["block_columns", "block_fields", "block_names", "column_statistics"]

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


BLOCK_ROWS = 4096
_SIDES = ("xmin", "ymin", "xmax", "ymax")


def block_names(column: int) -> tuple[str, str, str, str]:
    """Return the names of the columns that hold the bounds of a geometry column.

    >>> block_names(2)[0]
    '_havasu_2_xmin'
    """
    west, south, east, north = (f"_havasu_{column}_{side}" for side in _SIDES)
    return west, south, east, north


def block_fields(column: int) -> list[pa.Field]:
    """Return the columns that hold the bounds of a geometry column, for a file's schema."""
    first = LARGEST_FIELD_ID - len(_SIDES) + 1
    return [
        pa.field(name, pa.float64(), metadata={FIELD_ID: str(number).encode()})
        for number, name in enumerate(block_names(column), first)
    ]


def block_columns(group: pa.RecordBatch, schema: Schema, column: int) -> list[pa.Array]:
    """Return the bounds of the blocks of a row group, for each row."""
    field = schema.by_id[column]
    assert field.geometry is not None
    boxes = row_bounds(group.column(field.name), field.geometry.encoding)
    boxes = np.where(np.isnan(boxes), [np.inf, np.inf, -np.inf, -np.inf], boxes)
    starts = np.arange(0, len(boxes), BLOCK_ROWS)
    counts = np.diff(np.append(starts, len(boxes)))
    sides = []
    for side, reduce in enumerate((np.minimum, np.minimum, np.maximum, np.maximum)):
        of_blocks = reduce.reduceat(boxes[:, side], starts)
        sides.append(pa.array(np.repeat(of_blocks, counts)))
    return sides
