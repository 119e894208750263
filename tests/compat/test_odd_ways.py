"""What few people do with git, and some will: bundles, subtrees, linked work trees, histories
written anew, replaced commits. Tables come through with their rows, or it is said what to do.
"""

import shutil
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import invoke
from tests.repo.points import Rows, make, read, write
from tests.support.git import run_git
from tests.support.sound import LOCAL

FIRST: Rows = {key: (f"row {key}", key) for key in range(1, 9)}
MORE: Rows = {**FIRST, 1: ("changed", 1), 20: ("new", 20)}
LAST: Rows = {key: row for key, row in MORE.items() if key != 3}


@pytest.fixture
def origin(tmp_path: Path) -> Repo:
    """A repository with three commits of a dataset in a folder."""
    repo = make(tmp_path / "origin", FIRST, dataset="maps/points")
    write(repo, MORE, dataset="maps/points", message="More")
    write(repo, LAST, dataset="maps/points", message="Last")
    return repo


def opened(place: Path) -> Repo:
    return Repo.open(place, settings=LOCAL)


def sound(place: Path) -> None:
    done = invoke(["-C", place, "fsck", "--full"])
    assert done.exit_code == 0, done.output


def versions(place: Path, dataset: str, count: int = 3) -> list[dict[int, object]]:
    """Return the rows of the newest commits, newest first."""
    return [read(opened(place), f"HEAD~{n}", dataset=dataset) for n in range(count)]


def test_a_bundle_has_the_commits_and_says_where_the_data_is_not(
    origin: Repo, tmp_path: Path
) -> None:
    bundle, place = tmp_path / "all.bundle", tmp_path / "clone"
    run_git("bundle", "create", "-q", bundle, "--all", cwd=origin.path)
    done = invoke(["clone", bundle, place])
    assert done.exit_code == 40
    assert "all.bundle is a bundle of git, which holds no data files" in done.output
    assert "git remote set-url origin" in done.output and "Traceback" not in done.output
    run_git("remote", "set-url", "origin", origin.path, cwd=place)
    assert invoke(["-C", place, "fetch"]).exit_code == 0
    run_git("switch", "-q", "main", cwd=place)
    assert versions(place, "maps/points") == [LAST, MORE, FIRST]
    sound(place)


@pytest.mark.thorough
def test_a_subtree_is_the_table_in_another_folder(origin: Repo, tmp_path: Path) -> None:
    place = tmp_path / "other"
    run_git("init", "-q", place, cwd=tmp_path)
    run_git("commit", "-q", "--allow-empty", "-m", "Begin", cwd=place)
    if not Path(run_git("--exec-path", cwd=place), "git-subtree").exists():
        pytest.skip("this git has no subtree")
    run_git("subtree", "add", "-q", "--prefix=vendor", origin.path, "main", cwd=place)
    run_git("remote", "add", "origin", origin.path, cwd=place)
    assert invoke(["-C", place, "data", "fetch"]).exit_code == 0
    assert read(opened(place), dataset="vendor/maps/points") == LAST
    write(origin, MORE, dataset="maps/points", message="Back")
    run_git("subtree", "pull", "-q", "--prefix=vendor", origin.path, "main", "-m", "P", cwd=place)
    assert invoke(["-C", place, "data", "fetch"]).exit_code == 0
    assert read(opened(place), dataset="vendor/maps/points") == MORE
    write(opened(place), FIRST, dataset="vendor/maps/points", message="Here")
    run_git("subtree", "split", "-q", "--prefix=vendor", "-b", "split", cwd=place)
    assert read(opened(place), "split", dataset="maps/points") == FIRST
    sound(place)


def test_a_linked_work_tree_has_tables_and_a_branch_of_its_own(
    origin: Repo, tmp_path: Path
) -> None:
    place = tmp_path / "linked"
    run_git("branch", "side", "HEAD~1", cwd=origin.path)
    run_git("worktree", "add", "-q", place, "side", cwd=origin.path)
    assert invoke(["-C", place, "checkout"]).exit_code == 0
    write(opened(place), {**MORE, 30: ("side", 30)}, dataset="maps/points", message="Side")
    done = invoke(["-C", origin.path, "merge", "side", "-m", "Both"])
    assert done.exit_code == 0, done.output
    assert read(opened(origin.path), dataset="maps/points") == {**LAST, 30: ("side", 30)}
    run_git("worktree", "remove", "--force", place, cwd=origin.path)
    assert invoke(["-C", origin.path, "gc"]).exit_code == 0
    sound(origin.path)


@pytest.mark.parametrize(
    ("how", "dataset"),
    [
        (("--msg-filter", "sed s/More/Anew/"), "maps/points"),
        (("--subdirectory-filter", "maps"), "points"),
        (("--env-filter", "GIT_AUTHOR_NAME=Other; export GIT_AUTHOR_NAME"), "maps/points"),
    ],
    ids=["messages", "folder", "authors"],
)
@pytest.mark.few(1)
def test_a_history_that_is_written_anew_has_the_same_rows(
    origin: Repo, tmp_path: Path, how: tuple[str, ...], dataset: str
) -> None:
    invoke(["-C", origin.path, "checkout"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FILTER_BRANCH_SQUELCH_WARNING", "1")
        run_git("filter-branch", "-f", *how, "--", "main", cwd=origin.path)
    assert versions(origin.path, dataset) == [LAST, MORE, FIRST]
    done = invoke(["-C", origin.path, "checkout"])
    assert done.exit_code == 0, done.output
    write(opened(origin.path), FIRST, dataset=dataset, message="On")
    sound(origin.path)


def test_a_replaced_commit_changes_no_rows(origin: Repo) -> None:
    other = run_git("commit-tree", "HEAD~1^{tree}", "-p", "HEAD~2", "-m", "X", cwd=origin.path)
    run_git("replace", "HEAD~1", other, cwd=origin.path)
    assert versions(origin.path, "maps/points") == [LAST, MORE, FIRST]
    write(opened(origin.path), MORE, dataset="maps/points", message="On")
    sound(origin.path)


def test_line_ends_of_windows_are_no_business_of_tables(origin: Repo, tmp_path: Path) -> None:
    place = tmp_path / "clone"
    settings = ("-c", "core.autocrlf=true", "-c", "core.eol=crlf")
    run_git("clone", "-q", *settings, origin.path, place, cwd=tmp_path)
    assert invoke(["-C", place, "fetch"]).exit_code == 0
    (place / "note.txt").write_text("a\r\nb\r\n", encoding="utf-8")
    run_git("add", "-A", cwd=place)
    run_git("commit", "-q", "-m", "Note", cwd=place)
    write(opened(place), FIRST, dataset="maps/points", message="On")
    run_git("reset", "-q", "--hard", cwd=place)
    assert run_git("status", "--porcelain", cwd=place) == ""
    assert versions(place, "maps/points", 1) == [FIRST]
    assert read(opened(place), "origin/main", dataset="maps/points") == LAST
    sound(place)


def test_a_copy_of_the_folder_is_a_repository(origin: Repo, tmp_path: Path) -> None:
    invoke(["-C", origin.path, "checkout"])
    place = tmp_path / "copied"
    shutil.copytree(origin.path, place, symlinks=True)
    shutil.rmtree(origin.path)
    assert versions(place, "maps/points") == [LAST, MORE, FIRST]
    done = invoke(["-C", place, "checkout", "--relocate"])
    assert done.exit_code == 0, done.output
    assert invoke(["-C", place, "status"]).exit_code == 0
    sound(place)
