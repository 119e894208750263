"""Columns of bounding boxes beside geometries, by which readers of GeoParquet 1.1 skip rows.

Boxes have numbers of 32 bits, as the files of Overture and GDAL have them, rounded
outwards so that each holds its geometry. A row without one has no box.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from havasu_vc.exchange.geoparquet import COVERING, COVERING_AXES
from havasu_vc.geo.globe_bounds import reach_of_rows
from havasu_vc.model.types import Field

__all__ = ["BOX", "boxes_of", "covering_columns"]

BOX = pa.struct([pa.field(axis, pa.float32()) for axis in COVERING_AXES])
"""The type of a column of boxes."""


def covering_columns(
    fields: Sequence[Field], names: Collection[str], wanted: bool | None
) -> Mapping[str, str]:
    """Return a name of a column of boxes for each geometry column that gets one.

    With None those get one that came with one. `names` are the columns that there are.
    """
    taken = set(names)
    found = {}
    for field in fields:
        known = dict(field.extra).get(COVERING)
        if wanted is False or (wanted is None and known is None):
            continue
        choices = [known, "bbox" if len(fields) == 1 else None, f"{field.name}_bbox"]
        choices += [f"{field.name}_bbox_{number}" for number in range(len(taken) + 1)]
        name = next(each for each in choices if each and each not in taken)
        taken.add(name)
        found[field.name] = name
    return found


def boxes_of(wkb: pa.Array, edges: str | None = None) -> pa.Array:
    """Return the box of each geometry, all around the globe for one across the antimeridian.

    Readers compare the sides of boxes as numbers.
    """
    bounds = reach_of_rows(wkb, "wkb", edges)
    missing = np.isnan(bounds).any(axis=1)
    with np.errstate(over="ignore"):
        low = bounds[:, :2].astype(np.float32)
        high = bounds[:, 2:].astype(np.float32)
    low = np.where(low > bounds[:, :2], np.nextafter(low, np.float32(-np.inf)), low)
    high = np.where(high < bounds[:, 2:], np.nextafter(high, np.float32(np.inf)), high)
    axes = [pa.array(np.ascontiguousarray(part[:, i])) for part in (low, high) for i in (0, 1)]
    return pa.StructArray.from_arrays(axes, fields=list(BOX), mask=pa.array(missing))
