"""Locks of git that nobody holds are removed and told; one that is held stays."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from havasu_vc import Repo, Settings
from havasu_vc.errors import LockedError
from havasu_vc.store import locks
from havasu_vc.store.locks import broken, exclusive_lock, shared_lock
from tests.cli.conftest import invoke, succeed
from tests.repo.points import make
from tests.support.git import run_git

PROGRAM = "import sys; from havasu_vc.cli.main import main; main()"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a dataset, and a branch that is packed."""
    made = make(tmp_path / "repo", {1: ("one", 1)})
    run_git("branch", "other", cwd=made.path)
    run_git("pack-refs", "--all", cwd=made.path)
    return made.path


def aged(lock: Path, seconds: float = 60) -> Path:
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, (time.time() - seconds,) * 2)
    return lock


def commit(repo: Path, title: str = "Title") -> tuple[int, str]:
    result = invoke(["-C", repo, "meta", "set", "points", f"title={title}"])
    return result.exit_code, result.stderr


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("refs/heads/main.lock", ("meta", "set", "points", "title=Title")),
        ("index.lock", ("meta", "set", "points", "title=Title")),
        ("HEAD.lock", ("switch", "other")),
        ("HEAD.lock", ("switch", "-d", "HEAD")),
        ("index.lock", ("switch", "other")),
        ("refs/heads/other.lock", ("branch", "-D", "other")),
        ("packed-refs.lock", ("branch", "-D", "other")),
        ("config.lock", ("remote", "add", "origin", "../other")),
        ("refs/tags/v1.lock", ("tag", "v1")),
        ("refs/havasu-vc/workspace/main/head.lock", ("checkout",)),
    ],
)
def test_a_lock_that_was_left_is_no_hindrance(
    repo: Path, name: str, command: tuple[str, ...]
) -> None:
    lock = aged(repo / ".git" / name)

    result = succeed(invoke(["-C", repo, *command]))

    assert not lock.exists()
    assert result.stderr.count(f"Note: removed {lock}") == 1
    assert "removed" not in succeed(invoke(["-C", repo, "meta", "set", "points", "title=B"])).stderr
    assert run_git("status", "--porcelain", cwd=repo) == ""


@pytest.mark.thorough
def test_a_shallow_lock_that_was_left_is_no_hindrance(repo: Path, tmp_path: Path) -> None:
    run_git("clone", "--quiet", "--depth=1", repo.as_uri(), tmp_path / "clone", cwd=tmp_path)
    lock = aged(tmp_path / "clone" / ".git" / "shallow.lock")
    assert commit(repo)[0] == 0

    notes: list[str] = []
    shallow = Repo.open(tmp_path / "clone", settings=Settings(note=notes.append))
    shallow.fetch(options=("--depth=1",))

    assert notes[0].startswith(f"removed {lock}")


@pytest.mark.thorough
def test_a_lock_of_a_moment_ago_is_waited_for_and_removed(repo: Path) -> None:
    """As a command leaves it that was killed, when it is called again at once."""
    lock = aged(repo / ".git/refs/heads/main.lock", 0)
    code, said = commit(repo)
    assert code == 0 and not lock.exists() and "removed" in said


@contextmanager
def held_open(lock: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Hold a lock in another process, as git and libgit2 do while they write it."""
    code = "import sys; f = open(sys.argv[1], 'x'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdout.readline()
        os.utime(lock, (time.time() - 10**6,) * 2)
        try:
            yield child
        finally:
            child.kill()


@pytest.mark.thorough
def test_a_lock_that_is_open_stays_until_its_process_dies(repo: Path) -> None:
    lock = repo / ".git" / "refs/heads/main.lock"
    with held_open(lock) as child:
        code, said = commit(repo)
        assert code == 20 and f"process {child.pid}" in said and lock.exists()
        child.send_signal(signal.SIGKILL)
        child.wait()
        code, said = commit(repo)
        assert code == 0 and f"removed {lock}" in said


@contextmanager
def git_at_work(repo: Path, *command: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        ["git", *command],
        cwd=repo,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **variables},
        start_new_session=True,
    ) as child:
        try:
            yield child
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def wait_for(lock: Path) -> None:
    deadline = time.monotonic() + 20
    while not lock.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.thorough
def test_the_lock_of_a_git_whose_editor_is_open_stays(repo: Path) -> None:
    """`git commit -a` has closed the lock, and still needs it."""
    (repo / "README").write_text("one")
    run_git("add", "README", cwd=repo)
    lock = repo / ".git" / "index.lock"
    with git_at_work(repo, "commit", "-qa", GIT_EDITOR="sleep 60 #") as child:
        wait_for(lock)
        os.utime(lock, (time.time() - 0.5,) * 2)
        time.sleep(2)
        refused = invoke(["-C", repo, "switch", "other"])
        assert refused.exit_code == 20 and lock.exists()
        assert "index.lock" in refused.stderr
        assert child.poll() is None
    result = succeed(invoke(["-C", repo, "switch", "other"]))
    assert f"removed {lock}" in result.stderr


@pytest.mark.thorough
def test_the_lock_of_a_transaction_of_git_stays(repo: Path) -> None:
    lock = repo / ".git" / "refs/heads/main.lock"
    head = run_git("rev-parse", "HEAD", cwd=repo)
    with git_at_work(repo, "update-ref", "--stdin") as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(f"start\nupdate refs/heads/main {head} {head}\nprepare\n".encode())
        child.stdin.flush()
        assert child.stdout.readline() == b"start: ok\n"
        assert child.stdout.readline() == b"prepare: ok\n"
        time.sleep(2.1)
        code, said = commit(repo)
        assert code == 20 and f"process {child.pid} (git)" in said and lock.exists()
    code, said = commit(repo)
    assert code == 0 and not lock.exists()


def test_a_git_that_came_later_holds_no_lock(repo: Path) -> None:
    lock = aged(repo / ".git" / "refs/heads/main.lock")
    with git_at_work(repo, "cat-file", "--batch"):
        assert commit(repo)[0] == 0
    assert not lock.exists()


@pytest.mark.thorough
def test_a_commit_that_was_killed_is_followed_by_one_that_works(repo: Path) -> None:
    """At every moment of it, and at once."""
    line = [sys.executable, "-c", PROGRAM, "-C", str(repo), "meta", "set", "points", "title=A"]
    left = 0
    for wait in (0.3, 0.5, 0.6, 0.7):
        with subprocess.Popen(line, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as child:
            time.sleep(wait)
            child.kill()
        left += any((repo / ".git").rglob("*.lock"))
        assert commit(repo, f"After {wait}")[0] == 0
        assert run_git("status", "--porcelain", cwd=repo) == ""
    assert not list((repo / ".git").rglob("*.lock"))


@pytest.mark.parametrize("unseen", ["no /proc", "network"])
def test_only_age_counts_where_processes_cannot_be_seen(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unseen: str
) -> None:
    if unseen == "network":
        monkeypatch.setattr(locks, "_is_on_a_network", lambda lock: True)
    else:
        monkeypatch.setattr(locks, "PROC", tmp_path / "none")
    places = (repo / ".git", repo / ".git", repo)
    for name, young, old in (("HEAD.lock", 600, 1000), ("index.lock", 80_000, 90_000)):
        assert not broken(aged(repo / ".git" / name, young), places).removed
        assert broken(aged(repo / ".git" / name, old), places).removed


def test_only_locks_of_this_repository_are_touched(repo: Path, tmp_path: Path) -> None:
    places = (repo / ".git", repo / ".git", repo)
    for lock in (tmp_path / "x.lock", repo / "poetry.lock", repo / ".git" / "config"):
        before = lock.exists() or aged(lock).exists()
        os.utime(lock, (1, 1))
        assert not broken(lock, places).removed
        assert before and lock.exists()


def test_our_own_locks_name_who_holds_them(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with exclusive_lock(path):
        with (
            pytest.raises(LockedError, match=rf"\(process {os.getpid()}\)"),
            shared_lock(path, patience=0),
        ):
            pass
    assert path.read_bytes() == b""
    path.write_text("1 0 elsewhere\n")
    with (
        shared_lock(path),
        pytest.raises(LockedError, match=r"process 1 on elsewhere"),
        exclusive_lock(path, patience=0),
    ):
        pass
