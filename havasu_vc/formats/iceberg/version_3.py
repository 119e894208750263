"""What Iceberg 3 says otherwise than version 2: native types, row lineage, bounds of geometries.

Tables of version 3 are written by `export` alone and have no Havasu columns. Their schema is
ours with geometries as columns of plain WKB, and beside it the native types by field id.
Every snapshot says which ids its new rows have: the first in the snapshot and in each of its
manifests, the next free one in the metadata. Bounds of geometries are corners, 8 bytes for
each ordinate, where those of other columns are.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace

from havasu_vc.formats.havasu.json_text import format_json
from havasu_vc.formats.iceberg.metadata import format_metadata
from havasu_vc.formats.iceberg.native_geometry import NativeTypes, with_type_texts
from havasu_vc.formats.iceberg.schema import MIRROR
from havasu_vc.formats.iceberg.values import Flavour, TableMetadata

__all__ = [
    "corner_of",
    "format_metadata_3",
    "parse_corner",
]

_CORNERS = {2: struct.Struct("<2d"), 3: struct.Struct("<3d"), 4: struct.Struct("<4d")}


def format_metadata_3(metadata: TableMetadata, types: NativeTypes) -> bytes:
    """Return the bytes of a table's metadata in version 3.

    Each snapshot says `first-row-id` and `added-rows` among its others.
    """
    second = format_metadata(replace(metadata, format_version=2), flavour=Flavour.ICEBERG)
    value = json.loads(second)
    del value["havasu.format-version"]
    value["format-version"] = 3
    value["schemas"] = with_type_texts(value["schemas"], types)
    value["properties"].pop(MIRROR, None)
    return format_json({**value, "next-row-id": metadata.next_row_id})


def corner_of(x: float, y: float) -> bytes:
    """Return a corner of a geometry's bounds.

    >>> corner_of(1.0, 2.0).hex()
    '000000000000f03f0000000000000040'
    """
    return _CORNERS[2].pack(x, y)


def parse_corner(data: bytes) -> tuple[float, float] | None:
    """Return x and y of a corner, None for bytes that are none."""
    layout = _CORNERS.get(len(data) // 8)
    if layout is None or len(data) % 8:
        return None
    x, y, *_ = layout.unpack(data)
    return (x, y) if math.isfinite(x) and math.isfinite(y) else None
