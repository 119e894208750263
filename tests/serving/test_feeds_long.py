"""Feeds of branches with more commits than there are snapshots: no row is lost, or told twice."""

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.types import IntegerType

from havasu_vc import Repo, Settings
from tests.serving.server import catalog, serving
from tests.serving.test_engines import attach, duckdb
from tests.serving.test_feeds import FEED, LABELS, Model, in_order, new_model, told
from tests.support.git import run_git

__all__ = ["duckdb"]

SHORT = "import havasu_vc.serving.history as steps; steps.LEAST, steps.BEGINNINGS = 4, 2"
"""Every second commit, on average, ends a stretch, and four or more have snapshots."""
STEADY = "import havasu_vc.serving.history as steps; steps.LEAST, steps.BEGINNINGS = 4, 1"
"""Every commit ends a stretch, and four have snapshots."""
MOST_SHOWN = 24


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A branch of some 30 commits that changed rows, the first of two to twenty rows each."""
    found = new_model(tmp_path_factory.mktemp("long"))
    for number in range(26):
        found.write((number % 7, f"v{number}"), (100 + number, None))
        if number % 9 == 8:
            found.delete(100 + number)
    return found


@pytest.fixture
def branch(model: Model, tmp_path: Path) -> Model:
    """A copy of the branch, to commit to."""
    path = tmp_path / "repo"
    shutil.copytree(model.repo.path, path, symlinks=True)
    found = Model(Repo.open(path, settings=Settings(engine="local")))
    found.rows, found.done = dict(model.rows), list(model.done)
    return found


def one_by_one(table: Any) -> list[Any]:
    """Return what a stream takes that begins with the oldest snapshot, snapshot by snapshot."""
    newest = table.current_snapshot()
    snapshots = list(ancestors_of(newest, table.metadata))[::-1]
    rows = told(table.scan(snapshot_id=snapshots[0].snapshot_id).to_arrow())
    for before, each in pairwise(snapshots):
        scan = table.incremental_append_scan(
            from_snapshot_id_exclusive=before.snapshot_id, to_snapshot_id_inclusive=each.snapshot_id
        )
        rows += told(scan.to_arrow())
    return in_order(rows)


@pytest.mark.thorough
def test_a_feed_has_every_commit_and_goes_on(branch: Model, tmp_path: Path) -> None:
    with serving(branch.repo.path, first=SHORT) as url:
        read = None
        for number in range(4):
            table = catalog(url).load_table(FEED)
            assert told(table.scan().to_arrow()) == in_order(branch.done)
            assert one_by_one(table) == in_order(branch.done)
            if read is not None:
                new = table.incremental_append_scan(from_snapshot_id_exclusive=read)
                assert {row["id"] for row in new.to_arrow().to_pylist()} == {1000 + number - 1}
            read = table.current_snapshot().snapshot_id
            branch.write((1000 + number, "new"))
        assert len(table.snapshots()) < MOST_SHOWN
        changed = dict.fromkeys(commit for commit, _, _ in branch.done)
        history = catalog(url).load_table("tables.points__history").scan().to_arrow()
        assert sorted(history["_commit_id"].to_pylist()) == sorted(changed)
        for commit in changed:
            scan = catalog(url).load_table(FEED).scan(row_filter=f"_commit_id = '{commit}'")
            assert told(scan.to_arrow()) == in_order([d for d in branch.done if d[0] == commit])
    copied = tmp_path / "copy"
    shutil.copytree(branch.repo.path, copied, ignore=shutil.ignore_patterns("catalog"))
    with serving(copied, first=SHORT) as other, serving(branch.repo.path, first=SHORT) as again:
        ours, theirs = (catalog(each).load_table(FEED) for each in (again, other))
        assert told(theirs.scan().to_arrow()) == in_order(branch.done)
        ids = [[each.snapshot_id for each in table.snapshots()] for table in (ours, theirs)]
        assert ids[0] == ids[1]


@pytest.mark.thorough
def test_columns_of_long_ago(branch: Model) -> None:
    before = {(commit, kind, row["id"]): row["name"] for commit, kind, row in branch.done}
    with serving(branch.repo.path, "--write", "main", first=STEADY) as url:
        with catalog(url).load_table("tables.points").update_schema() as update:
            update.delete_column("name")
        with catalog(url).load_table("tables.points").update_schema() as update:
            update.add_column("name", IntegerType())
        for number in range(6):
            rows = pa.table({"id": [2000], "name": pa.array([number], pa.int32())})
            branch.repo.write("points", rows, message=f"Number {number}")
        feed = catalog(url).load_table(FEED).scan().to_arrow()
    old = feed.column_names[-1]
    assert feed.column_names == [*LABELS, "id", "name", old] and old.startswith("name_")
    rows = feed.to_pylist()
    found = {(r["_commit_id"], r["_change_type"], r["id"]): r[old] for r in rows if r["id"] < 2000}
    assert found == before
    assert [r["name"] for r in rows if r["id"] == 2000].count(5) == 1


@pytest.mark.thorough
def test_where_a_clone_ends_its_feed_begins(branch: Model, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    run_git("clone", "-q", "--depth", "15", f"file://{branch.repo.path}", str(cut), cwd=tmp_path)
    shutil.copytree(branch.repo.path / ".git/havasu", cut / ".git/havasu", dirs_exist_ok=True)
    with serving(cut, first=STEADY) as url:
        found = told(catalog(url).load_table(FEED).scan().to_arrow())
    commits = list(dict.fromkeys(commit for commit, _, _ in branch.done))[-14:]
    assert found == in_order([each for each in branch.done if each[0] in commits])


@pytest.mark.thorough
def test_where_data_is_kept_no_longer_a_feed_begins_later(branch: Model) -> None:
    repo = branch.repo
    old = {each.file for each in repo.dataset("points").data_entries}  # type: ignore[attr-defined]
    repo.optimize()
    for number in range(8):
        branch.write((3000 + number, "new"))
    now = {each.file for each in repo.dataset("points").data_entries}  # type: ignore[attr-defined]
    assert old - now
    for file in old - now:
        repo.storage.files.path(file).unlink()
    with serving(repo.path, first=STEADY) as url:
        found = told(catalog(url).load_table(FEED).scan().to_arrow())
    commits = list(dict.fromkeys(commit for commit, _, _ in branch.done))[-8:]
    assert found == in_order([each for each in branch.done if each[0] in commits])


@pytest.mark.thorough
def test_duckdb_reads_a_long_feed(model: Model, duckdb: Callable[[list[str]], list[Any]]) -> None:
    query = "SELECT _commit_id, _change_type, id, name FROM served.tables.points__changes"
    with serving(model.repo.path, first=SHORT) as url:
        rows = duckdb([attach(url, "main"), query])[1]
    found = [(c, kind, {"id": key, "name": name}) for c, kind, key, name in rows]
    assert in_order(found) == in_order(model.done)
