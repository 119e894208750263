"""Checking values against the statistics and bounds of their file's entry.

Statistics may be wider than the values, never narrower: a query passes over a file by
them, so a value outside of them is a row that is never found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import GeometryError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.scalars import from_scalar
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.raster_v1 import raster_headers
from havasu_vc.geo.raster_v1_checks import first_unsound
from havasu_vc.geo.raster_v1_outlines import Places, places_of_rasters
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, children

__all__ = ["ValueCheck", "parse_bound"]

_GLOBE = Bounds(-180, -90, 180, 90)


class ValueCheck:
    """Sees the rows of a file, then tells which columns its entry is wrong about."""

    def __init__(self, entry: Entry, schema: Schema) -> None:
        self._entry = entry
        self._schema = schema
        self._nulls = dict.fromkeys(schema.by_id, 0)
        self._bounds: dict[int, Bounds] = {}
        self._outside: set[int] = set()
        self._unreadable: dict[int, str] = {}
        self._with_srid: set[int] = set()
        self._unsound: dict[int, str] = {}
        self._places: dict[int, list[Places]] = {}
        self._limits = {field.id: _limits(field, entry) for field in schema.fields}

    def add(self, rows: pa.RecordBatch) -> None:
        """Look at some rows."""
        for field, column in zip(self._schema.fields, rows.columns, strict=True):
            self._nulls[field.id] += column.null_count
            if field.geometry is not None:
                self._look_at_geometries(field, field.geometry.encoding, column)
            elif field.raster is not None:
                self._look_at_rasters(field, rows, column)
            elif not self._inside(column, self._limits[field.id]):
                self._outside.add(field.id)

    def _look_at_geometries(self, field: Field, encoding: Encoding, column: pa.Array) -> None:
        if field.id in self._unreadable:
            return
        try:
            found = bounds_of(column, encoding)
            if encoding is Encoding.WKB and to_canonical(column, "wkb")[1] is not None:
                self._with_srid.add(field.id)
        except GeometryError as error:
            self._unreadable[field.id] = error.message
            return
        known = self._bounds.get(field.id)
        if found is not None:
            self._bounds[field.id] = found if known is None else known.union(found)

    def _look_at_rasters(self, field: Field, rows: pa.RecordBatch, column: pa.Array) -> None:
        found = first_unsound(column)
        if found is not None:
            names = self._schema.key.names or self._schema.names[:1]
            key = ",".join(str(rows.column(name)[found[0]].as_py()) for name in names)
            self._unsound.setdefault(field.id, f"in row {key}: {found[1]}")
            return
        self._places.setdefault(field.id, []).append(places_of_rasters(raster_headers(column)))

    @property
    def is_readable(self) -> bool:
        """Whether all geometries seen could be read."""
        return not self._unreadable

    @staticmethod
    def _inside(column: pa.Array, limits: tuple[pa.Scalar | None, pa.Scalar | None]) -> bool:
        low, high = limits
        beyond = [
            compare(column, limit)
            for compare, limit in ((pc.less, low), (pc.greater, high))
            if limit is not None
        ]
        return not any(pc.any(mask).as_py() for mask in beyond)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield columns and what is wrong with them, one line for each."""
        for field in self._schema.fields:
            for problem in self._problems_of(field):
                yield field.name, problem

    def _problems_of(self, field: Field) -> Iterator[str]:
        if field.required and self._nulls[field.id]:
            yield f"column {field.name!r} is required and has nulls"
        statistics = self._entry.statistics.get(field.id)
        # Of a nested column the leaves are counted, one by one.
        if statistics is not None and not children(field.type):
            if statistics.values != self._entry.rows:
                count = statistics.values
                yield f"the statistics of column {field.name!r} are of {count} values"
            if statistics.nulls != self._nulls[field.id]:
                yield (
                    f"column {field.name!r} has {self._nulls[field.id]} nulls, "
                    f"its statistics say {statistics.nulls}"
                )
        if field.id in self._outside:
            yield f"column {field.name!r} has values outside of its statistics"
        yield from self._bounds_problem(field)
        yield from self._geometry_problems(field)
        yield from self._raster_problems(field)

    def _raster_problems(self, field: Field) -> Iterator[str]:
        reason = self._unsound.get(field.id)
        if reason is not None:
            yield f"column {field.name!r} has a raster that cannot be one, {reason}"
        said = self._entry.areas.get(field.id)
        places = self._places.get(field.id, [])
        if said is None or not places:
            return
        if None in places:
            yield f"column {field.name!r} has bounds, and rasters that could be anywhere"
        elif any(said.union(area) != said for place in places for area in place or ()):
            yield f"column {field.name!r} has rasters outside of its bounds"

    def _geometry_problems(self, field: Field) -> Iterator[str]:
        if field.geometry is None:
            return
        encoding = field.geometry.encoding.value
        if field.id in self._unreadable:
            reason = self._unreadable[field.id]
            yield f"column {field.name!r} has values that are no {encoding}: {reason}"
        if field.id in self._with_srid:
            yield f"column {field.name!r} has values with an SRID, which {encoding} cannot have"
        box = self._bounds.get(field.id)
        on_globe = field.edges is not None
        if on_globe and box is not None and not _GLOBE.covers(box):
            yield f"column {field.name!r} has geometries that are not on the globe"

    def _bounds_problem(self, field: Field) -> Iterator[str]:
        said, found = self._entry.bounds.get(field.id), self._bounds.get(field.id)
        if said is not None and found is not None and not said.covers(found):
            yield f"column {field.name!r} has geometries outside of its bounds"


def _limits(field: Field, entry: Entry) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    statistics = entry.statistics.get(field.id)
    if statistics is None or field.geometry is not None or children(field.type):
        return None, None
    return parse_bound(statistics.lower, field), parse_bound(statistics.upper, field)


def parse_bound(value: Any, field: Field) -> pa.Scalar | None:
    """Return a bound of an entry as a value of its column; None where it cannot be one."""
    if value is None:
        return None
    try:
        # Bytes of fixed length that were cut to 16 are no value: what was cut may be anything.
        return pa.scalar(from_scalar(value, field.type), arrow_type(field.type))
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        return None
