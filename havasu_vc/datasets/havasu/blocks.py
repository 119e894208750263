"""Bounds of blocks of rows, as columns of a data file that lies along a Hilbert curve.

Parquet skips row groups and pages by the least and greatest value of a column, and no
column of points and polygons has any. So each row carries the bounds of the block of 4,096
rows that it stands in, in four columns of doubles. In a block they are all the same, and
take next to no space; a reader that filters by them, as every Parquet reader can, reads the
blocks that a window meets. A block without coordinates has bounds that nothing meets.

The columns are no part of the dataset's schema. Their field ids are the highest that a
column can have, and their names tell whose bounds they are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from havasu_vc.geo.bounds import row_bounds
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import LARGEST_FIELD_ID

__all__ = ["block_columns", "block_fields", "block_names"]

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
