"""`havasu-vc checkout`."""

import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed


def test_a_revision_by_itself(run: Run) -> None:
    result = succeed(run("checkout", "HEAD^"))

    assert result.stderr.startswith("HEAD is now at ")
    assert succeed(run("branch", "--show-current")).stdout == ""
    assert succeed(run("checkout", "main")).stderr == "Switched to branch 'main'\n"


def test_a_new_branch(run: Run) -> None:
    result = succeed(run("checkout", "-b", "new", "HEAD^"))

    assert result.stderr == "Switched to a new branch 'new'\n"
    assert succeed(run("log", "--oneline")).stdout.count("\n") == 1


def test_a_copy_to_edit(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "edit.gpkg"
    result = succeed(run("checkout", "--as", path, "points", "--ref", "HEAD^"))

    assert f"Wrote 3 rows to {path}" in result.stderr
    with sqlite3.connect(path) as database:
        names = {name for (name,) in database.execute("SELECT name FROM points")}
    database.close()
    assert names == {"one", "two", "three"}
    assert run("checkout", "--as", path).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nope",), 47),
        (("main", "HEAD^"), 2),
        (("--ref", "HEAD"), 2),
        (("--as", "x.gpkg", "-b", "y"), 2),
        (("--as", "x.gpkg", "--flavour", "spark"), 2),
        (("--dataset", "points"), 2),
        (("--to", "x", "--refs"), 2),
        (("--relocate", "main"), 2),
        (("--to", "x", "--dataset", "nope"), 49),
    ],
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    assert run("checkout", *arguments).exit_code == code
