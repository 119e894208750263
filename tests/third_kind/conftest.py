"""A repository with a dataset of a kind that the product does not know, beside the known ones."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import havasu_vc.merging.takeover  # noqa: F401  loaded before there is a third kind
from havasu_vc import Repo
from havasu_vc.cli.commands.datasets import convert
from havasu_vc.cli.commands.import_ import command as import_
from havasu_vc.datasets.kinds import added, kind_names
from tests.cli.conftest import invoke, succeed
from tests.support.templates import LOCAL
from tests.third_kind import LINES

Rows = Mapping[int, tuple[Any, ...]]

FIRST: Rows = {n: (f"name {n}", n / 2, 170.0 + n, -40.0) for n in range(1, 9)}
SECOND: Rows = {
    **{n: row for n, row in FIRST.items() if n not in (3, 5)},
    2: ("TWO", 1.0, 172.0, -40.0),
    9: ("nine", 4.5, 179.0, -41.0),
}


@pytest.fixture(autouse=True)
def third(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the third kind, also among the choices that were made when commands were loaded."""
    with added(LINES):
        for command, option in ((import_, "kind"), (convert, "kind")):
            (given,) = (each for each in command.params if each.name == option)
            monkeypatch.setattr(given.type, "choices", tuple(kind_names()))
        yield


@dataclass(frozen=True)
class Place:
    """A repository with the dataset `points`, and the command line to work on it."""

    path: Path
    kind: str

    def run(self, *arguments: str | Path, stdin: str = "") -> str:
        """Run a command that must not fail, and return what it prints."""
        return succeed(invoke(["-C", self.path, *arguments], stdin=stdin)).stdout

    def refused(self, *arguments: str | Path) -> str:
        """Run a command that must fail, and return what it says."""
        result = invoke(["-C", self.path, *arguments])
        assert result.exit_code not in (0, 1), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.stderr

    def json(self, *arguments: str | Path) -> Any:
        """Run a command that prints JSON."""
        return json.loads(self.run(*arguments, "-o", "json"))

    @property
    def repo(self) -> Repo:
        return Repo.open(self.path, settings=LOCAL)

    def rows(self, revision: str = "HEAD", dataset: str = "points") -> dict[int, tuple[Any, ...]]:
        """Return the rows at a revision, without their geometry."""
        columns = ("id", "name", "height")
        found = self.repo.table(dataset, revision).to_arrow(columns).to_pylist()
        return {row["id"]: (row["name"], row["height"]) for row in found}

    def kind_at(self, revision: str = "HEAD", dataset: str = "points") -> str:
        return self.repo.dataset(dataset, revision).kind

    def sound(self) -> None:
        """Check that nothing is found wrong."""
        self.run("fsck", "--full")


@pytest.fixture(
    params=[
        "lines",
        pytest.param("havasu", marks=pytest.mark.thorough),
        pytest.param("kart", marks=pytest.mark.thorough),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    """The third kind, and the others, which do the same."""
    found: str = request.param
    return found


@pytest.fixture
def place(tmp_path: Path, kind: str) -> Iterator[Place]:
    """Two commits: the rows of FIRST, and those of SECOND."""
    made = Place(tmp_path / "repo", kind)
    succeed(invoke(["init", made.path]))
    take_in(made, FIRST, "--as", kind, "-m", "First")
    take_in(made, SECOND, "--replace", "-m", "Second")
    yield made
    made.sound()


def take_in(place: Place, rows: Rows, *options: str, dataset: str = "points") -> str:
    """Import rows from a CSV file."""
    file = place.path.parent / "points.csv"
    lines = [",".join(map(str, (number, *row))) for number, row in rows.items()]
    file.write_text("\n".join(["id,name,height,lon,lat", *lines]) + "\n")
    given = ("--primary-key", "id", "--crs", "EPSG:4326", "--csv-drop-coordinates")
    return place.run("import", file, dataset, *given, *options)


def short(rows: Rows) -> dict[int, tuple[Any, ...]]:
    """Return rows without their places."""
    return {number: row[:2] for number, row in sorted(rows.items())}
