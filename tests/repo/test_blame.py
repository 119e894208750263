"""Blame, compared with a plain model that looks at every row of every commit."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import Repo, Settings
from havasu_vc.errors import (
    DatasetNotFoundError,
    HavasuError,
    InvalidArgumentError,
    RevisionNotFoundError,
    RowNotFoundError,
)
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history.blame import KeySet
from havasu_vc.looking import BlameRequest
from havasu_vc.looking.blaming import blame_dataset
from tests.repo.points import Rows, add_column, make, read, table, write
from tests.support.examples import examples
from tests.support.git import run_git
from tests.support.templates import empty_repo

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 9)}
Cells = dict[int, dict[int, Any]]


def cells_at(repo: Repo, commit: str) -> Cells | None:
    """Return the rows of a commit, cells by field id; None where the dataset is not there."""
    if "points" not in repo.datasets(commit):
        return None
    view = repo.dataset("points", commit)
    ids = [field.id for field in view.schema.fields]
    rows = repo.table("points", commit).to_arrow().to_pylist()
    return {row["id"]: dict(zip(ids, row.values(), strict=True)) for row in rows}


class Model:
    """Blame as it is defined: a row is asked of its commit, then of a parent that has it."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.versions: dict[str, Cells | None] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.trees: dict[str, str | None] = {}

    def load(self, commit: str) -> None:
        if commit not in self.versions:
            self.versions[commit] = cells_at(self.repo, commit)
            self.parents[commit] = self.repo.commit_info(commit).parents
            folder = self.repo.folders(self.repo.resolve(commit)).get("points")
            self.trees[commit] = None if folder is None else folder.internals

    def blame(self, commit: str, key: int, column: int | None) -> str:
        while True:
            self.load(commit)
            for parent in self.parents[commit]:
                self.load(parent)
            same = [p for p in self.parents[commit] if self.trees[p] == self.trees[commit]]
            alike = [p for p in self.parents[commit] if self.alike(p, commit, key, column)]
            following = (same or alike)[:1]
            if not following:
                return commit
            (commit,) = following

    def alike(self, parent: str, commit: str, key: int, column: int | None) -> bool:
        old, new = self.versions[parent], self.versions[commit]
        assert new is not None
        if old is None or key not in old:
            return False
        before, after = old[key], new[key]
        if column is not None:
            return column in before and before[column] == after[column]
        return all(before.get(name) == value for name, value in after.items())


def check(repo: Repo, columns: tuple[str, ...] = ()) -> None:
    """Compare blame of the whole table, and of single rows, with the model."""
    head = str(repo.head().commit)
    model, rows = Model(repo), read(repo)
    ids = {field.name: field.id for field in repo.dataset("points").schema.fields}
    every = list(blame_dataset(repo.opened, BlameRequest("points")).rows())
    assert [row.key[0] for row in every] == sorted(rows)
    for row in every:
        assert row.commit is not None
        assert row.commit.id == model.blame(head, row.key[0], None), row.key
    cells = {row.key[0]: row.cells for row in blame_columns(repo, columns)}
    for key in rows:
        (single,) = blame_dataset(repo.opened, BlameRequest("points", keys=[key])).rows()
        assert single.commit is not None
        assert single.commit.id == model.blame(head, key, None), key
        for column in columns:
            expected = model.blame(head, key, ids[column])
            assert cells[key][column].id == expected, (key, column)
        if columns:
            (one,) = blame_dataset(
                repo.opened, BlameRequest("points", keys=[key], columns=columns)
            ).rows()
            assert one.cells == cells[key]


def blame_columns(repo: Repo, columns: tuple[str, ...]) -> Iterator[Any]:
    return (
        blame_dataset(repo.opened, BlameRequest("points", columns=columns)).rows()
        if columns
        else iter(())
    )


@pytest.fixture(autouse=True)
def small_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a handful of edits do what takes many in a large table."""
    monkeypatch.setattr("havasu_vc.datasets.havasu.edit.MOST_DELTAS", 3)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make(tmp_path / "repo", FIRST)


edits = st.lists(st.integers(0, 2**32), min_size=4, max_size=10)


@examples(5)
@given(seeds=edits, chosen_limit=st.sampled_from([1 << 17, 0]))
def test_blame_agrees_with_the_model(seeds: list[int], chosen_limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("havasu_vc.datasets.havasu.chosen.MOST_ROWS", chosen_limit)
        repo = make(Path(folder) / "repo", FIRST)
        for number, seed in enumerate(seeds):
            step(repo, random.Random(seed), number)
        schema = repo.dataset("points").schema
        check(repo, tuple(name for name in schema.names if name != "id"))


def step(repo: Repo, choose: random.Random, number: int) -> None:
    """Make one random commit, or several on two branches and their merge."""
    match choose.randrange(6):
        case 0:
            repo.set_meta("points", {"title": f"title {number}"})
        case 1:
            change_schema(repo, choose, number)
        case 2:
            merge_edits(repo, choose, number)
        case _:
            edit(repo, choose, range(1, 13))


def edit(repo: Repo, choose: random.Random, keys: range) -> None:
    known = read(repo)
    rows = dict(known)
    for key in choose.sample(list(keys), 3):
        row = (choose.choice([None, "a", "b"]), choose.choice([None, 1, 2]))
        if key in rows and len(rows) > 3 and choose.random() < 0.3:
            del rows[key]
        else:
            rows[key] = row + (rows[key][2:] if key in rows else ())
    gone = [key for key in known if key not in rows]
    come = {key: row[:2] for key, row in rows.items() if known.get(key, ())[:2] != row[:2]}
    names = [n for n in repo.dataset("points").schema.names if n != "id"][:2]
    if gone:
        repo.write("points", table(dict.fromkeys(gone, (None, None))), mode="delete")
    if come:
        repo.write("points", table(come).rename_columns(["id", *names]))


def change_schema(repo: Repo, choose: random.Random, number: int) -> None:
    columns = repo.get_meta("points", ["schema.json"])["schema.json"]
    if len(columns) > 3 and choose.random() < 0.5:
        columns.pop()
    elif choose.random() < 0.5:
        columns[1]["name"] = f"name {number}"
    else:
        columns.append({"name": f"extra {number}", "dataType": "text"})
    repo.set_meta("points", {"schema.json": columns})


def merge_edits(repo: Repo, choose: random.Random, number: int) -> None:
    side = f"side-{number}"
    repo.create_branch(side)
    edit(repo, choose, range(1, 7))
    repo.switch(side)
    edit(repo, choose, range(7, 13))
    repo.switch("main")
    repo.merge(side)


def test_rows_in_order_and_who_and_when(repo: Repo) -> None:
    first = repo.head().commit
    commit = write(repo, {**FIRST, 3: ("three", 3), 12: ("twelve", 12)})

    found = blame_dataset(repo.opened, BlameRequest("points"))
    rows = {row.key: row.commit for row in found.rows()}

    assert list(rows) == [(key,) for key in (*FIRST, 12)]
    assert {key for (key,), info in rows.items() if info and info.id == commit} == {3, 12}
    assert {info.id for info in found.commits} == {first, commit}
    assert found.revision == commit
    assert found.key == ("id",)
    for info in found.commits:
        assert (info.author_name, info.author_email) == ("Test User", "test@example.com")


def test_a_row_at_an_older_revision(repo: Repo) -> None:
    commit = write(repo, {**FIRST, 3: ("three", 3)})
    write(repo, {**FIRST, 3: ("drei", 3)})

    (row,) = blame_dataset(repo.opened, BlameRequest("points", keys=[3], revision="HEAD^")).rows()

    assert row.commit is not None
    assert row.commit.id == commit


def test_cells_are_blamed_each_on_its_own(repo: Repo) -> None:
    first = str(repo.head().commit)
    name = write(repo, {**FIRST, 3: ("three", 3)})
    height = write(repo, {**FIRST, 3: ("three", 33)})
    add_column(repo, "extra")
    extra = repo.head().commit

    columns = ["name", "height", "id", "extra"]
    (row,) = blame_dataset(repo.opened, BlameRequest("points", keys=["3"], columns=columns)).rows()

    assert {column: info.id for column, info in row.cells.items()} == {
        "name": name,
        "height": height,
        "id": first,
        "extra": extra,
    }


def test_keys_come_in_the_order_given_and_once(repo: Repo) -> None:
    found = blame_dataset(repo.opened, BlameRequest("points", keys=[5, "2", (7,), 5]))

    assert [row.key for row in found.rows()] == [(5,), (2,), (7,)]


def test_a_value_that_came_back_is_blamed_on_who_brought_it_back(repo: Repo) -> None:
    write(repo, {**FIRST, 3: ("three", 3)})
    again = write(repo, FIRST)

    (row,) = blame_dataset(repo.opened, BlameRequest("points", keys=[3])).rows()

    assert row.commit is not None
    assert row.commit.id == again


def test_a_row_whose_delete_was_undone_by_git_is_blamed_on_that(repo: Repo) -> None:
    write(repo, {key: row for key, row in FIRST.items() if key != 3})
    run_git("revert", "--no-edit", "HEAD", cwd=repo.path)

    check(repo, ("name",))
    (row,) = blame_dataset(repo.opened, BlameRequest("points", keys=[3])).rows()
    assert row.commit is not None
    assert row.commit.id == repo.head().commit


def test_optimize_changes_no_row(repo: Repo) -> None:
    commit = write(repo, {**FIRST, 3: ("three", 3)})
    repo.optimize()
    assert repo.head().commit != commit

    check(repo, ("name", "height"))
    (row,) = blame_dataset(repo.opened, BlameRequest("points", keys=[3])).rows()
    assert row.commit is not None
    assert row.commit.id == commit


def test_several_key_columns_of_other_types(tmp_path: Path) -> None:
    source = tmp_path / "lines.csv"
    source.write_text("a,b,v\nx,1,1\nx,2,2\ny,1,3\n")
    repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
    options = SourceOptions(primary_key=("a", "b"))
    repo.import_(source, "lines", options=options)
    source.write_text("a,b,v\nx,1,1\nx,2,22\ny,1,3\n")
    repo.import_(source, "lines", options=options, replace=True)

    head, first = (repo.resolve(name).commit for name in ("HEAD", "HEAD^"))
    rows = {row.key: row.commit for row in blame_dataset(repo.opened, BlameRequest("lines")).rows()}
    assert {key: info and info.id for key, info in rows.items()} == {
        ("x", 1): first,
        ("x", 2): head,
        ("y", 1): first,
    }
    (row,) = blame_dataset(repo.opened, BlameRequest("lines", keys=["x,2"])).rows()
    assert row.commit is not None
    assert row.commit.id == head


def test_what_cannot_be_blamed_is_refused(repo: Repo, tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        blame_dataset(repo.opened, BlameRequest("nothing"))
    with pytest.raises(RevisionNotFoundError):
        blame_dataset(repo.opened, BlameRequest("points", revision="nothing"))
    with pytest.raises(RowNotFoundError, match="no row 99"):
        blame_dataset(repo.opened, BlameRequest("points", keys=[99]))
    with pytest.raises(InvalidArgumentError, match="no column"):
        blame_dataset(repo.opened, BlameRequest("points", columns=["nothing"]))
    with pytest.raises(InvalidArgumentError):
        blame_dataset(repo.opened, BlameRequest("points", keys=["x"]))
    with pytest.raises(InvalidArgumentError):
        blame_dataset(repo.opened, BlameRequest("points", keys=[2**70]))
    with pytest.raises(HavasuError):
        blame_dataset(repo.opened, BlameRequest("points", keys=[(1, 2)]))
    source = tmp_path / "loose.csv"
    source.write_text("a,b\n1,2\n")
    repo.import_(source, "loose")
    if not repo.dataset("loose").key:
        with pytest.raises(InvalidArgumentError, match="has no key"):
            blame_dataset(repo.opened, BlameRequest("loose"))


@pytest.mark.parametrize("keys", [None, [1, 2, 3]])
def test_a_dataset_is_followed_to_where_it_was_before(
    tmp_path: Path, keys: list[int] | None
) -> None:
    repo = make(tmp_path / "repo", FIRST)
    first = repo.commit_info().id
    write(repo, {**FIRST, 2: ("edited", 2)}, message="edit")
    second = repo.commit_info().id
    folder = tmp_path / "repo"
    tree = run_git("rev-parse", "HEAD:points", cwd=folder)
    for command in (
        ["rm", "-rq", "--cached", "--sparse", "points"],
        ["read-tree", "--prefix=places/", tree],
        ["commit", "--quiet", "-m", "move"],
    ):
        run_git(*command, cwd=folder)
    moved = Repo.open(folder, settings=Settings(engine="local"))
    write(moved, {**read(moved, dataset="places"), 3: ("later", 3)}, dataset="places")
    third = moved.commit_info().id

    found = moved.blame("places", keys=keys)
    places = {row.key[0]: row.commit and row.commit.id for row in found.rows()}
    wanted = dict.fromkeys(FIRST, first) | {2: second, 3: third}
    assert places == {key: wanted[key] for key in keys or FIRST}


def test_a_commit_that_changes_the_key_is_to_blame_for_every_row(repo: Repo) -> None:
    columns = repo.get_meta("points", ["schema.json"])["schema.json"]
    for column in columns:
        column["primaryKeyIndex"] = 0 if column["name"] == "name" else None
    changed = repo.set_meta("points", {"schema.json": columns}).commit
    assert repo.dataset("points").key.names == ("name",)

    found = list(blame_dataset(repo.opened, BlameRequest("points")).rows())
    assert len(found) == len(FIRST)
    assert {row.commit.id for row in found if row.commit} == {changed}


numbers = st.frozensets(st.integers(0, 9))


@given(first=numbers, second=numbers, buts=st.tuples(st.booleans(), st.booleans()))
def test_sets_of_keys_are_sets(
    first: frozenset[int], second: frozenset[int], buts: tuple[bool, bool]
) -> None:
    every = frozenset(range(10))
    hashes = np.arange(10, dtype=np.uint64)

    def made(some: frozenset[int], but: bool) -> tuple[KeySet, frozenset[int]]:
        keys = KeySet.of(np.array(sorted(some), np.uint64))
        return (~keys, every - some) if but else (keys, some)

    def held(keys: KeySet) -> set[int]:
        return set(hashes[keys.has(hashes)].tolist())

    (one, a), (other, b) = made(first, buts[0]), made(second, buts[1])
    assert held(one) == a and held(other) == b
    assert held(one & other) == a & b
    assert held(one | other) == a | b
    assert held(one - other) == a - b
    assert held(~one) == every - a
    assert one.empty == (not a and not buts[0])
