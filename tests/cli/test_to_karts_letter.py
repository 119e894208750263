"""In a repository of Kart's a command ends as Kart's does, by whichever name it is called.

What is expected here is what Kart 0.17 did of the same command lines.
"""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git
from tests.support.templates import again

SHOPS = "id,name\n1,one\n2,two\n3,three\n"
EDITED = 'SELECT name FROM "table" WHERE id = 2'


def make(repo: Path) -> None:
    csv_file = repo.parent / "table.csv"
    csv_file.write_text(SHOPS)
    succeed(invoke(["init", "--kart", repo]))
    succeed(invoke(["-C", repo, "import", csv_file, "--primary-key", "id"]))
    succeed(invoke(["-C", repo, "create-workingcopy", "copy.gpkg"]))
    write(repo, "UPDATE \"table\" SET name = 'uno' WHERE id = 1")
    succeed(invoke(["-C", repo, "commit", "-m", "Uno"]))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    again(("to-karts-letter",), make, tmp_path / "repo")
    return tmp_path / "repo"


@pytest.fixture(params=["havasu-vc", "kart"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", [f"/usr/local/bin/{request.param}"])
    return str(request.param)


def write(repo: Path, *statements: str) -> None:
    with closing(sqlite3.connect(repo / "copy.gpkg")) as file, file:
        for each in statements:
            file.execute(each)


def head(repo: Path) -> str:
    return run_git("rev-parse", "HEAD", cwd=repo).strip()


@pytest.mark.parametrize(
    "line",
    [
        "meta set table title=X",
        "apply ../patch.json",
        "apply --no-commit ../patch.json",
        "commit-files -m x a.txt=a",
        "mv table other",
        "data rm table",
    ],
)
def test_nothing_is_committed_beside_edits(
    repo: Path, name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    Path("../patch.json").write_text(succeed(invoke(["create-patch", "HEAD"])).stdout)
    write(repo, "UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    before = head(repo)
    refused = invoke(line.split())
    assert refused.exit_code == 29 and not refused.stdout
    if name == "kart":
        assert refused.stderr == (
            "Error: You have uncommitted changes in your working copy.\n"
            "Commit these changes (`kart commit`) or discard these changes (`kart restore`) "
            "first.\n"
        )
    assert head(repo) == before
    with closing(sqlite3.connect("copy.gpkg")) as file:
        assert file.execute(EDITED).fetchone() == ("zwei",)
    changes = json.loads(succeed(invoke(["status", "-o", "json"])).stdout)["kart.status/v2"]
    assert changes["workingCopy"]["changes"] == {"table": {"feature": {"updates": 1}}}


@pytest.mark.parametrize(
    "line",
    [
        "diff -- nosuch",
        "diff table:nosuch",
        "diff table:feature:abc",
        "diff HEAD^ -- nosuch",
        "diff HEAD^...HEAD -- nosuch",
        "diff HEAD^...HEAD table:abc",
    ],
)
def test_a_filter_of_nothing_chooses_nothing(repo: Path, name: str, line: str) -> None:
    write(repo, "UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    command, *words = line.split()
    found = succeed(invoke(["-C", repo, command, "-o", "json", *words]))
    assert json.loads(found.stdout) == {"kart.diff/v1+hexwkb": {}} and not found.stderr
    both = [*words, "table:1"] if "HEAD^...HEAD" in words else [*words, "table:2"]
    assert '"table"' in succeed(invoke(["-C", repo, command, "-o", "json", *both])).stdout


def test_without_dashes_a_name_of_nothing_is_refused(repo: Path, name: str) -> None:
    for words in (["diff", "nosuch"], ["diff", "HEAD^...HEAD", "table", "nosuch"], ["show", "x"]):
        assert invoke(["-C", repo, *words]).exit_code == 40, words
    assert invoke(["-C", repo, "show", "HEAD:nosuch"]).exit_code == 47
    shown = succeed(invoke(["-C", repo, "show", "--", "nosuch"])).stdout
    assert shown.startswith("commit ") and "+" not in shown.split("\n\n")[-1]


def test_bad_input_ends_with_karts_codes(repo: Path, name: str) -> None:
    before = head(repo)
    for words, code in (
        (["commit-files", "-m", "x"], 44),
        (["meta", "set", "table", "schema.json=[]"], 20),
        (["apply", "-"], 1),
        (["init", repo], 20),
    ):
        assert invoke(["-C", repo, *words], stdin="{").exit_code == code, words
    assert head(repo) == before


def test_a_patch_is_not_tried_without_a_working_copy(repo: Path, name: str, tmp_path: Path) -> None:
    patch = succeed(invoke(["-C", repo, "create-patch", "HEAD"])).stdout
    bare = tmp_path / "bare"
    succeed(invoke(["clone", "--kart", "--bare", repo, bare]))
    assert invoke(["-C", bare, "apply", "--no-commit", "-"], stdin=patch).exit_code == 45


def test_what_stands_behind_a_geopackage_is_a_layer(repo: Path, name: str, tmp_path: Path) -> None:
    source = tmp_path / "more.gpkg"
    succeed(invoke(["-C", repo, "export", "table", source, "--layer", "one"]))
    before = head(repo)
    refused = invoke(["-C", repo, "import", source, "nosuch"])
    assert refused.exit_code == 49 and head(repo) == before
    assert name == "kart" or "LAYER:DATASET" in refused.stderr
    succeed(invoke(["-C", repo, "import", source, "one:other"]))
    # A GeoPackage always says what a layer is called, and Kart keeps it.
    assert (
        succeed(invoke(["-C", repo, "meta", "get", "other", "title"])).stdout.split()[-1] == "one"
    )


def test_what_stands_behind_a_file_that_kart_does_not_read_is_a_dataset(
    repo: Path, name: str, tmp_path: Path
) -> None:
    source = tmp_path / "more.csv"
    source.write_text("id,x\n1,2\n")
    common = ("-C", repo, "import", source)
    succeed(invoke([*common, "other", "--primary-key", "id"]))
    succeed(invoke([*common, "more:third", "--primary-key", "id"]))
    assert {"other", "third"} <= set(succeed(invoke(["-C", repo, "data", "ls"])).stdout.split())


def test_geojson_goes_into_a_folder(repo: Path, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "out.geojson"
    succeed(invoke(["-C", repo, "diff", "HEAD^...HEAD", "-o", "geojson", "--output", folder]))
    assert [file.name for file in folder.iterdir()] == ["table.geojson"]


def test_status_has_what_karts_readers_look_for(repo: Path, name: str) -> None:
    found = json.loads(succeed(invoke(["-C", repo, "status", "-o", "json"])).stdout)
    parts = found["kart.status/v2"]["workingCopy"]["parts"]
    assert parts["workdir"] == {"status": "notFound"}
    known = {each: parts["tabular"][each] for each in ("location", "type", "status")}
    assert known == {"location": "copy.gpkg", "type": "gpkg", "status": "ok"}
    assert name == "kart" or parts["tabular"]["path"] == str(repo / "copy.gpkg")


def test_a_dataset_that_is_added_is_told_with_its_items(repo: Path, name: str) -> None:
    write(
        repo,
        "CREATE TABLE owners (fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, called TEXT)",
        "INSERT INTO owners (called) VALUES ('Ann')",
        "INSERT INTO gpkg_contents (table_name, data_type, identifier, srs_id) "
        "VALUES ('owners', 'attributes', 'owners', 0)",
    )
    told = succeed(invoke(["-C", repo, "add-dataset", "owners", "-m", "Owners", "-o", "json"]))
    assert name != "kart" or json.loads(told.stdout)["kart.commit/v1"]["changes"] == {
        "owners": {"meta": {"inserts": 2}, "feature": {"inserts": 1}}
    }
    title = succeed(invoke(["-C", repo, "meta", "get", "owners", "title"])).stdout
    assert title.split() == ["owners", "title", "owners"]


def test_several_layers_are_told_in_the_message(repo: Path, name: str, tmp_path: Path) -> None:
    source = tmp_path / "more.gpkg"
    for layer in ("two", "one"):
        succeed(invoke(["-C", repo, "export", "table", source, "--layer", layer]))
    succeed(invoke(["-C", repo, "import", source, "two:zwei", "one:one"]))
    said = run_git("log", "-1", "--format=%B", cwd=repo).strip()
    assert said == "Import 2 datasets from more.gpkg:\n * one/\n * zwei (from two)"


def test_an_editor_that_is_named_is_asked_for_the_message(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    write(repo, "UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    before = head(repo)
    monkeypatch.setenv("GIT_EDITOR", "true")
    assert invoke(["-C", repo, "commit"]).exit_code == 2 and head(repo) == before
    monkeypatch.setenv("GIT_EDITOR", "echo Told >")
    succeed(invoke(["-C", repo, "commit"]))
    assert run_git("log", "-1", "--format=%B", cwd=repo).strip() == "Told"


def test_a_message_comes_from_stdin_and_json_stands_alone(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    write(repo, "UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    done = succeed(invoke(["-C", repo, "commit", "-m", "@-", "-o", "json"], stdin="From stdin\n"))
    assert json.loads(done.stdout)["kart.commit/v1"]["message"] == "From stdin"
    assert not done.stderr


def test_a_repository_is_named_by_gits_variable(
    repo: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    for place in (str(repo / ".kart"), ".kart"):
        monkeypatch.setenv("GIT_DIR", place)
        assert succeed(invoke(["status"])).stdout.startswith("On branch main\n")


def test_conflicts_of_one_dataset_that_is_named_are_geojson(repo: Path, name: str) -> None:
    source = repo.parent / "more.gpkg"
    succeed(invoke(["-C", repo, "export", "table", source, "--layer", "more"]))
    succeed(invoke(["-C", repo, "import", source, "more"]))
    succeed(invoke(["-C", repo, "switch", "-c", "side"]))
    write(repo, "UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    succeed(invoke(["-C", repo, "commit", "-m", "Side"]))
    succeed(invoke(["-C", repo, "switch", "main"]))
    write(repo, "UPDATE \"table\" SET name = 'deux' WHERE id = 2")
    succeed(invoke(["-C", repo, "commit", "-m", "Main"]))
    succeed(invoke(["-C", repo, "merge", "side"]))
    assert invoke(["-C", repo, "conflicts", "-o", "geojson"]).exit_code == 2
    for each in ("table", "table:feature:2"):
        found = json.loads(succeed(invoke(["-C", repo, "conflicts", "-o", "geojson", each])).stdout)
        assert {part["properties"]["name"] for part in found["features"]} == {"two", "zwei", "deux"}


def test_a_title_of_nothing_is_taken_away(repo: Path, name: str) -> None:
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=X", "description=Y"]))
    succeed(invoke(["-C", repo, "meta", "set", "table", "title="]))
    found = json.loads(succeed(invoke(["-C", repo, "meta", "get", "table", "-o", "json"])).stdout)
    assert "title" not in found["table"] and found["table"]["description"] == "Y"
    assert "title" not in run_git("ls-tree", "-r", "--name-only", "HEAD", cwd=repo)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "diff --only-feature-count=bad",
            "Invalid value for '--only-feature-count': 'bad' is not one of 'veryfast', 'fast', "
            "'medium', 'good', 'exact'.",
        ),
        (
            "diff --diff-format bad",
            "Invalid value for '--diff-format': 'bad' is not one of 'full', 'no-data-changes', "
            "'none'.",
        ),
        (
            "diff --crs nosuch -o json",
            "Invalid value for '--crs': Invalid or unknown coordinate reference system: 'nosuch' "
            "(OGR Error: Corrupt data)",
        ),
        (
            "diff -o json-lines --delta-filter=zz",
            "Invalid value for '--delta-filter': Delta filter only accepts any subset of the "
            "following comma separated keys: --,-,+,++",
        ),
        ("import copy.gpkg nosuch", "Import-source is already inside working-copy."),
    ],
)
def test_called_kart_bad_values_are_told_as_by_kart(
    repo: Path, line: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    monkeypatch.chdir(repo)
    refused = invoke(line.split())
    assert (refused.exit_code, refused.stdout) == (2, "")
    usage, tried, gap, first = refused.stderr.splitlines()[:4]
    assert usage.startswith("Usage: ") and tried.endswith(" --help' for help.") and not gap
    assert first == f"Error: {said}"


def test_called_kart_a_commit_counts_an_edited_key_once_and_in_karts_order(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    with closing(sqlite3.connect(repo / "copy.gpkg")) as file, file:
        file.execute('DELETE FROM "table" WHERE id = 1')
        file.execute('INSERT INTO "table" (id) VALUES (10)')
        file.execute('UPDATE "table" SET id = 20 WHERE id = 2')
    made = succeed(invoke(["-C", repo, "commit", "-m", "x", "-o", "json"])).stdout
    rows = json.loads(made)["kart.commit/v1"]["changes"]["table"]["feature"]
    assert list(rows.items()) == [("deletes", 1), ("inserts", 1), ("updates", 1)]


def test_called_kart_a_merge_names_what_is_no_branch_by_its_id(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    for branch, item in (("side", "title=Side"), ("main", "description=Main")):
        if branch == "side":
            succeed(invoke(["-C", repo, "switch", "-c", branch]))
        else:
            succeed(invoke(["-C", repo, "switch", branch]))
        succeed(invoke(["-C", repo, "meta", "set", "table", item]))
    side = run_git("rev-parse", "side", cwd=repo).strip()
    run_git("remote", "add", "origin", str(repo / ".kart"), cwd=repo)
    for words in (["merge", side[:9]], ["pull", "origin", "side"]):
        monkeypatch.setenv("EDITOR", "true")
        succeed(invoke(["-C", repo, *words]))
        message = run_git("log", "-1", "--format=%s", cwd=repo).strip()
        assert message == f"Merge {side} into main", words
        succeed(invoke(["-C", repo, "reset", "--discard-changes", "HEAD^"]))


@pytest.mark.parametrize("patch", ["[]", "3"])
def test_a_patch_that_is_no_object_ends_as_one_that_cannot_be_read(repo: Path, patch: str) -> None:
    """Kart ends with 1 and a traceback; here a line says why."""
    (repo / "patch.json").write_text(patch)
    refused = invoke(["-C", repo, "apply", repo / "patch.json"])
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: a patch must be a JSON object")


def test_called_kart_a_long_text_of_meta_is_as_wide_as_karts(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    monkeypatch.delenv("COLUMNS", raising=False)
    line = "One line that is longer than the seventy-two characters that there is room for."
    succeed(invoke(["-C", repo, "meta", "set", "table", f"description={line}"]))
    got = succeed(invoke(["-C", repo, "meta", "get", "table", "description"])).stdout
    assert got == (
        "table\n    description\n"
        "        One line that is longer than the seventy-two characters that there is \n"
        "        room for.\n"
    )


def test_an_export_leaves_layers_and_tables_that_are_there(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    file = tmp_path / "rows.gpkg"
    for place in (file, tmp_path / "rows.geojson"):
        assert invoke(["-C", repo, "export", "table", place]).exit_code == 0
        assert invoke(["-C", repo, "export", "table", place]).exit_code == 20
    assert invoke(["-C", repo, "export", "table", repo / "copy.gpkg"]).exit_code == 20
    found = invoke(["-C", repo, "export", "table", file])
    assert f"Layer table already exists in {file} - to overwrite" in found.stderr


def test_words_about_a_table_are_by_the_name_of_its_dataset(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    source = repo.parent / "rows.gpkg"
    assert invoke(["-C", repo, "export", "table", source]).exit_code == 0
    info = json.dumps({"table": {"title": "T"}, "other": {"description": "D"}})
    how = ["table:other", "--dataset", "", "--table-info", info]
    succeed(invoke(["-C", repo, "import", source, *how]))
    meta = json.loads(succeed(invoke(["-C", repo, "meta", "get", "other", "-o", "json"])).stdout)
    assert (meta["other"].get("title"), meta["other"]["description"]) == ("table", "D")


@pytest.mark.parametrize("type_", ["INTEGER", "TEXT"])
def test_a_release_whose_key_is_called_otherwise_has_that_key(
    repo: Path, type_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    source = repo.parent / "rows.gpkg"
    assert invoke(["-C", repo, "export", "table", source]).exit_code == 0
    with closing(sqlite3.connect(source)) as file, file:
        file.execute('DROP TABLE "table"')
        file.execute(f'CREATE TABLE "table" (code {type_} PRIMARY KEY NOT NULL, name TEXT)')
        file.execute("INSERT INTO \"table\" VALUES ('1', 'uno'), ('2', 'zwei')")
    succeed(invoke(["-C", repo, "import", "--replace-existing", source]))
    diff = json.loads(succeed(invoke(["-C", repo, "diff", "HEAD^...HEAD", "-o", "json"])).stdout)
    schema = diff["kart.diff/v1+hexwkb"]["table"]["meta"]["schema.json"]
    was, now = (next(c for c in schema[side] if "primaryKeyIndex" in c) for side in "-+")
    assert (was["name"], now["name"]) == ("id", "code")
    assert (was["id"] == now["id"]) == (type_ == "INTEGER")
    assert "Nothing to commit" in succeed(invoke(["-C", repo, "status"])).stdout
