"""GeoTIFFs that tests make, and rows of rasters."""

from pathlib import Path
from typing import Any

import numpy as np
import rasterio

AFFINE = rasterio.Affine(10, 0, 1_600_000, 0, -10, 5_400_000)
"""Cells of ten metres in the middle of New Zealand."""


def write_image(path: Path, array: "np.ndarray[Any, Any]", **options: Any) -> Path:
    """Write an array of bands as a GeoTIFF in EPSG:2193, or as the options say."""
    given = {"driver": "GTiff", "crs": "EPSG:2193", "transform": AFFINE} | options
    count, height, width = array.shape
    path.parent.mkdir(parents=True, exist_ok=True)
    size = {"width": width, "height": height, "count": count, "dtype": array.dtype}
    with rasterio.open(path, "w", **size, **given) as out:
        out.write(array)
    return path


def cells(kind: str = "uint8", shape: tuple[int, int, int] = (2, 70, 50)) -> Any:
    """Return bands in which no two tiles are alike."""
    return (np.arange(np.prod(shape)).reshape(shape) % 251).astype(kind)


def ortho_folder(folder: Path, *, changed: bool = False) -> Path:
    """Write three images side by side; with `changed`, one has a few cells that differ."""
    for number in range(3):
        array = cells() + number
        if changed and number == 1:
            array[0, 40:42, 3:8] = 9
        place = rasterio.Affine(10, 0, 1_600_000 + 500 * number, 0, -10, 5_400_000)
        write_image(folder / "sheets" / f"sheet_{number}.tif", array, transform=place)
    return folder
