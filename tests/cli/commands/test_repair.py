"""`havasu-vc repair`: from every kind of breakage there is a way forward."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from havasu_vc import Repo
from tests.cli.conftest import Run, invoke, succeed
from tests.repo.points import read, write
from tests.support.broken import (
    BOTH,
    BREAKS,
    FIRST,
    NAMED,
    OURS,
    THEIRS,
    commit_tree,
    listed,
    make_bare,
    make_sound,
    named,
    set_files,
)
from tests.support.examples import some
from tests.support.git import run_git
from tests.support.templates import copy_tree

pytestmark = pytest.mark.few(4)

MERGES = ("our side's text", "their side's text")
SUMS = ("conflict marks", "no identity", "half an identity", "an identity of lists")
MENDABLE = [name for name in BREAKS if name not in NAMED]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sound(tmp_path_factory.mktemp("repair"))


@pytest.fixture
def place(sound: Path, tmp_path: Path) -> Path:
    return copy_tree(sound, tmp_path / "repo")


def havasu(place: Path, *arguments: str | Path) -> Result:
    """Run a command; whatever is wrong is told in one line."""
    done = invoke(["-C", place, *arguments])
    assert "internal error" not in done.stderr, done.stderr
    return done


def rows(place: Path, dataset: str = "bad") -> dict[int, object]:
    return read(Repo.open(place), dataset=dataset)


def nothing(place: Path) -> None:
    """Leave HEAD where it is."""


def one_more_commit(place: Path) -> None:
    set_files(place, {"README": b"more\n"}, "More")


@pytest.mark.parametrize("since", some((nothing, one_more_commit, make_bare), one_more_commit))
@pytest.mark.parametrize("way", MENDABLE)
def test_every_breakage_is_mended(place: Path, way: str, since: Callable[[Path], None]) -> None:
    BREAKS[way](place)
    since(place)
    before = run_git("rev-parse", "HEAD", cwd=place)

    done = succeed(havasu(place, "repair"))

    assert rows(place) == (BOTH if way in MERGES else OURS)
    assert rows(place, "good") == FIRST == rows(place, "other")
    assert run_git("rev-parse", "HEAD^", cwd=place) == before
    assert done.stderr.count("Note: bad") >= 1
    assert succeed(havasu(place, "fsck")).exit_code == 0
    assert "nothing to repair" in succeed(havasu(place, "repair")).stderr
    # What went with the broken version is named.
    assert ("is not in it" in done.stderr) == (way not in (*MERGES, *SUMS))


def test_nothing_to_repair(run: Run) -> None:
    before = run("log", "-o", "json").stdout

    assert "nothing to repair" in succeed(run("repair")).stderr
    assert run("log", "-o", "json").stdout == before


@pytest.mark.parametrize("way", MENDABLE)
def test_the_version_of_a_commit_is_taken(place: Path, way: str) -> None:
    BREAKS[way](place)

    done = succeed(havasu(place, "repair", "bad", "--from", "dev"))

    assert rows(place) == THEIRS
    assert "Note: bad is as it was at" in done.stderr


def test_a_version_that_is_broken_itself_is_not_taken(place: Path) -> None:
    BREAKS["no schema"](place)
    one_more_commit(place)

    done = havasu(place, "repair", "bad", "--from", "HEAD^")
    absent = havasu(place, "repair", "absent")

    assert (done.exit_code, absent.exit_code) == (20, 49)
    assert "bad" in done.stderr


def test_conflicts_are_decided_by_whoever_repairs(place: Path) -> None:
    repo = Repo.open(place)
    repo.switch("dev")
    write(repo, {**THEIRS, 2: ("theirs too", 2)}, dataset="bad")
    repo.switch("main")
    BREAKS["their side's text"](place)

    stopped = havasu(place, "repair")
    assert stopped.exit_code == 21
    assert "1 conflict" in stopped.stderr
    assert "-X theirs" in stopped.stderr
    succeed(havasu(place, "repair", "bad", "-X", "theirs"))

    assert rows(place) == {**BOTH, 2: ("theirs too", 2)}


def test_two_broken_merges_one_on_the_other(place: Path) -> None:
    repo = Repo.open(place)
    repo.create_branch("late", "dev^")
    repo.switch("late")
    write(repo, {**FIRST, 7: ("late", 7)}, dataset="bad")
    repo.switch("main")
    BREAKS["their side's text"](place)
    files = {**listed(place), **{p: b for p, b in listed(place, "late").items() if "bad/" in p}}
    commit_tree(place, files, "Merge late as text", "HEAD", "late")
    head = run_git("rev-parse", "HEAD", cwd=place)
    set_files(place, {"bad/.havasu-dataset/dataset.json": b"{}"}, "And a hand")

    succeed(havasu(place, "repair"))

    assert rows(place) == {**BOTH, 7: ("late", 7)}
    assert head in run_git("rev-list", "--first-parent", "HEAD", cwd=place)


def test_a_dataset_that_was_never_sound(place: Path) -> None:
    BREAKS["no schema"](place)
    tree = run_git("rev-parse", "HEAD^{tree}", cwd=place)
    alone = run_git("commit-tree", tree, "-m", "All at once", cwd=place)
    run_git("update-ref", "HEAD", alone, cwd=place)

    done = havasu(place, "repair")
    assert done.exit_code == 30
    assert "no version of bad" in done.stderr
    succeed(havasu(place, "repair", "bad", "--from", "dev"))

    assert rows(place) == THEIRS


@pytest.mark.few(1)
@pytest.mark.parametrize("since", [nothing, one_more_commit, make_bare])
@pytest.mark.parametrize("way", NAMED)
def test_a_harmless_name_is_given(place: Path, way: str, since: Callable[[Path], None]) -> None:
    BREAKS[way](place)
    since(place)
    before = run_git("rev-parse", "HEAD", cwd=place)

    done = succeed(havasu(place, "repair"))

    assert " is at a_b now" in done.stderr
    assert rows(place, "a_b") == FIRST
    assert havasu(place, "data", "ls").stdout.splitlines() == ["a_b", "bad", "good", "other"]
    assert run_git("rev-parse", "HEAD^", cwd=place) == before
    succeed(havasu(place, "check"))
    succeed(havasu(place, "fsck"))
    if since is not make_bare:
        assert run_git("status", "--porcelain", cwd=place) == ""


def test_a_harmless_name_is_one_that_is_free(place: Path) -> None:
    for name in ("a_b", "a\nb", "a:b"):
        named(name)(place)
    BREAKS["no schema"](place)

    done = succeed(havasu(place, "repair"))

    found = set(havasu(place, "data", "ls").stdout.splitlines())
    assert found == {"a_b", "a_b_2", "a_b_3", "bad", "good", "other"}
    assert r"'a\nb' is at a_b_2 now" in done.stderr
    assert rows(place) == OURS
