"""Tables of rasters that nobody imported from files, as GeoTIFFs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import rasterio

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.export import Written
from havasu_vc.exchange.geotiff_writer import GeoTiffExport, write_geotiffs
from havasu_vc.geo.raster_v1 import GeoReference, Raster, format_rasters
from havasu_vc.geo.raster_v1_pixels import raster_of_pixels
from havasu_vc.model.rasters import raster_field
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive


def tile(column: int = 0, row: int = 0, value: int = 1) -> Raster:
    place = GeoReference.of_affine((10, 0, 40.0 * column, 0, -10, -30.0 * row))
    return raster_of_pixels([np.full((3, 4), value, "int16")], place, no_data=[-1])


def written(out: Path, names: list[str], rasters: list[Raster | None]) -> Written:
    schema = Schema(
        (Field(1, "file", Primitive.STRING, required=True), raster_field(2, "rast", 3)), (1,)
    )
    batch = pa.RecordBatch.from_arrays([pa.array(names), format_rasters(rasters)], ["file", "rast"])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from (batch.slice(row, 1) for row in range(len(names)))

    return write_geotiffs(out, GeoTiffExport(schema, "rast"), batches, batches)


@pytest.mark.parametrize(
    "name", ["../out.tif", "/etc/out.tif", "a/../../b.tif", "a//b.tif", "", ".", "..", "a/./b"]
)
def test_names_do_not_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    out.parent.mkdir()
    try:
        written(out, [name], [tile()])
    except InvalidArgumentError:
        pass
    found = [path for path in tmp_path.rglob("*.tif") if out not in path.parents]
    assert found == []


def test_names_that_no_file_can_have_are_changed(tmp_path: Path) -> None:
    written(tmp_path / "out", ["a:b*\n?"], [tile()])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a_b___.tif"]


def test_rows_without_a_raster_are_noted(tmp_path: Path) -> None:
    done = written(tmp_path / "out", ["a", "b"], [tile(), None])
    assert done.rows == 1
    assert done.notes == ("1 rows have no raster and are left out",)
    with pytest.raises(InvalidArgumentError, match="no raster to export"):
        written(tmp_path / "none", ["b"], [None])
    assert not (tmp_path / "none").exists()


def test_tiles_in_any_order_and_with_gaps_make_one_image(tmp_path: Path) -> None:
    done = written(tmp_path / "all.tif", ["a", "b"], [tile(2, 1, 5), tile(0, 0, 6)])

    assert done.notes == ("all.tif has cells that no tile covers; they are no data",)
    with rasterio.open(tmp_path / "all.tif") as image:
        pixels = image.read(1)
        assert tuple(image.transform)[:6] == (10, 0, 0, 0, -10, 0)
    assert pixels.shape == (6, 12)
    assert (pixels[:3, :4] == 6).all()
    assert (pixels[3:, 8:] == 5).all()
    assert np.count_nonzero(pixels == -1) == 6 * 12 - 24


def shifted(raster: Raster, x: float) -> Raster:
    from dataclasses import replace

    place = replace(raster.georeference, upperleft_x=raster.georeference.upperleft_x + x)
    return replace(raster, georeference=place)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda one: shifted(one, 3), "do not lie in one grid"),
        (lambda one: shifted(one, 1e14), "too far apart"),
    ],
)
def test_what_is_no_tile_is_told(
    change: Callable[[Raster], Raster], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason) as caught:
        written(tmp_path / "all.tif", ["a", "b"], [tile(), change(tile(1))])
    assert "--tiles-apart" in caught.value.hints[0]
    assert list(tmp_path.iterdir()) == []
