"""Rows of a query as text, CSV, JSON lines or an Arrow stream, a few at a time.

Only the table for people is measured before it is printed, so it shows the first rows.
Bytes are hex, and whatever JSON lacks is text.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, Any, TextIO

import pyarrow as pa

from havasu_vc.writers.terminal import printable, visible_json

__all__ = ["QUERY_FORMATS", "write_arrow", "write_csv", "write_json", "write_table"]

QUERY_FORMATS = ("text", "csv", "json", "arrow")
_WIDEST = 60
_CHUNK = 8192

Rows = Iterable[Sequence[Any]]


def write_table(names: Sequence[str], rows: Rows, out: TextIO, *, most: int) -> bool:
    """Write the first rows as a table; return whether there are more."""
    found = iter(rows)
    names = [printable(name) for name in names]
    cells = [[_cell(value) for value in row] for row in islice(found, most)]
    more = next(found, None) is not None
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in ([*names], ["-" * width for width in widths], *cells):
        text = "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True))
        out.write(text.rstrip() + "\n")
    return more


def _cell(value: Any) -> str:
    text = "null" if value is None else str(_plain(value))
    text = printable(text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def write_csv(names: Sequence[str], rows: Rows, out: TextIO) -> None:
    """Write rows as CSV with a line of names; null is empty."""
    # A file has what the table has; a person at a terminal sees escapes.
    shown = printable if out.isatty() else str
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([shown(name) for name in names])
    for row in rows:
        writer.writerow(["" if value is None else shown(str(_plain(value))) for value in row])


def write_json(names: Sequence[str], rows: Rows, out: TextIO) -> None:
    """Write each row as an object on a line of its own."""
    for row in rows:
        values = {name: _json(value) for name, value in zip(names, row, strict=True)}
        out.write(visible_json(json.dumps(values, ensure_ascii=False)) + "\n")


def write_arrow(schema: pa.Schema, rows: Rows, out: IO[bytes]) -> None:
    """Write rows as an Arrow IPC stream."""
    with pa.ipc.new_stream(out, schema) as writer:
        found = iter(rows)
        while chunk := list(islice(found, _CHUNK)):
            columns = [
                pa.array([_native(row[index]) for row in chunk], field.type)
                for index, field in enumerate(schema)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def _native(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "asDict"):
        return {name: _native(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return [(_native(key), _native(item)) for key, item in value.items()]
    return [_native(item) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    nested = isinstance(value, list | dict) or hasattr(value, "asDict")
    return json.dumps(_json(value), ensure_ascii=False) if nested else value


def _json(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray():
            return value.hex()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case dict():
            return {str(_json(key)): _json(item) for key, item in value.items()}
        case _ if hasattr(value, "asDict"):
            return {name: _json(item) for name, item in value.asDict().items()}
        case list() | tuple():
            return list(_items(value))
        case _:
            return str(value)


def _items(values: Iterable[Any]) -> Iterator[Any]:
    return (_json(value) for value in values)
