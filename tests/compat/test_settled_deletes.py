"""Deletes that git put together: who is compared with whom, and that it is done once."""

from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.havasu import settling
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.sharing import CloneRequest
from tests.repo.points import Rows, assert_clean, make, read
from tests.support.git import run_git
from tests.support.templates import LOCAL

ROWS: Rows = {key: (f"name {key}", key) for key in range(1, 2001)}


def merged(folder: Path, *deleted: int) -> Repo:
    """Return a repository in which git merged branches that each deleted one row."""
    repo = make(folder / "repo", ROWS)
    repo.create_branch("base")
    for number, key in enumerate(deleted):
        if number:
            repo.create_branch(f"side{number}", "base")
            repo.switch(f"side{number}")
        repo.write("points", pa.table({"id": [key]}), mode="delete", message=f"{number}: {key}")
    repo.switch("main")
    for number in range(1, len(deleted)):
        run_git("merge", "-q", "--no-edit", f"side{number}", cwd=repo.path)
    return Repo.open(repo.path, settings=LOCAL)


def view_of(repo: Repo) -> HavasuDataset:
    view = repo.dataset("points")
    assert isinstance(view, HavasuDataset)
    return view


def test_one_delete_file_has_nobody_to_be_compared_with(tmp_path: Path) -> None:
    view = view_of(merged(tmp_path, 5))
    assert len(list(view.delete_entries)) == 1
    assert settling.in_question(view) == []
    assert settling.without_place(view) == set()


@pytest.mark.parametrize("deleted", [(5, 6), (5, 6, 7)])
def test_several_are_compared_once(
    tmp_path: Path, deleted: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = merged(tmp_path, *deleted)
    view = view_of(repo)
    files = {entry.file for entry in view.delete_entries}
    assert len(files) == len(deleted)
    assert {entry.file for entry in settling.in_question(view)} == files

    assert settling.without_place(view) == set()

    # Whoever opens the repository next need not read them again.
    def read_again(path: str) -> None:
        raise AssertionError(path)

    later = view_of(Repo.open(repo.path, settings=LOCAL))
    monkeypatch.setattr(settling, "read_positions", read_again)
    assert settling.in_question(later) == []
    assert settling.without_place(later) == set()
    assert read(repo) == {key: row for key, row in ROWS.items() if key not in deleted}
    assert_clean(repo)


def test_a_delete_file_that_is_absent_is_fetched_to_be_compared(tmp_path: Path) -> None:
    origin = merged(tmp_path, 5, 6)
    clone, _ = Repo.clone(CloneRequest(str(origin.path), tmp_path / "clone", on_demand=True))
    view = view_of(Repo.open(clone.path, settings=LOCAL))
    assert settling.without_place(view) == set()
    assert read(clone) == {key: row for key, row in ROWS.items() if key not in (5, 6)}
