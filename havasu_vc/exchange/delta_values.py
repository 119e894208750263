"""Values as the data files of a Delta table have them, and the nulls that its log counts.

Delta has neither UUIDs nor bytes of one length, so these become text and plain bytes,
inside of structs, lists and maps too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.exchange.export_columns import uuid_text
from havasu_vc.model.types import Field, Fixed, List, Map, Primitive, Struct, Type

__all__ = ["NullCounts", "add_nulls", "delta_type", "delta_values"]

NullCounts = dict[str, Any]
"""How many values are null, by column: of a struct, the same of each of its parts."""


def delta_type(type_: Type, arrow: pa.DataType) -> pa.DataType:
    """Return the Arrow type of a column in data files, given that of its stored values."""
    match type_:
        case Primitive.UUID:
            return pa.string()
        case Fixed():
            return pa.binary()
        case Struct(fields):
            parts = [_field(part, arrow.field(n)) for n, part in enumerate(fields)]
            return pa.struct(parts)
        case List(element):
            return pa.list_(_field(element, arrow.value_field))
        case Map(key, value):
            return pa.map_(_field(key, arrow.key_field), _field(value, arrow.item_field))
        case _:
            return arrow


def _field(part: Field, arrow: pa.Field) -> pa.Field:
    return arrow.with_type(delta_type(part.type, arrow.type))


def delta_values(values: pa.Array, type_: Type) -> pa.Array:
    """Return stored values of a column as data files have them."""
    wanted = delta_type(type_, values.type)
    if wanted == values.type:
        return values
    if type_ is Primitive.UUID:
        return uuid_text(values)
    if isinstance(type_, Fixed):
        return values.cast(wanted)
    if values.offset:
        values = values.take(pa.array(np.arange(len(values))))
    mask = values.is_null()
    match type_:
        case Struct(fields):
            parts = [delta_values(values.field(n), part.type) for n, part in enumerate(fields)]
            return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=mask)
        case List(element):
            inner = delta_values(values.values, element.type)
            return pa.ListArray.from_arrays(values.offsets, inner, type=wanted, mask=mask)
        case Map(key, value):
            keys, items = (
                delta_values(values.keys, key.type),
                delta_values(values.items, value.type),
            )
            return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=mask)
    raise ValueError(f"{type_} is stored as it is")


def add_nulls(counts: NullCounts, field: Field, values: pa.Array) -> None:
    """Add the nulls of a column; a part of a struct is null where the struct is."""
    if not isinstance(field.type, Struct):
        counts[field.name] = counts.get(field.name, 0) + values.null_count
        return
    inner = counts.setdefault(field.name, {})
    for part, column in zip(field.type.fields, values.flatten(), strict=True):
        add_nulls(inner, part, column)
