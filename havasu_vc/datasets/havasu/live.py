"""The live files of a dataset that a query must read, told from entries alone.

A file is left out when its statistics or the bounds of its geometries or rasters show that no row
of it can match. Both tests are inclusive: what is not known is read, and a file with one
matching row always is.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any

import numpy as np

from havasu_vc.formats.havasu.entry import ColumnStatistics, Entry
from havasu_vc.geo.predicates import (
    SpatialPredicate,
    Window,
    box_array,
    geometry_files,
    raster_files,
)
from havasu_vc.model.types import Primitive, Type
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.view import HavasuDataset

__all__ = ["LiveFile", "Range", "SpatialTest", "live_files", "may_hold_range"]


@dataclass(frozen=True, slots=True)
class Range:
    """Values from `low` to `high`, both included; None for no limit."""

    low: Any | None = None
    """The least."""
    high: Any | None = None
    """The greatest."""


@dataclass(frozen=True, slots=True)
class SpatialTest:
    """A predicate on a column of geometries or rasters."""

    column: int
    """The field id of the column."""
    predicate: SpatialPredicate
    """What a row must do with the window."""
    window: Window
    """In the coordinates of a geometry column; anywhere on the globe for rasters."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file and what deletes from it."""

    entry: Entry
    """What is known of it."""
    path: str
    """Where it is on this machine."""
    deletes: tuple[str, ...]
    """Paths of the delete files that name it."""
    deleted: int
    """How many rows these delete."""


def live_files(
    view: HavasuDataset,
    *,
    ranges: Mapping[int, Range] | None = None,
    tests: Sequence[SpatialTest] = (),
) -> list[LiveFile]:
    """Return the files that may hold rows in all ranges (by field id) that pass all tests."""
    entries = [entry for entry in view.data_entries if _may_hold_all(entry, ranges or {}, view)]
    for test in tests:
        raster = view.schema.by_id[test.column].raster is not None
        known = [(e.areas if raster else e.bounds).get(test.column) for e in entries]
        matching = raster_files if raster else geometry_files
        planned = matching(test.predicate, test.window, box_array(known))
        entries = [entries[index] for index in np.flatnonzero(planned)]
    view.bring(entries)
    return [_live_file(view, entry) for entry in entries]


def _live_file(view: HavasuDataset, entry: Entry) -> LiveFile:
    deleted = sum(each.targets[entry.file] for each in view.deletes.get(entry.file, ()))
    return LiveFile(entry, view.file_path(entry), view.delete_paths(entry), deleted)


def _may_hold_all(entry: Entry, ranges: Mapping[int, Range], view: HavasuDataset) -> bool:
    return all(
        may_hold_range(entry.statistics.get(number), wanted, view.schema.by_id[number].type)
        for number, wanted in ranges.items()
    )


def may_hold_range(statistics: ColumnStatistics | None, wanted: Range, type_: Type) -> bool:
    """Whether a column of a file may hold a value of a range, by its statistics.

    >>> may_hold_range(ColumnStatistics(9, 0, 1, None, 10, 20), Range(21, None), Primitive.LONG)
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
