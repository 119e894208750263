"""Nested values as JSON text and back, exactly.

For formats that know only flat columns. Lists and structs are JSON's own; a map is a
list of pairs, because its keys need not be text. Bytes are hexadecimal, decimals,
dates and times are text, and floats that are no numbers are written as Python does
(`NaN`, `Infinity`). Read back with the type at hand, every value is what it was.
Each value goes through Python one by one; flat columns never come here.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa

from havasu_vc.formats.havasu.scalars import from_scalar
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Decimal, Field, Fixed, List, Map, Primitive, Struct, Type

__all__ = ["format_json", "parse_json"]


def format_json(column: pa.Array, type_: Type) -> pa.Array:
    """Return a nested column as JSON text; null stays null."""
    texts = [
        None if value is None else json.dumps(_plain(value, type_), ensure_ascii=False)
        for value in column.to_pylist()
    ]
    return pa.array(texts, pa.string())


def parse_json(column: pa.Array, type_: Type) -> pa.Array:
    """Return what `format_json` was given.

    Raises `ValueError` for text that is not JSON, or not of that type.
    """
    values = []
    for text in column.to_pylist():
        try:
            values.append(None if text is None else _typed(json.loads(text), type_))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{text[:60]!r} is not a {type_}") from error
    try:
        return pa.array(values, arrow_type(type_))
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise ValueError(f"a value does not fit {type_}: {error}") from error


def _plain(value: Any, type_: Type) -> Any:
    """Return a value in what JSON has."""
    if value is None:
        return None
    match type_:
        case Struct(fields):
            return {field.name: _plain(value[field.name], field.type) for field in fields}
        case List(element):
            return [_plain(each, element.type) for each in value]
        case Map(key, item):
            return [[_plain(k, key.type), _plain(v, item.type)] for k, v in value]
        case _:
            return _plain_leaf(value)


def _plain_leaf(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case decimal.Decimal():
            return str(value)
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return value


def _typed(value: Any, type_: Type) -> Any:
    """Return a value of JSON as Arrow takes it for a type."""
    if value is None:
        return None
    match type_:
        case Struct(fields):
            if not isinstance(value, dict):
                raise TypeError
            return {field.name: _typed(value.get(field.name), field.type) for field in fields}
        case List(element):
            return [_typed(each, element.type) for each in _list(value)]
        case Map(key, item):
            return [(_typed(k, key.type), _typed(v, item.type)) for k, v in _list(value)]
        case _:
            return _typed_leaf(value, type_)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _typed_leaf(value: Any, type_: Type) -> Any:
    match type_:
        case Fixed() | Primitive.BINARY | Primitive.UUID:
            return bytes.fromhex(value)
        case Decimal():
            return decimal.Decimal(str(value))
        case Primitive.DATE | Primitive.TIME | Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return from_scalar(value, type_)
        case Primitive.FLOAT | Primitive.DOUBLE if isinstance(value, int):
            return float(value) if math.isfinite(value) else value
        case _:
            return value


def is_nested(field: Field) -> bool:
    """Whether a column holds lists, structs or maps."""
    return isinstance(field.type, List | Struct | Map)
