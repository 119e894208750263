"""An agency with imagery: sheets of a flight, cut into tiles, which two people correct."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import invoke
from tests.weeks.week import User

rasterio = pytest.importorskip("rasterio")

Sheets = dict[str, Any]
"""Pixels by the name of their image."""
SIZE, TILE = 100, 40
ORIGIN = (1_757_000.0, 5_921_000.0)


def place_of(name: str) -> Any:
    """Return where a sheet lies: `r1c2.tif` in the second row and the third column."""
    row, column = int(name[1]), int(name[3])
    step = SIZE * 0.5
    return rasterio.Affine(0.5, 0, ORIGIN[0] + column * step, 0, -0.5, ORIGIN[1] - row * step)


def fly(folder: Path, sheets: Mapping[str, Any]) -> Path:
    """Write sheets as an aircraft's contractor delivers them."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.tif"):
        old.unlink()
    for name, pixels in sheets.items():
        size = {"width": SIZE, "height": SIZE, "count": len(pixels), "dtype": pixels.dtype}
        how = {"crs": "EPSG:2193", "transform": place_of(name), "nodata": 0}
        with rasterio.open(folder / name, "w", driver="GTiff", **size, **how) as out:
            out.write(pixels)
    return folder


def copied(sheets: Mapping[str, Any]) -> Sheets:
    return {name: pixels.copy() for name, pixels in sheets.items()}


def tiles(sheets: Mapping[str, Any]) -> dict[tuple[str, int, int], bytes]:
    """Return the pixels of each tile by its key."""
    return {
        (name, row, column): part.tobytes()
        for name, pixels in sheets.items()
        for row in range(-(-SIZE // TILE))
        for column in range(-(-SIZE // TILE))
        for part in [pixels[:, row * TILE :, column * TILE :][:, :TILE, :TILE]]
    }


class Keeper(User):
    """Somebody who knows what every sheet shows."""

    def takes(self, folder: Path, message: str) -> None:
        self.does("import", folder, "orthos", "--replace", "-m", message)

    def shows(self, model: Mapping[str, Any], revision: str, out: Path) -> None:
        """Hold the images of a revision against the model, in rasterio."""
        self.does("export", f"orthos@{revision}", out, "--to", "geotiff", "--overwrite")
        assert {file.name for file in out.glob("*.tif")} == set(model)
        for name, pixels in model.items():
            with rasterio.open(out / name) as image:
                assert np.array_equal(image.read(), pixels), (revision, name)
                assert image.transform == place_of(name)
                assert (image.crs.to_epsg(), image.nodata) == (2193, 0)

    def differs(self, before: Mapping[str, Any], after: Mapping[str, Any], spec: str) -> None:
        """Hold what `diff` says against the model: tiles, and how many of their cells."""
        said = json.loads(self.does("diff", spec, "orthos", "-o", "json").stdout)
        found = said["kart.diff/v1+hexwkb"].get("orthos", {}).get("feature", [])
        keys = {
            tuple((each.get("+") or each["-"])[c] for c in ("file", "tile_row", "tile_column"))
            for each in found
        }
        old, new = tiles(before), tiles(after)
        assert keys == {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


@pytest.mark.thorough
def test_a_week(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    names = [f"r{row}c{column}.tif" for row in range(2) for column in range(2)]
    model: Sheets = {
        name: random.integers(1, 250, (3, SIZE, SIZE), dtype=np.uint8) for name in names
    }
    assert invoke(["init", tmp_path / "survey"]).exit_code == 0
    agency = Keeper(tmp_path / "survey", "file")
    out = tmp_path / "out"

    # Monday: the flight of last year comes in, and is tagged.
    flight = fly(tmp_path / "flight", model)
    agency.does("import", flight, "orthos", "--tile", str(TILE), "-m", "Flight of 2025")
    agency.does("tag", "2025")
    days = {"2025": copied(model)}
    assert f"{len(tiles(model))} rasters" in agency.does("raster", "info", "orthos").stdout
    agency.shows(model, "2025", out)

    # Tuesday: a new flight. A roof was painted over the edge of tiles, and a sheet is new.
    model["r0c1.tif"][:, 30:50, 30:50] = 200
    model["r0c2.tif"] = random.integers(1, 250, (3, SIZE, SIZE), dtype=np.uint8)
    agency.takes(fly(flight, model), "Flight of 2026")
    agency.does("tag", "2026")
    days["2026"] = copied(model)
    agency.differs(days["2025"], model, "2025...2026")
    agency.shows(days["2025"], "2025", out)
    said = agency.does("diff", "2025...2026", "orthos").stdout
    assert "cells differ" in said

    # Wednesday: two people correct clouds, each in a branch, in different tiles of one sheet.
    ours, theirs = copied(model), copied(model)
    ours["r0c0.tif"][1, :10, :10] = 9
    theirs["r0c0.tif"][:, 90:, 90:] = 8
    del theirs["r1c1.tif"]  # nobody wants the sea
    agency.does("switch", "-c", "clouds")
    agency.takes(fly(flight, theirs), "Clouds, and no sea")
    agency.does("switch", "main")
    agency.takes(fly(flight, ours), "A green corner")
    page = tmp_path / "clouds.html"
    agency.does("review", "main...clouds", "-o", "html", "--output", page)
    assert "data:image/png" in page.read_text("utf-8") or "canvas" in page.read_text("utf-8")
    agency.does("merge", "clouds")
    model = copied(ours)
    model["r0c0.tif"][:, 90:, 90:] = 8
    del model["r1c1.tif"]
    agency.shows(model, "HEAD", out)
    days["merged"] = copied(model)
    agency.does("tag", "merged")
    agency.differs(days["2026"], model, "2026...merged")

    # Thursday: both change one tile. That is for a person to decide, and they take theirs.
    ours, theirs = copied(model), copied(model)
    ours["r1c0.tif"][:, 0, 0] = 1
    theirs["r1c0.tif"][:, 1, 1] = 2
    theirs["r0c0.tif"][0, 50, 50] = 3
    agency.does("switch", "-c", "other")
    agency.takes(fly(flight, theirs), "Theirs")
    agency.does("switch", "main")
    agency.takes(fly(flight, ours), "Ours")
    assert "1 conflict" in agency.does("merge", "other").output
    told = agency.does("conflicts").stdout
    assert "r1c0.tif,0,0" in told and "r0c0.tif" not in told
    agency.does("resolve", "--all", "--with", "theirs")
    agency.does("merge", "--continue")
    model = theirs
    agency.shows(model, "HEAD", out)

    # Friday: the sea is wanted after all; its tiles come back from the tag, bit by bit.
    sea = [",".join(map(str, key)) for key in tiles(days["2026"]) if key[0] == "r1c1.tif"]
    agency.does("restore", "-s", "2026", *(f"orthos:feature:{key}" for key in sea), "-m", "The sea")
    model["r1c1.tif"] = days["2026"]["r1c1.tif"]
    agency.shows(model, "HEAD", out)
    agency.shows(days["merged"], "merged", out)
    last = agency.does("log", "-1", "--format", "%s", "--", f"orthos:feature:{sea[0]}").stdout
    assert last.strip() == "The sea"
    assert invoke(["clone", agency.repo, tmp_path / "reader"]).exit_code == 0
    Keeper(tmp_path / "reader", "file").shows(model, "HEAD", tmp_path / "read")
    agency.does("fsck", "--full")
