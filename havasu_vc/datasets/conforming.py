"""Changes before they are applied: in the columns of the dataset, each key once, in order.

This is common to all kinds of dataset, whatever they keep rows in.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from havasu_vc.errors import KeyViolationError, SchemaViolationError
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrow import arrow_schema, arrow_type
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema

__all__ = ["check_order", "conform", "describe_key"]


def conform(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return rows in the columns of a schema, matched by name; required ones must be there."""
    target = arrow_schema(schema)
    if rows.schema.names != list(schema.names):
        missing = [name for name in schema.names if name not in rows.schema.names]
        if missing or rows.num_columns != len(schema.names):
            raise SchemaViolationError(
                f"rows have the columns {', '.join(rows.schema.names)}, "
                f"the dataset has {', '.join(schema.names)}"
            )
        rows = rows.select(list(schema.names))
    columns = [_cast(column, field) for column, field in zip(rows.columns, target, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=target)
    keys = set(schema.identifier_ids)
    for field, column in zip(schema.fields, rows.columns, strict=True):
        if field.required and column.null_count:
            if field.id in keys:
                raise KeyViolationError(f"a row has no value in its key column {field.name!r}")
            raise SchemaViolationError(f"a row has no value in the required column {field.name!r}")
    return rows


def check_order(
    batch: ChangeBatch, last: pa.RecordBatch | None, before: Schema, after: Schema
) -> pa.RecordBatch | None:
    """Raise unless each key of a stream comes once, in order; return the last one.

    `last` is what the batch before gave; the schemas are those of the two sides.
    """
    if not after.key:
        return None
    columns = []
    for field in after.key.fields:
        new = _column(batch.new, field.name, arrow_type(field.type))
        was = before.by_id[field.id]
        columns.append(pc.coalesce(new, _column(batch.old, was.name, new.type)))
    names = list(after.key.names)
    if any(column.null_count for column in columns):
        raise KeyViolationError(f"a row has no value in its key columns {', '.join(names)}")
    keys = pa.RecordBatch.from_arrays(columns, names)
    whole = keys if last is None else pa.concat_batches([last, keys])
    left, right = whole.slice(0, whole.num_rows - 1), whole.slice(1)
    less, equal = np.zeros(left.num_rows, bool), np.ones(left.num_rows, bool)
    for first, second in zip(left.columns, right.columns, strict=True):
        less |= equal & pc.less(first, second).to_numpy(zero_copy_only=False)
        equal &= pc.equal(first, second).to_numpy(zero_copy_only=False)
    if equal.any():
        where = int(np.flatnonzero(equal)[0])
        key = describe_key(tuple(column[where].as_py() for column in whole.columns))
        raise KeyViolationError(f"the key {key} comes twice")
    if not less.all():
        raise ValueError("changes are not in key order")
    return keys.slice(keys.num_rows - 1)


def _column(side: pa.StructArray, name: str, type_: pa.DataType) -> pa.Array:
    """Return one column of a side; nulls where the side has none, as when it is all inserts."""
    if name not in side.type.names:
        return pa.nulls(len(side), type_)
    try:
        return pc.cast(pc.struct_field(side, name), type_)
    except pa.ArrowException as error:
        raise SchemaViolationError(f"a value does not fit column {name!r}: {error}") from error


def describe_key(key: tuple[object, ...]) -> str:
    """Return a key as people write it in a filter."""
    return ",".join(str(value) for value in key)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    extra = _first_extra(column.type, field.type, field.name)
    if extra is not None:
        raise SchemaViolationError(f"rows have {extra!r}, which the dataset has not")
    try:
        return pc.cast(column, field.type)
    except pa.ArrowException as error:
        raise SchemaViolationError(
            f"column {field.name!r} is {field.type}, and a value does not fit: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _first_extra(came: pa.DataType, wanted: pa.DataType, name: str) -> str | None:
    """Return the first part of a struct that has no place, which a cast would leave out."""
    if pa.types.is_struct(came) and pa.types.is_struct(wanted):
        for part in came:
            index = wanted.get_field_index(part.name)
            inside = f"{name}.{part.name}"
            if index < 0:
                return inside
            found = _first_extra(part.type, wanted.field(index).type, inside)
            if found is not None:
                return found
        return None
    if pa.types.is_map(came) and pa.types.is_map(wanted):
        return _first_extra(came.item_type, wanted.item_type, name)
    if pa.types.is_list(came) and pa.types.is_list(wanted):
        return _first_extra(came.value_type, wanted.value_type, name)
    return None
