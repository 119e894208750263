"""Where git's settings want signed commits, ours are: git finds each signature good."""

from __future__ import annotations

import shutil
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
