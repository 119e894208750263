"""The real git in our repositories: clone, gc, stash, rebase, cherry-pick, worktree, mv, bundle."""

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.errors import DataFileNotFoundError, UnfinishedMergeError
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.git import run_git
from tests.support.sound import LOCAL, CheckedRepo, assert_sound, checked, status
from tests.support.templates import empty_repo
from tests.test_docs import DOCS, blocks


@pytest.fixture
def repo(tmp_path: Path) -> CheckedRepo:
    found = checked(tmp_path / "repo")
    found.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    found.write("points", pa.table({"id": [1], "name": ["one"]}))
    return found


def git(repo: CheckedRepo, *arguments: str) -> str:
    return run_git(*arguments, cwd=repo.path)


def test_a_plain_clone_has_the_commits_and_says_what_it_lacks(
    repo: CheckedRepo, tmp_path: Path
) -> None:
    run_git("clone", "-q", "--no-local", repo.path, tmp_path / "clone", cwd=tmp_path)
    run_git("config", "havasu.data.fetch", "when-told", cwd=tmp_path / "clone")
    clone = Repo.open(tmp_path / "clone", settings=LOCAL)
    assert [info.id for info in clone.log()] == [info.id for info in repo.log()]
    assert clone.datasets() == ("points",)
    (info,) = clone.list_datasets()
    assert info.rows == 100
    assert clone.get_meta("points") == repo.get_meta("points")
    with pytest.raises(DataFileNotFoundError) as caught:
        clone.table("points").to_arrow()
    assert caught.value.hints and "\n" not in caught.value.message
    with pytest.raises(DataFileNotFoundError):
        for diff in clone.diff("HEAD^...HEAD"):
            list(diff.changes)
    with pytest.raises(DataFileNotFoundError):
        clone.write("points", pa.table({"id": [2], "name": ["x"]}))
    assert clone.set_meta("points", {"title": "Points"}).commit is not None

    prepared = Repo.init(tmp_path / "clone", settings=LOCAL)
    assert not list((tmp_path / "clone").glob("**/.havasu-dataset"))
    shutil.copytree(
        repo.path / ".git" / "havasu" / "objects",
        tmp_path / "clone" / ".git" / "havasu" / "objects",
        dirs_exist_ok=True,
    )
    assert rows(prepared, "points") == rows(repo, "points")
    prepared.write("points", pa.table({"id": [2], "name": ["x"]}))
    assert status(prepared) == ""
    assert_sound(prepared, dangling=True)


def test_git_gc_repack_and_prune_lose_nothing(repo: CheckedRepo) -> None:
    before = rows(repo, "points")
    git(repo, "gc", "--quiet", "--prune=now", "--aggressive")
    git(repo, "pack-refs", "--all")
    git(repo, "repack", "-adq")
    again = CheckedRepo(Repo.open(repo.path, settings=LOCAL))
    assert rows(again, "points") == before
    again.write("points", pa.table({"id": [2], "name": ["two"]}))
    git(repo, "multi-pack-index", "write")
    git(repo, "commit-graph", "write", "--reachable")
    again = CheckedRepo(Repo.open(repo.path, settings=LOCAL))
    again.write("points", pa.table({"id": [3], "name": ["three"]}))
    assert len(again.log()) == 4


def test_a_repository_that_is_open_while_git_repacks(repo: CheckedRepo) -> None:
    before = rows(repo, "points")
    git(repo, "gc", "--quiet", "--prune=now")
    assert rows(repo, "points") == before
    repo.write("points", pa.table({"id": [2], "name": ["two"]}))
    run_git("commit", "--allow-empty", "-qm", "empty", cwd=repo.path)
    repo.write("points", pa.table({"id": [3], "name": ["three"]}))
    assert [info.message.strip() for info in repo.log()][1] == "empty"


def test_a_stash_takes_only_the_users_files(repo: CheckedRepo) -> None:
    (repo.path / "notes.txt").write_text("one\n")
    git(repo, "add", "notes.txt")
    git(repo, "commit", "-qm", "notes")
    (repo.path / "notes.txt").write_text("two\n")
    repo.dangling = True  # git's own
    git(repo, "stash")
    repo.write("points", pa.table({"id": [2], "name": ["two"]}))
    git(repo, "stash", "pop", "-q")
    assert (repo.path / "notes.txt").read_text() == "two\n"
    assert status(repo.repo) == " M notes.txt"
    assert rows(repo, "points")[2]["name"] == "two"
    assert_sound(repo.repo, dangling=True)


def test_git_commits_checkouts_and_resets_are_followed(repo: CheckedRepo) -> None:
    git(repo, "checkout", "-qb", "side", "HEAD^")
    assert status(repo.repo) == "" and rows(repo, "points")[1]["name"] == "row 1"
    repo.write("points", pa.table({"id": [5], "name": ["side"]}))
    git(repo, "switch", "-q", "main")
    assert rows(repo, "points")[1]["name"] == "one"
    git(repo, "reset", "-q", "--hard", "HEAD^")
    assert status(repo.repo) == "" and rows(repo, "points")[1]["name"] == "row 1"
    git(repo, "reset", "-q", "--soft", "side")
    assert rows(repo, "points")[5]["name"] == "side"
    assert not list(repo.path.glob("points/*"))


def test_a_commit_of_all_files_does_not_take_datasets_away(repo: CheckedRepo) -> None:
    (repo.path / "notes.txt").write_text("one\n")
    git(repo, "add", "--all")
    git(repo, "commit", "-qam", "all")
    assert len(rows(repo, "points")) == 100
    git(repo, "revert", "--no-edit", "HEAD")
    git(repo, "commit", "--amend", "-qm", "amended")
    assert len(rows(repo, "points")) == 100
    repo.dangling = True
    repo.write("points", pa.table({"id": [3], "name": ["three"]}))


def test_rebase_and_cherry_pick_of_another_dataset(repo: CheckedRepo, tmp_path: Path) -> None:
    git(repo, "branch", "side")
    repo.import_(write(tmp_path / "more.parquet", points(5)), options=BY_ID)
    repo.switch("side")
    repo.write("points", pa.table({"id": [5], "name": ["side"]}))
    git(repo, "rebase", "-q", "main")
    assert repo.datasets() == ("more", "points")
    assert rows(repo, "points")[5]["name"] == "side"
    git(repo, "switch", "-q", "main")
    git(repo, "cherry-pick", "side")
    assert rows(repo, "points")[5]["name"] == "side" and len(rows(repo, "more")) == 5
    assert status(repo.repo) == ""
    assert_sound(repo.repo, dangling=True)
    assert list(repo.repo.fsck(full=True)) == []


@pytest.mark.thorough
def test_a_merge_of_two_edits_stops_and_a_forced_side_is_told(
    repo: CheckedRepo, tmp_path: Path
) -> None:
    # A row that both changed: git sees its marker.
    names = [hashlib.sha256(bytes([i % 256, i // 256])).hexdigest() for i in range(20_000)]
    table = points(20_000).set_column(2, "name", pa.array(names))
    repo.import_(write(tmp_path / "large.parquet", table), "points", replace=True)
    repo.create_branch("side")
    repo.switch("side")
    repo.write("points", pa.table({"id": [5], "name": ["side"]}))
    repo.switch("main")
    repo.write("points", pa.table({"id": [5], "name": ["main"]}))
    done = subprocess.run(
        ["git", "merge", "side"], cwd=repo.path, capture_output=True, text=True, check=False
    )
    assert done.returncode and ".havasu-dataset/edits/" in done.stdout
    plain = repo.repo
    assert plain.status().state == "merge"
    git(repo, "merge", "--abort")
    assert status(plain) == ""

    git(repo, "merge", "-q", "-X", "theirs", "--no-edit", "side")
    assert plain.status().problems
    actions: list[Callable[[], object]] = [
        lambda: plain.table("points"),
        lambda: plain.dataset("points"),
        lambda: plain.get_meta("points"),
        lambda: plain.write("points", pa.table({"id": [1], "name": ["x"]})),
        lambda: plain.set_meta("points", {"title": "x"}),
        lambda: list(plain.diff("HEAD^...HEAD")),
        lambda: plain.export("points", repo.path.parent / "x.csv"),
        lambda: plain.checkout_as(repo.path.parent / "x.gpkg", ["points"]),
        lambda: plain.optimize(["points"]),
    ]
    for action in actions:
        with pytest.raises(UnfinishedMergeError) as caught:
            action()
        assert caught.value.hints and "\n" not in caught.value.message
    assert [problem.where for problem in plain.fsck()]
    list(plain.log())
    plain.list_datasets()
    plain.gc(grace_days=0)
    assert len(plain.table("points", "HEAD^").to_arrow()) == 20_000
    assert status(plain) == ""


def test_a_dataset_that_git_moves(repo: CheckedRepo) -> None:
    before = rows(repo, "points")
    done = subprocess.run(
        ["git", "mv", "--sparse", "points", "places"],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        # The folder is not in the work tree; the index can be told.
        tree = git(repo, "rev-parse", "HEAD:points")
        git(repo, "rm", "-rq", "--cached", "--sparse", "points")
        git(repo, "read-tree", "--prefix=places/", tree)
    git(repo, "commit", "-qm", "move")
    git(repo, "sparse-checkout", "reapply")
    assert repo.repo.datasets() == ("places",)
    assert rows(repo, "places") == before
    repo.dangling = True
    repo.repo.write("places", pa.table({"id": [2], "name": ["two"]}))
    assert rows(repo, "places")[2]["name"] == "two"
    assert status(repo.repo) == ""
    assert_sound(repo.repo, dangling=True)


def test_a_bundle_and_a_fetch_bring_the_commits(repo: CheckedRepo, tmp_path: Path) -> None:
    git(repo, "bundle", "create", "-q", str(tmp_path / "b.bundle"), "--all")
    other = empty_repo(tmp_path / "other", settings=LOCAL)
    run_git("pull", "-q", tmp_path / "b.bundle", "main", cwd=other.path)
    assert other.datasets() == ("points",) and status(other) == ""
    assert not list(other.path.glob("**/.havasu-dataset"))


def test_a_shallow_and_a_partial_clone(repo: CheckedRepo, tmp_path: Path) -> None:
    run_git("config", "uploadpack.allowFilter", "true", cwd=repo.path)
    url = f"file://{repo.path}"
    for number, option in enumerate(["--depth=1", "--filter=blob:none", "--filter=tree:0"]):
        place = tmp_path / f"clone{number}"
        run_git("clone", "-q", "--no-checkout", option, url, place, cwd=tmp_path)
        clone = Repo.open(place, settings=LOCAL)
        assert clone.datasets() == ("points",)
        (info,) = clone.list_datasets()
        assert info.rows == 100
        assert list(clone.log())


@pytest.mark.thorough
def test_the_hook_of_the_page_has_git_commit_tell_of_edited_rows(
    repo: CheckedRepo, tmp_path: Path
) -> None:
    """Whoever types `git commit` out of habit sees what it does not take."""
    page = (DOCS / "understanding" / "git.md").read_text("utf-8")
    (hook,) = [block.text for block in blocks(page) if "hooks/pre-commit" in block.text]
    subprocess.run(["sh", "-ec", hook], cwd=repo.path, check=True)
    repo.workspace.create_living(str(tmp_path / "copy.gpkg"))
    with closing(sqlite3.connect(tmp_path / "copy.gpkg")) as copy, copy:
        index = "SELECT name FROM sqlite_master WHERE name LIKE 'rtree%' AND type = 'trigger'"
        for (name,) in copy.execute(index).fetchall():  # they call functions that SQLite lacks
            copy.execute(f'DROP TRIGGER "{name}"')
        copy.execute("UPDATE points SET name = 'edited' WHERE id IN (5, 6)")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ["git", "commit", "-m", "By habit"],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )

    assert done.returncode == 1 and "nothing to commit" in done.stdout
    assert "points" in done.stderr and "2 updates" in done.stderr
    assert "havasu-vc commit" in done.stderr
    repo.workspace.commit(message="By us")
    (repo.path / "notes.txt").write_text("mine")
    git(repo, "add", "notes.txt")
    told = subprocess.run(
        ["git", "commit", "-m", "A file"],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert "Nothing to commit" in told.stderr and "updates" not in told.stderr
    assert git(repo, "status", "--porcelain") == ""
