"""rasterio: images that it writes come in, and it reads what goes out, by value."""

from pathlib import Path
from typing import Any

import rasterio
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

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
