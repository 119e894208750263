"""CSV and TSV files as sources.

Read twice or, where it is large, three times, by tasks: to judge the type of every column from
all its values (`csv_judging`), and for the rows. A column of WKT, or two of coordinates, become a
geometry column `geom`; the coordinate columns stay as well unless asked otherwise.
Values may hold line breaks; a row with too many or too few values is an error that
names its line.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import InvalidArgumentError, InvalidFileError
from havasu_vc.exchange.csv_cuts import Span
from havasu_vc.exchange.csv_judging import first_misfits, first_no_number, judged
from havasu_vc.exchange.csv_text import CsvForm, bytes_of, text_batches
from havasu_vc.exchange.csv_types import (
    Judgement,
    NoNumber,
    arrow_type_of,
    can_be_text,
    convert,
    typed,
)
from havasu_vc.exchange.far import SourceFile, extension_of, shown, size_of
from havasu_vc.exchange.geoparquet import DEFAULT_CRS
from havasu_vc.exchange.layout import (
    CrsNames,
    GeometryColumn,
    SourceLayout,
    lay_out,
    require_names,
    stored_batches,
)
from havasu_vc.exchange.source import ONE_BY_ONE, TASK_BYTES, EngineOf, Running, SourceOptions
from havasu_vc.model.evolution import agreed_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import Encoding, Type
from havasu_vc.records import dataclass

__all__ = ["CsvSource", "open_one"]


SPAN_BYTES = TASK_BYTES
"""A task reads about this much of a file that can be cut."""
_BLOCK = 8 * 1024 * 1024
_WKT_NAMES = ("wkt", "geom", "geometry", "the_geom", "wkt_geom", "shape")
_LON_NAMES = ("longitude", "lon", "lng", "long", "x")
_LAT_NAMES = ("latitude", "lat", "y")
_MOST_SHOWN = 60
"""Characters of a value that a message shows."""
_NUMBERS = ("int64", "float64", "decimal")


@dataclass(frozen=True, slots=True)
class _Reading:
    """The task's knowledge of a file."""

    form: CsvForm
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
    empty: frozenset[str] = frozenset()
    """Columns without any value."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that tell a person how columns were taken."""
        doubts = tuple(doubt for _, doubt in self.doubts)
        if self.rows or self.rows is None or self.reading.known:
            return doubts
        return (*doubts, f"{self.name} has no rows that tell types: its columns are text")

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return the tasks that read the file, each some of its rows."""
        reading = replace(self.reading, layout=self.reading.layout.select(columns))
        return [
            task_of(read_csv, replace(reading, form=replace(reading.form, span=span)))
            for span in self.spans or (None,)
        ]

    def read_as(self, schema: Schema, engine: Running) -> CsvSource:
        """Return the same file, with columns in the types of a dataset where values allow it.

        What its values look like in one release is chance; the dataset's columns hold them all.
        Raises `InvalidFileError` for a value that a column of the dataset cannot hold.
        """
        named = self._with_geometry_of(schema)
        if named is not self:
            return named.read_as(schema, engine)
        reading, came = self.reading, self.schema.by_name
        geometries = {*(reading.coordinates or ()), reading.geometry, reading.wkt}
        wanted = {
            field.name: field.type
            for field in schema.fields
            if field.name in came
            and (field.raster or came[field.name].geometry) is None
            and (field.geometry is None or field.name in self.empty)
            and field.type != came[field.name].type
            and can_be_text(field.type)
            and field.name not in geometries
        }
        if not wanted:
            return self
        found = first_misfits(reading.form, self.spans, wanted, engine)
        for name, odd in found.items():
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

    def _with_geometry_of(self, schema: Schema) -> CsvSource:
        """Return the same file, with what coordinates make called as a dataset's only geometry."""
        reading, ours = self.reading, self.reading.geometry
        wanted = [field.name for field in schema.geometries]
        if reading.coordinates is None or ours not in self.schema.by_name:
            return self
        taken = {name for name, _ in reading.types} | {*self.schema.names}
        if ours is None or ours in schema.by_name or len(wanted) != 1 or wanted[0] in taken:
            return self
        layout = reading.layout.renamed(ours, wanted[0])
        reading = replace(reading, layout=layout, geometry=wanted[0])
        return replace(self, schema=layout.schema, reading=reading)


def open_one(
    paths: Sequence[SourceFile],
    name: str,
    options: SourceOptions,
    *,
    root: Path | None = None,
    engine_of: EngineOf | None = None,
) -> CsvSource:
    """Open the only file there is, having an engine read it all."""
    (path,) = paths
    size = size_of(path)

    def engine() -> Running:
        return ONE_BY_ONE if engine_of is None else engine_of(size)

    found = judged(_form_of(path, options), size, SPAN_BYTES, engine)
    form, columns, spans = found.form, found.columns, found.spans
    require_names(options.csv_text, list(columns), "column")
    types = {
        column: "text" if column in options.csv_text else judgement.type
        for column, judgement in columns.items()
    }

    def odd(column: str) -> NoNumber | None:
        return first_no_number(form, spans or (), column, engine())

    wkt, coordinates = _geometry_columns(form, columns, types, options, odd)
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
        rows=found.rows,
        input_bytes=size,
        reading=reading,
        assumed_crs=degrees and options.crs is None,
        doubts=(*_doubts(columns, types, layout.schema, coordinates or ()), *_uncut(form, spans)),
        spans=tuple(spans or ()),
        empty=frozenset(name for name, judgement in columns.items() if not judgement.seen),
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


def _uncut(form: CsvForm, spans: Sequence[Span] | None) -> Iterator[tuple[str, str]]:
    """Yield what a person may want to know of a large file that one task reads."""
    if spans is not None and not spans:
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
    for batch in text_batches(reading.form):
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


def _form_of(path: SourceFile, options: SourceOptions) -> CsvForm:
    delimiter = options.csv_delimiter
    if delimiter is None and extension_of(path) in (".tsv", ".tab"):
        delimiter = "\t"
    if delimiter is not None and len(delimiter) != 1:
        raise InvalidArgumentError(
            f"{delimiter!r} cannot be a delimiter", hints=("give one character, such as ';'",)
        )
    with bytes_of(str(path)) as file:
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
    return CsvForm(str(path), delimiter, options.csv_encoding, _BLOCK)


def _geometry_columns(
    form: CsvForm,
    judged: Mapping[str, Judgement],
    types: Mapping[str, str],
    options: SourceOptions,
    odd: Callable[[str], NoNumber | None],
) -> tuple[str | None, tuple[str, str] | None]:
    """Return the column of WKT, or the two columns of coordinates, or neither.

    `odd` finds the first value of a column that is no number, if any value is one.
    """
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
                found = odd(name)
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
            _require_numbers(form.shown, text, odd(text))
    lon = _first_number(_LON_NAMES, lower, types)
    lat = _first_number(_LAT_NAMES, lower, types)
    both = lon is not None and lat is not None and (lon.lower() == "x") == (lat.lower() == "y")
    return None, ((lon, lat) if both and lon is not None and lat is not None else None)


def _require_numbers(path: str, name: str, found: NoNumber | None) -> None:
    """Raise if a row has no number where others have a longitude or a latitude."""
    if found is not None:
        raise InvalidFileError(
            path,
            f"row {found.row} has {found.value!r} in column {name!r}, where others have a number",
            hints=(
                "mend the row, or leave its coordinates empty",
                f"--leave-out {name} takes the table without geometries",
            ),
        )


def _first_number(
    wanted: Sequence[str], lower: Mapping[str, str], types: Mapping[str, str]
) -> str | None:
    return next((lower[n] for n in wanted if n in lower and types[lower[n]] in _NUMBERS), None)


def _are_degrees(coordinates: tuple[str, str]) -> bool:
    return coordinates[0].lower() in _LON_NAMES[:-1] and coordinates[1].lower() in _LAT_NAMES[:-1]


def _geometry_name(types: Mapping[str, str]) -> str:
    lower = {name.lower() for name in types}
    return next(name for name in ("geom", "geometry", "geom_point") if name not in lower)
