"""Rows of a file's row groups that may match, told from the file's footer.

For files that are far away: a footer is small, and row groups whose statistics show that
no row of them can match are never asked for. Both tests are inclusive, as those of whole
files are (`live`): what is not known is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.datasets.havasu.blocks import block_names
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.live import Range, may_hold_range
from havasu_vc.datasets.havasu.parquet import file_name, open_parquet, read_row_groups
from havasu_vc.formats.havasu.entry import ColumnStatistics
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import kernel

__all__ = ["leaf_columns", "matching_groups", "scan_matching"]

Ranges = Mapping[int, Range]
"""Values that rows must have, by field id."""
Boxes = Sequence[tuple[int, Bounds, bool]]
"""A geometry column, a box, and whether rows must hold all of it rather than meet it."""


@kernel
def scan_matching(
    path: str,
    schema: Schema,
    deletes: tuple[str, ...],
    part: tuple[int, int],
    ranges: Ranges,
    boxes: Boxes,
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of one of several equal parts of a file, less groups without a match."""
    number, parts = part
    with open_parquet(path) as file:
        count = file.num_row_groups
        mine = range(number * count // parts, (number + 1) * count // parts)
        groups = matching_groups(file, mine, schema, ranges, boxes)
    if groups:
        deleted = deleted_positions(file_name(path), deletes)
        yield from read_row_groups(path, schema, groups=groups, deleted=deleted)


def matching_groups(
    file: pq.ParquetFile, groups: Sequence[int], schema: Schema, ranges: Ranges, boxes: Boxes
) -> list[int]:
    """Return those row groups that may hold a row in all ranges whose geometry is in all boxes."""
    leaves = leaf_columns(file)
    metadata = file.metadata
    found = []
    for group in groups:
        columns = metadata.row_group(group)
        fits = all(
            _may_hold(columns, leaves.get(number), wanted, schema, number)
            for number, wanted in ranges.items()
        )
        if fits and all(_may_meet(columns, leaves, *each) for each in boxes):
            found.append(group)
    return found


def leaf_columns(file: pq.ParquetFile) -> dict[int | str, int]:
    """Return which of the file's columns a top-level field is, by field id and by name."""
    places: dict[int | str, int] = {}
    names = {file.schema.column(index).path: index for index in range(len(file.schema))}
    for field in file.schema_arrow:
        index = names.get(field.name)
        if index is None:
            continue  # nested
        places[field.name] = index
        number = (field.metadata or {}).get(FIELD_ID)
        if number is not None and number.isdigit():
            places[int(number)] = index
    return places


def _may_hold(
    group: pq.RowGroupMetaData, column: int | None, wanted: Range, schema: Schema, number: int
) -> bool:
    statistics = None if column is None else group.column(column).statistics
    if column is None or statistics is None or not statistics.has_min_max:
        return True
    try:
        least, greatest = statistics.min, statistics.max
    except (OverflowError, ValueError):  # a moment beyond what Python knows
        return True
    nulls = statistics.null_count if statistics.has_null_count else 0
    # Floats may be NaN, which statistics leave out; `nans` unknown keeps their groups.
    known = ColumnStatistics(group.num_rows, nulls, 0, None, least, greatest)
    return may_hold_range(known, wanted, schema.by_id[number].type)


def _may_meet(
    group: pq.RowGroupMetaData,
    leaves: Mapping[int | str, int],
    column: int,
    box: Bounds,
    whole: bool,
) -> bool:
    """Whether the bounds of some block of a group meet a box, or may hold all of it."""
    sides: list[tuple[Any, Any]] = []
    for name in block_names(column):
        index = leaves.get(name)
        statistics = None if index is None else group.column(index).statistics
        if statistics is None or not statistics.has_min_max:
            return True
        sides.append((statistics.min, statistics.max))
    (west, _), (south, _), (_, east), (_, north) = sides
    if not np.isfinite([west, south, east, north]).all():
        return True
    if whole:
        return bool(
            west <= box.xmin and south <= box.ymin and east >= box.xmax and north >= box.ymax
        )
    return bool(west <= box.xmax and south <= box.ymax and east >= box.xmin and north >= box.ymin)
