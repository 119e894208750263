"""A repository with two commits, and the command line to work on it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from havasu_vc.cli.main import cli
from tests.support.templates import copy_tree

Run = Callable[..., Result]

FIRST = """\
id,name,height,lon,lat
1,one,1.5,174.5,-41.0
2,two,2.5,174.6,-41.1
3,three,3.5,174.7,-41.2
"""
SECOND = """\
id,name,height,lon,lat
1,one,1.5,174.5,-41.0
2,TWO,2.5,174.6,-41.1
4,four,4.5,174.8,-41.3
"""


def invoke(arguments: Sequence[str | Path], *, stdin: str | bytes = "") -> Result:
    """Run a command line in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)


def succeed(result: Result) -> Result:
    """Return the result of a command that must not fail."""
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    source = folder / "points.csv"
    repo = folder / "repo"
    succeed(invoke(["init", repo]))
    common: list[str | Path] = [
        "-C",
        repo,
        "import",
        source,
        "--primary-key",
        "id",
        "--crs",
        "EPSG:4326",
    ]
    source.write_text(FIRST)
    succeed(invoke([*common, "-m", "First"]))
    source.write_text(SECOND)
    succeed(invoke([*common, "--replace", "-m", "Second"]))
    return repo


@pytest.fixture
def repo(template: Path, tmp_path: Path) -> Path:
    """A repository with the dataset `points`: 2 updated, 3 deleted, 4 inserted since `HEAD^`."""
    return copy_tree(template, tmp_path / "repo")


@pytest.fixture
def run(repo: Path) -> Run:
    """Run a command on the repository: `run("log", "-n1")`."""

    def run_here(*arguments: str | Path, stdin: str | bytes = "") -> Result:
        return invoke(["-C", repo, *arguments], stdin=stdin)

    return run_here


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    """A table to import, as the first commit has it."""
    path = tmp_path / "table.csv"
    path.write_text(FIRST)
    return path
