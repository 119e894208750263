"""GeoTIFFs as sources."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import rasterio

from havasu_vc.errors import CrsError, InvalidArgumentError, InvalidFileError
from havasu_vc.exchange.geotiff_source import GeoTiffSource, tile_size
from havasu_vc.exchange.source import RasterReading, Source, SourceOptions
from havasu_vc.exchange.sources import open_sources
from havasu_vc.geo.raster_v1 import Raster, parse_rasters
from havasu_vc.geo.raster_v1_pixels import pixels
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.task import run_task
from tests.support.rasters import cells, ortho_folder, write_image


def opened(path: Path | str, crs: str | None = None, **raster: object) -> GeoTiffSource:
    options = SourceOptions(crs=crs, raster=RasterReading(**raster))  # type: ignore[arg-type]
    (source,) = open_sources(str(path), options=options)
    assert isinstance(source, GeoTiffSource)
    return source


def read(source: Source) -> pa.Table:
    batches = [batch for task in source.tasks() for batch in run_task(task)]
    return pa.Table.from_batches(batches, arrow_schema(source.schema))


def rasters(table: pa.Table) -> list[Raster]:
    return [each for each in parse_rasters(table["rast"]) if each is not None]


def test_a_folder_is_a_table_of_its_files(tmp_path: Path) -> None:
    source = opened(ortho_folder(tmp_path / "orthos"))
    table = read(source)

    assert source.name == "orthos"
    assert source.schema.key.names == ("file",)
    assert source.rows == 3
    assert table["file"].to_pylist() == [f"sheets/sheet_{n}.tif" for n in range(3)]
    assert table.column_names == ["file", "rast"]
    for number, raster in enumerate(rasters(table)):
        assert np.array_equal(pixels(raster, 1), cells()[1] + number)


def test_tiles_have_keys_in_order_and_the_smaller_ones_are_at_the_edge(tmp_path: Path) -> None:
    source = opened(ortho_folder(tmp_path / "orthos"), tile=(32, 48))
    table = read(source)
    keys = list(zip(*(table[name].to_pylist() for name in source.schema.key.names), strict=True))

    assert source.schema.key.names == ("file", "tile_row", "tile_column")
    assert keys == sorted(keys)
    assert len(keys) == source.rows == 3 * 2 * 2
    first = rasters(table)[:4]
    assert [(one.width, one.height) for one in first] == [(32, 48), (18, 48), (32, 22), (18, 22)]
    assert np.array_equal(pixels(first[3], 0), cells()[0, 48:, 32:])
    assert tile_size(source.schema) == (32, 48)


def test_rows_do_not_depend_on_how_the_file_was_read(tmp_path: Path) -> None:
    (path,) = {write_image(tmp_path / "a.tif", cells(shape=(3, 200, 300)))}
    table = read(opened(path, tile=(16, 16)))
    parts = rasters(table)

    for row, column, part in zip(
        table["tile_row"].to_pylist(), table["tile_column"].to_pylist(), parts, strict=True
    ):
        there = cells(shape=(3, 200, 300))[:, row * 16 : row * 16 + 16, column * 16 :][..., :16]
        assert all(np.array_equal(pixels(part, band), there[band]) for band in range(3))


def test_keys_alone_are_read_without_pixels(tmp_path: Path) -> None:
    folder = ortho_folder(tmp_path / "orthos")
    source = opened(folder, tile=(32, 32))
    for path in folder.rglob("*.tif"):
        path.unlink()  # headers are read when it is opened

    (task,) = source.tasks(["file", "tile_row"])
    (batch,) = run_task(task)
    assert batch.schema.names == ["file", "tile_row"]
    assert batch.num_rows == source.rows


def test_the_next_release_is_cut_as_the_one_before(tmp_path: Path) -> None:
    folder = ortho_folder(tmp_path / "orthos")
    before = opened(folder, tile=(32, 32)).schema

    assert opened(folder).cut_as(before).schema == before
    assert opened(folder, tile=(32, 32)).cut_as(before).schema == before
    with pytest.raises(InvalidArgumentError, match="tiles of 32 × 32, not 16 × 16"):
        opened(folder, tile=(16, 16)).cut_as(before)
    with pytest.raises(InvalidArgumentError, match="are whole, not cut into tiles of 16 × 16"):
        opened(folder, tile=(16, 16)).cut_as(opened(folder).schema)


@pytest.mark.rule("HAV-43", "HAV-48")
def test_out_db_rasters_name_their_file(tmp_path: Path) -> None:
    folder = ortho_folder(tmp_path / "my orthos")
    here = rasters(read(opened(folder, out_db=True, tile=(32, 32))))
    path = folder / "sheets" / "sheet_0.tif"

    assert here[0].bands[0].out_db_url == path.as_uri()
    assert [band.out_db_band for band in here[0].bands] == [0, 1]
    assert np.array_equal(pixels(here[1], 1, lambda url: str(path)), cells()[1, :32, 32:])
    base = opened(folder, out_db=True, url_base="https://example.org/my/")
    there = rasters(read(base))
    assert there[2].bands[0].out_db_url == "https://example.org/my/sheets/sheet_2.tif"
    with pytest.raises(InvalidArgumentError, match="no URL"):
        opened(folder, out_db=True, url_base="my/files")


def test_systems_that_differ_are_told(tmp_path: Path) -> None:
    write_image(tmp_path / "a" / "1.tif", cells())
    write_image(tmp_path / "a" / "2.tif", cells(), crs="EPSG:32760")

    with pytest.raises(InvalidFileError, match=r"2\.tif: .* EPSG:32760, but EPSG:2193 in .*1\.tif"):
        opened(tmp_path / "a")
    mixed = rasters(read(opened(tmp_path / "a", mixed_crs=True)))
    assert mixed[0].crs_wkt != mixed[1].crs_wkt
    same = rasters(read(opened(tmp_path / "a", "EPSG:4326")))
    assert {"4326" in (raster.crs_wkt or "") for raster in same} == {True}
    with pytest.raises(CrsError):
        opened(tmp_path / "a", "EPSG:1")


def test_what_is_lost_or_missing_is_noted(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.tif", cells(shape=(1, 20, 20)), crs=None)
    with rasterio.open(path, "r+") as image:
        image.write_colormap(1, {0: (255, 0, 0, 255)})

    notes = opened(path).notes
    assert notes[0] == "a.tif: a raster does not hold a colour table, which is left behind"
    assert "without a coordinate reference system" in notes[1]


def test_a_no_data_value_that_no_pixel_can_have_is_none(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.tif", cells("uint8", (1, 20, 20)), nodata=200)
    assert rasters(read(opened(path)))[0].bands[0].no_data_value == 200
    path.write_bytes(path.read_bytes().replace(b"200\x00", b"1.5\x00"))

    source = opened(path)
    assert rasters(read(source))[0].bands[0].no_data is None
    assert "no-data value that no pixel can have" in source.notes[0]


@pytest.mark.parametrize("name", ["a.tif", "a.tiff", "a.jp2", "a.img"])
def test_what_is_no_image_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    for content in (b"", b"hello", b"II*\x00\x08\x00\x00\x00", bytes(5000)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidFileError) as caught:
            opened(tmp_path / name)
        assert len(caught.value.message.splitlines()) == 1


def test_a_name_does_not_open_another_kind_of_file(tmp_path: Path) -> None:
    inside = write_image(tmp_path / "secret.tif", cells())
    with rasterio.open(inside) as image:
        from rasterio.shutil import copy

        copy(image, tmp_path / "trick.vrt", driver="VRT")
    trick = tmp_path / "trick.tif"
    trick.write_bytes((tmp_path / "trick.vrt").read_bytes())

    with pytest.raises(InvalidFileError, match="no TIFF image"):
        opened(trick)


@pytest.mark.parametrize("compress", ["none", "deflate", "lzw"])
def test_an_image_cut_short_is_told_when_its_pixels_are_read(compress: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1).integers(0, 255, (1, 300, 300), dtype="uint8")
    path = write_image(tmp_path / "a.tif", random, compress=compress)
    whole = path.read_bytes()
    for length in range(0, len(whole), len(whole) // 7):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidFileError, match=r"a\.tif: "):
            read(opened(path, tile=(64, 64)))


def test_an_image_that_changed_meanwhile_is_told(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.tif", cells())
    source = opened(path)
    write_image(path, cells("uint8", (2, 71, 50)))

    with pytest.raises(InvalidFileError, match="changed while it was read"):
        read(source)


def test_more_pixels_than_a_row_can_have_ask_for_tiles(tmp_path: Path) -> None:
    path = tmp_path / "large.tif"
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=40_000,
        height=40_000,
        count=1,
        dtype="uint8",
        sparse_ok=True,
        tiled=True,
        crs="EPSG:2193",
        transform=rasterio.Affine(1, 0, 1_600_000, 0, -1, 5_400_000),
    ):
        pass

    with pytest.raises(InvalidFileError, match="too many for one row") as caught:
        opened(path).tasks()
    assert "--tile 512" in caught.value.hints[0]
    source = opened(path, tile=(512, 512))
    assert len(source.tasks()) > 10
    first = next(iter(run_task(source.tasks()[0])))
    assert first.nbytes < 40 << 20


def test_options_of_images_are_refused_for_other_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(InvalidArgumentError, match="holds no images"):
        open_sources(
            str(tmp_path / "a.csv"), options=SourceOptions(raster=RasterReading(tile=(64, 64)))
        )


def test_a_pattern_is_a_table(tmp_path: Path) -> None:
    ortho_folder(tmp_path / "orthos")
    source = opened(str(tmp_path / "orthos" / "**" / "*_[12].tif"))
    assert source.rows == 2
    assert read(source)["file"].to_pylist() == ["sheet_1.tif", "sheet_2.tif"]
