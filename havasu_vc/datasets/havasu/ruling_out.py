"""Telling by statistics alone that a file, or a row group of it, has none of some whole rows.

Rows of a table without a key are looked up as wholes, so each column may rule a file out: by the
bounds of its values, by the nulls that it has none of, and by where its geometries lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.havasu.parquet import column_ranges
from havasu_vc.formats.havasu.entry import Entry, Origin
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.model import compute as pc
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive

if TYPE_CHECKING:
    from havasu_vc.model.bounds import Bounds

__all__ = ["files_of_rows", "groups_of_rows"]

_COMPARED = {Primitive.INT: int, Primitive.LONG: int, Primitive.STRING: str}
"""Types whose bounds say the same in a footer, in an entry and of a value."""

Mask = npt.NDArray[np.bool_]


def files_of_rows(
    entries: Iterable[Entry],
    rows: pa.RecordBatch,
    schema: Schema,
    written: Callable[[Entry], Schema],
) -> tuple[Entry, ...]:
    """Return the data files that may have one of some rows, which are in the columns of `schema`.

    `written` tells the columns that a file was written with.
    """
    boxes = {
        field.id: row_bounds(rows.column(field.name), field.geometry.encoding)
        for field in schema.fields
        if field.geometry is not None and field.edges is None
    }
    return tuple(e for e in entries if _may_be_in(e, rows, schema, written(e), boxes).any())


def _may_be_in(
    entry: Entry,
    rows: pa.RecordBatch,
    schema: Schema,
    written: Schema,
    boxes: dict[int, npt.NDArray[np.float64]],
) -> Mask:
    """Return which rows a file may have."""
    # What others wrote need not say how many nulls there are.
    counted = entry.location is None and entry.origin is not Origin.FOREIGN
    possible = np.ones(rows.num_rows, np.bool_)
    for field in schema.fields:
        column = rows.column(field.name)
        if field.id not in written.ids:
            possible &= _as_mask(pc.is_null(column))
        if field.id in boxes:
            possible &= ~_apart(boxes[field.id], entry.bounds.get(field.id))
        known = entry.statistics.get(field.id)
        if known is None:
            continue
        has_nulls = known.nulls > 0 or not counted
        possible &= _inside(column, field, known.lower, known.upper, has_nulls)
    return possible


def groups_of_rows(path: str, rows: pa.RecordBatch, schema: Schema) -> list[int]:
    """Return the row groups of a file that may have one of some rows, by what its footer says."""
    fields = schema.fields
    found = column_ranges(path, [field.id for field in fields])
    return [
        number
        for number, ranges in enumerate(found)
        if _may_be_among(rows, zip(fields, ranges, strict=True)).any()
    ]


def _may_be_among(
    rows: pa.RecordBatch, ranges: Iterable[tuple[Field, tuple[Any, Any] | None]]
) -> Mask:
    possible = np.ones(rows.num_rows, np.bool_)
    for field, known in ranges:
        if known is not None:
            possible &= _inside(rows.column(field.name), field, *known, True)
    return possible


def _inside(column: pa.Array[Any], field: Field, lower: Any, upper: Any, has_nulls: bool) -> Mask:
    """Return which values may be within bounds, and nulls only where there are any."""
    kind = _COMPARED.get(field.type) if isinstance(field.type, Primitive) else None
    if kind is None or not (isinstance(lower, kind) and isinstance(upper, kind)):
        within = pc.is_valid(column)
    else:
        above = pc.greater_equal(column, pa.scalar(lower))
        within = pc.fill_null(pc.and_(above, pc.less_equal(column, pa.scalar(upper))), False)
    inside = _as_mask(within)
    return inside | _as_mask(pc.is_null(column)) if has_nulls else inside


def _apart(boxes: npt.NDArray[np.float64], bounds: Bounds | None) -> Mask:
    """Return which boxes lie apart from the bounds of a file; none without coordinates does."""
    if bounds is None:
        return np.zeros(len(boxes), np.bool_)
    xmin, ymin, xmax, ymax = boxes.T
    beside = (xmax < bounds.xmin) | (xmin > bounds.xmax)
    apart: Mask = beside | (ymax < bounds.ymin) | (ymin > bounds.ymax)
    return apart


def _as_mask(flags: pa.Array[Any]) -> Mask:
    mask: Mask = flags.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask
