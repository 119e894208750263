"""rasterio: images that it writes come in, and it reads what goes out, by value.

A table of a checkout is read by PyIceberg, which knows nothing of rasters: the bytes of its bands,
placed as it says, are given to rasterio as files in memory.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pyiceberg.table import StaticTable
from rasterio.io import MemoryFile

from havasu_vc.exchange.source import RasterReading, SourceOptions
from tests.conformance.ours import NAME, folder
from tests.conformance.tally import Tally
from tests.support.examples import examples
from tests.support.templates import LOCAL, empty_repo

PROGRAM = "rasterio"
KINDS = ("uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")
SYSTEMS = ("EPSG:4326", "EPSG:2193", "EPSG:32760", "ESRI:54030", None)

tried = examples(20, suppress_health_check=list(HealthCheck))


@st.composite
def images(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """Draw bands of any values, and where they lie."""
    kind = draw(st.sampled_from(KINDS))
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40)))
    cells = draw(arrays.arrays(kind, shape))
    size = draw(st.sampled_from([10.0, 0.25, 1 / 3]))
    x, y = draw(st.sampled_from([(1_600_000.0, 5_400_000.0), (179.75, -16.5), (0.1, -0.7)]))
    place = {
        "transform": rasterio.Affine(size, 0, x, 0, -size, y),
        "crs": draw(st.sampled_from(SYSTEMS)),
        "nodata": draw(st.sampled_from([None, 0, 7])),
    }
    return cells, place


def write(file: Path, cells: Any, place: dict[str, Any]) -> None:
    count, height, width = cells.shape
    file.parent.mkdir(parents=True, exist_ok=True)
    size = {"width": width, "height": height, "count": count, "dtype": cells.dtype}
    with rasterio.open(file, "w", driver="GTiff", **size, **place) as out:
        out.write(cells)


def check(file: Path, cells: Any, place: dict[str, Any]) -> int:
    """Check what rasterio reads of an image; return how many cells."""
    with rasterio.open(file) as found:
        held = found.read()
        assert held.dtype == cells.dtype and held.shape == cells.shape
        # The bits, so that one NaN is like itself, and a zero has its sign.
        assert held.tobytes() == cells.tobytes()
        assert found.transform.almost_equals(place["transform"], 1e-9)
        assert found.crs == (place["crs"] and rasterio.CRS.from_user_input(place["crs"]))
        assert found.nodata == place["nodata"]
    return int(held.size)


@pytest.mark.thorough
@given(image=images(), other=st.integers(1, 250), tile=st.sampled_from([None, (16, 16), (33, 20)]))
@tried
def test_images_out_and_in_and_another_release(
    image: tuple[Any, dict[str, Any]], other: int, tile: Any, tally: Tally
) -> None:
    cells, place = image
    with folder() as top:
        write(top / "in" / "a.tif", cells, place)
        repo = empty_repo(top / "repo", settings=LOCAL)
        options = SourceOptions(raster=RasterReading(tile=tile))
        repo.import_(str(top / "in"), NAME, options=options)
        repo.export(NAME, top / "out", format="geotiff")
        tally.case(PROGRAM, "import and export", check(top / "out" / "a.tif", cells, place))

        changed = cells.copy()
        changed[0, 0, 0] = other
        write(top / "in" / "a.tif", changed, place)
        repo.import_(str(top / "in"), NAME, options=options, replace=True)
        repo.export(NAME, top / "new", format="geotiff")
        repo.export(
            NAME,
            top / "old",
            format="geotiff",
            revision="HEAD^" if (changed.tobytes() != cells.tobytes()) else "HEAD",
        )
        count = check(top / "new" / "a.tif", changed, place) + check(
            top / "old" / "a.tif", cells, place
        )
        tally.case(PROGRAM, "import --replace and export", count)


TYPES = {4: "uint8", 5: "int16", 6: "uint16", 7: "int32", 8: "uint32", 10: "float32", 11: "float64"}
"""The pixel types of Havasu."""


def raster_of(cell: dict[str, Any]) -> dict[str, Any]:
    """Return what rasterio finds in a raster of a table."""
    bands = [cell[f"band_{n}"] for n in range(1, 5)] + (cell["bands"] or [])
    there = [band for band in bands if band is not None]
    assert len(there) == cell["num_bands"]
    (kind,) = {TYPES[band["pixel_type"]] for band in there}
    (empty,) = {band["no_data"] for band in there}
    at, shape = cell["geo_reference"], (cell["height"], cell["width"])
    # Havasu names the middle of the first cell.
    place = rasterio.Affine(
        at["scale_x"], at["skew_x"], at["upperleft_x"],
        at["skew_y"], at["scale_y"], at["upperleft_y"],
    ) @ rasterio.Affine.translation(-0.5, -0.5)  # fmt: skip
    how = {
        "crs": cell["crs_wkt"],
        "transform": place,
        "nodata": None if empty is None else np.frombuffer(empty, kind)[0],
    }
    size = {"width": shape[1], "height": shape[0], "count": len(there), "dtype": kind}
    with MemoryFile() as file:
        with file.open(driver="GTiff", **size, **how) as out:
            out.write(np.stack([np.frombuffer(b["data"], kind).reshape(shape) for b in there]))
        with file.open() as found:
            return {
                "cells": found.read(),
                "transform": found.transform,
                "crs": found.crs,
                "nodata": found.nodata,
            }


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@given(image=images(), other=st.integers(1, 250), tile=st.sampled_from([None, (16, 16), (33, 20)]))
@tried
def test_checkout(image: tuple[Any, dict[str, Any]], other: int, tile: Any, tally: Tally) -> None:
    cells, place = image
    with folder() as top:
        write(top / "in" / "a.tif", cells, place)
        repo = empty_repo(top / "repo", settings=LOCAL)
        options = SourceOptions(raster=RasterReading(tile=tile))
        repo.import_(str(top / "in"), NAME, options=options)
        root = Path(repo.workspace.check_out().root)
        for value in (None, other):
            if value is not None:
                cells = cells.copy()
                cells[-1, -1, -1] = value
                write(top / "in" / "a.tif", cells, place)
                repo.import_(str(top / "in"), NAME, options=options, replace=True)
            newest = max((root / NAME / "metadata").glob("v*.metadata.json"), key=version)
            rows = StaticTable.from_metadata(str(newest)).scan().to_arrow().to_pylist()
            held = joined([row["rast"] for row in rows], cells, place)
            tally.case(PROGRAM, "checkout", held)


def version(file: Path) -> int:
    return int(file.name.split(".")[0].removeprefix("v"))


def joined(tiles: list[dict[str, Any]], cells: Any, place: dict[str, Any]) -> int:
    """Check tiles against the image that they were cut from, cell by cell; return how many."""
    left = np.zeros(cells.shape[1:], bool)
    for tile in tiles:
        found = raster_of(tile)
        column, row = ~place["transform"] @ (found["transform"].c, found["transform"].f)
        x, y = round(column), round(row)
        _, height, width = found["cells"].shape
        part = cells[:, y : y + height, x : x + width]
        assert found["cells"].dtype == cells.dtype and found["cells"].tobytes() == part.tobytes()
        assert not left[y : y + height, x : x + width].any()
        left[y : y + height, x : x + width] = True
        assert found["nodata"] == place["nodata"]
        assert found["crs"] == (place["crs"] and rasterio.CRS.from_user_input(place["crs"]))
    assert left.all()
    return int(cells.size)
