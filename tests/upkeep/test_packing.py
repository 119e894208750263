"""`gc` packs git's objects anew: smaller, the same, and never what somebody still needs."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from tests.repo.points import make

COMMITS = 12


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = make(tmp_path / "repo", {key: (f"row {key}", key) for key in range(400)})
    for commit in range(COMMITS):
        keys = [(commit * 37 + step * 7) % 400 for step in range(20)]
        names = [f"{key} in {commit}" for key in keys]
        made.write("points", pa.table({"id": pa.array(keys, pa.int64()), "name": names}))
    return made


def objects(git: Callable[..., str], repo: Repo) -> dict[str, str]:
    counted = git("count-objects", "-v", cwd=repo.path).splitlines()
    return dict(line.split(": ", 1) for line in counted)


@pytest.mark.thorough
def test_what_commits_added_becomes_smaller(repo: Repo, git: Callable[..., str]) -> None:
    before = objects(git, repo)
    history = git("log", "--format=%H %T", "--all", cwd=repo.path)
    rows = repo.table("points").to_arrow().sort_by("id")

    packed = repo.gc(grace_days=0).packed

    after = objects(git, repo)
    assert (after["packs"], after["count"]) == ("1", "0")
    assert 0 < packed == 1024 * sum(int(before[n]) - int(after[n]) for n in ("size", "size-pack"))
    assert git("log", "--format=%H %T", "--all", cwd=repo.path) == history
    fresh = Repo.open(repo.path)
    assert fresh.table("points").to_arrow().sort_by("id").equals(rows)
    assert not list(fresh.fsck(full=True))
    # What was open before reads on, and writes.
    assert repo.table("points").to_arrow().num_rows == rows.num_rows
    repo.write("points", pa.table({"id": pa.array([1], pa.int64()), "name": ["after"]}))
    assert repo.row("points", 1)["name"] == "after"


@pytest.mark.thorough
def test_nothing_is_packed_where_nothing_is_won(repo: Repo, git: Callable[..., str]) -> None:
    repo.gc()
    packs = sorted(repo.git.common_directory.glob("objects/pack/*.pack"))
    assert repo.gc().packed == 0
    assert sorted(repo.git.common_directory.glob("objects/pack/*.pack")) == packs


@pytest.mark.thorough
def test_a_dry_run_packs_nothing(repo: Repo, git: Callable[..., str]) -> None:
    before = objects(git, repo)
    assert repo.gc(dry_run=True).packed == 0
    assert objects(git, repo) == before


def test_what_only_a_reflog_reaches_stays(repo: Repo, git: Callable[..., str]) -> None:
    left = str(repo.head().commit)
    repo.reset("HEAD~3", mode="hard")
    repo.gc(grace_days=0)
    assert git("cat-file", "-t", left, cwd=repo.path).strip() == "commit"
    assert repo.table("points", left).to_arrow().num_rows == 400


@pytest.mark.thorough
def test_what_a_merge_waits_for_stays(repo: Repo, git: Callable[..., str]) -> None:
    """No ref has it any more, and git does not know of the merge."""
    one = {"id": pa.array([1], pa.int64())}
    repo.create_branch("side")
    repo.write("points", pa.table({**one, "name": ["ours"]}))
    repo.switch("side")
    repo.write("points", pa.table({**one, "name": ["theirs"]}))
    theirs = str(repo.head().commit)
    repo.switch("main")
    assert repo.merge(theirs).conflicts
    repo.delete_branch("side", force=True)
    git("reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all", cwd=repo.path)

    for path in repo.git.common_directory.rglob("objects/**/*"):
        os.utime(path, (0, 0))  # git goes by the age of files
    fresh = Repo.open(repo.path)
    fresh.gc(grace_days=0)

    assert git("cat-file", "-t", theirs, cwd=repo.path).strip() == "commit"
    fresh.resolve_conflicts(choice="theirs")
    fresh.continue_merge()
    assert fresh.row("points", 1)["name"] == "theirs"
    assert not list(fresh.fsck(full=True))


@pytest.mark.thorough
def test_a_bare_repository_is_packed(repo: Repo, tmp_path: Path, git: Callable[..., str]) -> None:
    bare = tmp_path / "bare.git"
    git("clone", "-q", "--bare", str(repo.path), str(bare), cwd=tmp_path)
    git("commit-tree", "-m", "of nobody", "HEAD^{tree}", cwd=bare)
    Repo.open(bare).gc(grace_days=0)
    assert int(git("count-objects", cwd=bare).split()[0]) == 0
    assert git("fsck", "--strict", "--no-dangling", cwd=bare) == ""


@pytest.mark.thorough
def test_what_nothing_reaches_stays_while_it_is_young(repo: Repo, git: Callable[..., str]) -> None:
    """Another git may be about to name it."""
    loose = git("commit-tree", "-m", "x", "HEAD^{tree}", cwd=repo.path).strip()
    git("repack", "-a", "-k", "-d", "-q", cwd=repo.path)
    repo.write("points", pa.table({"id": pa.array([2], pa.int64()), "name": ["two"]}))
    repo.gc()
    assert git("cat-file", "-t", loose, cwd=repo.path).strip() == "commit"
