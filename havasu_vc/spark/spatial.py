"""Spatial conditions of a read: windows in, then a filter that is exact.

Files are left out by their bounds before Spark starts, and whatever is left is compared
geometry by geometry, in Python workers, a batch at a time. Points in rectangles need none
(`points`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from havasu_vc.datasets.havasu.live import SpatialTest
from havasu_vc.datasets.havasu.statistics import block_names
from havasu_vc.engine.session import ensure_package
from havasu_vc.engine.worker import forget_archives
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.geo.predicates import SpatialPredicate, Window, matching_rows
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field
from havasu_vc.spark import functions

__all__ = ["blocks_that_match", "exact_filter", "parse_window", "spatial_tests"]


def spatial_tests(
    schema: Schema, geometry: str | None, windows: Mapping[str, Any]
) -> tuple[SpatialTest, ...]:
    """Return the tests that windows by the name of a predicate mean."""
    given = {name: window for name, window in windows.items() if window is not None}
    if not given:
        return ()
    column = _geometry_column(schema, geometry)
    return tuple(
        SpatialTest(column.id, SpatialPredicate(name), parse_window(window))
        for name, window in given.items()
    )


def _geometry_column(schema: Schema, name: str | None) -> Field:
    rasters = tuple(field for field in schema.fields if field.raster is not None)
    found = (*schema.geometries, *rasters)
    if name is not None:
        found = tuple(field for field in found if field.name == name)
    if not found:
        what = "geometry column" if name is None else f"geometry column {name!r}"
        raise InvalidArgumentError(f"the dataset has no {what}")
    return found[0]


def parse_window(value: Any) -> Window:
    """Return the window that a value of any of the forms describes."""
    if isinstance(value, Window):
        return value
    if isinstance(value, str | bytes):
        return Window.parse(value)
    if isinstance(value, bytearray | memoryview):
        return Window.parse(bytes(value))
    if isinstance(value, tuple | list) and len(value) == 4:
        try:
            return Window.of_bounds(Bounds(*map(float, value)))
        except (TypeError, ValueError) as error:
            raise _no_window(value) from error
    if hasattr(value, "wkb") and hasattr(value, "geom_type"):
        return Window(value)
    raise _no_window(value)


def _no_window(value: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{value!r} is no window",
        hints=("give WKT, WKB, GeoJSON, a shapely geometry, or (xmin, ymin, xmax, ymax)",),
    )


def blocks_that_match(frame: DataFrame, test: SpatialTest) -> DataFrame:
    """Return the rows of blocks that can hold a match, and those of files that have no blocks.

    The condition is one that Spark pushes down to row groups and pages.
    """
    bounds = test.window.bounds
    if bounds is None:
        return frame
    sides = [F.col(name) for name in block_names(test.column)]
    west, south, east, north = sides
    if test.predicate is SpatialPredicate.CONTAINS:
        meets = [west <= bounds.xmin, south <= bounds.ymin]
        meets += [east >= bounds.xmax, north >= bounds.ymax]
    else:
        meets = [west <= bounds.xmax, south <= bounds.ymax]
        meets += [east >= bounds.xmin, north >= bounds.ymin]
    for side, meet in zip(sides, meets, strict=True):
        frame = frame.where(side.isNull() | meet)
    return frame


def exact_filter(frame: DataFrame, column: Field, test: SpatialTest) -> DataFrame:
    """Return the rows of a frame that match a test."""
    if column.raster is not None:
        return frame.where(_areas_match(column, test))
    assert column.geometry is not None
    ensure_package(frame.sparkSession)
    matches = _matcher(column.geometry.encoding, test.predicate, test.window)
    quoted = "`" + column.name.replace("`", "``") + "`"
    try:
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
    except ImportError:  # before Spark 4.1
        return frame.mapInArrow(_filtering(column.name, matches), frame.schema)
    return frame.where(arrow_udf(matches, "boolean")(frame[quoted]))


_HEADER = ("width", "height", "num_bands", "crs_wkt", "geo_reference")


def _areas_match(column: Field, test: SpatialTest) -> Column:
    """Return whether the area of each raster matches; no pixels are read for it."""
    raster = F.col("`" + column.name.replace("`", "``") + "`")
    header = F.struct(*(raster.getField(name).alias(name) for name in _HEADER))
    matches: Column = getattr(functions, f"RS_{test.predicate.value.capitalize()}")(
        F.when(raster.isNotNull(), header), test.window.on_globe
    )
    return matches


def _matcher(
    encoding: Encoding, predicate: SpatialPredicate, window: Window
) -> Callable[[pa.Array], pa.Array]:
    # Shapely pickles a geometry as WKB; what is prepared stays behind, and is made anew once.
    def matches(column: pa.Array) -> pa.Array:
        forget_archives()
        return pa.array(matching_rows(column, encoding, predicate, window))

    return matches


def _filtering(
    name: str, matches: Callable[[pa.Array], pa.Array]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def filtered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(matches(batch.column(name)))

    return filtered
