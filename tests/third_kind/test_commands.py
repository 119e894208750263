"""Every command does with a third kind of dataset what it does with those it knows.

Each says the same of all three, and the same as a dict of rows.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.serving.catalog import Catalog, ServeSettings
from havasu_vc.serving.names import prefix_of
from havasu_vc.serving.reading import load_table
from havasu_vc.serving.routes import Call
from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git
from tests.third_kind.conftest import FIRST, SECOND, Place, short, take_in
from tests.workspace import by_hand

OLD, NEW = short(FIRST), short(SECOND)
CHANGED = sorted(key for key in OLD.keys() | NEW.keys() if OLD.get(key) != NEW.get(key))


def write(place: Place, rows: dict[int, tuple[Any, ...]], *, delete: tuple[int, ...] = ()) -> None:
    """Commit rows without places, and take some out."""
    names, heights = ([row[at] for row in rows.values()] for at in (0, 1))
    if rows:
        given = pa.table({"id": pa.array(rows, pa.int64()), "name": names, "height": heights})
        place.repo.write("points", given)
    if delete:
        place.repo.write("points", pa.table({"id": pa.array(delete, pa.int64())}), mode="delete")


# Looking


def test_an_import_makes_one_and_replaces_it(place: Place) -> None:
    assert (place.rows("HEAD^"), place.rows()) == (OLD, NEW)
    assert (place.kind_at("HEAD^"), place.kind_at()) == (place.kind, place.kind)
    assert "othing" in take_in(place, SECOND, "--replace") + place.run("status")


def test_it_is_listed(place: Place) -> None:
    assert place.run("data", "ls") == "points\n"
    listed = place.run("data", "ls", "--long")
    assert place.kind in listed and f"{len(NEW)} rows" in listed
    (found,) = place.json("data", "ls", "--long")["kart.data.ls/v2"]
    assert (found["path"], found["rows"], found["type"]) == ("points", len(NEW), "table")
    assert "(table.v" in place.run("data", "ls", "--with-dataset-types")


def test_its_rows_are_printed(place: Place) -> None:
    assert "TWO" in place.run("head", "points")
    assert str(len(NEW)) in place.run("count", "points")
    lines = place.run("cat", "points", "-o", "json-lines").splitlines()
    found = {row["id"]: (row["name"], row["height"]) for row in map(json.loads, lines)}
    assert found == NEW
    assert "TWO" in place.run("grep", "TWO")
    described = place.run("describe", "points")
    assert place.kind in described.lower() and "EPSG:4326" in described


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["text", "geojson", "html", "json-lines", "feature-count", "json"])
def test_it_is_compared(place: Place, form: str) -> None:
    told = place.run("diff", "HEAD^..HEAD", "-o", form)
    if form == "feature-count":
        assert f"{len(CHANGED)} features changed" in told
    elif form == "json":
        features = json.loads(told)["kart.diff/v1+hexwkb"]["points"]["feature"]
        told_keys = {(each.get("+") or each.get("-"))["id"] for each in features}
        assert sorted(told_keys) == CHANGED
    elif form == "geojson":
        assert len(json.loads(told)["features"]) == len(CHANGED) + 1  # an update has two
    elif form == "json-lines":
        lines = [json.loads(line) for line in told.splitlines()]
        assert sum(line["type"] == "feature" for line in lines) == len(CHANGED)
        (info,) = (line for line in lines if line["type"] == "datasetInfo")
        assert info["value"]["type"] == "table"
    elif form == "html":
        assert "<html" in told and "points" in told
    else:
        assert "TWO" in told and "nine" in told
    only = place.json("diff", "HEAD^..HEAD", "points:feature:2")["kart.diff/v1+hexwkb"]
    assert [each["+"]["name"] for each in only["points"]["feature"]] == ["TWO"]


def test_a_review_of_it(place: Place) -> None:
    for form in ("markdown", "html", "json"):
        told = place.run("review", "HEAD^...HEAD", "-o", form)
        assert "points" in told or form == "html"


def test_its_past_is_told(place: Place) -> None:
    assert "Second" in place.run("show") and "TWO" in place.run("show")
    told = place.run("log", "points", "--oneline")
    assert told.index("Second") < told.index("First")
    assert "Second" not in place.run("log", "--oneline", "--", "points:feature:1")
    assert "Second" in place.run("log", "--oneline", "--", "points:feature:2")
    second = place.json("log")[0]["commit"]
    blamed = place.run("blame", "points").splitlines()
    assert sum(line.startswith(second[:7]) for line in blamed) == 2, blamed
    assert second[:7] in place.run("blame", "points:feature:2")


def test_it_is_asked_in_sql(place: Place) -> None:
    pytest.importorskip("duckdb")
    told = place.run("sql", "select id, name from points where height > 3 order by id", "-o", "csv")
    wanted = [f"{key},{row[0]}" for key, row in NEW.items() if row[1] > 3]
    assert told.splitlines()[1:] == wanted


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", ["parquet", "csv", "geojson", "gpkg"])
def test_it_is_exported(place: Place, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"out.{suffix}"
    place.run("export", "points@HEAD^", file)
    place.run("import", file, "again", "--primary-key", "id", "--as", place.kind)
    assert place.rows(dataset="again") == OLD
    place.run("export", "points", tmp_path / "changes.parquet", "--changes", "HEAD~2..HEAD")
    assert pq.read_table(tmp_path / "changes.parquet").num_rows >= len(CHANGED)


def test_it_is_exported_as_a_table(place: Place, tmp_path: Path) -> None:
    if place.kind != "havasu":
        said = place.refused("export", "points", tmp_path / "table", "--to", "iceberg")
        assert f"is a {place.kind.capitalize()} dataset" in said
        return
    place.run("export", "points", tmp_path / "table", "--to", "iceberg")
    place.run("import", f"iceberg:{tmp_path / 'table'}", "again", "--as", place.kind)
    assert place.rows(dataset="again") == NEW


# Editing


def test_edits_in_a_workspace_are_committed(place: Place) -> None:
    place.run("checkout")
    table = place.path / "tables" / "points"
    by_hand.insert(table, [{"id": 20, "name": "twenty", "height": 10.0, "geom": None}])
    by_hand.delete(table, [0])
    status = place.json("status")["kart.status/v2"]["workingCopy"]["changes"]
    assert status == {"points": {"feature": {"inserts": 1, "deletes": 1}}}
    assert "twenty" in place.run("diff")
    place.run("stash", "push")
    assert place.json("status")["kart.status/v2"]["workingCopy"]["changes"] == {}
    place.run("stash", "pop")
    place.run("commit", "-m", "Edited")
    gone = min(NEW)
    wanted = {key: row for key, row in NEW.items() if key != gone} | {20: ("twenty", 10.0)}
    assert place.rows() == wanted
    assert place.kind_at() == place.kind
    place.run("checkout", "HEAD^^")
    assert place.rows() == OLD
    place.run("checkout", "main")
    by_hand.delete(table, [0])
    place.run("restore", "points")
    assert place.json("status")["kart.status/v2"]["workingCopy"]["changes"] == {}


def test_edits_of_a_geopackage_are_committed(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "edit.gpkg"
    place.run("checkout", "--as", file, "points")
    with closing(sqlite3.connect(file)) as database, database:
        for name in ("ST_IsEmpty", "ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"):
            database.create_function(name, 1, lambda value: 0)
        database.execute("update points set name = 'deux' where id = 2")
        database.execute("delete from points where id = 9")
    place.run("commit", "--from", file, "-m", "From QGIS")
    wanted = {**NEW, 2: ("deux", 1.0)}
    del wanted[9]
    assert place.rows() == wanted


def test_meta_items_are_set(place: Place) -> None:
    place.run("meta", "set", "points", "title=Points of it", "description=Some")
    assert "Points of it" in place.run("meta", "get", "points", "title")
    assert "Points of it" in place.run("data", "ls", "--long")
    columns = place.json("meta", "get", "points")["points"]["schema.json"]
    columns.append({"name": "more", "dataType": "text"})
    place.run("meta", "set", "points", f"schema.json={json.dumps(columns)}")
    write(place, {1: ("one", 1.0)})
    assert place.repo.dataset("points").schema.names[-1] == "more"
    assert place.rows() == {**NEW, 1: ("one", 1.0)}
    renamed = [{**c, "name": "label"} if c["name"] == "name" else c for c in columns]
    place.run("meta", "set", "points", f"schema.json={json.dumps(renamed)}")
    assert "label" in place.run("head", "points")


def test_a_column_goes_and_comes_back(place: Place) -> None:
    columns = place.json("meta", "get", "points")["points"]["schema.json"]
    fewer = [column for column in columns if column["name"] != "height"]
    place.run("meta", "set", "points", f"schema.json={json.dumps(fewer)}")
    assert "height" not in place.repo.dataset("points").schema.names
    place.run("revert", "HEAD")
    assert place.rows() == NEW


def test_another_key(place: Place) -> None:
    columns = place.json("meta", "get", "points")["points"]["schema.json"]
    for column in columns:
        column.pop("primaryKeyIndex", None)
        if column["name"] == "name":
            column["primaryKeyIndex"] = 0
    place.run("meta", "set", "points", f"schema.json={json.dumps(columns)}")
    assert place.repo.dataset("points").key.names == ("name",)
    assert place.rows() == NEW
    assert place.kind_at() == place.kind


def test_what_was_is_brought_back(place: Place) -> None:
    place.run("restore", "-s", "HEAD^", "points:feature:3", "-m", "Back")
    assert place.rows() == {**NEW, 3: OLD[3]}
    place.run("revert", "HEAD")
    assert place.rows() == NEW
    place.run("revert", "HEAD~2")
    assert place.rows() == OLD
    place.run("rm", "points")
    assert place.run("data", "ls") == ""
    place.run("restore", "-s", "HEAD^", "points", "-m", "Again")
    assert (place.rows(), place.kind_at()) == (OLD, place.kind)


def test_it_is_moved(place: Place) -> None:
    place.run("mv", "points", "a/places")
    assert place.rows(dataset="a/places") == NEW
    assert place.kind_at(dataset="a/places") == place.kind


def test_patches(place: Place, tmp_path: Path) -> None:
    patch = tmp_path / "second.patch"
    patch.write_text(place.run("create-patch", "HEAD"))
    place.run("reset", "--hard", "HEAD^")
    assert place.rows() == OLD
    place.run("apply", patch)
    assert place.rows() == NEW
    (tmp_path / "first.patch").write_text(place.run("create-patch", "HEAD^"))
    place.run("rm", "points")
    place.run("apply", tmp_path / "first.patch")
    assert place.rows() == OLD


# Merging


def test_a_commit_is_picked(place: Place) -> None:
    place.run("branch", "side", "HEAD^")
    place.run("switch", "side")
    write(place, {8: ("eight", 8.0)})
    place.run("cherry-pick", "main")
    assert place.rows() == {**NEW, 8: ("eight", 8.0)}
    place.run("reset", "--hard", "HEAD^")
    place.run("rebase", "main")
    assert place.rows() == {**NEW, 8: ("eight", 8.0)}


def test_a_merge(place: Place) -> None:
    place.run("branch", "side")
    write(place, {1: ("uno", 0.5)}, delete=(4,))
    place.run("switch", "side")
    write(place, {1: ("name 1", 5.0), 30: ("thirty", 3.0)})
    place.run("merge", "main")
    wanted = {**NEW, 1: ("uno", 5.0), 30: ("thirty", 3.0)}
    del wanted[4]
    assert place.rows() == wanted
    assert place.kind_at() == place.kind


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["text", "json", "geojson"])
def test_a_merge_with_conflicts(place: Place, form: str) -> None:
    place.run("branch", "side")
    write(place, {1: ("uno", 0.5), 40: ("ours", 1.0)})
    place.run("switch", "side")
    write(place, {1: ("eins", 0.5), 40: ("theirs", 1.0), 6: ("six", 3.0)})
    place.run("switch", "main")
    result = invoke(["-C", place.path, "merge", "side"])
    assert "onflict" in result.output
    assert "points" in place.run("status")
    shown = place.run("conflicts", "-o", form)
    assert "uno" in shown and "eins" in shown
    place.run("resolve", "points:feature:1", "--with", "theirs")
    place.run("resolve", "points:feature:40", "--renumber", "theirs")
    place.run("merge", "--continue")
    wanted = {**NEW, 1: ("eins", 0.5), 6: ("six", 3.0), 40: ("ours", 1.0), 41: ("theirs", 1.0)}
    assert place.rows() == wanted


def test_a_merge_of_columns(place: Place) -> None:
    place.run("branch", "side")
    columns = place.json("meta", "get", "points")["points"]["schema.json"]
    more = [*columns, {"name": "here", "dataType": "text"}]
    place.run("meta", "set", "points", f"schema.json={json.dumps(more)}")
    place.run("switch", "side")
    columns = place.json("meta", "get", "points")["points"]["schema.json"]
    fewer = [column for column in columns if column["name"] != "name"]
    place.run("meta", "set", "points", f"schema.json={json.dumps(fewer)}")
    place.run("switch", "main")
    write(place, {1: ("uno", 0.5)})
    place.run("merge", "side", "-X", "theirs")
    assert place.repo.dataset("points").schema.names == ("id", "height", "geom", "here")


# Keeping


@pytest.mark.few(1)
@pytest.mark.parametrize("other", ["havasu", "kart", "lines"])
def test_it_becomes_another_kind_and_comes_back(place: Place, other: str) -> None:
    if other == place.kind:
        assert "already" in place.refused("convert", "points", "--to", other)
        return
    place.run("meta", "set", "points", "title=Points")
    place.run("convert", "points", "--to", other)
    assert (place.rows(), place.kind_at()) == (NEW, other)
    assert place.run("diff", "HEAD^..HEAD", "-o", "feature-count") == "0 features changed\n"
    write(place, {1: ("uno", 0.5)})
    place.run("convert", "points", "--to", place.kind)
    assert (place.rows(), place.kind_at()) == ({**NEW, 1: ("uno", 0.5)}, place.kind)
    assert "Points" in place.run("meta", "get", "points", "title")
    assert "Second" in place.run("log", "points")


@pytest.mark.few(1)
@pytest.mark.parametrize("other", ["havasu", "kart", "lines"])
def test_its_history_becomes_another_kind(place: Place, other: str) -> None:
    if other == place.kind:
        return
    place.run("convert", "points", "--to", other, "--history")
    assert (place.rows(), place.kind_at()) == (NEW, other)
    assert place.kind_at("HEAD^2") == other
    assert (place.rows("HEAD^2"), place.rows("HEAD^2^")) == (NEW, OLD)


def test_it_is_checked_and_cleaned(place: Place) -> None:
    place.run("validate")
    place.run("gc", "--prune-now")
    place.sound()
    assert (place.rows("HEAD^"), place.rows()) == (OLD, NEW)
    place.run("optimize")
    assert place.rows() == NEW


def test_a_geometry_is_declared_where_a_kind_can(place: Place) -> None:
    if place.kind == "havasu":
        place.run("convert", "points", "--geometry", "geom=wkb")
        return
    said = place.refused("convert", "points", "--geometry", "geom=wkb")
    assert f"is a {place.kind.capitalize()} dataset" in said


@pytest.mark.thorough
def test_a_clone_has_it(place: Place, tmp_path: Path) -> None:
    copy = Place(tmp_path / "copy", place.kind)
    succeed(invoke(["clone", place.path, copy.path]))
    assert (copy.rows("HEAD^"), copy.rows()) == (OLD, NEW)
    write(place, {1: ("uno", 0.5)})
    copy.run("pull")
    assert copy.rows() == {**NEW, 1: ("uno", 0.5)}
    write(copy, {1: ("one", 0.5)})
    copy.run("push", "origin", "main:other")
    assert place.rows("other") == {**NEW, 1: ("one", 0.5)}
    copy.sound()


def test_a_broken_one_is_mended(place: Place) -> None:
    view = place.repo.dataset("points")
    (broken, *_) = (
        name for name, _ in view.folder.blobs("") if name.endswith(("schema.json", "dataset.json"))
    )
    (place.path.parent / "broken").write_text("{")
    blob = run_git("hash-object", "-w", str(place.path.parent / "broken"), cwd=place.path).strip()
    where = f"100644,{blob},points/{view.marker}/{broken}"
    run_git("update-index", "--cacheinfo", where, cwd=place.path)
    run_git("commit", "--no-verify", "-qm", "Broken", cwd=place.path)
    run_git("sparse-checkout", "reapply", cwd=place.path)
    result = invoke(["-C", place.path, "fsck"])
    assert result.exit_code != 0 and "points" in result.output
    assert place.run("data", "ls") == "points\n"
    place.run("repair")
    assert place.rows() == NEW


@pytest.mark.thorough
def test_it_is_served(place: Place) -> None:
    table = pytest.importorskip("pyiceberg.table")
    names = {"prefix": prefix_of("main"), "namespace": "tables", "table": "points"}
    answer = load_table(Catalog(place.path, ServeSettings()), Call("GET", names, {}, {}))
    content = answer.content if isinstance(answer.content, bytes) else json.dumps(answer.content)
    served = table.StaticTable.from_metadata(json.loads(content)["metadata-location"])
    rows = served.scan(selected_fields=("id", "name", "height")).to_arrow().to_pylist()
    assert {row["id"]: (row["name"], row["height"]) for row in rows} == NEW
