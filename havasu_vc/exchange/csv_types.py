"""Types of the columns of a CSV, judged from all of their values.

Guessing from the first block makes an import depend on the order of rows. Here every
value is looked at before one is kept, so the same rows always give the same types:
the first type of the list below that every value of the column has.

    boolean     true, false (any case)
    int64       whole numbers; a leading zero (`007`) makes a column text
    decimal     whole numbers beyond int64, up to 38 digits
    float64     numbers; not when one has more digits than that holds
    date        2020-01-31
    timestamp   2020-01-31T10:00:00, also with a blank for the T and with fractions
    timestamptz the same with Z or +02:00 on every value
    time        10:00:00
    text        all else

An empty value is null. A quoted empty value (`""`) is an empty text, and null in a
column that is not text.

Coordinates in columns of a CSV: where one value is no number, the row is named.

Else the whole table would have no geometry, for one value. A column that holds no number at all,
as one with degrees and minutes, is text like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import InvalidFileError
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type
from havasu_vc.records import dataclass

__all__ = [
    "Judgement",
    "Misfit",
    "NoNumber",
    "arrow_type_of",
    "blank_as_null",
    "can_be_text",
    "convert",
    "misfits",
    "no_number",
    "require_numbers",
    "times",
    "typed",
    "without_plus",
]

_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int64": pa.int64(),
    "decimal": pa.decimal128(38, 0),
    "float64": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "time": pa.time64("us"),
    "text": pa.string(),
}
_WHOLE = r"^[+-]?(?:0|[1-9][0-9]*)$"
_TIMED = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"
_PATTERNS = {
    "boolean": r"^(?i:true|false)$",
    "int64": _WHOLE,
    "decimal": r"^[+-]?(?:0|[1-9][0-9]{0,37})$",
    "float64": r"^[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
    r"|^[+-]?(?i:nan|inf|infinity)$",
    "date": r"^\d{4}-\d\d-\d\d$",
    "timestamp": _TIMED + "$",
    "timestamptz": _TIMED + r"(?:[zZ]|[+-]\d\d(?::?\d\d)?)$",
    "time": r"^\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?$",
}
# Whole numbers of 16 digits, and others of more than the 17 that any float is written with.
_TOO_LONG = r"^[+-]?[1-9][0-9]{15,}$|^[+-]?[0.]*[1-9]\.?(?:[0-9]\.?){17,}"


_LIKELY = ("int64", "float64", "date", "timestamp", "timestamptz")
"""Types that a column is expected to have where most of its first values look so."""
_CODE_DIGITS = 5
"""Whole numbers of as many digits each, and at least these, may be codes."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """The first value of a column that is none of a type."""

    row: int
    """The first row of the file is 1."""
    value: str
    """The value."""


@dataclass(slots=True)
class Judgement:
    """The types that a column can still be of, narrowed block by block."""

    possible: list[str] = field(default_factory=lambda: list(_TYPES))
    """Types that every value seen so far has."""
    seen: bool = False
    """Whether there was any value."""
    too_long: bool = False
    """Whether a number was seen that floating point would round."""
    wkt: bool = True
    """Whether every value looks like WKT."""
    misfit: Misfit | None = None
    """The first value that is none of the type that the first ones looked like."""
    digits: tuple[int, int] | None = None
    """How many characters its whole numbers have, at least and at most."""
    likely: str | None = None
    """The type that most of the first values looked like."""
    rows: int = 0
    """How many rows were looked at."""

    def look(self, column: pa.Array) -> None:
        """Take the values of a block into account."""
        before, self.rows = self.rows, self.rows + len(column)
        values = pc.drop_null(blank_as_null(column))
        if not len(values):
            return
        if not self.seen:
            self.likely = _likely(values[:1000])
        self.seen = True
        # Most columns settle at once: the first type that fits the whole block is sure to
        # be tried again, and all before it are out for good.
        for name in list(self.possible):
            if name == "text" or self._fits(values, name):
                break
            self.possible.remove(name)
            if name == self.likely and self.misfit is None:
                odd = _misfit(column, name, before)
                if odd is not None and not (name == "float64" and _LEADING_ZERO(odd.value)):
                    self.misfit = odd
        if self.possible[0] == "int64":
            sizes = pc.min_max(pc.utf8_length(values)).as_py()
            least, most = self.digits or (sizes["min"], sizes["max"])
            self.digits = (min(least, sizes["min"]), max(most, sizes["max"]))
        if "float64" in self.possible and not self.too_long:
            self.too_long = _any(values, _TOO_LONG)
        if self.wkt:
            self.wkt = _all(values, _WKT)

    def _fits(self, values: pa.Array, name: str) -> bool:
        if not _all(values, _PATTERNS[name]):
            return False
        try:
            _cast(values, name)
        except pa.ArrowInvalid:
            return False
        return True

    @property
    def type(self) -> str:
        """The type of the column; text when there was no value."""
        if not self.seen:
            return "text"
        return "text" if self.possible[0] == "float64" and self.too_long else self.possible[0]

    def doubts(self, name: str) -> str | None:
        """Return what a person may want to know of how the type was taken; None for nothing."""
        if self.type == "text" and self.likely is not None and self.misfit is not None:
            odd = self.misfit
            return (
                f"column {name!r} is text: row {odd.row:,} holds {odd.value!r}, "
                f"which is no {_NAMED[self.likely]} like those before"
            )
        if self.type == "int64" and self.digits is not None:
            least, most = self.digits
            if least == most >= _CODE_DIGITS:
                return (
                    f"column {name!r} holds whole numbers of {most} digits each; if they are "
                    f"codes, --csv-text {name} keeps them as text"
                )
        return None


_NAMED = {
    "int64": "number",
    "float64": "number",
    "date": "date",
    "timestamp": "time",
    "timestamptz": "time",
}


def _likely(values: pa.Array) -> str | None:
    """Return the type that most values look like; None where that is none of interest."""
    for name in _LIKELY:
        found = pc.sum(pc.match_substring_regex(values, _PATTERNS[name])).as_py() or 0
        if 2 * found > len(values):
            # A number with a fraction, or a leading zero, is nothing odd among whole ones.
            return "float64" if name == "int64" else name
    return None


def _misfit(column: pa.Array, name: str, before: int) -> Misfit | None:
    """Return the first value of a block that is none of a type."""
    column = blank_as_null(column)
    fits = pc.match_substring_regex(column, _PATTERNS[name]).fill_null(True)
    wrong = pc.indices_nonzero(pc.invert(fits))
    if not len(wrong) and name == "date":
        # Written like a date, and none: a thirteenth month.
        read = pc.strptime(column, format="%Y-%m-%d", unit="s", error_is_null=True)
        wrong = pc.indices_nonzero(pc.and_(column.is_valid(), pc.is_null(read)))
    if not len(wrong):
        return None
    place = wrong[0].as_py()
    return Misfit(before + place + 1, column[place].as_py())


_LEADING_ZERO = re.compile(r"[+-]?0[0-9]+").fullmatch
"""A code, which is text because of the zero that a number would lose."""

_WKT = (
    r"^\s*(?i:SRID=\d+;)?\s*(?i:POINT|LINESTRING|POLYGON|MULTIPOINT|MULTILINESTRING|MULTIPOLYGON"
    r"|GEOMETRYCOLLECTION)\s*(?i:ZM|Z|M)?\s*(?:\(|(?i:EMPTY)).*"
)


def arrow_type_of(name: str) -> pa.DataType:
    """Return the Arrow type of a judged type."""
    return _TYPES[name]


def convert(column: pa.Array, name: str) -> pa.Array:
    """Return a text column as the type that was judged."""
    return column if name == "text" else _cast(blank_as_null(column), name)


def blank_as_null(column: pa.Array) -> pa.Array:
    """Return text whose empty values are null."""
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _all(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())


def _any(values: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, pattern)).as_py())


def _cast(values: pa.Array, name: str) -> pa.Array:
    special: dict[str, Callable[[pa.Array], pa.Array]] = {
        "boolean": lambda column: pc.equal(pc.utf8_lower(column), "true"),
        "int64": lambda column: without_plus(column).cast(pa.int64()),
        "decimal": lambda column: without_plus(column).cast(pa.decimal128(38, 0)),
        "float64": lambda column: without_plus(column).cast(pa.float64()),
        "time": times,
    }
    return special[name](values) if name in special else values.cast(_TYPES[name])


def without_plus(column: pa.Array) -> pa.Array:
    """Return numbers that are text without a plus, which Arrow does not read."""
    return pc.utf8_ltrim(column, "+")


def times(column: pa.Array) -> pa.Array:
    """Return times of day that are text."""
    # Arrow reads no times of day from text, but points in time, and takes the day off them.
    moments = pc.binary_join_element_wise("1970-01-01T", column, "")
    return moments.cast(pa.timestamp("us")).cast(pa.time64("us"))


_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


@dataclass(frozen=True, slots=True)
class NoNumber:
    """A value that is no number where numbers stand."""

    row: int
    """The first row of the file is 1."""
    value: str
    """The value."""


def require_numbers(path: str, batches: Iterable[pa.RecordBatch], name: str) -> None:
    """Raise if a row has no number where others have a longitude or a latitude."""
    found = no_number(batches, name)
    if found is not None:
        raise InvalidFileError(
            path,
            f"row {found.row} has {found.value!r} in column {name!r}, where others have a number",
            hints=(
                "mend the row, or leave its coordinates empty",
                f"--leave-out {name} takes the table without geometries",
            ),
        )


def no_number(batches: Iterable[pa.RecordBatch], name: str) -> NoNumber | None:
    """Return the first value of a column that is no number; None where no value is one."""
    first, some, before = None, False, 0
    for batch in batches:
        column = batch.column(name)
        number = pc.match_substring_regex(column, _NUMBER).fill_null(True)
        filled = pc.and_(column.is_valid(), pc.not_equal(column, "").fill_null(False))
        wrong = pc.indices_nonzero(pc.and_(filled, pc.invert(number)))
        some = some or bool(pc.any(pc.and_(filled, number)).as_py())
        if first is None and len(wrong):
            place = wrong[0].as_py()
            first = NoNumber(before + place + 1, column[place].as_py())
        if first is not None and some:
            return first
        before += batch.num_rows
    return None


# Values of a CSV in the types of an earlier release.
#
# A CSV tells no types, and what they are judged to be may differ from one release to the
# next: codes that all look like numbers this time, a column that is empty, whole numbers
# written as `1.0`, moments that are all at midnight. The dataset that a release is compared
# with knows better. A column takes its type there if every value can be one, written
# another way; nothing is rounded, and no value is left out.


_DAY = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"
_NOUGHT = r"[T ]00:00(?::00(?:\.0+)?)?"
_ANY_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FLOAT = rf"{_ANY_NUMBER}|[+-]?(?i:nan|inf|infinity)"
_WHOLE_NUMBER = r"[+-]?(?:0|[1-9][0-9]*)(?:\.0*)?"
_RELEASE_PATTERNS: Mapping[Primitive, str] = {
    Primitive.BOOLEAN: r"(?i:true|false|t|f)|1|0",
    Primitive.INT: _WHOLE_NUMBER,
    Primitive.LONG: _WHOLE_NUMBER,
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
            return _ANY_NUMBER
        case Fixed(length):
            return rf"(?i:[0-9a-f]{{{2 * length}}})"
        case Primitive():
            return _RELEASE_PATTERNS[type_]
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
