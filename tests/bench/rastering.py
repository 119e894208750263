"""Cases: tables of rasters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.cases import Figure, case
from tests.bench.process import Run, alternated
from tests.bench.scratch import Scratch

SPEED = 0.5
"""How fast an import must be, as a part of the speed at which rasterio reads alone."""


def _images(scratch: Scratch) -> tuple[Path, float]:
    """Return a folder of images, and how many MB of pixels they have."""
    # As many pixels as there would be points, so that a quick run is quick.
    side = 4096 if scratch.sizes.usual >= 1_000_000 else 2048
    path = scratch.folder / f"orthophotos-{side}"
    if not path.exists():
        scratch.python("-m", "tests.bench.raster_jobs", "make", path, "4", str(side))
    return path, 4 * 3 * side * side / 1e6


@case("import-rasters")
def import_rasters(scratch: Scratch) -> Iterator[Figure]:
    """A folder of orthophotos, cut into tiles, against rasterio's own reading."""
    images, size = _images(scratch)

    def imported(_: int) -> Run:
        repository = scratch.new_repository()
        run = scratch.havasu("-C", repository, "import", images, "orthos", "--tile", "512")
        scratch.remove(repository)
        return run

    def read(_: int) -> Run:
        return scratch.python("-m", "tests.bench.raster_jobs", "read", images)

    ours, theirs = alternated(imported, read, scratch.sizes.slow_runs)
    note = (
        f"{ours.wall:.1f} s ({ours.cpu:.1f} s CPU, {ours.memory:.0f} MB),"
        f" rasterio {theirs.wall:.1f} s ({theirs.cpu:.1f} s CPU)"
    )
    name = f"import {size:.0f} MB of GeoTIFF, time against rasterio's reading"
    yield Figure(name, ours.wall / theirs.wall, "x", 1 / SPEED, note)
