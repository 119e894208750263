"""The real git-lfs beside us: it knows the files that are here, and can lose none of them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.store.files import LfsLinks, lfs_folder
from tests.cli.conftest import invoke, succeed
from tests.conftest import lacking
from tests.remotes.sharing import clone, files, named, reopened, spoil, store
from tests.repo.points import Rows, read, write
from tests.support.git import run_git

OURS: Rows = {number: (f"row {number}", number) for number in range(6)} | {1: ("ours", 1)}


@pytest.fixture(autouse=True)
def client() -> None:
    if shutil.which("git-lfs") is None:
        lacking("this needs git-lfs")


def lfs(path: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "lfs", *arguments], cwd=path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def assert_knows_all(path: Path) -> None:
    """Check that the real client has each file that HEAD names, right, and wants none."""
    assert "Git LFS fsck OK" in lfs(path, "fsck")
    listed = lfs(path, "ls-files", "--debug")
    assert "download: true" in listed and "download: false" not in listed


def links(path: Path) -> list[Path]:
    return [each for each in path.glob("**/lfs/objects/*/*/*") if each.is_symlink()]


@pytest.mark.thorough
def test_the_client_knows_what_commits_and_clones_bring(ours: Repo, tmp_path: Path) -> None:
    write(ours, OURS)
    assert_knows_all(ours.path)
    ours.push()
    assert_knows_all(tmp_path / "server.git")
    theirs = clone(tmp_path / "server.git", tmp_path / "other")
    assert_knows_all(theirs.path)
    run_git("worktree", "add", "-q", "-b", "side", tmp_path / "linked", cwd=theirs.path)
    assert_knows_all(tmp_path / "linked")
    moved = tmp_path / "moved"
    theirs.path.rename(moved)
    run_git("worktree", "repair", tmp_path / "linked", cwd=moved)
    assert_knows_all(moved)
    # The server has no LFS, and is asked for nothing.
    assert "error" not in lfs(moved, "fetch", "--all", "origin").lower()


def test_what_came_before_there_were_links_is_shown_too(ours: Repo) -> None:
    shutil.rmtree(ours.git.common_directory / "lfs")
    (ours.git.data_folder / "lfs-links").unlink()

    succeed(invoke(["-C", ours.path, "fetch"]))

    assert_knows_all(ours.path)


@pytest.mark.thorough
def test_prune_loses_nothing(ours: Repo) -> None:
    """Nor what git names nowhere, or only where the client does not look."""
    write(ours, OURS)
    ours.push()
    pushed = set(files(ours))
    write(ours, {**OURS, 7: ("unpushed", 7)})
    run_git("update-ref", "refs/havasu-vc/stash/1", "HEAD", cwd=ours.path)
    run_git("reset", "--quiet", "--hard", "HEAD^", cwd=ours.path)
    lone = store(ours).temporary()
    lone.write_bytes(b"of a commit in the making")
    put = ours.opened.storage.files
    put.put(lone)
    put.commit_all()
    before = set(files(ours))
    assert len(before) > len(pushed)

    said = lfs(ours.path, "prune", "--verbose")

    assert "prune: Deleting objects" in said
    assert set(files(ours)) == before
    assert len(links(ours.path)) < len(before)
    stash = "refs/havasu-vc/stash/1"
    assert read(reopened(ours), stash)[7] == ("unpushed", 7)
    succeed(invoke(["-C", ours.path, "data", "fetch"]))
    assert len(links(ours.path)) == len(before)
    assert_knows_all(ours.path)


def test_our_own_cleaning_leaves_what_the_client_keeps_for_others(ours: Repo) -> None:
    other = "ab" * 32
    theirs = ours.git.common_directory / "lfs/objects/ab/ab" / other
    theirs.parent.mkdir(parents=True, exist_ok=True)
    theirs.write_bytes(b"an image")
    lone = store(ours).temporary()
    lone.write_bytes(b"of nothing")
    put = ours.opened.storage.files
    name, _ = put.put(lone)
    put.commit_all()
    link = ours.git.common_directory / "lfs/objects" / name[:2] / name[2:4] / name
    assert link.is_symlink()

    succeed(invoke(["-C", ours.path, "gc", "--grace-days", "0"]))

    assert theirs.read_bytes() == b"an image"
    assert name not in files(ours)
    assert not link.is_symlink()
    assert_knows_all(ours.path)


def test_what_the_client_fetched_is_taken_over(ours: Repo, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    run_git("clone", "--quiet", tmp_path / "server.git", plain, cwd=tmp_path)
    wanted = sorted(named(tmp_path / "server.git"))
    for name in wanted:
        place = plain / ".git/lfs/objects" / name[:2] / name[2:4] / name
        place.parent.mkdir(parents=True)
        shutil.copyfile(store(ours).path(name), place)
    run_git("remote", "set-url", "origin", tmp_path / "nowhere.git", cwd=plain)
    (tmp_path / "nowhere.git").mkdir()
    run_git("init", "--quiet", "--bare", tmp_path / "nowhere.git", cwd=tmp_path)

    succeed(invoke(["-C", plain, "data", "fetch"]))

    assert files(plain) == wanted
    assert len(links(plain)) == len(wanted)
    assert read(Repo.open(plain)) == read(ours)
    assert_knows_all(plain)


def test_what_the_client_has_wrong_comes_from_the_remote(ours: Repo, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    run_git("clone", "--quiet", tmp_path / "server.git", plain, cwd=tmp_path)
    name = min(named(tmp_path / "server.git"))
    place = plain / ".git/lfs/objects" / name[:2] / name[2:4] / name
    place.parent.mkdir(parents=True)
    place.write_bytes(bytes(store(ours).size(name)))

    succeed(invoke(["-C", plain, "data", "fetch"]))

    assert read(Repo.open(plain)) == read(ours)


def test_a_spoilt_file_is_found_by_the_client_and_not_taken_away(ours: Repo) -> None:
    write(ours, OURS)
    name = files(ours)[0]
    spoil(ours, name)

    done = subprocess.run(["git", "lfs", "fsck"], cwd=ours.path, capture_output=True, text=True)

    assert done.returncode and name in done.stdout + done.stderr
    assert name in files(ours)


@pytest.mark.few(1)
@pytest.mark.parametrize("where", ["other", "absolute", "havasu"])
def test_a_store_of_the_client_elsewhere(ours: Repo, tmp_path: Path, where: str) -> None:
    setting = str(tmp_path / "elsewhere") if where == "absolute" else where
    run_git("config", "lfs.storage", setting, cwd=ours.path)
    again = reopened(ours)

    write(again, OURS)
    succeed(invoke(["-C", ours.path, "data", "fetch"]))

    assert_knows_all(ours.path)
    folder = lfs_folder(again.git)
    made = LfsLinks(again.git.data_folder, folder)
    assert all(made.place(name).exists() for name in files(ours))
