"""Clones of a part: what is read comes, together, and nothing else does."""

import secrets
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.havasu import deletes
from havasu_vc.errors import (
    DataFileNotFoundError,
    DatasetNotFoundError,
    InvalidArgumentError,
)
from havasu_vc.sharing.pushing import RemoteFetcher
from havasu_vc.sharing.requests import Part
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.sharing import bare, clone, files, named, reopened, share, spoil, store
from tests.repo.points import add, assert_clean, make, read, write
from tests.repo.tables import BY_ID, points
from tests.repo.tables import write as write_file
from tests.support.git import run_git

ROWS = {1: ("one", 1), 2: ("two", 2)}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each fetch on demand asked for."""
    found: list[int] = []
    original = RemoteFetcher.fetch

    def fetch(self: RemoteFetcher, wanted: Any) -> None:
        found.append(len(wanted))
        original(self, wanted)

    monkeypatch.setattr(RemoteFetcher, "fetch", fetch)
    return found


def on_demand(ours: Repo, path: Path) -> Repo:
    return clone(path / "server.git", path / "part", on_demand=True)


def test_files_come_when_they_are_read(ours: Repo, tmp_path: Path, asked: list[int]) -> None:
    theirs = on_demand(ours, tmp_path)
    assert files(theirs) == []
    assert len(list(theirs.log())) == 1 and theirs.status().problems == ()
    assert files(theirs) == []

    assert read(theirs) == read(ours)

    assert asked == [1] and files(theirs) == files(ours)
    assert_clean(theirs)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server with a table whose edits are deltas, and a commit of three rows on top."""
    folder = tmp_path_factory.mktemp("large")
    ours = make(folder / "ours", ROWS)
    names = [secrets.token_hex(16) for _ in range(12_000)]
    table = points(len(names)).set_column(2, "name", pa.array(names))
    ours.import_(write_file(folder / "big.parquet", table), "big", options=BY_ID)
    with tiny_thresholds(most_deltas=9, group_rows=4096), pytest.MonkeyPatch.context() as patch:
        patch.setattr(deletes, "LARGE", 1 << 16)
        for number in range(3):
            ours.write("big", points(1, start=number * 4000, name="new"))
        ours.write("big", points(3, start=500, name="new"))
    share(ours, bare(folder / "server.git"))
    return folder


@pytest.mark.thorough
def test_what_a_command_reads_comes_together(large: Path, tmp_path: Path, asked: list[int]) -> None:
    theirs = clone(large / "server.git", tmp_path / "part", on_demand=True)

    assert theirs.table("big").to_arrow().num_rows == 12_000

    assert len(asked) == 1 and asked[0] > 4


def test_an_upsert_brings_what_it_looks_into(large: Path, tmp_path: Path, asked: list[int]) -> None:
    theirs = clone(large / "server.git", tmp_path / "part", on_demand=True)

    with tiny_thresholds(most_deltas=9, group_rows=4096):
        theirs.write("big", points(2, start=7000, name="mine"))

    assert len(asked) <= 2
    assert theirs.table("big").to_arrow(keys=[(7001,)])["name"].to_pylist() == ["mine 7001"]
    assert list(theirs.fsck(full=True)) == []


def test_a_small_diff_brings_the_delta_alone(large: Path, tmp_path: Path, asked: list[int]) -> None:
    theirs = clone(large / "server.git", tmp_path / "part", on_demand=True)

    (diff,) = theirs.diff("HEAD^...HEAD", ["big"])
    assert sum(map(len, diff.changes)) == 3
    assert len(theirs.review("HEAD^...HEAD").datasets) == 1

    assert 0 < sum(store(theirs).size(file) for file in files(theirs)) < 30_000
    assert len(asked) == 1


def test_large_values_are_fetched_with_the_file_that_has_them(
    tmp_path: Path, asked: list[int]
) -> None:
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    with tiny_thresholds(most_deltas=9):
        write(ours, {**ROWS, 2: ("changed", 2)})
    share(ours, server)
    theirs = clone(server, tmp_path / "part", on_demand=True)

    (diff,) = theirs.diff("HEAD^...HEAD")

    assert [change["old"]["name"] for b in diff.changes for change in b.data.to_pylist()] == ["two"]


def test_edits_and_pushes_of_a_part(ours: Repo, tmp_path: Path) -> None:
    theirs = on_demand(ours, tmp_path)
    write(theirs, {**read(theirs), 9: ("nine", 9)})
    theirs.push()

    ours.fetch()

    assert len(read(ours, "origin/main")) == 7
    assert list(ours.fsck(full=True)) == []
    assert list(theirs.fsck(full=True)) == []


@pytest.mark.thorough
def test_fetching_brings_no_data_until_it_is_read(ours: Repo, tmp_path: Path) -> None:
    theirs = on_demand(ours, tmp_path)
    write(ours, ROWS)
    ours.push()

    assert theirs.fetch().files == 0
    assert files(theirs) == []
    assert read(theirs, "origin/main") == ROWS


def test_a_remote_that_is_gone_is_said(ours: Repo, tmp_path: Path) -> None:
    theirs = on_demand(ours, tmp_path)
    for file in files(tmp_path / "server.git"):
        store(tmp_path / "server.git").delete(file)

    with pytest.raises(DataFileNotFoundError) as caught:
        read(theirs)
    assert caught.value.hints

    run_git("remote", "add", "second", ours.path, cwd=theirs.path)
    assert read(reopened(theirs)) == read(ours)


def test_some_datasets(ours: Repo, tmp_path: Path) -> None:
    add(ours, tmp_path, ROWS, "roads")
    ours.push()
    both = named(tmp_path / "server.git")

    theirs = clone(tmp_path / "server.git", tmp_path / "part", part=Part(("roads",)))

    assert len(files(theirs)) == 1 < len(both)
    write(ours, {**ROWS, 3: ("three", 3)}, dataset="roads")
    write(ours, {})
    ours.push()
    theirs = reopened(theirs)
    assert theirs.fetch().files
    (tmp_path / "server.git").rename(tmp_path / "away")
    assert len(read(theirs, "origin/main", dataset="roads")) == 3
    (tmp_path / "away").rename(tmp_path / "server.git")
    assert read(theirs)
    theirs.fetch_data()
    assert set(files(theirs)) == named(tmp_path / "server.git")
    assert theirs.fetch_data().files == 0


def test_a_dataset_that_is_not_there(ours: Repo, tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        clone(tmp_path / "server.git", tmp_path / "part", part=Part(("none",)))


def test_a_box(tmp_path: Path) -> None:
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    west = write_file(tmp_path / "west.parquet", points(90))
    east = write_file(tmp_path / "east.parquet", points(90, start=180))
    ours.import_(west, "west", options=BY_ID)
    ours.import_(east, "east", options=BY_ID)
    share(ours, server)

    theirs = clone(server, tmp_path / "part", part=Part(box=(-180.0, 0.0, -170.0, 20.0)))

    assert len(files(theirs)) == 2, "of west, and of points that have no geometry"
    grown = theirs.fetch_data(part=Part(box=(-180.0, -90.0, 180.0, 90.0)))
    assert grown.files == 1
    assert theirs.fetch_data(part=Part(box=(-180.0, -90.0, 180.0, 90.0))).files == 0
    with pytest.raises(InvalidArgumentError):
        theirs.config.set("havasu.data.bbox", "1,2,3")
        theirs.fetch()


def test_checking_out_a_part_brings_what_the_table_has(ours: Repo, tmp_path: Path) -> None:
    theirs = on_demand(ours, tmp_path)
    theirs.workspace.check_out()
    assert files(theirs) == files(ours)


def test_tables_of_a_part_are_those_of_its_datasets(ours: Repo, tmp_path: Path) -> None:
    add(ours, tmp_path, ROWS, "roads")
    ours.push()
    theirs = clone(tmp_path / "server.git", tmp_path / "part", part=Part(("roads",)))

    made = theirs.workspace.check_out()

    assert made.tables == ("roads",) and len(files(theirs)) == 1
    (note,) = made.notes
    assert note.startswith("no table of points, as this clone takes roads")
    write(ours, {**ROWS, 3: ("three", 3)}, dataset="roads")
    ours.push()
    theirs.fetch()
    theirs.merge("origin/main")
    assert theirs.workspace.edited() == {} and theirs.status().problems == ()
    assert len(read(theirs, dataset="roads")) == 3
    run_git("config", "--add", "havasu.data.dataset", "points", cwd=theirs.path)
    grown = reopened(theirs).workspace.check_out()
    assert set(grown.tables) == {"points", "roads"} and grown.notes == ()


def test_tables_of_a_place_bring_what_they_lack(tmp_path: Path, asked: list[int]) -> None:
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    ours.import_(write_file(tmp_path / "east.parquet", points(90, start=180)), "e", options=BY_ID)
    share(ours, server)
    theirs = clone(server, tmp_path / "part", part=Part(box=(-180.0, 0.0, -170.0, 20.0)))
    before = len(files(theirs))

    assert set(theirs.workspace.check_out().tables) == {"points", "e"}

    assert len(files(theirs)) == before + 1 == len(named(server))
    assert asked == [1], "together, by dataset"


# Dropping, verifying, telling


@pytest.mark.thorough
def test_dropping_and_coming_back(ours: Repo, tmp_path: Path) -> None:
    old, first = read(ours), run_git("rev-parse", "HEAD", cwd=ours.path)
    write(ours, ROWS)
    ours.optimize()
    ours.push()
    ours.gc(grace_days=0)
    everything = set(files(ours))
    status = ours.data_status()
    assert (status.head_missing.files, status.history_missing.files) == (0, 0)

    assert ours.drop_data(dry_run=True).files == status.history_here.files
    assert set(files(ours)) == everything
    dropped = ours.drop_data()

    assert dropped.files == status.history_here.files > 0
    ours = reopened(ours)
    assert read(ours) == ROWS
    assert ours.data_status().history_missing.files == dropped.files
    assert ours.fetch().files == 0
    assert list(ours.fsck(full=True)) == [] and list(ours.verify_data()) == []
    assert read(ours, first) == old
    assert ours.drop_data(everything=True).kept == 0
    assert read(reopened(ours)) == ROWS


def test_what_was_not_pushed_is_not_dropped(ours: Repo, tmp_path: Path) -> None:
    write(ours, {**read(ours), 9: ("nine", 9)})
    here = set(files(ours))

    ours.drop_data(everything=True)

    assert set(files(ours)) == here - named(tmp_path / "server.git")
    assert len(read(reopened(ours))) == 7


def test_what_a_remote_lost_is_not_dropped(ours: Repo, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    for file in files(server):
        store(server).delete(file)

    result = ours.drop_data(everything=True)

    assert (result.files, result.kept) == (0, 1)
    assert read(ours)


def test_files_of_tables_stay(ours: Repo, tmp_path: Path) -> None:
    ours.workspace.check_out()
    assert ours.drop_data(everything=True).files == 0


def test_verifying(ours: Repo) -> None:
    assert list(ours.verify_data()) == []
    (file, *_) = files(ours)
    spoil(ours, file)
    (problem,) = ours.verify_data()
    assert file in problem.message
    store(ours).delete(file)
    (problem,) = ours.verify_data()
    assert "is not in" in problem.message
