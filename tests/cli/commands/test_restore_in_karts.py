"""`restore -s` in a repository of Kart's: edits that it overwrites are named, others stay."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.templates import again

SHOPS = "id,name\n1,baker\n2,butcher\n"
PARKS = "id,name\n1,north\n2,south\n"


def _made(repo: Path) -> None:
    succeed(invoke(["init", "--kart", repo]))
    for name, text in (("shops", SHOPS), ("parks", PARKS)):
        source = repo.parent / f"{name}.csv"
        source.write_text(text)
        succeed(invoke(["-C", repo, "import", source, "--primary-key", "id"]))
    succeed(invoke(["-C", repo, "create-workingcopy", "copy.gpkg"]))
    edit(repo, "UPDATE shops SET name = 'smith' WHERE id = 1")
    succeed(invoke(["-C", repo, "commit", "-m", "Smith"]))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    again(("kart-restore",), _made, repo)
    return repo


def edit(repo: Path, statement: str) -> None:
    with closing(sqlite3.connect(repo / "copy.gpkg", isolation_level=None)) as database:
        database.execute(statement)


def rows(repo: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(repo / "copy.gpkg")) as database:
        return [row[0] for row in database.execute(f"SELECT name FROM {table} ORDER BY id")]


def edited(repo: Path) -> list[str]:
    found = json.loads(succeed(invoke(["-C", repo, "diff", "-o", "json"])).stdout)
    return sorted(found["kart.diff/v1+hexwkb"])


def test_edits_of_others_stay(repo: Path) -> None:
    edit(repo, "UPDATE parks SET name = 'east' WHERE id = 1")
    done = succeed(invoke(["-C", repo, "restore", "-s", "HEAD^", "shops"]))
    assert "Dropped" not in done.stdout
    assert rows(repo, "shops") == ["baker", "butcher"]
    assert rows(repo, "parks") == ["east", "south"]
    assert edited(repo) == ["parks", "shops"]


@pytest.mark.parametrize(("source", "first"), [("HEAD^", "baker"), ("HEAD", "smith")])
@pytest.mark.parametrize("filters", [["shops"], []])
def test_what_is_overwritten_is_named(
    repo: Path, source: str, first: str, filters: list[str]
) -> None:
    edit(repo, "UPDATE parks SET name = 'east' WHERE id = 1")
    edit(repo, "UPDATE shops SET name = 'tailor' WHERE id = 2")
    done = succeed(invoke(["-C", repo, "restore", "-s", source, *filters]))
    told = [line for line in done.stdout.splitlines() if line.startswith("Dropped")]
    dropped = filters or ["parks", "shops"]
    assert told == [f"Dropped the edits of {path}" for path in dropped]
    assert rows(repo, "shops") == [first, "butcher"]
    assert rows(repo, "parks") == ["east" if filters else "north", "south"]


def test_parts_of_a_table_come_back_beside_edits_of_others(repo: Path) -> None:
    succeed(invoke(["-C", repo, "meta", "set", "shops", "title=Shops", "-m", "Named"]))
    edit(repo, "UPDATE shops SET name = 'tailor' WHERE id = 2")
    succeed(invoke(["-C", repo, "restore", "-s", "HEAD^", "shops:meta:title"]))
    assert rows(repo, "shops") == ["smith", "tailor"]
    (found,) = json.loads(succeed(invoke(["-C", repo, "diff", "-o", "json"])).stdout).values()
    assert list(found["shops"]["meta"]) == ["title"]
    assert [each["+"]["id"] for each in found["shops"]["feature"]] == [2]
    succeed(invoke(["-C", repo, "restore", "-s", "HEAD~2", "shops:feature"]))
    assert rows(repo, "shops") == ["baker", "butcher"]
    (found,) = json.loads(succeed(invoke(["-C", repo, "diff", "-o", "json"])).stdout).values()
    assert list(found["shops"]["meta"]) == ["title"], "the title stays edited"
    assert [each["+"]["id"] for each in found["shops"]["feature"]] == [1]


def test_programs_are_told_too(repo: Path) -> None:
    edit(repo, "UPDATE shops SET name = 'tailor' WHERE id = 2")
    done = succeed(invoke(["-C", repo, "restore", "-s", "HEAD", "shops", "-o", "json"]))
    assert json.loads(done.stdout)["havasu.restore/v1"]["dropped"] == ["shops"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["-s", "nosuch", "shops"], 47),
        (["-s", "HEAD", "nosuch"], 2),
        (["-s", "HEAD", "shops", "nosuch"], 2),
        (["-s", "HEAD~1", "-n"], 0),
        (["-s", "HEAD~2"], 2),
    ],
)
def test_nothing_goes_where_it_is_refused(repo: Path, arguments: list[str], code: int) -> None:
    edit(repo, "UPDATE shops SET name = 'tailor' WHERE id = 2")
    done = invoke(["-C", repo, "restore", *arguments])
    assert done.exit_code == code, done.output
    assert rows(repo, "shops") == ["smith", "tailor"]
    assert edited(repo) == ["shops"]


def test_what_is_as_it_was_is_no_error(repo: Path) -> None:
    done = succeed(invoke(["-C", repo, "restore", "-s", "HEAD", "shops"]))
    assert done.stdout.startswith("Nothing to restore: it is as it is at HEAD")


@pytest.mark.parametrize(
    ("part", "names", "said"),
    [
        ("shops:feature:1", ["smith", "tailor"], ["Stores", "Where one buys"]),
        ("shops:feature", ["smith", "butcher"], ["Stores", "Where one buys"]),
        ("shops:meta:title", ["miller", "tailor"], ["shops: ", "Where one buys"]),
        ("shops:meta", ["miller", "tailor"], ["shops: ", None]),
        ("shops", ["smith", "butcher"], ["shops: ", None]),
    ],
)
def test_of_a_table_what_is_named_alone_is_dropped(
    repo: Path, part: str, names: list[str], said: list[str | None]
) -> None:
    """What the table says of itself stays where rows are restored, and each item by itself."""
    for key, name in ((1, "miller"), (2, "tailor")):
        edit(repo, f"UPDATE shops SET name = '{name}' WHERE id = {key}")
    what = "identifier = 'Stores', description = 'Where one buys'"
    edit(repo, f"UPDATE gpkg_contents SET {what} WHERE table_name = 'shops'")
    succeed(invoke(["-C", repo, "restore", part]))
    assert rows(repo, "shops") == names
    with closing(sqlite3.connect(repo / "copy.gpkg")) as database:
        query = "SELECT identifier, description FROM gpkg_contents WHERE table_name = 'shops'"
        assert list(database.execute(query).fetchone()) == said
