"""Functions of rasters of encoding v1: their size, place, bands and pixels.

Bands count from 1, as everywhere in SQL. What only asks for the header reads no
pixels, though a SQL engine still brings them along. A geometry that has an SRID is
brought to the raster's system, one without is taken to be in it. Pixels in files of
their own are not read here: which files may be is not for a query to say.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import CrsError, InvalidArgumentError
from havasu_vc.geo.buffers import Bools, Floats, Ints, merge_rows
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.functions.catalogue import (
    Array,
    Formula,
    Geometries,
    Result,
    Shapes,
    SqlFunction,
    geometry_array,
    masked,
    whole_numbers,
)
from havasu_vc.geo.raster_v1 import (
    Band,
    PixelType,
    Raster,
    RasterHeaders,
    parse_rasters,
    raster_headers,
)
from havasu_vc.geo.raster_v1_pixels import pixels
from havasu_vc.geo.reproject import transform
from havasu_vc.geo.wkt import geos_geometries

__all__ = ["FUNCTIONS"]

# The names that Sedona has for pixel types.
_PIXEL_TYPES: Final = {
    PixelType.INT8: "SIGNED_8BITS",
    PixelType.UINT8: "UNSIGNED_8BITS",
    PixelType.INT16: "SIGNED_16BITS",
    PixelType.UINT16: "UNSIGNED_16BITS",
    PixelType.INT32: "SIGNED_32BITS",
    PixelType.UINT32: "UNSIGNED_32BITS",
    PixelType.FLOAT32: "REAL_32BITS",
    PixelType.FLOAT64: "REAL_64BITS",
}


def _headers(column: Array) -> RasterHeaders:
    kind = column.type
    if not (pa.types.is_struct(kind) or pa.types.is_null(kind)):
        raise InvalidArgumentError(f"it takes a raster, as a struct of raster v1, not {kind}")
    return raster_headers(column)


def _number(axis: int) -> Formula:
    def formula(column: Array) -> Array:
        headers = _headers(column)
        return masked(np.ascontiguousarray(headers.georeference[:, axis]), headers.there)

    return formula


def _whole_number(name: str) -> Formula:
    def formula(column: Array) -> Array:
        headers = _headers(column)
        return masked(getattr(headers, name), headers.there)

    return formula


def _corner(headers: RasterHeaders) -> tuple[Floats, Floats]:
    """Return x and y of the corner of the first cell."""
    scale_x, scale_y, skew_x, skew_y, x, y = headers.georeference.T
    return x - (scale_x + skew_x) / 2, y - (skew_y + scale_y) / 2


def _corner_axis(axis: int) -> Formula:
    def formula(column: Array) -> Array:
        headers = _headers(column)
        return masked(_corner(headers)[axis], headers.there)

    return formula


@lru_cache(maxsize=256)
def _crs(text: str | None) -> Crs | None:
    try:
        return None if text is None else parse_crs(text)
    except CrsError:
        return None


def _srids(headers: RasterHeaders) -> npt.NDArray[np.int32]:
    """Return the EPSG code of each raster's system, 0 where it has none."""
    found = [_epsg(_crs(text)) for text in headers.crs_wkt.to_pylist()]
    return np.array(found, np.int32)


def _epsg(crs: Crs | None) -> int:
    authority, _, code = ("", "", "") if crs is None else crs.identifier.partition(":")
    return int(code) if authority == "EPSG" and code.isdigit() else 0


def _srid(column: Array) -> Array:
    headers = _headers(column)
    return masked(_srids(headers), headers.there)


def _metadata(column: Array) -> Array:
    headers = _headers(column)
    scale_x, scale_y, skew_x, skew_y, _, _ = headers.georeference.T
    sizes = headers.width, headers.height
    values = [*_corner(headers), *sizes, scale_x, scale_y, skew_x, skew_y, _srids(headers)]
    kind = Result.METADATA.arrow_type
    fields = [kind.field(index) for index in range(kind.num_fields)]
    columns = [
        pa.array(np.ascontiguousarray(each)).cast(one.type)
        for each, one in zip([*values, headers.bands], fields, strict=True)
    ]
    absent = pa.array(~headers.there)
    return pa.StructArray.from_arrays(columns, fields=fields, mask=absent)


def _hulls(headers: RasterHeaders) -> Shapes:
    """Return the area of the cells of each raster; None for null, empty without cells."""
    import shapely

    scale_x, scale_y, skew_x, skew_y, x, y = headers.georeference.T
    right, bottom = headers.width - 0.5, headers.height - 0.5
    low = np.full_like(right, -0.5)
    ring = [(low, low), (right, low), (right, bottom), (low, bottom), (low, low)]
    corners = [
        (x + scale_x * column + skew_x * row, y + skew_y * column + scale_y * row)
        for column, row in ring
    ]
    found = np.full(len(right), None, object)
    there = headers.there
    places = np.stack([np.column_stack(corner) for corner in corners], axis=1)
    found[there] = shapely.polygons(places[there])
    found[there & ((headers.width == 0) | (headers.height == 0))] = shapely.Polygon()
    return found


def _hull(column: Array) -> Array:
    headers = _headers(column)
    return geometry_array(_hulls(headers), _some(_srids(headers)))


def _envelope(column: Array) -> Array:
    import shapely

    headers = _headers(column)
    return geometry_array(shapely.envelope(_hulls(headers)), _some(_srids(headers)))


def _some(srids: npt.NDArray[np.int32]) -> npt.NDArray[np.int32] | None:
    return srids if srids.any() else None


def _in_system_of(headers: RasterHeaders, geometries: Geometries) -> Array:
    """Return geometries as canonical WKB in the systems of the rasters of their rows."""
    wkb, srids = geometries.canonical
    if srids is None:
        return wkb
    systems = headers.crs_wkt.dictionary_encode()
    names, places = systems.dictionary.to_pylist(), systems.indices.to_numpy(zero_copy_only=False)
    both = geometries.valid & headers.there & systems.is_valid().to_numpy(zero_copy_only=False)
    for place in np.unique(places[both]).tolist():
        target = _crs(names[int(place)])
        for srid in np.unique(srids[both & (places == place)]).tolist():
            if target is None or srid in (0, _epsg(target)):
                continue
            rows = np.flatnonzero(both & (places == place) & (srids == srid))
            moved = transform(wkb.take(pa.array(rows)), _named(srid), target)
            wkb = merge_rows(wkb, rows, moved)
    return wkb


def _named(srid: int) -> Crs:
    try:
        return parse_crs(f"EPSG:{srid}")
    except CrsError as error:
        raise InvalidArgumentError(error.message, hints=error.hints) from error


def _relation(name: str) -> Formula:
    def formula(raster: Array, geometry: Array) -> Array:
        import shapely

        headers, geometries = _headers(raster), Geometries(geometry)
        shapes = geos_geometries(_in_system_of(headers, geometries))
        found = getattr(shapely, name)(_hulls(headers), shapes)
        return masked(found, headers.there, geometries.valid)

    return formula


def _chosen(column: Array, band: Array | None) -> Iterator[tuple[int, Raster, int]]:
    """Yield each row that has the band that is asked for, its raster, and which band, from 0."""
    rasters = parse_rasters(column)
    numbers, valid = (
        (np.ones(len(column), np.int64), np.ones(len(column), np.bool_))
        if band is None
        else whole_numbers(band, "the band")
    )
    for row, raster in enumerate(rasters):
        if raster is None or not valid[row]:
            continue
        number = int(numbers[row])
        if not 1 <= number <= len(raster.bands):
            raise InvalidArgumentError(
                f"a raster has {len(raster.bands)} bands and no band {number}",
                hints=("bands count from 1",),
            )
        yield row, raster, number - 1


def _of_band(get: Any) -> Formula:
    def formula(column: Array, band: Array | None = None) -> Array:
        _headers(column)
        found: list[Any] = [None] * len(column)
        for row, raster, index in _chosen(column, band):
            found[row] = get(raster.bands[index])
        return pa.array(found)

    return formula


def _pixel_type(band: Band) -> str:
    return _PIXEL_TYPES[band.pixel_type]


def _no_data(band: Band) -> float | None:
    value = band.no_data_value
    return None if value is None else float(value)


def _value(column: Array, point: Array, band: Array | None = None) -> Array:
    headers, geometries = _headers(column), Geometries(point)
    at = Geometries(_in_system_of(headers, geometries))
    x, y = _places(at)
    columns, rows, inside = _cells(headers, x, y)
    found = np.full(len(column), np.nan)
    there = np.zeros(len(column), np.bool_)
    for row, raster, index in _chosen(column, band):
        if not inside[row]:
            continue
        pixel = pixels(raster, index)[rows[row], columns[row]]
        blank = raster.bands[index].no_data_value
        if pixel != blank and not (blank != blank and pixel != pixel):
            found[row], there[row] = pixel, True
    return masked(found, there)


def _places(at: Geometries) -> tuple[Floats, Floats]:
    import shapely

    if at.points is not None:
        return at.points
    if (shapely.get_type_id(at.shapes) > 0).any():
        raise InvalidArgumentError("it takes a raster and a point")
    return shapely.get_x(at.shapes), shapely.get_y(at.shapes)


def _cells(headers: RasterHeaders, x: Floats, y: Floats) -> tuple[Ints, Ints, Bools]:
    """Return the column and row of the cell that holds each place, and whether there is one."""
    scale_x, scale_y, skew_x, skew_y, left, top = headers.georeference.T
    determinant = scale_x * scale_y - skew_x * skew_y
    right, up = x - left, y - top
    column = np.floor((scale_y * right - skew_x * up) / determinant + 0.5)
    row = np.floor((scale_x * up - skew_y * right) / determinant + 0.5)
    inside = headers.there & (column >= 0) & (column < headers.width)
    inside &= (row >= 0) & (row < headers.height)
    columns, rows = (np.where(inside, each, 0).astype(np.int64) for each in (column, row))
    return columns, rows, inside


_WHOLE: Final = (
    ("RS_Width", "How many columns.", _whole_number("width")),
    ("RS_Height", "How many rows.", _whole_number("height")),
    ("RS_NumBands", "How many bands.", _whole_number("bands")),
    ("RS_SRID", "The EPSG code of its system, 0 if it has none.", _srid),
)
_NUMBERS: Final = (
    ("RS_ScaleX", "The width of a cell.", _number(0)),
    ("RS_ScaleY", "The height of a cell, negative where rows go south.", _number(1)),
    ("RS_SkewX", "How far a row further down shifts x.", _number(2)),
    ("RS_SkewY", "How far a column further right shifts y.", _number(3)),
    ("RS_UpperLeftX", "x of the corner of the first cell.", _corner_axis(0)),
    ("RS_UpperLeftY", "y of the corner of the first cell.", _corner_axis(1)),
)
_RELATIONS: Final = (
    ("RS_Intersects", "Whether the area of the cells and a geometry share a point.", "intersects"),
    ("RS_Contains", "Whether the area of the cells contains a geometry.", "contains"),
    ("RS_Within", "Whether the area of the cells lies within a geometry.", "within"),
)
FUNCTIONS: Final = (
    *(SqlFunction(name, "raster", Result.WHOLE_NUMBER, text, k) for name, text, k in _WHOLE),
    *(SqlFunction(name, "raster", Result.NUMBER, text, k) for name, text, k in _NUMBERS),
    SqlFunction(
        "RS_Metadata",
        "raster",
        Result.METADATA,
        "Size, place and system in a struct; the corner is that of the first cell.",
        _metadata,
    ),
    SqlFunction(
        "RS_Envelope", "raster", Result.GEOMETRY, "The rectangle around all cells.", _envelope
    ),
    SqlFunction("RS_ConvexHull", "raster", Result.GEOMETRY, "The area of all cells.", _hull),
    SqlFunction(
        "RS_BandPixelType",
        "raster [, band]",
        Result.TEXT,
        "What the cells of a band hold, such as `SIGNED_16BITS`; band 1 unless told.",
        _of_band(_pixel_type),
    ),
    SqlFunction(
        "RS_BandNoDataValue",
        "raster [, band]",
        Result.NUMBER,
        "The pixel that stands for no value; null if there is none.",
        _of_band(_no_data),
    ),
    SqlFunction(
        "RS_Value",
        "raster, point [, band]",
        Result.NUMBER,
        "The pixel at a point; null outside and where there is no value.",
        _value,
    ),
    *(
        SqlFunction(name, "raster, geometry", Result.TRUTH, text, _relation(verb))
        for name, text, verb in _RELATIONS
    ),
)
"""The functions of rasters."""
