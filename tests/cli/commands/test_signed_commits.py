"""Where git's settings want signed commits, ours are: git finds each signature good."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.commands.test_rebase import run
from tests.cli.conftest import succeed
from tests.repo.points import Rows, assert_clean, make, read, write
from tests.support.git import run_git
from tests.support.signing import signing_with_ssh

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
FIRST: Rows = {1: ("a", 1), 2: ("b", 2)}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository whose commits are to be signed by a key of ssh."""
    repo = make(tmp_path / "repo", FIRST)
    for name, value in signing_with_ssh(tmp_path).items():
        run_git("config", name, value, cwd=repo.path)
    return Repo.open(repo.path)


def signatures(repo: Repo, revisions: str) -> list[str]:
    return run_git("log", "--format=%G? %s", revisions, cwd=repo.path).splitlines()


def test_every_way_to_commit_signs(repo: Repo, tmp_path: Path) -> None:
    first = repo.head().commit
    repo.create_branch("side")
    write(repo, {**FIRST, 1: ("A", 1)}, message="By the library")
    release = tmp_path / "points.csv"
    release.write_text("id,name,height\n1,A,1\n2,b,2\n3,c,3\n")
    succeed(run(repo, "import", release, "points", "--replace", "-m", "By import — ü"))
    succeed(run(repo, "revert", "HEAD~1"))
    succeed(run(repo, "commit", "--amend", "-m", "Amended"))
    repo.switch("side")
    write(repo, {**FIRST, 2: ("B", 2)}, message="Beside")
    repo.switch("main")
    succeed(run(repo, "merge", "side", "-m", "Merged"))
    repo.switch("side")
    write(repo, {**FIRST, 2: ("B", 2), 9: ("new", 9)}, message="Picked")
    repo.switch("main")
    succeed(run(repo, "cherry-pick", "side"))

    told = signatures(repo, f"{first}..HEAD")
    assert [line.split(" ", 1)[1] for line in told][-1] == "By the library"
    assert {line[0] for line in told} == {"G"}
    assert len(told) == 6
    assert read(repo) == {1: ("a", 1), 2: ("B", 2), 3: ("c", 3), 9: ("new", 9)}
    assert_clean(repo)


def test_signatures_that_git_shows_are_no_part_of_notes(repo: Repo) -> None:
    for number in (1, 2):
        write(repo, {**FIRST, number: ("new", number)}, message=f"Write {number}")
    run_git("notes", "add", "-m", "checked", "HEAD", cwd=repo.path)
    before = succeed(run(repo, "log")).stdout
    run_git("config", "log.showSignature", "true", cwd=repo.path)

    assert "Good" in run_git("log", cwd=repo.path)
    assert "checked" in before and succeed(run(repo, "log")).stdout == before


def test_a_key_that_is_not_there_stops_the_commit(repo: Repo, tmp_path: Path) -> None:
    before = repo.head().commit
    run_git("config", "user.signingkey", str(tmp_path / "nowhere"), cwd=repo.path)
    release = tmp_path / "points.csv"
    release.write_text("id,name,height\n1,A,1\n2,b,2\n3,c,3\n")

    refused = run(repo, "import", release, "points", "--replace")

    assert refused.exit_code == 20
    assert "the commit could not be signed: " in refused.stderr
    assert "nowhere" in refused.stderr and "Traceback" not in refused.stderr
    assert (repo.head().commit, read(repo)) == (before, FIRST)
    run_git("config", "commit.gpgsign", "false", cwd=repo.path)
    succeed(run(repo, "import", release, "points", "--replace"))
    assert_clean(repo)


SIGNERS = {
    "fails": ("echo no key for you >&2; exit 1", "no key for you"),
    "fails without a word": ("exit 3", "the program that signs failed without a word"),
    "is killed": ("kill -9 $$", "died of signal 9"),
    "writes nothing": ("exit 0", "No such file"),
    "writes nonsense": ("printf 'tree nonsense' > \"${@: -1}.sig\"", "is no signature"),
    "writes bytes": ("printf 'x\\0y\\n\\nz' > \"${@: -1}.sig\"", "is no signature"),
    "leaves it empty": (': > "${@: -1}.sig"', "is no signature"),
}
"""Programs that stand for `ssh-keygen`, and a part of what is said of them."""


def signer(repo: Repo, folder: Path, script: str) -> None:
    program = folder / "signer"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    run_git("config", "gpg.ssh.program", str(program), cwd=repo.path)


def seen(repo: Repo) -> tuple[object, ...]:
    """Return everything that a person sees of a repository."""
    git = ("rev-parse", "HEAD"), ("status", "--porcelain"), ("fsck", "--strict", "--no-dangling")
    return (*(run_git(*command, cwd=repo.path) for command in git), read(repo))


@pytest.mark.few(1)
@pytest.mark.parametrize("what", SIGNERS)
def test_a_program_that_does_not_sign_changes_nothing(
    repo: Repo, tmp_path: Path, what: str
) -> None:
    script, reason = SIGNERS[what]
    before = seen(repo)
    signer(repo, tmp_path, script)
    release = tmp_path / "points.csv"
    release.write_text("id,name,height\n1,A,1\n2,b,2\n3,c,3\n")
    command = ("import", release, "points", "--replace", "-m", "m")

    refused = run(repo, *command)

    assert refused.exit_code == 20
    assert reason in refused.stderr.splitlines()[0]
    assert seen(repo) == before
    run_git("config", "--unset", "gpg.ssh.program", cwd=repo.path)
    succeed(run(repo, *command))
    assert signatures(repo, "HEAD~1..HEAD") == ["G m"]
    assert_clean(repo)


GITS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "rebase": ((), ("rebase", "side")),
    "cherry-pick": ((), ("cherry-pick", "main..side")),
    "revert": ((), ("revert", "HEAD~2..HEAD")),
    "git's merge": (("merge", "side"), ("merge", "--continue")),
    "git's rebase": (("rebase", "side"), ("rebase", "--continue")),
    "git's picks": (("cherry-pick", "main..side"), ("cherry-pick", "--continue")),
}
"""The command in which git itself makes commits, after what plain git has begun where it has."""


@pytest.mark.few(1)
@pytest.mark.parametrize("what", GITS)
@pytest.mark.parametrize("how", ["writes nonsense", "writes bytes", "leaves it empty"])
def test_a_commit_that_git_spoils_is_put_back(
    repo: Repo, tmp_path: Path, what: str, how: str
) -> None:
    """git takes whatever is written for a signature, and nobody could read that again."""
    repo.create_branch("side")
    write(repo, {**FIRST, 1: ("A", 1)}, message="Ours")
    write(repo, {**FIRST, 1: ("A", 1), 3: ("c", 3)}, message="Ours too")
    repo.switch("side")
    for number in (2, 3):
        write(repo, {**FIRST, 1: ("a", number)}, message=f"Theirs {number}")
    repo.switch("main")
    before = seen(repo)
    begun, command = GITS[what]
    if begun:
        assert "CONFLICT" in run_git(*begun, cwd=repo.path, check=False)
    signer(repo, tmp_path, SIGNERS[how][0])

    refused = run(repo, *command)

    assert refused.exit_code == 20
    first = refused.stderr.splitlines()[0]
    assert "is no signature" in first and "HEAD is where it was" in first
    assert seen(repo) == before
    assert succeed(run(repo, "status")).stdout.startswith("On branch main")
    assert repo.status().state == "clean"
    run_git("config", "--unset", "gpg.ssh.program", cwd=repo.path)
    succeed(run(repo, *(begun or command)))
    assert {line[0] for line in signatures(repo, "HEAD~1..HEAD")} == {"G"}
    assert_clean(repo)


@pytest.mark.parametrize("how", ["writes bytes", "leaves it empty"])
def test_where_data_is_is_not_said_by_a_commit_that_git_spoils(
    repo: Repo, tmp_path: Path, how: str
) -> None:
    before = seen(repo)
    signer(repo, tmp_path, SIGNERS[how][0])

    refused = run(repo, "data", "place", (tmp_path / "there").as_uri())

    assert refused.exit_code == 20 and "is no signature" in refused.stderr.splitlines()[0]
    assert (seen(repo)[0], seen(repo)[2:]) == (before[0], before[2:])
    run_git("config", "--unset", "gpg.ssh.program", cwd=repo.path)
    succeed(run(repo, "data", "place", (tmp_path / "there").as_uri()))
    assert signatures(repo, "HEAD~1..HEAD")[0][0] == "G"


def test_commits_of_others_that_nobody_signed_are_taken(repo: Repo, tmp_path: Path) -> None:
    """A rebase and a merge come by them; those that git makes are signed."""
    repo.create_branch("side")
    write(repo, {**FIRST, 1: ("A", 1)}, message="Ours")
    repo.switch("side")
    run_git("config", "commit.gpgsign", "false", cwd=repo.path)
    write(Repo.open(repo.path), {**FIRST, 2: ("B", 2)}, message="Theirs")
    run_git("config", "commit.gpgsign", "true", cwd=repo.path)
    repo.switch("main")
    run_git(
        "tag",
        "blob",
        run_git("rev-parse", "HEAD:.gitattributes", cwd=repo.path).strip(),
        cwd=repo.path,
    )
    # Stored this very moment, as what a fetch brings is.
    theirs = run_git("rev-parse", "side", cwd=repo.path).strip()
    stored = repo.path / ".git" / "objects" / theirs[:2] / theirs[2:]
    if stored.exists():
        os.utime(stored)

    succeed(run(repo, "rebase", "side"))

    assert signatures(repo, "HEAD~2..HEAD") == ["G Ours", "N Theirs"]
    assert read(repo) == {1: ("A", 1), 2: ("B", 2)}
    assert_clean(repo)


@pytest.mark.thorough
def test_a_passphrase_that_nobody_can_type_is_told(repo: Repo, tmp_path: Path) -> None:
    key = run_git("config", "user.signingkey", cwd=repo.path).strip()
    change = ["ssh-keygen", "-q", "-p", "-f", key]
    subprocess.run([*change, "-P", "", "-N", "secret"], check=True, capture_output=True)
    before = seen(repo)

    with started(repo, "commit", "--amend", "-m", "m") as done:
        said = done.communicate(timeout=60)[1]

    assert (done.returncode, "the commit could not be signed" in said) == (20, True)
    assert "passphrase" in said and seen(repo) == before
    subprocess.run([*change, "-P", "secret", "-N", ""], check=True, capture_output=True)
    succeed(run(repo, "commit", "--amend", "-m", "m"))
    assert signatures(repo, "HEAD") == ["G m"]


def started(repo: Repo, *arguments: str) -> subprocess.Popen[str]:
    """Start a command in a session of its own, without a terminal."""
    return subprocess.Popen(
        [Path(sys.executable).with_name("havasu-vc"), *arguments],
        cwd=repo.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={k: v for k, v in os.environ.items() if k not in ("DISPLAY", "SSH_ASKPASS")},
    )


KILLED: dict[str, tuple[str, ...]] = {
    "merge": ("merge", "side", "-m", "m"),
    "revert": ("revert", "HEAD", "-m", "m"),
    "amend": ("commit", "--amend", "-m", "m"),
    "rebase": ("rebase", "side"),
    "cherry-pick": ("cherry-pick", "main..side"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("what", KILLED)
def test_a_command_that_is_killed_while_it_signs_loses_nothing(
    repo: Repo, tmp_path: Path, what: str
) -> None:
    """A rebase and a range of picks are git's own, and are put back before they are done again."""
    repo.create_branch("side")
    write(repo, {**FIRST, 1: ("A", 1)}, message="Ours")
    repo.switch("side")
    for number in (2, 3):
        write(repo, {**FIRST, 2: ("B", number)}, message=f"Theirs {number}")
    repo.switch("main")
    before = seen(repo)
    called = tmp_path / "called"
    signer(repo, tmp_path, f"echo $$ > {called}; exec sleep 600")

    with started(repo, *KILLED[what]) as done:
        wait_for(lambda: called.exists() or done.poll() is not None)
        os.kill(done.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(done.pid, signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL

    run_git("config", "--unset", "gpg.ssh.program", cwd=repo.path)
    if what in ("rebase", "cherry-pick"):
        told = succeed(run(repo, "status")).stdout
        assert f"a {what} was cut off" in told and "--continue" not in told
        assert run(repo, *KILLED[what]).exit_code == 20
        succeed(run(repo, what, "--abort"))
    assert seen(repo) == before
    succeed(run(repo, *KILLED[what]))
    assert {line[0] for line in signatures(repo, "HEAD~1..HEAD")} == {"G"}
    assert_clean(repo)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
