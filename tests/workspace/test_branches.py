"""Branches of a table that an engine wrote to become commits of git's branches."""

from dataclasses import replace
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.errors import ConflictError, StateError
from havasu_vc.formats.iceberg.values import Reference
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.tables.publishing import publish
from havasu_vc.tables.table import read_table
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL, assert_sound, refuses
from tests.support.templates import empty_repo
from tests.workspace import by_hand
from tests.workspace.sheets import counts_of


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository whose branch `survey` stands beside `main` in the table."""
    made = empty_repo(tmp_path / "repo", settings=LOCAL)
    made.import_(write(tmp_path / "points.parquet", points(20)), options=BY_ID)
    made.create_branch("survey")
    made.workspace.check_out(CheckoutRequest(refs=True))
    return made


def row(key: int, name: str = "new") -> by_hand.Rows:
    return [{"id": key, "geom": None, "name": name, "number": 1}]


def place(repo: Repo) -> Path:
    return repo.workspace.root / "points"


def write_to_branch(repo: Repo, name: str, *ids: int) -> None:
    """Insert rows on a branch of the table; what is checked out stays."""
    table = read_table(place(repo))
    main = table.metadata.references["main"]
    here = replace(
        table.metadata,
        current_snapshot_id=table.metadata.references[name].snapshot_id,
        references={**table.metadata.references, "main": table.metadata.references[name]},
    )
    publish(table, place(repo), here)
    written = by_hand.insert(place(repo), [each for key in ids for each in row(key, name)])
    snapshot = written.metadata.current_snapshot_id
    assert snapshot is not None
    back = replace(
        written.metadata,
        current_snapshot_id=main.snapshot_id,
        references={**written.metadata.references, "main": main, name: Reference(snapshot)},
    )
    publish(written, place(repo), back)


def test_a_branch_is_committed_to_gits(repo: Repo) -> None:
    write_to_branch(repo, "survey", 100, 101)
    by_hand.insert(place(repo), row(200))

    assert counts_of(repo, "points") == ChangeCounts(1, 0, 0)
    changes = repo.workspace.changes()
    assert changes is not None and "commit --refs" in changes.notes[0]
    with refuses(repo, StateError, match="the branch survey", hint=True):
        repo.workspace.commit(message="Main alone")
    planned = repo.workspace.commit(message="Both", refs=True, dry_run=True)
    assert planned.notes == ("branch survey: points 2 rows",)

    result = repo.workspace.commit(message="Both", refs=True)

    assert result.changes == {"points": ChangeCounts(1, 0, 0)}
    assert result.notes[0].startswith("[survey ")
    assert {row["id"] for row in rows(repo, "points")} == {*range(20), 200}
    assert {row["id"] for row in rows(repo, "points", "survey")} == {*range(20), 100, 101}
    changes = repo.workspace.changes()
    assert changes is not None and not (changes.tables or changes.notes or changes.problems)
    assert_sound(repo)


def test_a_branch_alone_is_committed(repo: Repo) -> None:
    write_to_branch(repo, "survey", 100)
    # The table does not follow while that would lose what the branch has.
    repo.set_meta("points", {"title": "Points"})
    head = repo.head().commit
    result = repo.workspace.commit(message="Survey", refs=True)

    assert result.commit is None and repo.head().commit == head
    assert repo.commit_info("survey").message == "Survey"
    assert {row["id"] for row in rows(repo, "points", "survey")} == {*range(20), 100}
    write_to_branch(repo, "survey", 101)
    repo.workspace.commit(message="Again", refs=True)
    assert {row["id"] for row in rows(repo, "points", "survey")} == {*range(20), 100, 101}


def test_a_branch_that_moved_in_git_is_merged_row_by_row(repo: Repo, tmp_path: Path) -> None:
    write_to_branch(repo, "survey", 100)
    other = Repo.open(_worktree(repo, tmp_path))
    other.workspace.check_out()
    by_hand.insert(other.workspace.root / "points", row(100, "theirs"))
    other.workspace.commit(message="Theirs")
    repo.git.git("worktree", "remove", "--force", str(other.path))

    with refuses(repo, ConflictError, match="points: the branch survey", hint=True):
        repo.workspace.commit(message="Ours", refs=True)


def _worktree(repo: Repo, folder: Path) -> Path:
    path = folder / "other"
    repo.git.git("worktree", "add", "--quiet", str(path), "survey")
    return path
