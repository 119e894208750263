import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.geo.raster_v1 import Band, GeoReference, PixelType, Raster, lenient_no_data

FLAT = GeoReference(1, -1, 0, 0, 0, 0)


@pytest.mark.rule("HAV-34")
def test_hav_34_cells_are_anchored_at_their_centres() -> None:
    assert GeoReference.of_affine((10, 0, 100, 0, -10, 50)).numbers == (10, -10, 0, 0, 105, 45)


@pytest.mark.rule("HAV-35")
def test_hav_35_with_skew() -> None:
    assert GeoReference.of_affine((10, 2, 100, 1, -10, 50)).numbers == (10, -10, 2, 1, 106, 45.5)


cells = st.floats(1e-3, 1e4).flatmap(lambda size: st.sampled_from([size, -size]))
corners = st.floats(-1e7, 1e7)


@given(cells, cells, corners, corners)
@pytest.mark.rule("HAV-36")
def test_hav_36_the_corner_comes_back(a: float, e: float, c: float, f: float) -> None:
    found = GeoReference.of_affine((a, 0, c, 0, e, f)).affine

    assert (found[0], found[4], found[1], found[3]) == (a, e, 0, 0)
    # A corner much smaller than half a cell has lost its last digits to the centre.
    assert abs(found[2] - c) <= math.ulp(max(abs(c), abs(a)))
    assert abs(found[5] - f) <= math.ulp(max(abs(f), abs(e)))


@given(cells, corners)
@pytest.mark.rule("HAV-36")
def test_hav_36_bit_for_bit_where_the_numbers_are_even(size: float, corner: float) -> None:
    a, c = round(size * 4) / 4 or 0.25, round(corner * 8) / 8

    assert GeoReference.of_affine((a, 0, c, 0, -a, c)).affine == (a, 0, c, 0, -a, c)


@pytest.mark.rule("HAV-30")
def test_hav_30_zero_keeps_its_sign() -> None:
    assert math.copysign(1, GeoReference(1, 1, -0.0, 0, 0, 0).skew_x) == -1


@given(cells, st.floats(-0.9, 0.9), corners, st.integers(0, 5000), st.integers(0, 5000))
def test_a_place_is_in_the_cell_that_it_came_from(
    size: float, skew: float, corner: float, column: int, row: int
) -> None:
    reference = GeoReference(size, -size, skew * size, skew * size, corner, corner)

    assert reference.cell(*reference.world(column + 0.25, row - 0.25)) == (column, row)


def test_places_that_no_cell_has() -> None:
    assert GeoReference(0, 0, 0, 0, 0, 0).cell(1, 1) is None
    assert FLAT.cell(math.nan, 1) is None
    assert FLAT.cell(math.inf, 1) is None
    assert FLAT.cell(0.49, -0.51) == (0, 1)


@pytest.mark.parametrize("position", range(6))
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_georeference_is_finite(position: int, value: float) -> None:
    numbers = [1.0] * 6
    numbers[position] = value
    with pytest.raises(ValueError, match="georeference is not finite"):
        GeoReference(*numbers)


@pytest.mark.parametrize(
    ("kind", "number", "label", "size"),
    [
        pytest.param(PixelType.INT8, 3, "PT_8BSI", 1, id="HAV-113"),
        pytest.param(PixelType.UINT8, 4, "PT_8BUI", 1, id="HAV-114"),
        pytest.param(PixelType.INT16, 5, "PT_16BSI", 2, id="HAV-115"),
        pytest.param(PixelType.UINT16, 6, "PT_16BUI", 2, id="HAV-116"),
        pytest.param(PixelType.INT32, 7, "PT_32BSI", 4, id="HAV-117"),
        pytest.param(PixelType.UINT32, 8, "PT_32BUI", 4, id="HAV-118"),
        pytest.param(PixelType.FLOAT32, 10, "PT_32BF", 4, id="HAV-119"),
        pytest.param(PixelType.FLOAT64, 11, "PT_64BF", 8, id="HAV-120"),
    ],
)
@pytest.mark.rule(
    "HAV-113", "HAV-114", "HAV-115", "HAV-116", "HAV-117", "HAV-118", "HAV-119", "HAV-120"
)
def test_pixel_types(kind: PixelType, number: int, label: str, size: int) -> None:
    assert PixelType.of(number) is kind
    assert (kind.label, kind.size) == (label, size)
    assert PixelType.of_dtype(kind.dtype.newbyteorder(">")) is kind


@pytest.mark.parametrize("number", [-1, 0, 1, 2, 9, 12, 2**31 - 1])
@pytest.mark.rule("HAV-121")
def test_hav_121_other_pixel_types(number: int) -> None:
    with pytest.raises(ValueError, match=f"pixel type {number} "):
        PixelType.of(number)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float16", "complex64", "bool", "U1"])
@pytest.mark.rule("HAV-121")
def test_hav_121_other_numpy_types(dtype: str) -> None:
    with pytest.raises(ValueError, match="not among those"):
        PixelType.of_dtype(np.dtype(dtype))


@pytest.mark.parametrize(
    ("kind", "no_data", "value"),
    [
        (PixelType.INT16, "f1d8", -9999),
        (PixelType.FLOAT32, "003c1cc6", -9999.0),
        (PixelType.FLOAT64, "000000008087c3c0", -9999.0),
        (PixelType.UINT8, "ff", 255),
    ],
)
@pytest.mark.rule("HAV-124")
def test_hav_124_no_data_is_one_pixel(kind: PixelType, no_data: str, value: float) -> None:
    assert Band(kind, bytes.fromhex(no_data), b"").no_data_value == value
    assert Band(kind, None, b"").no_data_value is None
    with pytest.raises(ValueError, match="no-data value has"):
        Band(kind, bytes.fromhex(no_data) + b"\0", b"")


@pytest.mark.rule("HAV-124")
def test_hav_124_no_data_as_a_double_is_read_where_it_fits() -> None:
    assert lenient_no_data(struct.pack("<d", -9999), PixelType.INT16).hex() == "f1d8"
    assert lenient_no_data(b"\1\2", PixelType.INT16) == b"\1\2"
    assert math.isnan(
        struct.unpack("<f", lenient_no_data(struct.pack("<d", math.nan), PixelType.FLOAT32))[0]
    )
    for number in (0.5, 70_000.0, math.nan, -1e300):
        with pytest.raises(ValueError, match="no pixel of"):
            lenient_no_data(struct.pack("<d", number), PixelType.UINT16)


@pytest.mark.rule("HAV-125")
def test_hav_125_data_makes_a_band_in_db_whatever_else_is_said() -> None:
    assert Band(PixelType.UINT8, None, b"", 0, "file:/a.tif").in_db
    assert not Band(PixelType.UINT8, None, None, 0, "file:/a.tif").in_db


@pytest.mark.parametrize(("number", "url"), [(None, None), (0, None), (None, "a.tif"), (-1, "a")])
@pytest.mark.rule("HAV-126")
def test_hav_126_an_out_db_band_names_its_file(number: int | None, url: str | None) -> None:
    with pytest.raises(ValueError, match="band"):
        Band(PixelType.UINT8, None, None, number, url)


@pytest.mark.rule("HAV-127")
def test_hav_127_pixels_are_as_many_as_cells() -> None:
    band = Band(PixelType.INT16, None, bytes.fromhex("01000200030004000500ffff"))

    assert Raster(3, 2, FLAT, (band,)).width == 3
    for width, height in ((2, 2), (3, 3), (0, 0), (2**31 - 1, 2**31 - 1)):
        with pytest.raises(ValueError, match="12 bytes, but"):
            Raster(width, height, FLAT, (band,))
    with pytest.raises(ValueError, match="columns"):
        Raster(-1, 2, FLAT)
    with pytest.raises(ValueError, match="columns"):
        Raster(2**31, 2, FLAT)


@pytest.mark.rule("HAV-129")
def test_hav_129_no_pixels_are_pixels() -> None:
    assert Raster(0, 5, FLAT, (Band(PixelType.UINT8, None, b""),)).bands[0].in_db
    assert Raster(0, 0, FLAT).bands == ()  # HAV-110: no bands at all


@pytest.mark.rule("HAV-66")
def test_hav_66_the_corners_are_those_of_the_cells() -> None:
    raster = Raster(3, 2, GeoReference(10, -10, 0, 0, 105, 45))

    assert raster.corners == ((100, 50), (130, 50), (130, 30), (100, 30))
