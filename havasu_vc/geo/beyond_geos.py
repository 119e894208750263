"""Which geometries GEOS does not take through Shapely: arcs, surfaces, and what holds some.

They are stored, compared and handed on as bytes like all others. What asks GEOS about
shapes has to leave them out, for it raises at some and answers nothing at others.
"""

import numpy as np
import pyarrow as pa

from havasu_vc.geo.buffers import Bools, byte_column, overlapping
from havasu_vc.geo.layout import scan

__all__ = ["beyond_geos"]

_LAST, _COLLECTION = 6, 7


def beyond_geos(wkb: "pa.Array") -> Bools:
    """Return which rows of canonical WKB hold a shape that GEOS does not take.

    >>> arc = bytes.fromhex("010800000000000000")
    >>> beyond_geos(pa.array([arc, None], pa.binary())).tolist()
    [True, False]
    """
    flags = np.zeros(len(wkb), np.bool_)
    column = byte_column(wkb)
    if not len(column.starts):
        return flags
    kinds = overlapping(column.data, "<u4")[column.starts + 1] % 1000
    flags[column.rows[kinds > _COLLECTION]] = True
    if (kinds == _COLLECTION).any():
        layout = scan(column)
        flags[column.rows[layout.value[layout.kind > _COLLECTION]]] = True
    return flags
