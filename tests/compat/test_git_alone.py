"""Merges by git in clones where nothing of ours was ever run, under settings that people have.

Different rows go together whatever is set, also in shallow clones and by strategies that take a
side. One row on both sides stops git; where an option makes it go on, whoever reads the table
finds rows of the two sides or is told that it is an unfinished merge, never anything else.
"""

from pathlib import Path
from typing import Any

import pytest

from havasu_vc import Repo
from havasu_vc.errors import UnfinishedMergeError
from tests.repo.points import Rows, make, read, write
from tests.support.git import run_git
from tests.support.sound import LOCAL

FIRST: Rows = {key: (f"row {key}", key) for key in range(1, 9)}
OURS: Rows = {**FIRST, 1: ("ours", 1), 20: ("new", 20)}
THEIRS: Rows = {key: row for key, row in FIRST.items() if key != 3} | {4: ("theirs", 4)}
BOTH: Rows = {**{k: r for k, r in OURS.items() if k != 3}, 4: ("theirs", 4)}

SETTINGS = [
    (),
    ("merge.directoryRenames=true",),
    ("merge.directoryRenames=false",),
    ("merge.renames=false",),
    ("merge.renameLimit=1", "diff.renames=copies"),
    ("rerere.enabled=true", "rerere.autoUpdate=true"),
    ("merge.conflictStyle=diff3", "core.autocrlf=true"),
    ("pull.rebase=true", "rebase.autoStash=true"),
    ("merge.verifySignatures=false", "core.ignoreCase=true"),
]
STRATEGIES = [
    (),
    ("-X", "ours"),
    ("-X", "theirs"),
    ("-X", "patience"),
    ("-X", "ignore-all-space"),
    ("-X", "find-renames=30"),
    ("-X", "no-renames"),
    ("-s", "resolve"),
    ("-s", "recursive"),
]


@pytest.fixture
def origin(tmp_path: Path) -> Repo:
    """A repository whose `main` and `dev` changed different rows, and `same` the same one."""
    repo = make(tmp_path / "origin", FIRST)
    for name, rows in (("dev", THEIRS), ("same", {**FIRST, 1: ("same", 1), 5: ("same", 5)})):
        repo.create_branch(name)
        repo.switch(name)
        write(repo, rows, message=name)
        repo.switch("main")
    write(repo, OURS, message="Ours")
    return repo


def plain_clone(origin: Repo, tmp_path: Path, *options: str) -> Path:
    """Clone with git, and nothing else."""
    place = tmp_path / "plain"
    run_git("clone", "-q", *options, origin.path.as_uri(), place, cwd=tmp_path)
    return place


def rows_in(origin: Repo, place: Path) -> dict[int, Any]:
    """Return what the clone's HEAD says, as read where the data is."""
    run_git("push", "-q", "--no-verify", "origin", "+HEAD:refs/heads/made", cwd=place)
    opened = Repo.open(origin.path, settings=LOCAL)
    opened.dataset("points", "made").check_guard()
    return read(opened, "made")


@pytest.mark.parametrize("settings", SETTINGS, ids=" ".join)
@pytest.mark.parametrize("way", ["merge", "rebase", "cherry-pick"])
@pytest.mark.few(3)
def test_different_rows_go_together_whatever_is_set(
    origin: Repo, tmp_path: Path, settings: tuple[str, ...], way: str
) -> None:
    place = plain_clone(origin, tmp_path)
    for setting in settings:
        run_git("config", *setting.split("="), cwd=place)
    command = {
        "merge": ("merge", "-q", "--no-edit", "origin/dev"),
        "rebase": ("rebase", "-q", "origin/dev"),
        "cherry-pick": ("cherry-pick", "main..origin/dev"),
    }[way]

    run_git(*command, cwd=place)

    assert rows_in(origin, place) == BOTH


@pytest.mark.parametrize("strategy", STRATEGIES, ids=" ".join)
@pytest.mark.few(1)
def test_different_rows_go_together_by_each_strategy(
    origin: Repo, tmp_path: Path, strategy: tuple[str, ...]
) -> None:
    place = plain_clone(origin, tmp_path)

    run_git("merge", "-q", "--no-edit", *strategy, "origin/dev", cwd=place)

    assert rows_in(origin, place) == BOTH


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options", [("--depth", "3", "--no-single-branch"), ("--filter=blob:none",)]
)
def test_clones_that_have_a_part(origin: Repo, tmp_path: Path, options: tuple[str, ...]) -> None:
    run_git("config", "uploadpack.allowFilter", "true", cwd=origin.path)
    place = plain_clone(origin, tmp_path, *options)

    run_git("merge", "-q", "--no-edit", "origin/dev", cwd=place)

    assert rows_in(origin, place) == BOTH


@pytest.mark.parametrize("strategy", STRATEGIES, ids=" ".join)
@pytest.mark.few(1)
def test_one_row_on_both_sides_is_never_put_together(
    origin: Repo, tmp_path: Path, strategy: tuple[str, ...]
) -> None:
    place = plain_clone(origin, tmp_path)

    run_git("merge", "-q", "--no-edit", *strategy, "origin/same", cwd=place, check=False)

    if run_git("ls-files", "-u", cwd=place):
        assert ("-X", "ours") != strategy != ("-X", "theirs")
        return
    try:
        found = rows_in(origin, place)
    except UnfinishedMergeError:
        return
    assert found in ({**OURS, 5: ("same", 5)}, {**OURS, 1: ("same", 1), 5: ("same", 5)})


def test_a_resolution_that_git_remembers_is_not_a_wrong_table(origin: Repo, tmp_path: Path) -> None:
    place = plain_clone(origin, tmp_path)
    run_git("config", "rerere.enabled", "true", cwd=place)
    run_git("config", "rerere.autoUpdate", "true", cwd=place)
    for _ in range(2):
        run_git("merge", "--no-edit", "origin/same", cwd=place, check=False)
        assert run_git("ls-files", "-u", cwd=place)
        run_git("checkout", "--ours", "--", ".", cwd=place)
        run_git("add", "--all", cwd=place)
        run_git("commit", "-qm", "By hand", cwd=place)
        with pytest.raises(UnfinishedMergeError):
            rows_in(origin, place)
        run_git("reset", "-q", "--hard", "origin/main", cwd=place)


def test_a_folder_moved_by_git_and_edited_by_another(origin: Repo, tmp_path: Path) -> None:
    place = plain_clone(origin, tmp_path)
    run_git("mv", "points", "places", cwd=place)
    run_git("commit", "-qm", "Moved", cwd=place)

    run_git("merge", "--no-edit", "origin/dev", cwd=place, check=False)

    if not run_git("ls-files", "-u", cwd=place):  # never a table without the other's rows
        with pytest.raises(UnfinishedMergeError):
            rows_in(origin, place)
