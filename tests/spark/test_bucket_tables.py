"""Iceberg's Spark reads and edits a table in a bucket, by a session of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from havasu_vc.errors import NotYetSupportedError, UnsupportedVersionError
from havasu_vc.spark.buckets import SDKS, bucket_settings, hadoop_version
from tests.conftest import lacking
from tests.repo.points import make, read
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto
from tests.support.spark import has_java

PACKAGE = Path(__file__).parents[2]
PROGRAM = """
import sys
from pyarrow.fs import S3FileSystem
from havasu_vc import spark
from havasu_vc.repo import Repo
repo, url = Repo.open(sys.argv[1]), sys.argv[2]
try:
    session = spark.session(repo, tables=url, master="local[1]")
except Exception as error:
    print("NO JAR", error)
    raise SystemExit(0)
session.sql("UPDATE havasu.points SET name = 'by Spark' WHERE id < 3")
session.sql("INSERT INTO havasu.points VALUES (100, 'new', 7)")
session.sql("DELETE FROM havasu.points WHERE id = 9")
(row,) = session.sql("SELECT count(*) AS n, max(id) AS last FROM havasu.points").collect()
print("ROWS", row["n"], row["last"])
"""


def test_settings_name_the_server_and_no_secret() -> None:
    environment = {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    found = bucket_settings("s3://maps", "3.4.2", environment)
    assert "secret" not in json.dumps(found) and "somebody" not in json.dumps(found)
    assert found["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9"
    assert found["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert "hadoop-aws:3.4.2" in found["spark.jars.packages"]
    with pytest.raises(NotYetSupportedError):
        bucket_settings("gs://maps", "3.4.2", {})


def test_hadoop_is_that_of_the_spark_here(tmp_path: Path) -> None:
    import pyspark

    assert hadoop_version(Path(pyspark.__file__).parent / "jars") in SDKS
    with pytest.raises(UnsupportedVersionError):
        hadoop_version(tmp_path)


def test_spark_edits_a_table_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (has_java() and has_moto()):
        lacking("this needs Java and an S3 server: pip install 'moto[s3]' flask flask-cors")
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    repo = make(tmp_path / "ours", {number: (f"row {number}", number) for number in range(20)})
    with moto() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        from pyarrow.fs import S3FileSystem

        S3FileSystem(
            endpoint_override=endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir("spark-tables")
        url = "s3://spark-tables/maps"
        repo.workspace.check_out_to(url)
        program = tmp_path / "program.py"
        program.write_text(PROGRAM)
        done = subprocess.run(
            [sys.executable, str(program), str(repo.path), url],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PACKAGE)},
        )
        if "NO JAR" in done.stdout:
            lacking(f"this needs Maven Central once: {done.stdout}")
        assert "ROWS 20 100" in done.stdout, done.stderr[-3000:]

        result = repo.workspace.commit_from(f"{url}/points")

        counts = result.changes["points"]
        assert (counts.inserts, counts.updates, counts.deletes) == (1, 3, 1)
        assert result.notes == ()
        rows = read(repo)
        assert rows[2] == ("by Spark", 2) and rows[100] == ("new", 7) and 9 not in rows
        assert list(repo.fsck(full=True)) == []
