"""Values that GDAL does not hand on as the file has them: found, and read as they are."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.gdal import open_stream
from havasu_vc.exchange.ogr_formats import VectorFile, quoted, read_only
from havasu_vc.model import compute as pc
from havasu_vc.records import dataclass

__all__ = [
    "TimeColumns",
    "ValueCheck",
    "finer_than",
    "has_fine_times",
    "judge_times",
    "parse_times",
    "refuse_odd_values",
    "rounded_columns",
    "value_checks",
]


# Values of a GeoPackage that are not what their column says, found before GDAL guesses.
#
# SQLite lets any value stand in any column. GDAL makes 0 of text in a column of numbers,
# drops digits and whole bits of numbers that do not fit, makes 1970-01-01 of what is no
# date and null of what is no geometry, cuts text and bytes in a column of text at a NUL,
# and says nothing. So SQLite itself looks, in the
# same pieces in which a layer is read, and the first such value is named in an error.

ValueCheck = tuple[str, str, str]
"""A column, the SQL condition under which a value of it is wrong, and what it should be."""

# Adding no days makes the third of March of the 31st of February.
_DATE = "date(substr({0}, 1, 10), '+0 days') IS NOT substr({0}, 1, 10)"
# Numbers are less than any text. Most moments are told by one function and no more.
_MOMENT = (
    "{0} < '' OR (datetime({0}) IS NULL AND {0} IS NOT NULL)"
    f" OR (substr({{0}}, 9, 2) > '28' AND {_DATE})"
)
_MOST, _LEAST = "1.7976931348623157e308", "3.4028235677973366e38"
_LARGE = f"{{0}} BETWEEN {_LEAST} AND {_MOST} OR {{0}} BETWEEN -{_MOST} AND -{_LEAST}"
"""Finite, and infinite in 32 bits."""
_SHOWN = 40


def value_checks(columns: Sequence[pa.Field], geometry: str | None) -> tuple[ValueCheck, ...]:
    """Return what must hold of the columns that GDAL announces, and of the geometries."""
    checks = []
    for column in columns:
        found = _check(column.type)
        if found is not None:
            condition, wanted = found
            checks.append((column.name, condition.format(quoted(column.name)), wanted))
    if geometry:
        condition = "substr({0}, 1, 2) IS NOT x'4750' AND {0} IS NOT NULL"
        checks.append((geometry, condition.format(quoted(geometry)), "a geometry"))
    return tuple(checks)


def _check(type_: pa.DataType) -> tuple[str, str] | None:
    if pa.types.is_boolean(type_):
        return "{0} NOT BETWEEN 0 AND 1", "true or false"
    if pa.types.is_signed_integer(type_):
        bits = type_.bit_width
        # What `CAST` leaves alone is a whole number, for nulls are no different from nulls.
        whole = "{0} IS NOT CAST({0} AS INTEGER)"
        if bits == 64:
            return whole, "a whole number"
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        return f"{whole} OR {{0}} NOT BETWEEN {least} AND {most}", f"a whole number of {bits} bits"
    if pa.types.is_floating(type_):
        number = "{0} IS NOT CAST({0} AS REAL)"
        if pa.types.is_float64(type_):
            return number, "a number"
        return f"{number} OR {_LARGE}", "a number of 32 bits"
    if pa.types.is_string(type_):
        return "instr({0}, char(0)) OR typeof({0}) = 'blob'", "text without a NUL"
    if pa.types.is_binary(type_):
        return "typeof({0}) IN ('integer', 'real')", "text or bytes"
    if pa.types.is_date(type_):
        return "{0} IS NOT NULL AND " + _DATE, "a date such as 2026-12-31"
    if pa.types.is_timestamp(type_):
        return _MOMENT, "a time such as 2026-12-31T12:00:00Z"
    return None


def refuse_odd_values(
    path: str, layer: str, checks: Sequence[ValueCheck], where: str | None
) -> None:
    """Raise `InvalidFileError` for the first value that is not what its column says."""
    if not checks:
        return
    any_wrong = " OR ".join(f"({condition})" for _, condition, _ in checks)
    part = f"({where}) AND " if where else ""
    asked = ", ".join(f"({condition}), {quoted(name)}" for name, condition, _ in checks)
    query = f"SELECT {asked} FROM {quoted(layer)} WHERE {part}({any_wrong}) LIMIT 1"
    try:
        with closing(sqlite3.connect(read_only(path), uri=True)) as database:
            row = database.execute(query).fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return  # GDAL tells what is wrong with a file that cannot be read
    if row is None:
        return
    for (name, _, wanted), wrong, value in zip(checks, row[::2], row[1::2], strict=True):
        if wrong:
            raise InvalidFileError(
                path,
                f"column {name!r} holds {_shown(value)}, which is not {wanted}",
                hints=("mend it in the file", "--leave-out takes the table without the column"),
            )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# Points in time as GDAL reads them: their time zones, and what is finer than it keeps.
#
# GDAL keeps a zone for each value but announces one for a column only where all of
# them share it; a column of several zones looks like one without any, and its hours
# would be wrong. So a column that looks so is read once as text before anything else:
# either no value has a zone, or all have one, or it stays text. In a GeoPackage all times
# are UTC by its standard, and GDAL reads them so; but a column of which no value says it
# was written by a program that had times without a zone, and is taken as that.
#
# GDAL keeps milliseconds. GeoJSON whose times have more digits is read as text
# (`geojson_precision`), and what cannot be read so is cut, which a note says.

_ZONE = r"(?:[zZ]|[+-]\d{2}:?\d{2})$"
_ZONED, _PLAIN = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_GUESSING_DRIVERS = ("GeoJSON", "GeoJSONSeq", "FlatGeobuf")


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """Which columns are to be read as text, and what of it; a plain value."""

    zoned: tuple[str, ...] = ()
    """Every value has a zone."""
    plain: tuple[str, ...] = ()
    """Points in time like any other, in a file where others must be text."""
    mixed: tuple[str, ...] = ()
    """Some values have a zone and some have none: text."""
    bare: tuple[str, ...] = ()
    """GDAL says UTC, but no value does."""
    exact: tuple[tuple[str, pa.DataType], ...] = ()
    """Dates and times that come as the text of the file, with their types."""
    cut: tuple[str, ...] = ()
    """Columns of which something may be finer than what is kept of it."""

    @property
    def as_text(self) -> bool:
        """Whether GDAL must hand points in time out as text."""
        return bool(self.zoned or self.mixed)

    @property
    def how(self) -> dict[str, Any]:
        """Options by which GDAL opens the file so that times are told right."""
        if self.exact:
            return {"DATE_AS_STRING": "YES"}
        return {"datetime_as_string": self.as_text}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a person."""
        kept = "microseconds" if self.exact else "milliseconds"
        mixed = [
            f"column {name!r} is kept as text: only some of its times have a time zone"
            for name in self.mixed
        ]
        return (*mixed, *(f"times in column {name!r} are cut to {kept}" for name in self.cut))

    def field(self, field: pa.Field) -> pa.Field:
        """Return the Arrow field that a column is taken as."""
        if field.name in self.mixed:
            return field.with_type(pa.string())
        types = dict(self.exact)
        if field.name in types:
            return field.with_type(types[field.name])
        if field.name in self.zoned:
            return field.with_type(pa.timestamp("ms", tz="UTC"))
        if field.name in self.bare:
            return field.with_type(pa.timestamp(field.type.unit))
        return field

    def convert(self, name: str, column: pa.Array) -> pa.Array:
        """Return a column that was read as text as what it is."""
        if name in self.bare:
            return pc.cast(column, pa.timestamp(column.type.unit))
        if name in self.mixed:
            return column
        types = dict(self.exact)
        if name in types:
            return parse_times(column, types[name])
        if not self.as_text:
            return column
        if name in self.zoned:
            return pc.cast(column, _ZONED)
        return pc.cast(column, _PLAIN) if name in self.plain else column


def judge_times(
    file: VectorFile, layer: str, arrow: pa.Schema, fields: Sequence[str]
) -> TimeColumns:
    """Read the points in time of a layer once, where its columns do not tell of zones."""
    times = [name for name in fields if pa.types.is_timestamp(arrow.field(name).type)]
    if file.driver == "GPKG":
        return TimeColumns(bare=_bare_columns(file, layer, times))
    judged = _judge_zones(file, layer, arrow, times)
    return _judge_digits(file, layer, arrow, fields, judged)


def _judge_zones(
    file: VectorFile, layer: str, arrow: pa.Schema, times: Sequence[str]
) -> TimeColumns:
    unclear = [name for name in times if arrow.field(name).type.tz is None]
    if file.driver not in _GUESSING_DRIVERS or not unclear:
        return TimeColumns()
    with_zone, without = dict.fromkeys(unclear, 0), dict.fromkeys(unclear, 0)
    with open_stream(
        file.path, layer, columns=unclear, read_geometry=False, datetime_as_string=True
    ) as reader:
        for batch in reader:
            for name in unclear:
                column = batch.column(name)
                zoned = pc.sum(pc.match_substring_regex(column, _ZONE)).as_py() or 0
                with_zone[name] += zoned
                without[name] += len(column) - column.null_count - zoned
    zoned = [name for name in unclear if with_zone[name] and not without[name]]
    mixed = [name for name in unclear if with_zone[name] and without[name]]
    others = [name for name in times if name in unclear and not with_zone[name]]
    # Columns with one zone for all are text too once any is.
    uniform = [name for name in times if name not in unclear]
    if not zoned and not mixed:
        return TimeColumns()
    return TimeColumns((*zoned, *uniform), tuple(others), tuple(mixed))


def _judge_digits(
    file: VectorFile, layer: str, arrow: pa.Schema, fields: Sequence[str], judged: TimeColumns
) -> TimeColumns:
    """Have times of GeoJSON read as text where some are finer than GDAL keeps them."""
    wanted = {
        name: _exact_type(name, arrow.field(name).type, judged)
        for name in fields
        if pa.types.is_temporal(arrow.field(name).type)
    }
    fine = [name for name, type_ in wanted.items() if not pa.types.is_date(type_)]
    if file.driver not in ("GeoJSON", "GeoJSONSeq") or not fine or not has_fine_times(file):
        return judged
    if file.driver == "GeoJSONSeq":  # GDAL gives no text of it
        return replace(judged, cut=tuple(fine))
    how = {"columns": list(wanted), "read_geometry": False, "DATE_AS_STRING": "YES"}
    finer = set()
    try:
        with open_stream(file.path, layer, **how) as reader:
            for batch in reader:
                for name, type_ in wanted.items():
                    column = batch.column(name)
                    if name not in judged.mixed:
                        parse_times(column, type_)
                        finer |= {name} if finer_than(column, 6) else set()
    except InvalidFileError:
        # Some of it GDAL understands and Arrow does not, such as leap seconds.
        return replace(judged, cut=tuple(fine))
    return replace(judged, exact=tuple(wanted.items()), cut=tuple(sorted(finer)))


def _exact_type(name: str, type_: pa.DataType, judged: TimeColumns) -> pa.DataType:
    if pa.types.is_time(type_):
        return pa.time64("us")
    if pa.types.is_timestamp(type_):
        return _ZONED if name in judged.zoned or type_.tz is not None else _PLAIN
    return type_


def _bare_columns(file: VectorFile, layer: str, times: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a GeoPackage with values of which none names a zone."""
    table = quoted(layer)
    bare = []
    try:
        with closing(sqlite3.connect(read_only(file.path), uri=True)) as database:
            for name in times:
                column = quoted(name)
                there, zoned = database.execute(
                    f"SELECT EXISTS(SELECT 1 FROM {table} WHERE {column} IS NOT NULL),"
                    f" EXISTS(SELECT 1 FROM {table} WHERE {column} GLOB '*[Zz]'"
                    f" OR {column} GLOB '*[-+][0-9][0-9]:[0-9][0-9]')"
                ).fetchone()
                if there and not zoned:
                    bare.append(name)
    except sqlite3.Error:
        return ()
    return tuple(bare)


# Times and numbers that GeoJSON has finer than GDAL keeps them.
#
# GDAL cuts times to milliseconds, and makes one column of whole and other numbers a
# floating-point one. Files that hold neither finer times nor long whole numbers, which
# is most, are told by one look at their bytes and cost nothing more.

_FINE_TIME = re.compile(rb":\d\d\.\d{3}\d*[1-9]")
_LONG_INTEGER = re.compile(rb"[:,\[\s]-?\d{16}\d*\s*[,}\]]")
_BLOCK, _OVERLAP = 1 << 22, 64
_FIRST_INEXACT = 2.0**53


def has_fine_times(file: VectorFile) -> bool:
    """Whether anything in a file looks like a time finer than a millisecond."""
    return _holds(file, _FINE_TIME)


def _holds(file: VectorFile, pattern: re.Pattern[bytes]) -> bool:
    before = b""
    with open(file.path, "rb") as source:
        while block := source.read(_BLOCK):
            if pattern.search(before + block):
                return True
            before = block[-_OVERLAP:]
    return False


def finer_than(column: pa.Array, digits: int) -> bool:
    """Whether a time in a column of text has more digits of a second than that.

    >>> finer_than(pa.array(["10:00:00.120000", None]), 3)
    False
    """
    pattern = rf"\.\d{{{digits}}}\d*[1-9]"
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())


def parse_times(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return dates or times that stand as text in a column, cut to microseconds.

    Raises `pyarrow.ArrowInvalid` for text that is none.

    >>> parse_times(pa.array(["10:00:00.123456"]), pa.time64("us"))[0].as_py()
    datetime.time(10, 0, 0, 123456)
    """
    text = pc.replace_substring(column, "/", "-")
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    if pa.types.is_time(wanted):
        moments = pc.binary_join_element_wise("1970-01-01T", text, "")
        return pc.cast(pc.cast(moments, pa.timestamp("us")), wanted)
    return pc.cast(text, wanted)


def rounded_columns(
    file: VectorFile, layer: str, arrow: pa.Schema, fields: Sequence[str]
) -> list[str]:
    """Return the columns of floating-point numbers where whole numbers may be rounded."""
    doubles = [name for name in fields if pa.types.is_float64(arrow.field(name).type)]
    if file.driver not in ("GeoJSON", "GeoJSONSeq") or not doubles:
        return []
    if not _holds(file, _LONG_INTEGER):
        return []
    found = set()
    with open_stream(file.path, layer, columns=doubles, read_geometry=False) as reader:
        for batch in reader:
            for name in doubles:
                large = pc.greater(pc.abs(batch.column(name)), _FIRST_INEXACT - 1)
                if pc.any(large).as_py():
                    found.add(name)
    return [name for name in doubles if name in found]
