"""A dropped column that comes back: its values are in files that stood there all the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.cli.main import cli, run
from havasu_vc.errors import NotYetSupportedError
from tests.repo.points import make
from tests.repo.tables import BY_ID
from tests.repo.tables import write as write_file
from tests.repo.test_column_conflicts import change, dropped
from tests.repo.test_dropped_columns import ROWS, assert_sound, rows, update
from tests.support.git import run_git
from tests.support.templates import empty_repo

Rows = dict[int, dict[str, Any]]
Changed = tuple[dict[str, Any] | None, dict[str, Any] | None]


def changes(repo: Repo, revisions: str) -> dict[int, Changed]:
    """Return the rows that a diff shows, before and after."""
    found: dict[int, Changed] = {}
    for dataset in repo.diff(revisions):
        for batch in dataset.changes:
            for old, new in zip(batch.old.to_pylist(), batch.new.to_pylist(), strict=True):
                found[(old or new)["id"]] = (old, new)
    return found


def head(repo: Repo) -> str:
    commit = repo.head().commit
    assert commit is not None
    return commit


def expected(before: Rows, after: Rows) -> dict[int, Changed]:
    """Return the differences of two plain tables; a column that is not there is no value."""

    def row(table: Rows, number: int) -> dict[str, Any] | None:
        return {"id": number, **table[number]} if number in table else None

    def known(table: Rows, number: int) -> dict[str, Any] | None:
        found = row(table, number)
        return None if found is None else {n: v for n, v in found.items() if v is not None}

    shared = set(next(iter(before.values()))) & set(next(iter(after.values())))
    found: dict[int, Changed] = {}
    for number in before.keys() | after.keys():
        old, new = known(before, number), known(after, number)
        if old is not None and new is not None:
            # What goes with its column changes no row.
            old = {name: value for name, value in old.items() if name in shared or name == "id"}
        if old != new:
            found[number] = (row(before, number), row(after, number))
    return found


def test_a_diff_shows_the_values_that_come_back(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", {**ROWS, 6: ("n6", None)})
    whole, first = rows(repo), head(repo)
    change(repo, dropped)
    second = head(repo)
    assert changes(repo, f"{first}..{second}") == {}
    assert changes(repo, f"{second}..{first}") == expected(rows(repo), whole)
    assert 6 not in changes(repo, f"{second}..{first}")
    update(repo, id=1, name="touched")
    repo.write("points", pa.table({"id": [4]}), mode="delete")
    update(repo, id=9, name="nine")
    now = rows(repo)
    assert changes(repo, f"HEAD..{first}") == expected(now, whole)
    assert changes(repo, f"{first}..HEAD") == expected(whole, now)


def test_a_revert_by_git_is_in_the_history_of_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = make(tmp_path / "repo", {**ROWS, 6: ("n6", None)})
    imported = head(repo)
    change(repo, dropped)
    run_git("revert", "--no-edit", "HEAD", cwd=repo.path)
    repo = Repo.open(repo.path)
    here = ["-C", str(repo.path)]

    def told(*arguments: str) -> list[str]:
        assert run(cli, [*here, *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    assert told("log", "--format=%H", "--", "points:feature:2") == [head(repo), imported]
    assert told("log", "--format=%H", "--", "points:feature:6") == [imported]
    assert any("height" in line for line in told("diff", "HEAD^", "HEAD", "--", "points:feature:2"))
    blamed = [line.split()[0] for line in told("blame", "points")]
    assert len(set(blamed)) == 2 and blamed.count(blamed[-1]) == 1
    assert_sound(repo, capsys)


def test_a_revert_after_rows_were_written_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows that were written meanwhile get their values back; what was deleted stays so."""
    repo = make(tmp_path / "repo", ROWS)
    wanted = rows(repo)
    change(repo, dropped)
    dropping = head(repo)
    update(repo, id=1, name="touched")
    repo.write("points", pa.table({"id": [4]}), mode="delete")
    update(repo, id=9, name="nine")

    assert repo.revert(dropping).kind == "revert"

    wanted[1]["name"], wanted[9] = "touched", {"name": "nine", "height": None}
    del wanted[4]
    assert rows(repo) == wanted
    assert_sound(repo, capsys)
    assert run(cli, ["-C", str(repo.path), "fsck", "--full"]) == 0


def edited(repo: Repo) -> None:
    update(repo, id=1, name="touched")
    repo.write("points", pa.table({"id": [4]}), mode="delete")
    update(repo, id=9, name="nine")


def back(repo: Repo) -> None:
    """Have the column again, as git does it, and a value that is new."""
    run_git("revert", "--no-edit", "HEAD", cwd=repo.path)
    opened = Repo.open(repo.path)
    update(opened, id=2, height=22)
    update(opened, id=8, name="eight", height=8)


@pytest.mark.parametrize("ours", [edited, back])
def test_a_merge_has_the_edits_of_one_side_and_the_column_of_the_other(
    tmp_path: Path, ours: Callable[[Repo], None], capsys: pytest.CaptureFixture[str]
) -> None:
    repo = make(tmp_path / "repo", ROWS)
    wanted = rows(repo)
    change(repo, dropped)
    repo.create_branch("side")
    ours(repo)
    repo = Repo.open(repo.path)
    repo.switch("side")
    (back if ours is edited else edited)(repo)
    repo = Repo.open(repo.path)
    repo.switch("main")

    assert repo.merge("side").kind == "merge"

    wanted[1]["name"], wanted[2]["height"] = "touched", 22
    wanted[8], wanted[9] = {"name": "eight", "height": 8}, {"name": "nine", "height": None}
    del wanted[4]
    assert rows(repo) == wanted
    assert_sound(repo, capsys)
    assert run(cli, ["-C", str(repo.path), "fsck", "--full"]) == 0


def test_a_row_that_got_another_value_is_no_row_that_only_has_it_back(tmp_path: Path) -> None:
    """A row that was deleted here and edited there is in conflict as ever."""
    repo = make(tmp_path / "repo", ROWS)
    change(repo, dropped)
    repo.create_branch("side")
    repo.write("points", pa.table({"id": [2, 3]}), mode="delete")
    repo.switch("side")
    run_git("revert", "--no-edit", "HEAD", cwd=repo.path)
    repo = Repo.open(repo.path)
    update(repo, id=3, name="edited")
    repo.switch("main")
    assert repo.merge("side").kind == "conflicts"
    (found,) = repo.conflicts()
    assert found.rows is not None and found.rows.num_rows == 1
    (conflict,) = found.rows.to_pylist()
    assert conflict["base"]["id"] == 3


def keyless(tmp_path: Path) -> Repo:
    """Make a table without a key that dropped a column, and a branch of it that has it again."""
    table = pa.table({"id": range(3), "name": list("abc"), "height": pa.array(range(3))})
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write_file(tmp_path / "points.parquet", table))
    change(repo, dropped)
    repo.create_branch("side")
    repo.switch("side")
    run_git("revert", "--no-edit", "HEAD", cwd=repo.path)
    repo = Repo.open(repo.path)
    repo.switch("main")
    rest = pa.table({"id": [0, 2, 7], "name": ["a", "c", "seven"]})
    repo.write("points", rest, mode="overwrite")
    return repo


def test_without_a_key_rows_cannot_get_it_back(tmp_path: Path) -> None:
    repo = keyless(tmp_path)
    before = head(repo)
    with pytest.raises(NotYetSupportedError, match="has no key"):
        repo.merge("side")
    assert head(repo) == before


def test_without_a_key_edits_are_brought_to_rows_that_have_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = keyless(tmp_path)
    repo.switch("side")
    assert repo.merge("main").kind == "merge"
    assert rows(repo) == {
        0: {"name": "a", "height": 0},
        2: {"name": "c", "height": 2},
        7: {"name": "seven", "height": None},
    }
    assert_sound(repo, capsys)


@pytest.mark.thorough
@pytest.mark.parametrize("order", [None, "hilbert"])
def test_a_large_table_is_compared_backwards(tmp_path: Path, order: str | None) -> None:
    """In intervals of keys, and dealt out where files are in no key order."""
    count = 300_000
    table = pa.table(
        {
            "id": range(count),
            "name": [f"{n * 7919 % 104729:x}" for n in range(count)],
            "height": pa.array([None if n % 3 else n for n in range(count)], pa.int32()),
        }
    )
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write_file(tmp_path / "points.parquet", table), options=BY_ID)
    change(repo, dropped)
    update(repo, id=3, name="touched")
    repo.write("points", pa.table({"id": [6, 7]}), mode="delete")
    found = changes(repo, "HEAD..HEAD~3")
    assert set(found) == {*range(0, count, 3), 7}
    assert found[3] == (
        {"id": 3, "name": "touched"},
        {"id": 3, "name": table["name"][3].as_py(), "height": 3},
    )
    assert found[7] == (None, {"id": 7, "name": table["name"][7].as_py(), "height": None})
