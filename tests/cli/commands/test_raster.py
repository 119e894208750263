"""`havasu-vc raster info`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from havasu_vc import Repo
from havasu_vc.datasets.havasu.outlines import plan_outlines
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.kinds import require_files
from havasu_vc.model.task import run_task
from tests.cli.conftest import Run, succeed
from tests.review.page.pages import ReadPage
from tests.support.git import run_git
from tests.support.rasters import cells, ortho_folder, write_image


@pytest.fixture
def orthos(run: Run, tmp_path: Path) -> Path:
    folder = ortho_folder(tmp_path / "in")
    succeed(run("import", folder, "orthos", "--tile", "32"))
    return folder


def told(run: Run, *arguments: str | Path) -> Any:
    result = succeed(run("raster", "info", *arguments, "-o", "json"))
    return json.loads(result.stdout)["havasu.raster-info/v1"]


def test_a_dataset_in_a_few_lines(run: Run, orthos: Path) -> None:
    lines = succeed(run("raster", "info", "orthos")).stdout.splitlines()

    assert lines[0] == "orthos: 18 rasters in column rast"
    assert lines[1].startswith("  size        32 × 32 (6), 18 × 32 (6), 32 × 6 (3)")
    assert "  bands       2 × uint8" in lines
    assert "  CRS         EPSG:2193" in lines
    assert "  extent      1600000 5399300 1601500 5400000" in lines
    assert lines[-2].startswith("  in WGS 84   173.0")


def test_a_dataset_as_json(run: Run, orthos: Path) -> None:
    found = told(run, "orthos@HEAD")
    assert (found["rows"], found["rasters"], found["outDbRasters"]) == (18, 18, 0)
    assert found["inDbBytes"] == 3 * 2 * 70 * 50
    west, south, east, north = found["extentWgs84"]
    assert 172.9 < west < east < 173.1
    assert -41.7 < south < north < -41.5


@pytest.mark.rule("HAV-36")
def test_a_row_and_its_image_say_the_same(run: Run, repo: Path, tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.tif", cells("float32"), nodata=float("nan"))
    succeed(run("import", path, "one"))
    (row,), (image,) = told(run, "one", "a.tif"), told(run, path)

    assert row.pop("raster") == "one:a.tif"
    assert image.pop("raster") == str(path)
    assert row == image
    assert row["affine"] == [10, 0, 1_600_000, 0, -10, 5_400_000]
    assert row["firstCell"] == [1_600_005, 5_399_995]
    assert row["bands"][0] == {"pixelType": "float32", "noData": "nan"}
    text = succeed(run("raster", "info", "one", "a.tif")).stdout
    assert "  corner      1600000 5400000" in text
    assert "  first cell  1600005 5399995 at its centre" in text


def test_pixels_elsewhere_are_named_and_not_opened(run: Run, tmp_path: Path) -> None:
    folder = ortho_folder(tmp_path / "in")
    succeed(run("import", folder, "orthos", "--out-db"))
    for path in folder.rglob("*.tif"):
        path.unlink()

    found = told(run, "orthos")
    assert (found["inDbBytes"], found["outDbRasters"]) == (0, 3)
    text = succeed(run("raster", "info", "orthos", "sheets/sheet_1.tif")).stdout
    assert f"files       {(folder / 'sheets' / 'sheet_1.tif').as_uri()}" in text
    assert "sheet_0.tif and 2 more, of 3 rasters" in succeed(run("raster", "info", "orthos")).stdout


def test_a_summary_reads_no_pixels(run: Run, repo: Path, orthos: Path) -> None:
    succeed(run("import", ortho_folder(orthos.parent / "new", changed=True), "orthos", "--replace"))
    view = Repo.open(repo).dataset("orthos")
    assert isinstance(view, HavasuDataset)
    batches = [batch for task in plan_outlines(view, "rast") for batch in run_task(task)]

    assert sum(batch.num_rows for batch in batches) == 18  # rows that were replaced are left out
    for batch in batches:
        parts = batch.schema.field("rast").type
        assert "data" not in [part.name for part in parts.field("band_1").type]


def test_what_is_not_there_is_told(run: Run, orthos: Path) -> None:
    assert "has no row 'nope,0,0'" in run("raster", "info", "orthos", "nope,0,0").stderr
    assert "points has no raster column" in run("raster", "info", "points").stderr
    assert "a key has 3 values" in run("raster", "info", "orthos", "nope").stderr
    assert run("raster", "info", next(orthos.rglob("*.tif")), "key").exit_code == 2
    (orthos / "bad.tif").write_text("no image")
    assert "no TIFF image" in run("raster", "info", orthos / "bad.tif").stderr


def digests(repo: Path) -> Any:
    """Return the sums over all values that the last commit tells."""
    return require_files(Repo.open(repo).dataset("scene")).snapshot.digests


def test_patches_carry_every_bit(run: Run, repo: Path, tmp_path: Path) -> None:
    array = cells("float32", (5, 200, 150))
    array[0, :3] = np.nan
    path = write_image(tmp_path / "a.tif", array, nodata=float("nan"))
    succeed(run("import", path, "scene", "-m", "First"))
    array[4, 7, 7] = -0.25
    write_image(path, array, nodata=float("nan"), crs="EPSG:32760")
    succeed(run("import", path, "scene", "--replace", "-m", "Second"))
    patch = tmp_path / "second.patch"
    patch.write_text(succeed(run("create-patch", "HEAD")).stdout)
    made = digests(repo)

    succeed(run("reset", "HEAD^"))
    succeed(run("apply", patch))

    assert digests(repo) == made
    summary = tmp_path / "summary.json"
    summary.write_text(succeed(run("diff", "HEAD^...HEAD", "-o", "json")).stdout)
    succeed(run("reset", "HEAD^"))
    refused = run("apply", summary)
    assert refused.exit_code != 0
    assert "the output of `diff` is none" in refused.stderr


@pytest.mark.thorough
def test_branches_that_changed_one_tile_conflict_and_others_merge(
    run: Run, orthos: Path, tmp_path: Path
) -> None:
    def edited(name: str, value: int, sheet: int) -> Path:
        folder = ortho_folder(tmp_path / name)
        array = cells() + sheet
        array[1, :4, :4] = value
        place = rasterio.Affine(10, 0, 1_600_000 + 500 * sheet, 0, -10, 5_400_000)
        write_image(folder / "sheets" / f"sheet_{sheet}.tif", array, transform=place)
        return folder

    for branch, value, sheet in (("ours", 250, 0), ("theirs", 251, 0), ("other", 252, 2)):
        succeed(run("switch", "-c", branch, "main"))
        succeed(run("import", edited(branch, value, sheet), "orthos", "--replace"))
    succeed(run("merge", "theirs"))
    merged = succeed(run("diff", "main..other", "-o", "feature-count")).stdout
    assert "2 features changed" in merged

    succeed(run("merge", "ours"))
    text = succeed(run("conflicts", "orthos")).stdout
    assert "band 2: 16 of 1,024 cells differ" in text
    succeed(run("resolve", "orthos:feature:sheets/sheet_0.tif,0,0", "--with", "ours"))
    succeed(run("merge", "--continue"))
    left = succeed(run("diff", "theirs..other", "-o", "feature-count")).stdout
    assert "1 features changed" in left


def test_reviews_say_and_show_what_changed(run: Run, orthos: Path, tmp_path: Path) -> None:
    succeed(run("import", ortho_folder(tmp_path / "new", changed=True), "orthos", "--replace"))

    markdown = succeed(run("review", "HEAD^...HEAD", "-o", "markdown")).stdout
    assert "band 1: 10 of 1,024 cells differ, by up to " in markdown
    for command in ("review", "diff"):
        page = tmp_path / f"{command}.html"
        succeed(run(command, "HEAD^...HEAD", "-o", "html", "--output", page))
        (dataset,) = ReadPage.of(page.read_text()).manifest["datasets"]
        sides = [picture["side"] for picture in dataset["pictures"]]
        assert sides == ["before", "after", "difference"]


def test_pages_show_pixels_elsewhere_where_they_may_be_read(
    run: Run, repo: Path, tmp_path: Path
) -> None:
    folder = ortho_folder(tmp_path / "in")
    succeed(run("import", folder, "orthos", "--out-db"))

    def pictures() -> int:
        page = tmp_path / "page.html"
        succeed(run("review", "HEAD^...HEAD", "-o", "html", "--output", page))
        (dataset,) = ReadPage.of(page.read_text()).manifest["datasets"]
        return len(dataset["pictures"])

    assert pictures() == 0
    run_git("config", "havasu.outdb.allow", folder.as_uri(), cwd=repo)
    assert pictures() == 3
