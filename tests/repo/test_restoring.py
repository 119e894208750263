"""Restoring datasets, rows and meta items from other revisions."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import Repo
from havasu_vc.editing import RestoreRequest
from havasu_vc.editing.restoring import restore
from havasu_vc.errors import HavasuError, InvalidArgumentError, RowNotFoundError
from tests.repo.points import Rows, add, add_column, assert_clean, make, read, write
from tests.support.examples import examples
from tests.support.git import run_git

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 9)}

cells = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))
tables = st.dictionaries(st.integers(1, 8), cells, min_size=1, max_size=8)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make(tmp_path / "repo", FIRST)


@examples(8)
@given(first=tables, second=tables, back=st.integers(0, 2), rows_only=st.booleans())
def test_restoring_all_gives_the_rows_of_then(
    first: Rows, second: Rows, back: int, rows_only: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = make(Path(folder) / "repo", FIRST)
        write(repo, first)
        write(repo, second)
        # Equal tables make no commit.
        commits = int(run_git("rev-list", "--count", "HEAD", cwd=repo.path))
        source = f"HEAD~{min(back, commits - 1)}"
        then, differs = read(repo, source), read(repo, source) != read(repo)

        result = restore(
            repo.opened, RestoreRequest(["points:feature"] if rows_only else [], source=source)
        )

        assert read(repo) == then
        assert not differs or result.commit == repo.head().commit
        assert (
            restore(repo.opened, RestoreRequest(["points:feature"], source="HEAD")).commit is None
        )
        assert_clean(repo)


@given(first=tables, keys=st.sets(st.integers(1, 8), min_size=1, max_size=3))
@examples(8)
def test_restoring_some_rows_leaves_the_others(first: Rows, keys: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = make(Path(folder) / "repo", FIRST)
        write(repo, first)
        source = f"{repo.resolve('HEAD').commit}"
        write(repo, FIRST)
        then = read(repo, source)

        restore(
            repo.opened, RestoreRequest([f"points:feature:{key}" for key in keys], source=source)
        )

        expected = {k: v for k, v in FIRST.items() if k not in keys}
        expected |= {key: then[key] for key in keys if key in then}
        assert read(repo) == dict(sorted(expected.items()))
        assert_clean(repo)


def test_counts_and_message(repo: Repo) -> None:
    write(repo, {**{k: v for k, v in FIRST.items() if k != 2}, 3: ("three", 3), 20: ("new", 0)})

    result = restore(repo.opened, RestoreRequest(["points"], source="HEAD~2"))

    counts = result.changes["points"]
    assert (counts.inserts, counts.updates, counts.deletes) == (1, 1, 1)
    assert repo.commit_info().message == "Restore points from HEAD~2"
    assert repo.head().tree == repo.resolve("HEAD~3").tree
    assert_clean(repo)


def test_trying_changes_nothing(repo: Repo) -> None:
    head = write(repo, {**FIRST, 3: ("three", 3)})

    result = restore(
        repo.opened, RestoreRequest(["points:feature:3"], source="HEAD^", dry_run=True)
    )

    assert result.commit is None
    assert result.changes["points"].updates == 1
    assert repo.head().commit == head


def test_a_dataset_that_was_deleted_comes_back_and_goes(repo: Repo, tmp_path: Path) -> None:
    before = repo.head().commit
    add(repo, tmp_path, {1: ("one", 1)}, "more/lines")

    restore(repo.opened, RestoreRequest(["more/lines"], source=str(before)))
    assert repo.datasets() == ("points",)
    assert_clean(repo)
    restore(repo.opened, RestoreRequest(["more/lines"], source="HEAD^"))

    assert read(repo, dataset="more/lines") == {1: ("one", 1)}
    assert_clean(repo)
    restore(repo.opened, RestoreRequest(source="HEAD^"))
    assert repo.datasets() == ("points",)


def test_meta_items_one_by_one(repo: Repo) -> None:
    repo.set_meta("points", {"title": "Old", "description": "old"})
    repo.set_meta("points", {"title": "New", "description": "new"})
    write(repo, {**FIRST, 3: ("three", 3)})

    restore(repo.opened, RestoreRequest(["points:meta:title"], source="HEAD~2"))
    assert repo.get_meta("points", ["title", "description"]) == {
        "title": "Old",
        "description": "new",
    }
    restore(repo.opened, RestoreRequest(["points:meta"], source="HEAD~4"))

    assert set(repo.get_meta("points")) == {"schema.json"}
    assert read(repo)[3] == ("three", 3)
    assert_clean(repo)


def test_columns_that_came_since_keep_their_values(repo: Repo) -> None:
    write(repo, {**FIRST, 3: ("three", 3)})
    add_column(repo, "extra")
    repo.write("points", pa.table({"id": [3, 4], "extra": ["x", "y"]}))

    restore(repo.opened, RestoreRequest(["points:feature:3", "points:feature:4"], source="HEAD~3"))

    assert (read(repo)[3], read(repo)[4]) == (("name 3", 3, "x"), ("name 4", 4, "y"))
    assert_clean(repo)


def test_rows_and_meta_items_in_one_commit(repo: Repo) -> None:
    first = repo.head().commit
    repo.set_meta("points", {"title": "New"})
    write(repo, {**FIRST, 3: ("three", 3), 4: ("four", 4)})

    restore(
        repo.opened, RestoreRequest(["points:feature:3", "points:meta:title"], source=str(first))
    )

    assert (read(repo)[3], read(repo)[4]) == (("name 3", 3), ("four", 4))
    assert "title" not in repo.get_meta("points")
    assert_clean(repo)


def test_what_cannot_be_restored_is_refused(repo: Repo, tmp_path: Path) -> None:
    write(repo, {**FIRST, 3: ("three", 3)})
    add(repo, tmp_path, {1: ("one", 1)}, "lines")
    head = repo.head().commit

    for filters in (["nothing"], ["points:feature:x"], ["points:meta:nothing"]):
        with pytest.raises(InvalidArgumentError):
            restore(repo.opened, RestoreRequest(filters, source="HEAD~2"))
    with pytest.raises(InvalidArgumentError, match="as a whole"):
        restore(repo.opened, RestoreRequest(["lines:feature:1"], source="HEAD^"))
    with pytest.raises(RowNotFoundError):
        restore(repo.opened, RestoreRequest(["points:feature:99"], source="HEAD~2"))
    with pytest.raises(HavasuError):
        restore(repo.opened, RestoreRequest(["points"], source="nothing"))

    assert repo.head().commit == head
    assert_clean(repo)
