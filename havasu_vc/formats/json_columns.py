"""JSON values as columns of the stored Arrow types, exactly or not at all.

Reads what `writers.values` spells: hex for geometries and bytes, ISO text for dates
and times (shortest fraction, an optional `Z`), text for decimals and UUIDs, objects
for structs and for maps with text keys, lists of pairs for other maps. A value that
the type cannot hold as it is written is an error that says which value it is.
"""

from __future__ import annotations

import re
from binascii import unhexlify
from collections.abc import Callable, Sequence
from decimal import Decimal as Number
from typing import Any, cast

import numpy as np
import pyarrow as pa

from havasu_vc.errors import PatchError
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_field, arrow_type
from havasu_vc.model.types import TYPES, Decimal, Field, Fixed, List, Map, Primitive, Struct

__all__ = ["Place", "json_column"]

Place = Callable[[int, str], str]
"""From a position among the values and a column's name to how a person finds it."""
_Values = Sequence[Any]

_FAILURES = (ValueError, TypeError, OverflowError, NotImplementedError)
_DECIMAL = re.compile(r"[+-]?\d{1,60}(\.\d{1,60})?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,6})?Z?")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?Z?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def json_column(values: _Values, field: Field, place: Place) -> pa.Array:
    """Return JSON values as a column of a field's stored type; None is null."""
    match field.type:
        case Struct(fields) if field.geometry is None:
            return _struct(values, field, fields, place)
        case List(element):
            return _list(values, field, element, place)
        case Map(key, value):
            return _map(values, field, key, value, place)
    try:
        return _leaf(values, field)
    except _FAILURES:
        for at, value in enumerate(values):
            try:
                _leaf([value], field)
            except _FAILURES as error:
                raise _failure(place(at, field.name), value, _expected(field)) from error
        raise


def _failure(where: str, value: Any, expected: str) -> PatchError:
    text = repr(value)
    return PatchError(f"{where} is {text if len(text) <= 60 else text[:57] + '…'}, not {expected}")


def _expected(field: Field) -> str:
    if field.geometry is not None:
        return "WKB as hexadecimal digits that its column can hold"
    match field.type:
        case Primitive():
            return TYPES[field.type].said
        case Decimal():
            return f"a {field.type} as text"
        case Fixed(length):
            return f"{length} bytes as hexadecimal digits"
        case _:
            return "of its type"


def _leaf(values: _Values, field: Field) -> pa.Array:
    if field.geometry is not None:
        return _geometry(values, field)
    type_ = arrow_type(field.type)
    match field.type:
        case Primitive.BOOLEAN:
            return pa.array(_only(values, bool), type_)
        case Primitive.INT | Primitive.LONG:
            return pa.array(_only(values, int), type_)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return _floats(values, type_)
        case Primitive.STRING:
            return pa.array(_only(values, str), type_)
        case Primitive.DATE:
            return pc.cast(pa.array(_matching(values, _DATE), pa.string()), type_)
        case Primitive.TIME:
            return _times(values, type_)
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            text = pa.array(_matching(values, _TIMESTAMP), pa.string())
            return pc.cast(pc.cast(pc.utf8_rtrim(text, "Z"), pa.timestamp("us")), type_)
        case Primitive.UUID:
            digits = [v and v.replace("-", "") for v in _matching(values, _UUID)]
            return pa.array(_bytes(digits), type_)
        case Primitive.BINARY | Fixed():
            return pa.array(_bytes(values), type_)
        case Decimal():
            return pa.array(_numbers(values), type_)
        case _:
            raise TypeError(f"{field.type} is nested")


def _only(values: _Values, kind: type) -> _Values:
    # `bool` is an `int` to Python, not to JSON.
    if not {type(value) for value in values} <= {kind, type(None)}:
        raise TypeError(f"not all are {kind}")
    return values


def _matching(values: _Values, pattern: re.Pattern[str]) -> list[str | None]:
    for value in _only(values, str):
        if value is not None and not pattern.fullmatch(value):
            raise ValueError(value)
    return list(values)


def _bytes(values: _Values) -> list[bytes | None]:
    return [None if value is None else unhexlify(value) for value in _only(values, str)]


def _floats(values: _Values, type_: pa.DataType) -> pa.Array:
    exact = [float(value) if type(value) is int else value for value in values]
    if any(type(v) is int and v != f for v, f in zip(values, exact, strict=True)):
        raise ValueError("an integer that no float holds")
    doubles = pa.array(_only(exact, float), pa.float64())
    if type_ == pa.float64():
        return doubles
    numbers = doubles.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        singles = numbers.astype(np.float32)
    lossy = np.flatnonzero((singles != numbers) & ~np.isnan(numbers))
    # A float32's shortest digits are not the digits of its double.
    if any(float(str(singles[at])) != numbers[at] for at in lossy):
        raise ValueError("more digits than a float of 32 bits holds")
    valid = pc.is_valid(doubles).to_numpy(zero_copy_only=False)
    return pa.array(singles, type_, mask=~valid)


def _times(values: _Values, type_: pa.DataType) -> pa.Array:
    text = pa.array(_matching(values, _TIME), pa.string())
    days = pc.binary_join_element_wise("1970-01-01T", pc.utf8_rtrim(text, "Z"), "")
    return pc.cast(pc.cast(days, pa.timestamp("us")), type_)


def _numbers(values: _Values) -> list[Number | None]:
    texts = [repr(value) if type(value) in (int, float) else value for value in values]
    digits = [value for value in values if type(value) is float]
    if any(len(repr(value).strip("-0").replace(".", "")) > 15 for value in digits):
        raise ValueError("a number with more digits than JSON readers keep")
    return [None if text is None else Number(text) for text in _matching(texts, _DECIMAL)]


def _geometry(values: _Values, field: Field) -> pa.Array:
    if field.geometry is None:
        raise TypeError(f"{field.name!r} is not a geometry column")
    wkb, srids = to_canonical(pa.array(_bytes(values), pa.binary()), "ewkb")
    encoding = cast(Any, field.geometry.encoding.value)
    return pc.cast(from_canonical(wkb, srids, encoding), arrow_type(field.type))


def _struct(values: _Values, field: Field, fields: tuple[Field, ...], place: Place) -> pa.Array:
    names = {inner.name for inner in fields}
    for at, value in enumerate(values):
        if value is not None and not (isinstance(value, dict) and value.keys() <= names):
            raise _failure(place(at, field.name), value, f"an object of {', '.join(sorted(names))}")
    parts = [
        json_column(
            [None if value is None else value.get(inner.name) for value in values],
            inner,
            lambda at, name: place(at, f"{field.name}.{name}"),
        )
        for inner in fields
    ]
    arrow_fields = [arrow_field(inner) for inner in fields]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(parts, fields=arrow_fields, mask=mask)


def _list(values: _Values, field: Field, element: Field, place: Place) -> pa.Array:
    for at, value in enumerate(values):
        if value is not None and not isinstance(value, list):
            raise _failure(place(at, field.name), value, "a list")
    inside = [part for value in values if value is not None for part in value]
    owners = _owners(values)
    parts = json_column(inside, element, lambda at, name: place(owners[at], f"{field.name}.{name}"))
    return pa.ListArray.from_arrays(
        _offsets(values), parts, type=arrow_type(field.type), mask=_mask(values)
    )


def _map(values: _Values, field: Field, key: Field, value: Field, place: Place) -> pa.Array:
    textual = key.type is Primitive.STRING
    expected = "an object" if textual else "a list of pairs"
    pairs: list[list[Any] | None] = []
    for at, given in enumerate(values):
        if given is None:
            pairs.append(None)
        elif textual and isinstance(given, dict):
            pairs.append([list(pair) for pair in given.items()])
        elif not textual and isinstance(given, list) and all(map(_is_pair, given)):
            pairs.append(given)
        else:
            raise _failure(place(at, field.name), given, expected)
    owners = _owners(pairs)
    inside = [pair for row in pairs if row is not None for pair in row]

    def inner_place(at: int, name: str) -> str:
        return place(owners[at], f"{field.name}.{name}")

    keys = json_column([pair[0] for pair in inside], key, inner_place)
    items = json_column([pair[1] for pair in inside], value, inner_place)
    return pa.MapArray.from_arrays(
        _offsets(pairs), keys, items, type=arrow_type(field.type), mask=_mask(pairs)
    )


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and value[0] is not None


def _owners(values: Sequence[list[Any] | None]) -> list[int]:
    return [at for at, value in enumerate(values) if value is not None for _ in value]


def _offsets(values: Sequence[list[Any] | None]) -> pa.Array:
    lengths = np.array([0 if value is None else len(value) for value in values], np.int32)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _mask(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())
