import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from havasu_vc.errors import GeometryError, InvalidArgumentError
from havasu_vc.geo.raster_v1 import (
    Band,
    GeoReference,
    PixelType,
    Raster,
    format_rasters,
    parse_rasters,
)
from havasu_vc.geo.raster_v1_pixels import (
    band_of_pixels,
    no_data_bytes,
    pixels,
    raster_of_pixels,
)

PLACE = GeoReference.of_affine((10, 0, 100, 0, -10, 50))


@pytest.mark.parametrize(
    ("kind", "values", "data"),
    [
        pytest.param("i1", [-1, 1], "ff01", id="HAV-113"),
        pytest.param("u1", [0, 1], "0001", id="HAV-114"),
        pytest.param("i2", [-1, 1], "ffff0100", id="HAV-115"),
        pytest.param("u2", [0, 1], "00000100", id="HAV-116"),
        pytest.param("i4", [-1, 1], "ffffffff01000000", id="HAV-117"),
        pytest.param("u4", [0, 1], "0000000001000000", id="HAV-118"),
        pytest.param("f4", [-1, 1], "000080bf0000803f", id="HAV-119"),
        pytest.param("f8", [-1, 1], "000000000000f0bf000000000000f03f", id="HAV-120"),
        pytest.param("f4", [math.nan], "0000c07f", id="HAV-122"),
    ],
)
@pytest.mark.parametrize("order", "<>")
@pytest.mark.rule(
    "HAV-113",
    "HAV-114",
    "HAV-115",
    "HAV-116",
    "HAV-117",
    "HAV-118",
    "HAV-119",
    "HAV-120",
    "HAV-122",
)
def test_pixels_are_little_endian(kind: str, values: list[float], data: str, order: str) -> None:
    band = band_of_pixels(np.array([values], order + kind))

    assert bytes(band.data or b"").hex() == data
    raster = Raster(len(values), 1, PLACE, (band,))
    assert np.array_equal(pixels(raster, 0), [values], equal_nan=True)


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (PixelType.INT16, -9999, "f1d8"),
        (PixelType.FLOAT32, -9999, "003c1cc6"),
        (PixelType.FLOAT64, -9999, "000000008087c3c0"),
        (PixelType.FLOAT64, math.nan, "000000000000f87f"),
    ],
)
@pytest.mark.rule("HAV-124")
def test_hav_124_no_data(kind: PixelType, value: float, data: str) -> None:
    assert no_data_bytes(value, kind).hex() == data


@pytest.mark.parametrize("value", [0.5, -1, 256, math.nan, 1e300])
def test_no_data_that_is_no_pixel(value: float) -> None:
    with pytest.raises(ValueError, match="no pixel of PT_8BUI"):
        no_data_bytes(value, PixelType.UINT8)


@pytest.mark.rule("HAV-32", "HAV-127")
def test_hav_127_rows_come_first() -> None:
    array = np.array([[1, 2, 3], [4, 5, -1]], np.int16)
    raster = raster_of_pixels([array], PLACE, no_data=[-1])

    assert (raster.width, raster.height) == (3, 2)
    assert bytes(raster.bands[0].data or b"").hex() == "01000200030004000500ffff"
    transposed = raster_of_pixels([array.T], PLACE)
    assert (transposed.width, transposed.height) == (2, 3)
    assert np.array_equal(pixels(transposed, 0), array.T)


kinds = st.sampled_from([kind.dtype for kind in PixelType])


@given(arrays.arrays(kinds, arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5)))
def test_pixels_come_back_through_a_column(array: "np.ndarray[Any, Any]") -> None:
    (raster,) = parse_rasters(format_rasters([raster_of_pixels([array, array], PLACE)]))
    assert raster is not None

    for band in range(2):
        found = pixels(raster, band)
        assert found.dtype == array.dtype
        assert found.tobytes() == array.tobytes()
        assert found.shape == array.shape
        assert not found.flags.writeable


def test_arrays_that_make_no_raster() -> None:
    with pytest.raises(ValueError, match="one size"):
        raster_of_pixels([np.zeros((1, 2), "u1"), np.zeros((2, 1), "u1")], PLACE)
    with pytest.raises(ValueError, match="at least one"):
        raster_of_pixels([], PLACE)
    with pytest.raises(ValueError, match="3 dimensions"):
        band_of_pixels(np.zeros((1, 1, 1), "u1"))


def test_bands_that_are_not_there() -> None:
    raster = raster_of_pixels([np.zeros((1, 2), "u1")], PLACE)
    for band in (-1, 1):
        with pytest.raises(GeometryError, match="1 bands and no band"):
            pixels(raster, band)


# --- Bands in files of their own.

rng = np.random.default_rng(5)
CELLS = rng.integers(0, 1000, (3, 20, 30)).astype(np.int16)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    import rasterio

    path = tmp_path_factory.mktemp("files") / "a.tif"
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=30,
        height=20,
        count=3,
        dtype="int16",
        crs="EPSG:32660",
        transform=rasterio.Affine(10, 0, 100, 0, -10, 50),
    ) as out:
        out.write(CELLS)
    return str(path)


def wkt(code: int) -> str:
    import pyproj

    return pyproj.CRS(code).to_wkt()


def out_db(file: str, **changes: Any) -> Raster:
    """Return a raster of the cells from column 5, row 4, in the second band of a file."""
    given: dict[str, Any] = {
        "size": (7, 6),
        "kind": PixelType.INT16,
        "band": 1,
        "crs": wkt(32660),
        "affine": (10, 0, 150, 0, -10, 10),
    } | changes
    band = Band(given["kind"], None, None, given["band"], file)
    width, height = given["size"]
    place = GeoReference.of_affine(given["affine"])
    return Raster(width, height, place, (band,), given["crs"])


def anything(url: str) -> str:
    return url


@pytest.mark.rule("HAV-43", "HAV-128")
def test_hav_43_bands_count_from_0(file: str) -> None:
    found = pixels(out_db(file), 0, anything)

    assert np.array_equal(found, CELLS[1, 4:10, 5:12])


def test_other_words_for_one_crs(file: str) -> None:
    import pyproj

    crs = pyproj.CRS(32660)
    for text in (crs.to_wkt("WKT1_GDAL"), crs.to_wkt("WKT2_2019", pretty=True)):
        assert pixels(out_db(file, crs=text), 0, anything).shape == (6, 7)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"band": 5}, "band 6 of a file that has 3", id="HAV-44"),
        pytest.param({"kind": PixelType.UINT16}, "pixels of int16, not uint16", id="HAV-45"),
        pytest.param({"crs": None}, "the raster has no CRS", id="HAV-46-none"),
        pytest.param({"affine": (10.1, 0, 150, 0, -10, 10)}, "another size", id="HAV-47"),
        pytest.param({"affine": (10, 1, 150, 0, -10, 10)}, "another size", id="HAV-47-skew"),
        pytest.param({"affine": (10, 0, 153, 0, -10, 10)}, "between", id="AMB-6-between"),
        pytest.param({"affine": (10, 0, 90, 0, -10, 10)}, "beyond", id="AMB-6-left"),
        pytest.param({"size": (26, 6)}, "beyond", id="AMB-6-right"),
        pytest.param({"size": (7, 17)}, "beyond", id="AMB-6-below"),
        pytest.param({"size": (10**6, 10**6)}, "more than is read in one piece", id="hostile"),
    ],
)
def test_files_that_are_not_what_the_raster_says(
    file: str, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(GeometryError, match=reason):
        pixels(out_db(file, **changes), 0, anything)


def test_another_crs(file: str) -> None:
    with pytest.raises(GeometryError, match=r"has the CRS .* 60N, the raster .* 59N"):
        pixels(out_db(file, crs=wkt(32659)), 0, anything)


def test_files_that_cannot_be_read(file: str, tmp_path: Path) -> None:
    (tmp_path / "text.tif").write_text("no raster")
    for name in ("text.tif", "missing.tif"):
        with pytest.raises(GeometryError, match="cannot be read") as caught:
            pixels(out_db(str(tmp_path / name)), 0, anything)
        assert "\n" not in str(caught.value)


@pytest.mark.rule("HAV-41")
def test_what_may_be_opened_the_caller_decides(file: str) -> None:
    def refuse(url: str) -> str:
        raise InvalidArgumentError(f"{url} is not allowed")

    with pytest.raises(InvalidArgumentError, match="not allowed"):
        pixels(out_db(file), 0, refuse)
    with pytest.raises(GeometryError, match="in another file"):
        pixels(out_db(file), 0)
    assert pixels(out_db("havasu:1"), 0, lambda url: file).shape == (6, 7)
