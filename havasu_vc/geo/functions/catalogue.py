"""SQL functions: each has a name, parameters, a result, and a formula over arrays.

A function is pure: Arrow arrays of one length in, one array of that length out, and
null where any argument is null. Errors come out as one line that names the function.
With `lenient`, rows that cannot be computed are null instead, and the rest stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import GeometryError, InvalidArgumentError
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import (
    Bools,
    ByteColumn,
    Floats,
    byte_column,
    point_records,
    simple_column,
)
from havasu_vc.geo.wkb import Encoding, Srids, from_canonical, to_canonical
from havasu_vc.geo.wkt import geos_geometries, wkb_of_geometries
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import shapely

__all__ = [
    "REPEATED",
    "Array",
    "Formula",
    "Geometries",
    "Result",
    "Shapes",
    "SqlFunction",
    "constant_bytes",
    "geometry_array",
    "masked",
    "numbers",
    "repeated",
    "texts",
    "whole_numbers",
]


# What functions of SQL are called with: Arrow arrays read as geometries, numbers, rasters.
#
# A geometry is bytes (EWKB or WKB) or text (WKT or GeoJSON), told apart by the type
# of the array and, for text, by its first character. A function asks for the form
# that it needs and only that is made: the constant that an argument mostly is,
# parsed and prepared once for all batches; x and y of plain points, without GEOS;
# bounds from the bytes; shapely's geometries for the rest. Null stays null.

Array: TypeAlias = pa.Array
Shapes: TypeAlias = npt.NDArray[np.object_]

REPEATED: Final = pa.dictionary(pa.int8(), pa.binary())
"""The type of an argument that is one geometry, the same in every row."""
_GEOMETRY: Final = "a geometry, as WKB (binary) or as WKT or GeoJSON (string)"


class Geometries:
    """An argument that is a geometry in every row."""

    def __init__(self, column: Array) -> None:
        kind = column.type
        if not (
            pa.types.is_null(kind)
            or pa.types.is_binary(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
            or kind in (pa.binary_view(), pa.string_view(), REPEATED)
        ):
            raise _wrong_type(_GEOMETRY, kind)
        self.size = len(column)
        self._given = column

    @cached_property
    def column(self) -> Array:
        """The array, of binary or string."""
        return simple_column(self._given)

    @cached_property
    def valid(self) -> Bools:
        """Which rows are not null."""
        found: Bools = self._given.is_valid().to_numpy(zero_copy_only=False)
        return found

    @property
    def is_text(self) -> bool:
        """Whether geometries are written as text."""
        kind = self._given.type
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    @cached_property
    def constant(self) -> shapely.Geometry | None:
        """The geometry of all rows, prepared, if it is the same in all."""
        value = self._repeated
        return None if value is None else _prepared(value, self.is_text)[0]

    @cached_property
    def canonical(self) -> tuple[Array, Srids | None]:
        """Canonical WKB and the SRIDs."""
        if not self.is_text:
            return to_canonical(self.column, "ewkb")
        encoding, mixed = _text_encoding(self.column)
        if mixed is None:
            return to_canonical(self.column, encoding)
        braces = to_canonical(pc.if_else(mixed, self.column, None), "geojson")[0]
        words = to_canonical(pc.if_else(mixed, None, self.column), "wkt")[0]
        return pc.coalesce(braces, words), None

    @cached_property
    def srids(self) -> Srids | None:
        """The SRID of each row; None if there are none."""
        value = None if self.is_text else self._repeated
        if value is not None:
            srid = _prepared(value, False)[1]
            return np.full(self.size, srid, np.int32) if srid else None
        return self.canonical[1]

    @cached_property
    def points(self) -> tuple[Floats, Floats] | None:
        """X and y of every row, NaN for null and empty, if all are plain points."""
        records = None if self.is_text else point_records(self._bytes)
        if records is None:
            return None
        rows = self._bytes.rows
        if len(rows) == self.size:
            return records["x"], records["y"]
        found = np.full((2, self.size), np.nan)
        found[0, rows], found[1, rows] = records["x"], records["y"]
        return found[0], found[1]

    @cached_property
    def bounds(self) -> Floats:
        """xmin, ymin, xmax, ymax of every row; NaN where there are none."""
        if self.is_text:
            return row_bounds(self.canonical[0])
        return row_bounds(self.column, "ewkb")

    @cached_property
    def shapes(self) -> Shapes:
        """The geometry of every row, None for null."""
        if self.constant is not None:
            return np.full(self.size, self.constant, object)
        if self.points is not None:
            return _points_as_shapes(*self.points, self.valid)
        return geos_geometries(self.canonical[0])

    @property
    def operand(self) -> Shapes | shapely.Geometry:
        """The constant if there is one, which shapely spreads over all rows, else the shapes."""
        return self.shapes if self.constant is None else self.constant

    @cached_property
    def _repeated(self) -> bytes | None:
        """The bytes of all rows, if they are the same."""
        if self._given.type == REPEATED:
            value: bytes | None = self._given[0].as_py() if self.size else None
            return value
        return _constant(self._bytes)

    @cached_property
    def _bytes(self) -> ByteColumn:
        return byte_column(self.column)


def constant_bytes(geometry: Any) -> bytes:
    """Return a geometry of shapely's as EWKB."""
    import shapely

    if not isinstance(geometry, shapely.Geometry):
        raise TypeError(f"{geometry!r} is no column, no name of one and no geometry")
    found: bytes = shapely.to_wkb(geometry, include_srid=True)
    return found


def repeated(wkb: bytes, size: int) -> Array:
    """Return one geometry as the argument of so many rows, which takes no room."""
    places = pa.array(np.zeros(size, np.int8))
    return pa.DictionaryArray.from_arrays(places, pa.array([wkb], pa.binary()))


def geometry_array(shapes: Shapes, srids: Srids | None = None) -> Array:
    """Return shapely's geometries as EWKB, with the SRIDs of their rows."""
    return from_canonical(wkb_of_geometries(shapes), srids, "ewkb")


def numbers(column: Array, name: str) -> tuple[Floats, Bools]:
    """Return an argument that is a number, and which rows are not null."""
    kind = column.type
    known = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (known or pa.types.is_null(kind)):
        raise _wrong_type(f"a number for {name}", kind)
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    values: Floats = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)
    return values, valid


def whole_numbers(column: Array, name: str) -> tuple[npt.NDArray[np.int64], Bools]:
    """Return an argument that is a whole number, 0 for null, and which rows are not null."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise _wrong_type(f"a whole number for {name}", kind)
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return values, valid


def texts(column: Array, name: str) -> Array:
    """Return an argument that is text."""
    kind = column.type
    if pa.types.is_null(kind) or pa.types.is_string(kind):
        return column.cast(pa.string())
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return column
    raise _wrong_type(f"text for {name}", kind)


def _wrong_type(wanted: str, kind: pa.DataType) -> InvalidArgumentError:
    return InvalidArgumentError(f"it takes {wanted}, not {kind}")


def masked(values: npt.NDArray[Any] | Shapes, *valid: Bools) -> Array:
    """Return values as an Arrow array, null where any of `valid` is false."""
    there = np.logical_and.reduce(valid) if valid else np.ones(len(values), np.bool_)
    return pa.array(values, mask=None if there.all() else ~there)


def _constant(column: ByteColumn) -> bytes | None:
    """Return the bytes of all rows if they are the same, and no row is null."""
    count = len(column.starts)
    if not count or count != column.size:
        return None
    start, length = int(column.starts[0]), int(column.lengths[0])
    if int(column.lengths[-1]) != length or not (column.lengths == length).all():
        return None
    values = column.data[start : start + count * length]
    # A column of one value is the same when it is moved by one row.
    rest = values.size - length
    words, bytes_ = rest // 8 * 8, slice(rest // 8 * 8, rest)
    moved = values[length:]
    if not np.array_equal(values[:rest][-length:], moved[-length:]):
        return None
    if not np.array_equal(values[:words].view("<u8"), moved[:words].view("<u8")):
        return None
    if not np.array_equal(values[bytes_], moved[bytes_]):
        return None
    found: bytes = values[:length].tobytes()
    return found


@lru_cache(maxsize=128)
def _prepared(value: bytes, is_text: bool) -> tuple[shapely.Geometry, int]:
    import shapely

    column = pa.array([value], pa.binary())
    encoding: Encoding = "ewkb"
    if is_text:
        column = column.cast(pa.string(), safe=False)
        encoding, _ = _text_encoding(column)
    wkb, srids = to_canonical(column, encoding)
    (geometry,) = geos_geometries(wkb)
    shapely.prepare(geometry)
    return geometry, 0 if srids is None else int(srids[0])


def _text_encoding(column: Array) -> tuple[Encoding, Array | None]:
    """Return how texts are written; where they differ, also which rows are GeoJSON."""
    try:
        braces = pc.fill_null(pc.starts_with(pc.utf8_ltrim_whitespace(column), "{"), False)
    except pa.ArrowInvalid as error:
        raise GeometryError("a geometry is text that is not UTF-8") from error
    found = pc.sum(braces).as_py() or 0
    if found == 0:
        return "wkt", None
    if found == len(column) - column.null_count:
        return "geojson", None
    return "wkt", braces


def _points_as_shapes(x: Floats, y: Floats, valid: Bools) -> Shapes:
    import shapely

    empty = np.isnan(x) & np.isnan(y)
    with np.errstate(all="ignore"):
        shapes: Shapes = shapely.points(x, y)
    if empty.any():
        shapes[empty] = shapely.Point()
        shapes[~valid] = None
    return shapes


Formula: TypeAlias = Callable[..., Array]
"""Arrow arrays of one length to one of that length, or for an aggregate of length one."""

# The row of a batch says nothing to those who see a table.
_ROW: Final = re.compile(r"^the (geometry|raster) in row \d+ ")


class Result(Enum):
    """The result of a function, by the Arrow type of its arrays."""

    GEOMETRY = ("geometry", pa.binary())
    BYTES = ("binary", pa.binary())
    TEXT = ("string", pa.string())
    NUMBER = ("double", pa.float64())
    WHOLE_NUMBER = ("int", pa.int32())
    TRUTH = ("boolean", pa.bool_())
    METADATA = (
        "struct",
        pa.struct(
            [
                ("upper_left_x", pa.float64()),
                ("upper_left_y", pa.float64()),
                ("width", pa.int32()),
                ("height", pa.int32()),
                ("scale_x", pa.float64()),
                ("scale_y", pa.float64()),
                ("skew_x", pa.float64()),
                ("skew_y", pa.float64()),
                ("srid", pa.int32()),
                ("num_bands", pa.int32()),
            ]
        ),
    )

    def __init__(self, label: str, arrow_type: pa.DataType) -> None:
        self.label = label
        self.arrow_type = arrow_type


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function that SQL can call.

    >>> SqlFunction("ST_F", "geometry, distance [, srid]", Result.TEXT, "", len).arity
    (2, 3)
    """

    name: str
    """As it is written in SQL, where case does not matter."""
    signature: str
    """Its parameters by name; those in brackets may be left out."""
    result: Result
    """The type of its result."""
    summary: str
    """Its description, in a sentence."""
    formula: Formula = field(repr=False)
    """From its columns to its result."""
    aggregate: bool = False
    """Whether it makes one value of all rows of a group."""

    @property
    def arity(self) -> tuple[int, int]:
        """The least and the greatest number of arguments."""
        required = re.sub(r"\[.*?\]", "", self.signature)
        return len(re.findall(r"\w+", required)), len(re.findall(r"\w+", self.signature))

    def check_arity(self, count: int) -> None:
        """Raise `InvalidArgumentError` if it does not take so many arguments."""
        least, most = self.arity
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            plural = "" if most == 1 else "s"
            raise InvalidArgumentError(
                f"{self.name} takes {wanted} argument{plural}, not {count}",
                hints=(f"{self.name}({self.signature})",),
            )

    def __call__(self, *columns: Array, lenient: bool = False) -> Array:
        """Compute it for arrays of one length."""
        self.check_arity(len(columns))
        try:
            return self._computed(*columns)
        except GeometryError:
            if not lenient or self.aggregate:
                raise
        return self._leniently(*columns)

    def _computed(self, *columns: Array) -> Array:
        import shapely

        try:
            with np.errstate(all="ignore"):
                found = self.formula(*columns)
        except shapely.errors.ShapelyError as error:
            reason = " ".join(str(error).split())[:160]
            raise GeometryError(f"{self.name} cannot be computed: {reason}") from error
        except GeometryError as error:
            message = _ROW.sub(r"a \1 ", error.message)
            raise GeometryError(f"{self.name}: {message}", hints=error.hints) from error
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{self.name}: {error.message}", hints=error.hints
            ) from error
        wanted = self.result.arrow_type
        return found if found.type == wanted else found.cast(wanted)

    def _leniently(self, *columns: Array) -> Array:
        """Compute halves of halves, until only rows that cannot be computed are null."""
        count = len(columns[0])
        try:
            return self._computed(*columns)
        except GeometryError:
            if count == 1:
                return pa.nulls(1, self.result.arrow_type)
        middle = count // 2
        parts = [
            self._leniently(*(column.slice(start, length) for column in columns))
            for start, length in ((0, middle), (middle, count - middle))
        ]
        return pa.concat_arrays(parts)
