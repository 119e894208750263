"""Deletes that git put together: who is compared with whom, and that it is done once."""

from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.folder import MemoryFolder
from havasu_vc.datasets.havasu import settling
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.sharing import CloneRequest
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets, rows_in
from havasu_vc.testing.tables import Row
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
    assert len(settling.in_question(view)) == 2
    assert settling.without_place(view) == set()
    assert settling.in_question(view) == []
    assert read(clone) == {key: row for key, row in ROWS.items() if key not in (5, 6)}


SCHEMA = Schema((Field(1, "id", Primitive.LONG, required=True), Field(2, "n", Primitive.INT)), (1,))
NUMBERS: list[Row] = [{1: number, 2: number} for number in range(400)]


class Deleting:
    """A dataset from which sides delete rows, each in a delete file of its own."""

    def __init__(self, folder: Path) -> None:
        self.datasets = MemoryDatasets(folder)
        # What is read is what a commit would have stored.
        object.__setattr__(self.datasets.storage, "staging", self.datasets.storage.files)
        self.base = self.datasets.new(SCHEMA, NUMBERS)

    def changed(self, old: HavasuDataset, *gone: int, back: tuple[int, ...] = ()) -> HavasuDataset:
        rows = rows_in(old)
        new = [row for row in rows if row[1] not in gone] + [NUMBERS[key] for key in back]
        return self.datasets.apply(old, stream_of(changes_between(rows, new, SCHEMA), SCHEMA))

    def together(self, *sides: HavasuDataset) -> HavasuDataset:
        """Return all that the sides added, as where somebody took both in a merge by hand."""
        files: dict[str, bytes] = {}
        for side in sides:
            assert isinstance(side.folder, MemoryFolder)
            files |= side.folder.files
        return HavasuDataset("parcels", MemoryFolder(files), self.datasets.storage)


def deletes_of(view: HavasuDataset) -> set[str]:
    return {entry.file for entry in view.delete_entries}


def test_a_row_that_two_files_delete_is_meant_where_an_equal_one_came_back(tmp_path: Path) -> None:
    made = Deleting(tmp_path)
    another = made.changed(made.base, 300)
    ours = made.changed(another, 3, 4)
    theirs = made.changed(made.changed(made.base, 3, 5), back=(3,))
    clashing = deletes_of(ours) - deletes_of(another) | deletes_of(theirs)

    view = made.together(ours, theirs)
    assert len(view.stored_entries) == 5
    assert settling.without_place(view) == clashing
    assert rows_in(view) == [row for row in NUMBERS if row[1] not in (3, 4, 5, 300)]
    assert len(clashing) == 2 and not clashing & set(view.entries)


@pytest.mark.parametrize("folds", [True, False])
def test_what_stands_for_other_files_is_taken_up_where_edits_fold(
    tmp_path: Path, folds: bool
) -> None:
    made = Deleting(tmp_path)
    view = made.together(
        made.changed(made.base, 3, 4), made.changed(made.changed(made.base, 3, 5), back=(3,))
    )
    assert view.derived_files
    object.__setattr__(made.datasets.storage, "folds", folds)
    later = made.changed(view, 300)
    assert bool(later.derived_files) != folds
    assert rows_in(later) == [row for row in NUMBERS if row[1] not in (3, 4, 5, 300)]
