"""Points in rectangles, told in the code that Spark generates, without a Python worker.

Most windows are rectangles and most large tables hold points, whose coordinates stand at fixed
bytes. Where footers prove that all values of the files are such points, a comparison of four
numbers is exact, and spares the rows their way through Python, which takes longer than reading
them. Everything else is compared geometry by geometry (`spatial`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from havasu_vc.datasets.havasu.live import LiveFile, SpatialTest, leading_bytes
from havasu_vc.geo.predicates import SpatialPredicate
from havasu_vc.model.types import Field, Primitive
from havasu_vc.spark.java_methods import ABSENT, called, called_static
from havasu_vc.store.object_urls import is_url

__all__ = ["points_inside"]

_MOST_FILES = 64
"""Files up to which footers are read to know: each takes the driver a millisecond."""
_HEADER = 5
_HAS_SRID = 0x20000000
_POINTS = (1, 1001, 2001, 3001)
"""A point in two to four dimensions, as WKB numbers it; EWKB has flags for these."""


def points_inside(
    frame: DataFrame, files: Sequence[LiveFile], column: Field, test: SpatialTest
) -> DataFrame | None:
    """Return the rows of files that pass a test; None where it takes more than numbers to tell."""
    if not files:
        return frame
    bounds = test.window.bounds
    if bounds is None or test.predicate is SpatialPredicate.CONTAINS or column.geometry is None:
        return None
    if not (column.geometry.encoding.is_binary and column.type is Primitive.BINARY):
        return None
    if not (test.window.is_rectangle and bounds.xmin < bounds.xmax and bounds.ymin < bounds.ymax):
        return None
    first = _first_coordinate(files, column)
    if first is None:
        return None
    geometry = F.col("`" + column.name.replace("`", "``") + "`")
    try:
        x = _double_at(frame.sparkSession, geometry, first)
        y = _double_at(frame.sparkSession, geometry, first + 8)
    except ABSENT:
        return None
    # A point without coordinates has NaN, which Spark holds for greater than any number.
    if test.predicate is SpatialPredicate.WITHIN:
        inside = (x > bounds.xmin) & (x < bounds.xmax) & (y > bounds.ymin) & (y < bounds.ymax)
    else:
        inside = (x >= bounds.xmin) & (x <= bounds.xmax) & (y >= bounds.ymin) & (y <= bounds.ymax)
    return frame.where(inside)


def _first_coordinate(files: Sequence[LiveFile], column: Field) -> int | None:
    """Return at which byte of all geometries the coordinates of a point begin, if that is so."""
    if len(files) > _MOST_FILES or any(is_url(file.path) for file in files):
        return None
    found: set[bytes] = set()
    for file in files:
        headers = leading_bytes(file.path, column.id, _HEADER)
        if headers is None:
            return None
        found |= headers
    places = {_coordinates_after(header) for header in found}
    return places.pop() if len(places) == 1 else None


def _coordinates_after(header: bytes) -> int | None:
    """Return where coordinates begin behind a header of WKB, if it is one of a point.

    >>> [_coordinates_after(bytes.fromhex(header)) for header in ("0101000000", "0101000020")]
    [5, 9]
    """
    if header[:1] != b"\1":
        return None
    type_ = int.from_bytes(header[1:], "little")
    if type_ & 0x1FFFFFFF not in _POINTS:
        return None
    return _HEADER + 4 if type_ & _HAS_SRID else _HEADER


def _double_at(spark: SparkSession, value: Column, place: int) -> Column:
    """Return the number at a byte of a value, low byte first."""
    buffer = "java.nio.ByteBuffer"
    wrapped = called_static(spark, buffer, "wrap", buffer, value, nulls=True)
    bits = called(spark, wrapped, "getLong", T.LongType(), F.lit(place), nulls=True)
    turned = called_static(spark, "java.lang.Long", "reverseBytes", T.LongType(), bits, nulls=True)
    longs = ("java.lang.Double", "longBitsToDouble", T.DoubleType())
    return called_static(spark, *longs, turned, nulls=True)
