"""What `--client-config` and `spark-conf --catalog rest` print is what clients understand."""

import json
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.serving.server import serving
from tests.support.templates import empty_repo


def printed(*options: str) -> str:
    return succeed(invoke(["serve", "--client-config", *options])).output


@pytest.mark.thorough
def test_pyiceberg_reads_by_what_is_printed(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog import load_catalog

    with serving(repo.path) as url:
        port = url.rpartition(":")[2]
        said = yaml.safe_load(printed("pyiceberg", "--port", port, "--warehouse", "feature/x"))
        table = load_catalog("x", **said["catalog"]["havasu"]).load_table("tables.points")
        assert len(table.scan().to_arrow()) == 2001


def test_each_client_is_told_where_and_what() -> None:
    for client in ("pyiceberg", "duckdb", "spark", "trino", "flink"):
        said = printed(client, "--port", "8999", "--warehouse", "v1", "--token-file", "tokens")
        assert "http://127.0.0.1:8999" in said and "v1" in said and "TOKEN" in said
        assert "TOKEN" not in printed(client)
        assert "https://[::1]:8181" in printed(client, "--host", "::1", "--tls-cert", "c.pem")


def test_clients_of_a_bucket_ask_for_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = empty_repo(tmp_path / "here")
    monkeypatch.chdir(here.path)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    asking = {"spark": "havasu.header.x-iceberg-access-delegation vended-credentials",
              "flink": "'header.x-iceberg-access-delegation' = 'vended-credentials'",
              "trino": "iceberg.rest-catalog.vended-credentials-enabled=true"}  # fmt: skip
    for client, text in asking.items():
        assert text not in printed(client)
    assert "local.location=/" in printed("trino")
    here.git.git("config", "havasu.catalog.url", "s3://shared/catalog")
    for client, text in asking.items():
        assert text in printed(client)
    told = printed("trino")
    assert "fs.native-s3.enabled=true" in told and "s3.region=eu-west-1" in told
    assert "local.location" not in told
    here.git.git("config", "havasu.catalog.url", "gs://shared/catalog")
    assert "fs.native-gcs.enabled=true" in printed("trino")


@pytest.mark.spark
def test_spark_is_told_with_its_jar(repo: Repo) -> None:
    options = ["--json", "--catalog", "rest", "--uri", "https://host", "--ref", "v1"]
    said = json.loads(succeed(invoke(["-C", repo.path, "spark-conf", *options])).output)
    catalog = {name.rpartition(".")[2]: value for name, value in said.items() if "havasu" in name}
    assert (catalog["type"], catalog["uri"], catalog["warehouse"]) == ("rest", "https://host", "v1")
    assert said["spark.sql.extensions"].startswith("org.apache.iceberg")


def test_a_catalog_needs_the_jar(repo: Repo) -> None:
    found = invoke(["-C", repo.path, "spark-conf", "--catalog", "rest", "--no-jar"])
    assert found.exit_code == 2 and "needs the jar" in found.output
