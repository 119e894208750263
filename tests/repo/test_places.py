"""Where a repository may be and what else may be in it: the user's files, worktrees, bare ones."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.errors import (
    HavasuError,
    InvalidArgumentError,
    NoBranchError,
    NoUserError,
    StateError,
)
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.git import run_git
from tests.support.sound import LOCAL, CheckedRepo, checked, refuses, status, work_tree


def every_command(repo: CheckedRepo, folder: Path) -> None:
    """Run one of each; `repo` checks the user's files around each."""
    file = write(folder / "every.parquet", points(20))
    repo.import_(file, "every/one", options=BY_ID)
    repo.import_(write(folder / "e2.parquet", points(25, name="x")), "every/one", replace=True)
    repo.write("every/one", pa.table({"id": [1, 99], "name": ["a", "b"]}))
    repo.set_meta("every/one", {"title": "One"})
    repo.write("every/one", pa.table({"id": [2]}), mode="delete")
    repo.diff("HEAD~2...HEAD")
    repo.show()
    repo.log()
    repo.status()
    repo.list_datasets()
    repo.export("every/one", folder / f"out{len(repo.log())}.parquet")
    repo.create_tag(f"t{len(repo.log())}")
    repo.optimize()
    repo.gc(grace_days=0)
    assert list(repo.fsck(full=True)) == []


@pytest.mark.thorough
def test_the_users_files_stay_as_they_are(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    top.mkdir()
    run_git("init", "-q", cwd=top)
    for name in ("README.md", "staged.txt", "edited.txt", "both.txt", "gone.txt", "a/inside.txt"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(f"{name}\n")
    run_git("add", ".", cwd=top)
    run_git("commit", "-qm", "files", cwd=top)
    (top / "staged.txt").write_text("staged\n")
    run_git("add", "staged.txt", cwd=top)
    (top / "edited.txt").write_text("edited\n")
    (top / "both.txt").write_text("staged\n")
    run_git("add", "both.txt", cwd=top)
    (top / "both.txt").write_text("edited\n")
    (top / "gone.txt").unlink()
    run_git("mv", "a/inside.txt", "a/moved.txt", cwd=top)
    (top / "every").mkdir()
    (top / "every" / "untracked.txt").write_text("untracked\n")
    (top / "new.txt").write_text("new\n")
    run_git("add", "-N", "new.txt", cwd=top)
    (top / ".gitignore").write_text("ignored\n")
    (top / "ignored").write_text("ignored\n")
    repo = CheckedRepo(Repo.init(top, settings=LOCAL))
    said, files = status(repo.repo), work_tree(repo.repo)
    staged = run_git("diff", "--cached", "--", ".", ":!every", cwd=top)

    every_command(repo, tmp_path)

    assert status(repo.repo) == said
    now = work_tree(repo.repo)
    now.pop(".gitattributes")
    assert now == files
    found = run_git("diff", "--cached", "--", ".", ":!every", cwd=top)
    assert found == staged


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["staged", "edited", "untracked", "committed"])
def test_the_users_attributes_are_kept(tmp_path: Path, how: str) -> None:
    top = tmp_path / "repo"
    top.mkdir()
    run_git("init", "-q", cwd=top)
    if how == "edited":
        (top / ".gitattributes").write_text("*.txt text\n")
        run_git("add", ".", cwd=top)
        run_git("commit", "-qm", "attributes", cwd=top)
    (top / ".gitattributes").write_text("*.txt text\n*.png binary\n")
    if how in ("staged", "committed"):
        run_git("add", ".", cwd=top)
    if how == "committed":
        run_git("commit", "-qm", "attributes", cwd=top)
    repo = Repo.init(top, settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(5)), options=BY_ID)
    repo.write("points", points(6))
    lines = (top / ".gitattributes").read_text().splitlines()
    assert lines[:2] == ["*.txt text", "*.png binary"]
    committed = run_git("show", "HEAD:.gitattributes", cwd=top)
    assert "**/.havasu-dataset/** -text diff=havasu" in committed
    if how == "committed":
        assert status(repo) == ""


@pytest.mark.thorough
def test_a_bare_repository(tmp_path: Path) -> None:
    repo = checked(tmp_path / "bare.git", bare=True)
    every_command(repo, tmp_path)
    repo.create_branch("side", "HEAD~2")
    repo.switch("side")
    repo.write("every/one", pa.table({"id": [77], "name": ["side"]}))
    repo.switch("main")
    assert [branch.name for branch in repo.branches()] == ["main", "side"]
    assert len(rows(repo, "every/one", "side")) == len(rows(repo, "every/one", "side^")) + 1
    assert not (tmp_path / "bare.git" / "index").exists()
    assert run_git("fsck", "--strict", cwd=tmp_path / "bare.git") == ""


@pytest.mark.thorough
def test_a_linked_worktree(filled: CheckedRepo, tmp_path: Path) -> None:
    place = tmp_path / "linked"
    run_git("worktree", "add", "-q", "-b", "linked", place, cwd=filled.path)
    linked = CheckedRepo(Repo.open(place, settings=LOCAL))
    assert status(linked.repo) == ""
    every_command(linked, tmp_path)
    assert linked.head_branch == "linked" and filled.head_branch == "main"
    assert filled.datasets() == ("points",)
    assert linked.datasets() == ("every/one", "points")
    filled.write("points", pa.table({"id": [1], "name": ["main"]}))
    assert status(linked.repo) == "" and status(filled.repo) == ""
    with pytest.raises(HavasuError):
        filled.repo.switch("linked")
    assert not (place / ".git" / "havasu").exists()
    assert (filled.path / ".git" / "havasu" / "objects").is_dir()
    filled.gc(grace_days=0)
    assert list(linked.fsck(full=True)) == []


def test_a_detached_head(filled: CheckedRepo, tmp_path: Path) -> None:
    filled.write("points", pa.table({"id": [1], "name": ["x"]}))
    filled.switch("HEAD^")
    assert filled.head_branch is None and filled.status().branch is None
    filled.write("points", pa.table({"id": [2], "name": ["y"]}))
    here = filled.log()[0].id
    assert len(filled.log()) == 2
    filled.dangling = True
    filled.switch("main")
    assert rows(filled, "points", here)[2]["name"] == "y"
    filled.create_branch("kept", here)
    assert rows(filled, "points", "kept")[2]["name"] == "y"


def test_branches_and_tags(filled: CheckedRepo) -> None:
    filled.create_branch("side")
    filled.switch("side")
    filled.write("points", pa.table({"id": [1], "name": ["side"]}))
    filled.switch("main")
    assert rows(filled, "points")[1]["name"] == "row 1"
    with refuses(filled.repo, InvalidArgumentError):
        filled.repo.create_branch("side")
    with refuses(filled.repo, NoBranchError):
        filled.repo.delete_branch("none")
    with refuses(filled.repo, HavasuError):
        filled.repo.delete_branch("main")
    with refuses(filled.repo, HavasuError):
        filled.repo.delete_branch("side")
    filled.create_tag("v1", "side", message="one")
    filled.create_tag("v2")
    assert [(tag.name, tag.message) for tag in filled.tags()] == [("v1", "one"), ("v2", None)]
    assert rows(filled, "points", "v1")[1]["name"] == "side"
    filled.delete_branch("side", force=True)
    filled.delete_tag("v2")
    assert rows(filled, "points", "v1")[1]["name"] == "side"
    filled.switch("v1")
    assert rows(filled, "points")[1]["name"] == "side"


def test_files_of_the_user_in_the_way_of_a_switch(filled: CheckedRepo) -> None:
    top = filled.path
    (top / "a.txt").write_text("one\n")
    run_git("add", "a.txt", cwd=top)
    run_git("commit", "-qm", "a", cwd=top)
    filled.create_branch("side", "HEAD^")
    (top / "a.txt").write_text("edited\n")
    with refuses(filled.repo, StateError):
        filled.repo.switch("side")
    filled.repo.switch("side", discard=True)
    assert not (top / "a.txt").exists()
    filled.repo.switch("main")
    assert (top / "a.txt").read_text() == "one\n"


def test_a_repository_below_a_folder_with_odd_names(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "ö'\"$x"
    folder.mkdir(parents=True)
    repo = checked(folder / "repo")
    file = write(folder / "pöints %20.parquet", points(10))
    repo.import_(file, "Größe/Straße 1", options=BY_ID)
    assert rows(repo, "Größe/Straße 1") == points(10).to_pylist()
    repo.export("Größe/Straße 1", folder / "aus 'gabe'.gpkg")
    repo.checkout_as(folder / "kopie.gpkg")
    inside = Repo.open(folder / "repo" / ".git" / "..", settings=LOCAL)
    assert inside.datasets() == repo.datasets()


def test_a_relative_path_and_a_folder_inside(
    filled: CheckedRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    (filled.path / "docs").mkdir()
    monkeypatch.chdir(filled.path / "docs")
    repo = Repo.open(settings=LOCAL)
    assert repo.path == filled.path and repo.datasets() == ("points",)
    repo.write("points", pa.table({"id": [1], "name": ["x"]}))
    assert status(repo) == ""


@pytest.mark.thorough
def test_hooks_and_settings_of_the_user_do_no_harm(filled: CheckedRepo) -> None:
    hook = filled.path / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    for name, value in (
        ("core.autocrlf", "true"),
        ("core.fsmonitor", "true"),
        ("core.quotepath", "true"),
        ("status.showUntrackedFiles", "no"),
        ("diff.noprefix", "true"),
        ("color.ui", "always"),
        ("tag.gpgSign", "true"),
        ("core.commentChar", "%"),
        ("log.showSignature", "true"),
    ):
        filled.config.set(name, value)
        filled.write("points", pa.table({"id": [1], "name": [name]}))
        assert filled.log()[0].parents
        filled.branches()
        filled.status()
        os.environ.pop("GIT_TRACE", None)
    filled.switch("side", create=True)
    filled.switch("main")


def test_nobody_is_configured(plain: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for name in ("NAME", "EMAIL"):
        monkeypatch.delenv(f"GIT_AUTHOR_{name}", raising=False)
    with refuses(plain, NoUserError, hint=True):
        plain.import_(tmp_path / "points.parquet", "more", options=BY_ID)
    with refuses(plain, NoUserError, hint=True):
        plain.write("points", pa.table({"id": [1], "name": ["x"]}))
