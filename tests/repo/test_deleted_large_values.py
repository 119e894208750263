"""Large values that were deleted: a diff shows them from the data file and checks them."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from havasu_vc.cli.main import cli, run
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import CorruptDataFileError
from tests.repo.tables import BY_ID, write
from tests.support.templates import empty_repo

LARGE = [Random(number).randbytes(100_000) for number in range(20)]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    table = pa.table({"id": range(20), "data": LARGE, "note": [f"n{n}" for n in range(20)]})
    found = empty_repo(tmp_path / "repo")
    found.import_(write(tmp_path / "t.parquet", table), options=BY_ID)
    found.write("t", pa.table({"id": [7]}), mode="delete")
    return found


def data_file(repo: Repo) -> Path:
    view = repo.dataset("t")
    assert isinstance(view, HavasuDataset) and view.deletes
    (entry,) = view.data_entries
    return Path(view.file_path(entry))


def deleted(repo: Repo) -> list[bytes]:
    (diff,) = Repo.open(repo.path).diff("HEAD^...HEAD")
    found = pa.concat_arrays([batch.old for batch in diff.changes])
    return [row["data"] for row in found.to_pylist()]


def test_a_diff_shows_the_value(repo: Repo) -> None:
    data_file(repo)
    assert deleted(repo) == [LARGE[7]]


def test_another_value_in_its_place_is_not_shown(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    file = data_file(repo)
    table = pq.read_table(file)
    values = table.column("data").to_pylist()
    values[7] = values[7][:-1] + b"?"
    table = table.set_column(1, table.schema.field("data"), pa.array(values, pa.binary()))
    file.chmod(0o644)
    pq.write_table(table, file)

    with pytest.raises(CorruptDataFileError, match="a deleted value is not the one recorded"):
        deleted(repo)
    assert run(cli, ["-C", str(repo.path), "diff", "HEAD^...HEAD", "-o", "json"]) != 0
    assert "is not the one recorded" in capsys.readouterr().err
