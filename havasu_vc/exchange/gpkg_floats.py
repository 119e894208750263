"""Floats of 32 bits in a GeoPackage, whose values SQLite has with 64, as Kart keeps them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice

import numpy as np
import pyarrow as pa

from havasu_vc.exchange.ogr_formats import quoted, read_only

__all__ = ["WideFloats", "wide_floats"]


class WideFloats:
    """Values of some columns, row after row as GDAL reads them."""

    def __init__(self, columns: Sequence[str], rows: Iterator[tuple[object, ...]]) -> None:
        self._columns = columns
        self._rows = rows

    def next_to(self, narrow: Mapping[str, pa.Array], count: int) -> dict[str, pa.Array]:
        """Return the columns of the next rows with 64 bits, where they are those of GDAL."""
        if not self._columns:
            return {}
        try:
            values = list(islice(self._rows, count))
        except sqlite3.Error:
            return {}  # GDAL tells what is wrong with a file that cannot be read
        found = {}
        for place, name in enumerate(self._columns):
            wide = _doubles([row[place] for row in values])
            if _is_same(wide, narrow[name]):
                found[name] = wide
        return found


def _doubles(values: Sequence[object]) -> pa.Array:
    numbers = [float(value) if isinstance(value, int | float) else None for value in values]
    return pa.array(numbers, pa.float64())


def _is_same(wide: pa.Array, narrow: pa.Array) -> bool:
    """Whether numbers are the same but for their last digits."""
    if len(wide) != len(narrow):
        return False
    with np.errstate(over="ignore"):
        ours = np.asarray(wide.fill_null(np.nan)).astype(np.float32)
    theirs = np.asarray(narrow.fill_null(np.nan), np.float32)
    return bool(np.array_equal(ours, theirs, equal_nan=True))


@contextmanager
def wide_floats(
    path: str, layer: str, columns: Sequence[str], where: str | None
) -> Iterator[WideFloats]:
    """Open the values of columns of a layer, or of the part of it that a condition tells."""
    if not columns:
        yield WideFloats((), iter(()))
        return
    part = f" WHERE {where}" if where else ""
    query = f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(layer)}{part}"
    with closing(sqlite3.connect(read_only(path), uri=True)) as database:
        yield _opened(database, columns, query)


def _opened(database: sqlite3.Connection, columns: Sequence[str], query: str) -> WideFloats:
    try:
        return WideFloats(columns, database.execute(query))
    except sqlite3.Error:
        return WideFloats((), iter(()))
