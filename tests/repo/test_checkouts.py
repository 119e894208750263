"""Tables are made of HEAD, follow it, and are never passed over where they have edits."""

import datetime
import hashlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.checkouts.keeping_bases import PREFIX
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import (
    CorruptDataFileError,
    InvalidArgumentError,
    StateError,
    UncommittedChangesError,
)
from havasu_vc.formats.iceberg.transforms import parse_transform
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.model.changes import count_changes
from havasu_vc.tables.snapshots import live_files, manifests_of
from havasu_vc.tables.table import read_table
from havasu_vc.workspace.state import read_state, state_path
from tests.repo.checkouts import assert_shows_head, delete_like_others, rows_of, table_at
from tests.repo.points import add, add_column, assert_clean, make, read, write
from tests.repo.tables import BY_ID
from tests.repo.tables import points as geometries
from tests.repo.tables import write as write_points
from tests.support.git import run_git
from tests.support.templates import empty_repo

ROWS = {number: (f"n{number}", number) for number in range(30)}
MANY = {n: (hashlib.sha256(b"%d" % n).hexdigest(), n) for n in range(20_000)}
"""Enough that an edit leaves the file and adds a delete file."""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with a commit on `main` and another one on `dev`, tables of `main`."""
    repo = make(tmp_path / "repo", ROWS)
    repo.switch("dev", create=True)
    write(repo, {**ROWS, 1: ("dev", 1)})
    repo.switch("main")
    repo.workspace.check_out()
    return repo


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def heard(repo: Repo) -> tuple[Repo, list[str]]:
    notes: list[str] = []
    return repo.with_settings(Settings(engine="local", note=notes.append)), notes


class TestMaking:
    def test_every_dataset_is_a_table(self, repo: Repo, tmp_path: Path) -> None:
        add(repo, tmp_path, {1: ("road", 1)}, "nz/roads")

        assert_shows_head(repo)
        assert set(repo.workspace.check_out().tables) == {"nz/roads", "points"}
        assert_clean(repo)

    def test_data_files_are_the_store_s_own(self, repo: Repo) -> None:
        (file,) = (repo.workspace.root / "points" / "data").iterdir()
        stored = repo.storage.files.path(file.name.removesuffix(".parquet"))

        assert file.samefile(stored)
        assert file.stat().st_mode & 0o777 == 0o444

    def test_copies_where_asked(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", ROWS)
        repo.workspace.check_out(CheckoutRequest(copy=True))
        (file,) = (repo.workspace.root / "points" / "data").iterdir()

        assert file.stat().st_nlink == 1
        assert file.stat().st_mode & 0o777 == 0o444
        assert_shows_head(repo)

    def test_nothing_is_made_unasked(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", ROWS)
        write(repo, {})
        repo.switch("dev", create=True)

        assert not (repo.path / "tables").exists()
        assert read_state(repo.git.git_directory) is None

    def test_before_the_first_commit(self, tmp_path: Path) -> None:
        repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
        assert repo.workspace.check_out().tables == ()
        add(repo, tmp_path, ROWS, "points")
        assert_shows_head(repo)

    def test_a_bare_repository_has_no_place_for_tables(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", ROWS, bare=True)
        with pytest.raises(StateError, match="no work tree"):
            repo.workspace.check_out()
        repo.config.set("havasu.workspace.path", str(tmp_path / "elsewhere"))
        assert repo.workspace.check_out().root == tmp_path / "elsewhere"
        assert_shows_head(repo)

    def test_another_folder_in_the_work_tree(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", ROWS)
        repo.config.set("havasu.workspace.path", "out/iceberg")
        repo.workspace.check_out()
        assert (repo.path / "out" / "iceberg" / "points").is_dir()
        assert_clean(repo)
        repo.config.set("havasu.workspace.path", "../out")
        with pytest.raises(InvalidArgumentError, match="no folder inside the work tree"):
            repo.workspace.check_out()

    def test_a_link_leads_nowhere(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", ROWS)
        (tmp_path / "home").mkdir()
        (repo.path / "tables").symlink_to(tmp_path / "home")
        with pytest.raises(StateError, match="is a link"):
            repo.workspace.check_out()
        assert list((tmp_path / "home").iterdir()) == []

    def test_something_else_in_the_place_stays(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", ROWS)
        mine = repo.path / "tables" / "points" / "mine.txt"
        mine.parent.mkdir(parents=True)
        mine.write_text("mine")
        with pytest.raises(StateError, match="something else"):
            repo.workspace.check_out()
        assert mine.read_text() == "mine"


class TestFollowing:
    @pytest.mark.parametrize(
        "operation",
        [
            lambda repo: repo.write("points", _table({3: ("w", 3)})),
            lambda repo: repo.set_meta("points", {"title": "Points"}),
            lambda repo: add_column(repo, "more"),
            lambda repo: repo.merge("dev", fast_forward="only"),
            lambda repo: repo.merge("dev", fast_forward="never"),
            lambda repo: repo.cherry_pick("dev"),
            lambda repo: repo.reset("dev", mode="soft"),
            lambda repo: repo.reset("dev", mode="mixed"),
            lambda repo: repo.reset("dev", mode="hard"),
            lambda repo: repo.restore(["points"], source="dev"),
            lambda repo: repo.switch("dev"),
            lambda repo: repo.switch("new", create=True, start="dev"),
            lambda repo: repo.optimize(),
        ],
    )
    @pytest.mark.few(4)
    def test_operations_bring_the_tables_along(
        self, repo: Repo, operation: Callable[[Repo], Any]
    ) -> None:
        operation(repo)
        assert_shows_head(repo)
        assert_clean(repo)

    def test_a_revert(self, repo: Repo) -> None:
        repo.switch("dev")
        repo.revert("HEAD")
        assert_shows_head(repo)

    def test_a_merge_with_conflicts_moves_nothing_until_it_is_done(self, repo: Repo) -> None:
        write(repo, {**ROWS, 1: ("ours", 1)})
        before = table_at(repo).version
        assert repo.merge("dev").conflicts
        assert table_at(repo).version == before
        repo.resolve_conflicts(choice="theirs")
        repo.continue_merge()
        assert_shows_head(repo)

    def test_datasets_that_come_and_go(self, repo: Repo, tmp_path: Path) -> None:
        add(repo, tmp_path, {1: ("road", 1)}, "nz/roads")
        repo.switch("dev")
        assert_shows_head(repo)
        assert not (repo.workspace.root / "nz").exists()
        repo.switch("main")
        assert_shows_head(repo)

    def test_unchanged_datasets_are_not_touched(self, repo: Repo, tmp_path: Path) -> None:
        version = table_at(repo).version
        add(repo, tmp_path, {1: ("road", 1)}, "nz/roads")
        assert table_at(repo).version == version

    @pytest.mark.thorough
    def test_switching_back_and_forth_reuses_snapshots(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", MANY)
        repo.switch("dev", create=True)
        write(repo, {**MANY, 5: ("changed", 5)})
        repo.workspace.check_out()
        assert (repo.workspace.root / "points" / "data").joinpath().exists()
        repo.switch("main")
        before = files_below(repo.workspace.root / "points")
        for branch in ("dev", "main", "dev"):
            repo.switch(branch)
            assert_shows_head(repo)
        after = files_below(repo.workspace.root / "points")
        assert {name for name in after - before if not name.endswith(".metadata.json")} == set()
        assert len(table_at(repo).metadata.snapshots) == 2

    def test_a_checkout_costs_what_changed(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", MANY)
        repo.workspace.check_out()
        sizes = []
        for step in range(3):
            before = files_below(repo.workspace.root)
            write(repo, {**read(repo), step: (f"step {step}", step)})
            made = files_below(repo.workspace.root) - before
            sizes.append(len([name for name in made if name.endswith(".parquet")]))
        assert_shows_head(repo)
        # One data file and one delete file each; those of earlier steps stay as they are.
        assert sizes == [2, 2, 2]

    @pytest.mark.thorough
    def test_old_snapshots_expire_and_their_files_with_them(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", ROWS)
        repo.config.set("havasu.workspace.keep", 3)
        repo.workspace.check_out()
        for step in range(8):
            write(repo, {**ROWS, 0: (f"step {step}", step)})
        before = {path.name for path in (table_at(repo).location / "data").iterdir()}
        repo.optimize()
        for step in range(2):
            write(repo, {**ROWS, 0: (f"later {step}", step)})
        table = table_at(repo)
        assert len(table.metadata.snapshots) == 3
        # One file, and twice a file of new rows and one of deletes.
        left = {path.name for path in (table.location / "data").iterdir()}
        assert len(left) == 5 and not left & before
        assert_shows_head(repo)
        assert list(repo.fsck(full=True)) == []

    @pytest.mark.thorough
    def test_many_checkouts_leave_few_manifests(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", MANY)
        repo.workspace.check_out()
        for step in range(14):
            repo.write("points", _table({step * 100: (f"step {step}", step)}))
        table = table_at(repo)
        assert len(manifests_of(table, table.metadata.snapshot)) <= 18
        assert_shows_head(repo)

    def test_flavours_change(self, repo: Repo) -> None:
        for flavour in (Flavour.HAVASU, Flavour.SPARK, Flavour.ICEBERG):
            assert repo.workspace.check_out(CheckoutRequest(flavour)).changed == ("points",)
            assert table_at(repo).metadata.properties["havasu-vc.flavour"] == flavour.value
            assert_shows_head(repo)
        assert repo.workspace.check_out().changed == ()


def _table(rows: dict[int, tuple[str | None, int | None]]) -> Any:
    from tests.repo.points import table

    return table(rows)


class TestEdits:
    def test_a_switch_refuses_to_lose_them(self, repo: Repo) -> None:
        edited = rows_of(delete_like_others(repo.workspace.root / "points"))
        with pytest.raises(UncommittedChangesError, match="points has edits"):
            repo.switch("dev")
        assert repo.head_branch == "main"
        assert rows_of(table_at(repo)) == edited
        repo.switch("dev", discard=True)
        assert_shows_head(repo)

    def test_they_go_along_where_the_dataset_is_the_same(self, repo: Repo) -> None:
        edited = rows_of(delete_like_others(repo.workspace.root / "points"))
        repo.switch("same", create=True)
        assert rows_of(table_at(repo)) == edited
        assert list(repo.workspace.edited()) == ["points"]

    def test_a_merge_refuses_to_pass_over_them(self, repo: Repo) -> None:
        delete_like_others(repo.workspace.root / "points")
        head = repo.head().commit
        with pytest.raises(UncommittedChangesError):
            repo.merge("dev")
        assert repo.head().commit == head
        assert repo.merge("HEAD").kind == "up-to-date"

    def test_a_hard_reset_needs_to_be_told(self, repo: Repo) -> None:
        delete_like_others(repo.workspace.root / "points")
        with pytest.raises(UncommittedChangesError):
            repo.reset("HEAD", mode="hard")
        repo.reset("HEAD", mode="hard", discard=True)
        assert_shows_head(repo)

    def test_a_commit_leaves_them_behind_and_says_so(self, repo: Repo) -> None:
        edited = rows_of(delete_like_others(repo.workspace.root / "points"))
        repo, notes = heard(repo)
        repo.write("points", _table({7: ("w", 7)}))
        assert any("has edits and stays at" in note for note in notes)
        assert rows_of(table_at(repo)) == edited
        repo.workspace.check_out(discard=True)
        assert_shows_head(repo)

    def test_a_table_whose_dataset_goes_stays(self, repo: Repo, tmp_path: Path) -> None:
        add(repo, tmp_path, {1: ("road", 1), 2: ("road", 2)}, "roads")
        delete_like_others(repo.workspace.root / "roads")
        with pytest.raises(UncommittedChangesError):
            repo.switch("dev")
        repo, notes = heard(repo)
        repo.reset("HEAD^", mode="mixed")
        assert any("roads is not in HEAD" in note for note in notes)
        assert (repo.workspace.root / "roads" / "metadata").is_dir()
        repo.workspace.check_out(discard=True)
        assert_shows_head(repo)

    def test_files_of_a_commit_that_is_gone_stay_for_them(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", ROWS)
        repo.workspace.check_out()
        write(repo, {**ROWS, 2: ("two", 2)})
        state = repo.workspace.state()
        assert state is not None
        linked = list(state.tables["points"].files)
        delete_like_others(repo.workspace.root / "points")
        repo.reset("HEAD^", mode="mixed")
        (repo.git.git_directory / "ORIG_HEAD").unlink()
        run_git("reflog", "expire", "--expire=now", "--all", cwd=repo.path)
        repo.gc(grace_days=0)
        assert all(repo.storage.files.has(file) for file in linked)
        repo.workspace.check_out(discard=True)
        repo.gc(grace_days=0)
        assert not all(repo.storage.files.has(file) for file in linked)
        assert_shows_head(repo)

    def test_git_s_own_gc_leaves_what_they_were_made_of(self, repo: Repo) -> None:
        write(repo, {**ROWS, 2: ("two", 2)})
        lost = repo.head().commit
        delete_like_others(repo.workspace.root / "points")
        repo.reset("HEAD^", mode="mixed")
        (repo.git.git_directory / "ORIG_HEAD").unlink()
        run_git("reflog", "expire", "--expire=now", "--all", cwd=repo.path)
        run_git("gc", "--quiet", "--prune=now", cwd=repo.path)
        assert run_git("cat-file", "-t", str(lost), cwd=repo.path).strip() == "commit"

        again = Repo.open(repo.path, settings=Settings(engine="local"))
        changes = again.workspace.changes()
        assert changes is not None and changes.problems == ()
        assert changes.tables["points"].rows.deletes == 1
        assert again.workspace.commit(message="Edit").changes["points"].deletes == 1
        assert_shows_head(again)
        refs = run_git("for-each-ref", "--format=%(objectname)", PREFIX, cwd=repo.path).split()
        assert refs == [again.head().commit]

    def test_the_refs_of_a_work_tree_go_with_it(self, repo: Repo, tmp_path: Path) -> None:
        run_git("worktree", "add", "--quiet", str(tmp_path / "other"), "dev", cwd=repo.path)
        Repo.open(tmp_path / "other", settings=Settings(engine="local")).workspace.check_out()
        shown = ("for-each-ref", "--format=%(refname)", PREFIX)
        assert len(run_git(*shown, cwd=repo.path).split()) == 2
        run_git("worktree", "remove", "--force", str(tmp_path / "other"), cwd=repo.path)
        repo.gc()
        assert run_git(*shown, cwd=repo.path).split() == [f"{PREFIX}main/head"]


class TestGitAlone:
    """HEAD moves by plain git, and the tables know nothing of it."""

    def test_it_is_told_and_the_next_checkout_brings_them(self, repo: Repo) -> None:
        run_git("switch", "--quiet", "dev", cwd=repo.path)
        repo = Repo.open(repo.path, settings=Settings(engine="local"))
        changes = repo.workspace.changes()
        assert changes is not None and not changes.tables
        assert "`havasu-vc checkout` brings them" in changes.notes[0]
        assert list(repo.workspace.diff()) == []
        repo.workspace.check_out()
        changes = repo.workspace.changes()
        assert changes is not None and changes.notes == ()
        assert_shows_head(repo)

    def test_edits_are_those_of_the_commit_they_were_made_on(self, repo: Repo) -> None:
        delete_like_others(repo.workspace.root / "points")
        run_git("switch", "--quiet", "dev", cwd=repo.path)
        repo = Repo.open(repo.path, settings=Settings(engine="local"))
        changes = repo.workspace.changes()
        assert changes is not None and changes.tables["points"].rows.total == 1
        assert any("a commit brings them onto HEAD" in note for note in changes.notes)
        (diff,) = repo.workspace.diff()
        assert count_changes(diff.changes).total == 1
        repo.workspace.commit(message="Edit")
        rows = read(repo)
        # Both the change that HEAD has and the one that was made in the table.
        assert rows[1] == ("dev", 1) and len(rows) == len(ROWS) - 1
        assert_shows_head(repo)

    def test_a_dataset_that_came_with_it(self, repo: Repo, tmp_path: Path) -> None:
        run_git("switch", "--quiet", "dev", cwd=repo.path)
        other = Repo.open(repo.path, settings=Settings(engine="local"))
        (repo.git.git_directory / "havasu" / "workspace.json").rename(tmp_path / "state")
        add(other, tmp_path, {1: ("road", 1)}, "roads")
        (tmp_path / "state").rename(repo.git.git_directory / "havasu" / "workspace.json")
        changes = other.workspace.changes()
        assert changes is not None and "roads" in changes.notes[0]


class TestMishaps:
    def test_a_checkout_that_died_before_it_was_noted_down(self, repo: Repo) -> None:
        path = state_path(repo.git.git_directory)
        before = path.read_bytes()
        repo.switch("dev")
        path.write_bytes(before)
        assert repo.workspace.edited() == {}
        repo.workspace.check_out()
        assert_shows_head(repo)

    def test_a_lost_state_is_found_again_in_the_tables(self, repo: Repo) -> None:
        state_path(repo.git.git_directory).unlink()
        version = table_at(repo).version
        repo.workspace.check_out()
        assert table_at(repo).version == version
        assert_shows_head(repo)

    def test_a_command_that_died_after_head_moved(self, repo: Repo) -> None:
        (repo.git.git_directory / "havasu" / "workspace-behind").touch()
        run_git("switch", "--quiet", "dev", cwd=repo.path)
        assert_shows_head(Repo.open(repo.path))

    @pytest.mark.parametrize("what", ["data", "metadata", "."])
    def test_what_was_removed_is_made_again(self, repo: Repo, what: str) -> None:
        shutil.rmtree(repo.workspace.root / "points" / what)
        (repo.workspace.root / "points").mkdir(exist_ok=True)
        if what == "metadata":
            shutil.rmtree(repo.workspace.root / "points")
        repo.workspace.check_out()
        assert_shows_head(repo)

    def test_a_linked_file_that_was_written_into(self, repo: Repo, tmp_path: Path) -> None:
        place = tmp_path / "elsewhere"
        repo.workspace.check_out_to(place, dataset="points", copy=True)
        (file,) = (place / "data").iterdir()
        file.chmod(0o644)
        file.write_bytes(file.read_bytes() + b"more")
        with pytest.raises(CorruptDataFileError, match="changed in place"):
            repo.workspace.check_out_to(place, dataset="points", flavour=Flavour.SPARK, copy=True)
        file.unlink()
        repo.workspace.check_out_to(place, dataset="points", flavour=Flavour.SPARK, copy=True)
        assert list(repo.fsck(full=True)) == []

    def test_two_at_once(self, repo: Repo) -> None:
        errors: list[BaseException] = []

        def commit(number: int) -> None:
            try:
                mine = Repo.open(repo.path, settings=Settings(engine="local"))
                mine.write("points", _table({number: (f"by {number}", number)}))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=commit, args=(100 + n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert_shows_head(repo)


class TestPlaces:
    def test_a_moved_repository(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", MANY)
        repo.workspace.check_out()
        write(repo, {**MANY, 3: ("three", 3)})
        shutil.move(tmp_path / "repo", tmp_path / "moved")
        repo, notes = heard(Repo.open(tmp_path / "moved"))
        with pytest.raises(StateError, match="were checked out at"):
            repo.workspace.check_out()
        repo.write("points", _table({4: ("four", 4)}))
        assert any("--relocate" in note for note in notes)
        repo.workspace.relocate()
        assert_shows_head(repo)
        assert table_at(repo).moved_from is None
        assert table_at(repo).metadata.location == str(tmp_path / "moved" / "tables" / "points")

    def test_edits_move_along(self, tmp_path: Path) -> None:
        repo = make(tmp_path / "repo", MANY)
        repo.workspace.check_out()
        edited = rows_of(delete_like_others(repo.workspace.root / "points"))
        shutil.copytree(tmp_path / "repo", tmp_path / "copied")
        repo = Repo.open(tmp_path / "copied", settings=Settings(engine="local"))
        assert repo.workspace.relocate().kept == ("points",)
        shutil.rmtree(tmp_path / "repo")
        assert rows_of(table_at(repo)) == edited
        assert list(repo.workspace.edited()) == ["points"]
        repo.workspace.check_out(discard=True)
        assert_shows_head(repo)

    def test_each_work_tree_has_its_own(self, repo: Repo, tmp_path: Path) -> None:
        run_git("worktree", "add", "--quiet", str(tmp_path / "other"), "dev", cwd=repo.path)
        other = Repo.open(tmp_path / "other", settings=Settings(engine="local"))
        assert not other.workspace.exists
        other.workspace.check_out()
        assert other.workspace.root == tmp_path / "other" / "tables"
        assert_shows_head(other)
        assert_shows_head(repo)
        write(other, {**ROWS, 5: ("other", 5)})
        assert_shows_head(other)
        assert_shows_head(repo)
        assert run_git("status", "--porcelain", cwd=other.path) == ""

    def test_elsewhere(self, repo: Repo, tmp_path: Path) -> None:
        place = tmp_path / "elsewhere"
        repo.workspace.check_out_to(place, "dev", dataset="points")
        assert rows_of(read_table(place)) == sorted(
            repo.table("points", "dev").to_arrow().to_pylist(), key=repr
        )
        assert_shows_head(repo)
        version = read_table(place).version
        assert repo.workspace.check_out_to(place, "dev", dataset="points").changed == ()
        repo.workspace.check_out_to(place, "main", dataset="points")
        assert read_table(place).version == version + 1
        delete_like_others(place)
        with pytest.raises(UncommittedChangesError):
            repo.workspace.check_out_to(place, "dev", dataset="points")
        repo.workspace.check_out_to(place, "dev", dataset="points", discard=True)
        assert len(rows_of(read_table(place))) == len(ROWS)

    def test_clustered_elsewhere(self, tmp_path: Path) -> None:
        repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
        file = write_points(tmp_path / "points.parquet", geometries(3000))
        repo.import_(file, "points", options=BY_ID)
        repo.write("points", pa.table({"id": [5], "name": ["five"]}))
        place = tmp_path / "elsewhere"
        repo.workspace.check_out_to(place, dataset="points", clustered=True)

        view = repo.dataset("points")
        assert isinstance(view, HavasuDataset)
        stored = {entry.file for entry in view.data_entries}
        made = {path.name.removesuffix(".parquet") for path in (place / "data").iterdir()}
        assert made.isdisjoint(stored)
        assert {path.name for path in place.iterdir()} == {"data", "metadata"}
        assert rows_of(read_table(place)) == sorted(
            repo.table("points").to_arrow().to_pylist(), key=repr
        )
        assert repo.workspace.check_out_to(place, dataset="points", clustered=True).changed == ()
        ids = pq.read_table(next((place / "data").iterdir()))["id"].to_pylist()
        assert ids != sorted(ids)
        repo.workspace.check_out_to(place, dataset="points")
        assert rows_of(read_table(place)) == sorted(
            repo.table("points").to_arrow().to_pylist(), key=repr
        )

    @pytest.mark.few(1)
    @pytest.mark.parametrize(
        ("spec", "fields"),
        [
            ("bucket(4, id), truncate(2, number)", 4),
            ("number", 3),
            ("days(at)", 2),
        ],
    )
    def test_clustered_by_a_partition_spec(self, tmp_path: Path, spec: str, fields: int) -> None:
        repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
        rows = geometries(600)
        at = [None if n % 2 else datetime.datetime(2024, 5, 1) for n in range(600)]
        number = [(None, 0, 1)[n % 3] for n in range(600)]
        rows = rows.set_column(3, "number", pa.array(number, pa.int32()))
        rows = rows.append_column("at", pa.array(at, pa.timestamp("us")))
        repo.import_(write_points(tmp_path / "points.parquet", rows), "points", options=BY_ID)
        repo.write("points", pa.table({"id": [5], "name": ["five"]}))
        place = tmp_path / "elsewhere"
        repo.workspace.check_out_to(place, dataset="points", clustered=True, partition_by=spec)

        table = read_table(place)
        files = live_files(table)
        assert len({tuple(each.file.partition.items()) for each in files}) == len(files)
        assert len(files) >= fields
        assert rows_of(table) == sorted(repo.table("points").to_arrow().to_pylist(), key=repr)
        part = table.metadata.partition_specs[table.metadata.default_spec_id].fields[-1]
        source = table.metadata.schema.by_id[part.source_id]
        for each in files:
            column = pq.read_table(each.file.path)[source.name].combine_chunks()
            shared = parse_transform(part.transform).apply_array(column, source.type)
            assert set(shared.to_pylist()) == {each.file.partition[part.field_id]}
        again = repo.workspace.check_out_to(
            place, dataset="points", clustered=True, partition_by=spec
        )
        assert again.changed == ()
        repo.workspace.check_out_to(place, dataset="points", clustered=True)
        assert rows_of(read_table(place)) == rows_of(table)

    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        "spec", ["", "geom", "nothing", "bucket(0, id)", "bucket(id)", "days(id)", "id, id", "a b("]
    )
    def test_what_is_no_partition_spec(self, repo: Repo, tmp_path: Path, spec: str) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            repo.workspace.check_out_to(tmp_path / "x", clustered=True, partition_by=spec)
        assert "\n" not in caught.value.message
        with pytest.raises(InvalidArgumentError, match="goes with"):
            repo.workspace.check_out_to(tmp_path / "x", partition_by="id")

    def test_elsewhere_refuses_the_workspace_and_what_is_not_its_own(
        self, repo: Repo, tmp_path: Path
    ) -> None:
        for place in (repo.workspace.root, repo.workspace.root / "points"):
            with pytest.raises(InvalidArgumentError):
                repo.workspace.check_out_to(place)
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "mine").write_text("mine")
        with pytest.raises(InvalidArgumentError, match="something else"):
            repo.workspace.check_out_to(tmp_path / "full", dataset="points")
        with pytest.raises(InvalidArgumentError, match="is a file"):
            repo.workspace.check_out_to(tmp_path / "full" / "mine")


@pytest.mark.thorough
def test_killed_at_any_instant(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", ROWS)
    repo.switch("dev", create=True)
    write(repo, {**ROWS, 1: ("dev", 1)})
    repo.workspace.check_out()
    code = (
        "import sys; from havasu_vc import Repo\n"
        "repo = Repo.open(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    repo.switch('main'); repo.switch('dev')\n"
    )
    for delay in (0.0, 0.03, 0.07, 0.11):
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(repo.path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.kill()
        child.wait()
        child.stdout.close()
        (repo.git.git_directory / "index.lock").unlink(missing_ok=True)
        (repo.git.git_directory / "HEAD.lock").unlink(missing_ok=True)
        again = Repo.open(repo.path, settings=Settings(engine="local"))
        again.workspace.check_out()
        assert_shows_head(again)
