"""`havasu-vc import --replace-ids` and `--table-info`: some rows, and other words for tables."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, invoke, succeed

OLD = "id,name\n1,one\n2,two\n3,three\n4,four\n"
NEW = "id,name\n1,ONE\n2,TWO\n4,FOUR\n5,FIVE\n6,SIX\n"


@pytest.fixture(params=["havasu", "kart"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """A repository of either kind with the table `lots`."""
    repo = tmp_path / "repo"
    as_kart = ["--kart"] if request.param == "kart" else []
    succeed(invoke(["init", *as_kart, repo]))

    def run(*arguments: str | Path, stdin: str | bytes = "") -> Any:
        return invoke(["-C", repo, *arguments], stdin=stdin)

    (tmp_path / "lots.csv").write_text(OLD)
    succeed(run("import", tmp_path / "lots.csv", "--primary-key", "id"))
    (tmp_path / "lots.csv").write_text(NEW)
    return run


def rows(run: Run) -> dict[int, str]:
    lines = succeed(run("diff", "[EMPTY]...HEAD", "lots", "-o", "json")).stdout
    changes = json.loads(lines)["kart.diff/v1+hexwkb"]["lots"]["feature"]
    return {each["+"]["id"]: each["+"]["name"] for each in changes}


def test_only_listed_rows_are_replaced(there: Run, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("1\n3\n5\n\n99\n")

    result = succeed(there("import", tmp_path / "lots.csv", "--replace-ids", f"@{tmp_path}/ids"))

    assert "1 insert, 1 update, 1 delete" in result.stdout + result.stderr
    assert rows(there) == {1: "ONE", 2: "two", 4: "four", 5: "FIVE"}
    succeed(there("fsck"))


def test_ids_may_stand_on_the_command_line(there: Run, tmp_path: Path) -> None:
    succeed(there("import", tmp_path / "lots.csv", "--replace-ids", "2\n4"))

    assert rows(there) == {1: "one", 2: "TWO", 3: "three", 4: "FOUR"}


def test_no_ids_replace_no_row(there: Run, tmp_path: Path) -> None:
    before = rows(there)
    info = json.dumps({"lots": {"title": "Lots", "description": "All of them"}})
    source = tmp_path / "lots.csv"

    succeed(there("import", source, "--replace-ids", "", "--table-info", info))

    assert rows(there) == before
    meta = json.loads(there("meta", "get", "lots", "-o", "json").stdout)["lots"]
    assert (meta["title"], meta["description"]) == ("Lots", "All of them")


def test_called_kart_the_title_is_that_of_the_source(
    there: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "lots.gpkg"
    succeed(there("export", "lots", source))
    with closing(sqlite3.connect(source)) as file, file:
        file.execute("UPDATE gpkg_contents SET identifier = 'Theirs', description = 'Text'")
    succeed(there("import", source, "lots", "--replace"))
    succeed(there("meta", "set", "lots", "title=Ours", "description=Mine"))
    asked = ("import", source, "lots", "--replace-ids", "")
    succeed(there(*asked))
    assert there("meta", "get", "lots", "title").stdout.split()[-1] == "Ours"

    monkeypatch.setattr(sys, "argv", ["kart"])
    succeed(there(*asked))

    assert there("meta", "get", "lots", "title").stdout.split()[-1] == "Theirs"
    assert there("meta", "get", "lots", "description").stdout.split()[-1] == "Text"
    assert there(*asked).exit_code == 44

    with closing(sqlite3.connect(source)) as file, file:
        file.execute("UPDATE gpkg_contents SET identifier = 'Again', description = NULL")
    succeed(there(*asked))
    said = json.loads(succeed(there("meta", "get", "lots", "-o", "json")).stdout)["lots"]
    assert said["title"] == "Again" and "description" not in said
    with closing(sqlite3.connect(source)) as file, file:
        file.execute("UPDATE gpkg_contents SET identifier = '', description = 'Back'")
    succeed(there("import", source, "lots", "--replace"))
    said = json.loads(succeed(there("meta", "get", "lots", "-o", "json")).stdout)["lots"]
    assert "title" not in said and said["description"] == "Back"
    assert there(*asked).exit_code == 44


def test_another_column_comes_with_listed_rows(there: Run, tmp_path: Path) -> None:
    source = tmp_path / "lots.csv"
    source.write_text("id,name,depth\n1,ONE,1.5\n2,TWO,2.5\n")

    succeed(there("import", source, "--replace-ids", "1"))

    lines = succeed(there("diff", "[EMPTY]...HEAD", "lots", "-o", "json")).stdout
    changes = json.loads(lines)["kart.diff/v1+hexwkb"]["lots"]["feature"]
    assert [each["+"]["depth"] for each in changes] == [1.5, None, None, None]


def test_what_cannot_be_listed_is_refused(there: Run, tmp_path: Path) -> None:
    source = tmp_path / "lots.csv"
    before = rows(there)

    assert there("import", source, "--replace-ids", "one").exit_code == 2
    assert there("import", source, "--replace-ids", f"@{tmp_path}/none").exit_code == 2
    assert rows(there) == before


def test_a_new_dataset_gets_the_listed_rows(there: Run, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text(NEW)

    succeed(there("import", more, "--primary-key", "id", "--replace-ids", "5\n6\n7"))

    lines = succeed(there("diff", "[EMPTY]...HEAD", "more", "-o", "json")).stdout
    changes = json.loads(lines)["kart.diff/v1+hexwkb"]["more"]["feature"]
    assert [each["+"]["id"] for each in changes] == [5, 6]


def test_words_for_tables_count_over_those_that_are_there(there: Run, tmp_path: Path) -> None:
    source = tmp_path / "lots.csv"
    file = tmp_path / "info.json"
    for title in ("First", "Second"):
        file.write_text(json.dumps({"lots": {"title": title}}))
        succeed(there("import", source, "--replace", "--table-info", f"@{file}"))
        meta = json.loads(there("meta", "get", "lots", "-o", "json").stdout)["lots"]
        assert meta["title"] == title


@pytest.mark.few(2)
@pytest.mark.parametrize("text", ["{", "[]", '{"lots": 1}', '{"lots": {"titel": "x"}}'])
def test_bad_words_for_tables(there: Run, tmp_path: Path, text: str) -> None:
    result = there("import", tmp_path / "lots.csv", "--replace", "--table-info", text)

    assert result.exit_code == 2
    assert "--table-info" in result.stderr


def test_xml_is_for_karts(tmp_path: Path) -> None:
    source = tmp_path / "lots.csv"
    source.write_text(OLD)
    info = json.dumps({"lots": {"xmlMetadata": "<a/>"}})
    for kind, code in (("kart", 0), ("havasu", 2)):
        repo = tmp_path / kind
        succeed(invoke(["init", "--kart", repo]))
        how = ["--as", kind, "--primary-key", "id", "--table-info", info]
        assert invoke(["-C", repo, "import", source, *how]).exit_code == code
        if code == 0:
            shown = invoke(["-C", repo, "meta", "get", "lots", "metadata.xml"])
            assert "<a/>" in shown.stdout
