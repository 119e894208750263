"""WKB as GeoArrow's native geometry columns, which GeoParquet 1.1 calls by their type.

A column that came in a native encoding goes out in it again. The type of a file is
fixed before its first row is seen, so a column in which a geometry is of another type,
or of other dimensions, is refused with the way out: to write WKB.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.ragged import ragged
from havasu_vc.records import dataclass

__all__ = ["NATIVE", "NativeColumn", "native_dimensions"]

NATIVE = "geoarrow"
"""The property of a geometry column that came in a native encoding, and which."""
_LEVELS = {
    "point": (),
    "linestring": ("vertices",),
    "polygon": ("vertices", "rings"),
    "multipoint": ("points",),
    "multilinestring": ("vertices", "linestrings"),
    "multipolygon": ("vertices", "rings", "polygons"),
}
"""What the items of each list are called, the innermost first."""


def native_dimensions(type_: pa.DataType) -> str | None:
    """Return `xy` or `xyz` for the type of a native column, None for any other.

    >>> native_dimensions(pa.list_(pa.struct([("x", pa.float64()), ("y", pa.float64())])))
    'xy'
    """
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    while pa.types.is_list(type_) or pa.types.is_large_list(type_):
        type_ = type_.value_type
    if not pa.types.is_struct(type_):
        return None
    axes = "".join(type_.field(index).name for index in range(type_.num_fields))
    return axes if axes in ("xy", "xyz") else None


@dataclass(frozen=True, slots=True)
class NativeColumn:
    """A geometry column that is written in a native encoding."""

    name: str
    """The column."""
    encoding: str
    """Its encoding, such as `multipolygon`."""
    dimensions: str
    """`xy` or `xyz`."""

    @classmethod
    def parse(cls, name: str, text: str) -> NativeColumn | None:
        """Return the column that a property describes; None for a text that is none."""
        encoding, _, dimensions = text.partition(" ")
        if encoding not in _LEVELS or dimensions not in ("xy", "xyz"):
            return None
        return cls(name, encoding, dimensions)

    @property
    def type(self) -> pa.DataType:
        """The type of its values."""
        made: pa.DataType = pa.struct(self._axes())
        for item in _LEVELS[self.encoding]:
            made = pa.list_(pa.field(item, made, nullable=False))
        return made

    def values(self, wkb: pa.Array) -> pa.Array:
        """Return canonical WKB in the encoding."""
        if wkb.null_count == len(wkb):
            return pa.nulls(len(wkb), self.type)
        try:
            vertices, offsets = ragged(wkb, self.encoding, self.dimensions)
        except GeometryError as error:
            raise GeometryError(
                f"column {self.name!r} came as GeoArrow's {self.encoding!r}, "
                f"and a geometry has no place in it: {error.message}",
                hints=("--geometry-encoding wkb writes geometries of any type",),
            ) from error
        axes = [pa.array(np.ascontiguousarray(axis)) for axis in vertices.T]
        made: pa.Array = pa.StructArray.from_arrays(axes, fields=self._axes())
        for item, starts in zip(_LEVELS[self.encoding], offsets, strict=True):
            field = pa.field(item, made.type, nullable=False)
            places = pa.array(np.asarray(starts, np.int32))
            made = pa.ListArray.from_arrays(places, made, type=pa.list_(field))
        if not wkb.null_count:
            return made
        valid = np.asarray(wkb.is_valid())
        return made.take(pa.array(np.cumsum(valid) - 1, mask=~valid))

    def _axes(self) -> list[pa.Field]:
        return [pa.field(axis, pa.float64(), nullable=False) for axis in self.dimensions]
