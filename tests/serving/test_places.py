"""What is served where there is no work tree, no data, or no dataset of ours."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem

from havasu_vc import Settings
from havasu_vc.exchange.source import SourceOptions
from tests.conftest import lacking
from tests.remotes.sharing import bare, clone, files, share
from tests.repo.points import make
from tests.serving.conftest import rows
from tests.serving.server import catalog, prefix, send, serving
from tests.serving.test_reading import expected, in_order
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto
from tests.support.templates import empty_repo

POINTS = "/namespaces/tables/tables/points"


@pytest.mark.thorough
def test_a_bare_repository(tmp_path: Path) -> None:
    ours = make(tmp_path / "ours", {1: ("one", 1), 2: ("two", 2)})
    server = bare(tmp_path / "server.git")
    share(ours, server)
    with serving(server) as url:
        table = catalog(url, "main").load_table("tables.points")
        assert in_order(table.scan().to_arrow()) == expected(ours, "points")
        ours.write("points", pa.table({"id": [2], "name": ["zwei"]}), message="Two")
        ours.push("origin", ["main"])
        table = catalog(url, "main").load_table("tables.points")
        assert in_order(table.scan().to_arrow()) == expected(ours, "points")
        assert len(table.snapshots()) == 2


@pytest.mark.thorough
def test_a_dataset_of_karts(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", kart=True, settings=Settings(engine="local"))
    pq.write_table(rows(range(50)).select(["id", "name"]), tmp_path / "points.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "points.parquet", "points", options=options)
    repo.write("points", pa.table({"id": [3, 99], "name": ["three", "new"]}), message="Two rows")
    with serving(repo.path) as url:
        table = catalog(url).load_table("tables.points")
        assert in_order(table.scan().to_arrow()) == expected(repo, "points")
        first, second = sorted(table.snapshots(), key=lambda each: each.sequence_number)
        found = table.scan(snapshot_id=first.snapshot_id).to_arrow()
        assert in_order(found) == expected(repo, "points", "HEAD^")
        assert second.parent_snapshot_id == first.snapshot_id


def test_a_repository_without_commits(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo")
    with serving(repo.path) as url:
        assert catalog(url).list_namespaces() == []
        assert send(url, prefix(url) + POINTS).error == (404, "NoSuchTableException")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    with moto() as url:
        yield url


@pytest.mark.thorough
def test_data_that_is_in_a_bucket_alone(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HAVASU_VC_READ_KEY_ID", "reader")
    monkeypatch.setenv("HAVASU_VC_READ_SECRET_KEY", "readers-secret")
    system = S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"), scheme="http", region="us-east-1",
        allow_bucket_creation=True,
    )  # fmt: skip
    system.create_dir("served")
    ours = make(tmp_path / "ours", {1: ("one", 1), 2: ("two", 2)})
    ours.write("points", pa.table({"id": [2], "name": ["zwei"]}), message="Two")
    share(ours, bare(tmp_path / "server.git"), data="s3://served/data")
    far = clone(
        tmp_path / "server.git", tmp_path / "far", data_url="s3://served/data", on_demand=True
    )
    with serving(far.path) as url:
        asked = {"X_Iceberg_Access_Delegation": "vended-credentials"}
        said = send(url, prefix(url) + POINTS, **asked).body["config"]
        assert said["s3.endpoint"] == endpoint and said["s3.access-key-id"] == "reader"
        text = str(send(url, prefix(url) + POINTS).body)
        assert "readers-secret" not in text and S3_ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in text
        table = catalog(url).load_table("tables.points")
        assert in_order(table.scan().to_arrow()) == expected(ours, "points")
    assert files(far) == []
