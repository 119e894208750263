"""Edits of every shape, written by hand: what they come to, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import (
    CorruptionError,
    GeometryError,
    HavasuError,
    KeyViolationError,
    NoChangesError,
)
from havasu_vc.formats.havasu.entry import Entry, Origin
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.tables.table import read_table
from havasu_vc.workspace import incoming
from tests.repo.tables import BY_ID, NO_KEY, points, rows, write
from tests.support.sound import LOCAL, assert_sound, refuses
from tests.support.templates import empty_repo
from tests.workspace import by_hand
from tests.workspace.sheets import counts_of, rows_of

pytestmark = pytest.mark.few(3)

POINT = shapely.to_wkb(shapely.Point(1, 2))


def new(*ids: int, name: str = "new") -> by_hand.Rows:
    return [{"id": number, "geom": POINT, "name": name, "number": 1} for number in ids]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with `points`, 100 rows by id, checked out."""
    return made(tmp_path)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tables and files be dealt with as large ones are."""
    monkeypatch.setattr(incoming, "SMALL_FILE", 1)


def made(folder: Path, table: pa.Table | None = None, *, keyed: bool = True) -> Repo:
    repo = empty_repo(folder / "repo", settings=LOCAL)
    file = write(folder / "points.parquet", points(100) if table is None else table)
    repo.import_(file, options=BY_ID if keyed else NO_KEY)
    repo.workspace.check_out()
    return repo


def entries(repo: Repo) -> tuple[Entry, ...]:
    """Return the data files of HEAD's `points`."""
    view = repo.dataset("points")
    assert isinstance(view, HavasuDataset)
    return view.data_entries


def place(repo: Repo, path: str = "points") -> Path:
    return repo.workspace.root / path


def commit(repo: Repo, *, paths: tuple[str, ...] = ()) -> ChangeCounts:
    """Commit what is edited, and check all that must hold then."""
    expected = {path: rows_of(repo, path) for path in repo.datasets()}
    result = repo.workspace.commit(paths, message="Edit")
    for path in paths or repo.datasets():
        assert rows(repo, path) == expected[path]
        assert rows_of(repo, path) == expected[path]
    assert_sound(repo)
    assert not list(repo.fsck(full=True))
    changes = repo.workspace.changes()
    assert changes is not None and not (changes.tables or changes.problems or changes.notes)
    (counts,) = result.changes.values()
    return counts


def test_rows_come_and_go(repo: Repo) -> None:
    by_hand.insert(place(repo), new(1000, 1001))
    by_hand.delete(place(repo), {0: [3, 4], 1: [1]})

    assert counts_of(repo, "points") == ChangeCounts(1, 0, 2)
    assert commit(repo) == ChangeCounts(1, 0, 2)
    assert {row["id"] for row in rows(repo, "points")} == {*range(100), 1000} - {3, 4}


def test_an_update_is_a_delete_and_an_insert_of_one_key(repo: Repo) -> None:
    by_hand.delete(place(repo), [7])
    by_hand.insert(place(repo), new(7))

    assert counts_of(repo, "points") == ChangeCounts(0, 1, 0)
    assert commit(repo) == ChangeCounts(0, 1, 0)


def test_a_compaction_is_no_change(repo: Repo) -> None:
    by_hand.rewrite(place(repo), rows(repo, "points")[::-1])

    assert counts_of(repo, "points") == ChangeCounts()
    changes = repo.workspace.changes()
    assert changes is not None and "no row or column changed" in changes.notes[0]
    with refuses(repo, NoChangesError):
        repo.workspace.commit(message="Nothing")
    repo.switch("other", create=True)
    repo.set_meta("points", {"title": "Points"})
    assert counts_of(repo, "points") == ChangeCounts()


def test_a_rewrite_for_few_rows_commits_these_alone(repo: Repo) -> None:
    edited = rows(repo, "points")
    edited[5]["name"] = "other"
    by_hand.rewrite(place(repo), edited)

    assert commit(repo) == ChangeCounts(0, 1, 0)
    assert all(e.origin is not Origin.FOREIGN for e in entries(repo))


@pytest.mark.few(1)
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("twice", [False, True])
def test_large_files_come_in_as_they_are(repo: Repo, twice: bool) -> None:
    by_hand.insert(place(repo), new(*range(1000, 1400)))
    by_hand.delete(place(repo), {0: [3, 4], 1: range(100)})
    if twice:
        by_hand.insert(place(repo), new(*range(2000, 2100)))
        by_hand.delete(place(repo), {2: [0]})

    counts = commit(repo)

    assert counts == ChangeCounts(399 if twice else 300, 0, 2)
    foreign = [e for e in entries(repo) if e.origin is Origin.FOREIGN]
    assert len(foreign) == (2 if twice else 1)
    assert foreign[0].statistics and foreign[0].bounds
    by_hand.delete(place(repo), {0: [10], 1: [300]})
    assert commit(repo).deletes == 2


@pytest.mark.usefixtures("large")
def test_large_files_take_the_place_of_others(repo: Repo) -> None:
    edited = rows(repo, "points")
    for row in edited[:80]:
        row["number"] = -1
    by_hand.delete(place(repo), [99])
    commit(repo)
    by_hand.rewrite(place(repo), edited[:90])

    assert commit(repo) == ChangeCounts(0, 80, 9)
    assert [e.origin for e in entries(repo)] == [Origin.FOREIGN]


def test_a_file_whose_rows_are_all_deleted_is_gone(repo: Repo) -> None:
    by_hand.insert(place(repo), new(500))
    by_hand.delete(place(repo), {0: range(100)})

    assert commit(repo) == ChangeCounts(1, 0, 100)


@pytest.mark.usefixtures("large")
def test_rows_live_again_when_their_deletes_are_taken_back(repo: Repo) -> None:
    by_hand.delete(place(repo), [1, 2, 3])
    commit(repo)
    table = read_table(place(repo))
    (first,) = by_hand.live_paths(table)
    # Without the delete files of the checkout, only one row is deleted.
    deletes = [path for path in all_paths(repo) if path not in by_hand.live_paths(table)]
    assert deletes
    by_hand.write_snapshot(
        place(repo), come=[by_hand.position_deletes(table, {first: [2]})], go=deletes
    )

    assert counts_of(repo, "points") == ChangeCounts(2, 0, 0)
    assert commit(repo) == ChangeCounts(2, 0, 0)


def all_paths(repo: Repo) -> list[str]:
    from havasu_vc.tables.snapshots import live_files

    return [live.file.path for live in live_files(read_table(place(repo)))]


@pytest.mark.few(1)
@pytest.mark.parametrize("names", [("id",), ("name",), ("id", "number")])
def test_equality_deletes_are_positions(repo: Repo, names: tuple[str, ...]) -> None:
    by_hand.insert(place(repo), new(1000))
    table = read_table(place(repo))
    chosen = rows(repo, "points")[10:13]
    deletes = by_hand.equality_deletes(table, [{n: r[n] for n in names} for r in chosen], names)
    by_hand.write_snapshot(place(repo), come=[deletes, by_hand.data_file(table, new(10))])

    assert counts_of(repo, "points") == ChangeCounts(1, 1, 2)
    assert commit(repo) == ChangeCounts(1, 1, 2)


def test_without_a_key_equal_rows_count(tmp_path: Path) -> None:
    repo = made(tmp_path, pa.table({"a": [1, 1, 2], "b": ["x", "x", None]}), keyed=False)
    twin = [{"a": 1, "b": "x"}]
    by_hand.insert(place(repo), twin)
    by_hand.insert(place(repo), twin)
    by_hand.delete(place(repo), [2])

    assert counts_of(repo, "points") == ChangeCounts(2, 0, 1)
    assert commit(repo) == ChangeCounts(2, 0, 1)
    by_hand.insert(place(repo), twin)
    assert commit(repo) == ChangeCounts(1, 0, 0)


@pytest.mark.usefixtures("large")
def test_equal_files_without_a_key_become_two(tmp_path: Path) -> None:
    repo = made(tmp_path, pa.table({"a": [1, 1, 2], "b": ["x", "x", None]}), keyed=False)
    twin = [{"a": 1, "b": "x"}] * 5
    for _ in range(3):
        by_hand.insert(place(repo), twin)
    by_hand.delete(place(repo), {2: [0, 1]})

    assert commit(repo) == ChangeCounts(13, 0, 0)
    assert len(entries(repo)) == 4


@pytest.mark.few(1)
@pytest.mark.parametrize("as_files", [False, True])
@pytest.mark.parametrize(
    "come", [[[500, 501], [501]], [[500, 500]], [[50]]], ids=["two files", "one", "with the base"]
)
def test_keys_that_stand_twice_are_refused(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, come: list[list[int]], as_files: bool
) -> None:
    monkeypatch.setattr(incoming, "SMALL_FILE", 1 if as_files else 1 << 40)
    for ids in come:
        by_hand.insert(place(repo), new(*ids))
    key = come[-1][-1]

    with refuses(
        repo, KeyViolationError, match=f"points: two rows have the key id = {key}", hint=True
    ):
        repo.workspace.commit(message="Twice")
    by_hand.delete(place(repo), {len(come): [len(come[-1]) - 1]})
    if key != 50:
        commit(repo)


def test_a_key_that_moved_to_another_row_is_no_clash(repo: Repo) -> None:
    by_hand.delete(place(repo), [50])
    by_hand.insert(place(repo), new(50, 500))

    assert commit(repo) == ChangeCounts(1, 1, 0)


@pytest.mark.parametrize(
    ("column", "value", "error", "words"),
    [
        ("id", None, KeyViolationError, "points: a row has no value in its key column 'id'"),
        ("geom", b"\x01\x01\x00", GeometryError, "points: the geometry of row 501 cannot be read"),
        ("geom", b"not wkb at all", GeometryError, "points: the geometry of row 501"),
    ],
)
def test_rows_that_cannot_be_kept_are_named(
    repo: Repo, column: str, value: bytes | None, error: type[HavasuError], words: str
) -> None:
    bad = new(500, 501, 502)
    bad[1][column] = value
    by_hand.insert(place(repo), bad)

    with refuses(repo, error, match=words, hint=True):
        repo.workspace.commit(message="Bad")
    changes = repo.workspace.changes()
    assert changes is not None and words in changes.problems[0]


def test_some_datasets_are_committed_and_others_wait(tmp_path: Path) -> None:
    repo = made(tmp_path)
    file = write(tmp_path / "more.parquet", points(10))
    repo.import_(file, "nz/more", options=BY_ID)
    by_hand.insert(place(repo), new(1000))
    by_hand.insert(place(repo, "nz/more"), new(2000))

    assert repo.workspace.commit(["nz/more"], message="One").changes.keys() == {"nz/more"}
    changes = repo.workspace.changes()
    assert changes is not None and list(changes.tables) == ["points"]
    assert changes.notes == ()
    assert repo.workspace.commit(message="Two").changes.keys() == {"points"}


def test_edits_of_an_older_commit_come_onto_head_row_by_row(repo: Repo) -> None:
    by_hand.insert(place(repo), new(1000))
    columns = arrow_schema(repo.dataset("points").schema)
    table = pa.RecordBatch.from_pylist(new(5, name="elsewhere"), schema=columns)
    repo.write("points", table, message="Meanwhile")
    changes = repo.workspace.changes()
    assert changes is not None and "a commit brings them onto HEAD" in changes.notes[0]

    result = repo.workspace.commit(message="Edit")

    assert result.changes["points"] == ChangeCounts(1, 0, 0)
    found = {row["id"]: row["name"] for row in rows(repo, "points")}
    assert found[5] == "elsewhere" and found[1000] == "new" and len(found) == 101
    assert rows_of(repo, "points") == rows(repo, "points")
    assert_sound(repo)


def test_files_outside_of_a_table_are_read_only_where_they_are_allowed(
    repo: Repo, tmp_path: Path
) -> None:
    """A table that went through other hands could have anything committed and pushed."""
    written = by_hand.data_file(read_table(place(repo)), new(1000))
    outside = tmp_path / "private" / "a.parquet"
    outside.parent.mkdir()
    Path(written.path).rename(outside)
    by_hand.write_snapshot(place(repo), come=[replace(written, path=str(outside))])

    with refuses(repo, CorruptionError, match="which is outside of", hint=True):
        repo.workspace.commit(message="Given")
    changes = repo.workspace.changes()
    assert changes is not None and "which is outside of" in changes.problems[0]

    repo.config.set("havasu.linked.allow", str(outside.parent))
    repo = Repo.open(repo.path, settings=LOCAL)
    assert repo.workspace.commit(message="Given").changes["points"] == ChangeCounts(1, 0, 0)
    assert outside.exists()
