"""A first import whose rows are dealt out, and whose files go to the bucket alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from havasu_vc import Repo
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import KeyViolationError
from havasu_vc.exchange import importing, owned_imports, parquet
from havasu_vc.exchange.source import SourceOptions
from tests.conftest import lacking
from tests.remotes.sharing import bare, clone, files, share
from tests.repo.points import make
from tests.repo.tables import BY_ID, NO_KEY, points, rows, write
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto
from tests.support.templates import empty_repo

COUNT = 5000
DATA = "s3://imports/data"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A git server of a repository whose data is in a bucket."""
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    folder = tmp_path_factory.mktemp("imports")
    with moto() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
            patch.setenv(name, value)
        fs.S3FileSystem(
            endpoint_override=endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir("imports")
        share(make(folder / "ours", {1: ("one", 1)}), bare(folder / "server.git"), data=DATA)
        yield folder / "server.git"


@pytest.fixture
def far(server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A clone without data, whose engine's machines see no folder of it."""
    for name in ("apart", "distributed"):
        monkeypatch.setattr(LocalEngine, name, True)
    monkeypatch.setattr(owned_imports, "PART_BYTES", 40_000)
    monkeypatch.setattr(importing, "CHUNK_BYTES", 40_000)
    monkeypatch.setattr(parquet, "TASK_BYTES", 30_000)
    return clone(server, tmp_path / "theirs", data_url=DATA, on_demand=True)


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(pa.array([(n * 7919) % len(table) for n in range(len(table))]))


def source(folder: Path, table: pa.Table) -> Path:
    """Write a table as four files, in no order."""
    folder.mkdir()
    part = -(-len(table) // 4)
    for number in range(4):
        write(folder / f"{number}.parquet", table.slice(number * part, part))
    return folder


def view(repo: Repo, path: str) -> Any:
    return require_files(repo.dataset(path))


@pytest.mark.parametrize("order", ["key", "hilbert"])
@pytest.mark.parametrize("options", [BY_ID, NO_KEY], ids=["a key", "no key"])
def test_rows_are_those_of_a_local_import(
    far: Repo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    options: SourceOptions,
) -> None:
    """Along a curve and without a key too."""
    path = f"{order}-{len(options.primary_key or ())}"
    table = shuffled(points(COUNT))
    if not options.primary_key:
        table = pa.concat_tables([table, table.slice(0, 300), table.slice(0, 300)])
    made = source(tmp_path / path, table)
    result = far.import_(made, path, options=options, order=order)
    assert result.datasets[path].inserts == len(table)
    assert files(far) == [], "no data file came here"
    found = view(far, path)
    assert len(found.data_entries) > 2, "there were several owners"
    far.push()
    monkeypatch.undo()
    here = clone(far.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert [each for each in here.fsck(full=True) if path in each.where] == []
    alone = empty_repo(tmp_path / "alone")
    alone.import_(made, path, options=options, order=order)
    assert rows(here, path) == rows(alone, path)
    assert view(here, path).snapshot.digests == view(alone, path).snapshot.digests
    assert view(here, path).order == view(alone, path).order
    box = (10.0, 10.0, 12.0, 12.0)
    near = here.table(path).to_arrow(box=box)
    if order == "hilbert":
        assert len(near) < len(table) / 2, "what lies together is stored together"


def test_runs_of_equal_rows_stand_as_often_as_they_are(far: Repo, tmp_path: Path) -> None:
    same = points(1, start=7)
    table = pa.concat_tables([same] * 2000)
    far.import_(source(tmp_path / "same", table), "same", options=NO_KEY)
    assert files(far) == []
    assert len(view(far, "same").data_entries) > 1
    assert view(far, "same").rows == 2000
    assert list(far.fsck(full=True)) == []


@pytest.mark.parametrize("order", ["key", "hilbert"])
def test_a_key_that_stands_twice_is_refused(far: Repo, tmp_path: Path, order: str) -> None:
    table = pa.concat_tables([points(900), points(900, name="again").slice(500, 1)])
    head = far.head().commit
    with pytest.raises(KeyViolationError, match="the key 500 is there twice"):
        far.import_(source(tmp_path / "t", shuffled(table)), "twice", options=BY_ID, order=order)
    nameless = table.slice(0, 900).set_column(
        0, "id", pa.array([None if n == 3 else n for n in range(900)], pa.int64())
    )
    with pytest.raises(KeyViolationError, match="no value in its key column 'id'"):
        far.import_(source(tmp_path / "n", nameless), "null", options=BY_ID, order=order)
    assert far.head().commit == head and files(far) == []
