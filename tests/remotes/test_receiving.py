"""A server of one's own takes in what is sound and has its data, and nothing else."""

import os
import subprocess
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.repo.points import read, write
from tests.support.broken import BREAKS, FIRST, make_sound
from tests.support.git import run_git
from tests.support.templates import copy_tree

pytestmark = pytest.mark.few(1)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sound(tmp_path_factory.mktemp("received"))


@pytest.fixture
def server(tmp_path: Path, on_path: Path) -> Path:
    """A bare repository whose hook is the one that the guide installs."""
    place = tmp_path / "server.git"
    run_git("init", "-q", "--bare", place, cwd=tmp_path)
    hook = place / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexec havasu-vc hook pre-receive\n")
    hook.chmod(0o755)
    return place


@pytest.fixture
def place(sound: Path, server: Path, tmp_path: Path) -> Path:
    """A clone of a person, from which `dev` has been pushed."""
    place = copy_tree(sound, tmp_path / "repo")
    run_git("remote", "add", "origin", server, cwd=place)
    succeed(invoke(["-C", place, "push", "origin", "dev"]))
    return place


def push(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Push with git alone, past every hook here."""
    command = ["git", "push", "--no-verify", "origin", *arguments]
    return subprocess.run(
        command, cwd=place, capture_output=True, text=True, check=False, env=os.environ
    )


def refs(server: Path) -> str:
    return run_git("for-each-ref", cwd=server)


@pytest.mark.parametrize("way", BREAKS)
@pytest.mark.few(1)
def test_a_broken_dataset_is_refused(place: Path, server: Path, way: str) -> None:
    succeed(invoke(["-C", place, "data", "push", "origin"]))
    before = refs(server)
    BREAKS[way](place)

    done = push(place, "main")

    assert done.returncode
    assert "this push is refused" in done.stderr
    assert "refs/heads/main" in done.stderr
    assert "internal error" not in done.stderr
    assert refs(server) == before


@pytest.mark.thorough
def test_a_repair_is_taken_in(place: Path, server: Path) -> None:
    BREAKS["our side's text"](place)
    succeed(invoke(["-C", place, "repair"]))
    succeed(invoke(["-C", place, "data", "push", "origin"]))

    assert push(place, "main").returncode == 0
    assert run_git("rev-parse", "main", cwd=server) == run_git("rev-parse", "HEAD", cwd=place)


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["main", "a tag", "main again"])
def test_commits_without_their_data_are_refused(place: Path, server: Path, what: str) -> None:
    write(Repo.open(place), {**FIRST, 9: ("nine", 9)}, dataset="good")
    before = refs(server)
    if what == "a tag":
        run_git("tag", "-m", "One", "v1", cwd=place)
        what = "v1"
    if what == "main again":
        # It goes away once more, and what was wanted has never come.
        write(Repo.open(place), FIRST, dataset="good")

    done = push(place, what.split()[0])

    assert done.returncode
    assert "did not come" in done.stderr
    assert refs(server) == before
    # Ours sends the data first.
    succeed(invoke(["-C", place, "push", "origin", what.split()[0]]))
    assert refs(server) != before


def test_what_is_sound_comes_and_goes(place: Path, server: Path, tmp_path: Path) -> None:
    succeed(invoke(["-C", place, "push", "origin", "main", "dev:other"]))
    run_git("tag", "light", "dev", cwd=place)
    assert push(place, "light", "dev:third").returncode == 0
    assert push(place, "--delete", "other", "third").returncode == 0

    succeed(invoke(["clone", server, tmp_path / "clone"]))
    assert read(Repo.open(tmp_path / "clone"), dataset="good") == FIRST


@pytest.mark.thorough
def test_data_elsewhere(place: Path, server: Path, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    run_git("config", "havasu.data.url", f"file://{bucket}", cwd=server)
    before = refs(server)
    write(Repo.open(place), {**FIRST, 9: ("nine", 9)}, dataset="good")

    assert "did not come" in push(place, "main").stderr
    assert refs(server) == before
    run_git("config", "havasu.data.url", f"file://{bucket}", cwd=place)
    succeed(invoke(["-C", place, "push", "origin", "main"]))
    assert refs(server) != before


@pytest.mark.thorough
def test_data_where_commits_say(place: Path, server: Path, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    url = bucket.as_uri()
    succeed(invoke(["-C", place, "data", "place", url]))
    before = refs(server)
    write(Repo.open(place), {**FIRST, 9: ("nine", 9)}, dataset="good")
    succeed(invoke(["-C", place, "data", "push", "origin"]))

    # Whoever pushes does not choose what a server looks at.
    refused = push(place, "main")
    assert refused.returncode and "not allowed" in refused.stderr and url in refused.stderr
    assert "--no-data" in refused.stderr
    run_git("config", "--add", "havasu.data.allow", url, cwd=server)
    succeed(invoke(["-C", place, "push", "origin", "main"]))
    assert refs(server) != before
    before = refs(server)
    write(Repo.open(place), {**FIRST, 10: ("ten", 10)}, dataset="good")
    assert "did not come" in push(place, "main").stderr
    assert refs(server) == before


@pytest.mark.thorough
@pytest.mark.parametrize("whole", [True, False])
def test_data_that_git_lfs_put_there(place: Path, server: Path, whole: bool) -> None:
    write(Repo.open(place), {**FIRST, 9: ("nine", 9)}, dataset="good")
    for file in (place / ".git/havasu/objects").rglob("*"):
        if file.is_file() and len(name := file.name) == 64:
            there = server / "lfs" / "objects" / name[:2] / name[2:4] / name
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(file.read_bytes() if whole else file.read_bytes()[:-1])

    done = push(place, "main")

    assert (done.returncode == 0) is whole
    if not whole:
        assert "did not come" in done.stderr
        assert "--no-data" in done.stderr and "Git LFS" in done.stderr


@pytest.mark.thorough
def test_what_is_no_hook_is_told_so(place: Path) -> None:
    done = invoke(["-C", place, "hook", "pre-receive"], stdin="nonsense\n")

    assert done.exit_code == 20
    assert "pre-receive" in done.stderr
    assert invoke(["-C", place, "hook", "pre-receive"], stdin="").exit_code == 0
