"""What was noted of an operation of git is gone when git's operation is, however that ended."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.repo.points import Rows, make, read, write
from tests.support.git import run_git
from tests.support.sound import LOCAL
from tests.support.templates import copy_tree

pytestmark = pytest.mark.few(4)

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 9)}
OURS: Rows = {**FIRST, 1: ("ours", 1)}
THEIRS: Rows = {**FIRST, 1: ("theirs", 1), 3: ("theirs", 3)}


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose branches `main` and `dev` clash in one row."""
    repo = make(tmp_path_factory.mktemp("forked") / "repo", FIRST)
    repo.create_branch("dev")
    write(repo, OURS, message="Ours")
    repo.switch("dev")
    write(repo, THEIRS, message="Theirs")
    repo.switch("main")
    return repo.path


@pytest.fixture
def repo(forked: Path, tmp_path: Path) -> Path:
    return copy_tree(forked, tmp_path / "repo")


def stops(repo: Path, *command: str) -> None:
    done = subprocess.run(["git", *command], cwd=repo, capture_output=True, check=False)
    assert done.returncode


def state(repo: Path) -> str:
    """Return what we say of a repository, after a look that git says the same."""
    status = json.loads(succeed(invoke(["-C", repo, "status", "-o", "json"])).stdout)
    return str(status.get("havasu.status/v1", {}).get("state", "clean"))


def assert_calm(repo: Path) -> None:
    assert state(repo) == "clean"
    text = succeed(invoke(["-C", repo, "status"])).stdout
    assert "erging" not in text and "onflict" not in text
    assert run_git("status", "--porcelain", cwd=repo) == ""
    assert not (repo / ".git" / "havasu" / "merge").exists()
    assert invoke(["-C", repo, "conflicts"]).exit_code == 20
    assert invoke(["-C", repo, "merge", "--continue"]).exit_code == 20
    succeed(invoke(["-C", repo, "meta", "set", "points", "title=Goes on"]))
    succeed(invoke(["-C", repo, "switch", "-c", "more"]))


ENDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "rebase --abort": (("rebase", "dev"), ("rebase", "--abort")),
    "rebase --skip": (("rebase", "dev"), ("rebase", "--skip")),
    "rebase --quit": (("rebase", "dev"), ("rebase", "--quit")),
    "merge --abort": (("merge", "dev"), ("merge", "--abort")),
    "merge --quit": (("merge", "dev"), ("merge", "--quit")),
    "reset": (("merge", "dev"), ("reset", "-q", "--hard")),
    "cherry-pick --abort": (("cherry-pick", "dev"), ("cherry-pick", "--abort")),
    "cherry-pick --skip": (("cherry-pick", "dev"), ("cherry-pick", "--skip")),
    "revert --abort": (("revert", "dev"), ("revert", "--abort")),
    "squash": (("merge", "--squash", "dev"), ("reset", "-q", "--hard")),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("end", ENDS)
def test_an_operation_that_git_ended_is_over(repo: Path, end: str) -> None:
    begun, ended = ENDS[end]
    if begun[0] == "revert":
        write(Repo.open(repo, settings=LOCAL), {**OURS, 1: ("again", 1)})
        begun = ("revert", "HEAD~1")
        stops(repo, *begun)
    else:
        stops(repo, *begun)
    assert "conflict" in succeed(invoke(["-C", repo, "merge", "--continue"])).output.lower()
    assert state(repo) != "clean"

    run_git(*ended, cwd=repo)
    if "--quit" in ended:
        run_git("reset", "-q", "--hard", cwd=repo)

    assert_calm(repo)


@pytest.mark.thorough
def test_the_next_step_of_a_rebase_is_not_the_one_before(repo: Path) -> None:
    """git went on by itself: what was resolved for the last commit is not asked again."""
    write(Repo.open(repo, settings=LOCAL), {**OURS, 3: ("ours", 3)}, message="More")
    stops(repo, "rebase", "dev")
    succeed(invoke(["-C", repo, "merge", "--continue"]))
    first = (repo / ".git" / "havasu" / "merge" / "state.json").read_text()

    stops(repo, "rebase", "--skip")
    assert state(repo) == "rebase"
    assert not (repo / ".git" / "havasu" / "merge").exists()
    succeed(invoke(["-C", repo, "merge", "--continue"]))
    assert (repo / ".git" / "havasu" / "merge" / "state.json").read_text() != first
    succeed(invoke(["-C", repo, "resolve", "--all", "--with", "theirs"]))
    succeed(invoke(["-C", repo, "merge", "--continue"]))

    assert read(Repo.open(repo, settings=LOCAL)) == {**THEIRS, 3: ("ours", 3)}
    assert_calm(repo)


@pytest.mark.thorough
def test_a_merge_of_ours_goes_on_waiting(repo: Path) -> None:
    succeed(invoke(["-C", repo, "merge", "dev"]))
    assert state(repo) == "merge" == state(repo)
    succeed(invoke(["-C", repo, "resolve", "--all", "--with", "ours"]))
    succeed(invoke(["-C", repo, "merge", "--continue"]))
    assert_calm(repo)


def plain(repo: Path, place: Path) -> Path:
    run_git("clone", "--quiet", repo, place, cwd=repo)
    run_git("checkout", "--quiet", "dev", cwd=place)
    return place


def on_demand(repo: Path, place: Path) -> Path:
    succeed(invoke(["clone", "--filter=data", "--branch", "dev", repo, place]))
    return place


@pytest.mark.few(1)
@pytest.mark.parametrize("clone", [plain, on_demand])
@pytest.mark.parametrize("fetch", ["before", "after", "never"])
def test_a_pull_that_rebases_and_is_given_up_leaves_nothing(
    repo: Path, tmp_path: Path, clone: Callable[[Path, Path], Path], fetch: str
) -> None:
    place = clone(repo, tmp_path / "clone")
    if fetch == "before":
        succeed(invoke(["-C", place, "data", "fetch"]))
    stops(place, "pull", "--rebase", "origin", "main")
    if fetch == "after":
        succeed(invoke(["-C", place, "data", "fetch"]))

    invoke(["-C", place, "merge", "--continue"])
    succeed(invoke(["-C", place, "merge", "--abort"]))

    assert run_git("status", "--porcelain", cwd=place) == ""
    assert state(place) == "clean"
    assert not list(place.glob("**/.havasu-dataset"))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("setting", "rebases"), [("pull.rebase", True), ("branch.main.rebase", True), ("", False)]
)
def test_pull_rebases_where_git_would(
    repo: Path, tmp_path: Path, setting: str, rebases: bool
) -> None:
    succeed(invoke(["clone", repo, tmp_path / "clone"]))
    if setting:
        run_git("config", setting, "true", cwd=tmp_path / "clone")

    said = succeed(invoke(["-C", tmp_path / "clone", "pull"])).stderr

    assert ("Current branch main is up to date" in said) is rebases


@pytest.mark.few(1)
@pytest.mark.parametrize("setting", ["pull.ff", "merge.ff"])
def test_what_git_is_told_of_fast_forwards_counts(repo: Path, tmp_path: Path, setting: str) -> None:
    clone = tmp_path / "clone"
    succeed(invoke(["clone", repo, clone]))
    run_git("config", setting, "only", cwd=clone)
    succeed(invoke(["-C", clone, "meta", "set", "points", "title=Here"]))
    succeed(invoke(["-C", repo, "meta", "set", "points", "description=There"]))

    assert invoke(["-C", clone, "pull"]).exit_code == 20
    succeed(invoke(["-C", clone, "pull", "--no-ff"]))
    run_git("config", setting, "false", cwd=clone)
    succeed(invoke(["-C", repo, "meta", "set", "points", "description=More"]))
    run_git("reset", "-q", "--hard", "origin/main", cwd=clone)
    succeed(invoke(["-C", clone, "pull"]))
    assert len(run_git("log", "-1", "--format=%P", cwd=clone).split()) == 2


def test_data_fetch_brings_what_was_removed(repo: Path, tmp_path: Path) -> None:
    succeed(invoke(["clone", repo, tmp_path / "clone"]))
    shutil.rmtree(tmp_path / "clone" / ".git" / "havasu" / "objects")

    succeed(invoke(["-C", tmp_path / "clone", "data", "fetch"]))

    assert read(Repo.open(tmp_path / "clone", settings=LOCAL)) == OURS
