"""Rows of any schema as rows of a Kart dataset: what Kart lacks becomes the next type it has."""

from __future__ import annotations

import pyarrow as pa

from havasu_vc.datasets.conforming import conform
from havasu_vc.errors import SchemaViolationError
from havasu_vc.geo.text import hex_wkb
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Primitive

__all__ = ["kart_rows"]


def kart_rows(rows: pa.RecordBatch, given: Schema, wanted: Schema) -> pa.RecordBatch:
    """Return rows of `given` in the columns of `wanted`, its counterpart in a Kart dataset."""
    if rows.schema.names != list(given.names):
        rows = conform(rows, given)
    target = arrow_schema(wanted)
    columns = []
    for column, before, field in zip(rows.columns, given.fields, target, strict=True):
        columns.append(_converted(column, before, field.type))
    return conform(pa.RecordBatch.from_arrays(columns, names=list(wanted.names)), wanted)


def _converted(column: pa.Array, before: Field, wanted: pa.DataType) -> pa.Array:
    if before.geometry is not None:
        if before.geometry.encoding is Encoding.EWKB:
            return column
        wkb, srids = to_canonical(column, before.geometry.encoding)
        return from_canonical(wkb, srids, "ewkb")
    if before.type is Primitive.UUID and pa.types.is_fixed_size_binary(column.type):
        digits = pc.utf8_lower(hex_wkb(pc.cast(column, pa.binary())))
        groups = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
        return pc.binary_join_element_wise(
            *(pc.utf8_slice_codeunits(digits, start, stop) for start, stop in groups), "-"
        )
    if column.type == wanted:
        return column
    try:
        return pc.cast(column, wanted)
    except pa.ArrowException as error:
        raise SchemaViolationError(f"a value does not fit {before.name!r}: {error}") from error
