import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyproj
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError, InvalidArgumentError
from havasu_vc.geo.raster_v1 import Band, GeoReference, PixelType, Raster, format_rasters
from havasu_vc.geo.raster_v1_pixels import raster_of_pixels
from tests.geo.functions.columns import call, text

UTM = pyproj.CRS(32660).to_wkt()
PLACE = GeoReference.of_affine((10, 0, 500_000, 0, -10, 6_000_000))
FIRST = np.array([[1, 2, 3], [4, 5, -1]], np.int16)
RASTER = raster_of_pixels([FIRST, FIRST * 10], PLACE, crs_wkt=UTM, no_data=[-1, None])
ROWS = format_rasters([RASTER, None])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("RS_Width", 3),
        ("RS_Height", 2),
        ("RS_NumBands", 2),
        ("RS_SRID", 32660),
        ("RS_ScaleX", 10),
        ("RS_ScaleY", -10),
        ("RS_SkewX", 0),
        ("RS_SkewY", 0),
        ("RS_UpperLeftX", 500_000),
        ("RS_UpperLeftY", 6_000_000),
        ("RS_BandPixelType", "SIGNED_16BITS"),
        ("RS_BandNoDataValue", -1),
    ],
)
def test_what_a_raster_is(name: str, expected: Any) -> None:
    assert call(name, ROWS) == [expected, None]


def test_metadata_is_a_struct() -> None:
    (found, none) = call("RS_Metadata", ROWS)

    assert none is None
    assert found == {
        "upper_left_x": 500_000,
        "upper_left_y": 6_000_000,
        "width": 3,
        "height": 2,
        "scale_x": 10,
        "scale_y": -10,
        "skew_x": 0,
        "skew_y": 0,
        "srid": 32660,
        "num_bands": 2,
    }


def test_bands_count_from_1() -> None:
    assert call("RS_BandNoDataValue", ROWS, [2, 1]) == [None, None]
    assert call("RS_BandPixelType", ROWS, [2, 1]) == ["SIGNED_16BITS", None]
    for band in (0, 3):
        with pytest.raises(InvalidArgumentError, match=f"2 bands and no band {band}"):
            call("RS_BandPixelType", ROWS, [band, band])


def test_every_pixel_type_has_a_name() -> None:
    rasters = [raster_of_pixels([np.zeros((1, 1), kind.dtype)], PLACE) for kind in PixelType]

    names = call("RS_BandPixelType", format_rasters(rasters))

    assert len(set(names)) == len(PixelType)
    for name, kind in zip(names, PixelType, strict=True):
        assert f"_{8 * kind.size}BITS" in name


def test_areas() -> None:
    skewed = Raster(3, 2, GeoReference.of_affine((10, 2, 100, 1, -10, 50)), (), None)
    rows = format_rasters([RASTER, skewed, Raster(0, 0, PLACE), None])
    found: list[list[Any]] = [
        [None if one is None else shapely.from_wkb(one) for one in call(name, rows)]
        for name in ("RS_ConvexHull", "RS_Envelope")
    ]
    hulls, boxes = found

    assert hulls[0].equals(shapely.box(500_000, 5_999_980, 500_030, 6_000_000))
    assert [shapely.get_srid(one) for one in hulls[:3]] == [32660, 0, 0]
    assert hulls[1].equals(shapely.Polygon([(100, 50), (130, 53), (134, 33), (104, 30)]))
    assert boxes[1].equals(hulls[1].envelope)
    assert hulls[2].is_empty
    assert hulls[3] is boxes[3] is None


def places(*points: tuple[float, float], srid: int = 0) -> "pa.Array[Any]":
    shapes = [shapely.set_srid(shapely.Point(*each), srid) for each in points]
    return pa.array([shapely.to_wkb(one, include_srid=srid != 0) for one in shapes])


def test_values() -> None:
    x, y = 500_000, 6_000_000
    at = places((x + 5, y - 5), (x + 29, y - 1), (x + 25, y - 15), (x - 1, y - 5), (x + 5, y + 1))
    rasters = format_rasters([RASTER] * 5)

    assert call("RS_Value", rasters, at) == [1, 3, None, None, None]
    assert call("RS_Value", rasters, at, [2] * 5) == [10, 30, -10, None, None]
    assert call("RS_Value", ROWS, text([shapely.Point(x + 5, y - 5), None])) == [1, None]
    with pytest.raises(InvalidArgumentError, match="a raster and a point"):
        call("RS_Value", ROWS, text([shapely.box(0, 0, 1, 1)] * 2))


def test_geometries_with_an_srid_are_brought_to_the_raster() -> None:
    to_degrees = pyproj.Transformer.from_crs(32660, 4326, always_xy=True).transform
    inside, outside = to_degrees(500_015, 5_999_985), to_degrees(500_100, 5_999_985)
    rasters = format_rasters([RASTER, RASTER])
    at = places(inside, outside, srid=4326)

    assert call("RS_Value", rasters, at) == [5, None]
    assert call("RS_Intersects", rasters, at) == [True, False]
    with pytest.raises(InvalidArgumentError, match="not a coordinate reference system"):
        call("RS_Intersects", rasters, places(inside, outside, srid=999_999))


def test_relations() -> None:
    x, y = 500_000, 6_000_000
    windows = text([shapely.box(x, y - 5, x + 5, y), shapely.box(x - 9, y - 99, x + 99, y + 9)])
    rasters = format_rasters([RASTER, RASTER])

    assert call("RS_Intersects", rasters, windows) == [True, True]
    assert call("RS_Contains", rasters, windows) == [True, False]
    assert call("RS_Within", rasters, windows) == [False, True]
    assert call("RS_Intersects", ROWS, windows) == [True, None]


def test_no_data_that_is_not_a_number() -> None:
    pixels = np.array([[math.nan, 1]], np.float32)
    raster = raster_of_pixels([pixels], PLACE, no_data=[math.nan])
    rasters = format_rasters([raster, raster])

    assert call("RS_Value", rasters, places((500_005, 5_999_995), (500_015, 5_999_995))) == [
        None,
        1,
    ]


def test_pixels_in_other_files_are_not_read() -> None:
    band = Band(PixelType.INT16, None, None, 0, "file:/etc/passwd")
    rasters = format_rasters([Raster(3, 2, PLACE, (band,), UTM)])

    with pytest.raises(GeometryError, match=r"^RS_Value: the pixels of band 1 are in another file"):
        call("RS_Value", rasters, places((500_005, 5_999_995)))
    assert call("RS_Width", rasters) == [3]


@given(st.integers(1, 5), st.integers(1, 5), st.floats(-0.4, 0.4), st.floats(0.5, 50), st.data())
def test_each_cell_is_found_at_its_centre(
    width: int, height: int, skew: float, size: float, data: st.DataObject
) -> None:
    cells = np.arange(width * height, dtype=np.int32).reshape(height, width)
    place = GeoReference(size, -size, skew * size, skew * size, 1000, 2000)
    column, row = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))

    rasters = format_rasters([raster_of_pixels([cells], place)])

    assert call("RS_Value", rasters, places(place.world(column, row))) == [cells[row, column]]
