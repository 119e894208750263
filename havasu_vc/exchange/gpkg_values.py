"""Values of a GeoPackage that are not what their column says, found before GDAL guesses.

SQLite lets any value stand in any column. GDAL makes 0 of text in a column of numbers,
drops digits and whole bits of numbers that do not fit, makes 1970-01-01 of what is no
date and null of what is no geometry, and says nothing. So SQLite itself looks, in the
same pieces in which a layer is read, and the first such value is named in an error.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.ogr_formats import quoted, read_only

__all__ = ["ValueCheck", "refuse_odd_values", "value_checks"]

ValueCheck = tuple[str, str, str]
"""A column, the SQL condition under which a value of it is wrong, and what it should be."""

# Adding no days makes the third of March of the 31st of February.
_DATE = "date(substr({0}, 1, 10), '+0 days') IS NOT substr({0}, 1, 10)"
# Numbers are less than any text. Most moments are told by one function and no more.
_MOMENT = (
    "{0} < '' OR (datetime({0}) IS NULL AND {0} IS NOT NULL)"
    f" OR (substr({{0}}, 9, 2) > '28' AND {_DATE})"
)
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
        return "{0} IS NOT CAST({0} AS REAL)", "a number"
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
                hints=("mend it in the file, or leave the column out with --leave-out",),
            )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
