"""checkout --to, commit --from and spark-conf --tables take URLs."""

import json
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem

from tests.cli.conftest import invoke
from tests.conftest import lacking
from tests.repo.points import make
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto


def test_a_table_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    repo = make(tmp_path / "ours", {1: ("one", 1)})
    with moto() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        host = endpoint.removeprefix("http://")
        S3FileSystem(
            endpoint_override=host, scheme="http", region="us-east-1", allow_bucket_creation=True
        ).create_dir("maps")

        made = invoke(["-C", repo.path, "checkout", "--to", "s3://maps/all"])
        assert made.exit_code == 0 and "1 table at" in made.stderr
        assert "s3://maps/all" in made.stderr
        again = invoke(["-C", repo.path, "checkout", "--to", "s3://maps/all"])
        assert "Nothing to do" in again.stderr

        for options in (["-m", "x"], ["-m", "x", "--dry-run"]):
            answer = invoke(["-C", repo.path, "commit", "--from", "s3://maps/all/points", *options])
            assert (answer.exit_code == 0) is ("--dry-run" in options), answer.stderr
        other = invoke(["-C", repo.path, "checkout", "--to", "s3://maps/all", "--layout=clustered"])
        assert other.exit_code == 0 and "1 table at" in other.stderr


def test_settings_for_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    repo = make(tmp_path / "ours", {1: ("one", 1)})
    answer = invoke(["-C", repo.path, "spark-conf", "--json", "--tables", "s3://maps/all"])
    found = json.loads(answer.stdout)
    assert found["spark.sql.catalog.havasu.warehouse"] == "s3://maps/all"
    assert "hadoop-aws" in found["spark.jars.packages"]
    refused = invoke(["-C", repo.path, "spark-conf", "--no-jar", "--tables", "s3://maps/all"])
    assert refused.exit_code
    assert invoke(["-C", repo.path, "spark-conf", "--tables", "gs://maps"]).exit_code
