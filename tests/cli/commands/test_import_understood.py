"""An import tells how it took a table: its key, geometry, types, and what is odd about them."""

import json
from pathlib import Path
from typing import Any

import pytest

from havasu_vc import Repo
from havasu_vc.transfer import understanding
from tests.cli.conftest import Run, succeed

ROWS = "1,a,001,2020-01-01,174.5,-41\n2,b,002,2020-02-01,174.6,-40\n3,c,003,2020-12-01,174.7,-42\n"
FIRST = f"id,name,code,day,lon,lat\n{ROWS}"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def taken(run: Run, *arguments: object) -> dict[str, Any]:
    printed = json.loads(succeed(run("import", *arguments, "-o", "json")).stdout)
    result: dict[str, Any] = printed["havasu.import/v1"]
    return result


def test_how_a_table_was_taken(run: Run, repo: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "trees.csv", FIRST)

    said = succeed(run("import", source, "--primary-key", "id", "-n")).stderr

    assert "  key: id (as told)\n" in said
    assert "  geometry: geom, POINT, OGC:CRS84 (assumed)\n" in said
    assert "  columns: id long, name string, code string, day date, lon double, lat long\n" in said
    result = taken(run, source, "--primary-key", "id")
    table = result["understood"]["trees"]
    assert (table["rows"], table["key"], table["keyFrom"]) == (3, ["id"], "option")
    assert table["crsFrom"] == "assumed" and table["possibleKeys"] == []
    assert table["columns"][-1] == {
        "name": "geom",
        "type": "geometry",
        "geometryType": "POINT",
        "crs": "OGC:CRS84",
    }
    assert result["notes"] == []


def test_a_key_is_proposed_and_found(run: Run, repo: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "trees.csv", "n,tree_id,other\n1,7,1\n1,8,2\n,9,3\n")

    said = succeed(run("import", source)).stderr
    assert "tree_id is unique and never null, as other is" in said
    assert "`havasu-vc meta set trees primary-key=tree_id`" in said
    succeed(run("meta", "set", "trees", "primary-key=tree_id"))
    assert Repo.open(repo).dataset("trees").key.names == ("tree_id",)

    again = taken(run, source, "again", "--primary-key", "auto")["understood"]["again"]
    assert (again["key"], again["keyFrom"]) == (["tree_id"], "found")
    assert Repo.open(repo).dataset("again").key.names == ("tree_id",)
    # A dataset that is there has its key.
    said = succeed(run("import", source, "again", "--replace", "--primary-key", "auto")).stderr
    assert "No row of again differs" in said


@pytest.mark.parametrize("name", ["iso_a3", "ISO", "iso3", "gid_num", "pk", "parcel_number"])
def test_a_column_that_is_called_as_a_key_comes_before_a_number(
    name: str, run: Run, tmp_path: Path
) -> None:
    source = write(tmp_path / "lands.csv", f"gdp,{name},label\n7,CAN,a\n8,FJI,b\n9,USA,c\n")
    found = taken(run, source, "--primary-key", "auto")["understood"]["lands"]
    assert (found["key"], found["keyFrom"]) == ([name], "found")


def test_no_column_can_be_the_key(run: Run, repo: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "trees.csv", "id,name\n1,a\n1,b\n,c\n")

    refused = run("import", source, "--primary-key", "auto")

    assert refused.exit_code != 0
    assert "trees: no column of it can be the key" in refused.stderr
    assert "--no-primary-key" in refused.stderr
    assert "unique and never null" not in succeed(run("import", source)).stderr


def test_no_key_is_proposed_where_none_is_wanted(run: Run, repo: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "trees.csv", FIRST)

    result = taken(run, source, "--no-primary-key")

    assert result["understood"]["trees"]["possibleKeys"] == []


def test_coordinates_outside_of_their_system(run: Run, repo: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "trees.csv", FIRST)
    eastings = write(tmp_path / "there.csv", "id,lon,lat\n1,1750000,5430000\n")

    said = succeed(run("import", source, "--primary-key", "id", "--crs", "EPSG:2193")).stderr
    assert "from 174.5, -42 to 174.7, -40, far from where EPSG:2193 is used" in said
    assert "they look like degrees" in said
    said = succeed(run("import", eastings, "--primary-key", "id")).stderr
    assert "which are no degrees, as OGC:CRS84 has them" in said
    said = succeed(run("import", eastings, "right", "--crs", "EPSG:2193")).stderr
    assert "coordinates lie" not in said


def test_a_value_that_made_a_column_text_is_named(run: Run, repo: Path, tmp_path: Path) -> None:
    months = write(
        tmp_path / "months.csv", "id,day,n\n1,2020-01-01,1.5\n2,2020-13-01,2\n3,2020-02-01,n/a\n"
    )

    notes = taken(run, months, "--primary-key", "id")["notes"]

    assert notes == [
        "column 'day' is text: row 2 holds '2020-13-01', which is no date like those before",
        "column 'n' is text: row 3 holds 'n/a', which is no number like those before",
    ]
    plain = write(tmp_path / "plain.csv", "id,day,n\n1,soon,x\n2,2020-12-01,2\n3,later,n/a\n")
    assert taken(run, plain, "--primary-key", "id")["notes"] == []


def test_codes_that_look_like_numbers(run: Run, repo: Path, tmp_path: Path) -> None:
    first = write(tmp_path / "zip.csv", "id,zip,n\n1,20001,5\n2,30002,12\n")
    second = write(tmp_path / "next.csv", "id,zip,n\n1,20001,5\n2,3000A,12\n")

    (note,) = taken(run, first, "--primary-key", "id")["notes"]
    assert "'zip' holds whole numbers of 5 digits" in note and "--csv-text zip" in note
    refused = run("import", second, "zip", "--replace")
    assert refused.exit_code != 0
    assert "row 2 has '3000A' in column 'zip', which is long in the dataset" in refused.stderr
    assert taken(run, first, "text", "--primary-key", "id", "--csv-text", "zip")["notes"] == []
    succeed(run("import", second, "text", "--replace"))
    assert rows(repo, "text") == [(1, "20001"), (2, "3000A")]
    # And a release in which all are digits again is text as the dataset is.
    succeed(run("import", first, "text", "--replace"))
    assert rows(repo, "text") == [(1, "20001"), (2, "30002")]


def rows(repo: Path, path: str) -> list[tuple[int, str]]:
    table = Repo.open(repo).table(path).to_arrow(["id", "zip"])
    return sorted((row["id"], row["zip"]) for row in table.to_pylist())


def test_a_release_that_calls_a_column_otherwise(run: Run, repo: Path, tmp_path: Path) -> None:
    first = write(tmp_path / "trees.csv", FIRST)
    second = write(tmp_path / "next.csv", FIRST.replace("name", "title") + "4,d,004,2021-01-01,,\n")
    succeed(run("import", first, "--primary-key", "id"))
    before = Repo.open(repo).dataset("trees").schema

    said = succeed(run("import", second, "trees", "--replace", "-n")).stderr
    assert "column 'title' holds what 'name' did" in said and "--rename name=title" in said
    assert "Would import 1 insert, 3 updates" in said
    result = taken(run, second, "trees", "--replace", "--rename", "name=title")

    assert result["datasets"]["trees"] == {"inserts": 1, "updates": 0, "deletes": 0}
    assert result["notes"] == ["trees: column 'name' is called 'title' now"]
    after = Repo.open(repo).dataset("trees").schema
    assert after.by_name["title"].id == before.by_name["name"].id
    titles = Repo.open(repo).table("trees").to_arrow(["id", "title"]).to_pylist()
    assert {row["id"]: row["title"] for row in titles} == {1: "a", 2: "b", 3: "c", 4: "d"}


def test_columns_that_hold_something_else_are_not_renamed(
    run: Run, repo: Path, tmp_path: Path
) -> None:
    first = write(tmp_path / "trees.csv", FIRST)
    other = "id,title,code,day,lon,lat\n" + ROWS.replace(",a,", ",x,").replace(",b,", ",y,")
    succeed(run("import", first, "--primary-key", "id"))

    notes = taken(run, write(tmp_path / "next.csv", other), "trees", "--replace", "-n")["notes"]

    assert not [note for note in notes if "--rename" in note]


def test_a_key_may_be_renamed(run: Run, repo: Path, tmp_path: Path) -> None:
    succeed(run("import", write(tmp_path / "trees.csv", FIRST), "--primary-key", "id"))
    second = write(tmp_path / "next.csv", FIRST.replace("id,", "tree,", 1).replace(",a,", ",A,"))

    result = taken(run, second, "trees", "--replace", "--rename", "id=tree")

    assert result["datasets"]["trees"] == {"inserts": 0, "updates": 1, "deletes": 0}
    assert Repo.open(repo).dataset("trees").key.names == ("tree",)


@pytest.mark.parametrize(
    ("renames", "reason"),
    [
        (["nothing=title"], "trees has no column 'nothing' to rename"),
        (["name=code"], "trees has a column 'code' already"),
        (["name=nmae"], "the source has no column 'nmae', which 'name' would be called"),
        (["name"], "--rename takes OLD=NEW"),
        (["name=a", "name=b"], "names a column twice"),
    ],
)
def test_renames_that_cannot_be(
    renames: list[str], reason: str, run: Run, repo: Path, tmp_path: Path
) -> None:
    first = write(tmp_path / "trees.csv", FIRST)
    succeed(run("import", first, "--primary-key", "id"))
    given = [part for text in renames for part in ("--rename", text)]

    refused = run("import", first, "trees", "--replace", *given)

    assert refused.exit_code == 2 and reason in refused.stderr
    alone = run("import", first, "new", "--rename", "name=label")
    assert "--rename goes with --replace" in alone.stderr


def test_rows_that_share_a_key_are_named(run: Run, repo: Path, tmp_path: Path) -> None:
    first = write(tmp_path / "trees.csv", FIRST)
    doubled = write(tmp_path / "next.csv", FIRST + "2,x,1,2020-01-01,,\n9,x,1,2020-01-01,,\n" * 2)
    empty = write(tmp_path / "empty.csv", FIRST + ",x,1,2020-01-01,,\n")
    succeed(run("import", first, "--primary-key", "id"))

    for arguments in (("trees", "--replace"), ("other", "--primary-key", "id")):
        refused = run("import", doubled, *arguments)
        assert refused.exit_code != 0 and "the key 2 is there twice" in refused.stderr
        assert "doubled: 2 in rows 2, 4, 6; 9 in rows 5, 7" in refused.stderr
        assert ("--primary-key" in refused.stderr) is ("--replace" not in arguments)
        refused = run("import", empty, *arguments)
        assert "row 4 has no value in its key column 'id'" in refused.stderr

    keys = [9, *[5] * 1500, *range(10, 14), *range(10, 14), 9]
    many = write(tmp_path / "many.csv", "\n".join(["id", *map(str, keys), ""]))
    refused = run("import", many, "--primary-key", "id")
    assert "the key 9 is there twice" in refused.stderr
    told = "doubled: 9 in rows 1, 1,510; 5 in rows 2, 3, 4 and more; 10 in rows 1,502, 1,506; "
    assert f"{told}6 keys are doubled, of 1,510 rows" in refused.stderr


@pytest.mark.parametrize("small", [{"SEEN_BITS": 1, "MOST_SUSPECTS": 2}, {"MOST_ROWS": 5}])
def test_however_many_rows_there_are_a_shared_key_is_named(
    small: dict[str, int], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where too many rows seem to share keys, and where those that do come late."""
    rows, places = understanding.MOST_ROWS, 1 << understanding.SEEN_BITS
    assert rows * rows / (2 * places) < understanding.MOST_SUSPECTS, "as many seem to by chance"
    for name, value in small.items():
        monkeypatch.setattr(understanding, name, value)
    # Most keys fall on a place that another has.
    keys = [*range(100, 400), 7, *range(400, 500), 7]
    many = write(tmp_path / "many.csv", "\n".join(["id", *map(str, keys), ""]))
    refused = run("import", many, "--primary-key", "id")
    assert refused.exit_code != 0 and "the key 7 is there twice" in refused.stderr


def test_a_geometry_that_is_none_is_named(run: Run, repo: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "w.csv", "id,wkt\n7,POINT(1 1)\n8,PINT (1 2\n")

    refused = run("import", source, "--csv-wkt", "wkt", "--primary-key", "id")
    assert "column 'wkt', row 2, the row with id 8: its geometry cannot be used" in refused.stderr
    refused = run("import", source, "--csv-wkt", "wkt")
    assert refused.exit_code != 0 and "column 'wkt', row 2: its geometry" in refused.stderr


def test_the_library_tells_the_same(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "repo")
    result = repo.import_(write(tmp_path / "trees.csv", FIRST), find_key=True, dry_run=True)

    table = result.understood["trees"]
    assert (table.rows, table.key, table.key_from) == (3, ("id",), "found")
    assert [column.name for column in table.columns][-1] == "geom"
