"""The live files of a dataset that a query must read, told from entries alone.

A file is left out when its statistics or the bounds of its geometries or rasters show that no row
of it can match. Both tests are inclusive: what is not known is read, and a file with one
matching row always is.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.parquet import file_name, open_parquet, read_row_groups
from havasu_vc.datasets.havasu.statistics import block_names
from havasu_vc.formats.havasu.entry import ColumnStatistics, Entry
from havasu_vc.geo.predicates import (
    SpatialPredicate,
    Window,
    box_array,
    geometry_files,
    raster_files,
)
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import kernel
from havasu_vc.model.types import Primitive, Type
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow.parquet as pq

    from havasu_vc.datasets.havasu.file_columns import Record
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = [
    "Comparable",
    "LiveFile",
    "SpatialTest",
    "ValueRange",
    "leading_bytes",
    "leaf_columns",
    "live_files",
    "matching_groups",
    "may_hold_range",
    "scan_matching",
]


Comparable: TypeAlias = (
    bool | int | float | Number | str | bytes | datetime.date | datetime.time | UUID
)
"""A value that a column is compared with, as Python has it; a moment is a date, too."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Values from `low` to `high`, both included; None for no limit."""

    low: Comparable | None = None
    """The least."""
    high: Comparable | None = None
    """The greatest."""


@dataclass(frozen=True, slots=True)
class SpatialTest:
    """A predicate on a column of geometries or rasters."""

    column: int
    """The field id of the column."""
    predicate: SpatialPredicate
    """How a row must relate to the window."""
    window: Window
    """In the coordinates of a geometry column; anywhere on the globe for rasters."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file and what deletes from it."""

    entry: Entry
    """Its entry."""
    path: str
    """Where it is on this machine."""
    deletes: tuple[str, ...]
    """Paths of the delete files that name it."""
    deleted: int
    """How many rows these delete."""


def live_files(
    view: DatasetInFiles,
    *,
    ranges: Mapping[int, ValueRange] | None = None,
    tests: Sequence[SpatialTest] = (),
) -> list[LiveFile]:
    """Return the files that may hold rows in all ranges (by field id) that pass all tests."""
    found = view.data_entries_where(lambda record: _may_match(record, ranges or {}, tests))
    entries = [entry for entry in found if _may_hold_all(entry, ranges or {}, view)]
    for test in tests:
        raster = view.schema.by_id[test.column].raster is not None
        known = [(e.areas if raster else e.bounds).get(test.column) for e in entries]
        matching = raster_files if raster else geometry_files
        planned = matching(test.predicate, test.window, box_array(known))
        entries = [entries[index] for index in np.flatnonzero(planned)]
    view.bring(entries)
    return [_live_file(view, entry) for entry in entries]


def _may_match(
    record: Record, ranges: Mapping[int, ValueRange], tests: Sequence[SpatialTest]
) -> npt.NDArray[np.bool_]:
    """Return which files may have rows in all ranges that pass all tests, by columns alone."""
    columns, spans = record.columns, record.spans
    chosen = columns.data
    wanted = None if spans.key is None or spans.text else ranges.get(spans.key)
    if wanted is not None:
        low, high = (side if type(side) is int else None for side in (wanted.low, wanted.high))
        chosen = chosen & columns.between(low, high)
    for test in tests:
        if test.column in spans.geometries:
            boxes = columns.boxes(test.column)
            chosen = chosen & geometry_files(test.predicate, test.window, boxes)
    return chosen


def _live_file(view: DatasetInFiles, entry: Entry) -> LiveFile:
    deleted = sum(each.targets[entry.file] for each in view.deletes.get(entry.file, ()))
    return LiveFile(entry, view.file_path(entry), view.delete_paths(entry), deleted)


def _may_hold_all(entry: Entry, ranges: Mapping[int, ValueRange], view: DatasetInFiles) -> bool:
    return all(
        may_hold_range(entry.statistics.get(number), wanted, view.schema.by_id[number].type)
        for number, wanted in ranges.items()
    )


def may_hold_range(statistics: ColumnStatistics | None, wanted: ValueRange, type_: Type) -> bool:
    """Whether a column of a file may hold a value of a range, by its statistics.

    >>> may_hold_range(ColumnStatistics(9, 0, 1, None, 10, 20), ValueRange(21), Primitive.LONG)
    False
    """
    if statistics is None:
        return True
    if statistics.values and statistics.values == statistics.nulls:
        return False
    if statistics.nans != 0 and type_ in (Primitive.FLOAT, Primitive.DOUBLE):
        return True  # whether NaN lies in a range, engines do not agree
    low, high = _comparable(wanted.low, type_), _comparable(wanted.high, type_)
    least = _comparable(statistics.lower, type_)
    greatest = _comparable(statistics.upper, type_)
    if low is not None and greatest is not None and greatest < low:
        return False
    return not (high is not None and least is not None and least > high)


def _comparable(value: Any, type_: Type) -> Any | None:
    """Return a value in a form that compares as its column sorts; None where that is unsure."""
    match type_:
        case Primitive.INT | Primitive.LONG | Primitive.FLOAT | Primitive.DOUBLE:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return value if number and math.isfinite(value) else None
        case Primitive.STRING:
            return value if isinstance(value, str) else None
        case Primitive.DATE:
            if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
                return value
            return _parsed(datetime.date, value)
        case Primitive.TIMESTAMP:
            found = value if isinstance(value, datetime.datetime) else None
            found = found or _parsed(datetime.datetime, value)
            return found if found is not None and found.tzinfo is None else None
        case _ if isinstance(value, Number):
            return value
        case _:
            return None


def _parsed(kind: Any, value: Any) -> Any | None:
    try:
        return kind.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


# Rows of a file's row groups that may match, told from the file's footer.
#
# For files that are far away: a footer is small, and row groups whose statistics show that
# no row of them can match are never asked for. Both tests are inclusive, as those of whole
# files are (`live`): what is not known is read.

Ranges = Mapping[int, ValueRange]
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
    group: pq.RowGroupMetaData, column: int | None, wanted: ValueRange, schema: Schema, number: int
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


# What the values of a column of bytes begin with, told from footers alone.
#
# Where the least and the greatest value of each row group begin alike, all values do. So a
# footer tells, for one, that each geometry of a file is a point of a certain form.


def leading_bytes(path: str, column: int, count: int) -> frozenset[bytes] | None:
    """Return the first bytes of all values of a column, told by its field id.

    The set has one member, or none where the file has no values; None is returned where values
    differ or nothing tells.
    """
    found: set[bytes] = set()
    with open_parquet(path) as file:
        index = leaf_columns(file).get(column)
        if index is None:
            return frozenset()
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number).column(index)
            if group.physical_type != "BYTE_ARRAY" or group.statistics is None:
                return None
            if group.statistics.has_min_max:
                found |= {group.statistics.min[:count], group.statistics.max[:count]}
            elif group.num_values != group.statistics.null_count:
                return None
            if len(found) > 1 or any(len(each) < count for each in found):
                return None
    return frozenset(found)
