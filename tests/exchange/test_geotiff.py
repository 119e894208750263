from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from havasu_vc.errors import InvalidArgumentError, InvalidFileError
from havasu_vc.exchange.geotiff import TiledRaster, read_image_header, read_tiles, tile_grid
from havasu_vc.exchange.geotiff_writer import CanvasOfTiles, GeoTiffWriter
from havasu_vc.geo.raster_v1 import PixelType, Raster, format_rasters, parse_rasters
from havasu_vc.geo.raster_v1_outlines import Outline
from havasu_vc.geo.raster_v1_pixels import pixels

AFFINE = rasterio.Affine(10, 0, 500_000, 0, -10, 6_000_000)


def make(path: Path, array: "np.ndarray[Any, Any]", **options: Any) -> Path:
    given = {"crs": "EPSG:2193", "transform": AFFINE} | options
    count, height, width = array.shape
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=width,
        height=height,
        count=count,
        dtype=array.dtype,
        **given,
    ) as out:
        out.write(array)
    return path


def cells(kind: str = "int16", bands: int = 2) -> "np.ndarray[Any, Any]":
    return np.arange(bands * 7 * 5).reshape(bands, 7, 5).astype(kind)


def read_geotiff(
    path: Path, *, tile: int | None = None, out_db: str | None = None
) -> list[TiledRaster]:
    header = read_image_header(path)
    grid = tile_grid(header, None if tile is None else (tile, tile))
    return list(read_tiles(header, grid, range(grid.rows), out_db=out_db))


def write_geotiff(raster: Raster, path: Path) -> None:
    found = CanvasOfTiles()
    found.add(Outline.of(raster))
    with GeoTiffWriter(path, found.canvas) as writer:
        writer.write(raster)


@pytest.mark.parametrize("kind", [kind.name.lower() for kind in PixelType])
@pytest.mark.rule("HAV-29", "HAV-36", "HAV-48", "HAV-123")
def test_a_file_comes_back_as_it_was(kind: str, tmp_path: Path) -> None:
    source = make(tmp_path / "a.tif", cells(kind), nodata=1)
    (read,) = read_geotiff(source)
    (raster,) = parse_rasters(format_rasters([read.raster]))
    assert raster is not None

    write_geotiff(raster, tmp_path / "b.tif")

    with rasterio.open(source) as old, rasterio.open(tmp_path / "b.tif") as new:
        assert np.array_equal(old.read(), new.read())
        assert old.transform == new.transform
        assert old.crs == new.crs
        assert old.nodatavals == new.nodatavals
        assert old.dtypes == new.dtypes


def test_tiles_are_parts_of_the_grid(tmp_path: Path) -> None:
    source = make(tmp_path / "a.tif", cells())
    url = source.as_uri()
    inside, outside = (
        read_geotiff(source, tile=3),
        read_geotiff(source, tile=3, out_db=url),
    )

    assert [(one.column, one.row) for one in inside] == [
        (0, 0),
        (3, 0),
        (0, 3),
        (3, 3),
        (0, 6),
        (3, 6),
    ]
    for one, other in zip(inside, outside, strict=True):
        part = cells()[:, one.row : one.row + 3, one.column : one.column + 3]
        for band in range(2):
            assert np.array_equal(pixels(one.raster, band), part[band])
            found = pixels(other.raster, band, lambda given: str(source))
            assert np.array_equal(found, part[band])
        assert one.raster.georeference.affine[2] == 500_000 + 10 * one.column
        assert other.raster.bands[0].out_db_url == url


def test_files_that_no_raster_can_hold(tmp_path: Path) -> None:
    complex_ = make(tmp_path / "c.tif", cells("complex64"))
    with pytest.raises(InvalidFileError, match="not among those that a raster holds"):
        read_geotiff(complex_)
    (tmp_path / "text.tif").write_text("no raster")
    with pytest.raises(InvalidFileError, match=r"text\.tif"):
        read_geotiff(tmp_path / "text.tif")
    with pytest.raises(InvalidArgumentError, match="at least one cell"):
        read_geotiff(make(tmp_path / "a.tif", cells()), tile=0)


@pytest.mark.rule("HAV-33")
def test_hav_33_control_points_are_no_affine_map(tmp_path: Path) -> None:
    from rasterio.control import GroundControlPoint

    path = tmp_path / "g.tif"
    points = [
        GroundControlPoint(row=r, col=c, x=170 + c, y=-40 - r) for r, c in ((0, 0), (0, 4), (6, 0))
    ]
    with rasterio.open(
        path, "w", driver="GTiff", width=5, height=7, count=1, dtype="uint8", gcps=points, crs=4326
    ) as out:
        out.write(cells("uint8", 1))

    with pytest.raises(InvalidFileError, match="control points"):
        read_geotiff(path)


@pytest.mark.rule("HAV-31")
def test_bands_of_several_types_are_no_raster(tmp_path: Path) -> None:
    paths = [make(tmp_path / f"{kind}.tif", cells(kind, 1)) for kind in ("uint8", "int16")]
    bands = "".join(
        f'<VRTRasterBand dataType="{kind}" band="{number}"><SimpleSource><SourceFilename>{path}'
        f"</SourceFilename></SimpleSource></VRTRasterBand>"
        for number, (kind, path) in enumerate(zip(("Byte", "Int16"), paths, strict=True), 1)
    )
    mixed = tmp_path / "mixed.vrt"
    mixed.write_text(f'<VRTDataset rasterXSize="5" rasterYSize="7">{bands}</VRTDataset>')

    with pytest.raises(InvalidFileError, match="bands differ in type: uint8, int16"):
        read_geotiff(mixed)
