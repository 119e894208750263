"""Which cells of a change batch differ: two columns of one batch compared as people would.

Null is equal to null and NaN to NaN; a raster is one cell, equal where all its parts are; a
geometry is equal to the same shape however it is encoded, and where one cannot be read
geometries are compared by their bytes; values whose type changed are equal when they are
spelled alike.
"""

from __future__ import annotations

import pyarrow as pa

from havasu_vc.datasets.comparing import equal_columns
from havasu_vc.errors import GeometryError
from havasu_vc.model import kernels as pc
from havasu_vc.model.types import Field, List, Map, Primitive, Struct
from havasu_vc.writers.json_style import COMPACT_TEXT
from havasu_vc.writers.rasters import words_of_rasters
from havasu_vc.writers.values import canonical_wkb, json_tokens, plain_text

__all__ = ["equal_cells", "spelled"]


def equal_cells(old: tuple[Field, pa.Array], new: tuple[Field, pa.Array]) -> pa.BooleanArray:
    """Return where both values are the same, null equal to null and NaN to NaN."""
    left, right = old[1], new[1]
    if old[0].raster is not None and new[0].raster is not None:
        return pa.array(equal_columns(left, right, old[0], new[0]))
    if left.type != right.type or not (_is_plain(old[0]) and _is_plain(new[0])):
        try:
            left, right = _identity(*old), _identity(*new)
        except GeometryError:
            left, right = (pc.cast(column, pa.large_binary()) for column in (left, right))
    same = pc.fill_null(pc.equal(left, right), False)
    return pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))


def spelled(column: pa.Array, field: Field) -> pa.StringArray:
    """Return each value of a column that is no geometry as text, whole; rasters in words."""
    if field.raster is not None:
        return words_of_rasters(column)
    if isinstance(field.type, Struct | List | Map):
        return json_tokens(column, field, COMPACT_TEXT, 0)
    return plain_text(column, field)


def _is_plain(field: Field) -> bool:
    """Whether Arrow's idea of equal values is ours: not of floats, for the sake of NaN and -0."""
    floating = field.type in (Primitive.FLOAT, Primitive.DOUBLE)
    return field.geometry is None and isinstance(field.type, Primitive) and not floating


def _identity(field: Field, column: pa.Array) -> pa.Array:
    if field.geometry is not None:
        return pc.cast(canonical_wkb(column, field, srids=True), pa.large_binary())
    return pc.cast(spelled(column, field), pa.large_binary())
