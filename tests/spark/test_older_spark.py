"""Spark 4.0, for whoever has it: `HAVASU_SPARK_4_0` is a folder with that pyspark and py4j.

pip install --no-deps --target FOLDER 'pyspark==4.0.*' 'py4j<0.10.9.10'
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from havasu_vc.model.commits import ChangeCounts
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL, assert_sound
from tests.support.templates import empty_repo

ROOT = Path(__file__).parents[2]
FOLDER = os.environ.get("HAVASU_SPARK_4_0", "")
CODE = """
import sys
import pyspark
from havasu_vc.spark import changes, read, session, write

assert pyspark.__version__.startswith("4.0."), pyspark.__version__
repo = sys.argv[1]
spark = session(repo)
spark.sql("UPDATE havasu.points SET name = 'changed' WHERE id < 3")
spark.sql("DELETE FROM havasu.points WHERE id = 9")
spark.sql("INSERT INTO havasu.points VALUES (500, NULL, 'new', 1)")
assert spark.table("havasu.points").count() == 50
assert read(spark, repo, "points").count() == 50
write(spark.createDataFrame([(7, "written")], "id BIGINT, name STRING"), repo, "side")
assert changes(spark, repo, "side", "HEAD^...HEAD").count() == 2
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="HAVASU_SPARK_4_0 does not say where Spark 4.0 is"),
]


def test_spark_4_0_reads_edits_and_writes(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    for name in ("points", "side"):
        repo.import_(write(tmp_path / f"{name}.parquet", points(50)), name, options=BY_ID)
    repo.workspace.check_out()
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(repo.path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((FOLDER, str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]

    found = repo.workspace.commit(message="By Spark 4.0").changes["points"]
    assert found == ChangeCounts(inserts=1, updates=3, deletes=1)
    assert rows(repo, "points")[-1]["id"] == 500
    assert_sound(repo)
