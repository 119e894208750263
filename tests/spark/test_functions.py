"""ST_ and RS_ functions in SQL and on columns; what they compute is tested with the functions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.geo.functions.all_functions import FUNCTIONS, compute
from havasu_vc.geo.raster_v1 import GeoReference, format_rasters
from havasu_vc.geo.raster_v1_pixels import raster_of_pixels
from havasu_vc.spark import functions
from havasu_vc.spark.functions import series_udf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BUILT_IN = {"ST_GeomFromWKB", "ST_AsBinary", "ST_SRID", "ST_SetSRID"}


@pytest.fixture(scope="module")
def sql(spark: "SparkSession") -> Iterator["SparkSession"]:
    """Return a session of its own registry, with all functions that Spark lacks."""
    session = spark.newSession()
    registered = functions.register(session)
    assert set(FUNCTIONS) - set(registered) <= BUILT_IN
    yield session
    session.catalog.clearCache()


def one(session: "SparkSession", query: str) -> Any:
    (row,) = session.sql(query).collect()
    return row[0] if len(row) == 1 else tuple(row)


def test_constants_of_every_form(sql: "SparkSession") -> None:
    found = one(
        sql,
        "SELECT ST_Area('POLYGON ((0 0, 4 0, 4 2, 0 0))'), ST_X(ST_Point(1, 2.5)),"
        ' ST_Y(\'{"type": "Point", "coordinates": [1, 2.5]}\'),'
        " ST_AsText(ST_GeomFromText('POINT (1 2)')), ST_Intersects(NULL, 'POINT (1 1)')",
    )

    assert found == (4.0, 1.0, 2.5, "POINT (1 2)", None)


def test_rows_of_a_table(sql: "SparkSession") -> None:
    sql.range(1000).selectExpr("id", "ST_Point(id, id) AS geom").createOrReplaceTempView("points")

    found = one(
        sql,
        "SELECT count(*), min(id), max(id) FROM points"
        " WHERE ST_Intersects(geom, ST_MakeEnvelope(10, 10, 19.5, 19.5))",
    )

    assert found == (10, 10, 19)


def test_aggregates(sql: "SparkSession") -> None:
    sql.range(10).selectExpr(
        "id % 2 AS k", "ST_MakeEnvelope(id, 1, id, 3) AS geom"
    ).createOrReplaceTempView("k")
    rows = sql.sql(
        "SELECT k, ST_AsText(ST_Envelope_Agg(geom)), ST_NumGeometries(ST_Collect_Agg(geom))"
        " FROM k GROUP BY k ORDER BY k"
    ).collect()

    assert [tuple(row) for row in rows] == [
        (0, "POLYGON ((0 1, 8 1, 8 3, 0 3, 0 1))", 5),
        (1, "POLYGON ((1 1, 9 1, 9 3, 1 3, 1 1))", 5),
    ]


def test_functions_of_columns(sql: "SparkSession") -> None:
    from pyspark.sql.functions import lit

    frame = sql.createDataFrame([("POINT (1 2)",), (None,)], "geom string")
    made = frame.select(functions.ST_X("geom"), functions.ST_Buffer(frame.geom, lit(0)))

    assert [row[0] for row in made.collect()] == [1.0, None]
    assert "ST_X(geom)" in made.columns
    with pytest.raises(InvalidArgumentError, match="ST_X takes 1 argument, not 2"):
        functions.ST_X("geom", "geom")
    box = shapely.set_srid(shapely.box(0, 0, 1, 2), 2193)
    for within in (functions.ST_Within("geom", box), functions.ST_Contains(box, "geom")):
        assert [row[0] for row in frame.select(within).collect()] == [False, None]
    covered = frame.select(functions.ST_SRID(functions.ST_Union(box, "geom")))
    assert [row[0] for row in covered.collect()] == [2193, None]
    with pytest.raises(InvalidArgumentError, match="at least one column"):
        functions.ST_Area(box)
    with pytest.raises(TypeError, match="12 is no column"):
        functions.ST_Buffer("geom", 12)
    assert "ST_X" in dir(functions)
    assert not hasattr(functions, "ST_Nothing")
    assert functions.names() == tuple(FUNCTIONS)


def raster_rows() -> "pa.Array[Any]":
    pixels = np.arange(6, dtype=np.int16).reshape(2, 3)
    place = GeoReference.of_affine((10, 0, 100, 0, -10, 50))
    return format_rasters([raster_of_pixels([pixels] * 6, place, no_data=[0] * 6), None])


def test_rasters(sql: "SparkSession", tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1, 2], "rast": raster_rows()}), tmp_path / "r.parquet")
    sql.read.parquet(str(tmp_path / "r.parquet")).createOrReplaceTempView("rasters")
    rows = sql.sql(
        "SELECT RS_Width(rast), RS_NumBands(rast), RS_BandPixelType(rast, 6),"
        " RS_Value(rast, 'POINT (115 45)', 5), RS_Value(rast, 'POINT (105 45)'),"
        " RS_Metadata(rast).upper_left_x, ST_Area(RS_ConvexHull(rast)),"
        " RS_Intersects(rast, 'POINT (100 50)') FROM rasters ORDER BY id"
    ).collect()

    assert tuple(rows[0]) == (3, 6, "SIGNED_16BITS", 1.0, None, 100.0, 600.0, True)
    assert tuple(rows[1]) == (None,) * 8


def test_what_cannot_be_read_is_an_error_or_null(spark: "SparkSession") -> None:
    strict, lenient = spark.newSession(), spark.newSession()
    functions.register(strict, names=["st_area"])
    functions.register(lenient, names=["ST_Area"], lenient=True)
    query = "SELECT ST_Area('POLYGON ((0 0')"

    assert one(lenient, query) is None
    with pytest.raises(Exception, match="ST_Area: a geometry cannot be used") as caught:
        one(strict, query)
    assert "GeometryError" in str(caught.value)
    with pytest.raises(Exception, match=r"ST_Area: it takes a geometry, .* not int32"):
        one(lenient, "SELECT ST_Area(12)")


def test_what_is_there_stays_unless_replaced(spark: "SparkSession") -> None:
    session = spark.newSession()
    session.udf.register("st_area", lambda value: "mine")

    assert "ST_Area" not in functions.register(session)
    assert one(session, "SELECT ST_Area('POINT (1 1)')") == "mine"
    assert functions.register(session) == ()
    assert functions.register(session, names=["ST_Area"], replace=True) == ("ST_Area",)
    assert one(session, "SELECT ST_Area('POINT (1 1)')") == 0
    with pytest.raises(InvalidArgumentError, match="there is no function 'ST_Aera'"):
        functions.register(session, names=["ST_Aera"])


@pytest.mark.parametrize("name", ["ST_Area", "ST_Intersects", "RS_Width", "RS_Metadata"])
def test_series_give_what_arrays_give(sql: "SparkSession", name: str) -> None:
    if name.startswith("RS"):
        columns = {"a": raster_rows()}
        expected = compute(name, [raster_rows()], lenient=False).to_pylist()
    else:
        shapes = pa.array([shapely.box(0, 0, 1, 2).wkb, None])
        columns = {"a": shapes} | ({"b": pa.array(["POINT (1 1)"] * 2)} if "I" in name else {})
        expected = compute(name, list(columns.values()), lenient=False).to_pylist()
    from pyspark.sql.pandas.types import from_arrow_type

    frame = sql.createDataFrame(pa.table(columns))
    function = FUNCTIONS[name]

    def formula(*given: pa.Array) -> pa.Array:
        return compute(name, given, lenient=False)

    udf = series_udf(formula, from_arrow_type(function.result.arrow_type), aggregate=False)
    found = [row[0] for row in frame.select(udf(*frame.columns)).collect()]

    assert found[0] == expected[0] or found[0].asDict() == expected[0]
    assert found[1] is None or set(found[1]) == {None}
