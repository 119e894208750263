"""Pushes of all that there is: the data of every ref goes, too, or the push is refused."""

import subprocess
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.remotes.sharing import assert_keeps_its_promise, bare, files, named, reopened
from tests.repo.points import Rows, read, write
from tests.support.git import run_git

pytestmark = [pytest.mark.few(1), pytest.mark.usefixtures("on_path")]

ROWS: Rows = {number: (f"row {number}", number) for number in range(6)}
HOW = [("git", "push", "--mirror"), ("havasu-vc", "push", "--mirror")]


def refs(path: Path) -> list[str]:
    return run_git("for-each-ref", "--format=%(objectname) %(refname)", cwd=path).splitlines()


def run(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=path, capture_output=True, text=True)


@pytest.fixture
def whole(ours: Repo) -> Repo:
    """A repository with data that only a tag, a stash, a tree and a branch name."""
    write(ours, {**ROWS, 1: ("tagged", 1)})
    run_git("tag", "-a", "-m", "Tagged", "v1", cwd=ours.path)
    run_git("reset", "--quiet", "--hard", "HEAD^", cwd=ours.path)
    write(ours, {**ROWS, 1: ("stashed", 1)})
    run_git("update-ref", "refs/havasu-vc/stash/1", "HEAD", cwd=ours.path)
    run_git("reset", "--quiet", "--hard", "HEAD^", cwd=ours.path)
    write(ours, {**ROWS, 1: ("of a tree", 1)})
    run_git("update-ref", "refs/other/tree", "HEAD^{tree}", cwd=ours.path)
    run_git("reset", "--quiet", "--hard", "HEAD^", cwd=ours.path)
    return reopened(ours)


@pytest.mark.thorough
@pytest.mark.parametrize("how", HOW, ids=["git", "ours"])
@pytest.mark.parametrize("place", ["name", "path"])
def test_a_mirror_has_the_data_of_every_ref(
    whole: Repo, tmp_path: Path, how: tuple[str, ...], place: str
) -> None:
    mirror = bare(tmp_path / "mirror.git")
    run_git("remote", "add", "mirror", mirror, cwd=whole.path)
    target = "mirror" if place == "name" else str(mirror)

    done = run(whole.path, *how, target)

    assert done.returncode == 0, done.stderr
    own = "refs/remotes/mirror/"  # what a push itself notes of the mirror
    assert refs(mirror) == [ref for ref in refs(whole.path) if own not in ref]
    assert_keeps_its_promise(mirror)
    assert named(mirror) == set(files(mirror)) == set(files(whole))
    run_git("update-ref", "-d", "refs/havasu-vc/stash/1", cwd=whole.path)
    run_git("branch", "-q", "other", "v1", cwd=whole.path)
    write(whole, {**ROWS, 2: ("more", 2)})
    done = run(whole.path, *how, target)
    assert done.returncode == 0, done.stderr
    assert {r for r in refs(whole.path) if own not in r} <= set(refs(mirror))
    assert not any("stash" in ref for ref in refs(mirror))
    assert_keeps_its_promise(mirror)


@pytest.mark.parametrize("how", HOW, ids=["git", "ours"])
def test_a_mirror_without_its_data_is_refused(
    whole: Repo, tmp_path: Path, how: tuple[str, ...]
) -> None:
    mirror = bare(tmp_path / "mirror.git")
    for name in files(whole):
        whole.opened.storage.files.delete(name)

    done = run(whole.path, *how, str(mirror))

    assert done.returncode and "data" in done.stderr
    assert refs(mirror) == []


@pytest.mark.thorough
@pytest.mark.parametrize("how", HOW, ids=["git", "ours"])
def test_a_mirror_of_gits_is_passed_on(whole: Repo, tmp_path: Path, how: tuple[str, ...]) -> None:
    """`git clone --mirror` brings no data; `data fetch` does, and puts the hook in place."""
    succeed(invoke(["-C", whole.path, "push", "--mirror"]))
    first, second = tmp_path / "first.git", bare(tmp_path / "second.git")
    run_git("clone", "--quiet", "--mirror", tmp_path / "server.git", first, cwd=tmp_path)

    succeed(invoke(["-C", first, "data", "fetch"]))
    done = run(first, *how, str(second))

    assert done.returncode == 0, done.stderr
    assert refs(second) == refs(first) and named(second)
    assert_keeps_its_promise(second)
    succeed(invoke(["clone", second, tmp_path / "end"]))
    assert read(Repo.open(tmp_path / "end")) == read(whole)


def test_a_dry_run_of_a_mirror_sends_nothing(whole: Repo, tmp_path: Path) -> None:
    mirror = bare(tmp_path / "mirror.git")

    done = succeed(invoke(["-C", whole.path, "push", "--mirror", "--dry-run", mirror]))

    assert "Would push" in done.output and "refs/other/tree" in done.output
    assert refs(mirror) == [] and files(mirror) == []
