"""Folders of files are exported to a bucket, by whoever runs the tasks."""

import itertools
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyarrow import fs
from pyiceberg.table import StaticTable

from havasu_vc import Repo
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import EngineError, HavasuError, InvalidArgumentError, StorageError
from havasu_vc.exchange.export_marks import MARK
from havasu_vc.model.task import Task
from havasu_vc.store.object_systems import create_object, put_object
from havasu_vc.tables.bucket import BucketTable
from tests.cli.conftest import invoke
from tests.conftest import lacking
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.sharing import bare, clone, files, share
from tests.repo.points import make
from tests.repo.tables import BY_ID, points, write
from tests.support.rasters import ortho_folder
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto

COUNT = 3000


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A git server of a repository whose data is in a bucket, and where that is."""
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    folder = tmp_path_factory.mktemp("exports")
    with moto() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
            patch.setenv(name, value)
        system().create_dir("exports")
        ours = make(folder / "ours", {1: ("one", 1), 2: ("two", 2)})
        with tiny_thresholds(most_deltas=9, group_rows=128, small_file=0):
            ours.import_(write(folder / "big.parquet", points(COUNT)), "big", options=BY_ID)
            gone = pa.table({"id": pa.array(range(0, 900, 9), pa.int64())})
            ours.write("big", gone, mode="delete")
            ours.write("big", points(300, start=5000), mode="append")
        ours.import_(ortho_folder(folder / "orthos"), "orthos")
        share(ours, bare(folder / "server.git"), data="s3://exports/data")
        yield folder / "server.git", endpoint


def run(*words: str | Path) -> Result:
    return invoke(words)


WANTED = [*(n for n in range(COUNT) if n % 9 or n >= 900), *range(5000, 5300)]


def system() -> fs.S3FileSystem:
    return fs.S3FileSystem(
        endpoint_override=os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )


def names(folder: str) -> list[str]:
    selector = fs.FileSelector(f"exports/{folder}", recursive=True, allow_not_found=True)
    return sorted(each.base_name for each in system().get_file_info(selector) if each.is_file)


def held(folder: str) -> list[int]:
    table = ds.dataset(f"exports/{folder}", filesystem=system(), format="parquet").to_table()
    assert "geom" in table.column_names and b"geo" in (table.schema.metadata or {})
    return sorted(table["id"].to_pylist())


@pytest.fixture(params=["near", "apart"])
def repo(
    request: pytest.FixtureRequest,
    bucket: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Repo:
    """A clone without data, whose engine's machines may see no folder of it."""
    found = clone(bucket[0], tmp_path / "theirs", data_url="s3://exports/data", on_demand=True)
    monkeypatch.setattr(LocalEngine, "apart", request.param == "apart")
    return found


@pytest.fixture
def folder(repo: Repo, tmp_path: Path) -> str:
    """A folder of the bucket that no other test has."""
    return f"{tmp_path.name}-{'apart' if LocalEngine.apart else 'near'}"


def test_a_folder_of_files_is_written_and_read_by_others(repo: Repo, folder: str) -> None:
    place = f"s3://exports/{folder}"
    made = run("-C", repo.path, "export", "big", place, "--to", "parquet-dataset")
    assert made.exit_code == 0 and f"Wrote 3,200 rows of big to {place}" in made.output
    assert held(folder) == WANTED
    if LocalEngine.apart:
        assert files(repo) == [], "no file came here"

    again = run("-C", repo.path, "export", "big", place, "--to", "parquet-dataset")
    assert again.exit_code != 0 and "has files already" in again.stderr
    before = names(folder)
    small = repo.export("big", place, format="parquet-dataset", overwrite=True, part_bytes=20_000)
    assert small.rows == len(WANTED) and small.path == place
    assert held(folder) == WANTED
    assert len(names(folder)) > 2 and not {*names(folder)} & {*before}

    back = repo.import_(place, "again", options=BY_ID)
    assert back.datasets["again"].inserts == len(WANTED)


def test_a_file_here_is_written_and_nothing_else_comes(repo: Repo, tmp_path: Path) -> None:
    run("-C", repo.path, "export", "big", tmp_path / "big.parquet")
    assert sorted(pq.read_table(tmp_path / "big.parquet")["id"].to_pylist()) == WANTED
    made = run("-C", repo.path, "checkout", "--as", tmp_path / "copy.gpkg", "big")
    assert made.exit_code == 0, made.output
    with closing(sqlite3.connect(tmp_path / "copy.gpkg")) as database:
        assert sorted(key for (key,) in database.execute("select id from big")) == WANTED
    made = run("-C", repo.path, "export", "big", tmp_path / "folder", "--to", "parquet-dataset")
    assert made.exit_code == 0 and ds.dataset(tmp_path / "folder").count_rows() == len(WANTED)
    made = run("-C", repo.path, "export", "big", tmp_path / "table", "--to", "delta", "--plain")
    assert made.exit_code == 0, made.output
    assert files(repo) == [], "rows are read in the bucket"


def test_what_fails_leaves_nothing(
    repo: Repo, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"s3://exports/{folder}"

    def failing(url: str, content: Path | bytes) -> None:
        if "part-00001" in url:
            raise EngineError("this worker has had enough")
        put_object(url, content)

    with monkeypatch.context() as patch, pytest.raises(HavasuError, match="had enough"):
        patch.setattr("havasu_vc.exchange.parquet_dataset.put_object", failing)
        repo.export("big", place, format="parquet-dataset", part_bytes=20_000)
    assert names(folder) == []

    pq.write_table(pa.table({"x": [1]}), f"exports/{folder}/x.txt", filesystem=system())
    with pytest.raises(InvalidArgumentError, match="something else in it, such as x"):
        repo.export("big", place, format="parquet-dataset", overwrite=True)
    with pytest.raises(InvalidArgumentError, match="is no folder"):
        repo.export("big", f"{place}/x.txt", format="parquet-dataset")
    assert names(folder) == ["x.txt"]


def test_a_task_that_runs_twice_puts_one_file(
    repo: Repo, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an executor that died, or beside one that is slow."""
    run_once = LocalEngine.run

    def twice(engine: LocalEngine, tasks: Sequence[Task], **how: Any) -> Iterator[pa.RecordBatch]:
        list(run_once(engine, tasks, **how))
        yield from run_once(engine, tasks, **how)

    monkeypatch.setattr(LocalEngine, "run", twice)
    place = f"s3://exports/{folder}"
    made = repo.export("big", place, format="parquet-dataset", part_bytes=20_000)
    assert made.rows == len(WANTED)
    assert held(folder) == WANTED
    numbers = [name.split("-")[1] for name in names(folder)]
    assert len(numbers) == len(set(numbers)) > 1
    made = repo.export("big", f"{place}-delta", format="delta", plain=True)
    assert made.rows == len(WANTED)
    numbers = [name.split("-")[1] for name in names(f"{folder}-delta") if name.endswith("parquet")]
    assert len(numbers) == len(set(numbers))


def rows_of_delta(place: str, endpoint: str) -> tuple[int, list[int]]:
    """Return the version of a table and the keys in it, as Delta's own library reads it."""
    given = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", **S3_ENVIRONMENT}
    table = deltalake.DeltaTable(place, storage_options=given)
    return table.version(), sorted(table.to_pyarrow_table()["id"].to_pylist())


def test_a_delta_table_is_written_and_gets_versions(
    repo: Repo, bucket: tuple[Path, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"s3://exports/{folder}"
    words = ("-C", repo.path, "export", "big", place, "--to", "delta", "--plain")
    made = run(*words)
    assert made.exit_code == 0 and f"Wrote 3,200 rows of big to {place}" in made.output
    assert rows_of_delta(place, bucket[1]) == (0, WANTED)
    if LocalEngine.apart:
        assert files(repo) == [], "no file came here"
    again = run(*words)
    assert again.exit_code != 0 and "there is a table at" in again.stderr
    before = names(folder)

    def failing(url: str, content: Path | bytes) -> None:
        put_object(url, content)
        if "parquet" in url:
            raise EngineError("this worker has had enough")

    with monkeypatch.context() as patch, pytest.raises(HavasuError, match="had enough"):
        patch.setattr("havasu_vc.exchange.side_by_side.put_object", failing)
        repo.export("big", place, format="delta", plain=True, overwrite=True)
    with monkeypatch.context() as patch, pytest.raises(InvalidArgumentError, match="version 1 of"):
        patch.setattr("havasu_vc.tables.bucket.create_object", lambda url, data: False)
        repo.export("big", place, format="delta", plain=True, overwrite=True)
    assert names(folder) == before and rows_of_delta(place, bucket[1]) == (0, WANTED)

    made = run(*words, "--overwrite")
    assert made.exit_code == 0 and rows_of_delta(place, bucket[1]) == (1, WANTED)
    back = repo.import_(f"delta:{place}", "again", options=BY_ID)
    assert back.datasets["again"].inserts == len(WANTED)

    pq.write_table(pa.table({"x": [1]}), f"exports/{folder}-x/x.txt", filesystem=system())
    with pytest.raises(InvalidArgumentError, match="something else is at"):
        repo.export("big", f"{place}-x", format="delta")


def test_an_iceberg_table_is_written(repo: Repo, bucket: tuple[Path, str], folder: str) -> None:
    place = f"s3://exports/{folder}"
    made = run("-C", repo.path, "export", "big", place, "--to", "iceberg")
    assert made.exit_code == 0, made.stderr
    shown = StaticTable.from_metadata(
        f"{place}/metadata/v1.metadata.json",
        {"s3.endpoint": bucket[1], "s3.region": "us-east-1"},
    )
    assert sorted(shown.scan().to_arrow()["id"].to_pylist()) == WANTED
    assert files(repo) == [], "the store copied them itself"


def test_an_iceberg_table_is_written_here(repo: Repo, tmp_path: Path) -> None:
    """What a folder gets is copied from the bucket, and checked on its way."""
    words = ("-C", repo.path, "export", "big", tmp_path / "table", "--to", "iceberg")
    made = run(*words)
    assert made.exit_code == 0, made.stderr
    assert files(repo) == [], "no file came to the clone"
    shown = StaticTable.from_metadata(str(tmp_path / "table/metadata/v1.metadata.json"))
    assert sorted(shown.scan().to_arrow()["id"].to_pylist()) == WANTED

    entries = require_files(repo.dataset("big")).data_entries
    name = min(entries, key=lambda entry: entry.size).file
    place = f"exports/data/objects/{name[:2]}/{name[2:4]}/{name}"
    with system().open_input_stream(place) as file:
        data = file.read()
    shutil.rmtree(tmp_path / "table")
    try:
        with system().open_output_stream(place) as file:
            file.write(bytes(len(data)))
        made = run(*words)
        assert made.exit_code != 0 and f"data file {name[:12]}" in made.stderr, made.stderr
        assert not (tmp_path / "table").exists()
    finally:
        with system().open_output_stream(place) as file:
            file.write(data)
    assert run(*words).exit_code == 0


def test_rasters_are_read_there(repo: Repo, tmp_path: Path) -> None:
    for words in (
        ("export", "orthos", tmp_path / "out", "--to", "geotiff"),
        ("raster", "info", "orthos"),
    ):
        made = run("-C", repo.path, *words)
        assert made.exit_code == 0, made.stderr
        assert files(repo) == [], words
    assert list((tmp_path / "out").iterdir())


def rows_of_iceberg_3(place: str, endpoint: str, version: int) -> list[int]:
    """Return the keys in a version of a table, as PyIceberg reads it, which reads no geometry."""
    told = {"s3.endpoint": endpoint, "s3.region": "us-east-1"}
    table = StaticTable.from_metadata(f"{place}/metadata/v{version}.metadata.json", told)
    assert table.metadata.format_version == 3 and table.location() == place
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def test_a_table_of_iceberg_3_is_written_and_gets_versions(
    repo: Repo, bucket: tuple[Path, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"s3://exports/{folder}"
    words = ("-C", repo.path, "export", "big", place, "--to", "iceberg-v3")
    made = run(*words)
    assert made.exit_code == 0 and f"Wrote 3,200 rows of big to {place}" in made.output
    assert rows_of_iceberg_3(place, bucket[1], 1) == WANTED
    if LocalEngine.apart:
        assert files(repo) == [], "no file came here"
    again = run(*words)
    assert again.exit_code != 0 and "there is a table at" in again.stderr
    before = names(folder)

    def failing(url: str, content: Path | bytes) -> None:
        put_object(url, content)
        if "parquet" in url:
            raise EngineError("this worker has had enough")

    with monkeypatch.context() as patch, pytest.raises(HavasuError, match="had enough"):
        patch.setattr("havasu_vc.exchange.side_by_side.put_object", failing)
        repo.export("big", place, format="iceberg-v3", overwrite=True)
    assert names(folder) == before
    assert run(*words, "--overwrite").exit_code == 0
    assert rows_of_iceberg_3(place, bucket[1], 2) == WANTED
    assert rows_of_iceberg_3(place, bucket[1], 1) == WANTED, "the version before is what it was"
    back = repo.import_(f"iceberg:{place}", "again", options=BY_ID)
    assert back.datasets["again"].inserts == len(WANTED)
    assert repo.dataset("again").schema.by_name["geom"].geometry is not None


def test_a_version_of_iceberg_3_that_another_writer_made_first(
    repo: Repo, bucket: tuple[Path, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are another version then; where that is made each time, nothing of them stays."""
    place = f"s3://exports/{folder}"
    repo.export("big", place, format="iceberg-v3")
    real, tries = create_object, itertools.count()

    def late(url: str, data: bytes) -> bool | None:
        if next(tries) == 0:
            with system().open_input_stream(f"exports/{folder}/metadata/v1.metadata.json") as file:
                assert real(url, file.read()) is True
        return real(url, data)

    with monkeypatch.context() as patch:
        patch.setattr("havasu_vc.tables.bucket.create_object", late)
        repo.export("big", place, format="iceberg-v3", overwrite=True, columns=["id", "geom"])
    assert rows_of_iceberg_3(place, bucket[1], 3) == WANTED
    repo.import_(f"iceberg:{place}", "seen", options=BY_ID)
    assert repo.dataset("seen").schema.names == ("id", "geom")

    before = names(folder)
    with monkeypatch.context() as patch, pytest.raises(HavasuError, match="first"):
        patch.setattr("havasu_vc.tables.bucket.create_object", lambda url, data: False)
        patch.setattr(BucketTable, "_read", lambda table, name: b"another's")
        repo.export("big", place, format="iceberg-v3", overwrite=True)
    assert names(folder) == before


def test_a_version_that_may_be_there_keeps_its_files(
    repo: Repo, bucket: tuple[Path, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network goes away once it is made; the next export finds it, and goes on."""
    for to, format_words in (("iceberg-v3", ()), ("delta", ("--plain",))):
        place = f"s3://exports/{folder}-{to}"
        words = ("-C", repo.path, "export", "big", place, "--to", to, *format_words)

        def made_and_gone(url: str, data: bytes) -> bool | None:
            create_object(url, data)
            raise StorageError("no network")

        with monkeypatch.context() as patch:
            patch.setattr("havasu_vc.tables.bucket.create_object", made_and_gone)
            failed = run(*words)
        assert failed.exit_code != 0 and "no network" in failed.stderr
        if to == "delta":
            assert rows_of_delta(place, bucket[1]) == (0, WANTED)
        else:
            assert rows_of_iceberg_3(place, bucket[1], 1) == WANTED
        assert run(*words).exit_code == 0
        assert MARK not in names(f"{folder}-{to}")


def test_what_is_no_table_of_iceberg_3_stays(repo: Repo, folder: str) -> None:
    place = f"s3://exports/{folder}"
    pq.write_table(pa.table({"x": [1]}), f"exports/{folder}/x.txt", filesystem=system())
    said = run("-C", repo.path, "export", "big", place, "--to", "iceberg-v3", "--overwrite")
    assert said.exit_code == 2 and "something else is at" in said.stderr
    assert run("-C", repo.path, "export", "big", f"{place}-2", "--to", "iceberg").exit_code == 0
    before = names(f"{folder}-2")
    words = ("-C", repo.path, "export", "big", f"{place}-2", "--to", "iceberg-v3")
    said = run(*words, "--overwrite")
    assert said.exit_code == 2 and "is of Iceberg 2" in said.stderr
    assert names(f"{folder}-2") == before
    said = run("-C", repo.path, "export", "big", f"{place}-3?region=x", "--to", "iceberg-v3")
    assert said.exit_code == 2 and "has no options" in said.stderr and names(f"{folder}-3") == []


@pytest.mark.parametrize("how", [("--to", "flatgeobuf"), (), ("--changes", "HEAD^...HEAD")])
def test_what_is_no_folder_of_files_is_refused(
    repo: Repo,
    folder: str,
    tmp_path: Path,
    how: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    place = f"s3://exports/{folder}/x.parquet"
    made = run("-C", repo.path, "export", "big", place, *how)
    assert made.exit_code != 0 and "bucket" in made.stderr and "Hint: " in made.stderr
    assert not (tmp_path / "s3:").exists() and names(folder) == []
