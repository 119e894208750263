"""Pictures of rasters on pages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import rasterio

from havasu_vc.geo.raster_v1 import Band, GeoReference, PixelType, Raster, format_rasters
from havasu_vc.geo.raster_v1_pixels import raster_of_pixels
from havasu_vc.model.rasters import raster_field
from havasu_vc.review.page import Picture
from havasu_vc.review.page.raster_pictures import SIDE, raster_pictures

FIELD = raster_field(2, "rast", 3)
PLACE = GeoReference.of_affine((1, 0, 0, 0, -1, 0))


def raster(*bands: "np.ndarray[Any, Any]", no_data: float | None = None) -> Raster:
    return raster_of_pixels(list(bands), PLACE, no_data=[no_data] * len(bands))


def pictures(old: Raster | None, new: Raster | None, **options: Any) -> dict[str, Picture]:
    columns = [format_rasters([each]) for each in (old, new)]
    found = raster_pictures(**options)(FIELD, *columns)
    return {picture.side: picture for picture in found}


def image(picture: Picture) -> Any:
    with rasterio.MemoryFile(picture.png) as file, file.open() as opened:
        return opened.read()


@pytest.fixture(autouse=True)
def without_a_place() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        yield


def test_colours_are_shown_as_they_are() -> None:
    bands = [np.full((40, 60), value, np.uint8) for value in (200, 100, 50)]
    shown = image(pictures(None, raster(*bands))["after"])
    assert shown.shape == (3, 40, 60)
    assert shown[:, 5, 5].tolist() == [200, 100, 50]


def test_one_band_is_grey_and_no_data_is_transparent() -> None:
    values = np.arange(2400, dtype="float32").reshape(40, 60)
    values[0, 0] = -9999
    shown = image(pictures(raster(values, no_data=-9999), None)["before"])
    assert shown.shape == (4, 40, 60)
    assert shown[3, 0, 0] == 0
    assert shown[3, 1:].min() == 255
    assert shown[0, 1, 0] < shown[0, 20, 0] < shown[0, 39, 0]


def test_both_sides_are_stretched_alike() -> None:
    low, high = (np.full((10, 10), value, "int16") for value in (100, 200))
    found = pictures(raster(low), raster(high))
    assert image(found["before"]).max() == 0
    assert image(found["after"])[0].min() == 255


def test_one_cell_of_a_large_raster_is_seen() -> None:
    old = np.zeros((3000, 2000), "uint16")
    new = old.copy()
    new[1500, 777] = 1
    found = pictures(raster(old), raster(new))
    shown = image(found["difference"])
    assert shown.shape == (4, SIDE, SIDE * 2 // 3)
    assert np.argwhere(shown[3]).tolist() == [[160, 82]]
    assert shown[3].max() >= 200
    assert (
        found["difference"].words == "difference: band 1: 1 of 6,000,000 cells differ, by up to 1"
    )


def test_a_change_in_any_band_is_seen() -> None:
    flat = [np.zeros((20, 20), np.uint8) for _ in range(5)]
    last = [*flat[:4], flat[4] + 1]
    assert image(pictures(raster(*flat), raster(*last))["difference"])[:, 3, 3].tolist() == [
        213,
        94,
        0,
    ]
    grown = np.zeros((20, 21), np.uint8)
    assert set(pictures(raster(flat[0]), raster(grown))) == {"before", "after"}


def test_cells_that_come_and_go_are_seen() -> None:
    old = np.full((10, 10), np.nan, "float32")
    new = old.copy()
    new[3, 4] = 1
    shown = image(pictures(raster(old), raster(new))["difference"])
    assert np.argwhere(shown[3]).tolist() == [[3, 4]]


def test_pictures_of_a_page_are_bounded() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (3, 200, 200), dtype="uint8")
    column = format_rasters([raster(*noise)] * 50)
    found = list(raster_pictures(most_bytes=100_000)(FIELD, None, column))
    size = sum(len(picture.png) for picture in found)
    assert 3 <= len(found) < 10
    assert size < 100_000 + 3 * SIDE * SIDE * 4


def test_files_elsewhere_are_opened_by_leave_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=8, height=8, count=1, dtype="uint8",
        transform=rasterio.Affine(1, 0, 0, 0, -1, 0),
    ) as out:  # fmt: skip
        out.write(np.arange(64, dtype=np.uint8).reshape(1, 8, 8))
    band = Band(PixelType.UINT8, out_db_band=0, out_db_url=path.as_uri())
    outside = Raster(8, 8, PLACE, (band,))
    asked: list[str] = []

    def open_url(url: str) -> str:
        asked.append(url)
        return str(path)

    assert pictures(None, outside) == {}
    assert image(pictures(None, outside, open_url=open_url)["after"]).shape == (3, 8, 8)
    assert asked == [path.as_uri()]


def test_what_cannot_be_read_has_no_picture() -> None:
    column = pa.array([None, None], FIELD_TYPE)
    assert list(raster_pictures()(FIELD, column, column)) == []
    assert pictures(Raster(0, 0, PLACE), None) == {}


FIELD_TYPE = format_rasters([None]).type
