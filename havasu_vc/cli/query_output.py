"""Rows of a query as a table, CSV, JSON, Parquet or an Arrow stream, a few at a time.

Only the table for people is measured before it is printed, so it shows the first rows.
Bytes are hex, but geometries that people read are well-known text; whatever JSON lacks is text.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.cli.output import opened_output
from havasu_vc.errors import GeometryError
from havasu_vc.writers.terminal import printable, shortened, visible_json

__all__ = ["FORMATS", "BatchedRows", "QueryRows", "write_rows"]

FORMATS = ("table", "csv", "json", "json-lines", "parquet", "arrow")
_WIDEST = 60

Rows = Iterable[Sequence[Any]]


class QueryRows(Protocol):
    """The rows of a statement, by whatever engine; they are read once, in one of two ways."""

    @property
    def names(self) -> Sequence[str]:
        """The columns' names."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""

    def rows(self, most: int | None = None) -> Rows:
        """Return the rows, or the first ones, as values of Python."""

    def batches(self) -> Iterable[pa.RecordBatch]:
        """Return the rows in batches."""


class BatchedRows:
    """Rows that come in batches."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.schema = schema
        """The columns."""
        self._batches = batches

    @property
    def names(self) -> Sequence[str]:
        """The columns' names."""
        return [field.name for field in self.schema]

    def rows(self, most: int | None = None) -> Rows:
        """Return the rows, or the first ones, as values of Python."""
        return islice(self._rows(), most)

    def _rows(self) -> Rows:
        for batch in self._batches:
            yield from zip(*map(_values, batch.columns), strict=True)

    def batches(self) -> Iterable[pa.RecordBatch]:
        """Return the rows in batches."""
        return self._batches


def _values(column: pa.Array) -> list[Any]:
    try:
        found: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    except (OverflowError, ValueError, TypeError):  # a moment beyond what Python knows
        found = column.cast(pa.string()).to_pylist()
    return found


def write_rows(found: QueryRows, form: str, output: Path | None, *, most: int) -> bool:
    """Write the rows of a statement; return whether a table leaves some out."""
    if form in ("parquet", "arrow"):
        with _binary_output(output) as out:
            (_write_parquet if form == "parquet" else _write_arrow)(found, out)
        return False
    with opened_output(output) as text:
        match form:
            case "csv":
                _write_csv(found.names, found.rows(), text)
            case "json":
                _write_json(found.names, found.rows(), text)
            case "json-lines":
                text.writelines(f"{line}\n" for line in _objects(found.names, found.rows()))
            case _:
                return _write_table(found.names, found.rows(most + 1), text, most=most)
    return False


@contextmanager
def _binary_output(output: Path | None) -> Iterator[IO[bytes]]:
    with opened_output(output) as text:
        text.flush()
        yield sys.stdout.buffer if text is sys.stdout else text.buffer


def _write_parquet(found: QueryRows, out: IO[bytes]) -> None:
    with pq.ParquetWriter(out, found.schema) as writer:
        for batch in found.batches():
            writer.write_batch(batch)


def _write_arrow(found: QueryRows, out: IO[bytes]) -> None:
    with pa.ipc.new_stream(out, found.schema) as writer:
        for batch in found.batches():
            writer.write_batch(batch)


def _write_json(names: Sequence[str], rows: Rows, out: TextIO) -> None:
    out.write("[")
    before = "\n"
    for line in _objects(names, rows):
        out.write(f"{before}  {line}")
        before = ",\n"
    out.write("\n]\n" if before != "\n" else "]\n")


def _objects(names: Sequence[str], rows: Rows) -> Iterator[str]:
    for row in rows:
        values = {name: _json(value) for name, value in zip(names, row, strict=True)}
        yield visible_json(json.dumps(values, ensure_ascii=False))


def _write_table(names: Sequence[str], rows: Rows, out: TextIO, *, most: int) -> bool:
    """Write the first rows as a table; return whether there are more."""
    found = iter(rows)
    names = [printable(name) for name in names]
    columns = list(zip(*islice(found, most), strict=True)) or [() for _ in names]
    cells = list(
        zip(*([_cell(value) for value in _seen(column)] for column in columns), strict=True)
    )
    more = next(found, None) is not None
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in ([*names], ["-" * width for width in widths], *cells):
        text = "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True))
        out.write(text.rstrip() + "\n")
    return more


def _seen(values: Sequence[Any]) -> Sequence[Any]:
    """Return a column as a person may read it: well-known text for bytes that all are WKB."""
    present = [value for value in values if value is not None]
    # The least that has a shape: byte order, type, and a count or two numbers.
    if not present or not all(
        isinstance(v, bytes) and v[:1] in (b"\0", b"\1") and len(v) > 8 for v in present
    ):
        return values
    from havasu_vc.geo.wkb import to_canonical
    from havasu_vc.geo.wkt import format_wkt

    try:
        texts = format_wkt(to_canonical(pa.array(values, pa.binary()), "ewkb")[0])
    except GeometryError:
        return values
    found: list[Any] = texts.to_pylist()
    return found


def _cell(value: Any) -> str:
    text = "null" if value is None else str(_plain(value))
    text = printable(text)
    return shortened(text, _WIDEST)


def _write_csv(names: Sequence[str], rows: Rows, out: TextIO) -> None:
    """Write rows as CSV with a line of names; null is empty."""
    # A file has what the table has; a person at a terminal sees escapes.
    shown = printable if out.isatty() else str
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([shown(name) for name in names])
    for row in rows:
        writer.writerow(["" if value is None else shown(str(_plain(value))) for value in row])


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
