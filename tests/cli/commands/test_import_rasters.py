"""`havasu-vc import` of GeoTIFFs."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, succeed
from tests.support.git import run_git
from tests.support.rasters import cells, ortho_folder, write_image


def files_of(repo: Path, dataset: str) -> list[str]:
    return run_git(
        "ls-tree", "-r", "--name-only", f"HEAD:{dataset}/.havasu-dataset/data", cwd=repo
    ).splitlines()


def counts(result: Any) -> dict[str, int]:
    (found,) = json.loads(result.stdout)["havasu.import/v1"]["datasets"].values()
    assert isinstance(found, dict)
    return found


def test_a_folder_and_its_next_release(run: Run, repo: Path, tmp_path: Path) -> None:
    first = ortho_folder(tmp_path / "2025")
    second = ortho_folder(tmp_path / "2026", changed=True)
    result = succeed(run("import", first, "orthos", "--tile", "32"))
    assert result.stderr.splitlines()[0].startswith("Imported 18 rows into orthos in ")
    assert "Note" not in result.stderr

    result = succeed(run("import", second, "orthos", "--replace", "-o", "json"))
    assert counts(result) == {"inserts": 0, "updates": 1, "deletes": 0}
    again = succeed(run("import", second, "orthos", "--replace"))
    assert "Nothing changed" in again.stderr


def test_the_same_images_are_the_same_files(run: Run, repo: Path, tmp_path: Path) -> None:
    folder = ortho_folder(tmp_path / "orthos")
    succeed(run("import", folder, "one", "--tile", "32x16"))
    succeed(run("import", folder, "two", "--tile", "32x16"))

    assert files_of(repo, "one") == files_of(repo, "two") != []


def test_one_image_is_a_row(run: Run, tmp_path: Path) -> None:
    path = write_image(tmp_path / "scene.tif", cells())
    result = succeed(run("import", path))
    assert result.stderr.startswith("Imported 1 row into scene in ")
    assert json.loads(succeed(run("meta", "get", "scene", "schema.json", "-o", "json")).stdout)


def test_options_reach_the_images(run: Run, tmp_path: Path) -> None:
    folder = ortho_folder(tmp_path / "orthos")
    write_image(folder / "other.tif", cells(), crs="EPSG:32760")
    refused = run("import", folder)
    assert refused.exit_code != 0
    assert "--mixed-crs" in refused.stderr
    succeed(run("import", folder, "--mixed-crs", "--out-db"))
    dry = succeed(run("import", folder, "dry", "--crs", "EPSG:2193", "--dry-run", "--tile", "16"))
    assert dry.stderr.startswith("Would import 80 rows into dry")
    assert "dry" not in succeed(run("data", "ls")).stdout
    bad = run("import", folder, "x", "--tile", "a")
    assert "--tile 512x256" in bad.stderr


def test_nothing_is_written_of_a_damaged_image(run: Run, tmp_path: Path) -> None:
    path = write_image(tmp_path / "scene.tif", cells())
    path.write_bytes(path.read_bytes()[:-100])
    before = run("log", "-o", "json").stdout

    result = run("import", path, "--tile", "32")

    assert result.exit_code != 0
    assert result.stderr.splitlines()[0].endswith(
        "scene.tif: its pixels cannot be read: it is damaged"
    )
    assert run("log", "-o", "json").stdout == before


def test_without_rasterio_it_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_image(tmp_path / "scene.tif", cells())
    monkeypatch.setitem(sys.modules, "rasterio", None)

    result = run("import", path)

    assert result.exit_code != 0
    assert "pip install 'havasu-vc[raster]'" in result.stderr


def test_images_go_out_again(run: Run, tmp_path: Path) -> None:
    folder = ortho_folder(tmp_path / "in")
    succeed(run("import", folder, "orthos", "--tile", "32"))

    result = succeed(run("export", "orthos", tmp_path / "out", "--to", "geotiff"))
    assert result.stderr.startswith("Wrote 18 rasters of orthos to ")
    assert len(list((tmp_path / "out" / "sheets").glob("*.tif"))) == 3
    result = succeed(
        run("export", "orthos@HEAD", tmp_path / "one.tif", "--key", "sheets/sheet_0.tif,0,0")
    )
    assert result.stderr.startswith("Wrote 1 raster of orthos to ")
    succeed(run("export", "orthos", tmp_path / "apart", "--to", "geotiff", "--tiles-apart"))
    assert len(list((tmp_path / "apart" / "sheets").glob("*.tif"))) == 18
    assert run("export", "orthos", tmp_path / "a.csv", "--tiles-apart").exit_code == 2
    refused = run("export", "points", tmp_path / "points.tif")
    assert "points has no raster column" in refused.stderr
