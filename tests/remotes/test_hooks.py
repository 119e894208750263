"""A plain `git push` carries data, or stops."""

import os
import subprocess
from pathlib import Path

import pytest

from havasu_vc import Repo, Settings
from havasu_vc.store.preparation import PRE_PUSH
from tests.remotes.sharing import assert_keeps_its_promise, bare, files
from tests.repo.points import make, read, write
from tests.support.git import run_git


def git_push(repo: Repo, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "push", *arguments], cwd=repo.path, capture_output=True, text=True, check=False
    )


def test_git_push_carries_data(ours: Repo, tmp_path: Path, on_path: Path) -> None:
    write(ours, {**read(ours), 9: ("nine", 9)})

    done = git_push(ours)

    assert done.returncode == 0, done.stderr
    assert_keeps_its_promise(tmp_path / "server.git")


@pytest.mark.thorough
def test_git_push_to_a_url_and_of_a_tag(ours: Repo, tmp_path: Path, on_path: Path) -> None:
    other = bare(tmp_path / "other.git")
    ours.create_tag("v1", message="One")

    assert git_push(ours, str(other), "v1").returncode == 0
    assert_keeps_its_promise(other)
    assert git_push(ours, str(other), "--delete", "v1").returncode == 0


def test_git_push_stops_when_data_cannot_go(ours: Repo, tmp_path: Path, on_path: Path) -> None:
    server = tmp_path / "server.git"
    before = run_git("rev-parse", "main", cwd=server)
    known = set(files(ours))
    write(ours, {**read(ours), 9: ("nine", 9)})
    for file in set(files(ours)) - known:
        (ours.storage.files.path(file)).unlink()

    done = git_push(ours)

    assert done.returncode == 1
    assert "is not in this repository's store" in done.stderr and "Traceback" not in done.stderr
    assert run_git("rev-parse", "main", cwd=server) == before


def test_git_push_stops_without_the_program(ours: Repo, tmp_path: Path, on_path: Path) -> None:
    on_path.unlink()
    write(ours, {**read(ours), 9: ("nine", 9)})

    done = git_push(ours)

    assert done.returncode == 1
    assert "run 'havasu-vc push'" in done.stderr
    assert_keeps_its_promise(tmp_path / "server.git")


def test_our_own_push_does_not_run_it_twice(ours: Repo, tmp_path: Path) -> None:
    """The program is not on the PATH here, and the hook would stop the push."""
    write(ours, {**read(ours), 9: ("nine", 9)})
    ours.push()
    assert_keeps_its_promise(tmp_path / "server.git")


def test_init_puts_the_hook_in_place(tmp_path: Path) -> None:
    notes: list[str] = []
    repo = Repo.init(tmp_path / "repo", settings=Settings(note=notes.append))
    hook = repo.git.git_directory / "hooks" / "pre-push"

    assert hook.read_text() == PRE_PUSH and os.access(hook, os.X_OK)
    hook.write_text(PRE_PUSH.replace("exit 1", "exit 2"))
    Repo.init(tmp_path / "repo")
    assert hook.read_text() == PRE_PUSH
    assert notes == []


@pytest.mark.parametrize("how", ["hook", "link", "core.hooksPath"])
def test_a_users_own_hook_stays(tmp_path: Path, how: str) -> None:
    run_git("init", "-q", tmp_path / "repo", cwd=tmp_path)
    hook = tmp_path / "repo" / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    match how:
        case "hook":
            hook.write_text("#!/bin/sh\n")
        case "link":
            hook.symlink_to("elsewhere")
        case _:
            run_git("config", "core.hooksPath", "/none", cwd=tmp_path / "repo")
    notes: list[str] = []

    Repo.init(tmp_path / "repo", settings=Settings(note=notes.append))

    assert "havasu-vc data push" in notes[0]
    assert not hook.is_file() or hook.read_text() == "#!/bin/sh\n"


@pytest.mark.thorough
def test_a_linked_work_tree_shares_the_hook(ours: Repo, tmp_path: Path, on_path: Path) -> None:
    run_git("worktree", "add", "-q", "-b", "side", tmp_path / "linked", cwd=ours.path)
    linked = Repo.open(tmp_path / "linked", settings=ours.settings)
    write(linked, {**read(linked), 9: ("nine", 9)})

    assert git_push(linked, "origin", "side").returncode == 0
    assert_keeps_its_promise(tmp_path / "server.git")


@pytest.mark.thorough
def test_an_empty_repository_is_pushed_by_git(tmp_path: Path, on_path: Path) -> None:
    repo = make(tmp_path / "repo", {1: ("one", 1)})
    run_git("checkout", "-q", "--orphan", "empty", cwd=repo.path)
    run_git("rm", "-rfq", "--cached", ".", cwd=repo.path)
    run_git("commit", "-qm", "Nothing", "--allow-empty", cwd=repo.path)

    assert git_push(repo, str(bare(tmp_path / "server.git")), "empty").returncode == 0


@pytest.mark.thorough
def test_a_clone_of_git_has_the_hook_from_its_first_commit_on(
    ours: Repo, tmp_path: Path, on_path: Path
) -> None:
    server = tmp_path / "server.git"
    run_git("clone", "--quiet", server, tmp_path / "plain", cwd=tmp_path)
    plain = Repo.open(tmp_path / "plain", settings=ours.settings)
    assert not (plain.git.common_directory / "hooks" / "pre-push").exists()
    plain.fetch_data()
    write(plain, {**read(plain), 9: ("nine", 9)})

    done = git_push(plain)

    assert done.returncode == 0, done.stderr
    assert_keeps_its_promise(server)


def test_a_hook_that_is_there_stays(ours: Repo) -> None:
    hook = ours.git.common_directory / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nexit 0\n")
    write(ours, {**read(ours), 9: ("nine", 9)})
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"
