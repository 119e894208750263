"""`rebase`, and `cherry-pick` and `revert` of several commits, beside plain dicts of rows."""

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from havasu_vc import Repo
from havasu_vc.merging import picking
from havasu_vc.merging.merge_commits import merge_commits
from tests.cli.conftest import invoke, succeed
from tests.repo.points import Row, Rows, assert_clean, make, merged_rows, read, write
from tests.support.git import run_git
from tests.workspace import by_hand

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 7)}
OURS: Rows = {**FIRST, 1: ("ours", 1)}
MORE: tuple[Rows, ...] = (
    {**FIRST, 2: ("b", 2)},
    {**FIRST, 2: ("b", 2), 1: ("name 1", 10)},
    {**FIRST, 2: ("b", 3), 1: ("name 1", 10), 7: ("new", 7)},
)
"""What the commits of dev hold; the second changes another cell of a row that ours changed."""


def branched(repo: Repo) -> Repo:
    """Commit thrice on the branch dev, and once on main, where it ends."""
    repo.create_branch("dev")
    write(repo, OURS, message="Ours")
    repo.switch("dev")
    for number, rows in enumerate(MORE, 1):
        write(repo, rows, message=f"Dev {number}")
    repo.switch("main")
    return repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository whose branch dev has three commits, and main another; on main."""
    return branched(make(tmp_path / "repo", FIRST))


def run(repo: Repo, *arguments: str | Path) -> Result:
    return invoke(["-C", repo.path, *arguments])


def subjects(repo: Repo, revisions: str) -> list[str]:
    return run_git("log", "--reverse", "--format=%s", revisions, cwd=repo.path).splitlines()


def clash(repo: Repo) -> None:
    """Let main have changed a cell that the second commit of dev changes as well."""
    write(repo, {**OURS, 1: ("ours", 99)}, message="Clash")


def test_commits_of_a_range_are_picked(repo: Repo) -> None:
    said = succeed(run(repo, "cherry-pick", "-x", "main..dev")).stderr

    assert read(repo) == {**FIRST, 1: ("ours", 10), 2: ("b", 3), 7: ("new", 7)}
    assert subjects(repo, "HEAD~3..HEAD") == ["Dev 1", "Dev 2", "Dev 3"]
    assert [line[:6] for line in said.splitlines()[:3]] == ["[main "] * 3
    assert "(cherry picked from commit" in run_git("log", "-1", "--format=%b", cwd=repo.path)
    assert_clean(repo)


@pytest.mark.few(1)
@pytest.mark.parametrize("end", ["--continue", "--skip", "--abort"])
def test_a_range_stops_at_what_is_in_conflict(repo: Repo, end: str) -> None:
    clash(repo)
    before, rows = repo.head().commit, read(repo)

    said = succeed(run(repo, "cherry-pick", "main..dev")).stderr

    assert "] Dev 1" in said and "points: 1 conflict" in said
    assert "`havasu-vc cherry-pick --continue`" in said
    refused = run(repo, "cherry-pick", "dev~1", "dev")
    assert refused.exit_code == 20
    if end == "--continue":
        assert run(repo, "cherry-pick", end).exit_code == 21
        succeed(run(repo, "resolve", "--all", "--with", "theirs"))
    result = succeed(run(repo, "cherry-pick", end, "-o", "json"))

    if end == "--abort":
        assert (repo.head().commit, read(repo)) == (before, rows)
    else:
        picked = json.loads(result.stdout)["havasu.cherry-pick/v1"]
        assert len(picked["commits"]) == (2 if end == "--continue" else 1)
        first = ("name 1", 10) if end == "--continue" else ("ours", 99)
        assert read(repo) == {**FIRST, 1: first, 2: ("b", 3), 7: ("new", 7)}
    assert repo.status().state == "clean"
    assert_clean(repo)


def test_a_policy_decides_in_all_of_them(repo: Repo) -> None:
    clash(repo)

    succeed(run(repo, "cherry-pick", "-X", "theirs", "dev~2", "dev~1"))

    assert read(repo)[1] == ("ours", 10)


def test_one_that_waits_is_skipped(repo: Repo) -> None:
    clash(repo)
    before = repo.head().commit
    succeed(run(repo, "cherry-pick", "dev~1"))

    assert "left out" in succeed(run(repo, "cherry-pick", "--skip")).stderr

    assert repo.head().commit == before
    refused = run(repo, "cherry-pick", "--skip")
    assert refused.exit_code == 20 and "nothing to skip" in refused.stderr


def test_commits_of_a_range_are_taken_back(repo: Repo) -> None:
    repo.switch("dev")

    succeed(run(repo, "revert", "dev~2..dev"))

    assert read(repo) == MORE[0]
    assert subjects(repo, "HEAD~2..HEAD") == ['Revert "Dev 3"', 'Revert "Dev 2"']
    assert_clean(repo)


def test_a_merge_is_taken_back(repo: Repo) -> None:
    succeed(run(repo, "merge", "dev"))

    refused = run(repo, "revert", "HEAD")
    assert refused.exit_code == 2 and "is a merge" in refused.stderr
    succeed(run(repo, "revert", "-m", "1", "HEAD"))

    assert read(repo) == OURS
    assert "reversing\nchanges made to" in run_git("log", "-1", "--format=%b", cwd=repo.path)


def test_a_branch_is_rebased(repo: Repo) -> None:
    repo.switch("dev")
    repo.workspace.check_out()
    old = run_git("log", "--format=%an %ad %s", "-3", cwd=repo.path)

    said = succeed(run(repo, "rebase", "main")).stderr

    assert "Successfully rebased and updated dev." in said
    assert read(repo) == {**FIRST, 1: ("ours", 10), 2: ("b", 3), 7: ("new", 7)}
    assert subjects(repo, "main..HEAD") == ["Dev 1", "Dev 2", "Dev 3"]
    assert run_git("log", "--format=%an %ad %s", "-3", cwd=repo.path) == old
    assert repo.head_branch == "dev"
    assert "working copy clean" in succeed(run(repo, "status")).stdout
    assert read(repo, "main") == OURS
    assert "up to date" in succeed(run(repo, "rebase", "main")).stderr
    assert_clean(repo)


@pytest.mark.few(1)
@pytest.mark.parametrize("verb", ["cherry-pick", "rebase", "revert"])
def test_a_hook_that_refuses_leaves_what_was_resolved(repo: Repo, verb: str) -> None:
    clash(repo)
    if verb == "rebase":
        repo.switch("dev")
    if verb == "revert":
        repo.switch("dev")
        write(repo, {**MORE[-1], 1: ("name 1", 99)}, message="Clash")
    before = repo.head().commit
    commits = {"cherry-pick": "main..dev", "rebase": "main", "revert": "HEAD~3..HEAD~1"}
    succeed(run(repo, verb, commits[verb]))
    succeed(run(repo, "resolve", "--all", "--with", "theirs"))
    # A rebase asks no other hook.
    hook = repo.path / ".git/hooks/prepare-commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)

    for _ in range(2):
        refused = run(repo, verb, "--continue")
        assert refused.exit_code == 20
        assert "not today" in refused.stderr and "Traceback" not in refused.stderr
        assert f"havasu-vc {verb} --continue" in refused.stderr
    hook.unlink()
    succeed(run(repo, verb, "--continue"))

    expected: dict[str, Rows] = {
        "cherry-pick": {**FIRST, 1: ("name 1", 10), 2: ("b", 3), 7: ("new", 7)},
        "rebase": {**FIRST, 1: ("name 1", 10), 2: ("b", 3), 7: ("new", 7)},
        "revert": {**FIRST, 2: ("b", 2)},
    }
    assert read(repo) == expected[verb]
    assert repo.head().commit != before
    assert_clean(repo)


@pytest.mark.few(1)
@pytest.mark.parametrize("end", ["--continue", "--skip", "--abort"])
def test_a_rebase_stops_at_what_is_in_conflict(repo: Repo, end: str) -> None:
    clash(repo)
    repo.switch("dev")
    before = repo.head().commit

    said = succeed(run(repo, "rebase", "main")).stderr

    assert "points: 1 conflict" in said and "`havasu-vc rebase --continue`" in said
    assert repo.status().state == "rebase"
    if end == "--continue":
        assert run(repo, "rebase", end).exit_code == 21
        succeed(run(repo, "resolve", "--all", "--with", "theirs"))
    succeed(run(repo, "rebase", end))

    if end == "--abort":
        assert (repo.head().commit, read(repo)) == (before, MORE[-1])
    else:
        first = ("name 1", 10) if end == "--continue" else ("ours", 99)
        assert read(repo) == {**FIRST, 1: first, 2: ("b", 3), 7: ("new", 7)}
    assert (repo.head_branch, repo.status().state) == ("dev", "clean")
    assert_clean(repo)


def test_onto_takes_the_last_commits_alone(repo: Repo) -> None:
    succeed(run(repo, "rebase", "--onto", "main", "dev~1", "dev"))

    assert subjects(repo, "main..dev") == ["Dev 3"]
    assert read(repo) == {**OURS, 2: ("name 2", 3), 7: ("new", 7)}


def edited(rows: Rows, dice: random.Random) -> dict[int, Row]:
    found = dict(rows)
    for _ in range(dice.randint(1, 3)):
        key = dice.randint(1, 9)
        if key in found and dice.random() < 0.2:
            del found[key]
        else:
            name, height = found.get(key, ("new", 0))
            found[key] = dice.choice(
                [(f"n{dice.randint(0, 3)}", height), (name, dice.randint(0, 4))]
            )
    return dict(sorted(found.items()))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_what_a_rebase_makes_is_what_merges_of_dicts_make(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    repo = make(tmp_path / "repo", FIRST)
    repo.create_branch("dev")
    ours: dict[int, Row] = edited(FIRST, dice)
    write(repo, ours)
    repo.switch("dev")
    theirs: dict[int, Row] = dict(FIRST)
    for _ in range(4):
        theirs = edited(theirs, dice)
        write(repo, theirs)
    commits = run_git("rev-list", "--reverse", "main..dev", cwd=repo.path).split()
    versions = [dict(FIRST), *(read(repo, commit) for commit in commits)]
    expected: dict[int, tuple[object, ...]] = dict(ours)
    for base, picked in pairwise(versions):
        clean, clashes = merged_rows(base, expected, picked)  # type: ignore[arg-type]
        chosen = {key: picked[key] for key in clashes if key in picked}
        expected = dict(sorted({**clean, **chosen}.items()))

    succeed(run(repo, "rebase", "main"))
    for _ in commits:
        if repo.status().state == "clean":
            break
        succeed(run(repo, "resolve", "--all", "--with", "theirs"))
        succeed(run(repo, "rebase", "--continue"))

    assert read(repo) == expected
    assert_clean(repo)


@pytest.mark.thorough
def test_a_pull_rebases(repo: Repo, tmp_path: Path) -> None:
    succeed(invoke(["clone", repo.path, tmp_path / "clone"]))
    mine = Repo.open(tmp_path / "clone")
    write(mine, {**OURS, 4: ("mine", 4)}, message="Mine")
    write(repo, {**OURS, 5: ("theirs", 5)}, message="Theirs")

    succeed(run(mine, "pull", "--rebase"))

    assert subjects(mine, "HEAD~2..HEAD") == ["Theirs", "Mine"]
    assert read(mine) == {**OURS, 4: ("mine", 4), 5: ("theirs", 5)}
    write(repo, {**OURS, 5: ("theirs", 6)}, message="Again")
    run_git("config", "pull.rebase", "true", cwd=mine.path)
    succeed(run(mine, "pull"))
    assert subjects(mine, "HEAD~2..HEAD") == ["Again", "Mine"]
    write(repo, {**OURS, 5: ("theirs", 7)}, message="Merged")
    succeed(run(mine, "pull", "--no-rebase"))
    assert len(run_git("log", "-1", "--format=%P", cwd=mine.path).split()) == 2
    run_git("config", "pull.rebase", "interactive", cwd=mine.path)
    refused = run(mine, "pull")
    assert refused.exit_code == 20 and "`git rebase -i" in refused.stderr


def test_what_makes_no_sense_is_refused(repo: Repo) -> None:
    head = repo.head().commit
    for arguments, code, words in (
        (("rebase", "-i", "dev"), 2, "`git rebase -i UPSTREAM`"),
        (("rebase", "dev", "--abort"), 2, "--continue, --skip or --abort"),
        (("rebase", "nothing"), 47, "nothing"),
        (("rebase", "--root"), 2, "--onto"),
        (("rebase", "--continue"), 20, "no merge"),
        (("rebase", "--skip"), 20, "nothing to skip"),
        (("cherry-pick", "main..nothing"), 47, "nothing"),
        (("cherry-pick", "dev..dev"), 44, "empty commit set"),
        (("cherry-pick", "main..dev", "-m", "x"), 2, "for one commit"),
    ):
        refused = run(repo, *arguments)
        assert (refused.exit_code, words in refused.stderr) == (code, True), refused.stderr
    repo.workspace.check_out()
    by_hand.insert(repo.path / "tables" / "points", [{"id": 10, "name": "ten", "height": 1}])
    refused = run(repo, "rebase", "dev")
    assert refused.exit_code == 29 and "edits that are not committed" in refused.stderr
    assert repo.head().commit == head


KINDS = [{"bare": True}, {"kart": True}]


@pytest.fixture(params=KINDS, ids=["bare", "Kart's"])
def treeless(request: pytest.FixtureRequest, tmp_path: Path) -> Repo:
    """The same branches where git has no work tree to go through commits in; on main."""
    return branched(make(tmp_path / "treeless", FIRST, **request.param))


@pytest.mark.few(1)
def test_picks_without_a_work_tree(treeless: Repo) -> None:
    said = succeed(run(treeless, "cherry-pick", "-x", "main..dev")).output

    assert read(treeless) == {**FIRST, 1: ("ours", 10), 2: ("b", 3), 7: ("new", 7)}
    assert subjects(treeless, "HEAD~3..HEAD") == ["Dev 1", "Dev 2", "Dev 3"]
    assert [line[:6] for line in said.splitlines()[:3]] == ["[main "] * 3
    assert "(cherry picked from commit" in run_git("log", "-1", "--format=%b", cwd=treeless.path)

    succeed(run(treeless, "revert", "HEAD~3..HEAD"))

    assert read(treeless) == OURS
    assert subjects(treeless, "HEAD~3..HEAD")[-1] == 'Revert "Dev 1"'
    succeed(run(treeless, "cherry-pick", "dev", "dev~2"))  # as they are named
    assert subjects(treeless, "HEAD~2..HEAD") == ["Dev 3", "Dev 1"]


@pytest.mark.few(1)
def test_a_rebase_without_a_work_tree(treeless: Repo) -> None:
    treeless.switch("dev")
    author = run_git("log", "-1", "--format=%an %at", cwd=treeless.path)
    assert (
        "Successfully rebased and updated dev." in succeed(run(treeless, "rebase", "main")).output
    )

    assert read(treeless) == {**FIRST, 1: ("ours", 10), 2: ("b", 3), 7: ("new", 7)}
    assert subjects(treeless, "main..HEAD") == ["Dev 1", "Dev 2", "Dev 3"]
    assert run_git("log", "-1", "--format=%an %at", cwd=treeless.path) == author
    assert "is up to date" in succeed(run(treeless, "rebase", "main")).output
    treeless.switch("main")
    succeed(run(treeless, "rebase", "dev"))  # nothing of its own: it moves up
    assert treeless.resolve("main").commit == treeless.resolve("dev").commit


@pytest.mark.few(1)
def test_conflicts_without_a_work_tree(treeless: Repo) -> None:
    clash(treeless)
    treeless.switch("dev")
    before = treeless.head().commit
    stopped = run(treeless, "rebase", "main")
    assert "Nothing is committed before" in stopped.output
    assert subjects(treeless, "main..HEAD") == ["Dev 1"]
    refused = run(treeless, "rebase", "--continue")
    assert refused.exit_code != 0 and "not resolved yet" in refused.output
    assert run(treeless, "rebase", "main").exit_code != 0, "one waits"

    succeed(run(treeless, "rebase", "--abort"))
    assert (treeless.head_branch, treeless.head().commit) == ("dev", before)

    run(treeless, "rebase", "main")
    succeed(run(treeless, "resolve", "--all", "--with=theirs"))
    succeed(run(treeless, "rebase", "--continue"))
    assert read(treeless) == MORE[-1]
    assert subjects(treeless, "main..HEAD") == ["Dev 1", "Dev 2", "Dev 3"]

    succeed(run(treeless, "reset", "--soft", str(before)))
    run(treeless, "rebase", "main")
    succeed(run(treeless, "rebase", "--skip"))
    assert read(treeless) == {**FIRST, 1: ("ours", 99), 2: ("b", 3), 7: ("new", 7)}
    assert subjects(treeless, "main..HEAD") == ["Dev 1", "Dev 3"]
    assert "no merge" in run(treeless, "rebase", "--continue").output


@pytest.mark.few(1)
def test_a_sequence_that_was_cut_off_is_put_back(
    treeless: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, made = treeless.head().commit, 0

    def dies(*what: Any, **how: Any) -> Any:
        nonlocal made
        made += 1
        if made == 3:
            raise KeyboardInterrupt
        return merge_commits(*what, **how)

    monkeypatch.setattr(picking, "merge_commits", dies)
    with pytest.raises(KeyboardInterrupt):
        treeless.pick_several("cherry-pick", ["main..dev"])
    monkeypatch.undo()
    assert treeless.head().commit != before
    refused = run(treeless, "cherry-pick", "dev")
    assert "was cut off, and is half done" in refused.output

    succeed(run(treeless, "cherry-pick", "--abort"))

    assert (treeless.head().commit, read(treeless)) == (before, OURS)
    succeed(run(treeless, "cherry-pick", "main..dev"))


def test_what_a_rebase_without_a_work_tree_has_not(treeless: Repo) -> None:
    for arguments in (("rebase", "main", "dev"), ("rebase", "-r", "dev")):
        refused = run(treeless, *arguments)
        assert refused.exit_code == 24 and "without a work tree" in refused.output


def test_what_git_began_is_told_where_rows_are_asked_for(repo: Repo) -> None:
    clash(repo)
    repo.switch("dev")
    run_git("rebase", "-q", "main", cwd=repo.path, check=False)
    for command in (("conflicts",), ("resolve", "--all", "--with", "ours")):
        refused = run(repo, *command)
        assert refused.exit_code == 20
        assert "a rebase of git waits" in refused.stderr
        assert "`havasu-vc rebase --continue` merges them" in refused.stderr
    run(repo, "rebase", "--continue")
    succeed(run(repo, "conflicts"))
    succeed(run(repo, "rebase", "--abort"))
    refused = run(repo, "rebase", "--abort")
    assert refused.exit_code == 20 and "nor a rebase" in refused.stderr


def test_a_squash_is_called_so(repo: Repo) -> None:
    said = succeed(run(repo, "merge", "--squash", "dev"))
    assert "Squash committed as " in said.stderr
    assert subjects(repo, "HEAD^..HEAD") == ['Squash branch "dev" into main']
    assert succeed(run(repo, "log", "--merges")).stdout == ""
