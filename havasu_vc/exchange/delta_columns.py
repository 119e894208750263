"""Columns of a Delta data file in the types and names that the table's log says.

Inside of structs, lists and maps too: parts are found as columns are, what a file does
not have is null, and what the table does not have any more is left out.
"""

from __future__ import annotations

import pyarrow as pa

from havasu_vc.formats.delta_schema import DeltaColumn

__all__ = ["conformed"]


def conformed(values: pa.Array, column: DeltaColumn) -> pa.Array:
    """Return values of a file as the table has them; raises Arrow's errors where they cannot be."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if values.type == column.type:
        return values
    if not column.parts:
        # Sub-microsecond digits are what Delta leaves out too.
        return values.cast(column.type, safe=not pa.types.is_timestamp(column.type))
    if values.offset:
        values = values.take(pa.array(range(len(values))))
    if pa.types.is_struct(column.type):
        return _struct(values, column)
    if pa.types.is_map(column.type):
        return _map(values, column)
    return _list(values, column)


def _struct(values: pa.Array, column: DeltaColumn) -> pa.Array:
    if not pa.types.is_struct(values.type):
        raise pa.ArrowInvalid(f"{values.type} is no struct")
    names = [values.type.field(n).name for n in range(values.type.num_fields)]
    ids = {
        (values.type.field(n).metadata or {}).get(b"PARQUET:field_id"): n for n in range(len(names))
    }
    parts = []
    for part in column.parts:
        if part.id is not None:
            index = ids.get(str(part.id).encode())
        else:
            index = names.index(part.physical) if part.physical in names else None
        if index is None:
            parts.append(pa.nulls(len(values), part.type))
        else:
            parts.append(conformed(values.field(index), part))
    fields = [pa.field(part.name, part.type) for part in column.parts]
    made = pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())
    return made.cast(column.type)


def _list(values: pa.Array, column: DeltaColumn) -> pa.Array:
    if pa.types.is_large_list(values.type):
        values = values.cast(pa.list_(values.type.value_field))
    if not pa.types.is_list(values.type):
        raise pa.ArrowInvalid(f"{values.type} is no list")
    elements = conformed(values.values, column.parts[0])
    mask = values.is_null() if values.null_count else None
    return pa.ListArray.from_arrays(values.offsets, elements, mask=mask).cast(column.type)


def _map(values: pa.Array, column: DeltaColumn) -> pa.Array:
    if not pa.types.is_map(values.type):
        raise pa.ArrowInvalid(f"{values.type} is no map")
    keys, items = conformed(values.keys, column.parts[0]), conformed(values.items, column.parts[1])
    mask = values.is_null() if values.null_count else None
    return pa.MapArray.from_arrays(values.offsets, keys, items, mask=mask).cast(column.type)
