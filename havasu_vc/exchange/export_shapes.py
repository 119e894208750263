"""Geometries that a format cannot hold, found before GDAL drops a part of them.

GDAL writes what fits and says nothing: a Z that the layer was not declared with, an M
in GeoJSON, a row without geometry that decides a shapefile's type. So the type of a
layer is told from its schema or its first rows, and every batch is held against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.exchange.export_columns import ExportFormat, Notes
from havasu_vc.exchange.export_geometry import OutgoingGeometry, type_name
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import overlapping, ranges
from havasu_vc.geo.layout import scan
from havasu_vc.geo.text import geometry_types
from havasu_vc.geo.wkb import layout_column
from havasu_vc.records import dataclass

__all__ = ["LayerShape", "layer_shape"]

_DECLARED = (ExportFormat.FLATGEOBUF, ExportFormat.SHAPEFILE)
_JSON = (ExportFormat.GEOJSON, ExportFormat.GEOJSONSEQ)
_FAMILIES = {1: "points", 2: "lines", 5: "lines", 3: "polygons", 6: "polygons", 4: "multipoints"}
_CURVED = (8, 9, 10, 11, 12)
_HINTS = ("export to GeoParquet or GeoPackage, which hold any geometry",)


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What a layer's geometries are declared as, and the check that they are."""

    geometry: OutgoingGeometry
    """The column."""
    format: ExportFormat
    """The format."""
    shape: str | None
    """The type to declare, such as `POINT Z`; None for any."""
    codes: frozenset[int] = field(default_factory=frozenset)
    """Type codes of the first rows."""

    def checked(self, column: pa.Array) -> pa.Array:
        """Return a stored column as WKB.

        Raises `UnsupportedTypeError` when the layer cannot hold it.
        """
        wkb = self.geometry.canonical(column)
        codes = geometry_types(wkb)
        if self.format in _JSON:
            self._note_json(codes)
        if self.format in (*_JSON, ExportFormat.SHAPEFILE):
            self._refuse_infinite(wkb)
        if self.format in (*_JSON, *_DECLARED):
            self._note_empty(wkb)
        if self.format in _DECLARED:
            self._refuse_other(codes)
        return wkb

    def _note_json(self, codes: set[int]) -> None:
        name = self.geometry.field.name
        if any(code >= 2000 for code in codes):
            self._say(f"column {name!r} loses its M values in GeoJSON, which has none")
        if any(code % 1000 in _CURVED for code in codes):
            self._say(f"curves in column {name!r} become lines and polygons in GeoJSON")

    def _refuse_infinite(self, wkb: pa.Array) -> None:
        """Refuse coordinates that are no numbers; GDAL writes nulls in their place, or fails."""
        if _has_infinite(wkb):
            raise self._refused("has no coordinates that are NaN or infinite, and a value has")

    def _say(self, line: str) -> None:
        notes: Notes = self.geometry.notes
        notes.say(line)

    def _note_empty(self, wkb: pa.Array) -> None:
        there = np.asarray(pc.is_valid(wkb))
        if np.isnan(row_bounds(wkb, "wkb")[there, 0]).any():
            name = self.geometry.field.name
            self._say(f"empty geometries of column {name!r} become nulls in {self.format.label}")

    def _refuse_other(self, codes: set[int]) -> None:
        dimensions = {code // 1000 for code in self.codes | codes}
        if self.format is ExportFormat.FLATGEOBUF:
            declared = _dimensions(self.shape)
            if dimensions - {declared}:
                raise self._refused("holds Z and M where all rows have them and are of one type")
            return
        if len(dimensions) > 1:
            raise self._refused("has Z and M in all rows or in none")
        families = {_FAMILIES.get(code % 1000, "other types") for code in self.codes | codes}
        if len(families) > 1 or "other types" in families:
            raise self._refused(f"holds one kind of geometry, not {' and '.join(sorted(families))}")

    def _refused(self, why: str) -> UnsupportedTypeError:
        return UnsupportedTypeError(
            self.geometry.field.name, f"{self.format.label} {why}", hints=_HINTS
        )


def _has_infinite(wkb: pa.Array) -> bool:
    """Whether an X, Y or Z is no finite number; empty points, which are all NaN, aside."""
    layout = scan(layout_column(wkb, "wkb"))
    there = layout.count > 0
    count = layout.count[there]
    places = ranges(layout.start[there], count, 8 * layout.ordinates[there])
    numbers = overlapping(layout.column.data, "<f8")
    x, y = numbers[places], numbers[places + 8]
    wrong = ~(np.isfinite(x) & np.isfinite(y))
    high = np.repeat(layout.dimensions[there] & 1, count) == 1
    wrong[high] |= ~np.isfinite(numbers[places[high] + 16])
    empty = np.repeat(layout.kind[there] == 1, count) & np.isnan(x) & np.isnan(y)
    return bool((wrong & ~empty).any())


def _dimensions(shape: str | None) -> int:
    said = shape.partition(" ")[2] if shape else ""
    return {"": 0, "Z": 1, "M": 2, "ZM": 3}.get(said, 0)


def layer_shape(
    geometry: OutgoingGeometry,
    column: int,
    batches: Iterator[pa.RecordBatch],
    format: ExportFormat,
) -> tuple[LayerShape, Iterator[pa.RecordBatch]]:
    """Return the shape of a layer, looking at its first batch if need be, and all batches."""
    announced = geometry.field.geometry.shape if geometry.field.geometry is not None else None
    if format not in _DECLARED:
        shape = None if format in _JSON else announced
        return LayerShape(geometry, format, shape), batches
    first = next(batches, None)
    if first is None:
        return LayerShape(geometry, format, announced), batches
    codes = geometry_types(geometry.canonical(first.column(column)))
    shape = announced
    if shape is None and codes:
        shape = _common(codes, format)
    return LayerShape(geometry, format, shape, frozenset(codes)), chain([first], batches)


def _common(codes: set[int], format: ExportFormat) -> str | None:
    """Return the type that all of the first rows have."""
    if len(codes) == 1:
        return type_name(next(iter(codes))).upper()
    families = {(_FAMILIES.get(code % 1000), code // 1000) for code in codes}
    if format is ExportFormat.SHAPEFILE and len(families) == 1:
        return type_name(max(codes)).upper()  # the type of several parts
    return None
