"""`havasu-vc raster`: what the rasters of a dataset, or an image, are."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from havasu_vc.cli.arguments import parse_dataset_at
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option

if TYPE_CHECKING:
    from havasu_vc.geo.raster_v1_outlines import Outline, RasterSummary
    from havasu_vc.model.bounds import Bounds, GeographicBounds

__all__ = ["command"]

_IMAGES = (".tif", ".tiff", ".jp2", ".img")
_SHOWN = 6
_T = TypeVar("_T")


@click.group("raster")
def command() -> None:
    """Tell what rasters are: size, bands, place and pixels."""


@command.command(
    "info", cls=Command, short_help="Tell what rasters are: size, bands, place and pixels"
)
@click.argument("what", metavar="DATASET[@REV]|FILE.tif", shell_complete=complete_datasets)
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option("--column", metavar="COLUMN", help="The raster column, where there are several.")
@format_option("text", "json")
@click.pass_obj
def info(
    invocation: Invocation, what: str, keys: tuple[str, ...], column: str | None, output_format: str
) -> None:
    """Tell what the rasters of DATASET are, those of some rows, or an image.

    Size, bands with their pixel types and no-data values, coordinate reference system,
    extent there and in longitude and latitude (WGS 84), and where the pixels are. Of a
    dataset no pixel is read, and files that rasters name are not opened.
    """
    if Path(what).suffix.lower() in _IMAGES and Path(what).exists():
        from havasu_vc.exchange.geotiff import read_image_header

        if keys or column:
            raise click.UsageError("an image has no rows and columns of a table")
        _tell([(what, read_image_header(Path(what)).outline)], output_format)
        return
    repo = invocation.open_repo()
    path, revision = parse_dataset_at(what, known=repo.datasets())
    rasters = repo.rasters
    if keys:
        found = rasters.rows(path, keys, revision, column=column)
        _tell([(f"{path}:{key}", raster) for key, raster in found], output_format)
        return
    name, summary = rasters.summary(path, revision, column=column)
    if output_format == "json":
        _echo_json({"dataset": path, "column": name} | _summary_object(summary))
        return
    click.echo(visible(f"{path}: {counted(summary.rasters, 'raster')} in column {name}"))
    _echo_lines(_summary_lines(summary))


def _tell(found: list[tuple[str, Outline | None]], output_format: str) -> None:
    if output_format == "json":
        _echo_json(
            [
                {"raster": name} | ({} if raster is None else _object(raster))
                for name, raster in found
            ]
        )
        return
    for name, raster in found:
        click.echo(visible(name))
        _echo_lines({"": "no raster"} if raster is None else _lines(raster))


def _echo_json(value: Any) -> None:
    click.echo(json.dumps({"havasu.raster-info/v1": value}, indent=2, allow_nan=False))


def _echo_lines(lines: Mapping[str, str]) -> None:
    for name, value in lines.items():
        click.echo(visible(f"  {name:<12}{value}".rstrip()))


def _lines(raster: Outline) -> dict[str, str]:
    from havasu_vc.writers.rasters import crs_name, number

    place = raster.georeference
    _, b, corner_x, d, _, corner_y = place.affine
    lines = {
        "size": f"{raster.width:,} × {raster.height:,}",
        "bands": _bands_words(
            tuple((band.pixel_type.name.lower(), band.no_data_value) for band in raster.bands)
        ),
        "cell": f"{number(place.scale_x)} × {number(place.scale_y)}"
        + (f", skewed by {number(b)} and {number(d)}" if b or d else ""),
        "corner": f"{number(corner_x)} {number(corner_y)}",
        "first cell": f"{number(place.upperleft_x)} {number(place.upperleft_y)} at its centre",
        "CRS": crs_name(raster.crs_wkt) or "not known",
        **_extent_lines(raster),
        "pixels": f"{format_size(raster.stored_bytes)} in the table"
        if raster.stored_bytes
        else "none in the table",
    }
    files = Counter(band.out_db_url for band in raster.bands if band.out_db_url)
    if files:
        lines["files"] = _counted(files, lambda url: str(url), "bands")
    return lines


def _extent_lines(raster: Outline) -> dict[str, str]:
    from havasu_vc.geo.raster_v1_outlines import native_extent, place_on_globe
    from havasu_vc.writers.rasters import number

    extent = native_extent(raster)
    if extent is None:
        return {}
    lines = {"extent": " ".join(map(number, _box(extent)))}
    globe = place_on_globe(extent, raster.crs_wkt)
    if globe is not None:
        lines["in WGS 84"] = _globe_words(globe)
    return lines


def _box(extent: Bounds) -> list[float]:
    return [extent.xmin, extent.ymin, extent.xmax, extent.ymax]


def _degrees(globe: GeographicBounds) -> list[float]:
    return [globe.west, globe.south, globe.east, globe.north]


def _globe_words(globe: GeographicBounds) -> str:
    words = " ".join(f"{angle:.6f}" for angle in _degrees(globe))
    return words + (" across the antimeridian" if globe.crosses else "")


def _object(raster: Outline) -> dict[str, Any]:
    from havasu_vc.geo.raster_v1_outlines import native_extent, place_on_globe
    from havasu_vc.writers.rasters import crs_name

    extent = native_extent(raster)
    globe = place_on_globe(extent, raster.crs_wkt)
    return {
        "width": raster.width,
        "height": raster.height,
        "affine": list(raster.georeference.affine),
        "firstCell": [raster.georeference.upperleft_x, raster.georeference.upperleft_y],
        "crs": crs_name(raster.crs_wkt),
        "crsWkt": raster.crs_wkt,
        "extent": None if extent is None else _box(extent),
        "extentWgs84": None if globe is None else _degrees(globe),
        "inDbBytes": raster.stored_bytes,
        "bands": [
            {"pixelType": band.pixel_type.name.lower(), "noData": _plain(band.no_data_value)}
            | (
                {}
                if band.out_db_url is None
                else {"url": band.out_db_url, "fileBand": (band.out_db_band or 0) + 1}
            )
            for band in raster.bands
        ],
    }


def _summary_lines(summary: RasterSummary) -> dict[str, str]:
    from havasu_vc.writers.rasters import crs_name, number

    lines = {}
    if summary.rows > summary.rasters:
        lines["without"] = counted(summary.rows - summary.rasters, "row")
    if not summary.rasters:
        return lines
    lines["size"] = _counted(summary.sizes, lambda size: f"{size[0]} × {size[1]}")
    lines["bands"] = _counted(_kinds(summary), _bands_words)
    lines["cell"] = _counted(summary.cells, lambda cell: f"{number(cell[0])} × {number(cell[1])}")
    lines["CRS"] = _counted(summary.systems, lambda wkt: crs_name(wkt) or "not known")
    if len(summary.extents) == 1:
        (extent,) = summary.extents.values()
        lines["extent"] = " ".join(map(number, _box(extent)))
    globe = summary.on_globe
    lines["in WGS 84"] = "not known of all" if globe is None else _globe_words(globe)
    lines["pixels"] = f"{format_size(summary.stored_bytes)} in the table, before compression"
    if summary.out_db:
        names = sorted(summary.files)
        more = f" and {len(names) - 1:,} more" if names[1:] else ""
        lines["files"] = f"{names[0]}{more}, of {counted(summary.out_db, 'raster')}"
    return lines


def _kinds(summary: RasterSummary) -> Counter[tuple[tuple[str, float | None], ...]]:
    found: Counter[tuple[tuple[str, float | None], ...]] = Counter()
    for bands, count in summary.bands.items():
        found[tuple((kind.name.lower(), blank) for kind, blank in bands)] += count
    return found


def _summary_object(summary: RasterSummary) -> dict[str, Any]:
    from havasu_vc.writers.rasters import crs_name

    globe = summary.on_globe
    return {
        "rows": summary.rows,
        "rasters": summary.rasters,
        "sizes": [
            {"width": width, "height": height, "count": count}
            for (width, height), count in summary.sizes.most_common()
        ],
        "bands": [
            {
                "bands": [{"pixelType": kind, "noData": _plain(blank)} for kind, blank in bands],
                "count": count,
            }
            for bands, count in _kinds(summary).most_common()
        ],
        "crs": [
            {
                "crs": crs_name(wkt),
                "count": count,
                "extent": _box(summary.extents[wkt]) if wkt in summary.extents else None,
            }
            for wkt, count in summary.systems.most_common()
        ],
        "extentWgs84": None if globe is None else _degrees(globe),
        "inDbBytes": summary.stored_bytes,
        "outDbRasters": summary.out_db,
    }


def _plain(value: float | None) -> float | str | None:
    """Return a number that JSON has; what is none as text."""
    return value if value is None or math.isfinite(value) else str(value)


def _bands_words(bands: tuple[tuple[str, float | None], ...]) -> str:
    """Return bands in words, equal ones next to each other together.

    >>> _bands_words((("uint8", 0), ("uint8", 0), ("int16", None)))
    '2 × uint8 (no data 0) + 1 × int16'
    """
    from havasu_vc.writers.rasters import number

    parts = []
    for kind, blank, count in _runs(bands):
        said = "" if blank is None else f" (no data {number(blank)})"
        parts.append(f"{count} × {kind}{said}")
    shown = " + ".join(parts[:_SHOWN])
    return (shown or "none") + (" + …" if parts[_SHOWN:] else "")


def _runs(bands: tuple[tuple[str, float | None], ...]) -> Iterator[tuple[str, float | None, int]]:
    start = 0
    for at in range(1, len(bands) + 1):
        if at == len(bands) or repr(bands[at]) != repr(bands[start]):
            yield *bands[start], at - start
            start = at


def _counted(found: Counter[_T], words: Callable[[_T], str], of: str = "") -> str:
    """Return the commonest with how many there are, where there are several."""
    shown = found.most_common(_SHOWN)
    if len(found) == 1:
        return words(shown[0][0])
    what = f" {of}" if of else ""
    parts = [f"{words(value)} ({count:,}{what})" for value, count in shown]
    more = len(found) - len(shown)
    return ", ".join(parts) + (f" and {more:,} more" if more else "")
