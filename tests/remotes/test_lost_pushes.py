"""Whoever loses the race to push pulls, which puts both trees together as git does, and pushes."""

from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.remotes.sharing import bare, clone, share
from tests.repo import points
from tests.support.git import run_git

START = {n: (f"row {n}", n) for n in range(30)}


@pytest.fixture
def people(tmp_path: Path) -> tuple[Repo, Repo]:
    """Two clones of one server; each has a commit that the other has not."""
    server = bare(tmp_path / "server.git")
    ann = points.make(tmp_path / "ann", START)
    share(ann, server)
    return ann, clone(server, tmp_path / "ben")


def test_other_rows_are_put_together_as_git_does(people: tuple[Repo, Repo], tmp_path: Path) -> None:
    ann, ben = people
    server = tmp_path / "server.git"
    mine = points.write(ann, START | {1: ("ann", 1)})
    yours = points.write(ben, START | {2: ("ben", 2), 40: ("new", 40)})
    succeed(invoke(["-C", ann.path, "push"]))

    lost = invoke(["-C", ben.path, "push"])
    assert lost.exit_code != 0
    assert "`havasu-vc pull` merges them row by row, then push again" in lost.stderr
    assert run_git("rev-parse", "main", cwd=server) == mine  # nothing of hers is rewritten
    succeed(invoke(["-C", ben.path, "pull"]))
    succeed(invoke(["-C", ben.path, "push"]))

    assert run_git("rev-parse", "main^{tree}", cwd=server) == run_git(
        "merge-tree", "--write-tree", yours, mine, cwd=ben.path
    )
    assert run_git("log", "-1", "--format=%P", "main", cwd=server) == f"{yours} {mine}"
    succeed(invoke(["-C", ann.path, "pull"]))
    assert points.read(ann) == START | {1: ("ann", 1), 2: ("ben", 2), 40: ("new", 40)}
    for each in people:
        points.assert_clean(each)


@pytest.mark.thorough
def test_one_row_is_named_and_nothing_is_lost(people: tuple[Repo, Repo], tmp_path: Path) -> None:
    ann, ben = people
    mine = points.write(ann, START | {1: ("ann", 1)})
    yours = points.write(ben, START | {1: ("ben", 1)})
    succeed(invoke(["-C", ann.path, "push"]))

    pulled = invoke(["-C", ben.path, "pull"])
    assert "points:feature: 1 conflict" in pulled.stderr
    assert "points:feature:1" in succeed(invoke(["-C", ben.path, "conflicts"])).stdout
    again = invoke(["-C", ben.path, "push"])
    assert again.exit_code != 0
    assert run_git("rev-parse", "HEAD", cwd=ben.path) == yours
    assert run_git("rev-parse", "main", cwd=tmp_path / "server.git") == mine
    succeed(invoke(["-C", ben.path, "resolve", "points:feature:1", "--with=theirs"]))
    succeed(invoke(["-C", ben.path, "merge", "--continue"]))
    succeed(invoke(["-C", ben.path, "push"]))
    assert points.read(Repo.open(ben.path))[1] == ("ann", 1)
