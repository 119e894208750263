"""Values of any program in one form, so that they can be compared as values.

A float is its bits (all NaN alike), a decimal its digits and scale, a moment its microseconds
since 1970, a map its pairs, a geometry its WKB without an SRID, whatever Python type somebody has
for it. A wrong type, such as a whole number for a float, is another value.
"""

import datetime as dt
import math
import struct
import uuid
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import shapely

from tests.conformance.tables import KEY, Column, Row, State

__all__ = ["compared", "named", "same_rows", "shape", "told"]

EPOCH = dt.datetime(1970, 1, 1)


def compared(value: Any, type_: pa.DataType) -> Any:
    """Return a value in the form that is compared, as a type has it."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        assert isinstance(value, Mapping) and set(value) == {f.name for f in type_}, (value, type_)
        return {field.name: compared(value[field.name], field.type) for field in type_}
    if pa.types.is_list(type_):
        return [compared(each, type_.value_type) for each in value]
    if pa.types.is_map(type_):
        pairs = value.items() if isinstance(value, Mapping) else value
        inner = [
            (compared(k, type_.key_type), compared(v, type_.item_type)) for k, v in list(pairs)
        ]
        return sorted(inner, key=repr)
    return _compared_one(value, type_)


def _compared_one(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_floating(type_):
        assert isinstance(value, float), (value, type_)
        return "NaN" if math.isnan(value) else struct.pack(">d", value).hex()
    if pa.types.is_decimal(type_):
        assert isinstance(value, Decimal), (value, type_)
        # Digits without the zeros before them.
        return str(Decimal(value).copy_abs().as_tuple()), value.is_signed() and value != 0
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, dt.datetime):
        assert (value.tzinfo is not None) is (getattr(type_, "tz", None) is not None), value
        plain = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return (plain - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value


def shape(value: bytes | None) -> bytes | None:
    """Return a geometry as plain WKB of OGC's."""
    return None if value is None else bytes(shapely.to_wkb(shapely.from_wkb(value), flavor="iso"))


def _cell(row: Row, column: Column) -> Any:
    value = row[column.name]
    return shape(value) if column.geo is not None else compared(value, column.type)


def same_rows(found: Iterable[Row], wanted: State, who: str = "") -> int:
    """Check that rows are those of a state, in any order; return how many."""
    by_key: dict[int, Row] = {}
    for row in found:
        assert row[KEY] not in by_key, f"{who}: two rows of key {row[KEY]}"
        by_key[row[KEY]] = row
    assert sorted(by_key) == sorted(wanted.rows), who
    for key, expected in wanted.rows.items():
        row = by_key[key]
        assert set(row) == set(expected), who
        for column in wanted.columns:
            mine, theirs = _cell(expected, column), _cell(row, column)
            assert theirs == mine, f"{who}: row {key}, {column.name} ({column.type})"
    return len(by_key)


_NAMES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", tz="UTC"): "timestamptz",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.uuid(): "uuid",
}


def named(type_: pa.DataType) -> str:
    """Return a type as Iceberg names it."""
    if type_ in _NAMES:
        return _NAMES[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision}, {type_.scale})"
    if pa.types.is_fixed_size_binary(type_):
        return f"fixed[{type_.byte_width}]"
    if pa.types.is_list(type_):
        return f"list<{named(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{named(type_.key_type)}, {named(type_.item_type)}>"
    return f"struct<{', '.join(f'{field.name}: {named(field.type)}' for field in type_)}>"


def told(state: State) -> list[tuple[str, str]]:
    """Return the columns of a state by name and Iceberg's name of their type."""
    return [(column.name, named(column.type)) for column in state.columns]
