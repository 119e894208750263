"""Whether what a GeoPackage works out, in a view or a generated column, ends and stays small.

A view may go on for ever, and one value of it may take gigabytes, both in a file of a few
kilobytes. GDAL asks SQLite for it without a bound: for the first row of each view where it lists
layers, for all where it reads one. So it is asked for once before, in so many steps and with
values of so many bytes as the size of the file allows. What GDAL's SQL knows
and ours does not means nothing here: functions give null, collations compare bytes.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, suppress

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.ogr_formats import quoted, read_only

__all__ = ["refuse_endless", "refuse_endless_views"]

_STEPS, _STEPS_PER_BYTE = 20_000_000, 20
"""Steps of SQLite's machine that working out all values may take."""
_LENGTH, _LENGTH_PER_BYTE = 20_000_000, 1
"""Bytes that one value may have."""
_MOST_LENGTH = 1_000_000_000
_AT_ONCE = 100_000
_UNKNOWN = re.compile(r"no such (function|collation sequence): (.+)")
_MOST_UNKNOWN = 100
_GENERATED = (2, 3)


def refuse_endless_views(path: str, size: int) -> None:
    """Raise `InvalidFileError` for a file with a view whose first row does not come."""
    views: list[tuple[str]] = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(read_only(path), uri=True)) as database:
        query = "SELECT name FROM sqlite_master WHERE type = 'view'"
        views = database.execute(query).fetchall()
    for (name,) in views:
        refuse_endless(path, name, size, rows=" LIMIT 1")


def refuse_endless(path: str, layer: str, size: int, *, rows: str = "") -> None:
    """Raise `InvalidFileError` for a layer that is worked out and that does not end."""
    left = (_STEPS + _STEPS_PER_BYTE * size) // _AT_ONCE

    def another() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    most = min(_LENGTH + _LENGTH_PER_BYTE * size, _MOST_LENGTH)
    # GDAL tells what is wrong with a file that cannot be read.
    with suppress(sqlite3.Error), closing(sqlite3.connect(read_only(path), uri=True)) as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
        database.set_progress_handler(another, _AT_ONCE)
        for _ in range(_MOST_UNKNOWN):
            try:
                _work_out(database, layer, rows)
            except sqlite3.DataError:
                raise _refusal(path, layer, f"gives a value of more than {most:,} bytes") from None
            except sqlite3.OperationalError as error:
                if left < 0:
                    raise _refusal(path, layer, "takes too long for a file of its size") from None
                _make_known(database, error)
            else:
                return
        raise _refusal(path, layer, "names very many functions that are unknown")


def _work_out(database: sqlite3.Connection, layer: str, rows: str) -> None:
    """Ask for the length of every value of a view, or of the generated columns of a table."""
    found = database.execute(
        "SELECT type FROM sqlite_master WHERE lower(name) = lower(?)", (layer,)
    ).fetchone()
    if found is None:
        return
    columns = database.execute(f"PRAGMA table_xinfo({quoted(layer)})").fetchall()
    lengths = ", ".join(
        f"total(length({quoted(str(name))}))"
        for _, name, *_, hidden in columns
        if found[0] == "view" or hidden in _GENERATED
    )
    if lengths:
        database.execute(f"SELECT {lengths} FROM (SELECT * FROM {quoted(layer)}{rows})").fetchone()


def _make_known(database: sqlite3.Connection, error: sqlite3.OperationalError) -> None:
    """Let what GDAL may know mean nothing."""
    unknown = _UNKNOWN.fullmatch(str(error))
    if unknown is None:
        raise error
    if unknown[1] == "function":
        database.create_function(unknown[2], -1, lambda *_: None)
    else:
        database.create_collation(unknown[2], lambda one, two: (one > two) - (one < two))


def _refusal(path: str, layer: str, what: str) -> InvalidFileError:
    return InvalidFileError(
        path,
        f"its layer {layer[:80]!r}, worked out by a query, {what}",
        hints=("copy what it shows to an ordinary table",),
    )
