"""The `geo` document of GeoParquet in the footer of our data files.

    {"version":"1.0.0","primary_column":"geom",
     "columns":{"geom":{"encoding":"WKB","geometry_types":[],"crs":null}}}

With it GeoPandas, DuckDB and GDAL take the column for geometries. It says no more than
holds for all files of a column: CRS and types are the dataset's to say, and null and an
empty list say that they are not known. A column stands in it only if its values are WKB
as the standard has it, without an SRID in any.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from havasu_vc.geo.buffers import byte_column
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding

__all__ = ["GEO", "format_footer", "plain_columns"]

GEO = "geo"
"""The key in the footer."""

_WKB = (Encoding.EWKB, Encoding.WKB)
_MARKS = 0xE0
"""What EWKB puts into the highest byte of a type: Z, M, SRID."""


def plain_columns(group: pa.RecordBatch, schema: Schema) -> frozenset[int]:
    """Return the ids of geometry columns whose values are all WKB without marks of EWKB."""
    return frozenset(
        field.id
        for field in schema.fields
        if field.geometry is not None
        and field.geometry.encoding in _WKB
        and _is_plain(group.column(field.name))
    )


def _is_plain(values: pa.Array) -> bool:
    column = byte_column(values)
    if not len(column.rows):
        return True
    if int(column.lengths.min()) < 5:
        return False
    order = column.data[column.starts]
    highest = column.data[column.starts + np.where(order == 1, 4, 1)]
    return not (highest & _MARKS).any()


def format_footer(schema: Schema, plain: Iterable[frozenset[int]]) -> str | None:
    """Return the document for a file whose row groups have these columns; None without any."""
    wanted = frozenset.intersection(*plain)
    names = [field.stored_name for field in schema.fields if field.id in wanted]
    if not names:
        return None
    described: dict[str, object] = {"encoding": "WKB", "geometry_types": [], "crs": None}
    document = {
        "version": "1.0.0",
        "primary_column": names[0],
        "columns": dict.fromkeys(names, described),
    }
    return json.dumps(document, separators=(",", ":"))
