"""Raster values as the Havasu specification's encoding `v1` means them.

A raster is one or more grids of cells, an affine map from cells to the world, and
a CRS as WKT. The map is anchored at the centre of cells, unlike GDAL's, which is
anchored at their corner; `GeoReference` turns one into the other. Pixels are
little-endian and row by row, so the bytes of a band are its numpy array.

A value that exists is sound: `ValueError` meets what contradicts itself. Arrow
columns of rasters are `raster_v1_columns`, numpy arrays and files `raster_v1_pixels`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.geo.buffers import Bools, Column, Floats, byte_column, simple_column
from havasu_vc.model import compute as pc
from havasu_vc.model.rasters import BAND_TYPE, RASTER_TYPE
from havasu_vc.records import dataclass

__all__ = [
    "BAND_TYPE",
    "MAX_BANDS",
    "RASTER_TYPE",
    "Band",
    "Buffer",
    "GeoReference",
    "PixelType",
    "Raster",
    "RasterHeaders",
    "format_rasters",
    "parse_rasters",
    "raster_headers",
]


Buffer: TypeAlias = bytes | memoryview
"""The bytes of a band; a view where they lie in an Arrow buffer."""

MAX_BANDS: Final = 1 << 16
"""More bands than that are taken for damage."""
_MAX_SIDE: Final = 2**31 - 1


class PixelType(IntEnum):
    """The type of a cell, by its number in the file; the numbers are PostGIS's.

    >>> PixelType.INT16.label, PixelType.INT16.size
    ('PT_16BSI', 2)
    """

    INT8 = 3
    UINT8 = 4
    INT16 = 5
    UINT16 = 6
    INT32 = 7
    UINT32 = 8
    FLOAT32 = 10
    FLOAT64 = 11

    @classmethod
    def of(cls, number: int) -> Self:
        """Return the pixel type of a number in a file."""
        try:
            return cls(number)
        except ValueError:
            known = ", ".join(f"{one.value} {one.label}" for one in cls)
            raise ValueError(f"pixel type {number} is not one of {known}") from None

    @classmethod
    def of_dtype(cls, dtype: np.dtype[Any]) -> Self:
        """Return the pixel type that holds a numpy type exactly."""
        for one in cls:
            if one.dtype == dtype.newbyteorder("<"):
                return one
        known = ", ".join(one.name.lower() for one in cls)
        raise ValueError(f"pixels of {dtype} are not among those that a raster holds: {known}")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the pixels as they are stored."""
        return np.dtype(self.name.lower()).newbyteorder("<")

    @property
    def size(self) -> int:
        """How many bytes a pixel has."""
        return self.dtype.itemsize

    @property
    def label(self) -> str:
        """The specification's name."""
        kind = {"i": "BSI", "u": "BUI", "f": "BF"}[self.dtype.kind]
        return f"PT_{8 * self.size}{kind}"

    def number(self, pixel: bytes) -> int | float:
        """Return what the bytes of one pixel say.

        >>> PixelType.INT16.number(bytes([255, 255]))
        -1
        """
        number: int | float = np.frombuffer(pixel, self.dtype)[0].item()
        return number


@dataclass(frozen=True, slots=True)
class GeoReference:
    """The affine map from column and row of a cell to the world, cells by their centres.

    x = upperleft_x + scale_x * column + skew_x * row, and
    y = upperleft_y + skew_y * column + scale_y * row.

    >>> GeoReference.of_affine((10, 0, 100, 0, -10, 50)).upperleft_x
    105.0
    """

    scale_x: float
    """Width of a cell."""
    scale_y: float
    """Height of a cell; negative where rows go south, as they mostly do."""
    skew_x: float
    """How far a row further down shifts x."""
    skew_y: float
    """How far a column further right shifts y."""
    upperleft_x: float
    """x of the centre of the first cell."""
    upperleft_y: float
    """y of the centre of the first cell."""

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, self.numbers)):
            raise ValueError(f"its georeference is not finite: {self.numbers}")

    @classmethod
    def of_affine(cls, affine: tuple[float, float, float, float, float, float]) -> Self:
        """Return the map of `a, b, c, d, e, f` as rasterio writes it, anchored at corners."""
        a, b, c, d, e, f = affine
        return cls(a, e, b, d, c + (a + b) / 2, f + (d + e) / 2)

    @property
    def affine(self) -> tuple[float, float, float, float, float, float]:
        """The same map as rasterio writes it, anchored at the corner of the first cell."""
        c = self.upperleft_x - (self.scale_x + self.skew_x) / 2
        f = self.upperleft_y - (self.skew_y + self.scale_y) / 2
        return self.scale_x, self.skew_x, c, self.skew_y, self.scale_y, f

    @property
    def numbers(self) -> tuple[float, float, float, float, float, float]:
        """The six numbers in the order of the file."""
        return (
            self.scale_x,
            self.scale_y,
            self.skew_x,
            self.skew_y,
            self.upperleft_x,
            self.upperleft_y,
        )

    def world(self, column: float, row: float) -> tuple[float, float]:
        """Return where a position in the grid is; whole numbers are centres of cells."""
        return (
            self.upperleft_x + self.scale_x * column + self.skew_x * row,
            self.upperleft_y + self.skew_y * column + self.scale_y * row,
        )

    def cell(self, x: float, y: float) -> tuple[int, int] | None:
        """Return the column and row of the cell that holds a place; None for a flat map."""
        determinant = self.scale_x * self.scale_y - self.skew_x * self.skew_y
        right, up = x - self.upperleft_x, y - self.upperleft_y
        if not determinant or not math.isfinite(right + up):
            return None
        column = (self.scale_y * right - self.skew_x * up) / determinant
        row = (self.scale_x * up - self.skew_y * right) / determinant
        if not math.isfinite(column + row):
            return None
        return math.floor(column + 0.5), math.floor(row + 0.5)


@dataclass(frozen=True, slots=True)
class Band:
    """One grid: its pixels (in-db), or where they are (out-db)."""

    pixel_type: PixelType
    """The type of a cell."""
    no_data: bytes | None = None
    """The pixel that stands for no value, in the bytes of one; None if there is none."""
    data: Buffer | None = None
    """The pixels, row by row; None for an out-db band."""
    out_db_band: int | None = None
    """Which band of the file, the first one is 0."""
    out_db_url: str | None = None
    """The file that holds the pixels of an out-db band."""

    def __post_init__(self) -> None:
        if self.no_data is not None and len(self.no_data) != self.pixel_type.size:
            raise ValueError(
                f"its no-data value has {len(self.no_data)} bytes, but a pixel of"
                f" {self.pixel_type.label} has {self.pixel_type.size}"
            )
        if self.data is not None:
            return
        if self.out_db_band is None or self.out_db_url is None:
            raise ValueError("it has a band with neither pixels nor a file that holds them")
        if self.out_db_band < 0:
            raise ValueError(f"it names band {self.out_db_band} of a file")

    @property
    def in_db(self) -> bool:
        """Whether the pixels are here, whatever is said of a file."""
        return self.data is not None

    @property
    def no_data_value(self) -> int | float | None:
        """The no-data pixel as a number."""
        return None if self.no_data is None else self.pixel_type.number(self.no_data)


@dataclass(frozen=True, slots=True)
class Raster:
    """Grids of one size with one place in the world."""

    width: int
    """Columns."""
    height: int
    """Rows."""
    georeference: GeoReference
    """Where the cells are."""
    bands: tuple[Band, ...] = ()
    """The grids."""
    crs_wkt: str | None = None
    """The system that the georeference counts in, as WKT; None if it is not known."""

    def __post_init__(self) -> None:
        if not (0 <= self.width <= _MAX_SIDE and 0 <= self.height <= _MAX_SIDE):
            raise ValueError(f"it has {self.width} columns and {self.height} rows")
        if len(self.bands) > MAX_BANDS:
            raise ValueError(f"it has {len(self.bands)} bands")
        for number, band in enumerate(self.bands, 1):
            expected = self.width * self.height * band.pixel_type.size
            if band.data is not None and len(band.data) != expected:
                raise ValueError(
                    f"band {number} has {len(band.data):,} bytes, but {self.width} × {self.height}"
                    f" pixels of {band.pixel_type.label} are {expected:,}"
                )

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        """The corners of the grid, which is half a cell larger than the centres of its cells."""
        right, bottom = self.width - 0.5, self.height - 0.5
        places = ((-0.5, -0.5), (right, -0.5), (right, bottom), (-0.5, bottom))
        return tuple(self.georeference.world(*place) for place in places)


def lenient_no_data(value: bytes, pixel_type: PixelType) -> bytes:
    """Return a no-data value that some write as a double in the bytes of a pixel."""
    if len(value) == pixel_type.size or len(value) != 8:
        return value  # what is wrong, the band says
    (number,) = struct.unpack("<d", value)
    with np.errstate(all="ignore"):
        pixel = np.array([number]).astype(pixel_type.dtype)
    if pixel[0] != number and not (pixel_type.dtype.kind == "f" and math.isnan(number)):
        raise ValueError(f"its no-data value {number} is no pixel of {pixel_type.label}")
    return pixel.tobytes()


# Arrow columns of rasters, laid out as the Parquet group of encoding `v1` (`model.rasters`).
#
# `raster_headers` reads what needs no pixels, for all rows at once, and works on
# columns that were read without bands. `parse_rasters` gives whole values whose
# pixels stay where they lie in the column. Both name the row that is not sound.

_GEOREFERENCE: Final = ("scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y")
_NAMED: Final = ("band_1", "band_2", "band_3", "band_4")
_MAX_BINARY: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RasterHeaders:
    """Headers of the rasters of a column, without their bands; one element per row."""

    there: Bools
    """Whether the row is a raster; the rest says nothing where it is null."""
    width: npt.NDArray[np.int64]
    """Columns."""
    height: npt.NDArray[np.int64]
    """Rows."""
    bands: npt.NDArray[np.int64]
    """How many bands it says it has."""
    georeference: Floats
    """(n, 6), in the order of the file."""
    crs_wkt: pa.Array[Any]
    """The systems as text."""

    @property
    def native_bounds(self) -> Floats:
        """(n, 4): xmin, ymin, xmax, ymax of the cells in the raster's own system; NaN of none."""
        scale_x, scale_y, skew_x, skew_y, x, y = self.georeference.T
        found = np.full((len(self.there), 4), np.nan)
        cells = self.there & (self.width > 0) & (self.height > 0)
        across, down = self.width - 0.5, self.height - 0.5
        places = ((-0.5, -0.5), (across, -0.5), (across, down), (-0.5, down))
        with np.errstate(all="ignore"):
            xs = np.stack([x + scale_x * column + skew_x * row for column, row in places])
            ys = np.stack([y + skew_y * column + scale_y * row for column, row in places])
        every = np.column_stack([xs.min(0), ys.min(0), xs.max(0), ys.max(0)])
        found[cells] = every[cells]
        return found


def raster_headers(column: Column) -> RasterHeaders:
    """Return the headers of a raster column, checked."""
    array = _simple(column)
    there: Bools = pc.is_valid(array).to_numpy(zero_copy_only=False)
    parts = _children(array)
    width, height, bands = (
        _integers(parts, name, there) for name in ("width", "height", "num_bands")
    )
    reference = parts.get("geo_reference")
    if reference is None or not pa.types.is_struct(reference.type):
        raise GeometryError("the raster column has no geo_reference")
    numbers = _children(reference)
    missing = set(_GEOREFERENCE) - numbers.keys()
    if missing:
        raise GeometryError(f"the raster column has no {min(missing)} in its geo_reference")
    georeference = np.column_stack([_doubles(numbers[name]) for name in _GEOREFERENCE])
    _refuse(there & ~np.isfinite(georeference).all(axis=1), "its georeference is not finite")
    _refuse(there & ((width < 0) | (height < 0)), "it has fewer than no columns or rows")
    _refuse(there & ((bands < 0) | (bands > MAX_BANDS)), "it counts bands that cannot be")
    crs = parts.get("crs_wkt")
    return RasterHeaders(
        there,
        width,
        height,
        bands,
        georeference,
        pa.nulls(len(array), pa.string()) if crs is None else crs,
    )


def parse_rasters(column: Column) -> list[Raster | None]:
    """Return the rasters of a column, None for null; their pixels are views of the column."""
    array = _simple(column)
    headers = raster_headers(array)
    parts = _children(array)
    bands: list[list[Band]] = [[] for _ in range(len(array))]
    for index, name in enumerate(_NAMED):
        for row, band in _bands(parts.get(name), np.arange(len(array))):
            if len(bands[row]) < index:
                raise _row_error(row, f"it has a {name} and no {_NAMED[index - 1]}")
            bands[row].append(band)
    more = parts.get("bands")
    if more is not None and not pa.types.is_null(more.type):
        owners = pc.list_parent_indices(more).to_numpy(zero_copy_only=False)
        for row, band in _bands(more.flatten(), owners):
            if len(bands[row]) < len(_NAMED):
                raise _row_error(row, f"it has more bands and no {_NAMED[len(bands[row])]}")
            bands[row].append(band)
    texts = headers.crs_wkt.to_pylist()
    found: list[Raster | None] = [None] * len(array)
    for row in np.flatnonzero(headers.there).tolist():
        if len(bands[row]) != headers.bands[row]:
            raise _row_error(row, f"it counts {headers.bands[row]} bands and has {len(bands[row])}")
        reference = GeoReference(*headers.georeference[row].tolist())
        size = int(headers.width[row]), int(headers.height[row])
        try:
            found[row] = Raster(*size, reference, tuple(bands[row]), texts[row])
        except ValueError as error:
            raise _row_error(row, str(error)) from error
    return found


def format_rasters(rasters: Sequence[Raster | None]) -> pa.Array[Any]:
    """Return rasters as a column of `RASTER_TYPE`; their pixels come to less than 2 GiB a band."""
    there = [one for one in rasters if one is not None]
    absent = pa.array([one is None for one in rasters], pa.bool_())
    columns: dict[str, pa.Array[Any]] = {}

    def spread(values: Iterable[Any], type_: pa.DataType) -> pa.Array[Any]:
        given = iter(values)
        return pa.array([None if one is None else next(given) for one in rasters], type_)

    for name, sizes in (
        ("width", (one.width for one in there)),
        ("height", (one.height for one in there)),
        ("num_bands", (len(one.bands) for one in there)),
    ):
        columns[name] = spread(sizes, pa.int32())
    columns["crs_wkt"] = spread((one.crs_wkt for one in there), pa.string())
    numbers = [one.georeference.numbers if one else (0.0,) * 6 for one in rasters]
    axes = np.array(numbers, np.float64).reshape(-1, 6).T
    columns["geo_reference"] = pa.StructArray.from_arrays(
        [pa.array(np.ascontiguousarray(axis)) for axis in axes],
        fields=list(RASTER_TYPE.field("geo_reference").type),
    )
    for index, name in enumerate(_NAMED):
        columns[name] = _format_bands(
            [one.bands[index] if one and index < len(one.bands) else None for one in rasters]
        )
    rest = [list(one.bands[len(_NAMED) :]) if one else [] for one in rasters]
    offsets = [0, *np.cumsum([len(each) for each in rest], dtype=np.int64).tolist()]
    columns["bands"] = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()),
        _format_bands([band for each in rest for band in each]),
        type=RASTER_TYPE.field("bands").type,
        mask=pa.array([not each for each in rest], pa.bool_()),
    )
    for name in ("width", "height", "num_bands"):
        columns[name] = pc.fill_null(columns[name], 0)
    return pa.StructArray.from_arrays(
        [columns[field.name] for field in RASTER_TYPE], fields=list(RASTER_TYPE), mask=absent
    )


def _format_bands(bands: Sequence[Band | None]) -> pa.Array[Any]:
    total = sum(len(band.data) for band in bands if band is not None and band.data is not None)
    if total > _MAX_BINARY:
        raise ValueError(f"{total:,} bytes of pixels do not fit one column: format fewer rasters")

    def values(name: str, type_: pa.DataType) -> pa.Array[Any]:
        return pa.array([band and getattr(band, name) for band in bands], type_)

    return pa.StructArray.from_arrays(
        [
            pa.array([0 if band is None else int(band.pixel_type) for band in bands], pa.int32()),
            values("no_data", pa.binary()),
            _joined([None if band is None else band.data for band in bands]),
            values("out_db_band", pa.int32()),
            values("out_db_url", pa.string()),
        ],
        fields=list(BAND_TYPE),
        mask=pa.array([band is None for band in bands], pa.bool_()),
    )


def _joined(values: Sequence[Buffer | None]) -> pa.Array[Any]:
    """Return bytes as a column, copied once: pixels are much, and builders copy as they grow."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    valid = np.array([value is not None for value in values], np.bool_)
    whole = b"".join(value for value in values if value is not None)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(
        pa.binary(), len(values), [bits, pa.py_buffer(offsets), pa.py_buffer(whole)]
    )


def _bands(column: pa.Array[Any] | None, owners: npt.NDArray[Any]) -> Iterator[tuple[int, Band]]:
    """Yield the bands of one slot that are there, each with the row that it belongs to."""
    if column is None or pa.types.is_null(column.type):
        return
    parts = _children(column)
    if "pixel_type" not in parts:
        raise GeometryError("the raster column has bands without a pixel_type")
    kinds = parts["pixel_type"].to_pylist()
    nothing = pa.nulls(len(column))
    no_data, numbers, urls = (
        parts.get(name, nothing).to_pylist() for name in ("no_data", "out_db_band_no", "out_db_url")
    )
    pixels = _views(parts.get("data", nothing))
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    for index in np.flatnonzero(valid).tolist():
        row = int(owners[index])
        try:
            kind = PixelType.of(kinds[index])
            blank = no_data[index]
            yield (
                row,
                Band(
                    kind,
                    None if blank is None else lenient_no_data(blank, kind),
                    pixels.get(index),
                    numbers[index],
                    urls[index],
                ),
            )
        except (ValueError, TypeError) as error:
            raise _row_error(row, str(error)) from error


def _views(column: pa.Array[Any]) -> dict[int, memoryview]:
    """Return the bytes of each value that is not null where they lie, by its index."""
    values = byte_column(simple_column(column))
    whole = values.data.data
    places = zip(values.rows.tolist(), values.starts.tolist(), values.ends.tolist(), strict=True)
    return {row: whole[start:end] for row, start, end in places}


def _simple(column: Column) -> pa.Array[Any]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_null(column.type):
        return pc.cast(column, RASTER_TYPE)
    if not pa.types.is_struct(column.type):
        raise GeometryError(f"a raster column is a struct of raster v1, not {column.type}")
    return column


def _children(array: pa.Array[Any]) -> dict[str, pa.Array[Any]]:
    """Return the fields of a struct array by name, null where the struct is."""
    if not pa.types.is_struct(array.type):
        raise GeometryError(f"a raster column has {array.type} where a struct belongs")
    names = [array.type.field(index).name for index in range(array.type.num_fields)]
    return dict(zip(names, array.flatten(), strict=True))


def _integers(parts: dict[str, pa.Array[Any]], name: str, there: Bools) -> npt.NDArray[np.int64]:
    found = parts.get(name)
    if found is None or not pa.types.is_integer(found.type):
        raise GeometryError(f"the raster column has no {name}")
    _refuse(there & ~pc.is_valid(found).to_numpy(zero_copy_only=False), f"it has no {name}")
    values: npt.NDArray[np.int64] = pc.fill_null(pc.cast(found, pa.int64()), 0).to_numpy(
        zero_copy_only=False
    )
    return values


def _doubles(column: pa.Array[Any]) -> Floats:
    found: Floats = pc.fill_null(pc.cast(column, pa.float64()), np.nan).to_numpy(
        zero_copy_only=False
    )
    return found


def _refuse(rows: Bools, reason: str) -> None:
    if rows.any():
        raise _row_error(int(np.argmax(rows)), reason)


def _row_error(row: int, reason: str) -> GeometryError:
    return GeometryError.of_value(row, reason, what="raster")
