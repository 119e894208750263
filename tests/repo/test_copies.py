"""Copies to edit in QGIS and their return; exports."""

import contextlib
import math
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyogrio
import pytest
import shapely

from havasu_vc.errors import (
    ConflictError,
    HavasuError,
    InvalidArgumentError,
    InvalidFileError,
    KeyViolationError,
    LockedError,
    NoChangesError,
    UncommittedChangesError,
)
from havasu_vc.exchange.source import SourceOptions
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import CheckedRepo, checked, refuses

pytestmark = pytest.mark.few(3)


@pytest.fixture
def copy(filled: CheckedRepo, tmp_path: Path) -> Path:
    file = tmp_path / "edit.gpkg"
    filled.checkout_as(file)
    return file


def execute(file: Path, *statements: str) -> None:
    """Edit as a program without spatial functions does: triggers that need them are dropped."""
    with sqlite3.connect(file) as connection:
        names = [
            name
            for name, sql in connection.execute(
                "select name, sql from sqlite_master where type = 'trigger'"
            )
            if "ST_" in sql
        ]
        for name in names:
            connection.execute(f'drop trigger "{name}"')
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_a_copy_without_edits_has_nothing_to_commit(filled: CheckedRepo, copy: Path) -> None:
    with refuses(filled.repo, NoChangesError):
        filled.repo.commit_from(copy)
    with pytest.raises(NoChangesError):
        filled.repo.commit_from(copy)


def test_datasets_of_one_title_are_layers_of_a_copy(filled: CheckedRepo, tmp_path: Path) -> None:
    filled.import_(write(tmp_path / "more.parquet", points(5)), "more", options=BY_ID)
    for name in ("points", "more"):
        filled.set_meta(name, {"title": "Points of the town"})
    file = tmp_path / "both.gpkg"
    filled.checkout_as(file)
    with closing(sqlite3.connect(file)) as opened:
        titles = {row[0] for row in opened.execute("SELECT identifier FROM gpkg_contents")}
    assert "Points of the town" in titles and len(titles) == 2
    execute(file, "update more set name = 'edited' where id = 3")
    assert filled.commit_from(file).changes.keys() == {"more"}


def test_edits_come_back(filled: CheckedRepo, copy: Path) -> None:
    execute(
        copy,
        "update points set name = 'edited' where id = 5",
        "delete from points where id = 6",
        "insert into points (id, name, number) values (777, 'new', 3)",
        "update points set geom = (select geom from points where id = 9) where id = 8",
    )
    dry = filled.commit_from(copy, dry_run=True)
    assert dry.commit is None and dry.changes["points"].total == 4
    result = filled.commit_from(copy, message="in QGIS")
    counts = result.changes["points"]
    assert (counts.inserts, counts.updates, counts.deletes) == (1, 2, 1)
    found = {row["id"]: row for row in rows(filled, "points")}
    before = points(100).to_pylist()
    assert found[5]["name"] == "edited" and 6 not in found
    assert found[777] == {"id": 777, "geom": None, "name": "new", "number": 3}
    assert found[8]["geom"] == before[9]["geom"] and found[8]["name"] == before[8]["name"]
    assert len(found) == 100


def test_edits_are_merged_with_what_head_has_since(filled: CheckedRepo, copy: Path) -> None:
    execute(
        copy,
        "update points set name = 'edited' where id in (1, 5)",
        "delete from points where id = 6",
        "alter table points add column note text",
        "update points set note = 'n' where id = 7",
    )
    filled.write("points", pa.table({"id": [1, 300], "number": [-1, -2]}))
    filled.write("points", pa.table({"id": [2]}), mode="delete")

    result = filled.commit_from(copy)

    found = {row["id"]: row for row in rows(filled, "points")}
    assert (found[1]["name"], found[1]["number"]) == ("edited", -1)
    assert found[5]["name"] == "edited" and found[7]["note"] == "n"
    assert found.keys() == {*range(100), 300} - {2, 6}
    counts = result.changes["points"]
    assert (counts.inserts, counts.updates, counts.deletes) == (0, 3, 1)
    assert any("new copy" in note for note in result.notes)
    # The copy stays one of its commit: what is in HEAD by now is no edit any more.
    with refuses(filled.repo, NoChangesError):
        filled.repo.commit_from(copy)
    execute(copy, "update points set name = 'later' where id = 9")
    assert filled.commit_from(copy).changes["points"].total == 1


def test_cells_that_head_changed_too_are_refused_with_a_way_out(
    filled: CheckedRepo, copy: Path
) -> None:
    execute(copy, "update points set name = 'edited' where id = 5")
    filled.write("points", pa.table({"id": [5], "name": ["x"]}))
    with refuses(filled.repo, ConflictError, hint=True):
        filled.repo.commit_from(copy)
    filled.switch("edits", create=True, start="HEAD^")
    filled.commit_from(copy)
    assert rows(filled, "points")[5]["name"] == "edited"
    filled.switch("main")
    assert filled.merge("edits").kind == "conflicts"


def test_another_dataset_may_have_changed(filled: CheckedRepo, copy: Path, tmp_path: Path) -> None:
    execute(copy, "update points set name = 'edited' where id = 5")
    filled.import_(write(tmp_path / "more.parquet", points(5)), options=BY_ID)
    filled.commit_from(copy)
    assert rows(filled, "points")[5]["name"] == "edited"


def test_a_column_added_in_the_copy(filled: CheckedRepo, copy: Path) -> None:
    execute(
        copy,
        "alter table points add column note text",
        "update points set note = 'n' where id < 3",
    )
    filled.commit_from(copy)
    assert [row.get("note") for row in rows(filled, "points")[:4]] == ["n", "n", "n", None]
    assert list(filled.fsck(full=True)) == []


def test_a_copy_of_elsewhere_is_refused(filled: CheckedRepo, copy: Path, tmp_path: Path) -> None:
    other = checked(tmp_path / "other")
    other.import_(write(tmp_path / "p.parquet", points(7)), "points", options=BY_ID)
    with refuses(other.repo, HavasuError):
        other.repo.commit_from(copy)
    with refuses(filled.repo, InvalidArgumentError, hint=True):
        filled.repo.commit_from(copy, dataset="none")


def test_several_datasets_in_one_copy(filled: CheckedRepo, tmp_path: Path) -> None:
    filled.import_(write(tmp_path / "more.parquet", points(5)), "a/more", options=BY_ID)
    file = tmp_path / "both.gpkg"
    filled.checkout_as(file)
    with pytest.raises(HavasuError):
        filled.checkout_as(file)
    filled.checkout_as(file, overwrite=True)
    with sqlite3.connect(file) as connection:
        names = [n for (n,) in connection.execute("select table_name from gpkg_contents")]
    connection.close()
    assert len(names) == 2
    execute(file, *(f"update \"{name}\" set name = 'x' where id = 1" for name in names))
    result = filled.commit_from(file)
    assert {path: c.total for path, c in result.changes.items()} == {"a/more": 1, "points": 1}
    assert len(filled.log()) == 3


def test_a_null_or_equal_key_in_a_copy_is_refused(filled: CheckedRepo, copy: Path) -> None:
    file = copy.with_suffix(".parquet")
    twice = pa.concat_tables([points(100), points(1)])
    with refuses(filled.repo, KeyViolationError):
        filled.repo.commit_from(write(file, twice), dataset="points")
    filled.commit_from(write(file, points(99)), dataset="points")
    assert len(rows(filled, "points")) == 99


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", ["parquet", "gpkg", "geojson", "fgb", "csv", "shp"])
def test_an_export_that_comes_back_is_the_same_table(
    filled: CheckedRepo, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"out.{suffix}"
    assert filled.export("points", file).rows == 100
    filled.import_(file, "back", options=SourceOptions(primary_key=("id",)))
    found = rows(filled, "back")
    names = ("id", "name", "number")
    assert [[row[n] for n in names] for row in found] == [
        [row[n] for n in names] for row in points(100).to_pylist()
    ]
    if suffix in ("parquet", "gpkg"):
        replaced = filled.import_(file, "points", replace=True)
        assert replaced.datasets["points"].total == 0
    assert list(filled.fsck(full=True)) == []


def test_exports_of_revisions_columns_and_changes(filled: CheckedRepo, tmp_path: Path) -> None:
    filled.write("points", pa.table({"id": [1, 500], "name": ["a", "b"]}))
    filled.write("points", pa.table({"id": [2]}), mode="delete")
    assert filled.export("points", tmp_path / "1.parquet", revision="HEAD~2").rows == 100
    filled.export("points", tmp_path / "2.csv", columns=["name", "id"])
    assert (tmp_path / "2.csv").read_text().splitlines()[0] == '"name","id"'
    changes = filled.export_changes("points", tmp_path / "3.parquet", "HEAD~2...HEAD")
    assert changes.rows == 4  # an update is two
    actions: list[Callable[[], object]] = [
        lambda: filled.repo.export("points", tmp_path / "1.parquet"),
        lambda: filled.repo.export("none", tmp_path / "x.parquet"),
        lambda: filled.repo.export("points", tmp_path / "x.odd"),
        lambda: filled.repo.export("points", tmp_path / "no" / "x.parquet"),
        lambda: filled.repo.export("points", tmp_path / "x.csv", columns=["none"]),
        lambda: filled.repo.export("points", tmp_path / "x.csv", format="odd"),
        lambda: filled.repo.export_changes("points", tmp_path / "x.csv", "HEAD...HEAD"),
    ]
    for action in actions:
        with refuses(filled.repo, HavasuError):
            action()
    assert sorted(p.name for p in tmp_path.glob("x*")) == []


@pytest.fixture
def exact(filled: CheckedRepo, tmp_path: Path) -> Path:
    """A copy of a table with cells that a GeoPackage does not hold exactly."""
    table = pa.table(
        {
            "id": [1, 2, 3],
            "x": [math.nan, -0.0, math.nan],
            "y": [math.nan, 1.0, 2.0],
            "at": pa.array([1_000_001, None, 7], pa.timestamp("us")),
            "text": ["a\0b", "c", "d\0"],
            "geom": pa.array([None, None, shapely.to_wkb(OWN, include_srid=True)], pa.binary()),
        }
    )
    source = write(tmp_path / "exact.parquet", table)
    filled.import_(str(source), "exact", options=BY_ID)
    file = tmp_path / "exact.gpkg"
    filled.checkout_as(file, ["exact"])
    return file


OWN = shapely.set_srid(shapely.Point(1, 2), 3857)


@pytest.mark.thorough
def test_exact_cells_follow_columns_that_are_renamed(filled: CheckedRepo, exact: Path) -> None:
    before = rows(filled, "exact")
    for statement in (
        "alter table exact rename column x to z",
        "alter table exact rename column y to other",
        "alter table exact rename column z to y",
        "alter table exact rename column at to moment",
        "alter table exact drop column text",
        "alter table exact add column text text",
    ):
        execute(exact, statement)
        filled.commit_from(exact)
        with pytest.raises(NoChangesError):
            filled.commit_from(exact)
    names = {"x": "y", "y": "other", "at": "moment"}
    before = [row | {"text": None} for row in before]  # another column of that name
    expected = [{names.get(name, name): cell for name, cell in row.items()} for row in before]
    assert repr([sorted(row.items()) for row in rows(filled, "exact")]) == repr(
        [sorted(row.items()) for row in expected]
    )


@pytest.mark.thorough
def test_an_exact_cell_that_was_edited_is_forgotten(filled: CheckedRepo, exact: Path) -> None:
    execute(exact, "update exact set x = 3, text = 'new' where id = 1")
    filled.commit_from(exact)
    execute(exact, "update exact set x = null, text = 'a' where id = 1")
    filled.commit_from(exact)
    first, _, third = rows(filled, "exact")
    assert (first["x"], first["text"]) == (None, "a")
    assert math.isnan(first["y"]) and math.isnan(third["x"])
    execute(exact, "delete from exact where id = 3")
    filled.commit_from(exact)
    execute(exact, "insert into exact (id, text) values (3, 'd')")
    filled.commit_from(exact)
    third = rows(filled, "exact")[2]
    assert third == {"id": 3, "x": None, "y": None, "at": None, "text": "d", "geom": None}


def test_values_that_are_not_what_their_column_says(filled: CheckedRepo, copy: Path) -> None:
    execute(copy, "update points set number = 'seven' where id = 7")
    with refuses(filled.repo, InvalidFileError, match="'seven', which is not a whole", hint=True):
        filled.repo.commit_from(copy)


def test_a_copy_without_its_layers_is_refused(filled: CheckedRepo, copy: Path) -> None:
    execute(copy, "drop table points")
    with refuses(filled.repo, InvalidFileError, match="none of the layers", hint=True):
        filled.repo.commit_from(copy)


@pytest.mark.thorough
def test_a_column_that_outgrew_its_type_goes_out_as_it_is_stored(
    filled: CheckedRepo, tmp_path: Path
) -> None:
    table = pa.table({"id": [1, 2], "n": pa.array([1, 255], pa.uint8()), "e": pa.nulls(2)})
    filled.import_(str(write(tmp_path / "small.parquet", table)), "small", options=BY_ID)
    filled.write("small", pa.table({"id": [2], "n": [70_000], "e": ["text"]}))
    for extension in ("parquet", "gpkg", "csv"):
        file = tmp_path / f"out.{extension}"
        done = filled.export("small", file)
        noted = {note.split("'")[1] for note in done.notes if "outgrown" in note}
        assert noted == {"parquet": {"n", "e"}, "gpkg": {"n"}, "csv": set()}[extension]
        filled.import_(str(file), f"from {extension}", options=BY_ID)
        assert [row["n"] for row in rows(filled, f"from {extension}")] == [1, 70_000]
        assert [row["e"] for row in rows(filled, f"from {extension}")] == [None, "text"]
    given = filled.table("small").to_arrow(source_types=True)
    assert given.to_pydict() == {"id": [1, 2], "n": [1, 70_000], "e": [None, "text"]}
    edited = tmp_path / "edit.gpkg"
    filled.checkout_as(edited, ["small"])
    execute(edited, "update small set n = 80000 where id = 1")
    filled.commit_from(edited)
    assert [row["n"] for row in rows(filled, "small")] == [80_000, 70_000]


# What others put into a copy, and who has it open


def add_layer(file: Path, name: str = "trees") -> None:
    """Save a new layer into a file, as QGIS does."""
    how = {"layer": name, "driver": "GPKG", "append": True, "geometry_type": "Point"}
    shapes = shapely.to_wkb(shapely.points([[1, 2], [3, 4]]))
    pyogrio.raw.write(file, shapes, [np.array(["oak", "elm"])], ["kind"], crs="EPSG:4326", **how)


def test_layers_that_no_dataset_has_are_named(filled: CheckedRepo, copy: Path) -> None:
    add_layer(copy)
    with sqlite3.connect(copy) as database:
        database.execute("create table notes (text)")
    database.close()

    with pytest.raises(NoChangesError) as refused:
        filled.repo.commit_from(copy)
    hints = " ".join(refused.value.hints)
    assert "'trees' (2 rows)" in hints and "'notes' (0 rows)" in hints and "--layer" in hints

    execute(copy, "update points set name = 'edited' where id = 5")
    result = filled.commit_from(copy)
    assert any("'trees' (2 rows) is not committed" in note for note in result.notes)
    filled.import_(copy, layers=["trees"], options=SourceOptions(primary_key=("fid",)))
    assert [row["kind"] for row in rows(filled, "trees")] == ["oak", "elm"]


def test_a_layer_that_is_gone_is_named(filled: CheckedRepo, tmp_path: Path) -> None:
    filled.import_(write(tmp_path / "more.parquet", points(3)), "more", options=BY_ID)
    filled.checkout_as(tmp_path / "both.gpkg")
    execute(tmp_path / "both.gpkg", "drop table more", "update points set name = 'x' where id = 5")

    result = filled.commit_from(tmp_path / "both.gpkg")

    assert any("no layer for more any more" in note for note in result.notes)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("update points set name = 'edited' where id = 5", "1 edited row of points"),
        ("alter table points add column extra text", "edited columns of points"),
        ("create table notes (text)", "the table 'notes' (0 rows)"),
        ("layer", "the table 'trees' (2 rows)"),
    ],
)
def test_a_copy_with_edits_is_not_replaced_unasked(
    filled: CheckedRepo, copy: Path, change: str, named: str
) -> None:
    add_layer(copy) if change == "layer" else execute(copy, change)
    before = copy.read_bytes()

    with refuses(filled.repo, UncommittedChangesError, match=named, hint=True):
        filled.repo.checkout_as(copy, overwrite=True)

    assert copy.read_bytes() == before
    filled.checkout_as(copy, overwrite=True, discard_changes=True)
    with pytest.raises(NoChangesError) as found:
        filled.commit_from(copy)
    assert not found.value.hints


def test_a_copy_of_an_older_commit_without_edits_is_replaced(
    filled: CheckedRepo, copy: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.gpkg"
    filled.checkout_as(other)
    execute(other, "update points set name = 'edited' where id = 5")
    filled.commit_from(other)

    filled.checkout_as(copy, overwrite=True)

    (name,) = sqlite3.connect(copy).execute("select name from points where id = 5").fetchone()
    assert name == "edited"


def test_a_file_that_is_no_copy_is_not_replaced_unasked(
    filled: CheckedRepo, tmp_path: Path
) -> None:
    add_layer(tmp_path / "theirs.gpkg")

    with refuses(filled.repo, UncommittedChangesError, hint=True):
        filled.repo.checkout_as(tmp_path / "theirs.gpkg", overwrite=True)
    filled.checkout_as(tmp_path / "theirs.gpkg", overwrite=True, discard_changes=True)


EDITOR = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.create_function("ST_IsEmpty", 1, lambda shape: None)
for name in ("MinX", "MaxX", "MinY", "MaxY"):
    database.create_function("ST_" + name, 1, lambda shape: 0.0)
database.execute(f"pragma journal_mode = {sys.argv[2]}")
database.execute("pragma wal_autocheckpoint = 0")
if sys.argv[3] != "rest":
    database.execute("begin immediate")
    database.execute("update points set name = 'by an editor' where id < 50")
if sys.argv[3] == "done":
    database.execute("commit")
database.execute("select count(*) from points").fetchone()
print("ready", flush=True)
sys.stdin.readline()
if sys.argv[3] == "crash":
    import os
    os._exit(1)
"""


@contextlib.contextmanager
def editor(file: Path, mode: str, work: str) -> Iterator[subprocess.Popen[str]]:
    """Let another process have a file open."""
    command = [sys.executable, "-c", EDITOR, str(file), mode, work]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()
        process.wait(20)


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("work", ["rest", "busy", "done"])
def test_a_file_is_never_replaced_under_an_editor(
    filled: CheckedRepo, copy: Path, mode: str, work: str
) -> None:
    inode = copy.stat().st_ino
    with editor(copy, mode, work):
        for discard in (False, True):
            with refuses(filled.repo, LockedError, match="open in another program", hint=True):
                filled.repo.checkout_as(copy, overwrite=True, discard_changes=discard)
        with refuses(filled.repo, LockedError, match="open in another program"):
            filled.repo.export("points", copy, overwrite=True)
        assert copy.stat().st_ino == inode

    filled.checkout_as(copy, overwrite=True, discard_changes=True)

    assert not copy.with_name(copy.name + "-wal").exists()
    with closing(sqlite3.connect(copy)) as database:
        found = database.execute("select count(*) from points where name = 'by an editor'")
        assert found.fetchone() == (0,)


def test_edits_in_a_log_that_an_editor_left_are_seen(filled: CheckedRepo, copy: Path) -> None:
    with editor(copy, "wal", "done") as process:
        process.kill()
        process.wait(20)
    assert copy.with_name(copy.name + "-wal").stat().st_size

    with refuses(filled.repo, UncommittedChangesError, match="edited rows of points"):
        filled.repo.checkout_as(copy, overwrite=True)

    filled.commit_from(copy)
    assert sum(row["name"] == "by an editor" for row in rows(filled, "points")) == 50


def test_a_log_without_its_file_is_not_read_into_a_new_one(filled: CheckedRepo, copy: Path) -> None:
    with editor(copy, "wal", "done") as process:
        process.kill()
        process.wait(20)
    copy.unlink()

    with refuses(filled.repo, LockedError, match="log of edits", hint=True):
        filled.repo.checkout_as(copy)
