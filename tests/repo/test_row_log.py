"""The log of rows and columns, compared with a plain look at every commit."""

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import Repo
from havasu_vc.errors import DatasetNotFoundError, InvalidArgumentError
from tests.repo.points import Rows, add_column, make, read, write
from tests.support.examples import examples

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 9)}

cells = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))
tables = st.dictionaries(st.integers(1, 8), cells, max_size=8)


@pytest.fixture(autouse=True)
def small_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("havasu_vc.datasets.havasu.edit.MOST_DELTAS", 3)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make(tmp_path / "repo", FIRST)


def ids(repo: Repo, *filters: str, **conditions: Any) -> list[str]:
    return [info.id for info in repo.log(filters=filters, **conditions)]


@examples(5)
@given(versions=st.lists(tables, min_size=2, max_size=6), seed=st.integers(0, 99))
def test_rows_and_cells_of_a_line_of_commits(versions: list[Rows], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = make(Path(folder) / "repo", FIRST)
        for version in versions:
            write(repo, {**version, 9: ("nine", random.Random(seed).randrange(3))})
        commits = ids(repo)
        rows = [read(repo, commit) for commit in commits] + [{}]
        for key in (1, 5, 9):
            seen = [each.get(key) for each in rows]
            expected = [c for c, a, b in zip(commits, seen, seen[1:], strict=False) if a != b]
            assert ids(repo, f"points:feature:{key}") == expected
            names = [None if row is None else row[:1] for row in seen]
            expected = [c for c, a, b in zip(commits, names, names[1:], strict=False) if a != b]
            assert ids(repo, f"points:feature:{key}", columns=["name"]) == expected


def test_merges_that_took_one_side_are_passed_over(repo: Repo) -> None:
    first = repo.head().commit
    repo.create_branch("side")
    mine = write(repo, {**FIRST, 3: ("three", 3)})
    repo.switch("side")
    write(repo, {**FIRST, 4: ("four", 4)})
    theirs = write(repo, {**FIRST, 4: ("four", 4), 3: ("name 3", 33)})
    repo.switch("main")
    merge = repo.merge("side").commit

    assert read(repo)[3] == ("three", 33)
    assert set(ids(repo, "points:feature:3")) == {merge, theirs, mine, first}
    assert ids(repo, "points:feature:3", columns=["name"]) == [mine, first]
    assert len(ids(repo, "points:feature:4")) == 2


def test_conditions_hold_for_rows_too(repo: Repo) -> None:
    three = write(repo, {**FIRST, 3: ("three", 3)}, message="first edit")
    write(repo, {**FIRST, 3: ("three", 3), 4: ("four", 4)})
    drei = write(repo, {**FIRST, 3: ("drei", 3), 4: ("four", 4)}, message="second edit")

    assert ids(repo, "points:feature:3", limit=1) == [drei]
    assert ids(repo, "points:feature:3", grep="first edit") == [three]
    assert ids(repo, "points:feature:3", author="Nobody") == []
    assert len(ids(repo, "points:feature:3", "points:feature:4")) == 4
    assert len(ids(repo, "points:feature")) == 4


def test_whole_columns(repo: Repo) -> None:
    first = repo.head().commit
    name = write(repo, {**FIRST, 3: ("three", 3)})
    height = write(repo, {**FIRST, 3: ("three", 33)})
    repo.set_meta("points", {"title": "Points"})
    add_column(repo, "extra")
    repo.optimize()

    assert ids(repo, "points", columns=["name"]) == [name, first]
    assert ids(repo, "points", columns=["height"]) == [height, first]
    assert ids(repo, "points", columns=["name", "height"]) == [height, name, first]


def test_a_row_is_read_at_a_revision(repo: Repo) -> None:
    write(repo, {**FIRST, 3: ("three", 3)})

    assert repo.row("points", 3) == {"id": 3, "name": "three", "height": 3}
    assert repo.row("points", "3", "HEAD^") == {"id": 3, "name": "name 3", "height": 3}
    with pytest.raises(LookupError, match="no row 99"):
        repo.row("points", 99)


def test_what_is_no_row_is_refused(repo: Repo) -> None:
    for filters, columns in (
        (["points:feature:x"], ()),
        (["points:feature:1"], ["nothing"]),
        (["points:nothing"], ()),
        ([], ["name"]),
    ):
        with pytest.raises(InvalidArgumentError):
            list(repo.log(filters=filters, columns=columns))
    with pytest.raises(DatasetNotFoundError):
        list(repo.log(filters=["nothing:feature:1"]))
    assert ids(repo, "points:feature:99") == []


def test_cells_of_a_column_that_came_later(repo: Repo) -> None:
    add_column(repo, "extra")
    before = repo.head().commit
    rows = [{"id": 3, "name": "name 3", "height": 3, "extra": "more"}]
    schema = repo.table("points").to_arrow().schema
    filled = repo.write("points", pa.Table.from_pylist(rows, schema=schema)).commit
    later = [{"id": 4, "name": "four", "height": 4, "extra": None}]
    repo.write("points", pa.Table.from_pylist(later, schema=schema))

    assert ids(repo, "points:feature:3", columns=["extra"])[0] == filled
    assert before not in ids(repo, "points:feature:3", columns=["extra"])
    assert filled not in ids(repo, "points:feature:4", columns=["extra"])
    assert filled not in ids(repo, "points:feature:3", columns=["name", "height"])


def test_cells_of_a_column_that_came_with_its_values(repo: Repo, tmp_path: Path) -> None:
    first = repo.head().commit
    release = tmp_path / "points.csv"
    lines = [
        f"{key},{name},{height},{'x' if key == 3 else ''}" for key, (name, height) in FIRST.items()
    ]
    release.write_text("\n".join(["id,name,height,extra", *lines]) + "\n")
    came = repo.import_(release, "points", replace=True).commit

    assert came is not None and came != first
    assert ids(repo, "points:feature:3", columns=["extra"]) == [came, first]
    assert ids(repo, "points:feature:4", columns=["extra"]) == [first]
    assert ids(repo, "points:feature:3", columns=["name"]) == [first]


@pytest.mark.parametrize("kart", [False, True])
def test_rows_that_are_read_by_their_keys(
    kart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are those of Kart, and of ours where two versions differ in much."""
    monkeypatch.setattr("havasu_vc.datasets.havasu.chosen.MOST_ROWS", 0)
    repo = make(tmp_path / "repo", FIRST, kart=kart)
    first = repo.head().commit
    second = write(repo, {**FIRST, 2: ("two", 2), 3: ("three", 3)})
    third = write(repo, {**FIRST, 2: ("two", 2), 3: ("three", 4), 9: ("nine", 9)})
    left = {key: row for key, row in FIRST.items() if key != 3}
    fourth = write(repo, {**left, 2: ("two", 2)})
    for key, expected in {
        1: [first],
        2: [second, first],
        3: [fourth, third, second, first],
        9: [fourth, third],
    }.items():
        assert ids(repo, f"points:feature:{key}") == expected
    assert ids(repo, "points:feature:3", columns=["name"]) == [fourth, second, first]
