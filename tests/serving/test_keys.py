"""Keys of a bucket that are made for a client: they read what a table is of, and write to staging.

The store holds every request to the policy that the keys were made with, as Amazon does.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import S3FileSystem

from havasu_vc import Repo
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.serving.keys import Reach, StoreKeys, policy_for
from tests.cli.conftest import invoke, succeed
from tests.serving.server import catalog, prefix, send, serving
from tests.serving.test_bucket import ASKED, POINTS, bucket, repo
from tests.serving.test_engines import attach, duckdb
from tests.serving.test_places import endpoint
from tests.serving.test_reading import expected, in_order
from tests.support.servers import S3_ENVIRONMENT

__all__ = ["bucket", "duckdb", "endpoint", "repo"]

ROLE = "arn:aws:iam::123456789012:role/clients"
HOUR = 3600.0


@pytest.fixture(scope="module")
def url(repo: Repo, endpoint: str) -> Iterator[str]:
    """A server that may assume a role; clients have no keys."""
    told = {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint, "HAVASU_VC_ROLE_ARN": ROLE}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in told.items():
            environment.setenv(name, value)
        with serving(repo.path, "--write", "main") as found:
            for name in told:
                environment.delenv(name)
            yield found


def store(endpoint: str, config: dict[str, str]) -> S3FileSystem:
    return S3FileSystem(
        access_key=config["s3.access-key-id"],
        secret_key=config["s3.secret-access-key"],
        session_token=config["s3.session-token"],
        endpoint_override=endpoint.removeprefix("http://"), scheme="http", region="us-east-1",
    )  # fmt: skip


def put(system: S3FileSystem, path: str) -> None:
    with system.open_output_stream(path) as file:
        file.write(b"x")


@pytest.mark.thorough
def test_keys_reach_what_is_the_tables(repo: Repo, url: str, endpoint: str) -> None:
    repo.git.git("branch", "-f", "other")
    assert "s3.access-key-id" not in send(url, prefix(url) + POINTS).body["config"]
    told = {ref: send(url, prefix(url, ref) + POINTS, **ASKED) for ref in ("main", "other")}
    for ref, reply in told.items():
        config = reply.body["config"]
        ends = int(config["s3.session-token-expires-at-ms"]) / 1000 - time.time()
        assert HOUR / 2 - 60 < ends <= HOUR, ends
        assert S3_ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in config.values()
        system = store(endpoint, config)
        metadata = reply.body["metadata"]
        lists = [each["manifest-list"] for each in metadata["snapshots"]]
        assert system.open_input_file(lists[0].removeprefix("s3://")).read(3) == b"Obj"
        staging = metadata["location"].removeprefix("s3://")
        if ref == "main":
            put(system, f"{staging}/data/new.parquet")
            put(system, "shared/data/objects/ab/cd/x-deletes.parquet")
        else:
            with pytest.raises(OSError, match="ACCESS_DENIED"):
                put(system, f"{staging}/data/new.parquet")
        for place in (
            "shared/data/objects/ab/cd/new.parquet", "shared/catalog/tables/x.avro",
            "shared/catalog/staging/another/data/x.parquet", "shared/elsewhere",
        ):  # fmt: skip
            with pytest.raises(OSError, match="ACCESS_DENIED"):
                put(system, place)
        for place in (lists[0].removeprefix("s3://"), f"{staging}/data/new.parquet"):
            with pytest.raises(OSError, match="ACCESS_DENIED"):
                system.delete_file(place)


@pytest.mark.thorough
def test_keys_are_had_again(url: str) -> None:
    path = prefix(url) + POINTS
    first = send(url, path, **ASKED)
    again = send(url, path, If_None_Match=first.headers["etag"], **ASKED)
    assert again.status == 304
    renewal = first.body["config"]["client.refresh-credentials-endpoint"]
    (found,) = send(url, f"/{renewal}").body["storage-credentials"]
    assert found["prefix"] == "s3://"
    assert found["config"]["s3.session-token"] == first.body["config"]["s3.session-token"]
    endpoints = send(url, "/v1/config").body["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials" in endpoints
    # Keys of one table are not those of all, for a client that holds several.
    prefixes = {each["prefix"] for each in first.body["storage-credentials"]}
    assert first.body["metadata"]["location"] + "/" in prefixes


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Merge on read")
def test_pyiceberg_and_duckdb_read_and_write_by_them(
    repo: Repo,
    url: str,
    endpoint: str,
    duckdb: Callable[[list[str]], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = catalog(url).load_table("tables.points")
    schema = table.schema().as_arrow()
    row = {name: [100 if name == "id" else None] for name in schema.names}
    table.append(pa.table(row, schema=schema))
    table.refresh()
    table.delete("id = 5")
    answers = duckdb(
        [
            attach(url, "main"),
            "UPDATE served.tables.points SET name = 'sieben' WHERE id = 7",
            "INSERT INTO served.tables.points (id, name) VALUES (200, 'new')",
            "CREATE TABLE served.tables.copied AS SELECT id, name FROM served.tables.points",
            "SELECT id, name FROM served.tables.points ORDER BY id",
        ]
    )
    assert not [each for each in answers if isinstance(each, str)], answers
    read = in_order(catalog(url, "main").load_table("tables.points").scan().to_arrow())
    for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    assert read == expected(repo, "points")
    assert answers[-1] == [[each["id"], each["name"]] for each in read]
    ids = {each["id"] for each in read}
    assert {100, 200} <= ids and 5 not in ids and [7, "sieben"] in answers[-1]
    assert repo.dataset("copied").rows == len(ids)


_SPARK = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for statement in json.loads(sys.argv[2]):
    spark.sql(statement)
rows = spark.sql("SELECT id, name FROM havasu.tables.points ORDER BY id").collect()
print(json.dumps([list(row) for row in rows]))
"""


@pytest.mark.slow
def test_spark_reads_and_writes_by_them(
    repo: Repo, url: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = os.environ.get("HAVASU_VC_AWS_BUNDLE")
    if bundle is None:
        pytest.skip("HAVASU_VC_AWS_BUNDLE names no jar by which Iceberg reaches S3")
    found = invoke(["-C", repo.path, "spark-conf", "--json", "--catalog", "rest", "--uri", url])
    settings = json.loads(succeed(found).output)
    jars = [settings.get("spark.jars", ""), Path(bundle).absolute().as_uri()]
    settings["spark.jars"] = ",".join(filter(None, jars))
    table = "havasu.tables.points"
    statements = [
        f"INSERT INTO {table} (id, name) VALUES (300, 'spark')",
        f"UPDATE {table} SET name = 'neun' WHERE id = 9",
        f"DELETE FROM {table} WHERE id = 11",
        f"MERGE INTO {table} old USING (SELECT 12L AS id, 'zwölf' AS name) new ON old.id = new.id "
        "WHEN MATCHED THEN UPDATE SET old.name = new.name",
        f"CREATE TABLE havasu.tables.sparks USING iceberg AS SELECT id FROM {table}",
    ]
    run = [sys.executable, "-c", _SPARK, json.dumps(settings), json.dumps(statements)]
    said = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout
    for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    rows = [[each["id"], each["name"]] for each in expected(repo, "points")]
    assert json.loads(said.splitlines()[-1]) == rows
    assert [300, "spark"] in rows and [9, "neun"] in rows and [12, "zwölf"] in rows
    assert 11 not in [key for key, _ in rows]
    assert repo.dataset("sparks").rows == len(rows)


def test_a_policy_names_what_it_allows() -> None:
    reach = Reach("s3://maps/da*ta?endpoint_override=x", "s3://other", "s3://other/staging/t")
    reads, lists, others, writes = policy_for(reach, "arn:aws-cn:iam::1:role/x")["Statement"]
    assert reads["Resource"] == ["arn:aws-cn:s3:::maps/da${*}ta/*", "arn:aws-cn:s3:::other/*"]
    assert lists["Condition"] == {"StringLike": {"s3:prefix": ["da${*}ta/*"]}}
    assert others["Resource"] == ["arn:aws-cn:s3:::other"]
    assert others["Condition"] == {"StringLike": {"s3:prefix": ["*"]}}
    assert writes["Resource"] == [
        "arn:aws-cn:s3:::other/staging/t/*",
        "arn:aws-cn:s3:::maps/da${*}ta/objects/*-deletes.parquet",
    ]
    assert "s3:DeleteObject" not in str(policy_for(reach, ROLE))


@pytest.mark.parametrize(
    "said",
    [
        {"HAVASU_VC_ROLE_ARN": "clients"},
        {"HAVASU_VC_ROLE_ARN": ROLE, "HAVASU_VC_ROLE_SECONDS": "60"},
        {"HAVASU_VC_ROLE_ARN": ROLE, "HAVASU_VC_ROLE_SECONDS": "an hour"},
    ],
)
def test_what_is_no_role_is_refused_at_once(said: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="HAVASU_VC_ROLE"):
        StoreKeys(said)


@pytest.mark.thorough
def test_a_role_that_is_not_had_is_told(
    repo: Repo, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint, "HAVASU_VC_ROLE_ARN": ROLE,
            "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:9"}  # fmt: skip
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    with serving(repo.path) as url:
        reply = send(url, prefix(url) + POINTS, **ASKED)
        assert reply.error == (503, "ServiceUnavailableException")
        assert "keys of the store cannot be had" in reply.body["error"]["message"]
        assert send(url, prefix(url) + POINTS).status == 200
