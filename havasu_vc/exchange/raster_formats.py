"""Which files hold images that rasters are made of, by extension, and what reads them."""

from __future__ import annotations

from typing import Final

__all__ = ["RASTER_DRIVERS"]

RASTER_DRIVERS: Final = {
    ".tif": "GTiff",
    ".tiff": "GTiff",
    ".jp2": "JP2OpenJPEG",
    ".img": "HFA",
}
"""GDAL's driver for each extension.

A file is what its name says: one of XML called .tif could have GDAL read any other file.
"""
