"""Windows: a read finds what shapely finds, and leaves out what cannot match."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu.parquet import open_parquet
from havasu_vc.datasets.havasu.statistics import block_names
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.geo.predicates import SpatialPredicate, Window, matching_rows
from havasu_vc.geo.wkb import from_canonical
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.spark.reading import parse_window, read_view, spatial_tests
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXACT = {"intersects": shapely.intersects, "within": shapely.within, "contains": shapely.contains}
numbers = st.sampled_from([0.0, 1.0, 2.0, 2.5, 7.0, 10.0])
boxes = st.tuples(numbers, numbers, numbers, numbers).map(
    lambda c: shapely.box(min(c[0], c[2]), min(c[1], c[3]), max(c[0], c[2]), max(c[1], c[3]))
)
shapes = st.one_of(
    boxes,
    st.tuples(numbers, numbers).map(shapely.Point),
    st.lists(st.tuples(numbers, numbers), min_size=3, max_size=5).map(shapely.LineString),
    st.just(shapely.Point()),
    st.none(),
    # Of shapes that are not valid, such as boxes without area, GEOS says now this, now that.
).filter(lambda shape: shape is None or shape.is_valid)
windows = st.one_of(
    boxes.filter(lambda box: box.area > 0),
    st.tuples(numbers, numbers).map(shapely.Point),
    st.just(shapely.from_wkt("POLYGON ((0 0, 10 0, 10 10, 0 0))")),
    st.just(shapely.Polygon()),
)


def encoded(geometries: list[Any], encoding: Encoding) -> pa.Array:
    wkb = pa.array(shapely.to_wkb(np.array(geometries, object), byte_order=1), pa.binary())
    return from_canonical(wkb, None, encoding.value)


@examples(300)
@given(
    geometries=st.lists(shapes, max_size=8),
    window=windows,
    predicate=st.sampled_from(list(SpatialPredicate)),
    encoding=st.sampled_from(list(Encoding)),
)
def test_rows_match_as_shapely_says(
    geometries: list[Any], window: Any, predicate: SpatialPredicate, encoding: Encoding
) -> None:
    found = matching_rows(encoded(geometries, encoding), encoding, predicate, Window(window))

    exact = EXACT[predicate.value]
    assert found.tolist() == [one is not None and bool(exact(one, window)) for one in geometries]


def grid(encoding: Encoding) -> tuple[Schema, list[Row], npt.NDArray[Any]]:
    """Return a schema, rows and geometries: points of a grid, cell by cell."""
    type_ = Primitive.BINARY if encoding.is_binary else Primitive.STRING
    key = Field(1, "id", Primitive.LONG, required=True)
    schema = Schema((key, Field(2, "geom", type_, geometry=Geometry(encoding))), (1,))
    points = [shapely.Point(x, y) for x in range(0, 12, 2) for y in range(0, 12, 2)]
    values = encoded(points, encoding).to_pylist()
    rows: list[Row] = [{1: number, 2: value} for number, value in enumerate(values)]
    rows.append({1: 99, 2: None})
    return schema, rows, np.array(points, object)


def query(spark: "SparkSession", view: HavasuDataset, **given: Any) -> list[int]:
    tests = spatial_tests(view.schema, None, given)
    return sorted(row.id for row in read_view(spark, view, columns=["id"], tests=tests).collect())


@pytest.mark.parametrize("encoding", list(Encoding))
def test_a_read_of_any_encoding(spark: "SparkSession", tmp_path: Path, encoding: Encoding) -> None:
    schema, rows, points = grid(encoding)
    with tiny_thresholds(group_rows=6):
        datasets = MemoryDatasets(tmp_path)
        view = datasets.new(schema, rows, hilbert=2)
        changes = changes_between(rows, rows[2:], schema)
        view = datasets.apply(view, stream_of(changes, schema))

    for predicate, window in (
        ("intersects", shapely.box(1, 1, 4, 4)),
        ("within", shapely.box(2, 2, 6, 6)),
        ("contains", shapely.Point(4, 4)),
        ("intersects", shapely.from_wkt("POLYGON ((0 0, 10 0, 10 10, 0 0))")),
        ("intersects", shapely.box(90, 90, 91, 91)),
    ):
        wanted = np.flatnonzero(EXACT[predicate](points, window)).tolist()
        assert query(spark, view, **{predicate: window}) == [one for one in wanted if one >= 2]
    both = query(spark, view, intersects=(0, 0, 6, 6), within="POLYGON ((1 1, 9 1, 9 9, 1 9, 1 1))")
    assert both == np.flatnonzero(shapely.within(points, shapely.box(1, 1, 7, 7))).tolist()


def test_blocks_tell_where_rows_are(spark: "SparkSession", tmp_path: Path) -> None:
    schema, rows, _ = grid(Encoding.WKB)
    with tiny_thresholds(group_rows=6):
        view = MemoryDatasets(tmp_path).new(schema, rows, hilbert=2)
    (entry,) = view.data_entries

    with open_parquet(view.file_path(entry)) as file:
        sides = file.read(columns=list(block_names(2))).to_pydict()
        names = file.schema_arrow.names
    assert names == ["id", "geom", *block_names(2)]
    assert sides["_havasu_2_xmin"][:6] == [0.0] * 6
    assert sides["_havasu_2_xmax"][6:12] == [2.0] * 6
    assert sides["_havasu_2_xmin"][-1] == float("inf")
    tests = spatial_tests(schema, None, {"intersects": (0, 0, 1, 1)})
    plan = str(read_view(spark, view, tests=tests)._jdf.queryExecution().executedPlan())
    assert "LessThanOrEqual(_havasu_2_xmin,1.0)" in plan


def test_a_table_in_key_order_has_no_blocks(tmp_path: Path) -> None:
    schema, rows, _ = grid(Encoding.WKB)
    with tiny_thresholds(group_rows=6):
        view = MemoryDatasets(tmp_path).new(schema, rows)

    with open_parquet(view.file_path(view.data_entries[0])) as file:
        assert file.schema_arrow.names == ["id", "geom"]


POINT = shapely.Point(1, 2)


@pytest.mark.parametrize(
    "value",
    [POINT, POINT.wkt, POINT.wkb, bytearray(POINT.wkb), '{"type":"Point","coordinates":[1,2]}'],
)
def test_windows_of_any_form(value: Any) -> None:
    assert parse_window(value).geometry.equals(POINT)


@pytest.mark.parametrize("value", [3, (1, 2, 3), (5, 0, 1, 1), ("a", 0, 1, 1), "no geometry", b"x"])
def test_what_is_no_window(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="window"):
        parse_window(value)


def test_windows_need_a_geometry_column() -> None:
    schema = Schema((Field(1, "id", Primitive.LONG, required=True),), (1,))

    with pytest.raises(InvalidArgumentError, match="no geometry column"):
        spatial_tests(schema, None, {"intersects": POINT})
