"""What type the values of a CSV column have, judged from all of them.

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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.records import dataclass

__all__ = ["Judgement", "convert"]

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


@dataclass(slots=True)
class Judgement:
    """What a column can still be, narrowed block by block."""

    possible: list[str] = field(default_factory=lambda: list(_TYPES))
    """Types that every value seen so far has."""
    seen: bool = False
    """Whether there was any value."""
    too_long: bool = False
    """Whether a number was seen that floating point would round."""
    wkt: bool = True
    """Whether every value looks like WKT."""

    def look(self, column: pa.Array) -> None:
        """Take the values of a block into account."""
        values = pc.drop_null(_blank_as_null(column))
        if not len(values):
            return
        self.seen = True
        # Most columns settle at once: the first type that fits the whole block is sure to
        # be tried again, and all before it are out for good.
        for name in list(self.possible):
            if name == "text" or self._fits(values, name):
                break
            self.possible.remove(name)
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


_WKT = (
    r"^\s*(?i:SRID=\d+;)?\s*(?i:POINT|LINESTRING|POLYGON|MULTIPOINT|MULTILINESTRING|MULTIPOLYGON"
    r"|GEOMETRYCOLLECTION)\s*(?i:ZM|Z|M)?\s*(?:\(|(?i:EMPTY)).*"
)


def arrow_type_of(name: str) -> pa.DataType:
    """Return the Arrow type of a judged type."""
    return _TYPES[name]


def convert(column: pa.Array, name: str) -> pa.Array:
    """Return a text column as the type that was judged."""
    return column if name == "text" else _cast(_blank_as_null(column), name)


def _blank_as_null(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _all(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())


def _any(values: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, pattern)).as_py())


def _cast(values: pa.Array, name: str) -> pa.Array:
    special: dict[str, Callable[[pa.Array], pa.Array]] = {
        "boolean": lambda column: pc.equal(pc.utf8_lower(column), "true"),
        "int64": lambda column: _without_plus(column).cast(pa.int64()),
        "decimal": lambda column: _without_plus(column).cast(pa.decimal128(38, 0)),
        "float64": lambda column: _without_plus(column).cast(pa.float64()),
        "time": _time,
    }
    return special[name](values) if name in special else values.cast(_TYPES[name])


def _without_plus(column: pa.Array) -> pa.Array:
    return pc.utf8_ltrim(column, "+")


def _time(column: pa.Array) -> pa.Array:
    # Arrow reads no times of day from text, but points in time, and takes the day off them.
    moments = pc.binary_join_element_wise("1970-01-01T", column, "")
    return moments.cast(pa.timestamp("us")).cast(pa.time64("us"))
