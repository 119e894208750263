"""The workspace in a bucket of a real server: the same as in a folder, and what is its own.

`place` runs a test for tables in a folder, and in buckets of S3, of Google's store and of Azure's.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from havasu_vc import Repo, Settings
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import (
    InvalidArgumentError,
    StateError,
    UncommittedChangesError,
)
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.tables.bucket import BucketTable
from havasu_vc.tables.snapshots import live_files
from havasu_vc.tables.table import read_table
from havasu_vc.workspace.materialise import materialise
from tests.cli.conftest import invoke, succeed
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.buckets import ROWS, Tables, edit_rows, far_url, made, rows, there
from tests.remotes.sharing import bare, clone, files, share
from tests.repo.points import add, add_column, make, read, write
from tests.repo.tables import BY_ID, points
from tests.repo.tables import write as write_file
from tests.support.git import run_git
from tests.support.servers import asked_of
from tests.support.sound import LOCAL

pytestmark = pytest.mark.few(1)

DYING = """
import os, sys
from havasu_vc import Repo, Settings
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.engine.local import LocalEngine
from havasu_vc.tables.bucket import BucketTable

LocalEngine.apart = True
BucketTable.copy_from = lambda *given: os._exit(9)
repo = Repo.open(sys.argv[1], settings=Settings(engine="local"))
repo.workspace.check_out(CheckoutRequest(clustered=True, partition_by="bucket(2, id)"))
"""

ONE = ChangeCounts(inserts=1)
DATA_URL = "havasu.data.url"


class TestAnywhere:
    """What holds for a folder and for a bucket alike."""

    @pytest.mark.thorough
    def test_tables_follow_head(self, tables: Tables, tmp_path: Path) -> None:
        repo = tables.repo
        tables.assert_show_head()
        assert repo.workspace.check_out().changed == ()
        repo.switch("dev")
        tables.assert_show_head()
        repo.switch("main")
        tables.assert_show_head()
        assert len(tables.read().metadata.snapshots) == 2, "the first snapshot is there again"
        repo.merge("dev", fast_forward="never")
        tables.assert_show_head()
        repo.reset("HEAD^", mode="hard")
        tables.assert_show_head()
        add_column(repo, "more")
        tables.assert_show_head()
        add(repo, tmp_path, {1: ("road", 1)}, "nz/roads")
        tables.assert_show_head()
        repo.switch("dev")
        tables.assert_show_head()
        assert list(repo.fsck(full=True)) == []

    def test_rows_that_are_deleted_are_gone_there(self, tmp_path: Path, place: str) -> None:
        with tiny_thresholds(most_deltas=9):
            tables = made(tmp_path, place)
            for key in (7, 8):
                write(tables.repo, {k: v for k, v in read(tables.repo).items() if k != key})
                tables.assert_show_head()
            tables.repo.switch("dev")
            tables.repo.switch("main")
            tables.assert_show_head()
        assert [each for each in live_files(tables.read()) if not each.is_data]

    def test_edits_are_seen_and_committed(self, tables: Tables) -> None:
        repo = tables.repo
        seen = repo.workspace.changes()
        assert seen is not None and not seen.tables and not seen.problems

        tables.edit({100: ("new", 1)}, gone=3)

        seen = repo.workspace.changes()
        assert seen is not None
        assert seen.tables["points"].rows == ChangeCounts(inserts=1, deletes=1)
        (diff,) = repo.workspace.diff()
        assert sum(map(len, diff.changes)) == 2
        result = repo.workspace.commit(message="By an engine")
        assert result.changes["points"] == ChangeCounts(inserts=1, deletes=1)
        wanted = {k: v for k, v in ROWS.items() if k != 3} | {100: ("new", 1)}
        assert read(repo) == wanted
        tables.assert_show_head()
        assert list(repo.fsck(full=True)) == []
        assert repo.workspace.edited() == {}

    def test_edits_are_never_passed_over(self, tables: Tables) -> None:
        repo = tables.repo
        tables.edit({100: ("new", 1)})
        edited = rows(tables.read())
        for act in (
            lambda: repo.switch("dev"),
            lambda: repo.merge("dev"),
            lambda: repo.reset("HEAD", mode="hard"),
        ):
            with pytest.raises(UncommittedChangesError, match="points has edits"):
                act()
        assert rows(tables.read()) == edited and repo.head_branch == "main"
        repo.switch("same", create=True)
        assert rows(tables.read()) == edited
        repo.switch("dev", discard=True)
        tables.assert_show_head()

    def test_a_commit_elsewhere_leaves_them_behind(self, tables: Tables) -> None:
        notes: list[str] = []
        repo = tables.repo.with_settings(Settings(engine="local", note=notes.append))
        tables.edit({100: ("new", 1)})
        edited = rows(tables.read())
        write(repo, {**ROWS, 5: ("five", 5)})
        assert any("has edits and stays at" in note for note in notes)
        assert rows(tables.read()) == edited
        assert repo.workspace.commit(message="Edits").changes["points"] == ONE
        assert read(repo) == {**ROWS, 5: ("five", 5), 100: ("new", 1)}
        tables.assert_show_head()

    def test_a_write_during_a_commit_waits_for_the_next(
        self, tables: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables.edit({100: ("new", 1)})
        waiting, real = [True], materialise

        def slower(*given: Any, **named: Any) -> Any:
            if waiting:
                waiting.clear()
                tables.edit({101: ("newer", 1)})
            return real(*given, **named)

        monkeypatch.setattr("havasu_vc.checkouts.checking_out.materialise", slower)
        assert tables.repo.workspace.commit(message="First").changes["points"] == ONE
        assert not waiting
        assert rows(tables.read()).keys() >= {100, 101}
        assert tables.repo.workspace.commit(message="Second").changes["points"] == ONE
        assert read(tables.repo).keys() >= {100, 101}
        tables.assert_show_head()

    def test_a_stash_goes_and_comes(self, tables: Tables) -> None:
        repo = tables.repo
        tables.edit({100: ("new", 1)})
        edited = rows(tables.read())
        repo.workspace.stash(message="later")
        tables.assert_show_head()
        repo.switch("dev")
        repo.workspace.apply_stash(drop=True)
        assert rows(tables.read()) == {**edited, 1: ("dev", 1)}
        seen = repo.workspace.changes()
        assert seen is not None and seen.tables["points"].rows == ONE
        repo.workspace.discard()
        tables.assert_show_head()

    def test_branches_are_shown(self, tables: Tables) -> None:
        repo = tables.repo
        repo.workspace.check_out(CheckoutRequest(refs=True))
        table = tables.read()
        assert {"main", "dev", "havasu-base"} <= set(table.metadata.references)
        (shown,) = [table.metadata.references["dev"]]
        files = {each.file.path for each in live_files(table, shown.snapshot_id)}
        assert files != {each.file.path for each in live_files(table)}
        write(repo, {**ROWS, 9: ("nine", 9)})
        tables.assert_show_head()

    def test_flavours_change(self, tables: Tables) -> None:
        for flavour in (Flavour.HAVASU, Flavour.SPARK, Flavour.ICEBERG):
            assert tables.repo.workspace.check_out(CheckoutRequest(flavour)).changed == ("points",)
            assert tables.read().metadata.properties["havasu-vc.flavour"] == flavour.value
        tables.assert_show_head()

    @pytest.mark.thorough
    def test_old_snapshots_go_and_their_files_with_them(self, tables: Tables) -> None:
        repo = tables.repo
        repo.config.set("havasu.workspace.keep", 2)
        for step in range(5):
            write(repo, {**ROWS, 0: (f"step {step}", step)})
        assert len(tables.read().metadata.snapshots) == 2
        tables.assert_show_head()

    def test_a_lost_state_is_found_again(self, tables: Tables) -> None:
        repo = tables.repo
        (repo.git.git_directory / "havasu" / "workspace.json").unlink()
        assert repo.workspace.check_out().changed == ()
        tables.assert_show_head()

    def test_something_else_stays(self, tmp_path: Path, place: str) -> None:
        repo = make(tmp_path / "repo", ROWS)
        repo.config.set("havasu.workspace.path", place)
        root = repo.workspace.place
        if isinstance(root, Path):
            (root / "points").mkdir(parents=True)
            (root / "points" / "mine").write_text("mine")
        else:
            (tmp_path / "mine").write_text("mine")
            BucketTable(f"{root}/points").send(tmp_path / "mine", "mine")
        with pytest.raises(StateError, match="something else"):
            repo.workspace.check_out()

    def test_clustered_tables_follow(self, tmp_path: Path, place: str) -> None:
        tables = made(tmp_path, place)
        tables.repo.workspace.check_out(
            CheckoutRequest(clustered=True, partition_by="bucket(2, id)")
        )
        assert len([each for each in live_files(tables.read()) if each.is_data]) == 2
        tables.edit({100: ("new", 1)})
        tables.repo.workspace.commit(message="Edit")
        tables.assert_show_head()

    def test_a_table_of_another_dataset_stays(self, tables: Tables, tmp_path: Path) -> None:
        other = make(tmp_path / "other", {1: ("x", 1)})
        other.config.set("havasu.workspace.path", str(tables.repo.workspace.place))
        with pytest.raises(StateError, match="is not points"):
            other.workspace.check_out(discard=True)
        tables.assert_show_head()


class TestInABucket:
    """What a bucket has of its own."""

    @pytest.mark.thorough
    def test_data_is_sent_once(self, far: Tables, endpoint: str) -> None:
        def sent() -> list[str]:
            return [each for each in asked_of(endpoint) if each.startswith(("PUT", "POST"))]

        far.repo.switch("dev")
        assert len([each for each in sent() if "/data/" in each]) >= 2
        for branch in ("main", "dev", "main"):
            far.repo.switch(branch)
            assert [each for each in sent() if "/data/" in each] == []
        assert all(file.endswith(".parquet") for file in there(endpoint, f"{far_url(far)}/data"))

    @pytest.mark.thorough
    def test_a_look_costs_few_requests(self, far: Tables, endpoint: str) -> None:
        for step in range(3):
            write(far.repo, {**ROWS, 0: (f"step {step}", step)})
        asked_of(endpoint)
        far.repo.workspace.changes()
        assert len(asked_of(endpoint)) <= 2
        far.edit({100: ("new", 1)})
        base = {each.file.path for each in live_files(far.read()) if each.is_data}
        asked_of(endpoint)
        seen = far.repo.workspace.changes()
        assert seen is not None and seen.tables["points"].rows == ONE
        asked = asked_of(endpoint)
        mine = [name.rpartition("/")[2] for name in base if len(name.rpartition("/")[2]) == 72]
        assert mine and not any(name in each for name in mine for each in asked), "rows are here"
        far.repo.workspace.changes()
        assert len(asked_of(endpoint)) < len(asked), "what was brought is not brought again"

    def test_a_table_goes_with_its_dataset(
        self, far: Tables, endpoint: str, tmp_path: Path
    ) -> None:
        root = str(far.repo.workspace.place)
        add(far.repo, tmp_path, {1: ("road", 1)}, "nz/roads")
        assert there(endpoint, f"{root}/nz/roads")
        far.repo.switch("dev")
        assert not there(endpoint, f"{root}/nz") and there(endpoint, f"{root}/points")

    @pytest.mark.thorough
    def test_what_expires_is_removed(self, far: Tables, endpoint: str) -> None:
        far.repo.config.set("havasu.workspace.keep", 2)
        for step in range(4):
            write(far.repo, {**ROWS, 0: (f"step {step}", step)})
        data = there(endpoint, f"{far_url(far)}/data")
        table = far.read()
        named = {
            each.file.path.rpartition("/")[2]
            for snapshot in table.metadata.snapshots
            for each in live_files(table, snapshot)
        }
        assert set(data) == named

    def test_another_clone_may_use_the_same_place(self, far: Tables, tmp_path: Path) -> None:
        share(far.repo, bare(tmp_path / "server.git"))
        other = Tables(clone(tmp_path / "server.git", tmp_path / "other"), tmp_path)
        other.repo.config.set("havasu.workspace.path", str(far.repo.workspace.place))
        assert other.repo.workspace.check_out().changed == ()
        far.edit({100: ("new", 1)})
        with pytest.raises(UncommittedChangesError):
            other.repo.reset("HEAD", mode="hard")
        assert other.repo.workspace.commit(message="There").changes["points"] == ONE
        other.assert_show_head()
        assert far.repo.workspace.edited() == {}, "nothing is lost, and nothing committed twice"
        far.repo.workspace.check_out()
        assert rows(far.read()) == read(far.repo)

    @pytest.mark.thorough
    def test_a_pull_brings_the_tables_along(self, far: Tables, tmp_path: Path) -> None:
        share(far.repo, bare(tmp_path / "server.git"))
        other = clone(tmp_path / "server.git", tmp_path / "other")
        write(other, {**ROWS, 2: ("theirs", 2)})
        other.push()
        far.repo.fetch()
        far.repo.merge("origin/main")
        assert read(far.repo)[2] == ("theirs", 2)
        far.assert_show_head()

    def test_edits_in_a_plain_clone_without_data_are_committed(
        self, tmp_path: Path, url: str
    ) -> None:
        """What old rows say is brought; where nobody said where it is, that is told."""
        data = url.replace("/tables", "/data")
        share(make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git"), data=data)
        run_git("clone", "-q", "-b", "main", "server.git", "plain", cwd=tmp_path)
        plain = tmp_path / "plain"

        def run(*words: str) -> Result:
            return invoke(["-C", plain, *words])

        run_git("config", "havasu.workspace.path", url, cwd=plain)
        told = run("checkout")
        assert told.exit_code == 42 and f"git config {DATA_URL} URL" in told.output
        run_git("config", DATA_URL, data, cwd=plain)
        run_git("config", "havasu.data.fetch", "on-demand", cwd=plain)
        succeed(run("checkout"))
        assert files(plain) == []
        tables = Tables(Repo.open(plain, settings=LOCAL), tmp_path)
        tables.edit({100: ("new", 1)}, gone=3)

        run_git("config", "--unset", DATA_URL, cwd=plain)
        for words in (["commit", "-m", "By another"], ["diff"]):
            told = run(*words)
            assert told.exit_code == 42 and "Traceback" not in told.output
            (lacking,) = (line for line in told.output.splitlines() if line.startswith("Error:"))
            assert lacking.startswith("Error: data file ")
            assert f"git config {DATA_URL} URL" in told.output
        run_git("config", DATA_URL, data, cwd=plain)
        assert "1 insert, 1 delete" in succeed(run("commit", "-m", "By another")).output
        rows_ = read(Repo.open(plain, settings=LOCAL))
        assert rows_ == {k: v for k, v in ROWS.items() if k != 3} | {100: ("new", 1)}
        assert "Nothing to commit" in succeed(run("status")).output

    @pytest.mark.parametrize("apart", [False, True])
    def test_clustered_tables_of_a_clone_without_data(
        self, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, apart: bool
    ) -> None:
        """The files are in the table alone, and what comes later is made of them there.

        Also by tasks that name no folder of this machine.
        """
        monkeypatch.setattr(LocalEngine, "apart", apart)
        monkeypatch.setattr("havasu_vc.exchange.owned_imports.PART_BYTES", 200)
        monkeypatch.setattr("havasu_vc.checkouts.clustered_versions.SMALL", 0)
        data = url.replace("/tables", "/data")
        ours = make(tmp_path / "ours", ROWS)
        share(ours, bare(tmp_path / "server.git"), data=data)
        repo = clone(tmp_path / "server.git", tmp_path / "mine", data_url=data, on_demand=True)
        repo.config.set("havasu.workspace.path", url)
        request = CheckoutRequest(clustered=True, partition_by="bucket(2, id)")
        repo.workspace.check_out(request)
        assert files(repo) == []
        tables = Tables(Repo.open(repo.path, settings=LOCAL), tmp_path)
        tables.assert_show_head()
        first = {each.file.path for each in live_files(tables.read())}
        assert len(first) == 2
        head = require_files(repo.dataset("points"))
        tables.edit({100: ("new", 1)}, gone=0)
        (diff,) = tables.repo.workspace.diff()
        assert sum(map(len, diff.changes)) == 2
        tables.repo.workspace.commit(message="By an engine")
        (deletes,) = set(files(repo)) - {entry.file for entry in head.data_entries}
        assert deletes not in {Path(each.file.path).stem for each in live_files(tables.read())}
        tables.assert_show_head()
        tables.repo.create_branch("side", "HEAD^")
        tables.repo.switch("side")
        tables.assert_show_head()
        write(tables.repo, {**ROWS, 1: ("side", 1)})
        tables.assert_show_head()
        assert first & {each.file.path for each in live_files(tables.read())}
        tables.edit({101: ("stashed", 1)})
        tables.repo.workspace.stash(message="later")
        tables.assert_show_head()
        tables.repo.workspace.apply_stash(drop=True)
        assert rows(tables.read())[101] == ("stashed", 1)
        tables.repo.workspace.commit(message="Again")
        tables.repo.merge("main")
        tables.assert_show_head()
        wanted = {**ROWS, 1: ("side", 1), 100: ("new", 1), 101: ("stashed", 1)}
        assert read(tables.repo).items() <= wanted.items() and len(read(tables.repo)) == 41
        assert list(tables.repo.fsck(full=True)) == []

    @pytest.mark.parametrize("apart", [False, True])
    def test_tables_along_a_curve_of_a_clone_without_data(
        self, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, apart: bool
    ) -> None:
        """Any file may have any key, so keys are looked up in the files of the table."""
        monkeypatch.setattr(LocalEngine, "apart", apart)
        monkeypatch.setattr("havasu_vc.exchange.owned_imports.PART_BYTES", 20_000)
        monkeypatch.setattr("havasu_vc.checkouts.clustered_versions.SMALL", 0)
        data = url.replace("/tables", "/data")
        ours = make(tmp_path / "ours", ROWS)
        source = write_file(tmp_path / "curve.parquet", points(2000))
        ours.import_(source, "curve", options=BY_ID, order="hilbert")
        share(ours, bare(tmp_path / "server.git"), data=data)
        repo = clone(tmp_path / "server.git", tmp_path / "mine", data_url=data, on_demand=True)
        repo.config.set("havasu.workspace.path", url)
        repo.workspace.check_out(CheckoutRequest(clustered=True))
        first = live_files(BucketTable(f"{url}/curve").read(tmp_path / "first"))
        late = [{**row, "name": "late"} for row in points(50, start=9000).to_pylist()]
        edit_rows(f"{url}/curve", tmp_path / "engine", late, range(100))

        Repo.open(repo.path, settings=LOCAL).workspace.commit(message="By an engine")

        assert len(files(repo)) == 1, "what says which rows are gone"
        found = BucketTable(f"{url}/curve").read(tmp_path / "copies")
        assert {each.file.path for each in first} < {each.file.path for each in live_files(found)}
        wanted: dict[int, object] = {number: f"row {number}" for number in range(100, 2000)}
        wanted |= dict.fromkeys(range(9000, 9050), "late")
        assert {key: row[1] for key, row in rows(found).items()} == wanted
        head = Repo.open(repo.path, settings=LOCAL)
        assert head.table("curve").to_arrow().num_rows == len(wanted)

    def test_a_driver_that_dies_before_the_table_has_the_sorted_files(
        self, tmp_path: Path, url: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever comes next makes the table; what lies in between is known as such."""
        data = url.replace("/tables", "/data")
        share(make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git"), data=data)
        repo = clone(tmp_path / "server.git", tmp_path / "mine", data_url=data, on_demand=True)
        repo.config.set("havasu.workspace.path", url)
        kept = there(endpoint, data).keys()

        died = subprocess.run([sys.executable, "-c", DYING, repo.path], check=False)

        assert died.returncode == 9 and there(endpoint, url) == {}
        left = there(endpoint, data).keys() - kept
        assert left and all(name.startswith("temporary/") for name in left)
        monkeypatch.setattr(LocalEngine, "apart", True)
        tables = Tables(Repo.open(repo.path, settings=LOCAL), tmp_path)
        tables.repo.workspace.check_out(
            CheckoutRequest(clustered=True, partition_by="bucket(2, id)")
        )
        assert there(endpoint, data).keys() - kept == left, "none of its own is left"
        tables.assert_show_head()

    def test_a_bare_repository_has_tables_too(self, tmp_path: Path, url: str) -> None:
        repo = make(tmp_path / "bare.git", ROWS, bare=True)
        repo.config.set("havasu.workspace.path", url)
        repo.workspace.check_out()
        Tables(repo, tmp_path).assert_show_head()

    def test_a_workspace_moves_to_a_bucket(self, tmp_path: Path, url: str) -> None:
        tables = made(tmp_path, str(tmp_path / "tables"))
        tables.edit({100: ("new", 1)})
        tables.repo.config.set("havasu.workspace.path", url)
        with pytest.raises(StateError, match="were checked out") as caught:
            tables.repo.workspace.check_out()
        assert "--relocate" in caught.value.hints[0]
        tables.repo.workspace.relocate()
        tables.assert_show_head()
        assert 100 in rows(read_table(tmp_path / "tables" / "points")), "edits stay where they are"

    @pytest.mark.parametrize(
        "place",
        [
            "ftp://x/y",
            "file:///srv/x",
            "s3://bucket/x?region=y",
            "https://key:secret@bucket/x",
            "s3://key:secret@bucket/x",
        ],
    )
    def test_places_that_are_none(self, tmp_path: Path, place: str) -> None:
        repo = make(tmp_path / "repo", ROWS)
        repo.config.set("havasu.workspace.path", place)
        with pytest.raises(InvalidArgumentError) as caught:
            repo.workspace.check_out()
        assert "secret@" not in caught.value.message
        assert not (repo.git.git_directory / "havasu" / "workspace.json").exists()

    def test_copies_may_be_removed(self, far: Tables) -> None:
        shutil.rmtree(far.repo.git.git_directory / "havasu" / "copies")
        far.edit({100: ("new", 1)})
        assert far.repo.workspace.commit(message="Edit").changes["points"] == ONE
        far.assert_show_head()

    def test_clustered_tables(self, tmp_path: Path, url: str) -> None:
        tables = made(tmp_path, url)
        tables.repo.workspace.check_out_to(
            f"{url}-sorted", dataset="points", clustered=True, partition_by="bucket(2, id)"
        )
        found = BucketTable(f"{url}-sorted").read(tmp_path / "copies")
        assert rows(found) == ROWS
        assert len([each for each in live_files(found) if each.is_data]) == 2
        with pytest.raises(InvalidArgumentError, match="is in the workspace"):
            tables.repo.workspace.check_out_to(f"{url}/points", dataset="points")
