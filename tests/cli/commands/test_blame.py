"""`blame` on the command line."""

import json
from pathlib import Path

from tests.cli.conftest import Run, succeed
from tests.support.git import run_git


def test_rows_in_a_table(run: Run, repo: Path) -> None:
    second, first = run_git("log", "--format=%h", "--abbrev=7", cwd=repo).split()

    lines = succeed(run("blame", "points")).stdout.splitlines()

    assert [(line.split()[0], line.split()[-1]) for line in lines] == [
        (first, "1"),
        (second, "2"),
        (second, "4"),
    ]
    assert all("  Test User  20" in line for line in lines)


def test_some_rows_at_a_revision(run: Run, repo: Path) -> None:
    first = run_git("rev-parse", "HEAD^", cwd=repo)

    spellings = (
        ["points", "2", "--ref", "HEAD^"],
        ["points:feature:2", "--ref", "HEAD^"],
        ["points@HEAD^", "2"],
        ["points@HEAD^:feature:2"],
        ["points@HEAD", "2", "--ref", "HEAD^"],
    )
    for arguments in spellings:
        text = succeed(run("blame", *arguments, "-o", "json-lines")).stdout
        found = json.loads(text)
        assert found["key"] == {"id": 2}
        assert found["commit"]["commit"] == first


def test_cells(run: Run, repo: Path) -> None:
    second, first = run_git("log", "--format=%H", cwd=repo).split()

    text = succeed(run("blame", "points", "2", "1", "--columns", "name,height", "-o", "json"))
    rows = json.loads(text.stdout)
    cells = [{name: c["commit"] for name, c in row["cells"].items()} for row in rows]
    table = succeed(run("blame", "points", "2", "--columns", "name,height")).stdout

    assert [row["key"]["id"] for row in rows] == [2, 1]
    assert cells == [{"name": second, "height": first}, {"name": first, "height": first}]
    assert [line.split()[0] for line in table.splitlines()] == [second[:7], first[:7]]
    assert [line.split()[-1] for line in table.splitlines()] == ["name", "height"]


def test_what_is_not_there_is_refused(run: Run) -> None:
    assert run("blame", "nothing").exit_code == 49
    assert run("blame", "points", "99").exit_code == 40
    assert run("blame", "points", "x").exit_code == 2
    assert run("blame", "points", "--columns", "nothing").exit_code == 2
    assert run("blame", "points", "--ref", "nothing").exit_code == 47
    assert run("blame", "points@nothing").exit_code == 47
    twice = run("blame", "points@HEAD^", "--ref", "HEAD^^")
    assert twice.exit_code == 2
    assert "'points@HEAD^' names a revision, and --ref HEAD^^ another" in twice.stderr
