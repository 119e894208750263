"""What is in a bucket is checked there, by machines that share nothing else with this one."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from havasu_vc import Repo
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine.local import LocalEngine
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.formats.havasu.entry import Content
from havasu_vc.store.object_systems import object_system
from tests.conftest import lacking
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.sharing import bare, clone, files, share
from tests.repo.points import make
from tests.repo.tables import points, write
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto

DATA = "s3://checks/data"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A git server of a repository whose data is in a bucket."""
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    folder = tmp_path_factory.mktemp("checks")
    with moto() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
            patch.setenv(name, value)
        system = fs.S3FileSystem(
            endpoint_override=endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        system.create_dir("checks")
        ours = make(folder / "ours", {1: ("one", 1), 2: ("two", 2)})
        with tiny_thresholds(most_deltas=9, group_rows=128, small_file=0):
            ours.import_(
                write(folder / "big.parquet", points(2000)),
                "big",
                options=SourceOptions(primary_key=("id",)),
            )
            gone = pa.table({"id": pa.array(range(0, 900, 9), pa.int64())})
            ours.write("big", gone, mode="delete")
            ours.write("big", points(300, start=5000), mode="append")
        share(ours, bare(folder / "server.git"), data=DATA)
        yield folder / "server.git"


@pytest.fixture
def far(server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A clone without data, whose engine's machines see no folder of it."""
    found = clone(server, tmp_path / "theirs", data_url=DATA, on_demand=True)
    monkeypatch.setattr(LocalEngine, "apart", True)
    return found


def told(repo: Repo) -> list[str]:
    problems = [f"{each.where}: {each.message}" for each in repo.fsck(full=True)]
    issues = [issue.cause for issue in repo.validation.run(["big"]) if issue.level.value == "error"]
    assert bool(issues) == bool(problems)
    assert files(repo) == [], "no file came here"
    return problems


def spoiled(repo: Repo, content: Content) -> tuple[str, bytes]:
    """Change the last byte before the end of a file in the bucket; return its place and bytes."""
    view = require_files(repo.dataset("big"))
    entry = next(each for each in view.stored_entries.values() if each.content is content)
    system, path = object_system(f"{DATA}/objects/{entry.file[:2]}/{entry.file}")
    if system.get_file_info(path).type is fs.FileType.NotFound:
        found = system.get_file_info(fs.FileSelector("checks", recursive=True))
        path = next(each.path for each in found if each.base_name == entry.file)
    with system.open_input_file(path) as stream:
        data = stream.read()
    with system.open_output_stream(path) as stream:
        stream.write(data[:4] + bytes([data[4] ^ 1]) + data[5:])
    return path, data


def test_what_is_sound_is_found_so_and_stays_away(far: Repo) -> None:
    assert told(far) == []


@pytest.mark.parametrize("content", list(Content))
def test_a_file_that_was_changed_in_the_bucket_is_named(far: Repo, content: Content) -> None:
    path, data = spoiled(far, content)
    try:
        # What deletes from it cannot be compared with it, which tasks may tell first.
        kind = "data" if content is Content.DATA else "delete"
        named = f"{kind} file {path.rpartition('/')[2]}"
        (found,) = [each for each in told(far) if named in each]
        assert "its bytes have the hash" in found
    finally:
        system, _ = object_system(DATA)
        with system.open_output_stream(path) as stream:
            stream.write(data)


def test_a_file_that_is_gone_from_the_bucket_is_named(far: Repo) -> None:
    path, data = spoiled(far, Content.DATA)
    system, _ = object_system(DATA)
    system.delete_file(path)
    try:
        (found, *_) = told(far)
        assert path.rpartition("/")[2] in found and "\n" not in found
    finally:
        with system.open_output_stream(path) as stream:
            stream.write(data)


def test_a_key_that_stands_twice_is_found(far: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the rows that tasks read, as no command makes such a table."""
    from havasu_vc.datasets.havasu import far as far_module

    scan = far_module.FarDataset.scan

    def twice(view: far_module.FarDataset, *how: object) -> list[object]:
        tasks = scan(view, *how)  # type: ignore[arg-type]
        return [*tasks, tasks[-1]]

    monkeypatch.setattr(far_module.FarDataset, "scan", twice)
    found = [each.message for each in far.fsck(full=True)]
    assert "the key 5000 stands twice" in found
    assert len([line for line in found if line.startswith("the key 50")]) == 20


def test_a_table_in_a_bucket_is_validated_there(far: Repo) -> None:
    system, _ = object_system(DATA)
    table = pa.concat_tables([points(500), points(3, start=40)])
    pq.write_table(table.drop_columns(["geom"]), "checks/rows.parquet", filesystem=system)
    found = list(far.validation.run(["s3://checks/rows.parquet"], primary_key=("id",)))
    assert sorted(issue.key["id"] for issue in found if issue.key) == [40, 41, 42]
    assert {issue.cause for issue in found} == {"2 rows have this key"}
