"""Two writers at once, and what goes wrong, with a workspace in a bucket of a real S3 server."""

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from havasu_vc import Repo, Settings
from havasu_vc.errors import (
    ConcurrentChangeError,
    CorruptionError,
    HavasuError,
    StateError,
    StorageError,
    UncommittedChangesError,
)
from havasu_vc.formats.iceberg.metadata import format_metadata
from havasu_vc.formats.iceberg.values import Flavour, TableMetadata
from havasu_vc.store.object_systems import create_object
from havasu_vc.tables.bucket import BucketTable
from tests.conftest import lacking
from tests.remotes.buckets import ROWS, Tables, far_url, rows, s3, there
from tests.repo.points import make, read
from tests.support.examples import some
from tests.support.servers import S3_ENVIRONMENT, moto

KILLED = """
import os, sys
from havasu_vc import Repo, Settings
from havasu_vc.tables.bucket import BucketTable
path, name, count = sys.argv[1:]
real, done = getattr(BucketTable, name), []
def dying(*given, **named):
    done.append(name)
    if len(done) == int(count):
        os.kill(os.getpid(), 9)
    return real(*given, **named)
setattr(BucketTable, name, dying)
Repo.open(path, settings=Settings(engine="local")).switch("dev")
"""


def need_obstore() -> None:
    if find_spec("obstore") is None:
        lacking("this needs obstore: pip install 'havasu-vc[bucket]'")


class TestTwoWriters:
    """Of two who publish the same version at once, one is told."""

    @pytest.mark.thorough
    @pytest.mark.parametrize("conditional", [True, False])
    def test_one_of_them_is_told(
        self, far: Tables, conditional: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if conditional:
            need_obstore()
        else:
            monkeypatch.setattr("havasu_vc.tables.bucket.create_object", lambda *_: None)
        place = BucketTable(far_url(far))
        table = far.read()
        far.edit({100: ("new", 1)})
        edited = rows(far.read())
        with pytest.raises(ConcurrentChangeError):
            place.publish(table.metadata, table.version + 1, Flavour.HAVASU)
        assert rows(far.read()) == edited

    def test_at_the_same_instant(self, far: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
        need_obstore()
        table = far.read()
        both, ends = threading.Barrier(2), []

        def no_look(self: BucketTable) -> dict[int, str]:
            return {}  # each looked before the other wrote

        monkeypatch.setattr(BucketTable, "versions", no_look)

        def publish(step: int, version: int) -> None:
            later = table.metadata.last_updated_ms + step
            metadata = replace(table.metadata, last_updated_ms=later)
            both.wait()
            try:
                BucketTable(far_url(far)).publish(metadata, version, Flavour.HAVASU)
                ends.append("published")
            except ConcurrentChangeError:
                ends.append("told")

        for version in range(2, 7):
            threads = [threading.Thread(target=publish, args=(n, version)) for n in (1, 2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert sorted(ends) == ["published"] * 5 + ["told"] * 5

    @pytest.mark.thorough
    def test_a_version_that_replaced_ours_is_an_edit_of_what_it_began_with(
        self, far: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As Spark does it: a look whether the name is free, and later a rename onto it."""
        real = BucketTable.publish

        def renamed(
            self: BucketTable, metadata: TableMetadata, version: int, flavour: Flavour
        ) -> bytes:
            monkeypatch.setattr(BucketTable, "publish", real)
            far.repo.switch("dev")
            document = format_metadata(metadata, flavour=flavour)
            self._write(f"metadata/v{version}.metadata.json", document)
            return document

        monkeypatch.setattr(BucketTable, "publish", renamed)
        far.edit({100: ("new", 1)})
        assert far.repo.head_branch == "dev"
        assert list(far.repo.workspace.edited()) == ["points"]
        with pytest.raises(UncommittedChangesError):
            far.repo.reset("HEAD", mode="hard")
        assert far.repo.workspace.commit(message="Spark's").changes["points"].inserts == 1
        assert read(far.repo) == {**ROWS, 1: ("dev", 1), 100: ("new", 1)}
        far.assert_show_head()

    @pytest.mark.thorough
    def test_a_file_that_another_lets_go_of_is_sent_again(
        self, far: Tables, endpoint: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its version expired the file, and removes it once we saw that it is there."""
        root = far_url(far).removeprefix("s3://")
        (file,) = there(endpoint, f"{root}/data")
        far.repo.switch("dev")
        real = BucketTable.publish

        def late(self: BucketTable, *given: Any) -> bytes:
            s3(endpoint).delete_file(f"{root}/data/{file}")
            return real(self, *given)

        with monkeypatch.context() as patch:
            patch.setattr(BucketTable, "publish", late)
            far.repo.switch("main")
        assert file in there(endpoint, f"{root}/data")
        far.assert_show_head()

    def test_an_answer_that_was_lost_is_no_other_writer(
        self, far: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(url: str, data: bytes) -> bool:
            assert create_object(url, data) in (True, None)
            return False

        need_obstore()
        monkeypatch.setattr("havasu_vc.tables.bucket.create_object", lost)
        far.repo.switch("dev")
        far.assert_show_head()

    def test_without_credentials_that_obstore_knows(
        self, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.setenv("AWS_PROFILE", "somebody")
        assert create_object(f"{url}/x", b"x") is None


class TestWhatGoesWrong:
    """One line, the next step, and nothing lost."""

    def test_no_bucket(self, tmp_path: Path, url: str) -> None:
        repo = make(tmp_path / "repo", ROWS)
        repo.config.set("havasu.workspace.path", "s3://no-such-bucket-at-all/tables")
        with pytest.raises(HavasuError) as caught:
            repo.workspace.check_out()
        assert "\n" not in caught.value.message
        assert caught.value.hints == ("make the bucket, or correct the URL",)

    @pytest.mark.thorough
    def test_refused_access(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in S3_ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        # After so many requests this server wants credentials that it knows.
        monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "3")
        repo = make(tmp_path / "repo", ROWS)
        repo.config.set("havasu.workspace.path", "s3://refusing/tables")
        with moto() as endpoint:
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
            s3(endpoint).create_dir("refusing")
            for _ in range(3):
                with pytest.raises(StorageError) as caught:
                    repo.workspace.check_out()
        assert "Request ID" not in caught.value.message
        assert "credentials" in caught.value.hints[0]
        assert read(repo) == ROWS

    @pytest.mark.thorough
    def test_a_server_that_is_gone(
        self, far: Tables, monkeypatch: pytest.MonkeyPatch, endpoint: str
    ) -> None:
        before = rows(far.read())
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with pytest.raises(StorageError) as caught:
            far.repo.switch("dev")
        assert "\n" not in caught.value.message
        assert "--discard-changes" in caught.value.hints[-1]
        assert far.repo.head_branch == "main"
        seen = far.repo.workspace.changes()
        assert seen is not None and len(seen.problems) == 1 and "s3://" in seen.problems[0]
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert rows(far.read()) == before

    @pytest.mark.parametrize("after", some(range(6), 4))
    def test_a_server_that_goes_in_the_middle(
        self, far: Tables, monkeypatch: pytest.MonkeyPatch, after: int
    ) -> None:
        """The old table is there to its last byte, and the next checkout ends what was begun."""
        before, version = rows(far.read()), far.read().version
        calls: list[str] = []

        def failing(name: str) -> Callable[..., Any]:
            real = getattr(BucketTable, name)

            def call(self: BucketTable, *given: Any, **named: Any) -> Any:
                calls.append(name)
                if len(calls) > after:
                    raise StorageError(f"{self.url} cannot be written: the server is gone")
                return real(self, *given, **named)

            return call

        notes: list[str] = []
        repo = far.repo.with_settings(Settings(engine="local", note=notes.append))
        with monkeypatch.context() as patch:
            for name in ("send", "publish", "remove", "copy_from"):
                patch.setattr(BucketTable, name, failing(name))
            repo.switch("dev")
        assert repo.head_branch == "dev"
        if far.read().version == version:
            assert rows(far.read()) == before
            assert any("cannot be written" in note for note in notes)
        repo.workspace.check_out()
        far.assert_show_head()

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "when", some(["send 1", "send 2", "publish 1", "remove 1"], "publish 1")
    )
    def test_a_killed_checkout(self, far: Tables, when: str) -> None:
        far.repo.config.set("havasu.workspace.keep", 1)
        before = rows(far.read())
        name, count = when.split()
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(far.repo.path), name, count],
            cwd=Path(__file__).parents[2],
            check=False,
        )
        assert killed.returncode == -9
        assert rows(far.read()) in (before, {**before, 1: ("dev", 1)})
        again = Tables(Repo.open(far.repo.path, settings=Settings(engine="local")), far.folder)
        assert again.repo.head_branch == "dev"
        again.repo.workspace.check_out()
        again.assert_show_head()
        assert again.repo.workspace.edited() == {}

    @pytest.mark.thorough
    def test_a_damaged_table(self, far: Tables, endpoint: str) -> None:
        version = far.read().version
        with s3(endpoint).open_output_stream(
            f"{far_url(far).removeprefix('s3://')}/metadata/v{version + 1}.metadata.json"
        ) as file:
            file.write(b"{")
        seen = far.repo.workspace.changes()
        assert seen is not None and len(seen.problems) == 1
        assert far_url(far) in seen.problems[0] and "copies" not in seen.problems[0]
        with pytest.raises(UncommittedChangesError):
            far.repo.switch("dev")
        with pytest.raises(CorruptionError):
            far.repo.workspace.commit(message="x")
        far.repo.workspace.check_out(discard=True)
        far.assert_show_head()

    @pytest.mark.thorough
    def test_a_table_that_was_replaced(self, far: Tables, tmp_path: Path, endpoint: str) -> None:
        system, root = s3(endpoint), far_url(far).removeprefix("s3://")
        system.delete_dir(root)
        other = make(tmp_path / "other", {1: ("x", 1)})
        other.workspace.check_out_to(far_url(far), dataset="points")
        with pytest.raises(HavasuError):
            far.repo.workspace.commit(message="x")
        with pytest.raises(StateError, match="is not points"):
            far.repo.workspace.check_out(discard=True)
        assert rows(far.read()) == {1: ("x", 1)}

    def test_a_table_that_was_removed_is_made_anew(self, far: Tables, endpoint: str) -> None:
        s3(endpoint).delete_dir(far_url(far).removeprefix("s3://"))
        assert far.repo.workspace.check_out().changed == ("points",)
        far.assert_show_head()

    def test_a_data_file_that_was_removed_is_sent_again(self, far: Tables, endpoint: str) -> None:
        (name,) = there(endpoint, f"{far_url(far)}/data")
        s3(endpoint).delete_file(f"{far_url(far).removeprefix('s3://')}/data/{name}")
        assert far.repo.workspace.check_out().changed == ("points",)
        far.assert_show_head()
