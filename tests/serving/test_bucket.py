"""A catalog in a bucket: clients see nothing of the server's machine, and read and write."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector, S3FileSystem
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from havasu_vc import Repo, Settings
from tests.remotes.sharing import bare, clone, share
from tests.repo.points import make
from tests.serving.server import catalog, prefix, send, serving
from tests.serving.test_engines import attach, duckdb
from tests.serving.test_places import endpoint
from tests.serving.test_reading import expected, in_order
from tests.support.servers import S3_ENVIRONMENT

__all__ = ["duckdb", "endpoint"]

POINTS = "/namespaces/tables/tables/points"
ASKED = {"X_Iceberg_Access_Delegation": "vended-credentials"}
LOCAL = Settings(engine="local")


@pytest.fixture(scope="module")
def bucket(endpoint: str) -> S3FileSystem:
    system = S3FileSystem(
        access_key="any", secret_key="any", endpoint_override=endpoint.removeprefix("http://"),
        scheme="http", region="us-east-1", allow_bucket_creation=True,
    )  # fmt: skip
    system.create_dir("shared")
    return system


@pytest.fixture(scope="module")
def repo(bucket: S3FileSystem, endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A repository whose data is in a bucket, and some of it here alone."""
    folder = tmp_path_factory.mktemp("bucket")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
            environment.setenv(name, value)
        ours = make(folder / "ours", {n: (f"n{n}", n) for n in range(20)})
        ours.write("points", pa.table({"id": [2], "name": ["zwei"]}), message="Two")
        share(ours, bare(folder / "server.git"), data="s3://shared/data")
        far = clone(
            folder / "server.git", folder / "far", data_url="s3://shared/data", on_demand=True
        )
        far.git.git("config", "havasu.catalog.url", "s3://shared/catalog")
        far.git.git("config", "user.name", "Server")
        far.git.git("config", "user.email", "server@example.org")
        far.write("points", pa.table({"id": [3]}), mode="delete", message="Not three")
    return Repo.open(far.path, settings=LOCAL)


@pytest.fixture(scope="module")
def url(repo: Repo, endpoint: str) -> Iterator[str]:
    """A server that has keys of the bucket; clients have none."""
    keys = {
        "HAVASU_VC_READ_KEY_ID": "reader", "HAVASU_VC_READ_SECRET_KEY": "readers-secret",
        "HAVASU_VC_WRITE_KEY_ID": "writer", "HAVASU_VC_WRITE_SECRET_KEY": "writers-secret",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint, **keys}.items():
            environment.setenv(name, value)
        with serving(repo.path, "--write", "main") as found:
            for name in (*S3_ENVIRONMENT, "AWS_ENDPOINT_URL", *keys):
                environment.delenv(name)
            yield found


@pytest.fixture
def as_server(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Give this process the server's keys, to compare."""

    def give() -> None:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
            monkeypatch.setenv(name, value)

    return give


@pytest.mark.thorough
def test_clients_are_told_of_the_bucket_alone(repo: Repo, url: str) -> None:
    repo.git.git("branch", "other")
    for name in ("points", "points__changes"):
        place = f"/namespaces/tables/tables/{name}"
        open_to_all = send(url, prefix(url) + place)
        assert str(repo.path) not in str(open_to_all.body)
        assert "secret" not in str(open_to_all.body)
        assert open_to_all.body["metadata"]["location"].startswith("s3://shared/catalog/")
        for ref, key in (("main", "writer"), ("other", "reader")):
            told = send(url, prefix(url, ref) + place, **ASKED).body["config"]
            assert told["s3.access-key-id"] == key
            assert told["s3.secret-access-key"] == f"{key}s-secret"


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Merge on read")
def test_pyiceberg_reads_and_writes(
    repo: Repo, url: str, bucket: S3FileSystem, as_server: Callable[[], None]
) -> None:
    table = catalog(url).load_table("tables.points")
    rows = {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == {n: f"n{n}" for n in range(20) if n != 3} | {2: "zwei"}

    schema = table.schema().as_arrow()
    names = [field.name for field in schema]
    new = pa.table({name: pa.array([100] if name == "id" else [None], schema.field(name).type)
                    for name in names}, schema=schema)  # fmt: skip
    table.append(new)
    table.refresh()
    table.delete("id = 5")
    made = catalog(url).create_table(
        "a.made",
        Schema(
            NestedField(1, "id", LongType(), required=True),
            NestedField(2, "name", StringType()),
            identifier_field_ids=[1],
        ),
    )
    made.append(pa.table({"id": [1], "name": ["one"]}, schema=made.schema().as_arrow()))
    found = in_order(catalog(url).load_table("tables.points").scan().to_arrow())
    feed = catalog(url).load_table("tables.points__changes").scan().to_arrow().to_pylist()
    there = in_order(catalog(url).load_table("a.made").scan().to_arrow())

    as_server()
    assert found == expected(repo, "points") and there == expected(repo, "a/made")
    assert {row["id"] for row in found} == rows.keys() - {5} | {100}
    kinds = [(row["_change_type"], row["id"]) for row in feed if row["id"] in (3, 5, 100)]
    assert sorted(kinds) == [
        ("DELETE", 3), ("DELETE", 5), ("INSERT", 3), ("INSERT", 5), ("INSERT", 100),
    ]  # fmt: skip
    assert list(Repo.open(repo.path, settings=LOCAL).fsck(full=True)) == []
    stored = bucket.get_file_info(FileSelector("shared/data/objects", recursive=True))
    assert len([each for each in stored if each.is_file]) > 2


@pytest.mark.thorough
def test_duckdb_reads_and_writes(
    repo: Repo, url: str, duckdb: Callable[[list[str]], list[Any]], as_server: Callable[[], None]
) -> None:
    answers = duckdb(
        [
            attach(url, "main"),
            "UPDATE served.tables.points SET name = 'sieben' WHERE id = 7",
            "INSERT INTO served.tables.points (id, name) VALUES (200, 'new')",
            "DELETE FROM served.tables.points WHERE id = 8",
            "SELECT id, name FROM served.tables.points ORDER BY id",
        ]
    )
    assert not [each for each in answers if isinstance(each, str)], answers
    as_server()
    assert answers[-1] == [[row["id"], row["name"]] for row in expected(repo, "points")]
    assert [7, "sieben"] in answers[-1] and [200, "new"] in answers[-1]
    assert 8 not in [key for key, _ in answers[-1]]


def test_a_manifest_that_names_other_places_is_refused(repo: Repo, url: str) -> None:
    body = send(url, prefix(url) + POINTS).body["metadata"]
    head = body["current-snapshot-id"]
    for place in ("s3://shared/catalog/../data/x", "s3://other/x.avro", "/etc/passwd",
                  "s3://shared/catalog/tables/x.avro", "s3://shared/catalog/lock"):  # fmt: skip
        snapshot = {
            "snapshot-id": 77, "parent-snapshot-id": head, "sequence-number": 99,
            "timestamp-ms": 1, "manifest-list": place, "summary": {"operation": "append"},
            "schema-id": body["current-schema-id"],
        }  # fmt: skip
        change = {
            "requirements": [
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": head}
            ],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
                 "snapshot-id": 77},
            ],
        }  # fmt: skip
        reply = send(url, prefix(url) + POINTS, method="POST", body=change)
        assert reply.status == 400, (place, reply.body)


def test_it_needs_data_in_a_bucket(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", {1: ("one", 1)})
    repo.git.git("config", "havasu.catalog.url", "s3://shared/catalog")
    with pytest.raises(Exception, match="data files are in no bucket"):
        from havasu_vc.serving import app

        app(repo.path)
