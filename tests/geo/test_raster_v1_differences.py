"""What differs between two rasters."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.geo.raster_v1 import Band, GeoReference, PixelType, Raster
from havasu_vc.geo.raster_v1_differences import BandDifference, raster_difference
from havasu_vc.geo.raster_v1_pixels import raster_of_pixels

PLACE = GeoReference.of_affine((10, 0, 0, 0, -10, 0))
UTM = 'PROJCRS["a",ID["EPSG",32760]]'


def raster(*arrays: Any, no_data: float | None = None, kind: str = "int16") -> Raster:
    bands = [np.array(array, kind).reshape(2, 3) for array in arrays]
    return raster_of_pixels(bands, PLACE, crs_wkt=UTM, no_data=[no_data] * len(bands))


def only(old: Raster, new: Raster) -> BandDifference:
    (band,) = raster_difference(old, new).bands
    return band


kinds = st.sampled_from([kind.name.lower() for kind in PixelType])


@given(kinds, st.lists(st.integers(0, 100), min_size=6, max_size=6), st.data())
def test_it_counts_what_numpy_counts(kind: str, first: list[int], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.integers(0, 100), min_size=6, max_size=6))
    found = raster_difference(raster(first, kind=kind), raster(second, kind=kind))
    apart = np.abs(np.array(first) - np.array(second))

    if first == second:
        assert found.bands == ()
    else:
        (band,) = found.bands
        assert band.cells == int(np.count_nonzero(apart))
        assert band.largest == apart.max().item()


@given(kinds)
def test_a_raster_does_not_differ_from_itself(kind: str) -> None:
    one = raster(range(6), kind=kind)
    assert raster_difference(one, one) == raster_difference(one, raster(range(6), kind=kind))
    assert raster_difference(one, one).bands == ()


def test_it_says_which_bands() -> None:
    old, new = raster(range(6), range(6), range(6)), raster(range(6), range(1, 7), range(6))
    assert only(old, new) == BandDifference(2, cells=6, largest=1)
    assert [band.kind for band in raster_difference(old, raster(range(6))).bands] == [
        "removed",
        "removed",
    ]
    assert only(raster(range(6), range(6)), old) == BandDifference(3, "added")


def test_no_data_counts_as_a_cell_but_not_as_a_value() -> None:
    old = raster([-99, 1, 2, 3, 4, 5], no_data=-99)
    new = raster([7, 1, 2, 3, 4, -99], no_data=-99)
    assert only(old, new) == BandDifference(1, cells=2)
    assert only(old, raster([8, 1, 2, 3, 4, 9], no_data=-99)).largest == 4
    assert only(old, raster([-99, 1, 2, 3, 4, 5], no_data=0)).no_data == (-99, 0)


def test_numbers_that_are_none() -> None:
    nan, inf = float("nan"), float("inf")
    old = raster([nan, nan, 1, 2, inf, 0.0], kind="float32")
    assert raster_difference(old, raster([nan, nan, 1, 2, inf, -0.0], kind="float32")).bands == ()
    assert only(old, raster([nan, 5, 1, 2.5, 6, 0], kind="float32")) == BandDifference(
        1, cells=3, largest=0.5
    )


def test_differences_do_not_overflow() -> None:
    ends = {"int8": (-128, 127), "uint32": (0, 2**32 - 1), "int32": (-(2**31), 2**31 - 1)}
    for kind, (least, most) in ends.items():
        found = only(raster([least] * 6, kind=kind), raster([most] * 6, kind=kind))
        assert found.largest == most - least


def test_another_grid_place_or_system() -> None:
    old = raster(range(6))
    wide = replace(old, width=6, height=1)
    assert raster_difference(old, wide).sizes == ((3, 2), (6, 1))
    assert not raster_difference(old, wide).bands
    moved = raster_difference(old, replace(old, georeference=replace(PLACE, upperleft_x=15.0)))
    assert moved.affines is not None
    assert [affine[2] for affine in moved.affines] == [0, 10]
    assert raster_difference(old, replace(old, crs_wkt=None)).crs == (UTM, None)


@pytest.mark.rule("HAV-39", "HAV-40")
def test_pixels_elsewhere_are_told_by_their_file() -> None:
    def outside(url: str, number: int = 0) -> Raster:
        band = Band(PixelType.INT16, out_db_band=number, out_db_url=url)
        return Raster(3, 2, PLACE, (band,), UTM)

    inside = raster(range(6))
    assert only(inside, outside("file:///a.tif")).files == (None, "file:///a.tif")
    assert only(outside("file:///a.tif"), outside("file:///b.tif")).cells is None
    assert only(outside("file:///a.tif"), outside("file:///a.tif", 1)).file_bands == (0, 1)
    assert raster_difference(outside("file:///a.tif"), outside("file:///a.tif")).bands == ()


def test_another_type_compares_the_numbers() -> None:
    old, new = raster(range(6)), raster([0, 1, 2, 3, 4, 9.5], kind="float64")
    assert only(old, new) == BandDifference(
        1, cells=1, largest=4.5, pixel_types=(PixelType.INT16, PixelType.FLOAT64)
    )
