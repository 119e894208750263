"""Clustered tables of the workspace: how they are made, follow HEAD, and give edits back."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from havasu_vc.checkouts import clustered_versions
from havasu_vc.checkouts.edited_tables import committed_draft
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import (
    CorruptionError,
    DatasetNotFoundError,
    InvalidArgumentError,
    UncommittedChangesError,
)
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.model.changes import count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.repo.results import CheckoutResult
from havasu_vc.tables.snapshots import live_files
from havasu_vc.tables.table import read_table
from havasu_vc.workspace.state import TableState
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.checkouts import assert_shows_head, table_at
from tests.repo.tables import BY_ID, NO_KEY, points, rows, write
from tests.support.git import run_git
from tests.support.sound import LOCAL, assert_sound
from tests.support.templates import empty_repo
from tests.workspace import by_hand
from tests.workspace.sheets import counts_of, edits_of, rows_of

pytestmark = pytest.mark.few(2)

CLUSTERED = CheckoutRequest(clustered=True)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a table of some hundred rows be brought along as a large one is."""
    monkeypatch.setattr(clustered_versions, "SMALL", 0)
    with tiny_thresholds(most_deltas=8, group_rows=200):
        yield


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with `points`, 400 of them, whose table is clustered."""
    made = empty_repo(tmp_path / "repo", settings=LOCAL)
    made.import_(write(tmp_path / "points.parquet", points(400)), options=BY_ID)
    made.workspace.check_out(CLUSTERED)
    return made


def place(repo: Repo) -> Path:
    return repo.workspace.root / "points"


def row(key: int, name: str = "new") -> by_hand.Rows:
    return [{"id": key, "geom": None, "name": name, "number": 1}]


def state_of(repo: Repo) -> TableState:
    state = repo.workspace.state()
    assert state is not None
    return state.tables["points"]


def own_files(repo: Repo) -> dict[str, Origin]:
    """Return the files of the dataset in HEAD, and what wrote them."""
    view = repo.dataset("points")
    assert isinstance(view, HavasuDataset)
    return {entry.file: entry.origin for entry in view.data_entries}


def ids_in_files(repo: Repo) -> list[list[int]]:
    files = [Path(each.file.path) for each in live_files(table_at(repo)) if each.is_data]
    return [pq.read_table(file)["id"].to_pylist() for file in files]


def assert_clustered(repo: Repo) -> None:
    """Check that the table shows HEAD, and has no file of it but those of a few rows."""
    assert_shows_head(repo)
    assert state_of(repo).clustered is not None
    shared = [kind for file, kind in own_files(repo).items() if file in state_of(repo).files]
    assert Origin.IMPORT not in shared
    assert repo.workspace.edited() == {}
    changes = repo.workspace.changes()
    assert changes is not None and not (changes.tables or changes.problems or changes.notes)
    assert list(repo.workspace.diff()) == []


def edit(repo: Repo) -> None:
    """Insert a row, update one and delete one."""
    first = ids_in_files(repo)[0]
    by_hand.delete(place(repo), [1, 2])
    by_hand.insert(place(repo), [*row(first[1], "updated"), *row(5000)])


EDITED = ChangeCounts(1, 1, 1)


def test_rows_are_sorted_anew_and_none_differs(repo: Repo) -> None:
    assert_clustered(repo)
    (ids,) = ids_in_files(repo)
    assert ids != sorted(ids) and sorted(ids) == list(range(400))
    assert repo.workspace.check_out(CLUSTERED).changed == ()
    assert repo.workspace.check_out().changed == ()
    assert run_git("status", "--porcelain", cwd=repo.path) == ""
    assert_sound(repo)


def test_edits_come_back_and_the_table_is_in_step(repo: Repo) -> None:
    before = state_of(repo)
    edit(repo)
    held = rows_of(repo, "points")

    assert counts_of(repo, "points") == EDITED
    (diff,) = repo.workspace.diff("HEAD")
    assert count_changes(diff.changes) == EDITED
    found = edits_of(repo, "points")
    assert found is not None
    near = committed_draft(repo.opened, found).entries.keys()
    assert near & own_files(repo).keys(), "files of the commit stand for most rows"
    assert repo.workspace.commit(message="Edit").changes == {"points": EDITED}

    assert_clustered(repo)
    assert rows(repo, "points") == held
    now = state_of(repo)
    assert before.files.items() <= now.files.items(), "what was sorted stays as it is"
    assert len(now.files) == len(before.files) + 1
    assert list(repo.fsck(full=True)) == []
    assert_sound(repo)


def test_rows_that_only_come_are_taken_in_as_their_files(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    from havasu_vc.workspace import incoming

    monkeypatch.setattr(incoming, "SMALL_FILE", 1)
    by_hand.insert(place(repo), [row(key)[0] for key in range(1000, 1050)])

    assert repo.workspace.commit(message="More").changes == {"points": ChangeCounts(50, 0, 0)}
    assert_clustered(repo)
    assert list(own_files(repo).values()).count(Origin.FOREIGN) == 1


def test_a_compaction_is_no_edit(repo: Repo) -> None:
    by_hand.rewrite(place(repo), rows(repo, "points"))

    assert counts_of(repo, "points") == ChangeCounts()
    assert repo.workspace.edited() == {}
    repo.switch("dev", create=True)
    repo.write("points", pa.table({"id": [5], "name": ["five"]}))
    repo.switch("main")
    assert_shows_head(repo)


@pytest.mark.thorough
def test_branches_merges_and_resets_are_followed(repo: Repo) -> None:
    sorted_once = state_of(repo).files.keys()
    repo.switch("dev", create=True)
    edit(repo)
    repo.workspace.commit(message="Edit")
    on_dev = state_of(repo)
    repo.switch("main")
    assert_clustered(repo)
    repo.write("points", pa.table({"id": [390], "name": ["other"]}))
    assert_clustered(repo)
    repo.merge("dev")
    assert_clustered(repo)
    assert sorted_once <= state_of(repo).files.keys()
    repo.reset("HEAD^")
    assert_clustered(repo)
    repo.switch("dev")
    assert_clustered(repo)
    assert state_of(repo).clustered == on_dev.clustered, "what was made once is found again"
    edit(repo)
    with pytest.raises(UncommittedChangesError):
        repo.switch("main")
    repo.workspace.check_out(discard=True)
    assert_clustered(repo)


def test_much_that_differs_is_sorted_anew(repo: Repo) -> None:
    before = state_of(repo).files.keys()
    repo.write("points", pa.table({"id": range(300), "name": ["all"] * 300}))

    assert_clustered(repo)
    assert state_of(repo).files.keys().isdisjoint(before)
    assert len(ids_in_files(repo)) == 1


def test_asking_again_sorts_what_came_since(repo: Repo) -> None:
    edit(repo)
    repo.workspace.commit(message="Edit")
    assert len(ids_in_files(repo)) == 2

    assert repo.workspace.check_out().changed == ()
    assert repo.workspace.check_out(CLUSTERED).changed == ("points",)

    assert_clustered(repo)
    assert len(ids_in_files(repo)) == 1
    assert repo.workspace.check_out(CLUSTERED).changed == ()


def test_the_files_of_the_commits_again(repo: Repo) -> None:
    edit(repo)
    kept = repo.workspace.check_out(CheckoutRequest(clustered=False))
    assert kept.kept == ("points",)
    assert any("keeps its files until a commit" in note for note in kept.notes)
    assert repo.workspace.commit(message="Edit").changes == {"points": EDITED}

    assert state_of(repo).clustered is None
    assert own_files(repo).keys() == state_of(repo).files.keys()
    assert_shows_head(repo)
    assert repo.workspace.check_out().changed == ()


def test_columns_and_descriptions_are_altered(repo: Repo) -> None:
    before = state_of(repo).files
    repo.set_meta("points", {"title": "Points of interest"})
    assert_clustered(repo)
    assert table_at(repo).metadata.properties["comment"] == "Points of interest"
    # What every version of a table repeats is no place for a long text.
    repo.set_meta("points", {"title": "x" * 70_000})
    assert_clustered(repo)
    assert "comment" not in table_at(repo).metadata.properties
    assert repo.get_meta("points", ["title"]) == {"title": "x" * 70_000}
    repo.set_meta("points", {"title": "Points"})
    assert table_at(repo).metadata.properties["comment"] == "Points"
    repo.set_meta("points", {"title": None})
    assert "comment" not in table_at(repo).metadata.properties
    fields = columns(repo)
    fields[2]["name"] = "label"
    repo.set_meta("points", {"schema.json": [*fields, {**fields[2], "id": "x", "name": "more"}]})

    assert_clustered(repo)
    assert state_of(repo).files == before
    assert table_at(repo).metadata.schema.names[2:] == ("label", "number", "more")


def columns(repo: Repo) -> list[dict[str, Any]]:
    found: Any = repo.dataset("points").header.meta["schema.json"]
    return [dict(each) for each in found]


def test_a_stash_comes_back(repo: Repo) -> None:
    edit(repo)
    held = rows_of(repo, "points")
    repo.workspace.stash()
    assert_clustered(repo)

    repo.workspace.apply_stash(drop=True)

    assert counts_of(repo, "points") == EDITED
    assert rows_of(repo, "points") == held
    assert repo.workspace.commit(message="Edit").changes == {"points": EDITED}
    assert_clustered(repo)


def test_by_a_partition_spec(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    flat = points(400).drop_columns(["geom"])
    repo.import_(write(tmp_path / "points.parquet", flat), options=BY_ID)
    repo.workspace.check_out(CheckoutRequest(clustered=True, partition_by="number"))

    assert_clustered(repo)
    table = table_at(repo)
    spec = table.metadata.partition_specs[table.metadata.default_spec_id]
    assert [field.name for field in spec.fields] == ["number"]
    assert len(ids_in_files(repo)) == 7
    repo.write("points", pa.table({"id": [1, 900], "name": ["x", "y"], "number": [6, 3]}))
    assert_clustered(repo)
    assert len(ids_in_files(repo)) == 8, "what came lies in no partition"
    repo.workspace.check_out(
        CheckoutRequest(clustered=True, dataset="points", partition_by="bucket(2, id)")
    )
    assert len(ids_in_files(repo)) == 2
    assert_clustered(repo)


def test_a_column_that_rows_were_dealt_out_by_goes(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(40)), options=BY_ID)
    repo.workspace.check_out(CheckoutRequest(clustered=True, partition_by="number, bucket(2, id)"))
    assert len(ids_in_files(repo)) > 7
    kept_columns = [each for each in columns(repo) if each["name"] != "number"]
    repo.set_meta("points", {"schema.json": kept_columns})

    assert_clustered(repo)
    assert len(ids_in_files(repo)) == 2


@pytest.mark.thorough
def test_tables_that_nothing_sorts(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    flat = points(40).drop_columns(["geom"])
    repo.import_(write(tmp_path / "flat.parquet", flat), options=NO_KEY)
    repo.import_(write(tmp_path / "points.parquet", points(40)), options=NO_KEY)

    found = repo.workspace.check_out(CLUSTERED)

    assert any("flat has no geometries" in note for note in found.notes)
    assert_shows_head(repo)
    assert state_of(repo).clustered is not None
    state = repo.workspace.state()
    assert state is not None and state.tables["flat"].clustered is None
    for wanted in (
        CheckoutRequest(clustered=True, dataset="flat"),
        CheckoutRequest(clustered=True, partition_by="id"),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            repo.workspace.check_out(wanted)
        assert caught.value.hints
    with pytest.raises(DatasetNotFoundError):
        repo.workspace.check_out(CheckoutRequest(clustered=True, dataset="nothing"))
    with pytest.raises(InvalidArgumentError, match="go with a layout"):
        repo.workspace.check_out(CheckoutRequest(dataset="flat"))
    repo.workspace.check_out(CheckoutRequest(clustered=True, dataset="flat", partition_by="number"))
    assert_shows_head(repo)
    assert len(live_files(table_at(repo, "flat"))) == 7
    assert repo.workspace.check_out(CLUSTERED).changed == ()
    by_hand.insert(repo.workspace.root / "points", row(3) * 2)
    assert repo.workspace.commit(message="Twice").changes == {"points": ChangeCounts(2, 0, 0)}
    assert_shows_head(repo)


def test_kart_datasets(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", kart=True, settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(400)), options=BY_ID)
    repo.git.git("config", "havasu.workspace.path", str(tmp_path / "tables"))
    repo = Repo.open(tmp_path / "repo", settings=LOCAL)
    repo.workspace.check_out(CLUSTERED)
    assert state_of(repo).clustered is not None
    edit(repo)

    assert repo.workspace.commit(message="Edit").changes == {"points": EDITED}

    assert len(rows(repo, "points")) == 400
    assert repo.workspace.edited() == {}
    assert len(ids_in_files(repo)) == 2


@pytest.mark.thorough
def test_branches_of_git_stand_beside(repo: Repo) -> None:
    repo.create_branch("survey")
    repo.write("points", pa.table({"id": [5], "name": ["five"]}))
    repo.workspace.check_out(CheckoutRequest(refs=True))
    assert_clustered(repo)
    table = read_table(place(repo))
    assert {"survey", "main", "havasu-base"} <= table.metadata.references.keys()
    edit(repo)
    assert repo.workspace.commit(message="Edit", refs=True).changes == {"points": EDITED}
    assert_shows_head(repo)


def age(repo: Repo) -> None:
    """Let everything that is kept be old."""
    for folder in ("objects", "clustered"):
        for path in (repo.git.data_folder / folder).rglob("*"):
            os.utime(path, (1, 1))


def kept(repo: Repo) -> set[str]:
    return {path.name for path in (repo.git.data_folder / "clustered").iterdir()}


@pytest.mark.thorough
def test_gc_keeps_what_is_in_use(repo: Repo) -> None:
    first = kept(repo)
    repo.write("points", pa.table({"id": [5], "name": ["five"]}))
    assert len(kept(repo)) == 2
    age(repo)

    repo.gc(grace_days=0)

    assert len(kept(repo)) == 1 and kept(repo).isdisjoint(first)
    edit(repo)
    assert counts_of(repo, "points") == EDITED
    repo.workspace.commit(message="Edit")
    assert_clustered(repo)
    repo.workspace.check_out(CheckoutRequest(clustered=False))
    age(repo)
    repo.gc(grace_days=0)
    assert kept(repo) == set()
    assert_shows_head(repo)
    repo.workspace.check_out(CLUSTERED)
    assert_clustered(repo)


def lose(repo: Repo) -> None:
    for path in (repo.git.data_folder / "clustered").iterdir():
        path.unlink()


def test_what_is_kept_is_lost(repo: Repo) -> None:
    lose(repo)
    changes = repo.workspace.changes()
    assert changes is not None
    result: CheckoutResult = repo.workspace.check_out()
    assert result.changed == (), "the same rows are sorted alike"
    assert_clustered(repo)
    edit(repo)
    held = table_at(repo).version
    lose(repo)
    changes = repo.workspace.changes()
    assert changes is not None
    assert "is not there any more" in changes.problems[0]
    with pytest.raises(CorruptionError, match="is not there any more") as caught:
        repo.workspace.commit(message="Edit")
    assert caught.value.hints
    assert table_at(repo).version == held, "no edit is dropped"
    repo.workspace.check_out(discard=True)
    assert_clustered(repo)
