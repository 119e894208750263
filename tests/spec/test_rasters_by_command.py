"""Havasu's rules of rasters: images of rasterio in tables that pyarrow and fastavro read."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import rasterio

from tests.cli.conftest import invoke
from tests.spec.commands import Commands
from tests.spec.test_checkouts_by_command import bounds, checked_out, entries, local
from tests.support.rasters import write_image


def imported(hv: Commands, file: Path, *arguments: str | Path) -> tuple[dict[str, Any], Any]:
    """Import an image and return its raster as the checked-out file has it, and the bounds."""
    hv("import", file, "t", *arguments)
    (entry,) = entries(checked_out(hv))
    path = local(entry["data_file"]["file_path"])
    (row,) = pq.read_table(path).to_pylist()
    (raster,) = (
        each for each in row.values() if isinstance(each, dict) and "geo_reference" in each
    )
    found = bounds(entry["data_file"])
    sides = [
        tuple(struct.unpack("<dd", value[5:]))
        for name in ("geom_lower_bounds", "geom_upper_bounds")
        for value in found[name].values()
    ]
    return raster, sides


def image(tmp_path: Path, array: Any, **options: Any) -> Path:
    return write_image(tmp_path / "image.tif", np.asarray(array), **options)


PIXELS = [
    ("HAV-113", "int8", [-1, 1], 3, "ff01"),
    ("HAV-114", "uint8", [0, 1], 4, "0001"),
    ("HAV-115", "int16", [-1, 1], 5, "ffff0100"),
    ("HAV-116", "uint16", [0, 1], 6, "00000100"),
    ("HAV-117", "int32", [-1, 1], 7, "ffffffff01000000"),
    ("HAV-118", "uint32", [0, 1], 8, "0000000001000000"),
    ("HAV-119", "float32", [-1, 1], 10, "000080bf0000803f"),
    ("HAV-120", "float64", [-1, 1], 11, "000000000000f0bf000000000000f03f"),
]


@pytest.mark.parametrize(("dtype", "values", "number", "data"), [each[1:] for each in PIXELS])
@pytest.mark.rule("HAV-27", "HAV-28", "HAV-37", "HAV-42", "HAV-113", "HAV-114", "HAV-115")
@pytest.mark.rule("HAV-116", "HAV-117", "HAV-118", "HAV-119", "HAV-120", "HAV-122", "HAV-123")
@pytest.mark.rule("HAV-125")
@pytest.mark.few(2)
def test_pixels_of_each_type(
    hv: Commands, tmp_path: Path, dtype: str, values: list[int], number: int, data: str
) -> None:
    array = np.array([[values]], dtype)
    raster, _ = imported(hv, image(tmp_path, array))
    assert (raster["width"], raster["height"], raster["num_bands"]) == (2, 1, 1)
    band = raster["band_1"]
    assert (band["pixel_type"], band["data"].hex(), band["no_data"]) == (number, data, None)
    assert band["out_db_band_no"] is band["out_db_url"] is None

    hv("export", "t", "--to", "geotiff", tmp_path / "out")
    (back,) = (tmp_path / "out").rglob("*.tif")
    with rasterio.open(back) as read:
        assert read.dtypes == (dtype,) and (read.read() == array).all()


@pytest.mark.parametrize(
    ("dtype", "value", "data"),
    [
        ("int16", -9999, "f1d8"),
        ("float32", -9999, "003c1cc6"),
        ("float64", -9999, "000000008087c3c0"),
        ("float64", float("nan"), "000000000000f87f"),
    ],
)
@pytest.mark.rule("HAV-124")
@pytest.mark.few(1)
def test_no_data_is_a_pixel(
    hv: Commands, tmp_path: Path, dtype: str, value: float, data: str
) -> None:
    raster, _ = imported(hv, image(tmp_path, np.zeros((1, 2, 2), dtype), nodata=value))
    assert raster["band_1"]["no_data"].hex() == data


@pytest.mark.parametrize(
    ("affine", "stored"),
    [
        ((10, 0, 100, 0, -10, 50), (10, -10, 0, 0, 105, 45)),
        ((10, 2, 100, 1, -10, 50), (10, -10, 2, 1, 106, 45.5)),
        ((0.1, 0, -0.3, 0, -0.7, 1e6), None),
    ],
)
@pytest.mark.rule("HAV-29", "HAV-30", "HAV-32", "HAV-34", "HAV-35", "HAV-36", "HAV-127")
@pytest.mark.few(1)
def test_where_cells_are(
    hv: Commands, tmp_path: Path, affine: tuple[float, ...], stored: tuple[float, ...] | None
) -> None:
    array = np.array([[[1, 2, 3], [4, 5, -1]]], "int16")
    file = image(tmp_path, array, transform=rasterio.Affine(*affine), crs="EPSG:32660")
    raster, _ = imported(hv, file)
    names = ("scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y")
    assert tuple(raster["geo_reference"]) == names
    assert stored is None or tuple(raster["geo_reference"].values()) == stored
    assert (raster["width"], raster["height"]) == (3, 2)
    assert raster["band_1"]["data"].hex() == "01000200030004000500ffff"
    assert rasterio.crs.CRS.from_wkt(raster["crs_wkt"]).to_epsg() == 32660

    hv("export", "t", "--to", "geotiff", tmp_path / "out")
    (back,) = (tmp_path / "out").rglob("*.tif")
    with rasterio.open(back) as read:
        assert read.transform[:6] == affine and read.crs.to_epsg() == 32660


@pytest.mark.parametrize("count", [1, 2, 4, 6])
@pytest.mark.rule("HAV-107", "HAV-108", "HAV-109", "HAV-110")
@pytest.mark.few(2)
def test_where_bands_stand(hv: Commands, tmp_path: Path, count: int) -> None:
    array = np.arange(count * 4, dtype="uint8").reshape(count, 2, 2)
    raster, _ = imported(hv, image(tmp_path, array))
    assert raster["num_bands"] == count
    four = [raster[f"band_{number}"] for number in range(1, 5)]
    assert [each is not None for each in four] == [number < count for number in range(4)]
    more = raster["bands"] or []
    assert [each["data"] for each in (*filter(None, four), *more)] == [
        array[band].tobytes() for band in range(count)
    ]
    assert (raster["bands"] is None) == (count <= 4)


@pytest.mark.parametrize(
    ("crs", "size", "affine", "box"),
    [
        pytest.param(
            "EPSG:4326", (3, 2), (10, 0, 100, 0, -10, 50), (100, 30, 130, 50),
            marks=pytest.mark.rule("HAV-66", "HAV-70d"),
        ),
        pytest.param(
            "EPSG:3857", (2, 2), (1000, 0, 0, 0, -1000, 0), (0, -0.017966, 0.017966, 0),
            marks=pytest.mark.rule("HAV-65"),
        ),
        pytest.param(
            "EPSG:3413", (200, 200), (10_000, 0, -1e6, 0, -10_000, 1e6),
            (-180, 76.998816, 180, 90), marks=pytest.mark.rule("HAV-68"),
        ),
        pytest.param(
            "EPSG:3031", (200, 200), (10_000, 0, -1e6, 0, -10_000, 1e6),
            (-180, -90, 180, -77.037401), marks=pytest.mark.rule("HAV-68"),
        ),
        pytest.param(
            "EPSG:32660", (20, 20), (10_000, 0, 700_000, 0, -10_000, 200_000),
            (178.797053, 0, -179.405897, 1.80856), marks=pytest.mark.rule("HAV-69"),
        ),
    ],
)  # fmt: skip
@pytest.mark.rule("HAV-49", "HAV-50")
@pytest.mark.few(2)
def test_boxes_of_rasters_are_degrees(
    hv: Commands,
    tmp_path: Path,
    crs: str,
    size: tuple[int, int],
    affine: tuple[float, ...],
    box: tuple[float, ...],
) -> None:
    array = np.zeros((1, size[1], size[0]), "uint8")
    _, sides = imported(hv, image(tmp_path, array, crs=crs, transform=rasterio.Affine(*affine)))
    assert [*sides[0], *sides[1]] == pytest.approx(box, abs=2e-6)


@pytest.mark.rule("HAV-38", "HAV-43", "HAV-48", "HAV-126", "HAV-128")
def test_bands_of_a_file_are_named(hv: Commands, tmp_path: Path) -> None:
    array = np.arange(8, dtype="uint8").reshape(2, 2, 2)
    file = image(tmp_path, array, nodata=7, tiled=True)
    raster, _ = imported(hv, file, "--out-db")
    bands = [raster["band_1"], raster["band_2"]]
    assert [(each["data"], each["out_db_band_no"]) for each in bands] == [(None, 0), (None, 1)]
    assert {each["out_db_url"] for each in bands} == {file.as_uri()}
    assert {(each["pixel_type"], each["no_data"]) for each in bands} == {(4, b"\x07")}
    assert raster["geo_reference"]["scale_x"] == 10


@pytest.mark.rule("HAV-33", "HAV-121")
@pytest.mark.parametrize(
    ("wrong", "words"),
    [("points", "control points"), ("complex", "of complex64"), ("wide", "of int64")],
)
@pytest.mark.few(1)
def test_what_is_no_raster_is_refused(hv: Commands, tmp_path: Path, wrong: str, words: str) -> None:
    file = tmp_path / "image.tif"
    match wrong:
        case "complex":
            image(tmp_path, np.zeros((1, 2, 2), "complex64"))
        case "wide":
            image(tmp_path, np.zeros((1, 2, 2), "int64"))
        case "points":
            corners = [(0, 0, 1.0, 1.0), (0, 2, 3.0, 1.5), (2, 0, 1.2, 5.0)]
            points = [rasterio.control.GroundControlPoint(*each) for each in corners]
            with rasterio.open(
                file, "w", driver="GTiff", width=2, height=2, count=1, dtype="uint8",
                gcps=points, crs="EPSG:4326",
            ) as out:  # fmt: skip
                out.write(np.zeros((1, 2, 2), "uint8"))
    refused = invoke(["-C", hv.path, "import", file, "t"])
    assert refused.exit_code not in (0, 1) and words in refused.output, refused.output
    assert "Traceback" not in refused.output and "internal error" not in refused.output
    assert "there are no datasets" in hv("data", "ls")
