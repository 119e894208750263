"""When the rows of a living working copy are counted, and when its triggers are enough."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from havasu_vc.exchange.living_file import LivingFile
from tests.cli.commands.test_workingcopy import Edit, editor
from tests.cli.conftest import FIRST, Run, invoke, succeed

Act = Callable[[Path], None]


@pytest.fixture(params=["havasu", "kart"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A repository with two tables, and a working copy."""
    folder, source = tmp_path / "repo", tmp_path / "points.csv"
    succeed(invoke(["init", folder, *(["--kart"] if request.param == "kart" else [])]))
    source.write_text(FIRST)
    for name in ("points", "others"):
        common = (source, name, "--primary-key", "id", "--crs", "EPSG:4326")
        succeed(invoke(["-C", folder, "import", *common]))
    succeed(invoke(["-C", folder, "create-workingcopy"]))
    return folder


@pytest.fixture
def here(repo: Path) -> Path:
    return repo / "repo.gpkg"


@pytest.fixture
def edit(here: Path) -> Edit:
    def run(statement: str) -> None:
        with editor(here) as database:
            database.execute(statement)

    return run


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names the tables whose rows are counted."""
    tables: list[str] = []
    count = LivingFile.count

    def noted(self: LivingFile, seen: object) -> int:
        tables.append(seen.table)  # type: ignore[attr-defined]
        return count(self, seen)  # type: ignore[arg-type]

    monkeypatch.setattr(LivingFile, "count", noted)
    return tables


@contextmanager
def triggers_away(path: Path, table: str) -> Iterator[sqlite3.Connection]:
    """Edit a table while its triggers are gone, and have them again as they were."""
    with editor(path) as database:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE ?"
        found = database.execute(query, (f"%_track_{table}_%",)).fetchall()
        assert len(found) == 3
        for name, _ in found:
            database.execute(f"DROP TRIGGER {name}")
        yield database
        for _, statement in found:
            database.execute(statement)


def test_no_row_is_counted_while_triggers_see_all(
    run: Run, edit: Edit, counted: list[str], here: Path
) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("DELETE FROM points WHERE id = 2")
    edit("INSERT OR REPLACE INTO points (id, name) VALUES (3, 'drei')")
    edit("UPDATE OR REPLACE others SET id = 2 WHERE id = 1")
    assert "1 deletes" in succeed(run("status")).stdout
    succeed(run("diff"))
    succeed(run("commit", "-m", "Edited"))
    succeed(run("checkout", "-b", "side", "HEAD^"))
    edit("INSERT INTO points (id, name) VALUES (8, 'eight')")
    succeed(run("commit", "-m", "Eight"))
    assert counted == []
    with closing(sqlite3.connect(here)) as database:
        names = database.execute("SELECT id, name FROM points ORDER BY id").fetchall()
        assert names == [(1, "one"), (2, "two"), (3, "three"), (8, "eight")]
        assert len(database.execute("SELECT 1 FROM others").fetchall()) == 3


def packed(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("VACUUM")


def swapped(path: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    copy.replace(path)


def told_of_styles(path: Path) -> None:
    with editor(path) as database:
        database.execute("CREATE TABLE layer_styles (id INTEGER PRIMARY KEY, f_table_name TEXT)")


@pytest.mark.parametrize("act", [swapped, packed, told_of_styles])
def test_all_are_counted_after_it_changed_otherwise(
    run: Run, edit: Edit, counted: list[str], here: Path, act: Act
) -> None:
    act(here)
    succeed(run("status"))
    assert set(counted) == {"points", "others"}
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    edit("UPDATE others SET name = 'uno' WHERE id = 1")
    succeed(run("commit", "-m", "Edited"))
    counted.clear()
    succeed(run("status"))
    assert counted == []  # they were right, and the commit noted that


def test_rows_lost_while_triggers_were_away_are_seen_after_another_commit(
    run: Run, edit: Edit, here: Path
) -> None:
    with triggers_away(here, "others") as database:
        database.execute("DELETE FROM others WHERE id = 2")
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    succeed(run("commit", "points", "-m", "Only points"))
    told = succeed(run("status")).stdout
    assert "others: it has more or fewer rows than were tracked" in told and "1 deletes" in told
    succeed(run("commit", "-m", "Others"))
    assert "working copy clean" in succeed(run("status")).stdout


def test_a_row_that_another_unique_column_took_is_seen(run: Run, edit: Edit, here: Path) -> None:
    edit("CREATE UNIQUE INDEX by_name ON points (name)")
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    succeed(run("commit", "-m", "An index"))
    edit("INSERT OR REPLACE INTO points (id, name) VALUES (9, 'two')")
    told = succeed(run("status")).stdout
    assert "1 inserts" in told and "1 deletes" in told


def test_a_refused_command_notes_nothing(run: Run, here: Path) -> None:
    told_of_styles(here)
    before = here.read_bytes()
    assert run("add-dataset", "absent").exit_code != 0
    assert here.read_bytes() == before
