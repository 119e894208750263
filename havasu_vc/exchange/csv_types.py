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
column that is not text. Lists, structs and maps are the JSON text that an export makes of them,
where a dataset says that a column is one.

Coordinates in columns of a CSV: where one value is no number, the row is named.

Else the whole table would have no geometry, for one value. A column that holds no number at all,
as one with degrees and minutes, is text like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from havasu_vc.exchange.export_columns import parse_json
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Decimal, Fixed, List, Map, Primitive, Struct, Type
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


_NUMBERS = ("int64", "decimal", "float64", "text")
_ALSO = {
    "int64": _NUMBERS,
    "decimal": _NUMBERS[1:],
    "float64": _NUMBERS[2:],
    "text": ("text",),
}
"""The types that each value of one has as well; values of the others are text besides."""
_LIKELY = ("int64", "float64", "date", "timestamp", "timestamptz")
"""Types that a column is expected to have where most of its first values look so."""
_EXPECTED = ("float64", "date", "timestamp", "timestamptz")
"""The types that follow from that: among whole numbers others are nothing odd."""
_FIRST = 1000
"""How many values those are."""
_MOST_KEPT = 200
"""Characters of a value that is odd which are kept."""
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
    """The types that a column can still be of, narrowed block by block.

    It does not matter where blocks end, nor whether one judgement looks at all or several at
    parts that follow each other.
    """

    possible: list[str] = field(default_factory=lambda: list(_TYPES))
    """Types that every value seen so far has."""
    seen: bool = False
    """Whether there was any value."""
    too_long: bool = False
    """Whether a number was seen that floating point would round."""
    wkt: bool = True
    """Whether every value looks like WKT."""
    odd: dict[str, Misfit] = field(default_factory=dict)
    """The first value that is none of a type, by those that a column may be expected to have."""
    looks: bytes = b""
    """The looks of each of the first values: a bit for each type that is likely."""
    digits: tuple[int, int] | None = None
    """How many characters its whole numbers have, at least and at most."""
    rows: int = 0
    """How many rows were looked at."""

    def look(self, column: pa.Array) -> None:
        """Take the values of a block into account."""
        before, self.rows = self.rows, self.rows + len(column)
        column = blank_as_null(column)
        values = pc.drop_null(column)
        if not len(values):
            return
        self.seen = True
        if len(self.looks) < _FIRST:
            self.looks += _looks(values[: _FIRST - len(self.looks)])
        # Most columns settle at once: of the first type that fits the block is known what
        # else its values are, and all before it are out for good.
        fit = next(name for name in self.possible if name == "text" or _fits(values, name))
        also = _ALSO.get(fit, (fit, "text"))
        self.possible = [name for name in self.possible if name in also]
        for name in _EXPECTED:
            if name not in self.possible and name not in self.odd:
                self.odd[name] = _misfit(column, name, before)
        if self.possible[0] == "int64":
            sizes = pc.min_max(pc.utf8_length(values)).as_py()
            self.digits = _both(self.digits, (sizes["min"], sizes["max"]))
        else:
            self.digits = None
        if "float64" not in self.possible:
            self.too_long = False
        elif not self.too_long:
            self.too_long = _any(values, _TOO_LONG)
        if self.wkt:
            self.wkt = _all(values, _WKT)

    def then(self, other: Judgement) -> Judgement:
        """Return the judgement of a column of which `other` looked at the rows that follow."""
        possible = [name for name in self.possible if name in other.possible]
        later = {name: replace(odd, row=odd.row + self.rows) for name, odd in other.odd.items()}
        return Judgement(
            possible=possible,
            seen=self.seen or other.seen,
            too_long="float64" in possible and (self.too_long or other.too_long),
            wkt=self.wkt and other.wkt,
            odd=later | self.odd,
            looks=(self.looks + other.looks)[:_FIRST],
            digits=_both(self.digits, other.digits) if possible[0] == "int64" else None,
            rows=self.rows + other.rows,
        )

    @property
    def likely(self) -> str | None:
        """The type that most of the first values look like; None where that is none of interest."""
        looks = np.frombuffer(self.looks, np.uint8)
        for bit, name in enumerate(_LIKELY):
            if 2 * int(np.count_nonzero(looks & (1 << bit))) > len(looks):
                return "float64" if name == "int64" else name
        return None

    @property
    def type(self) -> str:
        """The type of the column; text when there was no value."""
        if not self.seen:
            return "text"
        return "text" if self.possible[0] == "float64" and self.too_long else self.possible[0]

    def doubts(self, name: str) -> str | None:
        """Return what a person may want to know of how the type was taken; None for nothing."""
        likely = self.likely
        odd = None if likely is None else self.odd.get(likely)
        coded = odd is not None and likely == "float64" and _LEADING_ZERO(odd.value)
        if self.type == "text" and likely is not None and odd is not None and not coded:
            return (
                f"column {name!r} is text: row {odd.row:,} holds {odd.value!r}, "
                f"which is no {_NAMED[likely]} like those before"
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


def _looks(values: pa.Array) -> bytes:
    """Return what values look like, a byte for each."""
    looks = np.zeros(len(values), np.uint8)
    for bit, name in enumerate(_LIKELY):
        found = pc.match_substring_regex(values, _PATTERNS[name])
        looks |= np.asarray(found).astype(np.uint8) << bit
    return looks.tobytes()


def _both(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the least and the most of two pairs of them."""
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _fits(values: pa.Array, name: str) -> bool:
    """Whether all values are of a type."""
    return _all(values, _PATTERNS[name]) and _can_cast(values, name)


def _can_cast(values: pa.Array, name: str) -> bool:
    try:
        _cast(values, name)
    except pa.ArrowInvalid:
        return False
    return True


def _misfit(column: pa.Array, name: str, before: int) -> Misfit:
    """Return the first value of a block that is none of a type; there is one."""
    if len(column) > _FIRST and not _fits(pc.drop_null(column[:_FIRST]), name):
        column = column[:_FIRST]
    fits = pc.match_substring_regex(column, _PATTERNS[name]).fill_null(True)
    wrong = pc.indices_nonzero(pc.invert(fits))
    start, end = 0, wrong[0].as_py() if len(wrong) else len(column)
    if _can_cast(column[:end], name):
        start = end
    # A value that looks right and is none, such as a thirteenth month.
    while end - start > 1:
        middle = (start + end) // 2
        if _can_cast(column[start:middle], name):
            start = middle
        else:
            end = middle
    return Misfit(before + start + 1, column[start].as_py()[:_MOST_KEPT])


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
    return bool(pc.all(pc.match_substring_regex(values, pattern), min_count=0).as_py())


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


def no_number(batches: Iterable[pa.RecordBatch], name: str) -> tuple[NoNumber | None, bool]:
    """Return the first value of a column that is no number, and whether any value is one.

    A value that is none is looked for no longer than until both are known.
    """
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
            break
        before += batch.num_rows
    return first, some


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
    return isinstance(type_, Primitive | Decimal | Fixed | Struct | List | Map)


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
        case Struct() | List() | Map():
            return parse_json(values, type_)
    return values.cast(arrow_type(type_))


def _first_misfit(column: pa.Array, type_: Type) -> int | None:
    """Return the place of the first value that is none of a type; None where all are."""
    if type_ is Primitive.STRING:
        return None
    if isinstance(type_, Struct | List | Map):
        if _reads(column, type_):  # as nearly always, and all at once
            return None
        texts = (column.slice(at, 1) for at in range(len(column)))
        return next((at for at, text in enumerate(texts) if not _reads(text, type_)), None)
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
    except (pa.ArrowException, ValueError):
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
