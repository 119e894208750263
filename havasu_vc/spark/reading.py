"""Datasets as data frames, at any revision, read by Spark itself and without a jar.

The driver plans from entries: files that cannot hold a matching row are left out, the
others are grouped by how their columns are read, each group is one scan of Spark's own
Parquet reader that leaves deleted rows out, and their union is the dataset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from havasu_vc.datasets.havasu.live import Comparable, LiveFile, SpatialTest, ValueRange, live_files
from havasu_vc.datasets.havasu.parquet import open_parquet, splits_streams
from havasu_vc.datasets.havasu.statistics import block_names
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles
from havasu_vc.engine.session import is_connect
from havasu_vc.engine.shipping import ensure_package
from havasu_vc.engine.worker import forget_archives
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.geo.predicates import SpatialPredicate, Window, WindowValue, matching_rows
from havasu_vc.library import Repo
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, run_task
from havasu_vc.model.types import Encoding, Field, Primitive, descendants
from havasu_vc.spark import functions
from havasu_vc.spark.java_methods import points_inside
from havasu_vc.spark.live_rows import apart, far_frame, in_place, live_rows
from havasu_vc.spark.physical import PhysicalColumns, file_columns, grouped, spark_schema
from havasu_vc.spark.rows import frame_of, shown_rows
from havasu_vc.store.object_urls import is_url

__all__ = [
    "blocks_that_match",
    "exact_filter",
    "parse_window",
    "read",
    "register",
    "spatial_tests",
    "view_name",
]


Wanted: TypeAlias = Comparable | tuple[Comparable | None, Comparable | None] | None
"""A value of a column, or the least and the greatest one, None for no limit."""


def read(
    spark: SparkSession,
    repo: Repo | str | Path,
    dataset: str,
    ref: str = "HEAD",
    *,
    columns: Sequence[str] | None = None,
    where: str | Column | Mapping[str, Wanted] | None = None,
    geometry: str | None = None,
    intersects: WindowValue | None = None,
    within: WindowValue | None = None,
    contains: WindowValue | None = None,
) -> DataFrame:
    """Return the rows of a dataset at a revision.

    `where` is a condition in SQL, a column, or values by column name: one value, or a pair
    of the least and the greatest, None for no limit. `intersects`, `within` and `contains`
    each give a window that rows must match: a shapely geometry, WKT, GeoJSON, WKB, or
    (xmin, ymin, xmax, ymax), in the coordinates of the column `geometry`, by default the
    first one of the dataset.
    """
    source = opened(repo)
    view = in_place(source, source.dataset(dataset, ref), session=spark)
    windows = {"intersects": intersects, "within": within, "contains": contains}
    tests = spatial_tests(view.schema, geometry, windows)
    return read_view(spark, view, columns=columns, where=where, tests=tests)


def read_view(
    spark: SparkSession,
    view: Dataset,
    *,
    columns: Sequence[str] | None = None,
    where: str | Column | Mapping[str, Wanted] | None = None,
    tests: Sequence[SpatialTest] = (),
) -> DataFrame:
    """Return the rows of a view."""
    names = tuple(columns) if columns is not None else view.schema.names
    _check_columns(names, view)
    wanted = where if isinstance(where, Mapping) else {}
    ranges = {name: _range(value) for name, value in wanted.items()}
    _check_columns(tuple(ranges), view)
    by_id = {view.schema.by_name[name].id: value for name, value in ranges.items()}
    needed = _needed(view, names, ranges, tests, where)
    scanned: Sequence[LiveFile] | None = None
    stored = view.in_files
    if stored is not None:
        files = live_files(stored, ranges=by_id, tests=tests)
        clustered = stored.layout.clustered
        blocks = [test for test in tests if test.column == clustered]
        # Spark has no reader for buckets unless it was given one; ours needs no jar, and no JVM.
        far = [file for file in files if is_url(file.path)]
        near = [file for file in files if not is_url(file.path)]
        if (
            is_connect(spark)
            or any(map(is_url, (path for file in near for path in file.deletes)))
            or any(_is_beyond_spark(stored, file) for file in near)
        ):
            frame = far_frame(spark, files, needed, by_id, blocks)
        elif far:
            frame = far_frame(spark, far, needed, by_id, blocks)
            frame = frame.union(_union(spark, stored, near, needed, blocks)) if near else frame
        else:
            frame, scanned = _union(spark, stored, files, needed, blocks), files
    else:
        frame = _scanned(spark, view, needed)
    for name, each in ranges.items():
        frame = _within_range(frame, quoted(name), each)
    if where is not None and not isinstance(where, Mapping):
        frame = _where(frame, where)
    for test in tests:
        column = view.schema.by_id[test.column]
        few = None if scanned is None else points_inside(frame, scanned, column, test)
        frame = exact_filter(frame, column, test) if few is None else few
    return frame.select(*(quoted(name) for name in names))


def register(
    spark: SparkSession,
    repo: Repo | str | Path,
    ref: str = "HEAD",
    *,
    prefix: str = "",
) -> dict[str, str]:
    """Make every dataset a temporary view, and return the names of the views by dataset.

    A view is called as its dataset, with `_` for whatever SQL would want quoted: `nz/roads`
    is `nz_roads`. Two that would be called alike get `_2` and so on. A broken one gets none.
    """
    source = opened(repo)
    names: dict[str, str] = {}
    for path in source.sound_datasets(ref):
        name = view_name(path, prefix, set(names.values()))
        read(spark, source, path, ref).createOrReplaceTempView(name)
        names[path] = name
    return names


def view_name(path: str, prefix: str = "", taken: set[str] | None = None) -> str:
    """Return what the view of a dataset is called.

    >>> view_name("nz/road-sections"), view_name("nz/roads", taken={"nz_roads"})
    ('nz_road_sections', 'nz_roads_2')
    """
    plain = re.sub(r"\W", "_", prefix + path)
    name = first = plain if not plain[:1].isdigit() else f"_{plain}"
    number = 2
    lowered = {each.lower() for each in taken or ()}
    while name.lower() in lowered:
        name, number = f"{first}_{number}", number + 1
    return name


def opened(repo: Repo | str | Path) -> Repo:
    """Return a repository that is given as one or by its path."""
    return repo if isinstance(repo, Repo) else Repo.open(repo)


def _check_columns(names: Sequence[str], view: Dataset) -> None:
    for name in names:
        if name not in view.schema.by_name:
            raise InvalidArgumentError(
                f"{view.path} has no column {name!r}",
                hints=(f"its columns are {', '.join(view.schema.names)}",),
            )


def _needed(
    view: Dataset,
    names: Sequence[str],
    ranges: Mapping[str, ValueRange],
    tests: Sequence[SpatialTest],
    where: object,
) -> Schema:
    """Return the columns to plan for; Spark reads of them what the query uses."""
    if where is not None and not isinstance(where, Mapping):
        return view.schema
    used = {*names, *ranges, *(view.schema.by_id[test.column].name for test in tests)}
    return view.schema.select(tuple(name for name in view.schema.names if name in used))


def _union(
    spark: SparkSession,
    view: DatasetInFiles,
    files: Sequence[LiveFile],
    schema: Schema,
    blocks: Sequence[SpatialTest],
) -> DataFrame:
    shown = spark_schema(schema)
    scans = [
        (
            columns,
            _scan(spark, columns, [files[n] for n in members], blocks),
        )
        for columns, numbers in grouped(_file_columns(view, each, schema) for each in files)
        for members in apart(files, numbers)
    ]
    parts = [scan.select(*columns.columns(schema.fields)) for columns, scan in scans]
    if not parts:
        return spark.createDataFrame([], shown)
    return reduce(DataFrame.union, parts)


def _is_beyond_spark(view: DatasetInFiles, file: LiveFile) -> bool:
    """Whether a file has an encoding that Spark's vectorised reader lacks.

    Of ours only floats ever had it, in files from before they were stored as Spark reads
    them; files of others may have it anywhere.
    """
    entry = file.entry
    if entry.origin is not Origin.FOREIGN:
        fields = descendants(view.past_schema(entry.schema).fields)
        if not any(field.type in (Primitive.FLOAT, Primitive.DOUBLE) for field in fields):
            return False
    return splits_streams(file.path)


def _scanned(spark: SparkSession, view: Dataset, schema: Schema) -> DataFrame:
    """Return the rows of a dataset that Spark does not read itself, read by our own tasks."""

    def rows_of(task: Task) -> Iterator[pa.RecordBatch]:
        for batch in run_task(task):
            yield shown_rows(batch, schema)

    return frame_of(spark, view.scan(schema.names), rows_of, spark_schema(schema))


def _file_columns(view: DatasetInFiles, file: LiveFile, schema: Schema) -> PhysicalColumns:
    entry = file.entry
    if entry.origin is Origin.FOREIGN:
        # What others write they name as they like: the file itself must say.
        with open_parquet(file.path) as opened_file:
            return file_columns(opened_file.schema_arrow, schema.fields, entry.file)
    stored = arrow_schema(view.past_schema(entry.schema), physical=True)
    return file_columns(stored, schema.fields, entry.file)


def _scan(
    spark: SparkSession,
    columns: PhysicalColumns,
    files: Sequence[LiveFile],
    blocks: Sequence[SpatialTest],
) -> DataFrame:
    """Return the live rows of files, in their own columns."""
    wanted = columns.read_schema
    for name in sorted({name for test in blocks for name in block_names(test.column)}):
        wanted = wanted.add(name, "double")
    frame = live_rows(spark, wanted, files)
    for test in blocks:
        frame = blocks_that_match(frame, test)
    return frame


def _range(value: Wanted) -> ValueRange:
    if isinstance(value, tuple):
        if len(value) != 2:
            raise InvalidArgumentError(
                f"a range is a pair of the least and the greatest value, not {value!r}"
            )
        return ValueRange(*value)
    return ValueRange(value, value)


def _within_range(frame: DataFrame, name: str, wanted: ValueRange) -> DataFrame:
    if wanted.low is not None:
        frame = frame.where(F.col(name) >= F.lit(wanted.low))
    if wanted.high is not None:
        frame = frame.where(F.col(name) <= F.lit(wanted.high))
    return frame


def _where(frame: DataFrame, condition: str | Column) -> DataFrame:
    try:
        return frame.where(condition)
    except (AnalysisException, ParseException) as error:
        line = str(error).strip().splitlines()[0]
        raise InvalidArgumentError(f"the condition cannot be understood: {line}") from error


def quoted(name: str) -> str:
    """Return a column's name as SQL has it."""
    return "`" + name.replace("`", "``") + "`"


# Spatial conditions of a read: windows in, then a filter that is exact.
#
# Files are left out by their bounds before Spark starts, and whatever is left is compared
# geometry by geometry, in Python workers, a batch at a time. Points in rectangles need none
# (`points`).


def spatial_tests(
    schema: Schema, geometry: str | None, windows: Mapping[str, WindowValue | None]
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


def parse_window(value: WindowValue) -> Window:
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


def _no_window(value: WindowValue) -> InvalidArgumentError:
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
