"""Values of a CSV in the types of an earlier release.

A CSV tells no types, and what they are judged to be may differ from one release to the
next: codes that all look like numbers this time, a column that is empty, whole numbers
written as `1.0`, moments that are all at midnight. The dataset that a release is compared
with knows better. A column takes its type there if every value can be one, written
another way; nothing is rounded, and no value is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.exchange.csv_types import Misfit, blank_as_null, times, without_plus
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type

__all__ = ["can_be_text", "misfits", "typed"]

_DAY = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"
_NOUGHT = r"[T ]00:00(?::00(?:\.0+)?)?"
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FLOAT = rf"{_NUMBER}|[+-]?(?i:nan|inf|infinity)"
_WHOLE = r"[+-]?(?:0|[1-9][0-9]*)(?:\.0*)?"
_PATTERNS: Mapping[Primitive, str] = {
    Primitive.BOOLEAN: r"(?i:true|false|t|f)|1|0",
    Primitive.INT: _WHOLE,
    Primitive.LONG: _WHOLE,
    Primitive.FLOAT: _FLOAT,
    Primitive.DOUBLE: _FLOAT,
    Primitive.DATE: rf"{_DAY}(?:{_NOUGHT})?",
    Primitive.TIME: _CLOCK,
    Primitive.TIMESTAMP: rf"{_DAY}(?:[T ]{_CLOCK})?",
    Primitive.TIMESTAMPTZ: rf"{_DAY}[T ]{_CLOCK}(?:[zZ]|[+-]\d\d(?::?\d\d)?)",
    Primitive.UUID: r"(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    Primitive.BINARY: r"(?i:(?:[0-9a-f]{2})*)",
}
_MOST_DIGITS = {Primitive.FLOAT: 9, Primitive.DOUBLE: 17}
"""Digits that any value of a type can be written with, so that more would be rounded."""


def can_be_text(type_: Type) -> bool:
    """Whether text is read as this type at all."""
    return isinstance(type_, Primitive | Decimal | Fixed)


def misfits(batches: Iterable[pa.RecordBatch], types: Mapping[str, Type]) -> dict[str, Misfit]:
    """Return the first value of each column that is none of its type, where there is one."""
    found: dict[str, Misfit] = {}
    before = 0
    for batch in batches:
        for name, type_ in types.items():
            if name in found:
                continue
            column = batch.column(name)
            place = _first_misfit(column, type_)
            if place is not None:
                found[name] = Misfit(before + place + 1, column[place].as_py())
        before += batch.num_rows
    return found


def typed(column: pa.Array, type_: Type) -> pa.Array:
    """Return a column of text as a type, which all of its values must be of."""
    if type_ is Primitive.STRING:
        return column
    values = blank_as_null(column)
    match type_:
        case Primitive.BOOLEAN:
            true = pc.is_in(pc.utf8_lower(values), pa.array(["true", "t", "1"]))
            return pc.if_else(pc.is_valid(values), true, None)
        case Primitive.INT | Primitive.LONG:
            plain = pc.replace_substring_regex(without_plus(values), r"\.0*$", "")
            return plain.cast(arrow_type(type_))
        case Primitive.FLOAT | Primitive.DOUBLE | Decimal():
            return without_plus(values).cast(arrow_type(type_))
        case Primitive.DATE:
            return pc.utf8_slice_codeunits(values, 0, 10).cast(pa.date32())
        case Primitive.TIME:
            return times(values)
        case Primitive.UUID | Primitive.BINARY | Fixed():
            return _bytes(pc.replace_substring(values, "-", "")).cast(arrow_type(type_))
    return values.cast(arrow_type(type_))


def _first_misfit(column: pa.Array, type_: Type) -> int | None:
    """Return the place of the first value that is none of a type; None where all are."""
    if type_ is Primitive.STRING:
        return None
    filled = pc.and_(pc.is_valid(column), pc.not_equal(column, "").fill_null(False))
    fits = pc.match_substring_regex(column, f"^(?:{_pattern(type_)})$")
    if (most := _MOST_DIGITS.get(type_) if isinstance(type_, Primitive) else None) is not None:
        more = rf"^[+-]?[0.]*[1-9]\.?(?:[0-9]\.?){{{most},}}"
        fits = pc.and_(fits, pc.invert(pc.match_substring_regex(column, more)))
    wrong = pc.indices_nonzero(pc.and_(filled, pc.invert(fits)))
    end = wrong[0].as_py() if len(wrong) else len(column)
    if _reads(column.slice(0, end), type_):
        return end if len(wrong) else None
    # A value that looks right and is out of bounds, such as 2020-02-31.
    start = 0
    while end - start > 1:
        middle = (start + end) // 2
        if _reads(column.slice(start, middle - start), type_):
            start = middle
        else:
            end = middle
    return start


def _pattern(type_: Type) -> str:
    match type_:
        case Decimal():
            return _NUMBER
        case Fixed(length):
            return rf"(?i:[0-9a-f]{{{2 * length}}})"
        case Primitive():
            return _PATTERNS[type_]
    raise AssertionError(f"text is not read as {type_}")


def _reads(column: pa.Array, type_: Type) -> bool:
    try:
        values = typed(column, type_)
    except pa.ArrowException:
        return False
    if type_ not in (Primitive.FLOAT, Primitive.DOUBLE):
        return True
    # A whole number is one to the last digit, beyond 2^53 too.
    whole = pc.match_substring_regex(column, r"^[+-]?[0-9]+$")
    exact = pc.filter(without_plus(column), whole).cast(pa.int64())
    same = pc.equal(pc.filter(values, whole).cast(pa.int64(), safe=False), exact)
    if not pc.all(same, min_count=0).as_py():
        return False
    # A number beyond what a float holds becomes infinite.
    said = pc.match_substring_regex(column, r"(?i)^[+-]?inf(inity)?$")
    return not pc.any(pc.and_(pc.is_inf(values), pc.invert(said))).as_py()


def _bytes(column: pa.Array) -> pa.Array:
    """Return a column of hexadecimal digits as bytes."""
    lengths = np.asarray(pc.binary_length(column).fill_null(0), np.int64) // 2
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    digits = "".join(pc.drop_null(column).to_pylist())
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(bytes.fromhex(digits))]
    values = pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
    return pc.if_else(pc.is_valid(column), values, pa.scalar(None, pa.large_binary()))
