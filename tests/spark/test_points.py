"""Windows over points: what Spark's own code finds is what shapely finds, to the last edge."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu.live import leading_bytes
from havasu_vc.engine.session import setting
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.spark.reading import read_view, spatial_tests
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row
from tests.datasets.thresholds import tiny_thresholds
from tests.spark.test_reading import plan_of
from tests.spark.test_spatial import EXACT, query
from tests.support.examples import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

numbers = st.sampled_from([-1.5, 0.0, -0.0, 1.0, 2.0, 2.5, 7.0, float("inf")])
points = st.tuples(numbers, numbers).map(shapely.Point)
anything = st.one_of(
    points,
    points,
    st.just(shapely.Point()),
    st.none(),
)
others = st.sampled_from([shapely.box(0, 0, 2, 2), shapely.LineString([(0, 0), (7, 7)])])
windows = st.sampled_from(
    [
        shapely.box(0, 0, 2, 2),
        shapely.box(-1.5, 1, 7, 2.5),
        shapely.from_wkt("POLYGON ((0 0, 2 0, 2 1, 2 2, 0 2, 0 0))"),
        shapely.from_wkt("POLYGON ((0 0, 7 0, 7 7, 0 0))"),
        shapely.Point(2, 2),
    ]
)


def written(shape: Any, form: dict[str, Any]) -> bytes | None:
    """Return a geometry as bytes of some form."""
    if shape is None:
        return None
    srid = form.get("srid")
    return bytes(
        shapely.to_wkb(
            shape if srid is None else shapely.set_srid(shape, srid),
            byte_order=form.get("byte_order", 1),
            include_srid=srid is not None,
            flavor=form.get("flavor", "extended"),
        )
    )


FORMS: list[dict[str, Any]] = [{}, {"srid": 2193}, {"byte_order": 0}]


@examples(8)
@given(
    shapes=st.lists(anything, min_size=1, max_size=9),
    other=st.none() | others,
    window=windows,
    form=st.sampled_from(FORMS),
    generated=st.booleans(),
)
def test_points_in_windows(
    spark: "SparkSession",
    shapes: list[Any],
    other: Any,
    window: Any,
    form: dict[str, Any],
    generated: bool,
) -> None:
    every = [*shapes, other]
    rows: list[Row] = [{1: i, 2: written(shape, form)} for i, shape in enumerate(every)]
    geometry = Field(2, "geom", Primitive.BINARY, geometry=Geometry(Encoding.EWKB))
    schema = Schema((Field(1, "id", Primitive.LONG, required=True), geometry), (1,))
    mode = "FALLBACK" if generated else "NO_CODEGEN"
    with (
        tempfile.TemporaryDirectory() as made,
        setting(spark, "spark.sql.codegen.wholeStage", str(generated).lower()),
        setting(spark, "spark.sql.codegen.factoryMode", mode),
    ):
        datasets = MemoryDatasets(Path(made))
        with tiny_thresholds(group_rows=4, most_deltas=9):
            half = len(rows) // 2
            view = datasets.new(schema, rows[half:])
            view = datasets.apply(view, stream_of(changes_between([], rows[:half], schema), schema))
            view = datasets.apply(view, stream_of(changes_between(rows[:1], [], schema), schema))
        for predicate in ("intersects", "within"):
            wanted = [
                i
                for i, shape in enumerate(every)
                if i and shape is not None and EXACT[predicate](shape, window)
            ]
            assert query(spark, view, **{predicate: window}) == wanted
        tests = spatial_tests(schema, None, {"intersects": window})
        plan = plan_of(read_view(spark, view, tests=tests))
    rectangle = shapely.envelope(window).equals(window) and window.area > 0
    left = [shape for shape in every[1:] if shape is not None]
    if left and rectangle and other is None and form.get("byte_order", 1):
        assert "Python" not in plan
    if "FileScan" in plan and (other is not None or not rectangle):
        assert "Python" in plan


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([b"abcd1", b"abcd2", None], {b"abcd"}),
        ([b"abcd1", b"abce2"], None),
        ([b"abc"], None),
        ([b""], None),
        ([None, None], set()),
        ([1, 1], None),
    ],
)
def test_what_values_begin_with(
    tmp_path: Path, values: list[Any], wanted: set[bytes] | None
) -> None:
    path = written_to(tmp_path, values)

    assert leading_bytes(path, 7, 4) == wanted
    assert leading_bytes(path, 8, 4) == frozenset()


def test_nothing_tells_without_statistics(tmp_path: Path) -> None:
    path = written_to(tmp_path, [b"abcd1"], write_statistics=False)

    assert leading_bytes(path, 7, 4) is None


def written_to(folder: Path, values: list[Any], **options: bool) -> str:
    """Write a column whose field id is 7."""
    column = pa.array(values)
    if pa.types.is_null(column.type):
        column = column.cast(pa.binary())
    field = pa.field("b", column.type, metadata={"PARQUET:field_id": "7"})
    path = str(folder / "file.parquet")
    pq.write_table(pa.table([column], pa.schema([field])), path, **options)
    return path
