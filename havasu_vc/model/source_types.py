"""The types that columns first came as: given back where every value still fits.

`Field.source_type` remembers an Arrow type that is narrower than the stored one, such as
uint8 for an int. Nothing keeps later rows within it: a release may bring larger numbers,
and so may an edit. So a source type is changed where a whole table comes in another
(`agreed_source_type`), and giving it back is checked (`to_source`): a value that does not
fit is named, and whoever writes can go back to the stored type, which holds all.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa

from havasu_vc.errors import SchemaViolationError, UnsupportedTypeError
from havasu_vc.model.arrow import source_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Struct, Type

__all__ = ["agreed_source_type", "as_stored", "has_source_type", "to_source", "to_source_table"]

_UNITS = ("s", "ms", "us", "ns")
_NARROWER = {
    ("uint8", "uint16"), ("uint8", "int16"), ("int8", "int16"), ("time32[s]", "time32[ms]"),
    ("uint8", "uint32"), ("uint16", "uint32"),
}  # fmt: skip
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=.+)?\]")
_SAME_VALUES = re.compile(
    r"json|large_\w+|\w+_view|date64\[ms\]|dictionary<.*|decimal(32|64|256)\(.*"
    r"|timestamp\[us, tz=.+\]"
)
"""Types that differ from the stored one in form alone."""


def agreed_source_type(old: Field, came: Field) -> str | None:
    """Return what a column's source type is when values come as another, stored alike.

    Raises `SchemaViolationError` where the same numbers would mean something else.
    """
    ours, theirs = old.source_type, came.source_type
    if theirs in (ours, "null") or (ours is not None and _SAME_VALUES.fullmatch(ours)):
        return ours
    if ours == "null" or _is_narrower(ours, theirs):
        return theirs
    if _is_narrower(theirs, ours):
        return ours
    durations = [(each or "").startswith("duration") for each in (ours, theirs)]
    if all(durations) or (durations[1] and ours is None):
        raise SchemaViolationError(
            f"column {old.name!r} is {ours or old.type} in the dataset, {theirs} in the source",
            hints=("import it as another dataset, or change the type in the source",),
        )
    return ours if durations[0] else None


def _is_narrower(one: str | None, other: str | None) -> bool:
    """Whether all values of one source type are values of the other."""
    if one is None or other is None:
        return False
    units = [_TIMESTAMP.fullmatch(each) for each in (one, other)]
    if units[0] and units[1] and "ns" not in (units[0][1], units[1][1]):
        return _UNITS.index(units[0][1]) <= _UNITS.index(units[1][1])
    return (one, other) in _NARROWER or (one != other and _SAME_VALUES.fullmatch(other) is not None)


def has_source_type(field: Field) -> bool:
    """Whether a column, or a part of it, came as another type than it is stored as."""
    return as_stored(field) != field


def as_stored(field: Field) -> Field:
    """Return a column that is given back in the type it is stored as."""
    type_: Type = field.type
    match type_:
        case Struct(fields):
            type_ = Struct(tuple(as_stored(part) for part in fields))
        case List(element):
            type_ = List(as_stored(element))
        case Map(key, value):
            type_ = Map(as_stored(key), as_stored(value))
    return replace(field, source_type=None, type=type_)


def to_source(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return stored rows in the types that their columns first came as.

    Raises `UnsupportedTypeError` for a column with a value that is none of its type.
    """
    arrays, fields = [], []
    for field, column in zip(schema.fields, batch.columns, strict=True):
        arrays.append(_restored(column, field))
        fields.append(pa.field(field.name, arrays[-1].type, nullable=not field.required))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def to_source_table(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a whole table likewise; columns with values that do not fit stay as they are."""
    columns, fields = [], []
    for field, column in zip(schema.fields, table.columns, strict=True):
        try:
            restored = _restored(column, field)
        except UnsupportedTypeError:
            restored = column
        columns.append(restored)
        fields.append(pa.field(field.name, restored.type, nullable=not field.required))
    return pa.table(columns, schema=pa.schema(fields))


def _restored(column: pa.Array, field: Field) -> pa.Array:
    wanted = source_type(field)
    if column.type == wanted:
        return column
    try:
        return _cast(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedTypeError(
            field.name,
            f"it came as {wanted}, and a value is none: {str(error).splitlines()[0]}",
            hints=("export the rows as CSV, or leave the column out",),
        ) from error


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast a column without loss; raises `pa.ArrowInvalid` where that cannot be."""
    if pa.types.is_dictionary(wanted):
        return column.dictionary_encode().cast(wanted)
    if pa.types.is_duration(wanted):
        return column.cast(pa.int64()).cast(wanted)
    if pa.types.is_null(wanted):
        if column.null_count < len(column):
            raise pa.ArrowInvalid("there are values")
        return (
            pa.nulls(len(column))
            if isinstance(column, pa.Array)
            else pa.chunked_array([pa.nulls(len(column))])
        )
    restored = column.cast(wanted)
    if pa.types.is_float16(wanted) and not _same_numbers(restored.cast(column.type), column):
        raise pa.ArrowInvalid("a number has more digits, or is larger")
    return restored


def _same_numbers(one: pa.Array, other: pa.Array) -> bool:
    first, second = (np.asarray(each.fill_null(0)) for each in (one, other))
    return bool(np.array_equal(first, second, equal_nan=True))
