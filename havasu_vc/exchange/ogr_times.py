"""Points in time as GDAL reads them: their time zones, and what is finer than it keeps.

GDAL keeps a zone for each value but announces one for a column only where all of
them share it; a column of several zones looks like one without any, and its hours
would be wrong. So a column that looks so is read once as text before anything else:
either no value has a zone, or all have one, or it stays text. In a GeoPackage all times
are UTC by its standard, and GDAL reads them so; but a column of which no value says it
was written by a program that had times without a zone, and is taken as that.

GDAL keeps milliseconds. GeoJSON whose times have more digits is read as text
(`geojson_precision`), and what cannot be read so is cut, which a note says.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.gdal import open_stream
from havasu_vc.exchange.geojson_precision import finer_than, has_fine_times, parse_times
from havasu_vc.exchange.ogr_formats import VectorFile, quoted, read_only
from havasu_vc.records import dataclass

__all__ = ["TimeColumns", "judge_times"]

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
        """What GDAL must be told of times when it opens the file."""
        if self.exact:
            return {"DATE_AS_STRING": "YES"}
        return {"datetime_as_string": self.as_text}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know."""
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
            return column.cast(pa.timestamp(column.type.unit))
        if name in self.mixed:
            return column
        types = dict(self.exact)
        if name in types:
            return parse_times(column, types[name])
        if not self.as_text:
            return column
        if name in self.zoned:
            return column.cast(_ZONED)
        return column.cast(_PLAIN) if name in self.plain else column


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
