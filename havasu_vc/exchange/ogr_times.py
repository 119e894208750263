"""Points in time as GDAL reads them, and their time zones.

GDAL keeps a zone for each value but announces one for a column only where all of
them share it; a column of several zones looks like one without any, and its hours
would be wrong. So a column that looks so is read once as text before anything else:
either no value has a zone, or all have one, or it stays text. In a GeoPackage all times
are UTC by its standard, and GDAL reads them so; but a column of which no value says it
was written by a program that had times without a zone, and is taken as that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.exchange.gdal import open_stream
from havasu_vc.exchange.ogr_formats import VectorFile, quoted, read_only

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

    @property
    def as_text(self) -> bool:
        """Whether GDAL must hand points in time out as text."""
        return bool(self.zoned or self.mixed)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know."""
        return tuple(
            f"column {name!r} is kept as text: only some of its times have a time zone"
            for name in self.mixed
        )

    def field(self, field: pa.Field) -> pa.Field:
        """Return the Arrow field that a column is taken as."""
        if field.name in self.zoned:
            return field.with_type(pa.timestamp("ms", tz="UTC"))
        if field.name in self.mixed:
            return field.with_type(pa.string())
        if field.name in self.bare:
            return field.with_type(pa.timestamp(field.type.unit))
        return field

    def convert(self, name: str, column: pa.Array) -> pa.Array:
        """Return a column that was read as text as what it is."""
        if name in self.bare:
            return column.cast(pa.timestamp(column.type.unit))
        if not self.as_text or name in self.mixed:
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
