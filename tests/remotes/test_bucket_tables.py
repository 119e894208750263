"""Tables in a bucket of a real S3 server: made, found as they are, edited and taken back."""

from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import (
    ConcurrentChangeError,
    CorruptionError,
    HavasuError,
    InvalidArgumentError,
    NoChangesError,
    RevisionNotFoundError,
    StateError,
    UncommittedChangesError,
)
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.tables.bucket import BucketTable, plain_location
from havasu_vc.tables.scanning import scan_tasks
from havasu_vc.tables.table import read_table
from havasu_vc.testing.memory import run_all
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.buckets import edit, rows, s3, there
from tests.remotes.sharing import bare, clone, files, reopened, share
from tests.repo.points import make, read, write
from tests.workspace.by_hand import data_file, write_snapshot

pytestmark = pytest.mark.few(1)

ROWS = {number: (f"row {number}", number) for number in range(40)}


@pytest.fixture
def bucket(url: str) -> str:
    """The name of a new bucket."""
    return url.removeprefix("s3://").partition("/")[0]


@pytest.fixture
def ours(bucket: str, tmp_path: Path) -> Repo:
    """A repository whose data is in the bucket, with deleted rows in its files."""
    repo = make(tmp_path / "ours", ROWS)
    with tiny_thresholds(most_deltas=9):
        write(repo, {**{k: v for k, v in ROWS.items() if k != 7}, 3: ("three", 3)})
    share(repo, bare(tmp_path / "server.git"), data=f"s3://{bucket}/data")
    return reopened(repo)


@pytest.mark.thorough
@pytest.mark.parametrize("kept", ["here", "in the bucket alone"])
def test_a_table_in_a_bucket_holds_the_rows(
    ours: Repo, bucket: str, endpoint: str, tmp_path: Path, kept: str
) -> None:
    repo = ours
    if kept != "here":
        server = tmp_path / "server.git"
        repo = clone(server, tmp_path / "lazy", data_url=f"s3://{bucket}/data", on_demand=True)
    url = f"s3://{bucket}/tables"

    made = repo.workspace.check_out_to(url)

    assert (made.root, made.tables, made.changed) == (url, ("points",), ("points",))
    table = BucketTable(f"{url}/points").read(tmp_path / "copies")
    assert rows(table) == read(ours) and len(rows(table)) == 39
    assert table.metadata.location == f"{url}/points"
    names = there(endpoint, f"{bucket}/tables/points")
    assert "metadata/version-hint.text" in names and "metadata/v1.metadata.json" in names
    assert not [name for name in names if name.startswith("data/.")]
    if kept != "here":
        # The store copied the data itself, and what is deleted was read there.
        assert files(repo) == []
    assert repo.workspace.check_out_to(url).changed == ()
    for path in (tmp_path / "copies").rglob("*"):
        assert not path.is_file() or str(ours.path).encode() not in path.read_bytes(), path
    assert not any((repo.git.data_folder / "staging").iterdir())


@pytest.mark.thorough
def test_a_table_follows_only_when_told(ours: Repo, bucket: str, tmp_path: Path) -> None:
    url = f"s3://{bucket}/wells"
    ours.workspace.check_out_to(url, dataset="points")
    first = BucketTable(url).read(tmp_path / "first")
    write(ours, {1: ("one", 1)})

    ours.workspace.check_out_to(url, dataset="points")

    table = BucketTable(url).read(tmp_path / "copies")
    assert (table.version, rows(table)) == (2, {1: ("one", 1)})
    old = first.metadata.current_snapshot_id
    assert set(table.metadata.snapshots) == {old, table.metadata.current_snapshot_id}
    assert run_all(scan_tasks(table, snapshot_id=old))
    again = BucketTable(url).read(tmp_path / "again", version=1)
    assert rows(again) == {**{k: v for k, v in ROWS.items() if k != 7}, 3: ("three", 3)}


@pytest.mark.parametrize("lazy", [False, True])
def test_edits_come_back(ours: Repo, bucket: str, tmp_path: Path, lazy: bool) -> None:
    repo, url = ours, f"s3://{bucket}/t"
    repo.workspace.check_out_to(url, dataset="points")
    edit(url, tmp_path / "engine", {100: ("new", 1), 101: ("newer", 2)}, gone=0)
    if lazy:
        server, data = tmp_path / "server.git", f"s3://{bucket}/data"
        repo = clone(server, tmp_path / "lazy", data_url=data, on_demand=True)
    before = read(ours)
    planned = repo.workspace.commit_from(url, dry_run=True)
    assert planned.commit is None

    result = repo.workspace.commit_from(url, message="By an engine")

    counts = result.changes["points"]
    assert (counts.inserts, counts.updates, counts.deletes) == (2, 0, 1) and result.notes == ()
    gone = min(before)
    wanted = {key: row for key, row in before.items() if key != gone}
    wanted |= {100: ("new", 1), 101: ("newer", 2)}
    assert read(repo) == wanted
    assert list(repo.fsck(full=True)) == []
    table = BucketTable(url).read(tmp_path / "after")
    assert rows(table) == wanted and table.version == 3
    with pytest.raises(NoChangesError):
        repo.workspace.commit_from(url)


@pytest.mark.thorough
def test_edits_are_not_passed_over(ours: Repo, bucket: str, tmp_path: Path) -> None:
    url = f"s3://{bucket}/t"
    ours.workspace.check_out_to(url, dataset="points")
    edit(url, tmp_path / "engine", {100: ("new", 1)})
    write(ours, {1: ("one", 1)})
    with pytest.raises(UncommittedChangesError, match="written to"):
        ours.workspace.check_out_to(url, dataset="points")

    result = ours.workspace.commit_from(url)

    assert result.changes["points"].inserts == 1
    assert read(ours) == {1: ("one", 1), 100: ("new", 1)}, "merged onto what HEAD has become"
    assert rows(BucketTable(url).read(tmp_path / "after")) == read(ours)
    edit(url, tmp_path / "again", {101: ("new", 1)})
    assert ours.workspace.check_out_to(url, dataset="points", discard=True).changed
    assert rows(BucketTable(url).read(tmp_path / "last")) == read(ours)


def test_whoever_publishes_second_is_told(ours: Repo, bucket: str, tmp_path: Path) -> None:
    url = f"s3://{bucket}/t"
    ours.workspace.check_out_to(url, dataset="points")
    place = BucketTable(url)
    table = place.read(tmp_path / "copies")
    edit(url, tmp_path / "engine", {100: ("new", 1)})
    with pytest.raises(ConcurrentChangeError):
        place.publish(table.metadata, table.version + 1, Flavour.HAVASU)


def test_a_folder_gives_its_edits_back_too(ours: Repo, tmp_path: Path) -> None:
    location = tmp_path / "table"
    ours.workspace.check_out_to(location, dataset="points")
    table = read_table(location)
    come = [{"id": 200, "name": "by hand", "height": 9}]
    write_snapshot(location, come=[data_file(table, come)])

    result = ours.workspace.commit_from(str(location))

    assert result.changes["points"].inserts == 1 and result.notes == ()
    assert read(ours)[200] == ("by hand", 9)
    assert rows(read_table(location)) == read(ours)


def test_what_is_no_table_is_left_alone(ours: Repo, bucket: str, endpoint: str) -> None:
    with s3(endpoint).open_output_stream(f"{bucket}/other/x") as stream:
        stream.write(b"mine")
    with pytest.raises(InvalidArgumentError, match="something else"):
        ours.workspace.check_out_to(f"s3://{bucket}/other", dataset="points")
    assert there(endpoint, f"{bucket}/other") == {"x": 4}


def test_another_table_is_left_alone(ours: Repo, bucket: str, tmp_path: Path) -> None:
    ours.workspace.check_out_to(f"s3://{bucket}/t", dataset="points")
    another = make(tmp_path / "another", {1: ("x", 1)})
    with pytest.raises(StateError, match="is not points"):
        another.workspace.check_out_to(f"s3://{bucket}/t", dataset="points", discard=True)
    with pytest.raises(RevisionNotFoundError):
        another.workspace.commit_from(f"s3://{bucket}/t")


def test_there_is_nothing_to_commit(ours: Repo, bucket: str) -> None:
    url = f"s3://{bucket}/t"
    ours.workspace.check_out_to(url, dataset="points")
    with pytest.raises(NoChangesError):
        ours.workspace.commit_from(url)
    with pytest.raises(CorruptionError, match="no table"):
        ours.workspace.commit_from(f"s3://{bucket}/none")
    with pytest.raises(HavasuError) as caught:
        ours.workspace.commit_from("s3://no-such-bucket-at-all/t")
    assert "\n" not in caught.value.message


def test_locations_lead_nowhere_else(ours: Repo, bucket: str, tmp_path: Path) -> None:
    ours.workspace.check_out_to(f"s3://{bucket}/t", dataset="points")
    table = BucketTable(f"s3://{bucket}/t").read(tmp_path / "copies")
    for location in (
        "s3://elsewhere/t/data/x.parquet",
        f"s3://{bucket}/t2/data/x.parquet",
        f"s3://{bucket}/t/../data/x.parquet",
        f"s3://{bucket}/t/data//x.parquet",
        "/etc/passwd",
        "file:///etc/passwd",
        f"s3://{bucket}/t",
        f"s3://{bucket}/t/" + "x" * 2000,
    ):
        with pytest.raises(CorruptionError):
            table.places.file(location)


def test_spellings_of_one_place() -> None:
    assert plain_location("S3A://b/x/") == plain_location("s3n://b/x") == "s3://b/x"
