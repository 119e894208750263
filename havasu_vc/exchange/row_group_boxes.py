"""Where the rows of each row group of a Parquet file lie, as far as the file says it.

A file can say it by the statistics of a GEOMETRY or GEOGRAPHY column, or by those of a
column of boxes beside the geometries (GeoParquet 1.1). What it says is used to leave
row groups out, never to tell that a row is in a box: a group of which nothing, or
nothing sensible, is said may hold anything, and Z and M are never looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from havasu_vc.exchange.geoparquet import COVERING_AXES
from havasu_vc.exchange.source import Box
from havasu_vc.geo.globe_bounds import meets_on_globe

__all__ = ["group_boxes", "may_meet", "sound_box"]


def may_meet(window: Box, box: Box | None, *, globe: bool = False) -> bool:
    """Return whether rows of a box may be in a window; True where no box is known.

    Either may have its west east of its east, which says that it crosses the anti-meridian.
    On the `globe` that line is like any other, and meridians meet at the poles.

    >>> may_meet((0, 0, 1, 1), (160.5, 0, -159.0, 1)), may_meet((-170, 0, -165, 1), None)
    (False, True)
    """
    if box is None:
        return True
    if globe:
        return bool(meets_on_globe(window, np.array([box]))[0])
    if box[1] > window[3] or box[3] < window[1]:
        return False
    return any(
        low <= right and high >= left
        for low, high in _spans(box[0], box[2])
        for left, right in _spans(window[0], window[2])
    )


def _spans(low: float, high: float) -> tuple[tuple[float, float], ...]:
    return ((low, high),) if low <= high else ((low, math.inf), (-math.inf, high))


def sound_box(*edges: float | None) -> Box | None:
    """Return a box of xmin, ymin, xmax, ymax; None for half a box, and for ymin above ymax."""
    if any(edge is None or math.isnan(edge) for edge in edges):
        return None
    xmin, ymin, xmax, ymax = (float(edge) for edge in edges if edge is not None)
    return (xmin, ymin, xmax, ymax) if ymin <= ymax else None


def group_boxes(metadata: pq.FileMetaData, column: str, covering: str | None) -> list[Box | None]:
    """Return the box of each row group; None for one of which nothing is said."""
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    own = paths.index(column) if column in paths else None
    edges = [f"{covering}.{axis}" for axis in COVERING_AXES]
    places = [paths.index(edge) for edge in edges] if set(edges) <= set(paths) else []
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        box = None if own is None else _box_of_statistics(group.column(own))
        if box is None and places:
            box = sound_box(*_covered(group, places))
        found.append(box)
    return found


def _box_of_statistics(chunk: Any) -> Box | None:
    said = chunk.geo_statistics
    return None if said is None else sound_box(said.xmin, said.ymin, said.xmax, said.ymax)


def _covered(group: Any, places: list[int]) -> Iterator[float | None]:
    """Yield the edges of the box around all boxes of a row group."""
    for number, place in enumerate(places):
        said = group.column(place).statistics
        value = None
        if said is not None and said.has_min_max:
            value = said.min if number < 2 else said.max
        yield value if isinstance(value, float) else None
