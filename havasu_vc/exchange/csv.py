"""CSV and TSV files as sources.

Read twice as a stream: once to judge the type of every column from all its values
(`csv_types`), once for the rows. A column of WKT, or two of coordinates, become a
geometry column `geom`; the coordinate columns stay as well unless asked otherwise.
Values may hold line breaks; a row with too many or too few values is an error that
names its line.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from havasu_vc.errors import InvalidArgumentError, InvalidFileError, StorageError
from havasu_vc.exchange.csv_coordinates import no_number, require_numbers
from havasu_vc.exchange.geoparquet import DEFAULT_CRS
from havasu_vc.exchange.layout import (
    CrsNames,
    GeometryColumn,
    SourceLayout,
    lay_out,
    require_names,
    stored_batches,
)
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.model.names import repeated
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import Encoding
from havasu_vc.records import dataclass

__all__ = [
    "CsvSource",
    "Judgement",
    "convert",
    "open_one",
]


_BLOCK = 8 * 1024 * 1024
_LARGEST_BLOCK = 512 * 1024 * 1024
_MOST_COLUMNS = 10_000
"""PyArrow takes 9 kB for each before it reads a row, which a file may name in two bytes."""
_WKT_NAMES = ("wkt", "geom", "geometry", "the_geom", "wkt_geom", "shape")
_LON_NAMES = ("longitude", "lon", "lng", "long", "x")
_LAT_NAMES = ("latitude", "lat", "y")
_NUMBERS = ("int64", "float64", "decimal")


@dataclass(frozen=True, slots=True)
class _Form:
    """How the text of a file is cut into values."""

    path: str
    delimiter: str
    encoding: str
    block: int


@dataclass(frozen=True, slots=True)
class _Reading:
    """The task's knowledge of a file."""

    form: _Form
    types: tuple[tuple[str, str], ...]
    """Every column of the file and its judged type."""
    wkt: str | None
    """The column that holds WKT."""
    coordinates: tuple[str, str] | None
    """The columns that hold coordinates."""
    geometry: str | None
    """The name of the geometry column."""
    layout: SourceLayout


@dataclass(frozen=True)
class CsvSource:
    """A CSV file."""

    name: str
    schema: Schema
    crs: Mapping[str, str]
    rows: int | None
    input_bytes: int
    reading: _Reading
    notes: tuple[str, ...] = ()
    title: str | None = None
    description: str | None = None
    key_hint: tuple[str, ...] = ()

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return the one task that reads the file."""
        reading = replace(self.reading, layout=self.reading.layout.select(columns))
        return [task_of(read_csv, reading)]


def open_one(
    paths: Sequence[Path], name: str, options: SourceOptions, *, root: Path | None = None
) -> CsvSource:
    """Open the only file there is, reading it once."""
    (path,) = paths
    form = _form_of(path, options)
    form, judged, rows = _judge(form)
    types = {name: judgement.type for name, judgement in judged.items()}
    wkt, coordinates = _geometry_columns(form, judged, types, options)
    geometry = wkt or (_geometry_name(types) if coordinates else None)
    arrow = pa.schema([pa.field(name, arrow_type_of(type_)) for name, type_ in types.items()])
    geometries = {}
    crs = CrsNames(options.crs)
    if geometry is not None:
        degrees = coordinates is not None and _are_degrees(coordinates)
        identifier = crs.name(DEFAULT_CRS if degrees else None, str(path))
        shape = "POINT" if coordinates else None
        encoding = Encoding.WKT if wkt else Encoding.WKB
        geometries[geometry] = GeometryColumn(encoding, identifier, shape)
        if coordinates:
            arrow = arrow.append(pa.field(geometry, pa.binary()))
    if coordinates and options.csv_drop_coordinates:
        options = replace(options, leave_out=(*options.leave_out, *coordinates))
    layout = lay_out(arrow, geometries, options)
    reading = _Reading(form, tuple(types.items()), wkt, coordinates, geometry, layout)
    return CsvSource(
        name=path.stem,
        schema=layout.schema,
        crs=crs.wkt if layout.encodings else {},
        rows=rows,
        input_bytes=path.stat().st_size,
        reading=reading,
    )


@kernel
def read_csv(reading: _Reading) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a CSV file in stored types."""
    yield from stored_batches(_converted(reading), reading.layout, reading.form.path)


def _converted(reading: _Reading) -> Iterator[pa.RecordBatch]:
    types = dict(reading.types)
    names = reading.layout.schema.names
    for batch in _text_batches(reading.form):
        columns = []
        for name in names:
            if name == reading.geometry and reading.coordinates is not None:
                columns.append(_points(batch, reading.coordinates, types))
            elif name == reading.wkt:
                column = batch.column(name)
                columns.append(pc.if_else(pc.equal(column, ""), None, column))
            else:
                columns.append(convert(batch.column(name), types[name]))
        yield pa.RecordBatch.from_arrays(columns, list(names))


def _points(batch: pa.RecordBatch, names: tuple[str, str], types: Mapping[str, str]) -> pa.Array:
    """Return two columns of coordinates as WKB points; null where either is."""
    axes = [convert(batch.column(name), types[name]).cast(pa.float64()) for name in names]
    record = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])
    points = np.zeros(batch.num_rows, record)
    points["order"] = points["type"] = 1
    for axis, column in zip("xy", axes, strict=True):
        points[axis] = np.asarray(column.fill_null(np.nan))
    valid = pc.and_(pc.is_valid(axes[0]), pc.is_valid(axes[1]))
    size = record.itemsize
    offsets = np.arange(0, (batch.num_rows + 1) * size, size, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(points.tobytes())]
    column = pa.Array.from_buffers(pa.binary(), batch.num_rows, buffers)
    return pc.if_else(valid, column, pa.scalar(None, pa.binary()))


def _judge(form: _Form) -> tuple[_Form, dict[str, Judgement], int]:
    """Read all values once, with blocks as large as the longest row asks for."""
    while True:
        try:
            judged: dict[str, Judgement] = {}
            rows, last = 0, _header(form)[-1]
            for batch in _text_batches(form):
                rows += batch.num_rows
                last = batch.column(batch.num_columns - 1)[-1].as_py()
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    judged.setdefault(name, Judgement()).look(column)
            _require_closed(form, last)
            return form, judged or {name: Judgement() for name in _header(form)}, rows
        except _RowTooLongError as error:
            if form.block >= _LARGEST_BLOCK:
                raise InvalidFileError(
                    form.path, "a row is longer than 512 MiB; is a quote left open?"
                ) from error
            form = replace(form, block=form.block * 4)


def _require_closed(form: _Form, last: str | None) -> None:
    """Raise if the last value of a file begins with a quote and the file ends before the next.

    Nothing else tells that such a file was cut short: the value is read as if it were whole.
    """
    if last is None:
        return
    quoted = [start + '"' + last.replace('"', '""') for start in (form.delimiter, "\n", "\r")]
    # What comes first takes the byte order mark that some encodings begin with.
    ends = [("x" + text).encode(form.encoding, "replace") for text in quoted]
    skipped = len("x".encode(form.encoding))
    with open(form.path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(ends[0]), 0))
        tail = file.read()
    if not any(tail.endswith(end[skipped:]) for end in ends):
        return
    # A quote that stands before line breaks alone may as well close a value as begin one.
    if quoted[0].rstrip("\r\n").endswith('"') and _quotes(form) % 2 == 0:
        return
    raise InvalidFileError(
        form.path,
        "it ends inside a quoted value",
        hints=("fetch or export it again if it was cut short, or close the quote",),
    )


def _quotes(form: _Form) -> int:
    """Return how many quotes a file has."""
    with open(form.path, encoding=form.encoding, errors="replace", newline="") as file:
        return sum(part.count('"') for part in iter(lambda: file.read(1 << 20), ""))


class _RowTooLongError(Exception):
    """A row does not fit a block."""


def _text_batches(form: _Form) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with every value as text."""
    names = _header(form)
    try:
        with pacsv.open_csv(
            form.path,
            read_options=pacsv.ReadOptions(
                block_size=form.block,
                encoding=form.encoding,
                column_names=names,
                skip_rows=0,
                skip_rows_after_names=1,
            ),
            parse_options=pacsv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ) as reader:
            for batch in reader:
                if batch.num_rows:
                    yield batch
    except (pa.ArrowException, OSError, UnicodeError, LookupError) as error:
        raise _translated(form, error) from error


def _translated(form: _Form, error: Exception) -> Exception:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "straddl" in text:
        return _RowTooLongError()
    if "Expected" in text and "columns" in text:
        return _ragged(form)
    if "UTF8" in text or isinstance(error, UnicodeError):
        return InvalidFileError(
            form.path,
            f"its text is not {form.encoding}",
            hints=("name its encoding with --csv-encoding, such as --csv-encoding latin-1",),
        )
    if "Empty CSV" in text:
        return InvalidFileError(form.path, "the file is empty")
    return InvalidFileError(form.path, f"not a readable CSV: {text}")


def _ragged(form: _Form) -> InvalidFileError:
    """Return the error for a row with too many or too few values, with its line."""
    with open(form.path, encoding=form.encoding, errors="replace", newline="") as text:
        rows = csv.reader(text, delimiter=form.delimiter)
        width = len(next(rows, []))
        line = rows.line_num + 1
        try:
            for row in rows:
                if row and len(row) != width:
                    reason = f"line {line} has {len(row)} values where the header has {width}"
                    break
                line = rows.line_num + 1
            else:
                reason = "rows differ in their number of values"
        except csv.Error as error:
            reason = f"line {line}: {error}"
    return InvalidFileError(
        form.path, reason, hints=("values that hold the delimiter must be in double quotes",)
    )


def _header(form: _Form) -> list[str]:
    """Return the column names in a file's first line."""
    encoding = "utf-8-sig" if form.encoding.lower().replace("_", "-") == "utf-8" else form.encoding
    try:
        with open(form.path, encoding=encoding, newline="") as text:
            names = next(csv.reader(text, delimiter=form.delimiter), [])
    except LookupError as error:
        raise InvalidArgumentError(
            f"there is no character encoding {form.encoding!r}",
            hints=("such as utf-8, latin-1 or cp1252",),
        ) from error
    except PermissionError as error:
        raise StorageError(f"{form.path} cannot be read: permission denied") from error
    except (UnicodeError, csv.Error, OSError) as error:
        raise _translated(form, error) from error
    if not any(name.strip() for name in names):
        raise InvalidFileError(
            form.path,
            "the file is empty" if not names else "its first line names no columns",
            hints=("the first line of a CSV file holds the names of its columns",),
        )
    blank = next((number for number, name in enumerate(names, 1) if not name.strip()), None)
    if blank is not None:
        raise InvalidFileError(form.path, f"column {blank} has no name in the first line")
    if len(names) > _MOST_COLUMNS:
        raise InvalidFileError(
            form.path,
            f"it has {len(names):,} columns, and a CSV of at most {_MOST_COLUMNS:,} is read",
            hints=("make rows of the columns, or write it as Parquet",),
        )
    twice = repeated(names)
    if twice:
        raise InvalidFileError(form.path, f"two columns are called {twice[0]!r}")
    return names


def _form_of(path: Path, options: SourceOptions) -> _Form:
    delimiter = options.csv_delimiter
    if delimiter is None and path.suffix.lower() in (".tsv", ".tab"):
        delimiter = "\t"
    if delimiter is not None and len(delimiter) != 1:
        raise InvalidArgumentError(
            f"{delimiter!r} cannot be a delimiter", hints=("give one character, such as ';'",)
        )
    with path.open("rb") as file:
        start = file.read(65_536)
    if not start.strip():
        raise InvalidFileError(str(path), "the file is empty")
    if b"\x00" in start and "16" not in options.csv_encoding and "32" not in options.csv_encoding:
        raise InvalidFileError(
            str(path),
            "not a text file",
            hints=("give the file the extension of what it is, or name its encoding",),
        )
    first = start.splitlines()[0].decode("latin-1")
    if delimiter is None:
        # The header decides: the delimiter is the one that cuts it into most names.
        delimiter = max(",;\t|", key=first.count)
    return _Form(str(path), delimiter, options.csv_encoding, _BLOCK)


def _geometry_columns(
    form: _Form,
    judged: Mapping[str, Judgement],
    types: Mapping[str, str],
    options: SourceOptions,
) -> tuple[str | None, tuple[str, str] | None]:
    """Return the column of WKT, or the two columns of coordinates, or neither."""
    if options.csv_wkt is not None:
        require_names((options.csv_wkt,), list(types), "column")
        return options.csv_wkt, None
    if (options.csv_lon is None) != (options.csv_lat is None):
        raise InvalidArgumentError("name both columns of coordinates, or neither")
    if options.csv_lon is not None and options.csv_lat is not None:
        given = (options.csv_lon, options.csv_lat)
        require_names(given, list(types), "column")
        for name in given:
            if types[name] not in _NUMBERS and judged[name].seen:
                found = no_number(_text_batches(form), name)
                what = "" if found is None else f", as {found.value!r} in row {found.row}"
                raise InvalidArgumentError(f"column {name!r} holds more than numbers{what}")
        return None, given
    lower = {name.lower(): name for name in reversed(list(types))}
    for wanted in _WKT_NAMES:
        named = lower.get(wanted)
        if named is not None and judged[named].seen and judged[named].wkt:
            return named, None
    pair = [
        next((lower[name] for name in names if name in lower), None)
        for names in (_LON_NAMES[:-2], _LAT_NAMES[:-1])
    ]
    for text in pair if None not in pair and not {*pair} & {*options.leave_out} else ():
        if text is not None and types[text] not in _NUMBERS:
            require_numbers(form.path, _text_batches(form), text)
    lon = _first_number(_LON_NAMES, lower, types)
    lat = _first_number(_LAT_NAMES, lower, types)
    both = lon is not None and lat is not None and (lon.lower() == "x") == (lat.lower() == "y")
    return None, ((lon, lat) if both and lon is not None and lat is not None else None)


def _first_number(
    wanted: Sequence[str], lower: Mapping[str, str], types: Mapping[str, str]
) -> str | None:
    return next((lower[n] for n in wanted if n in lower and types[lower[n]] in _NUMBERS), None)


def _are_degrees(coordinates: tuple[str, str]) -> bool:
    return coordinates[0].lower() in _LON_NAMES[:-1] and coordinates[1].lower() in _LAT_NAMES[:-1]


def _geometry_name(types: Mapping[str, str]) -> str:
    lower = {name.lower() for name in types}
    return next(name for name in ("geom", "geometry", "geom_point") if name not in lower)


# What type the values of a CSV column have, judged from all of them.
#
# Guessing from the first block makes an import depend on the order of rows. Here every
# value is looked at before one is kept, so the same rows always give the same types:
# the first type of the list below that every value of the column has.
#
#     boolean     true, false (any case)
#     int64       whole numbers; a leading zero (`007`) makes a column text
#     decimal     whole numbers beyond int64, up to 38 digits
#     float64     numbers; not when one has more digits than that holds
#     date        2020-01-31
#     timestamp   2020-01-31T10:00:00, also with a blank for the T and with fractions
#     timestamptz the same with Z or +02:00 on every value
#     time        10:00:00
#     text        all else
#
# An empty value is null. A quoted empty value (`""`) is an empty text, and null in a
# column that is not text.

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
    """The types that a column can still be of, narrowed block by block."""

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
