"""checkout --to, commit --from, spark-conf --tables and the workspace's path take URLs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import invoke
from tests.conftest import lacking
from tests.remotes.buckets import edit, s3
from tests.repo.points import make, write
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    with moto() as url:
        yield url


@pytest.fixture
def maps(endpoint: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A place for tables in a new bucket."""
    for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    bucket = request.node.name.replace("_", "-")
    s3(endpoint).create_dir(bucket)
    return f"s3://{bucket}/all"


def test_a_table_in_a_bucket(tmp_path: Path, maps: str) -> None:
    repo = make(tmp_path / "ours", {1: ("one", 1)})

    made = invoke(["-C", repo.path, "checkout", "--to", maps])
    assert made.exit_code == 0 and "1 table at" in made.stderr
    assert maps in made.stderr
    again = invoke(["-C", repo.path, "checkout", "--to", maps])
    assert "Nothing to do" in again.stderr

    for options in (["-m", "x"], ["-m", "x", "--dry-run"]):
        answer = invoke(["-C", repo.path, "commit", "--from", f"{maps}/points", *options])
        assert (answer.exit_code == 0) is ("--dry-run" in options), answer.stderr
    other = invoke(["-C", repo.path, "checkout", "--to", maps, "--layout=clustered"])
    assert other.exit_code == 0 and "1 table at" in other.stderr


def test_a_workspace_in_a_bucket(tmp_path: Path, maps: str) -> None:
    repo = make(tmp_path / "ours", {1: ("one", 1)})
    repo.switch("dev", create=True)
    write(repo, {1: ("dev", 1)})
    at = ["-C", str(repo.path)]
    assert invoke([*at, "config", "havasu.workspace.path", maps]).exit_code == 0
    made = invoke([*at, "checkout"])
    assert made.exit_code == 0 and "Checked out 1 table" in made.stderr
    assert maps in made.stderr
    assert "working copy clean" in invoke([*at, "status"]).stdout
    conf = json.loads(invoke([*at, "spark-conf", "--json"]).stdout)
    assert conf["spark.sql.catalog.havasu.warehouse"] == maps
    assert "hadoop-aws" in conf["spark.jars.packages"]

    edit(f"{maps}/points", tmp_path / "engine", {5: ("five", 5)})

    assert "1 inserts" in invoke([*at, "status"]).stdout
    refused = invoke([*at, "switch", "main"])
    assert refused.exit_code == 29 and "Hint" in refused.stderr
    assert "five" in invoke([*at, "diff"]).stdout
    assert invoke([*at, "commit", "-m", "Five"]).exit_code == 0
    assert invoke([*at, "switch", "main"]).exit_code == 0
    state = json.loads(invoke([*at, "status", "-o", "json"]).stdout)
    part = state["kart.status/v2"]["workingCopy"]["parts"]["tabular"]
    assert part["location"] == maps and part["status"] == "ok"


@pytest.mark.thorough
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
