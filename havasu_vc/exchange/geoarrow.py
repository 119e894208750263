"""GeoArrow's columns: what their types say of them, native ones as WKB, and WKB as such columns.

A native column is a nest of Arrow lists around a struct of coordinates, so all
coordinates lie together. Its WKB is the same coordinates with small headers between
them. Where each header and each vertex goes follows from the list offsets alone;
both are put in place with numpy, level by level, never row by row.
"""

from __future__ import annotations

import json
import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError, UnsupportedTypeError
from havasu_vc.formats.iceberg.native_geometry import EDGES, NO_CRS
from havasu_vc.geo.wkt import ragged
from havasu_vc.model import compute as pc
from havasu_vc.model.types import Encoding
from havasu_vc.records import dataclass

__all__ = [
    "NATIVE",
    "NATIVE_ENCODINGS",
    "FoundGeometry",
    "NativeColumn",
    "extension_geometry",
    "native_dimensions",
    "to_wkb",
]


Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Level:
    """One level of the nest: what stands before its items in WKB."""

    code: int | None
    """The WKB geometry type; None for a ring, which has a count alone."""
    counted: bool
    """Whether the number of its parts follows; a point has none."""

    @property
    def size(self) -> int:
        """Bytes of its header."""
        return (0 if self.code is None else 5) + (4 if self.counted else 0)


_POINT, _RING = _Level(1, False), _Level(None, True)
_LINE, _POLYGON = _Level(2, True), _Level(3, True)
NATIVE_ENCODINGS: dict[str, tuple[_Level, ...]] = {
    "point": (_POINT,),
    "linestring": (_LINE,),
    "polygon": (_POLYGON, _RING),
    "multipoint": (_Level(4, True), _POINT),
    "multilinestring": (_Level(5, True), _LINE),
    "multipolygon": (_Level(6, True), _POLYGON, _RING),
}
"""GeoParquet's names of the native encodings."""


def to_wkb(column: pa.Array, encoding: str, name: str) -> pa.Array:
    """Return a native geometry column as little-endian ISO WKB.

    Raises `UnsupportedTypeError` if the column is not of the shape that `encoding` says.
    """
    levels = NATIVE_ENCODINGS[encoding]
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    valid = column.is_valid()
    rows = np.asarray(pc.indices_nonzero(valid)).astype(np.int64)
    parts, counts = column.filter(valid) if column.null_count else column, []
    for level in levels:
        if not level.counted:
            continue
        if not (pa.types.is_list(parts.type) or pa.types.is_large_list(parts.type)):
            raise _misshapen(name, encoding)
        counts.append(np.asarray(pc.list_value_length(parts).fill_null(0)).astype(np.int64))
        parts = parts.flatten()
    vertices, dimension_code = _vertices(parts, name, encoding)
    wkb, lengths = _assemble(levels, counts, vertices, dimension_code, len(rows))
    every = np.zeros(len(column) + 1, np.int64)
    every[rows + 1] = lengths
    offsets = np.cumsum(every)
    if offsets[-1] > np.iinfo(np.int32).max:
        raise UnsupportedTypeError(name, "a batch of its geometries is larger than 2 GiB")
    buffers = [_validity(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(wkb)]
    return pa.Array.from_buffers(pa.binary(), len(column), buffers)


def _misshapen(name: str, encoding: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(name, f"its values are not of the GeoArrow type {encoding!r}")


def _validity(valid: pa.BooleanArray) -> pa.Buffer:
    bits = np.packbits(np.asarray(valid.to_numpy(zero_copy_only=False)), bitorder="little")
    return pa.py_buffer(bits)


def _vertices(parts: pa.Array, name: str, encoding: str) -> tuple[Bytes, int]:
    """Return coordinates as rows of bytes, and what their dimensions add to a type code."""
    if pa.types.is_struct(parts.type):
        axes = [parts.type.field(index).name for index in range(parts.type.num_fields)]
        ordinates = parts.flatten()
    elif pa.types.is_fixed_size_list(parts.type):
        count = parts.type.list_size
        said = parts.type.value_field.name
        axes = list(said) if len(said) == count else list("xyzm")[:count]
        flat = parts.flatten()
        ordinates = [flat.take(pa.array(range(i, len(flat), count))) for i in range(count)]
    else:
        raise _misshapen(name, encoding)
    codes = {("x", "y"): 0, ("x", "y", "z"): 1000, ("x", "y", "m"): 2000}
    codes["x", "y", "z", "m"] = 3000
    order = tuple(axis for axis in "xyzm" if axis in axes)
    if order not in codes or len(order) != len(axes):
        raise _misshapen(name, encoding)
    try:
        columns = [ordinates[axes.index(axis)].cast(pa.float64()) for axis in order]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _misshapen(name, encoding) from error
    table = np.column_stack(
        [np.asarray(column.fill_null(np.nan), dtype="<f8") for column in columns]
    )
    return np.ascontiguousarray(table).view(np.uint8).reshape(len(table), -1), codes[order]


def _assemble(
    levels: tuple[_Level, ...],
    counts: list[Ints],
    vertices: Bytes,
    dimension_code: int,
    rows: int,
) -> tuple[Bytes, Ints]:
    """Return the bytes of all rows one after another, and how many each row has."""
    vertex = vertices.shape[1]
    # Bottom up: how long the items of each level are.
    inner = np.full(len(vertices), vertex, np.int64)
    lengths: list[Ints] = []
    remaining = list(counts)
    for level in reversed(levels):
        if level.counted:
            inner = _sums(inner, remaining.pop()) + level.size
        else:
            inner = inner + level.size
        lengths.append(inner)
    lengths.reverse()
    total = lengths[0] if levels else inner
    if len(total) != rows:
        raise ValueError("rows and geometries do not go together")
    out = np.zeros(int(total.sum()), np.uint8)
    # Top down: where the items of each level begin.
    starts = _starts(total)
    left = list(counts)
    for depth, level in enumerate(levels):
        head = b"" if level.code is None else struct.pack("<BI", 1, level.code + dimension_code)
        _put(out, starts, np.frombuffer(head, np.uint8)[None, :])
        starts = starts + len(head)
        if level.counted:
            count = left.pop(0)
            _put(out, starts, count.astype("<u4").view(np.uint8).reshape(-1, 4))
            deeper = depth + 1 < len(levels)
            sizes = lengths[depth + 1] if deeper else np.full(len(vertices), vertex, np.int64)
            starts = _inner_starts(starts + 4, count, sizes)
    _put(out, starts, vertices)
    return out, total


def _sums(values: Ints, counts: Ints) -> Ints:
    """Return the sum of each run of `counts[i]` values."""
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    ends = np.cumsum(counts)
    return np.asarray(running[ends] - running[ends - counts], np.int64)


def _starts(sizes: Ints) -> Ints:
    return np.cumsum(sizes) - sizes


def _inner_starts(starts: Ints, counts: Ints, sizes: Ints) -> Ints:
    """Return where parts begin that lie one after another from each of `starts`."""
    if not len(sizes):
        return np.zeros(0, np.int64)
    position = _starts(sizes)
    first = np.minimum(np.cumsum(counts) - counts, len(sizes) - 1)
    return np.asarray(position + np.repeat(starts - position[first], counts), np.int64)


def _put(out: Bytes, starts: Ints, rows: Bytes) -> None:
    width = rows.shape[1]
    if not width:
        return
    # In pieces, since the index of each byte takes eight times its room.
    for start in range(0, len(starts), 65_536):
        piece = rows if len(rows) == 1 else rows[start : start + 65_536]
        out[starts[start : start + 65_536, None] + np.arange(width)] = piece


# WKB as GeoArrow's native geometry columns, which GeoParquet 1.1 calls by their type.
#
# A column that came in a native encoding goes out in it again. The type of a file is
# fixed before its first row is seen, so a column in which a geometry is of another type,
# or of other dimensions, is refused with the way out: to write WKB.

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
"""Names of the items of each list, the innermost first."""


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


# What a column says of itself by an extension type of Arrow.

_NAME, _METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"


@dataclass(frozen=True, slots=True)
class FoundGeometry:
    """A geometry column of a file."""

    encoding: str = "WKB"
    """`WKB`, `WKT` or the name of a native GeoArrow encoding."""
    crs: str | None = None
    """Its coordinate reference system as the file says it; None when unknown."""
    shape: str | None = None
    """The one geometry type of all values, in capitals; None for any."""
    edges: str | None = None
    """How edges run on the globe, one of `EDGES`; None for straight lines of a plane."""
    properties: tuple[tuple[str, str], ...] = ()
    """Other properties that are kept: `epoch`, `orientation`, `covering`, `crs-text`."""

    @property
    def stored_encoding(self) -> Encoding:
        """How values stand once native ones are WKB."""
        return Encoding.WKT if self.encoding == "WKT" else Encoding.WKB


def extension_geometry(field: pa.Field) -> FoundGeometry | None:
    """Return what a GeoArrow extension type says of a column, None for any other."""
    if isinstance(field.type, pa.BaseExtensionType):
        name = field.type.extension_name
        raw = (
            field.type.__arrow_ext_serialize__()
            if hasattr(field.type, "__arrow_ext_serialize__")
            else b""
        )
    else:
        annotations = field.metadata or {}
        name = annotations.get(_NAME, b"").decode(errors="replace")
        raw = annotations.get(_METADATA, b"")
    family, _, kind = name.partition(".")
    if family not in ("geoarrow", "ogc"):
        return None
    if kind.lower() not in ("wkb", "wkt", *NATIVE_ENCODINGS):
        return None
    encoding = kind.upper() if kind.lower() in ("wkb", "wkt") else kind.lower()
    try:
        said = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        said = {}
    said = said if isinstance(said, dict) else {}
    crs = said.get("crs")
    text = crs if crs is None or isinstance(crs, str) else json.dumps(crs)
    if text and text.startswith("srid:"):
        text = None if text == NO_CRS else f"EPSG:{text[5:]}"
    if text and text.startswith("projjson:"):
        text = None
    edges = str(said.get("edges")).lower()
    return FoundGeometry(encoding, text, None, edges if edges in EDGES else None)
