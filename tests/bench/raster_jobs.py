"""Processes that the cases of rasters measure: images made once, and read by rasterio alone.

python -m tests.bench.raster_jobs make FOLDER COUNT SIDE
python -m tests.bench.raster_jobs read FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import rasterio


def make(folder: Path, count: int, side: int) -> None:
    """Write orthophotos: three bands of bytes, tiled, and compressed without loss."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[0:side, 0:side]
    for number in range(count):
        bands = [
            127 + 80 * np.sin(columns / (50 + 10 * band) + number) + 40 * np.cos(rows / 37)
            for band in range(3)
        ]
        pixels = np.stack([band + random.normal(0, 6, band.shape) for band in bands])
        place = rasterio.Affine(0.1, 0, 1_600_000 + number * side / 10, 0, -0.1, 5_400_000)
        with rasterio.open(
            folder / f"ortho_{number}.tif", "w", driver="GTiff", width=side, height=side, count=3,
            dtype="uint8", crs="EPSG:2193", transform=place, tiled=True, blockxsize=512,
            blockysize=512, compress="deflate", predictor=2, interleave="pixel",
        ) as image:  # fmt: skip
            image.write(pixels.clip(0, 255).astype(np.uint8))


def read(folder: Path) -> None:
    """Read every image whole."""
    for path in sorted(folder.glob("*.tif")):
        with rasterio.open(path) as image:
            image.read()


def main(arguments: list[str]) -> None:
    """Run the job that is named."""
    name, folder, *numbers = arguments
    if name == "make":
        make(Path(folder), *map(int, numbers))
    else:
        read(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
