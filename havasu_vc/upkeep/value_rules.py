"""Rules for rows, whatever file they are in: each finds the rows that break it.

    error      null          a required column, or one of the key, has no value
               encoding      bytes or text that are no geometry of the declared encoding
               raster        a raster that cannot be one: lengths, pixel types, georeference, a
                             system that is none, a file with its pixels that is missing or has
                             other bands, pixels, cells or another system than the raster says
               srid          an SRID that is not that of the column's system, or where none can be
               type          a geometry of another type than is declared
               globe         a geography that is not on the globe
    warning    ring          a ring that does not end where it begins
               validity      a geometry against the rules of its type: one that crosses itself
               unchecked     what nobody here knows the rules of, or may look at: arcs, surfaces,
                             files of rasters that the settings do not allow to be opened

A column is looked at as a whole; only in a batch that breaks a rule are rows looked
at one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import CrsError, GeometryError, MissingProgramError
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import byte_column, overlapping
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.raster_v1 import Raster, parse_rasters
from havasu_vc.geo.raster_v1_pixels import PlaceOfPixels
from havasu_vc.geo.sketching import geometry_labels, invalid_rows, invalidity
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.geo.wkt import beyond_geos
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field
from havasu_vc.records import dataclass

__all__ = ["Broken", "Level", "broken_rules"]

_MOST_UNREADABLE = 64
"""Values of a batch that are looked for one by one; with more of them nothing else is checked."""
Bools = npt.NDArray[np.bool_]


class Level(StrEnum):
    """How much it matters that a rule is broken."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Broken:
    """A value that breaks a rule."""

    level: Level
    """How much that matters."""
    rule: str
    """Which rule it is."""
    column: str
    """The column of the value."""
    cause: str
    """The fault of the value."""
    row: int
    """Where in the batch it is."""


def broken_rules(
    rows: pa.RecordBatch,
    schema: Schema,
    srids: dict[str, int],
    *,
    warnings: bool,
    allowed: Sequence[str] = (),
) -> Iterator[Broken]:
    """Yield what is wrong with some rows; `srids` are those of geometry columns' systems.

    `allowed` are the places where files of rasters may be looked for.
    """
    for field, column in zip(schema.fields, rows.columns, strict=True):
        if field.required and column.null_count:
            for row in _rows(np.asarray(column.is_null())):
                yield Broken(Level.ERROR, "null", field.name, "it is required and null", row)
        if field.geometry is not None:
            yield from _of_geometries(field, column, srids.get(field.name), warnings=warnings)
        elif field.raster is not None:
            yield from _of_rasters(field, column, allowed, warnings=warnings)


def _of_rasters(
    field: Field, column: pa.Array, allowed: Sequence[str], *, warnings: bool
) -> Iterator[Broken]:
    bad = list(itertools.islice(_unreadable(column, parse_rasters), _MOST_UNREADABLE))
    for row, cause in bad:
        yield Broken(Level.ERROR, "raster", field.name, cause, row)
    if len(bad) == _MOST_UNREADABLE:
        return
    if bad:
        mask = np.zeros(len(column), np.bool_)
        mask[[row for row, _ in bad]] = True
        column = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
    place = PlaceOfPixels(allowed)
    for row, raster in enumerate(parse_rasters(column)):
        if raster is None:
            continue
        unknown = None if raster.crs_wkt is None else _unknown_system(raster.crs_wkt)
        if unknown is not None:
            yield Broken(Level.ERROR, "raster", field.name, unknown, row)
        complete = unknown is None
        for url in sorted({band.out_db_url for band in raster.bands if band.out_db_url}):
            known, missing = place.problem(url)
            complete = complete and missing is None
            if missing is not None and (known or warnings):
                level = Level.ERROR if known else Level.WARNING
                rule = "raster" if known else "unchecked"
                yield Broken(level, rule, field.name, missing, row)
        if complete:
            yield from _of_files(field, place, raster, row, warnings=warnings)


def _of_files(
    field: Field, place: PlaceOfPixels, raster: Raster, row: int, *, warnings: bool
) -> Iterator[Broken]:
    try:
        wrong = place.mismatch(raster)
    except MissingProgramError as error:
        if warnings:
            yield Broken(Level.WARNING, "unchecked", field.name, error.message, row)
        return
    if wrong is not None:
        yield Broken(Level.ERROR, "raster", field.name, wrong, row)


@lru_cache(maxsize=256)
def _unknown_system(text: str) -> str | None:
    """Return what is wrong with the text that says the system of a raster."""
    try:
        parse_crs(text)
    except CrsError as error:
        return f"its crs_wkt cannot be understood: {error.message}"
    return None


def _of_geometries(
    field: Field, column: pa.Array, srid: int | None, *, warnings: bool
) -> Iterator[Broken]:
    if field.geometry is None:
        raise ValueError(f"{field.name!r} is no geometry column")
    encoding = field.geometry.encoding
    reading = _unreadable(column, lambda values: to_canonical(values, encoding))
    bad = list(itertools.islice(reading, _MOST_UNREADABLE))
    for row, cause in bad:
        yield Broken(Level.ERROR, "encoding", field.name, f"it is no {encoding}: {cause}", row)
    if len(bad) == _MOST_UNREADABLE:
        return
    if bad:
        # What is left can be looked at as a whole.
        mask = np.zeros(len(column), np.bool_)
        mask[[row for row, _ in bad]] = True
        column = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
    wkb, found = to_canonical(column, encoding)
    if found is not None:
        yield from _of_srids(field, encoding, found, srid)
    yield from _of_types(field, wkb)
    if field.edges is not None:
        bounds = row_bounds(wkb, "wkb")
        most = np.array([180.0, 90.0, 180.0, 90.0])
        for row in _rows(np.asarray((np.abs(bounds) > most).any(axis=1))):
            yield Broken(Level.ERROR, "globe", field.name, "it is not on the globe", row)
    if warnings:
        yield from _of_unchecked(field, wkb)
        for row in _rows(invalid_rows(wkb)):
            cause, is_open = invalidity(wkb[row].as_py())
            yield Broken(Level.WARNING, "ring" if is_open else "validity", field.name, cause, row)


def _of_unchecked(field: Field, wkb: pa.Array) -> Iterator[Broken]:
    """Yield the geometries of which it is not known whether they follow the rules."""
    rows = _rows(beyond_geos(wkb))
    if not rows:
        return
    for row, words in zip(rows, geometry_labels(wkb.take(pa.array(rows))).to_pylist(), strict=True):
        cause = f"whether it is valid cannot be checked: {words}"
        yield Broken(Level.WARNING, "unchecked", field.name, cause, row)


def _of_srids(
    field: Field, encoding: Encoding, found: npt.NDArray[np.int32], srid: int | None
) -> Iterator[Broken]:
    if encoding is not Encoding.EWKB:
        for row in _rows(np.asarray(found != 0)):
            cause = f"it has the SRID {int(found[row])}, which {encoding} cannot have"
            yield Broken(Level.ERROR, "srid", field.name, cause, row)
    elif srid is not None:
        wrong = np.asarray((found != 0) & (found != srid))
        for row in _rows(wrong):
            cause = f"it has the SRID {int(found[row])}, its column has {srid}"
            yield Broken(Level.ERROR, "srid", field.name, cause, row)


_DIMENSIONS = ("", " Z", " M", " ZM")
_KINDS = (
    "GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING",
    "MULTIPOLYGON", "GEOMETRYCOLLECTION",
)  # fmt: skip


def _of_types(field: Field, wkb: pa.Array) -> Iterator[Broken]:
    shape = None if field.geometry is None else field.geometry.shape
    if shape is None:
        return
    kind, _, dimensions = shape.partition(" ")
    column = byte_column(wkb)
    if kind not in _KINDS or not len(column.starts):
        return
    words = overlapping(column.data, "<u4")[column.starts + 1].astype(np.int64)
    wanted = _KINDS.index(kind)
    wrong = (words // 1000) != _DIMENSIONS.index(f" {dimensions}" if dimensions else "")
    if wanted:
        wrong |= (words % 1000) != wanted
    for index in _rows(wrong):
        word = int(words[index])
        number = word % 1000
        name = _KINDS[number] if number < len(_KINDS) else f"type {number}"
        cause = f"it is a {name}{_DIMENSIONS[word // 1000]}, its column is of {shape}"
        yield Broken(Level.ERROR, "type", field.name, cause, int(column.rows[index]))


def _unreadable(column: pa.Array, read: Callable[[pa.Array], object]) -> Iterator[tuple[int, str]]:
    """Yield the rows that cannot be read, each found by halving what has one."""
    left = [(0, len(column))]
    while left:
        start, end = left.pop()
        try:
            read(column.slice(start, end - start))
        except GeometryError as error:
            if end - start == 1:
                yield start, error.message.partition("cannot be used: ")[2] or error.message
                continue
            middle = (start + end) // 2
            left += [(middle, end), (start, middle)]


def _rows(mask: Bools) -> list[int]:
    found: list[int] = np.flatnonzero(mask).tolist()
    return found
