"""CSV and TSV files as sources.

Read twice as a stream: once to judge the type of every column from all its values
(`csv_types`), once for the rows. A column of WKT, or two of coordinates, become a
geometry column `geom`; the coordinate columns stay as well unless asked otherwise.
Values may hold line breaks; a row with too many or too few values is an error that
names its line.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from havasu_vc.errors import InvalidArgumentError, InvalidFileError, StorageError
from havasu_vc.exchange.csv_cuts import RowCuts, Span, Watched, can_be_cut
from havasu_vc.exchange.csv_types import (
    Judgement,
    arrow_type_of,
    can_be_text,
    convert,
    misfits,
    no_number,
    require_numbers,
    typed,
)
from havasu_vc.exchange.far import SourceFile, extension_of, opened, shown, size_of
from havasu_vc.exchange.geoparquet import DEFAULT_CRS
from havasu_vc.exchange.layout import (
    CrsNames,
    GeometryColumn,
    SourceLayout,
    lay_out,
    require_names,
    stored_batches,
)
from havasu_vc.exchange.source import TASK_BYTES, SourceOptions
from havasu_vc.model.evolution import agreed_type
from havasu_vc.model.names import repeated
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import Encoding, Type
from havasu_vc.records import dataclass
from havasu_vc.store.object_systems import reporting_store_errors
from havasu_vc.store.object_urls import is_url

__all__ = ["CsvSource", "open_one"]


SPAN_BYTES = TASK_BYTES
"""A task reads about this much of a file that can be cut."""
_BLOCK = 8 * 1024 * 1024
_LARGEST_BLOCK = 512 * 1024 * 1024
_MOST_COLUMNS = 10_000
"""PyArrow takes 9 kB for each before it reads a row, which a file may name in two bytes."""
_WKT_NAMES = ("wkt", "geom", "geometry", "the_geom", "wkt_geom", "shape")
_LON_NAMES = ("longitude", "lon", "lng", "long", "x")
_LAT_NAMES = ("latitude", "lat", "y")
_MOST_SHOWN = 60
"""Characters of a value that a message shows."""
_NUMBERS = ("int64", "float64", "decimal")


@dataclass(frozen=True, slots=True)
class _CsvForm:
    """How the text of a file is cut into values."""

    path: str
    delimiter: str
    encoding: str
    block: int
    span: Span | None = None
    """The rows that are read, if not all."""

    @property
    def shown(self) -> str:
        """How people call the file."""
        return shown(self.path)

    def text(self, *, encoding: str | None = None, errors: str = "replace") -> IO[str]:
        """Open the file as text."""
        return io.TextIOWrapper(_bytes(self.path), encoding or self.encoding, errors, newline="")


def _bytes(path: str) -> IO[bytes]:
    """Open a file, given by its path or its URL."""
    if not is_url(path):
        return open(path, "rb")
    with reporting_store_errors(shown(path), "read"):
        return cast("IO[bytes]", opened(path))


@dataclass(frozen=True, slots=True)
class _Reading:
    """The task's knowledge of a file."""

    form: _CsvForm
    types: tuple[tuple[str, str], ...]
    """Every column of the file and its judged type."""
    wkt: str | None
    """The column that holds WKT."""
    coordinates: tuple[str, str] | None
    """The columns that hold coordinates."""
    geometry: str | None
    """The name of the geometry column."""
    layout: SourceLayout
    known: tuple[tuple[str, Type], ...] = ()
    """Columns that are read in the types that a dataset has, rather than as judged."""


@dataclass(frozen=True)
class CsvSource:
    """A CSV file."""

    name: str
    schema: Schema
    crs: Mapping[str, str]
    rows: int | None
    input_bytes: int
    reading: _Reading
    doubts: tuple[tuple[str, str], ...] = ()
    """Columns, and what a person may want to know of how they were taken."""
    title: str | None = None
    description: str | None = None
    key_hint: tuple[str, ...] = ()
    assumed_crs: bool = False
    """Whether its system follows from what its columns are called alone."""
    spans: tuple[Span, ...] = ()
    """Parts of the file that tasks read; none if one reads it all."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that tell a person how columns were taken."""
        return tuple(doubt for _, doubt in self.doubts)

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return the tasks that read the file, each some of its rows."""
        reading = replace(self.reading, layout=self.reading.layout.select(columns))
        return [
            task_of(read_csv, replace(reading, form=replace(reading.form, span=span)))
            for span in self.spans or (None,)
        ]

    def read_as(self, schema: Schema) -> CsvSource:
        """Return the same file, with columns in the types of a dataset where values allow it.

        What its values look like in one release is chance; the dataset's columns hold them all.
        Raises `InvalidFileError` for a value that a column of the dataset cannot hold.
        """
        reading, came = self.reading, self.schema.by_name
        geometries = {*(reading.coordinates or ()), reading.geometry, reading.wkt}
        wanted = {
            field.name: field.type
            for field in schema.fields
            if field.name in came
            and (field.geometry or field.raster or came[field.name].geometry) is None
            and field.type != came[field.name].type
            and can_be_text(field.type)
            and field.name not in geometries
        }
        if not wanted:
            return self
        for name, odd in misfits(_text_batches(reading.form), wanted).items():
            type_ = wanted.pop(name)
            if agreed_type(type_, came[name].type) is None:
                raise InvalidFileError(
                    reading.form.shown,
                    f"row {odd.row:,} has {_short(odd.value)} in column {name!r}, which is "
                    f"{type_} in the dataset",
                    hints=(
                        f"mend the row, or import it as another dataset with --csv-text {name}",
                    ),
                )
        fields = tuple(
            replace(each, type=wanted.get(each.name, each.type)) for each in self.schema.fields
        )
        taken = Schema(fields, self.schema.identifier_ids)
        layout = replace(reading.layout, schema=taken)
        return replace(
            self,
            schema=taken,
            reading=replace(reading, layout=layout, known=tuple(wanted.items())),
            doubts=tuple(doubt for doubt in self.doubts if doubt[0] not in wanted),
        )


def open_one(
    paths: Sequence[SourceFile], name: str, options: SourceOptions, *, root: Path | None = None
) -> CsvSource:
    """Open the only file there is, reading it once."""
    (path,) = paths
    form = _form_of(path, options)
    form, judged, rows, spans = _judge(form, size_of(path))
    require_names(options.csv_text, list(judged), "column")
    types = {
        column: "text" if column in options.csv_text else judgement.type
        for column, judgement in judged.items()
    }
    wkt, coordinates = _geometry_columns(form, judged, types, options)
    geometry = wkt or (_geometry_name(types) if coordinates else None)
    arrow = pa.schema([pa.field(each, arrow_type_of(type_)) for each, type_ in types.items()])
    geometries = {}
    crs = CrsNames(options.crs)
    degrees = False
    if geometry is not None:
        degrees = coordinates is not None and _are_degrees(coordinates)
        identifier = crs.name(DEFAULT_CRS if degrees else None, shown(str(path)))
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
        name=name,
        schema=layout.schema,
        crs=crs.wkt if layout.encodings else {},
        rows=rows,
        input_bytes=size_of(path),
        reading=reading,
        assumed_crs=degrees and options.crs is None,
        doubts=(*_doubts(judged, types, layout.schema, coordinates or ()), *_uncut(form, spans)),
        spans=tuple(spans or ()),
    )


def _doubts(
    judged: Mapping[str, Judgement],
    types: Mapping[str, str],
    schema: Schema,
    coordinates: tuple[str, ...],
) -> Iterator[tuple[str, str]]:
    """Yield columns, and what a person may want to know of how they were taken."""
    settled = {*schema.key.names, *coordinates, *(field.name for field in schema.geometries)}
    for name, judgement in judged.items():
        if name in schema.by_name and name not in settled and types[name] == judgement.type:
            doubt = judgement.doubts(name)
            if doubt is not None:
                yield name, doubt


def _uncut(form: _CsvForm, spans: list[Span] | None) -> Iterator[tuple[str, str]]:
    """Yield what a person may want to know of a large file that one task reads."""
    if spans == []:
        name = form.shown.rstrip("/").rpartition("/")[2]
        yield "", f"{name} is read by one task, since quotes and line ends do not tell its rows"


@kernel
def read_csv(reading: _Reading) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a CSV file, or of a part of it, in stored types."""
    span = reading.form.span
    first = 1 if span is None else span.first_row
    yield from stored_batches(
        _converted(reading), reading.layout, reading.form.shown, first_row=first
    )


def _converted(reading: _Reading) -> Iterator[pa.RecordBatch]:
    types, known = dict(reading.types), dict(reading.known)
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
                column = batch.column(name)
                columns.append(
                    typed(column, known[name]) if name in known else convert(column, types[name])
                )
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


def _short(value: str) -> str:
    return repr(value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}…")


def _judge(
    form: _CsvForm, size: int
) -> tuple[_CsvForm, dict[str, Judgement], int, list[Span] | None]:
    """Read all values once, with blocks as large as the longest row asks for.

    Return what is known of columns, how many rows there are, and parts that can be read side by
    side: None of a file that is too small for that, an empty list where it cannot be cut.
    """
    while True:
        cuts = None
        if size > SPAN_BYTES and can_be_cut(form.encoding, form.delimiter):
            cuts = RowCuts(ord(form.delimiter), SPAN_BYTES)
        try:
            judged: dict[str, Judgement] = {}
            rows, last = 0, _header(form)[-1]
            for batch in _text_batches(form, cuts):
                rows += batch.num_rows
                last = batch.column(batch.num_columns - 1)[-1].as_py()
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    judged.setdefault(name, Judgement()).look(column)
            _require_closed(form, last)
            judged = judged or {name: Judgement() for name in _header(form)}
            if cuts is not None:
                return form, judged, rows, cuts.spans(rows)
            return form, judged, rows, None if size <= SPAN_BYTES else []
        except _RowTooLongError as error:
            if form.block >= _LARGEST_BLOCK:
                raise InvalidFileError(
                    form.shown, "a row is longer than 512 MiB; is a quote left open?"
                ) from error
            form = replace(form, block=form.block * 4)


def _require_closed(form: _CsvForm, last: str | None) -> None:
    """Raise if the last value of a file begins with a quote and the file ends before the next.

    Nothing else tells that such a file was cut short: the value is read as if it were whole.
    """
    if last is None:
        return
    quoted = [start + '"' + last.replace('"', '""') for start in (form.delimiter, "\n", "\r")]
    # What comes first takes the byte order mark that some encodings begin with.
    ends = [("x" + text).encode(form.encoding, "replace") for text in quoted]
    skipped = len("x".encode(form.encoding))
    with _bytes(form.path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(ends[0]), 0))
        tail = file.read()
    if not any(tail.endswith(end[skipped:]) for end in ends):
        return
    # A quote that stands before line breaks alone may as well close a value as begin one.
    if quoted[0].rstrip("\r\n").endswith('"') and _quotes(form) % 2 == 0:
        return
    raise InvalidFileError(
        form.shown,
        "it ends inside a quoted value",
        hints=("fetch or export it again if it was cut short, or close the quote",),
    )


def _quotes(form: _CsvForm) -> int:
    """Return how many quotes a file has."""
    with form.text() as file:
        return sum(part.count('"') for part in iter(lambda: file.read(1 << 20), ""))


class _RowTooLongError(Exception):
    """A row does not fit a block."""


def _text_of(form: _CsvForm, cuts: RowCuts | None) -> Any:
    """Return what PyArrow reads a file from, or the part of it that is to be read."""
    if cuts is not None:
        return Watched(_bytes(form.path), cuts)
    if form.span is None:
        return opened(form.path)
    file = opened(form.path) if is_url(form.path) else pa.OSFile(form.path)
    return file.get_stream(form.span.start, form.span.end - form.span.start)


def _text_batches(form: _CsvForm, cuts: RowCuts | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, or of a part of it, with every value as text."""
    names = _header(form)
    has_header = form.span is None or form.span.start == 0
    try:
        with pacsv.open_csv(
            _text_of(form, cuts),
            read_options=pacsv.ReadOptions(
                block_size=form.block,
                encoding=form.encoding,
                column_names=names,
                skip_rows=0,
                skip_rows_after_names=int(has_header),
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


def _translated(form: _CsvForm, error: Exception) -> Exception:
    if is_url(form.path) and isinstance(error, OSError):
        with reporting_store_errors(form.shown, "read"):
            raise error
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "straddl" in text:
        return _RowTooLongError()
    if "Expected" in text and "columns" in text:
        return _ragged(form)
    if "UTF8" in text or isinstance(error, UnicodeError):
        return InvalidFileError(
            form.shown,
            f"its text is not {form.encoding}",
            hints=("name its encoding with --csv-encoding, such as --csv-encoding latin-1",),
        )
    if "Empty CSV" in text:
        return InvalidFileError(form.shown, "the file is empty")
    return InvalidFileError(form.shown, f"not a readable CSV: {text}")


def _ragged(form: _CsvForm) -> InvalidFileError:
    """Return the error for a row with too many or too few values, with its line."""
    with form.text() as text:
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
        form.shown, reason, hints=("values that hold the delimiter must be in double quotes",)
    )


def _header(form: _CsvForm) -> list[str]:
    """Return the column names in a file's first line."""
    encoding = "utf-8-sig" if form.encoding.lower().replace("_", "-") == "utf-8" else form.encoding
    try:
        with form.text(encoding=encoding, errors="strict") as text:
            names = next(csv.reader(text, delimiter=form.delimiter), [])
    except LookupError as error:
        raise InvalidArgumentError(
            f"there is no character encoding {form.encoding!r}",
            hints=("such as utf-8, latin-1 or cp1252",),
        ) from error
    except PermissionError as error:
        raise StorageError(f"{form.shown} cannot be read: permission denied") from error
    except (UnicodeError, csv.Error, OSError) as error:
        raise _translated(form, error) from error
    if not any(name.strip() for name in names):
        raise InvalidFileError(
            form.shown,
            "the file is empty" if not names else "its first line names no columns",
            hints=("the first line of a CSV file holds the names of its columns",),
        )
    blank = next((number for number, name in enumerate(names, 1) if not name.strip()), None)
    if blank is not None:
        raise InvalidFileError(form.shown, f"column {blank} has no name in the first line")
    if len(names) > _MOST_COLUMNS:
        raise InvalidFileError(
            form.shown,
            f"it has {len(names):,} columns, and a CSV of at most {_MOST_COLUMNS:,} is read",
            hints=("make rows of the columns, or write it as Parquet",),
        )
    twice = repeated(names)
    if twice:
        raise InvalidFileError(form.shown, f"two columns are called {twice[0]!r}")
    return names


def _form_of(path: SourceFile, options: SourceOptions) -> _CsvForm:
    delimiter = options.csv_delimiter
    if delimiter is None and extension_of(path) in (".tsv", ".tab"):
        delimiter = "\t"
    if delimiter is not None and len(delimiter) != 1:
        raise InvalidArgumentError(
            f"{delimiter!r} cannot be a delimiter", hints=("give one character, such as ';'",)
        )
    with _bytes(str(path)) as file:
        start = file.read(65_536)
    if not start.strip():
        raise InvalidFileError(shown(str(path)), "the file is empty")
    if b"\x00" in start and "16" not in options.csv_encoding and "32" not in options.csv_encoding:
        raise InvalidFileError(
            shown(str(path)),
            "not a text file",
            hints=("give the file the extension of what it is, or name its encoding",),
        )
    first = start.splitlines()[0].decode("latin-1")
    if delimiter is None:
        # The header decides: the delimiter is the one that cuts it into most names.
        delimiter = max(",;\t|", key=first.count)
    return _CsvForm(str(path), delimiter, options.csv_encoding, _BLOCK)


def _geometry_columns(
    form: _CsvForm,
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
            require_numbers(form.shown, _text_batches(form), text)
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
