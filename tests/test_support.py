"""The ground that other tests stand on can itself give way."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pygit2
import pytest
from hypothesis import settings

from havasu_vc import Repo
from tests.conftest import ROOT
from tests.support import scratch
from tests.support.examples import examples
from tests.support.golden import Golden
from tests.support.sound import CheckedRepo, checked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_golden_accepts_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "case").write_bytes("é\r\n".encode())

    Golden(update=False)("é\r\n", tmp_path / "case")


def test_golden_refuses_other_bytes(tmp_path: Path) -> None:
    (tmp_path / "case").write_bytes(b"one\r\n")

    with pytest.raises(AssertionError):
        Golden(update=False)("one\n", tmp_path / "case")


def test_golden_refuses_a_case_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="make golden"):
        Golden(update=False)("one\n", tmp_path / "case")


def test_golden_writes_when_asked(tmp_path: Path) -> None:
    Golden(update=True)("two\n", tmp_path / "new" / "case")

    assert (tmp_path / "new" / "case").read_bytes() == b"two\n"


def test_git_sees_only_the_configuration_of_tests(git: Callable[..., str], tmp_path: Path) -> None:
    git("init", cwd=tmp_path)

    assert git("config", "user.email", cwd=tmp_path) == "test@example.com"
    assert git("symbolic-ref", "HEAD", cwd=tmp_path) == "refs/heads/main"
    assert pygit2.Repository(tmp_path).config["user.email"] == "test@example.com"


@pytest.mark.thorough
def test_a_folder_that_is_named_is_isolated_too(tmp_path: Path) -> None:
    """Its conftest imports pygit2, which then has looked at the home folder."""
    (tmp_path / ".gitconfig").write_text("[user]\n\temail = me@example.org\n")
    test = "test_git_sees_only_the_configuration_of_tests"
    done = run_pytest("tests/cli/test_pager.py", __file__, "-k", test, HOME=str(tmp_path))

    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.thorough
def test_a_group_and_a_file_are_of_one_worker(tmp_path: Path) -> None:
    """Else each worker starts a Spark, and makes anew what a module has made."""
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_xdist_make_scheduler\n"
    )
    text = """\
import os, pytest
of_group = pytest.mark.xdist_group("some")
@pytest.mark.parametrize("which", [pytest.param("group", marks=of_group), __name__, "in@it"])
@pytest.mark.parametrize("number", range(4))
def test_here(which, number):
    unit = which if which == "group" else __name__
    with open("seen", "a") as file:
        print(unit, os.environ["PYTEST_XDIST_WORKER"], file=file)
"""
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(text)
    done = run_pytest("-n2", "--dist", "loadgroup", "--rootdir", tmp_path, tmp_path, cwd=tmp_path)
    seen = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]

    assert not done.returncode and len(seen) == 36, done.stdout
    workers = dict(seen)
    assert all(workers[which] == worker for which, worker in seen)
    assert len(workers) == 4 and len(set(workers.values())) == 2


def run_pytest(
    *arguments: str | Path, cwd: Path = ROOT, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run pytest as if nothing of this run were there."""
    others = ("GIT_", "PYTEST_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, arguments)],
        cwd=cwd,
        env=inherited | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
    )


def test_git_that_fails_says_why(git: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failure:
        git("log", cwd=tmp_path)

    assert "not a git repository" in failure.value.stderr
    assert git("log", cwd=tmp_path, check=False) == ""


def test_spark_runs_the_python_of_the_tests(spark: "SparkSession") -> None:
    executables = spark.sparkContext.range(2).map(lambda _: sys.executable).distinct().collect()

    assert executables == [sys.executable]


@pytest.mark.parametrize(("profile", "tried"), [("full", {40: 40, 3: 3}), ("quick", {40: 8, 3: 2})])
def test_a_quick_run_tries_a_share_of_the_examples(profile: str, tried: dict[int, int]) -> None:
    usual = settings.get_current_profile_name()
    try:
        settings.load_profile(profile)
        assert {number: examples(number).max_examples for number in tried} == tried
    finally:
        settings.load_profile(usual)


@pytest.mark.parametrize(
    ("free", "available", "in_memory"),
    [(scratch.ENOUGH, 3 * scratch.ENOUGH, True), (1 << 26, 1 << 40, False), (1 << 40, 0, False)],
)
def test_tests_write_in_memory_where_there_is_room(
    free: int, available: int, in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY", tmp_path)
    monkeypatch.setattr(scratch, "available", lambda: available)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    for named, used in ((None, str(tmp_path) if in_memory else None), ("/var/tmp", "/var/tmp")):
        with monkeypatch.context() as here:
            here.setenv("TMPDIR", named or "")
            if named is None:
                here.delenv("TMPDIR")
            here.setattr(tempfile, "tempdir", tempfile.tempdir)
            scratch.scratch_in_memory()
            assert os.environ.get("TMPDIR") == used


def test_what_was_sound_is_looked_at_again_where_it_was_touched(tmp_path: Path) -> None:
    repo = checked(tmp_path / "repo")
    repo.datasets()
    repo.datasets()
    left = repo.repo.git.git_directory / "left.lock"
    left.write_bytes(b"")
    with pytest.raises(AssertionError, match=r"left behind: \['left.lock'\]"):
        repo.datasets()
    left.unlink()
    repo.datasets()
    # Files by plain git in between are the user's own, and no method may touch them.
    (tmp_path / "repo" / "notes.txt").write_text("a")
    repo.datasets()

    class Careless:
        """A repository of which a method removes what is not its own."""

        path, git, datasets = repo.repo.path, repo.repo.git, repo.repo.datasets

        def careless(self) -> None:
            (self.path / "notes.txt").unlink()

    with pytest.raises(AssertionError, match="careless changed the status"):
        CheckedRepo(cast(Repo, Careless())).careless()
