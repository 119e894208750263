"""A week of two people on one repository and one working copy, one with Kart and one with ours.

An editor edits by SQL in the GeoPackage, as QGIS does; what is committed, pulled, settled, set
aside and undone is done by either program, and then all of it again with the two changed over.
After every step both print the same. Needs `HAVASU_VC_KART`, as `test_kart_itself` has it.
"""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import chdir, closing
from pathlib import Path
from unittest import mock

import pytest

from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import FIRST, invoke, succeed
from tests.compat.test_kart_itself import KART

pytestmark = [
    pytest.mark.kart,
    pytest.mark.skipif(not KART, reason="HAVASU_VC_KART names no command that runs Kart"),
]

PRINTED = (
    "status -o json",
    "status",
    "diff -o json",
    "diff HEAD^?...HEAD -o json",
    "log -o json",
    "data ls",
    "meta get -o json",
)
IN_A_MERGE = ("status -o json", "status", "conflicts -o json", "log -o json", "data ls")


def comparable(text: str) -> list[str]:
    """Return lines without what Kart draws anew each time.

    That is the order of meta items, and the ids of columns that are not committed yet.
    """
    plain = re.sub(r'"id": "[0-9a-f]{8}-[0-9a-f-]{27}"', '"id": "ID"', text)
    return sorted(line.removesuffix(",") for line in plain.splitlines())


class Desk:
    """A repository with its working copy, on which both programs work in turn."""

    def __init__(self, place: Path, first: str) -> None:
        self.place = place
        self.programs = {"ours": self.ours, "theirs": self.theirs}
        self.names = ("ours", "theirs") if first == "ours" else ("theirs", "ours")
        self.merging = False
        self.done: list[str] = []

    def ours(self, words: list[str], code: int | None = 0) -> str:
        with mock.patch.object(sys, "argv", ["kart", *words]), chdir(self.place):
            found = invoke([*words])
        assert code is None or found.exit_code == code, (words, found.output)
        return found.stdout

    def theirs(self, words: list[str], code: int | None = 0) -> str:
        assert KART is not None
        found = subprocess.run([KART, *words], cwd=self.place, capture_output=True, text=True)
        assert code is None or found.returncode == code, (words, found.stdout + found.stderr)
        return found.stdout

    def one(self, *words: str) -> str:
        return self.does(self.names[0], *words)

    def other(self, *words: str) -> str:
        return self.does(self.names[1], *words)

    def does(self, name: str, *words: str) -> str:
        self.done.append(f"{name}: {' '.join(words)}")
        said = self.programs[name](list(words))
        self.agree()
        return said

    def edits(self, *statements: str) -> None:
        with editor(next(self.place.glob("*.gpkg"))) as database:
            for each in statements:
                self.done.append(each)
                database.execute(each)
        self.agree()

    def agree(self) -> None:
        """Hold what both print against each other."""
        for line in IN_A_MERGE if self.merging else PRINTED:
            mine, its = (program(line.split(), None) for program in (self.ours, self.theirs))
            if mine != its:
                assert line != "status" and comparable(mine) == comparable(its), self.done[-3:]
        with closing(sqlite3.connect(next(self.place.glob("*.gpkg")))) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.fixture(params=["ours", "theirs"])
def desks(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Desk, Desk]:
    """A desk with a table, what it was pushed to, and the desk of a colleague, cloned from that."""
    assert KART is not None
    monkeypatch.setenv("EDITOR", "true")
    # Kart's hook before a push runs `kart`.
    monkeypatch.setenv("PATH", f"{Path(KART).parent}{os.pathsep}{os.environ['PATH']}")
    made, source = tmp_path / "made", tmp_path / "source.csv"
    source.write_text(FIRST)
    succeed(invoke(["init", made, "--kart"]))
    how = ["--primary-key", "id", "--crs", "EPSG:4326"]
    succeed(invoke(["-C", made, "import", source, "points", *how]))
    succeed(invoke(["-C", made, "export", "points", tmp_path / "points.gpkg"]))
    start = Desk(tmp_path, request.param)
    first, second = (start.programs[name] for name in start.names)
    first(["init", "--bare", "up.git"])
    second(["init", "desk"])
    desk = Desk(tmp_path / "desk", request.param)
    desk.one("import", str(tmp_path / "points.gpkg"), "points")
    desk.other("remote", "add", "origin", str(tmp_path / "up.git"))
    desk.one("push", "-u", "origin", "main")
    second(["clone", "up.git", "away"])
    return desk, Desk(tmp_path / "away", start.names[1])


def test_a_week(desks: tuple[Desk, Desk], tmp_path: Path) -> None:
    desk, away = desks
    each_edits_rows_of_their_own(desk, away)
    one_row_is_edited_by_both(desk, away)
    columns_and_tables_change(desk)
    there_and_back(desk, tmp_path / "patch.json")
    what_kart_has_not(desk)
    desk.one("push")
    away.other("pull")


def each_edits_rows_of_their_own(desk: Desk, away: Desk) -> None:
    desk.edits(
        "UPDATE points SET name = 'eins' WHERE id = 1",
        "DELETE FROM points WHERE id = 3",
        "INSERT INTO points (id, geom, name) SELECT 7, geom, 'seven' FROM points WHERE id = 2",
    )
    desk.one("commit", "-m", "Monday")
    desk.one("push")
    away.one("pull")
    away.edits(
        "UPDATE points SET height = 99 WHERE id = 2",
        "INSERT INTO points (id, name) VALUES (20, 'twenty')",
    )
    away.one("commit", "-m", "Heights")
    away.other("push")
    desk.edits("UPDATE points SET name = 'sieben' WHERE id = 7")
    desk.other("commit", "-m", "Seven")
    desk.other("pull")
    desk.one("push")
    desk.edits("UPDATE gpkg_contents SET identifier = 'Places', description = 'Of the week'")
    desk.one("commit", "-m", "Title")
    desk.one("tag", "tuesday")


def one_row_is_edited_by_both(desk: Desk, away: Desk) -> None:
    desk.edits("UPDATE points SET name = 'desk' WHERE id IN (1, 2)")
    desk.one("commit", "-m", "Desk")
    away.other("pull")
    away.edits(
        "UPDATE points SET name = 'away' WHERE id IN (1, 2)", "DELETE FROM points WHERE id = 20"
    )
    away.other("commit", "-m", "Away")
    away.one("push")
    desk.merging = True
    desk.other("pull")
    desk.one("resolve", "points:feature:1", "--with=ours")
    desk.other("resolve", "points:feature:2", "--with=theirs")
    desk.merging = False
    desk.one("merge", "--continue", "-m", "Settled")
    desk.other("push")


def columns_and_tables_change(desk: Desk) -> None:
    desk.edits(
        "ALTER TABLE points ADD COLUMN note TEXT", "UPDATE points SET note = 'seen' WHERE id = 1"
    )
    desk.other("commit", "-m", "A column")
    renamed = "ALTER TABLE points RENAME COLUMN note TO remark"
    desk.edits(renamed, "UPDATE points SET name = 'x' WHERE id = 2")
    desk.one("restore")
    desk.edits("UPDATE points SET name = 'x' WHERE id = 2", "DELETE FROM points WHERE id = 1")
    desk.other("restore", "points:feature:1")
    desk.one("restore", "points")
    desk.edits(renamed, "UPDATE points SET name = 'x' WHERE id = 2")
    desk.one("commit", "-m", "Renamed")
    desk.edits(
        "CREATE TABLE owners (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, name TEXT, day DATE)",
        "INSERT INTO gpkg_contents (table_name, data_type, identifier) "
        "VALUES ('owners', 'attributes', 'Owners')",
        "INSERT INTO owners VALUES (1, 'Ann', '2020-01-02'), (2, 'Ben', NULL)",
    )
    desk.one("add-dataset", "owners", "-m", "Owners")
    desk.edits(
        "UPDATE owners SET name = 'Anna' WHERE id = 1", "UPDATE points SET height = 0 WHERE id = 1"
    )
    desk.other("commit", "owners", "-m", "Anna")
    desk.one("commit", "-m", "The rest")
    desk.other("mv", "owners", "people/owners", "-m", "Moved")
    desk.one("meta", "set", "people/owners", "title=People")
    desk.other("meta", "set", "points", "description=Places of the week", "title=Places!")


def there_and_back(desk: Desk, patch: Path) -> None:
    desk.one("switch", "-c", "side")
    desk.edits("UPDATE points SET name = '5' WHERE id = 7", "ALTER TABLE points DROP COLUMN height")
    desk.one("commit", "-m", "No heights")
    desk.other("switch", "main")
    desk.edits("UPDATE people__owners SET name = 'Bea' WHERE id = 2")
    desk.other("commit", "-m", "Bea")
    patch.write_text(desk.one("create-patch", "HEAD"))
    desk.one("merge", "side", "-m", "Both")
    desk.other("reset", "--discard-changes", "HEAD^^")
    desk.one("apply", str(patch))
    desk.edits("DELETE FROM people__owners")
    desk.one("restore", "people/owners")
    desk.other("checkout", "tuesday")
    desk.one("switch", "main")
    desk.other("data", "rm", "people/owners", "-m", "No owners")
    desk.one("reset", "--discard-changes", "HEAD^")
    desk.edits(
        "DROP TABLE people__owners",
        "DELETE FROM gpkg_contents WHERE table_name = 'people__owners'",
    )
    desk.one("commit", "-m", "Dropped")
    desk.other("create-workingcopy", "--delete-existing")


def what_kart_has_not(desk: Desk) -> None:
    desk.edits("UPDATE points SET name = 'y' WHERE id = 7")
    desk.does("ours", "stash", "push")
    desk.other("switch", "side")
    desk.one("switch", "main")
    desk.does("ours", "stash", "pop")
    desk.does("ours", "commit", "--amend", "-m", "Dropped, and one name")
    desk.does("ours", "revert", "HEAD")
