"""Geometry columns as GeoJSON objects in any layout.

Laying coordinates out with `json` costs a Python step per number. Here they are
written on one line in C, and only the punctuation between numbers is replaced: how
many brackets close and open there says where in the geometry it stands.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import pyarrow as pa

from havasu_vc.geo.geojson import geometry_objects
from havasu_vc.model.types import Field
from havasu_vc.writers.json_style import Layout
from havasu_vc.writers.values import canonical_wkb

__all__ = ["geometry_tokens"]

_PUNCTUATION = re.compile(r"[\[\],]+")
_flat = json.JSONEncoder(separators=(",", ":")).encode
_NESTING = {
    "Point": 1,
    "MultiPoint": 2,
    "LineString": 2,
    "MultiLineString": 3,
    "Polygon": 3,
    "MultiPolygon": 4,
}


def geometry_tokens(column: pa.Array, field: Field, layout: Layout, depth: int) -> pa.StringArray:
    """Return each geometry as a GeoJSON object that continues a line at some depth."""
    objects = geometry_objects(canonical_wkb(column, field))
    return pa.array(
        [None if value is None else _token(value, layout, depth) for value in objects],
        pa.string(),
    )


def _token(geometry: dict[str, Any], layout: Layout, depth: int) -> str:
    kind = geometry["type"]
    if kind in _NESTING:
        flat = _flat(geometry["coordinates"])
        start, table, end = _frame(layout, kind, depth)
        try:
            coordinates = _PUNCTUATION.sub(lambda match: table[match[0]], flat)
        except KeyError:  # an empty part
            return layout.dumps(geometry, depth)
        if "N" not in flat and "I" not in flat:
            return start + coordinates + end
    return layout.dumps(geometry, depth)


@lru_cache
def _frame(layout: Layout, kind: str, depth: int) -> tuple[str, dict[str, str], str]:
    """Return what stands before, within and after the coordinates of a type."""
    start, middle, end = layout.object_pieces(("type", "coordinates"), depth)
    return f'{start}"{kind}"{middle}', _punctuation(layout, _NESTING[kind], depth + 1), end


def _punctuation(layout: Layout, nesting: int, depth: int) -> dict[str, str]:
    """Return what stands for each run of brackets and commas, lists nested so deep."""

    def opened(level: int) -> str:
        return "".join("[" + layout.line(depth + at + 1) for at in range(level, nesting))

    def closed(level: int) -> str:
        return "".join(layout.line(depth + at) + "]" for at in reversed(range(level, nesting)))

    table = {
        "[" * nesting: opened(0),
        "]" * nesting: closed(0),
        ",": layout.between(depth + nesting),
    }
    for count in range(1, nesting):
        level = nesting - count
        run = "]" * count + "," + "[" * count
        table[run] = closed(level) + layout.between(depth + level) + opened(level)
    return table
