"""What Sedona sees in Parquet files and GeoTIFFs; run by a Python that has PySpark 4.0.

Started as `python sedona_reader.py REQUEST ANSWER`, two paths of JSON. It knows nothing of
this project and imports nothing of it: it reads the files as any stranger would.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = (
    "org.apache.sedona:sedona-spark-shaded-4.0_2.13:1.8.0",
    # Sedona's rasters are GeoTools', which it may not carry itself.
    "org.datasyslab:geotools-wrapper:1.8.0-33.1",
)

SHAPES = """
    SELECT id, ST_AsText(shape) AS text, ST_SRID(shape) AS srid, ST_Area(shape) AS area,
           ST_NPoints(shape) AS points, ST_HasZ(shape) AS has_z
    FROM (SELECT id, {shape} AS shape FROM {rows}) ORDER BY id
"""

# A point without a SRID would be one of EPSG:4326 to RS_Value.
IMAGES = """
    SELECT path, RS_Width(image) AS width, RS_Height(image) AS height,
           RS_NumBands(image) AS bands, RS_SRID(image) AS srid,
           RS_UpperLeftX(image) AS x, RS_UpperLeftY(image) AS y,
           RS_ScaleX(image) AS scale_x, RS_ScaleY(image) AS scale_y,
           RS_BandAsArray(image, 1) AS first, RS_BandAsArray(image, 2) AS second,
           RS_Value(image, ST_SetSRID(ST_Point({x}, {y}), RS_SRID(image)), 2) AS value
    FROM (SELECT path, RS_FromGeoTiff(content) AS image FROM images) ORDER BY path
"""


def start() -> "SparkSession":
    """Start a session that has Sedona's functions."""
    from pyspark.sql import SparkSession

    session: SparkSession = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.packages", ",".join(PACKAGES))
        .config("spark.sql.extensions", "org.apache.sedona.sql.SedonaSqlExtensions")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.sedona.core.serde.SedonaKryoRegistrator")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    return session


def answer(session: "SparkSession", request: dict[str, Any]) -> dict[str, Any]:
    """Return what Sedona says of the geometries and images that a request names."""

    def told(statement: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in session.sql(statement).collect()]

    found: dict[str, Any] = {"spark": session.version}
    for name, (files, function) in request["geometries"].items():
        session.read.parquet(*files).createOrReplaceTempView("plain")
        found[name] = told(SHAPES.format(shape=f"{function}(geom)", rows="plain"))
        if name not in request["geoparquet"]:
            continue
        # GeoParquet's reader goes by what the file says of itself, and makes geometries.
        session.read.format("geoparquet").load(files).createOrReplaceTempView("geo")
        found[f"{name} as GeoParquet"] = told(SHAPES.format(shape="geom", rows="geo"))
    session.read.format("binaryFile").load(request["images"]).createOrReplaceTempView("images")
    x, y = request["point"]
    found["images"] = told(IMAGES.format(x=x, y=y))
    return found


if __name__ == "__main__":
    asked, answered = map(Path, sys.argv[1:])
    spark = start()
    answered.write_text(json.dumps(answer(spark, json.loads(asked.read_text()))))
    spark.stop()
