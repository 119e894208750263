"""What a person changes in a layer's description: title, text, reference system, metadata."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyogrio.raw
import pytest
import shapely

from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import FIRST, invoke, succeed
from tests.support.git import run_git
from tests.support.templates import copy_tree

XML = '<gmd:MD_Metadata xmlns:gmd="http://www.isotc211.org/2005/gmd"/>'


@pytest.fixture(scope="session", params=["havasu", "kart"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of either kind with a titled dataset and a working copy."""
    folder = tmp_path_factory.mktemp("described")
    repo = folder / "repo"
    (folder / "points.csv").write_text(FIRST)
    succeed(invoke(["init", repo, *(["--kart"] if request.param == "kart" else [])]))
    options = ["--primary-key", "id", "--crs", "EPSG:4326"]
    succeed(invoke(["-C", repo, "import", folder / "points.csv", *options]))
    succeed(invoke(["-C", repo, "meta", "set", "points", "title=Some points"]))
    succeed(invoke(["-C", repo, "create-workingcopy"]))
    return repo


@pytest.fixture
def repo(made: Path, tmp_path: Path) -> Path:
    return copy_tree(made, tmp_path / "repo")


def sql(repo: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        found = database.execute(statement, values).fetchall()
        database.commit()
    return found


def described(repo: Path) -> tuple[object, ...]:
    ((title, description),) = sql(repo, "SELECT identifier, description FROM gpkg_contents")
    return title, description or ""


def changes(repo: Path) -> dict[str, object]:
    diff = json.loads(succeed(invoke(["-C", repo, "diff", "-o", "json"])).stdout)
    found = diff["kart.diff/v1+hexwkb"]
    assert set(found) <= {"points"}
    meta: dict[str, object] = found.get("points", {}).get("meta", {})
    assert "feature" not in found.get("points", {})
    return meta


@pytest.mark.parametrize("name", ["places", "spots", "POINTS"])  # before and behind it in order
def test_a_dataset_that_moves_keeps_its_title(repo: Path, name: str) -> None:
    succeed(invoke(["-C", repo, "mv", "points", name]))
    assert described(repo) == ("Some points", "")
    assert "Nothing to commit" in succeed(invoke(["-C", repo, "status"])).stdout


@pytest.mark.few(1)
def test_a_title_and_a_text_are_edits_that_a_commit_takes(repo: Path) -> None:
    assert described(repo) == ("Some points", "")
    assert changes(repo) == {}
    sql(repo, "UPDATE gpkg_contents SET identifier = 'Better', description = 'All of them'")
    assert changes(repo) == {
        "title": {"-": "Some points", "+": "Better"},
        "description": {"+": "All of them"},
    }
    status = json.loads(succeed(invoke(["-C", repo, "status", "-o", "json"])).stdout)
    told = status["kart.status/v2"]["workingCopy"]["changes"]["points"]
    assert told["meta"] == {"inserts": 1, "updates": 1}
    assert invoke(["-C", repo, "switch", "-d", "HEAD^"]).exit_code == 29

    succeed(invoke(["-C", repo, "commit", "-m", "Describe"]))
    assert changes(repo) == {}
    meta = json.loads(succeed(invoke(["-C", repo, "meta", "get", "points", "-o", "json"])).stdout)
    assert meta["points"]["title"] == "Better" and meta["points"]["description"] == "All of them"

    succeed(invoke(["-C", repo, "switch", "-d", "HEAD^"]))
    assert described(repo) == ("Some points", "")
    succeed(invoke(["-C", repo, "switch", "main"]))
    assert described(repo) == ("Better", "All of them")
    assert changes(repo) == {}


def test_layers_without_a_title_are_those_that_kart_makes(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    succeed(invoke(["init", "--kart", repo]))
    for name in ("marks", "points"):
        (tmp_path / f"{name}.csv").write_text(FIRST)
        succeed(invoke(["-C", repo, "import", tmp_path / f"{name}.csv"]))
    succeed(invoke(["-C", repo, "create-workingcopy"]))
    found = sql(repo, "SELECT identifier, description FROM gpkg_contents ORDER BY table_name")
    assert found == [("", None), ("points: ", None)]
    assert changes(repo) == {}
    sql(repo, "UPDATE gpkg_contents SET identifier = 'points: P' WHERE table_name = 'points'")
    assert changes(repo) == {"title": {"+": "P"}}


def test_one_of_them_is_committed_and_the_other_brought_back(repo: Path) -> None:
    sql(repo, "UPDATE gpkg_contents SET identifier = 'Better', description = 'All of them'")
    succeed(invoke(["-C", repo, "commit", "points:meta:title", "-m", "Title"]))
    assert changes(repo) == {"description": {"+": "All of them"}}
    succeed(invoke(["-C", repo, "restore", "points"]))
    assert changes(repo) == {} and described(repo) == ("Better", "")


def test_a_stash_brings_a_title_back_where_head_has_moved(repo: Path) -> None:
    sql(repo, "UPDATE gpkg_contents SET identifier = 'Better', description = 'All of them'")
    edits = changes(repo)
    succeed(invoke(["-C", repo, "stash", "push"]))
    assert changes(repo) == {} and described(repo) == ("Some points", "")
    with editor(repo / "repo.gpkg") as database:
        database.execute("UPDATE points SET height = 9 WHERE id = 1")
    succeed(invoke(["-C", repo, "commit", "-m", "A row"]))

    succeed(invoke(["-C", repo, "stash", "pop"]))

    assert described(repo) == ("Better", "All of them")
    assert changes(repo) == edits


def test_a_title_of_another_revision_is_restored_as_an_edit(repo: Path) -> None:
    succeed(invoke(["-C", repo, "meta", "set", "points", "title=Better", "description=All"]))

    restored = succeed(invoke(["-C", repo, "restore", "-s", "HEAD^", "points:meta:title"]))

    assert "cannot stand" not in restored.output
    assert described(repo) == ("Some points", "All")
    assert changes(repo) == {"title": {"-": "Better", "+": "Some points"}}
    succeed(invoke(["-C", repo, "commit", "-m", "As it was"]))
    assert changes(repo) == {}


def test_what_an_editor_writes_of_its_own_is_no_title(repo: Path) -> None:
    for told in ("points", "points: Some points", " Some points "):
        sql(repo, "UPDATE gpkg_contents SET identifier = ?", told)
        # Kart takes the name of the table for a title as any other.
        a_title = told == "points" and (repo / ".kart").exists()
        wanted = {"title": {"-": "Some points", "+": "points"}} if a_title else {}
        assert changes(repo) == wanted, told
    sql(repo, "UPDATE gpkg_contents SET identifier = NULL")
    assert changes(repo) == {"title": {"-": "Some points"}}


WKT = (
    'PROJCS["Ours",GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],'
    'PROJECTION["Transverse_Mercator"],PARAMETER["latitude_of_origin",0],'
    'PARAMETER["central_meridian",171],PARAMETER["scale_factor",1],'
    'PARAMETER["false_easting",0],PARAMETER["false_northing",0],UNIT["metre",1],'
    'AUTHORITY["OURS","100002"]]'
)


def to_another_system(repo: Path) -> None:
    values = ("Ours", 100002, "OURS", 100002, WKT, None)
    sql(repo, "INSERT OR REPLACE INTO gpkg_spatial_ref_sys VALUES (?, ?, ?, ?, ?, ?)", *values)
    sql(repo, "UPDATE gpkg_geometry_columns SET srs_id = 100002")


def test_a_table_made_anew_in_another_system_says_so(repo: Path) -> None:
    """GDAL writes a layer anew without triggers; its coordinates are not of the old system."""
    for (name,) in sql(repo, "SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        if "track" in str(name) or "havasu" in str(name):
            sql(repo, f'DROP TRIGGER "{name}"')
    sql(repo, "UPDATE gpkg_contents SET identifier = 'points', description = ''")
    assert changes(repo) == {}, "the name of a table is no title"
    to_another_system(repo)
    sql(repo, "UPDATE gpkg_contents SET srs_id = 100002, identifier = 'Better'")
    found = changes(repo)
    assert set(found) == {"title", "crs/EPSG:4326.wkt", "crs/OURS:100002.wkt", "schema.json"}
    succeed(invoke(["-C", repo, "commit", "-m", "Ours"]))
    assert "crs/OURS:100002.wkt" in succeed(invoke(["-C", repo, "meta", "get", "points"])).stdout
    assert changes(repo) == {}


def test_another_reference_system_is_an_edit_and_can_be_dropped(repo: Path) -> None:
    to_another_system(repo)
    sql(repo, "UPDATE gpkg_contents SET srs_id = 100002")
    found = changes(repo)
    assert set(found) == {"crs/EPSG:4326.wkt", "crs/OURS:100002.wkt", "schema.json"}
    succeed(invoke(["-C", repo, "restore"]))
    assert changes(repo) == {}
    assert sql(repo, "SELECT srs_id FROM gpkg_geometry_columns") == [(4326,)]

    to_another_system(repo)
    succeed(invoke(["-C", repo, "commit", "-m", "Ours"]))
    assert changes(repo) == {}
    meta = json.loads(succeed(invoke(["-C", repo, "meta", "get", "points", "-o", "json"])).stdout)
    assert "crs/OURS:100002.wkt" in meta["points"] and "crs/EPSG:4326.wkt" not in meta["points"]


def test_what_describes_a_table_comes_back_as_edits(repo: Path, tmp_path: Path) -> None:
    to_another_system(repo)
    sql(repo, "UPDATE gpkg_contents SET srs_id = 100002, identifier = 'T', description = 'D'")
    found = changes(repo)
    systems = {"crs/EPSG:4326.wkt", "crs/OURS:100002.wkt", "schema.json"}
    assert set(found) == {"title", "description", *systems}
    succeed(invoke(["-C", repo, "stash", "push"]))
    assert changes(repo) == {}
    succeed(invoke(["-C", repo, "stash", "pop"]))
    assert changes(repo) == found, "by a stash"

    succeed(invoke(["-C", repo, "commit", "-m", "Ours"]))
    (tmp_path / "patch").write_text(succeed(invoke(["-C", repo, "create-patch", "HEAD"])).stdout)
    back = succeed(invoke(["-C", repo, "restore", "-s", "HEAD^"]))
    assert "cannot stand" not in back.stderr and set(changes(repo)) == set(found)
    assert sql(repo, "SELECT srs_id FROM gpkg_geometry_columns") == [(4326,)]
    succeed(invoke(["-C", repo, "reset", "--discard-changes", "HEAD^"]))
    succeed(invoke(["-C", repo, "apply", "--no-commit", tmp_path / "patch"]))
    assert changes(repo) == found, "by a patch"


def test_metadata_goes_in_from_a_geopackage_and_stands_in_the_working_copy(
    repo: Path, tmp_path: Path
) -> None:
    if not (repo / ".kart").exists():
        pytest.skip("a Havasu dataset keeps no metadata in XML")
    source = tmp_path / "source.gpkg"
    succeed(invoke(["-C", repo, "export", "points", source]))
    with closing(sqlite3.connect(source)) as database:
        database.execute(
            "CREATE TABLE gpkg_metadata (id INTEGER PRIMARY KEY, md_scope TEXT, md_standard_uri "
            "TEXT, mime_type TEXT, metadata TEXT)"
        )
        database.execute(
            "CREATE TABLE gpkg_metadata_reference (reference_scope TEXT, table_name TEXT, "
            "column_name TEXT, row_id_value INTEGER, timestamp TEXT, md_file_id INTEGER, "
            "md_parent_id INTEGER)"
        )
        database.execute(
            "INSERT INTO gpkg_metadata VALUES (5, 'dataset', 'x', 'text/xml', ?)", (XML,)
        )
        database.execute(
            "INSERT INTO gpkg_metadata_reference (reference_scope, table_name, "
            "md_file_id) VALUES ('table', 'source', 5)"
        )
        database.commit()
    succeed(invoke(["-C", repo, "import", source, "source:described"]))
    there = ("--git-dir", ".kart", "show", "HEAD:described/metadata.xml")
    assert run_git(*there, cwd=repo).strip() == XML, "an attachment, as in Kart"
    asked = (
        "SELECT r.table_name, m.metadata, m.md_standard_uri FROM gpkg_metadata m "
        "JOIN gpkg_metadata_reference r ON m.id = r.md_file_id"
    )
    assert sql(repo, asked) == [("described", XML, "http://www.isotc211.org/2005/gmd")]
    succeed(invoke(["-C", repo, "switch", "-d", "HEAD^"]))
    assert sql(repo, asked) == []
    succeed(invoke(["-C", repo, "switch", "main"]))
    assert sql(repo, asked) == [("described", XML, "http://www.isotc211.org/2005/gmd")]
    assert "working copy clean" in succeed(invoke(["-C", repo, "status"])).stdout

    with closing(sqlite3.connect(repo / "repo.gpkg")) as database, database:
        database.execute("DROP TABLE described")
    succeed(invoke(["-C", repo, "commit", "-m", "Gone"]))
    left = run_git("--git-dir", ".kart", "ls-tree", "-r", "--name-only", "HEAD", cwd=repo)
    assert "described" not in left, "attachments go with their dataset, as in Kart"


def made_by_gdal(repo: Path, table: str, crs: str) -> str:
    """Have GDAL write a table of a point into the working copy; return what its system is there."""
    pyogrio.raw.write(
        repo / "repo.gpkg",
        geometry=shapely.to_wkb([shapely.Point(1, 2, 3)], output_dimension=3),
        field_data=[],
        fields=[],
        geometry_type="Point Z",
        crs=crs,
        layer=table,
        append=True,
    )
    return system(repo, table)


def system(repo: Path, table: str) -> str:
    ((found,),) = sql(
        repo,
        "SELECT s.definition FROM gpkg_spatial_ref_sys s JOIN gpkg_geometry_columns g "
        "ON s.srs_id = g.srs_id WHERE g.table_name = ?",
        table,
    )
    return str(found)


def test_a_table_of_gdals_says_its_system_as_its_dataset_does(repo: Path) -> None:
    words = made_by_gdal(repo, "places", "EPSG:2193")
    assert made_by_gdal(repo, "heights", "EPSG:4979") == "undefined"  # in words of the older kind
    succeed(invoke(["-C", repo, "add-dataset", "places", "heights"]))

    in_words = succeed(invoke(["-C", repo, "meta", "get", "places", "crs/EPSG:2193.wkt"])).stdout
    if (repo / ".kart").exists():  # Kart takes any other words for an edit
        assert "AXIS" in words and "".join(words.split()) in "".join(in_words.split())
    assert "4979" in system(repo, "heights")
    assert "Nothing to commit" in succeed(invoke(["-C", repo, "status"])).stdout

    # Whoever made a table says what it is in, and it may not be known in older words.
    sql(repo, "UPDATE gpkg_spatial_ref_sys SET definition = 'undefined' WHERE srs_id = 4979")
    assert "Nothing to commit" in succeed(invoke(["-C", repo, "status"])).stdout

    # The list of systems has a column more since, and tables are made in it still.
    succeed(invoke(["-C", repo, "switch", "-d", "HEAD~2"]))
    succeed(invoke(["-C", repo, "switch", "main"]))
