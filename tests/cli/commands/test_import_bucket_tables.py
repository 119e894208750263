"""Tables of Iceberg and Delta are taken in from a bucket as from a folder, their deletes too."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from tests.cli.conftest import invoke
from tests.conftest import lacking
from tests.remotes.buckets import s3
from tests.repo.points import Rows, make, read
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto
from tests.support.templates import empty_repo

ROWS: Rows = {key: (f"name {key}", key) for key in range(2000)}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    with moto() as url:
        yield url


@pytest.fixture
def lake(endpoint: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A place for tables in a new bucket."""
    for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    bucket = re.sub("[^a-z0-9]+", "-", request.node.name).strip("-")[-60:].strip("-")
    s3(endpoint).create_dir(bucket)
    return f"s3://{bucket}/lake"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return empty_repo(tmp_path / "repo")


def test_a_table_with_deletes(repo: Repo, lake: str, tmp_path: Path) -> None:
    theirs = make(tmp_path / "theirs", ROWS)
    theirs.write("points", pa.table({"id": [3, 4]}), mode="delete")
    assert invoke(["-C", theirs.path, "checkout", "--to", lake]).exit_code == 0

    done = invoke(["-C", repo.path, "import", f"iceberg:{lake}/points"])
    assert done.exit_code == 0, done.stderr
    assert read(repo) == {key: row for key, row in ROWS.items() if key not in (3, 4)}
    assert repo.dataset("points").key.names == ("id",)

    theirs.write("points", pa.table({"id": [5]}), mode="delete")
    assert invoke(["-C", theirs.path, "checkout", "--to", lake]).exit_code == 0
    done = invoke(["-C", repo.path, "import", "--replace", f"iceberg:{lake}/points"])
    assert done.exit_code == 0 and "1 delete" in done.stderr, done.stderr
    assert read(repo) == {key: row for key, row in ROWS.items() if key not in (3, 4, 5)}

    # Its folder is no folder of Parquet files, and what to type is said.
    refused = invoke(["-C", repo.path, "import", f"{lake}/points", "again"])
    assert refused.exit_code != 0
    assert f"import it by its format: iceberg:{lake}/points" in refused.stderr


def test_a_table_of_a_catalog_is_named_by_its_document(
    repo: Repo, lake: str, endpoint: str, tmp_path: Path
) -> None:
    catalog_of = pytest.importorskip("pyiceberg.catalog.sql").SqlCatalog
    catalog = catalog_of(
        "lake",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=lake,
        **{"s3.endpoint": endpoint, "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"},
    )
    catalog.create_namespace("maps")
    rows = pa.table({"id": [1, 2, 3], "name": ["one", "two", None]})
    table = catalog.create_table("maps.wells", rows.schema)
    table.append(rows)
    table.delete("id = 2")
    document = table.metadata_location

    named = invoke(["-C", repo.path, "import", f"iceberg:{document}", "--primary-key", "id"])
    assert named.exit_code == 0, named.stderr
    assert read(repo, dataset="wells") == {1: ("one",), 3: (None,)}

    folder = document.rpartition("/metadata/")[0]
    refused = invoke(["-C", repo.path, "import", f"iceberg:{folder}", "again"])
    assert refused.exit_code != 0
    assert "belongs to a catalog, which alone knows its newest version" in refused.stderr
    linked = invoke(["-C", repo.path, "import", "--link", f"iceberg:{document}", "again"])
    assert linked.exit_code != 0 and "cannot be linked" in linked.stderr


@pytest.fixture
def delta(tmp_path: Path, lake: str, endpoint: str) -> str:
    """A table of Delta whose second version has a row less, also beside the rows it had."""
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "delta"
    rows = pa.table({"id": [1, 2, 3], "name": ["one", "two", None], "part": ["a", "b b", "a"]})
    deltalake.write_deltalake(str(folder), rows, partition_by=["part"])
    deltalake.DeltaTable(str(folder)).delete("id = 3")
    system = s3(endpoint)
    for file in folder.rglob("*"):
        if file.is_file():
            place = f"{lake.removeprefix('s3://')}/wells/{file.relative_to(folder)}"
            with system.open_output_stream(place) as stream:
                stream.write(file.read_bytes())
    return f"{lake}/wells"


def test_a_table_of_delta(repo: Repo, delta: str) -> None:
    done = invoke(["-C", repo.path, "import", f"delta:{delta}", "--primary-key", "id"])
    assert done.exit_code == 0, done.stderr
    assert read(repo, dataset="wells") == {1: ("one", "a"), 2: ("two", "b b")}
    for line in ([f"delta:{delta}@0", "a"], [f"delta:{delta}", "b", "--snapshot", "0"]):
        done = invoke(["-C", repo.path, "import", *line, "--primary-key", "id"])
        assert done.exit_code == 0, done.stderr
        then = {1: ("one", "a"), 2: ("two", "b b"), 3: (None, "a")}
        assert read(repo, dataset=line[1]) == then
    done = invoke(["-C", repo.path, "import", f"delta:{delta}", "c", "--history"])
    assert done.exit_code == 0, done.stderr
    assert [len(read(repo, at, dataset="c")) for at in ("HEAD", "HEAD^")] == [2, 3]

    refused = invoke(["-C", repo.path, "import", delta, "again"])
    assert refused.exit_code != 0
    assert f"import it by its format: delta:{delta}" in refused.stderr


@pytest.mark.parametrize("path", ["../../outside", "/tmp/outside", "s3://other/x.parquet"])
def test_a_table_of_delta_stays_in_its_folder(
    repo: Repo, delta: str, endpoint: str, path: str
) -> None:
    add = {"path": path, "size": 10, "partitionValues": {"part": "a"}, "dataChange": True}
    add["modificationTime"] = 0
    place = delta.removeprefix("s3://") + "/_delta_log/00000000000000000002.json"
    with s3(endpoint).open_output_stream(place) as stream:
        stream.write(json.dumps({"add": add}).encode() + b"\n")
    done = invoke(["-C", repo.path, "import", f"delta:{delta}", "--primary-key", "id"])
    assert done.exit_code != 0 and done.stderr.startswith("Error: ")
    assert "outside" in done.stderr or "s3://other" in done.stderr
    assert "Traceback" not in done.stderr and repo.head().commit is None


def test_what_is_not_there(repo: Repo, lake: str) -> None:
    for format_ in ("iceberg", "delta"):
        done = invoke(["-C", repo.path, "import", f"{format_}:{lake}/nothing"])
        assert done.exit_code != 0
        assert f"table at {lake}/nothing" in done.stderr
        assert "Traceback" not in done.stderr and repo.head().commit is None
