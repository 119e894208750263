"""Rasters in words and as JSON that people can read: what they are, and what changed in them.

    RASTER(256 × 256 of 10 × -10, 3 × uint8, no data 0, EPSG:2193 at 1614120 5400000)
    band 1: 320 of 65,536 cells differ, by up to 5

Pixels are never printed here: a band is told by the hash of them. Whole rasters stand in
patches alone.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from havasu_vc.errors import GeometryError
from havasu_vc.model import compute as pc
from havasu_vc.writers.json_style import JsonLayout
from havasu_vc.writers.terminal import printable

if TYPE_CHECKING:
    from havasu_vc.geo.raster_v1 import Raster
    from havasu_vc.geo.raster_v1_differences import BandDifference, RasterDifference
    from havasu_vc.geo.raster_v1_outlines import Outline

__all__ = [
    "crs_name",
    "difference_lines",
    "difference_object",
    "differences",
    "footprint_tokens",
    "number",
    "raster_object",
    "raster_tokens",
    "raster_words",
    "readable_rasters",
    "words_of_changes",
    "words_of_rasters",
]

UNREADABLE: Final = "RASTER(...)"
"""The text for a raster that cannot be read."""
_LINES: Final = 8
_CODE: Final = re.compile(r'(?:ID|AUTHORITY)\["([A-Za-z]\w*)",\s*"?(\w+)"?(?:,[^][]*)?\]\s*\]\s*$')
_NAME: Final = re.compile(r'^\s*\w+\["([^"]+)"')


def readable_rasters(column: pa.Array) -> list[Raster | None]:
    """Return the rasters of a column, None for null and for one that cannot be read."""
    from havasu_vc.geo.raster_v1 import parse_rasters

    try:
        return parse_rasters(column)
    except GeometryError:
        if len(column) == 1:
            return [None]
        parts = (column.slice(row, 1) for row in range(len(column)))
        return [raster for part in parts for raster in readable_rasters(part)]


def words_of_rasters(column: pa.Array) -> pa.StringArray:
    """Return each raster in words; null stays null."""
    from havasu_vc.geo.raster_v1_outlines import Outline

    there = pc.is_valid(column).to_pylist()
    return pa.array(
        [
            None
            if not valid
            else UNREADABLE
            if raster is None
            else raster_words(Outline.of(raster))
            for raster, valid in zip(readable_rasters(column), there, strict=True)
        ],
        pa.string(),
    )


def words_of_changes(
    old: pa.Array, new: pa.Array, where: Sequence[bool] | None = None
) -> pa.StringArray:
    """Return the rasters of `new` in words, and what changed in each since `old`."""
    words = words_of_rasters(new).to_pylist()
    found = differences(old, new, where)
    sizes = zip(*(new.field(name).to_pylist() for name in ("width", "height")), strict=True)
    return pa.array(
        [
            text
            if text is None or difference is None
            else printable(f"{text}: {'; '.join(difference_lines(difference, width * height))}")
            for text, difference, (width, height) in zip(words, found, sizes, strict=True)
        ],
        pa.string(),
    )


def raster_words(raster: Outline) -> str:
    """Return a raster in words, with all that it says of itself."""
    a, b, c, d, e, f = raster.georeference.affine
    cell = f"{number(a)} × {number(e)}"
    if b or d:
        cell += f" skewed by {number(b)}, {number(d)}"
    parts = [f"{raster.width} × {raster.height} of {cell}", _bands_words(raster)]
    blanks = list(dict.fromkeys(number(band.no_data_value) for band in raster.bands))
    if blanks not in ([], ["none"]):
        parts.append(f"no data {'/'.join(blanks)}")
    system = crs_name(raster.crs_wkt) or "no CRS"
    parts.append(f"{system} at {number(c)} {number(f)}")
    files = list(dict.fromkeys(band.out_db_url for band in raster.bands if band.out_db_url))
    if files:
        parts.append(f"in {files[0]}" + (f" and {len(files) - 1} more" if files[1:] else ""))
    return f"RASTER({', '.join(parts)})"


def _bands_words(raster: Outline) -> str:
    kinds = [band.pixel_type.name.lower() for band in raster.bands]
    if not kinds:
        return "no bands"
    if len(set(kinds)) == 1:
        return f"{len(kinds)} × {kinds[0]}"
    return " + ".join(kinds[:6]) + (" + …" if kinds[6:] else "")


def crs_name(wkt: str | None) -> str | None:
    """Return a system as `EPSG:2193`, else by its name; None where there is none.

    >>> crs_name('GEOGCRS["WGS 84",ID["EPSG",4326]]'), crs_name('LOCAL_CS["Pit 3"]')
    ('EPSG:4326', 'Pit 3')
    """
    if wkt is None:
        return None
    if found := _CODE.search(wkt):
        return f"{found[1]}:{found[2]}"
    named = _NAME.match(wkt)
    return named[1][:80] if named else "unknown CRS"


def differences(
    old: pa.Array, new: pa.Array, where: Sequence[bool] | None = None
) -> list[RasterDifference | None]:
    """Return how rasters of two columns differ; None where one is not there or not `where`."""
    from havasu_vc.geo.raster_v1_differences import raster_difference

    found: list[RasterDifference | None] = []
    for row in range(len(old)):
        if where is not None and not where[row]:
            found.append(None)
            continue
        (before,), (after,) = (readable_rasters(side.slice(row, 1)) for side in (old, new))
        if before is None or after is None:
            found.append(None)
        else:
            found.append(raster_difference(before, after))
    return found


def difference_lines(difference: RasterDifference, cells: int) -> list[str]:
    """Return what differs in a few lines; `cells` is how many the raster has."""
    lines = [*_grid_lines(difference)]
    bands = [_band_line(band, cells) for band in difference.bands]
    lines += bands[:_LINES]
    if len(bands) > _LINES:
        lines.append(f"and {len(bands) - _LINES:,} more bands")
    return lines or ["the same numbers in other bytes"]


def _grid_lines(difference: RasterDifference) -> Iterator[str]:
    if difference.sizes is not None:
        (old_width, old_height), (width, height) = difference.sizes
        yield f"size {old_width} × {old_height} → {width} × {height}"
    if difference.affines is not None:
        old, new = difference.affines
        if (old[0], old[1], old[3], old[4]) == (new[0], new[1], new[3], new[4]):
            yield f"moved by {number(new[2] - old[2])}, {number(new[5] - old[5])}"
        else:
            yield f"georeference {_numbers(old)} → {_numbers(new)}"
    if difference.crs is not None:
        names = [crs_name(one) or "no CRS" for one in difference.crs]
        if names[0] == names[1]:
            yield f"another definition of {names[0]}"
        else:
            yield f"CRS {names[0]} → {names[1]}"


def _band_line(band: BandDifference, cells: int) -> str:
    if band.kind != "changed":
        return f"band {band.band} {band.kind}"
    parts = []
    if band.pixel_types is not None:
        parts.append(" → ".join(kind.name.lower() for kind in band.pixel_types))
    if band.no_data is not None:
        parts.append("no data " + " → ".join(map(number, band.no_data)))
    if band.files is not None:
        parts.append("pixels " + " → ".join(_place(file) for file in band.files))
    if band.file_bands is not None:
        old, new = (0 if number is None else number for number in band.file_bands)
        parts.append(f"band {old + 1} → {new + 1} of its file")
    if band.cells:
        text = f"{band.cells:,} of {cells:,} cells differ"
        if band.largest is not None:
            text += f", by up to {number(band.largest)}"
        parts.append(text)
    return f"band {band.band}: {'; '.join(parts) or 'other pixels'}"


def _place(file: str | None) -> str:
    return "in the table" if file is None else f"in {file}"


def raster_tokens(
    column: pa.Array,
    layout: JsonLayout,
    depth: int,
    changes: Sequence[RasterDifference | None] | None = None,
) -> pa.StringArray:
    """Return each raster as JSON without its pixels, with what changed where that is given."""
    there = pc.is_valid(column).to_pylist()
    found = zip(readable_rasters(column), there, changes or [None] * len(column), strict=True)
    return pa.array(
        [
            None
            if not valid
            else layout.dumps(
                {"unreadable": True} if raster is None else raster_object(raster, difference), depth
            )
            for raster, valid, difference in found
        ],
        pa.string(),
    )


def raster_object(raster: Raster, difference: RasterDifference | None = None) -> dict[str, Any]:
    """Return a raster as JSON tells it, its pixels by their hash alone."""
    found: dict[str, Any] = {
        "width": raster.width,
        "height": raster.height,
        "crs": crs_name(raster.crs_wkt),
        "affine": list(raster.georeference.affine),
        "bands": [
            {"pixelType": band.pixel_type.name.lower(), "noData": band.no_data_value}
            | (
                {"sha256": hashlib.sha256(band.data).hexdigest()}
                if band.data is not None
                else {"url": band.out_db_url, "fileBand": (band.out_db_band or 0) + 1}
            )
            for band in raster.bands
        ],
    }
    if difference is not None:
        found["difference"] = difference_object(difference)
    return found


def difference_object(difference: RasterDifference) -> dict[str, Any]:
    """Return what differs as an object that has only members for what does."""
    found: dict[str, Any] = {}
    if difference.sizes is not None:
        found["size"] = [list(size) for size in difference.sizes]
    if difference.affines is not None:
        found["affine"] = [list(affine) for affine in difference.affines]
    if difference.crs is not None:
        found["crs"] = [crs_name(wkt) for wkt in difference.crs]
    if difference.bands:
        found["bands"] = [_band_object(band) for band in difference.bands]
    return found


def _band_object(band: BandDifference) -> dict[str, Any]:
    found: dict[str, Any] = {"band": band.band}
    if band.kind != "changed":
        return found | {"change": band.kind}
    if band.cells is not None:
        found["cells"] = band.cells
        found["largest"] = band.largest
    if band.pixel_types is not None:
        found["pixelType"] = [kind.name.lower() for kind in band.pixel_types]
    if band.no_data is not None:
        found["noData"] = list(band.no_data)
    if band.files is not None:
        found["url"] = list(band.files)
    if band.file_bands is not None:
        found["fileBand"] = [None if one is None else one + 1 for one in band.file_bands]
    return found


def footprint_tokens(column: pa.Array, layout: JsonLayout, depth: int) -> pa.StringArray:
    """Return where each raster lies on the globe as GeoJSON; null where that is not known."""
    from havasu_vc.geo.raster_v1_outlines import footprints

    return pa.array(
        [None if shape is None else layout.dumps(shape, depth) for shape in footprints(column)],
        pa.string(),
    )


def number(value: float | None) -> str:
    """Return a number as people read it, `none` for None.

    >>> number(10.0), number(0.1), number(65536)
    ('10', '0.1', '65,536')
    """
    if value is None:
        return "none"
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value)) if abs(value) < 1e15 else f"{value:.6g}"
    return f"{value:.10g}" if isinstance(value, float) else f"{value:,}"


def _numbers(values: Sequence[float]) -> str:
    return "(" + " ".join(map(number, values)) + ")"
