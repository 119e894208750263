"""Delta's own reader for Spark on the tables that `export --to delta` writes.

Needs a Python that has PySpark 4.0, named by `HAVASU_VC_SEDONA` as in `test_sedona`, and a
JDK 17; Spark fetches Delta's jar from Maven Central once.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.templates import empty_repo

PYTHON = os.environ.get("HAVASU_VC_SEDONA")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(not PYTHON, reason="HAVASU_VC_SEDONA names no Python with PySpark 4.0"),
]

READER = """
import json, sys
from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars.packages", "io.delta:delta-spark_2.13:4.0.0")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
try:
    found = session.read.format("delta").load(sys.argv[1]).orderBy("id").collect()
    said = [
        {name: value.hex() if isinstance(value, bytearray) else value for name, value in
         row.asDict().items()}
        for row in found
    ]
except Exception as error:
    said = str(error)
print("ANSWER" + json.dumps(said))
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with the dataset `points`, 100 rows by id."""
    found = empty_repo(tmp_path / "repo")
    found.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    return found


def read(folder: Path) -> object:
    done = subprocess.run(
        [str(PYTHON), "-c", READER, str(folder)],
        env={**os.environ, "PYSPARK_PYTHON": str(PYTHON), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith("ANSWER")]
    assert answers, done.stderr[-3000:]
    return json.loads(answers[0].removeprefix("ANSWER"))


def test_a_plain_table_is_read_whole(repo: Repo, tmp_path: Path) -> None:
    repo.export("points", tmp_path / "t", format="delta", plain=True)

    wanted = [
        {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}
        for row in rows(repo, "points")
    ]
    assert read(tmp_path / "t") == wanted


def test_a_table_with_geometries_is_refused_by_name(repo: Repo, tmp_path: Path) -> None:
    repo.export("points", tmp_path / "t", format="delta")

    assert "geospatial" in str(read(tmp_path / "t"))
