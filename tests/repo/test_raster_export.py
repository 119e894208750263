"""Rasters that were imported come out as they were."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from havasu_vc import Repo
from havasu_vc.errors import GeometryError, InvalidArgumentError
from havasu_vc.exchange.source import RasterReading, SourceOptions
from havasu_vc.geo.raster_v1 import PixelType
from havasu_vc.transfer.rasters import Rasters
from tests.support.examples import examples
from tests.support.rasters import cells, ortho_folder, write_image
from tests.support.templates import empty_repo


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return empty_repo(tmp_path_factory.mktemp("rasters") / "repo")


def imported(repo: Repo, path: Path, name: str, **raster: Any) -> None:
    options = SourceOptions(raster=RasterReading(**raster))
    repo.import_(str(path), name, options=options, replace=name in repo.datasets())


def same(one: Path, other: Path) -> None:
    """Assert that two files have the same pixels, place, no-data value and system."""
    with rasterio.open(one) as old, rasterio.open(other) as new:
        assert np.array_equal(old.read(), new.read(), equal_nan=old.dtypes[0].startswith("float"))
        assert old.dtypes == new.dtypes
        assert repr(old.nodatavals) == repr(new.nodatavals)
        assert new.transform.almost_equals(old.transform, 1e-9)
        assert old.crs == new.crs


kinds = st.sampled_from([kind.name.lower() for kind in PixelType])
sides = st.integers(1, 70)


@st.composite
def images(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    kind = draw(kinds)
    shape = draw(st.tuples(st.integers(1, 6), sides, sides))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    array = (random.random(shape) * 250).astype(kind)
    skew = draw(st.sampled_from([0, 0, 0.25]))
    size = draw(st.sampled_from([10.0, 0.1, 1 / 3]))
    x, y = draw(st.sampled_from([(1_600_000.0, 5_400_000.0), (0.1, -0.7)]))
    options = {
        "transform": rasterio.Affine(size, skew, x, -skew, -size, y),
        "crs": draw(st.sampled_from(["EPSG:2193", "EPSG:4326", None])),
        "nodata": draw(st.sampled_from([None, 0, 7, "nan"])),
    }
    if options["nodata"] == "nan":
        options["nodata"] = float("nan") if kind.startswith("float") else 7
    return array, options


@given(
    image=images(), tile=st.sampled_from([None, (16, 16), (64, 16), (33, 20)]), apart=st.booleans()
)
@examples(
    25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_image_comes_back(
    repo: Repo, image: Any, tile: Any, apart: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("image")
    array, options = image
    write_image(folder / "in" / "a.tif", array, **options)
    name = folder.name
    imported(repo, folder / "in", name, tile=tile)

    Rasters(repo.opened).export(name, folder / "out", apart=apart and tile is not None)
    if not (apart and tile is not None):
        same(folder / "in" / "a.tif", folder / "out" / "a.tif")
        return
    with rasterio.open(folder / "in" / "a.tif") as whole:
        for path in (folder / "out").iterdir():
            row, column = map(int, path.stem.split("_")[1:])
            top, left = row * tile[1], column * tile[0]
            with rasterio.open(path) as part:
                there = whole.read()[:, top : top + part.height, left : left + part.width]
                assert np.array_equal(part.read(), there)
                corner = whole.transform @ (left, top)
                assert np.allclose(corner, part.transform @ (0, 0), rtol=1e-12)


@pytest.mark.rule("HAV-36")
def test_the_affine_is_bit_for_bit_the_same(repo: Repo, tmp_path: Path) -> None:
    folder = ortho_folder(tmp_path / "orthos")
    for number, tile in enumerate([None, (16, 16)]):
        imported(repo, folder, f"exact{number}", tile=tile)
        Rasters(repo.opened).export(f"exact{number}", tmp_path / f"out{number}")
        for path in folder.rglob("*.tif"):
            copy = tmp_path / f"out{number}" / path.relative_to(folder)
            with rasterio.open(path) as old, rasterio.open(copy) as new:
                assert old.transform == new.transform


def test_edited_tiles_come_out_in_their_places(repo: Repo, tmp_path: Path) -> None:
    second = ortho_folder(tmp_path / "2026", changed=True)
    imported(repo, ortho_folder(tmp_path / "2025"), "releases", tile=(16, 16))
    imported(repo, second, "releases")

    Rasters(repo.opened).export("releases", tmp_path / "out")

    for path in second.rglob("*.tif"):
        same(path, tmp_path / "out" / path.relative_to(second))


def test_rows_that_share_a_grid_become_one_image(repo: Repo, tmp_path: Path) -> None:
    imported(repo, ortho_folder(tmp_path / "in"), "mosaic", tile=(32, 32))
    done = Rasters(repo.opened).export("mosaic", tmp_path / "all.tif")

    assert done.rows == 18
    with rasterio.open(tmp_path / "all.tif") as image:
        assert (image.width, image.height) == (150, 70)
        for number in range(3):
            part = image.read()[:, :, 50 * number : 50 * number + 50]
            assert np.array_equal(part, cells() + number)


def test_some_rows_alone(repo: Repo, tmp_path: Path) -> None:
    imported(repo, ortho_folder(tmp_path / "in"), "some", tile=(32, 32))
    keys = ["sheets/sheet_1.tif,1,0"]
    done = Rasters(repo.opened).export("some", tmp_path / "out", keys=keys)

    assert done.rows == 1
    with rasterio.open(tmp_path / "out" / "sheets" / "sheet_1.tif") as image:
        assert np.array_equal(image.read(), (cells() + 1)[:, 32:64, :32])
    with pytest.raises(InvalidArgumentError, match="lacks a row"):
        Rasters(repo.opened).export(
            "some", tmp_path / "none", keys=[*keys, "sheets/sheet_1.tif,9,9"]
        )


def test_pixels_elsewhere_need_leave(repo: Repo, tmp_path: Path) -> None:
    folder = ortho_folder(tmp_path / "in")
    imported(repo, folder, "outside", tile=(32, 32), out_db=True)

    with pytest.raises(GeometryError, match="settings do not allow"):
        Rasters(repo.opened).export("outside", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    repo.config.set("havasu.outdb.allow", folder.as_uri())
    Rasters(repo.opened).export("outside", tmp_path / "out")
    for path in folder.rglob("*.tif"):
        same(path, tmp_path / "out" / path.relative_to(folder))


def test_what_cannot_be_one_image_says_why(repo: Repo, tmp_path: Path) -> None:
    write_image(tmp_path / "in" / "a.tif", cells())
    write_image(tmp_path / "in" / "b.tif", cells("int16"))
    imported(repo, tmp_path / "in", "unlike")
    with pytest.raises(InvalidArgumentError, match=r"all\.tif: its tiles differ in number or type"):
        Rasters(repo.opened).export("unlike", tmp_path / "all.tif")
    assert list(tmp_path.glob("*.tif")) == []


def test_a_folder_that_was_not_exported_is_not_replaced(repo: Repo, tmp_path: Path) -> None:
    imported(repo, ortho_folder(tmp_path / "in"), "again")
    export = Rasters(repo.opened).export
    export("again", tmp_path / "out")
    with pytest.raises(InvalidArgumentError, match="there already"):
        export("again", tmp_path / "out")
    export("again", tmp_path / "out", overwrite=True)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="is no GeoTIFF"):
        export("again", tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "notes.txt").exists()
