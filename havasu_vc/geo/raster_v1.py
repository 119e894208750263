"""Raster values as the Havasu specification's encoding `v1` means them.

A raster is one or more grids of cells, an affine map from cells to the world, and
a CRS as WKT. The map is anchored at the centre of cells, unlike GDAL's, which is
anchored at their corner; `GeoReference` turns one into the other. Pixels are
little-endian and row by row, so the bytes of a band are its numpy array.

A value that exists is sound: `ValueError` meets what contradicts itself. Arrow
columns of rasters are `raster_v1_columns`, numpy arrays and files `raster_v1_pixels`.
"""

import math
import struct
from enum import IntEnum
from typing import Any, Final, Self, TypeAlias

import numpy as np

from havasu_vc.records import dataclass

__all__ = ["MAX_BANDS", "Band", "Buffer", "GeoReference", "PixelType", "Raster"]

Buffer: TypeAlias = bytes | memoryview
"""The bytes of a band; a view where they lie in an Arrow buffer."""

MAX_BANDS: Final = 1 << 16
"""More bands than that are taken for damage."""
_MAX_SIDE: Final = 2**31 - 1


class PixelType(IntEnum):
    """What a cell holds, by its number in the file; the numbers are PostGIS's.

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
    def of_dtype(cls, dtype: "np.dtype[Any]") -> Self:
        """Return the pixel type that holds a numpy type exactly."""
        for one in cls:
            if one.dtype == dtype.newbyteorder("<"):
                return one
        known = ", ".join(one.name.lower() for one in cls)
        raise ValueError(f"pixels of {dtype} are not among those that a raster holds: {known}")

    @property
    def dtype(self) -> "np.dtype[Any]":
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
    """What a cell holds."""
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
