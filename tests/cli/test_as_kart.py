"""In Kart's place: streams in its repositories, and words where this program is called `kart`."""

import json
import re
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from havasu_vc.cli.kart import counts as kart_counts
from havasu_vc.model.diffs import DatasetDiff
from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git

OPTIONS = ("--primary-key", "id", "--csv-lon", "lon", "--csv-lat", "lat", "--crs", "EPSG:4326")


@pytest.fixture
def called_kart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])


def imported(repo: Path, csv_file: Path, *options: str) -> str:
    succeed(invoke(["init", *options, repo]))
    result = succeed(invoke(["-C", repo, "import", csv_file, *OPTIONS]))
    return result.stdout


def test_results_are_on_stdout_in_karts_repositories(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    assert "Imported 3 rows into table" in imported(repo, csv_file, "--kart")
    changed = invoke(["-C", repo, "meta", "set", "table", "title=A title"])
    assert changed.stdout.startswith("[main ") and not changed.stderr

    other = tmp_path / "other"
    assert imported(other, csv_file) == ""
    assert succeed(invoke(["-C", other, "meta", "set", "table", "title=T"])).stdout == ""


def test_json_stands_alone_on_stdout(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file, "--kart")
    succeed(invoke(["-C", repo, "branch", "side"]))
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=A title"]))
    merged = succeed(invoke(["-C", repo, "merge", "side", "-o", "json"]))
    assert "kart.merge/v1" in json.loads(merged.stdout)


def test_meta_items_that_are_not_there_and_those_that_stay(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file, "--kart")
    meta = ("-C", repo, "meta")
    succeed(invoke([*meta, "set", "table", "title=A title"]))
    got = succeed(invoke([*meta, "get", "table", "description", "title", "-o", "json"])).stdout
    assert json.loads(got) == {"table": {"description": None, "title": "A title"}}
    before = run_git("rev-parse", "HEAD", cwd=repo)
    same = invoke([*meta, "set", "table", "title=A title"])
    assert same.exit_code == 44 and not same.stdout
    assert run_git("rev-parse", "HEAD", cwd=repo) == before


def test_a_dataset_that_goes_is_told_with_its_rows(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file, "--kart")
    gone = succeed(invoke(["-C", repo, "data", "rm", "table", "-m", "x", "-o", "json"])).stdout
    changes = json.loads(gone)["kart.commit/v1"]["changes"]
    assert changes == {"table": {"meta": {"deletes": 2}, "feature": {"deletes": 3}}}


def test_files_beside_a_dataset_go_with_it(tmp_path: Path, csv_file: Path) -> None:
    """As Kart's `data rm`; in repositories of ours files beside a dataset are the user's."""
    repo = tmp_path / "repo"
    imported(repo, csv_file, "--kart")
    files = ("table/a.txt=a", "table/docs/b.txt=b", "c.txt=c")
    succeed(invoke(["-C", repo, "commit-files", "-m", "Files", *files]))

    succeed(invoke(["-C", repo, "data", "rm", "table", "-m", "Gone"]))

    names = run_git("ls-tree", "-r", "--name-only", "HEAD", cwd=repo).splitlines()
    assert "c.txt" in names
    assert not [name for name in names if name.startswith("table/")]


@pytest.mark.parametrize(("form", "kept"), [("--kart", "two\n\n"), ("--havasu", "two\n")])
def test_a_title_of_a_file_keeps_its_last_newline_as_in_kart(
    form: str, kept: str, tmp_path: Path, csv_file: Path
) -> None:
    repo, text = tmp_path / "repo", tmp_path / "title.txt"
    imported(repo, csv_file, *([form] if form == "--kart" else []))
    text.write_text("two\n\n")
    succeed(invoke(["-C", repo, "meta", "set", "table", f"title=@{text}"]))
    got = succeed(invoke(["-C", repo, "meta", "get", "table", "title", "-o", "json"])).stdout
    assert json.loads(got) == {"table": {"title": kept}}


def test_called_kart_it_tells_karts_version_and_what_it_stands_on(called_kart: None) -> None:
    first, *libraries = succeed(invoke(["--version"])).stdout.splitlines()
    # Programs split the line at spaces or commas.
    assert re.fullmatch(r"Kart v0\.17\.2, in the words of havasu-vc \S+", first)
    named = dict(each.split(" v") for line in libraries for each in line[2:].split("; "))
    assert {"Git", "PyGit2", "PyArrow", "SQLite"} <= named.keys()
    assert all(re.fullmatch(r"\d+(\.\w+)+", number) for number in named.values())


def test_called_kart_it_makes_karts_repositories(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    assert "Initialized empty Git repository" in succeed(invoke(["init", repo])).stdout
    assert (repo / ".kart").is_dir()
    repo = tmp_path / "other"
    imported(repo, csv_file)
    clean = succeed(invoke(["-C", repo, "data", "ls"]))
    assert clean.stdout == "table\n" and "havasu-vc" not in clean.output


@pytest.mark.parametrize("command", [["log"], ["status"], ["branch"]])
def test_called_kart_it_says_what_scripts_compare(
    tmp_path: Path, called_kart: None, command: list[str]
) -> None:
    failed = invoke(["-C", tmp_path, *command])
    assert failed.exit_code == 41
    assert failed.stderr == "Error: Current directory is not an existing Kart repository\n"


@pytest.mark.parametrize(("folder", "number"), [("layer/.sno-table/meta", 1), ("layer/meta", 0)])
def test_called_kart_it_refuses_what_is_older_than_it_reads(
    tmp_path: Path,
    called_kart: None,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    number: int,
) -> None:
    made, old = tmp_path / "made", tmp_path / "old.git"
    for each in (folder, f"{folder.removesuffix('/meta')}/features"):
        (made / each).mkdir(parents=True)
        (made / each / "version").write_text("x")
    run_git("init", "--quiet", cwd=made)
    run_git("add", ".", cwd=made)
    run_git("commit", "--quiet", "-m", "Old", cwd=made)
    run_git("clone", "--quiet", "--bare", str(made), str(old), cwd=tmp_path)
    for command in (["log"], ["show"], ["data", "ls"], ["upgrade", old, tmp_path / "new"]):
        refused = invoke(["-C", old, *command])
        assert refused.exit_code == 24 and not refused.stdout
        assert f"This Kart repo uses Datasets v{number}" in refused.stderr
    with monkeypatch.context() as patched:
        patched.setattr(sys, "argv", ["/usr/bin/havasu-vc"])
        refused = invoke(["-C", old, "data", "ls"])
        assert refused.exit_code == 24 and not refused.stdout
        assert f"the repository is in Kart's form V{number}" in refused.stderr
        assert "`kart upgrade` of Kart itself" in refused.stderr
    told = succeed(invoke(["-C", old, "data", "version"])).stdout
    assert told == f"This Kart repo uses Datasets v{number}\n"
    assert invoke(["-C", made, "log"]).exit_code == 41, "a folder of git's is none of Kart's"


def test_by_its_own_name_it_says_more(tmp_path: Path) -> None:
    failed = invoke(["-C", tmp_path, "log"])
    assert failed.exit_code == 41 and "Hint: `havasu-vc init` makes one" in failed.stderr


@pytest.mark.thorough
def test_ranges_mean_what_they_mean_in_kart(tmp_path: Path, csv_file: Path) -> None:
    kart, ours = tmp_path / "kart", tmp_path / "ours"
    for repo, options in ((kart, ("--kart",)), (ours, ())):
        imported(repo, csv_file, *options)
        succeed(invoke(["-C", repo, "branch", "side"]))
        succeed(invoke(["-C", repo, "meta", "set", "table", "title=Main"]))
        tree = run_git("rev-parse", "HEAD^{tree}", cwd=repo).strip()
        succeed(invoke(["-C", repo, "switch", "side"]))
        succeed(invoke(["-C", repo, "meta", "set", "table", "description=Side"]))

        def differ(*revisions: str, repo: Path = repo) -> set[str]:
            shown = succeed(invoke(["-C", repo, "diff", "-o", "json", *revisions])).stdout
            return set(json.loads(shown)["kart.diff/v1+hexwkb"]["table"]["meta"])

        direct, from_base = ("...", "..") if repo is kart else ("..", "...")
        assert differ(f"main{direct}side") == differ("main", "side") == {"title", "description"}
        assert differ(f"main{from_base}side") == {"description"}
        assert differ(f"{tree[:9]}{direct}side") == {"title", "description"}
        log = succeed(invoke(["-C", repo, "log", "--oneline", "main..side"])).stdout
        assert len(log.splitlines()) == 1, "git's meaning, as in Kart's own log"


@pytest.mark.thorough
def test_a_source_is_named_with_its_driver_and_the_layer_behind_it(
    tmp_path: Path, csv_file: Path, called_kart: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    imported(source, csv_file)
    monkeypatch.setenv("HOME", str(tmp_path))
    succeed(invoke(["-C", source, "table-export", "table", tmp_path / "table.gpkg"]))

    repo = tmp_path / "repo"
    made = succeed(
        invoke(["init", repo, "--import", "GPKG:~/table.gpkg", "--workingcopy", repo / "wc.gpkg"])
    )
    assert (repo / "wc.gpkg").exists()
    assert made.stdout.splitlines()[-1] == "Creating GPKG working copy at wc.gpkg ..."
    again = ("import", "gpkg:~/table.gpkg", "table", "--replace-existing")
    refused = invoke(["-C", repo, *again])
    assert refused.exit_code == 44 and refused.stderr == "Error: No changes to commit\n"
    assert invoke(["-C", repo, "import", "GPKG:~/table.gpkg", "other"]).exit_code == 49
    assert "working copy clean" in succeed(invoke(["-C", repo, "status"])).stdout


def test_no_copy_is_made_where_none_is_wanted(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    succeed(invoke(["init", repo]))
    succeed(invoke(["-C", repo, "import", csv_file, *OPTIONS, "--no-checkout"]))
    assert not list(repo.glob("*.gpkg"))
    succeed(invoke(["init", "--bare", tmp_path / "bare", "--workingcopy", "wc.gpkg"]))
    assert not list(tmp_path.rglob("wc.gpkg"))


@pytest.mark.parametrize("words", ["branch a b c", "remote add", "remote nosuch", "gc x"])
def test_what_kart_hands_to_git_ends_as_git_ends_it(
    tmp_path: Path, called_kart: None, words: str
) -> None:
    succeed(invoke(["init", tmp_path / "repo"]))
    assert invoke(["-C", tmp_path / "repo", *words.split()]).exit_code == 129


def test_formats_are_listed_in_karts_form(called_kart: None) -> None:
    sources = succeed(invoke(["import", "--list-formats"])).stdout.splitlines()
    assert "    GeoPackage: PATH.gpkg" in sources and "    ESRI Shapefile: PATH.shp" in sources
    drivers = succeed(invoke(["export", "--list-formats"])).stdout.splitlines()
    assert "    GPKG: GeoPackage" in drivers


def test_formats_are_listed() -> None:
    lines = succeed(invoke(["import", "--list-formats"])).stdout.splitlines()
    assert "GeoPackage: .gpkg" in lines and "GeoParquet: .parquet, .geoparquet, .pq, .parq" in lines
    assert invoke(["import"]).exit_code == 2


@pytest.mark.thorough
def test_small_things_of_karts(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file, "--kart")

    def said(*arguments: str) -> str:
        return succeed(invoke(["-C", repo, *arguments])).stdout

    assert said("data", "ls", "--with-dataset-types") == "table\t(table.v3)\n"
    assert said("data", "ls", "--without-dataset-types") == "table\n"
    (meta,) = json.loads(said("meta", "get", "--with-dataset-types", "-o", "json:compact")).values()
    assert (meta["datasetType"], meta["version"]) == ("table", 3) and "schema.json" in meta
    assert len(said("meta", "get", "-o", "json:compact").splitlines()) == 1

    said("meta", "set", "table", "title=One", "-m", "Titles")
    said("meta", "set", "table", "title=Two", "--amend")
    assert said("log", "-o", "text:%s").splitlines()[0] == "Titles"
    assert len(said("log", "--oneline").splitlines()) == 2
    assert json.loads(said("meta", "get", "table", "title", "-o", "json"))["table"] == {
        "title": "Two"
    }

    said("reset", "HEAD^", "--discard-changes")
    assert len(said("log", "--oneline").splitlines()) == 1
    moved = json.loads(said("mv", "table", "maps/table", "-o", "json", "-m", "There"))
    assert moved["kart.commit/v1"]["message"].strip() == "There"
    said("data", "rm", "maps/table", "-m", "Gone")
    assert said("data", "ls").splitlines()[0] == "The commit at HEAD has no datasets."
    empty = tmp_path / "empty"
    succeed(invoke(["init", "--kart", empty]))
    assert succeed(invoke(["-C", empty, "data", "ls"])).stdout.startswith("Empty repository.\n")


@pytest.mark.thorough
def test_branches_are_made_and_moved_as_they_are_named(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=One"]))

    def at(branch: str) -> str:
        return run_git("log", "-1", "--format=%s", branch, cwd=repo)

    for arguments in (("main^", "--create", "one"), ("-c", "two", "main^")):
        succeed(invoke(["-C", repo, "switch", *arguments]))
        assert at("HEAD").startswith("Import")
    assert invoke(["-C", repo, "switch", "-c", "one"]).exit_code == 20
    succeed(invoke(["-C", repo, "switch", "-C", "one", "main"]))
    assert at("one") == at("main") == at("HEAD") and at("two").startswith("Import")
    succeed(invoke(["-C", repo, "switch", "-C", "one", "two"]))
    assert at("one") == at("HEAD") == at("two")
    for wrong in ((), ("-c", "x", "-C", "y"), ("-c", "x", "-d")):
        assert invoke(["-C", repo, "switch", *wrong]).exit_code == 2
    assert invoke(["-C", repo, "switch", "nope", "--no-guess"]).exit_code == 43


@pytest.mark.thorough
def test_a_changed_key_is_one_change_as_in_kart(tmp_path: Path) -> None:
    kart, ours = tmp_path / "kart", tmp_path / "ours"
    (tmp_path / "t.csv").write_text("id,name\n1,one\n2,two\n3,three\n4,two\n")
    counts = {}
    for repo, options in ((kart, ("--kart",)), (ours, ())):
        succeed(invoke(["init", *options, repo]))
        succeed(invoke(["-C", repo, "import", tmp_path / "t.csv", "--primary-key", "id"]))
        succeed(invoke(["-C", repo, "create-workingcopy"]))
        with closing(sqlite3.connect(repo / f"{repo.name}.gpkg")) as database:
            for edit in (
                "UPDATE t SET id = 9 WHERE id = 1",
                "DELETE FROM t WHERE id = 2",
                "INSERT INTO t (id, name) VALUES (7, 'new')",
            ):
                database.execute(edit)
            database.commit()
        shown = succeed(invoke(["-C", repo, "diff", "-o", "json"])).stdout
        counts[repo] = json.loads(shown)["kart.diff/v1+hexwkb"]["t"]["feature"]
        status = json.loads(succeed(invoke(["-C", repo, "status", "-o", "json"])).stdout)
        told = status["kart.status/v2"]["workingCopy"]["changes"]["t"]["feature"]
        assert sum(told.values()) == len(counts[repo])
    assert counts[kart] == [
        {"-": {"id": 1, "name": "one"}, "+": {"id": 9, "name": "one"}},
        {"-": {"id": 2, "name": "two"}},
        {"+": {"id": 7, "name": "new"}},
    ]
    assert len(counts[ours]) == 4
    committed = succeed(invoke(["-C", kart, "commit", "-m", "Edits"])).stdout.splitlines()
    assert committed[1:5] == ["  t:", "    feature:", "      2 inserts", "      2 deletes"]
    assert committed[5].startswith("  Date: ")
    assert "working copy clean" in succeed(invoke(["-C", kart, "status"])).stdout


def test_called_kart_a_commit_as_json_is_read_once(
    tmp_path: Path, called_kart: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = tmp_path / "repo"
    (tmp_path / "t.csv").write_text("id,name\n1,one\n2,two\n")
    succeed(invoke(["init", repo]))
    succeed(invoke(["-C", repo, "import", tmp_path / "t.csv", "--primary-key", "id"]))
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        database.execute("UPDATE t SET id = 99 WHERE id = 1")
        database.execute("INSERT INTO t VALUES (100, 'new')")
        database.commit()
    asked = []
    real = kart_counts.rows_seen

    def seen(diff: DatasetDiff) -> kart_counts.RowsSeen:
        asked.append(diff.path)
        return real(diff)

    monkeypatch.setattr(kart_counts, "rows_seen", seen)
    told = succeed(invoke(["-C", repo, "commit", "-m", "x", "-o", "json"])).stdout
    counts = json.loads(told)["kart.commit/v1"]["changes"]["t"]["feature"]
    assert list(counts.items()) == [("inserts", 1), ("updates", 1)]
    assert asked == ["t"]


def shown(repo: Path, form: str, *more: str) -> dict[str, dict[str, object]]:
    result = succeed(invoke(["-C", repo, "show", "-o", "json", f"--diff-format={form}", *more]))
    value: dict[str, dict[str, object]] = json.loads(result.stdout)
    return value


def test_json_without_rows_says_whether_there_were_any(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file, "--kart")
    table = shown(repo, "no-data-changes")["kart.diff/v1+hexwkb"]["table"]
    assert isinstance(table, dict) and table["data_changes"] is True and "feature" not in table
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=A title"]))
    table = shown(repo, "no-data-changes")["kart.diff/v1+hexwkb"]["table"]
    assert isinstance(table, dict) and list(table) == ["meta", "data_changes"]
    assert table["data_changes"] is False
    assert list(shown(repo, "none")) == ["kart.show/v1"]
    differ: list[str | Path] = ["-C", repo, "diff", "HEAD^...HEAD", "-o", "json", "--exit-code"]
    assert invoke([*differ, "--diff-format=none"]).exit_code == 1
    assert invoke([*differ, "--diff-format=no-data-changes"]).exit_code == 1


def test_called_kart_texts_and_messages_are_karts(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    made = succeed(invoke(["-C", repo, "switch", "-c", "side"]))
    assert "Creating new branch 'side'..." in made.output
    words = tmp_path / "message.txt"
    words.write_text("From a file\n")
    succeed(invoke(["-C", repo, "commit", "--allow-empty", "-m", f"@{words}"]))
    assert run_git("log", "-1", "--format=%s", cwd=repo).strip() == "From a file"
    assert invoke(["-C", repo, "commit", "--allow-empty", "-m", "@nowhere"]).exit_code == 2
    succeed(invoke(["-C", repo, "switch", "main"]))
    succeed(invoke(["-C", repo, "commit", "--allow-empty", "-m", "Other"]))
    failed = invoke(["-C", repo, "merge", "--ff-only", "side"])
    assert failed.exit_code == 20
    expected = "Error: Can't resolve as a fast-forward merge and --ff-only specified\n"
    assert failed.stderr == expected


def test_called_kart_a_branch_tells_what_it_follows(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    run_git("update-ref", "refs/remotes/origin/side", "HEAD", cwd=repo)
    run_git("config", "remote.origin.url", str(repo), cwd=repo)
    run_git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*", cwd=repo)
    made = succeed(invoke(["-C", repo, "switch", "side"]))
    assert "Creating new branch 'side' to track 'origin/side'..." in made.output


def test_called_kart_what_would_lose_edits_or_says_too_little_is_refused(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=A title"]))
    assert invoke(["-C", repo, "create-patch"]).exit_code == 2
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        database.execute("DELETE FROM gpkg_extensions WHERE extension_name LIKE '%rtree%'")
        for (name,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'rtree%'"
        ).fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute('DELETE FROM "table" WHERE id = 1')
        database.commit()
    before = run_git("rev-parse", "HEAD", cwd=repo)
    refused = invoke(["-C", repo, "reset", "HEAD^"])
    assert refused.exit_code == 29
    assert "You have uncommitted changes in your working copy." in refused.stderr
    assert run_git("rev-parse", "HEAD", cwd=repo) == before
    succeed(invoke(["-C", repo, "reset", "HEAD^", "--discard-changes"]))
    assert run_git("rev-parse", "HEAD", cwd=repo) != before


def test_called_kart_geojson_goes_into_a_folder_that_is_made(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo, folder = tmp_path / "repo", tmp_path / "out"
    imported(repo, csv_file)
    more: list[str | Path] = ["-C", repo, "diff", "[EMPTY]...HEAD", "-o", "geojson", "--output"]
    succeed(invoke([*more, folder]))
    assert [file.name for file in folder.iterdir()] == ["table.geojson"]
    (folder / "old.geojson").write_text("{}")
    (folder / "notes.txt").write_text("")
    succeed(invoke([*more, folder]))
    assert sorted(file.name for file in folder.iterdir()) == ["notes.txt", "table.geojson"]
    refused = invoke([*more, folder / "notes.txt"])
    assert refused.exit_code == 2
    assert "Output path should be a directory for GeoJSON format." in refused.stderr


def test_json_lines_without_rows_say_whether_there_were_any(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file, "--kart")
    how = ["-o", "json-lines", "--diff-format=no-data-changes"]
    said = succeed(invoke(["-C", repo, "diff", "[EMPTY]...HEAD", *how])).stdout
    last = json.loads(said.splitlines()[-1])
    assert last == {"type": "dataChanges", "dataset": "table", "value": True}
    assert '"feature"' not in said


def test_a_branch_of_a_remote_alone_is_not_guessed_when_told(
    tmp_path: Path, csv_file: Path
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    run_git("update-ref", "refs/remotes/origin/side", "HEAD", cwd=repo)
    run_git("config", "remote.origin.url", str(repo), cwd=repo)
    run_git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*", cwd=repo)
    assert invoke(["-C", repo, "checkout", "--no-guess", "side"]).exit_code == 47
    succeed(invoke(["-C", repo, "checkout", "side"]))
    listed = succeed(invoke(["-C", repo, "status", "--list-untracked-tables", "-o", "json"]))
    assert json.loads(listed.stdout)["kart.status/v2"]["branch"] == "side"


def test_called_kart_what_is_there_already_ends_as_in_kart(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    main = "A branch named 'main' already exists."
    both = "'table' conflicts with existing path 'table'"
    cases: list[tuple[list[str | Path], int, str]] = [
        (["switch", "-c", "main"], 2, f"Invalid value for create: {main}"),
        (["checkout", "-b", "main"], 2, f"Invalid value for branch: {main}"),
        (["import", csv_file], 31, f"Dataset path {both}"),
        (["import", repo / "repo.gpkg"], 2, "Import-source is already inside working-copy."),
        (["import", "ann:roads"], 2, "Unrecognised import-source specification."),
        (["import", "GPKG:roads.gpkg"], 48, "Couldn't find 'roads.gpkg'"),
        (["init", repo], 20, f'Invalid value for directory: "{repo}" isn\'t empty'),
    ]
    for arguments, code, told in cases:
        result = invoke(["-C", repo, *arguments])
        assert result.exit_code == code, arguments
        first = next(each for each in result.stderr.splitlines() if each.startswith("Error: "))
        assert first == f"Error: {told}", arguments


def test_called_kart_what_is_not_there_ends_as_in_kart(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    succeed(invoke(["init", repo]))
    refused = invoke(["-C", repo, "commit", "-m", "Nothing"])
    assert refused.exit_code == 42 and "Empty repository." in refused.stderr
    succeed(invoke(["-C", repo, "import", csv_file, *OPTIONS]))
    refused = invoke(["-C", repo, "meta", "get", "other"])
    assert refused.exit_code == 2 and "No such dataset: other" in refused.stderr
    refused = invoke(["-C", repo, "meta", "get", "table", "colour"])
    assert refused.exit_code == 2 and "Couldn't find items: colour" in refused.stderr
    (tmp_path / "new").mkdir()
    for source in ("other:thing", "nothing.gpkg"):
        assert invoke(["init", "--import", source, tmp_path / "new"]).exit_code == 48
        assert not list((tmp_path / "new").iterdir())


def test_called_kart_names_items_and_copies_are_told_as_kart_does(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=One", "description=Two"]))
    found = json.loads(succeed(invoke(["-C", repo, "meta", "get", "-o", "json"])).stdout)
    assert list(found["table"])[:3] == ["title", "description", "schema.json"]
    said = succeed(invoke(["-C", repo, "create-workingcopy", "--delete-existing"])).stdout
    assert said == (
        "Deleting existing working copy at repo.gpkg\nCreating GPKG working copy at repo.gpkg ...\n"
    )
    for words in (["show", "nosuch"], ["diff", "HEAD^...HEAD", "nosuch"], ["log", "nosuch"]):
        result = invoke(["-C", repo, *words])
        assert result.exit_code == 40, words
        assert result.stderr == (
            "Error: Ambiguous argument 'nosuch' - doesn't appear to be either a revision or a "
            "filter\n"
            "Use '--' to separate paths from revisions, like this:\n"
            "'kart <command> [<revision>...] -- [<filter>...]'\n"
        )
    result = invoke(["-C", repo, "create-patch", "nosuch"])
    assert (result.exit_code, result.stderr) == (47, "Error: No commit found at nosuch\n")


def test_called_kart_restore_writes_over_edits_and_passes_over_what_is_not_there(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    with plainly(repo / "repo.gpkg") as database:
        database.execute('DELETE FROM "table" WHERE id = 1')
    succeed(invoke(["-C", repo, "commit", "-m", "One less"]))
    with plainly(repo / "repo.gpkg") as database:
        database.execute('DELETE FROM "table" WHERE id = 2')
    succeed(invoke(["-C", repo, "restore", "other"]))
    succeed(invoke(["-C", repo, "restore", "-s", "HEAD^", "other"]))
    assert ids(repo) == [3]
    succeed(invoke(["-C", repo, "restore", "-s", "HEAD^"]))
    assert ids(repo) == [1, 2, 3]
    assert "1 inserts" in succeed(invoke(["-C", repo, "status"])).stdout


def plainly(file: Path) -> closing[sqlite3.Connection]:
    """Open a working copy without the functions that its index of boxes asks for."""
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("DELETE FROM gpkg_extensions WHERE extension_name LIKE '%rtree%'")
    found = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'rtree%'"
    for (name,) in database.execute(found).fetchall():
        database.execute(f'DROP TRIGGER "{name}"')
    return closing(database)


def ids(repo: Path) -> list[int]:
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        return [row[0] for row in database.execute('SELECT id FROM "table" ORDER BY id')]


def test_the_working_copy_has_the_date_of_its_commit_and_is_the_only_one(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    stamp = int(run_git("log", "-1", "--format=%ct", cwd=repo))
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        (told,) = database.execute("SELECT last_change FROM gpkg_contents").fetchone()
    assert told == f"{datetime.fromtimestamp(stamp, UTC):%Y-%m-%dT%H:%M:%S}.000000Z"
    with plainly(repo / "repo.gpkg") as database:
        database.execute('DELETE FROM "table" WHERE id = 1')
    make = ("create-workingcopy", str(repo / "other.gpkg"), "--delete-existing")
    assert invoke(["-C", repo, *make[:2]]).exit_code == 2
    assert invoke(["-C", repo, *make]).exit_code == 20
    assert (repo / "repo.gpkg").exists() and not (repo / "other.gpkg").exists()
    succeed(invoke(["-C", repo, *make, "--discard-changes"]))
    assert (repo / "other.gpkg").exists() and not (repo / "repo.gpkg").exists()


def test_an_added_column_has_the_id_that_a_commit_keeps(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file, "--kart")
    succeed(invoke(["-C", repo, "checkout"]))
    with plainly(repo / "repo.gpkg") as database:
        database.execute('ALTER TABLE "table" ADD COLUMN colour TEXT')
    edited = succeed(invoke(["-C", repo, "diff", "-o", "json"])).stdout
    succeed(invoke(["-C", repo, "commit", "-m", "Colour"]))
    assert succeed(invoke(["-C", repo, "diff", "HEAD^...HEAD", "-o", "json"])).stdout == edited


def test_a_branch_is_checked_out_by_its_whole_name(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    succeed(invoke(["-C", repo, "checkout", "-b", "side"]))
    succeed(invoke(["-C", repo, "checkout", "refs/heads/main"]))
    assert run_git("symbolic-ref", "HEAD", cwd=repo) == "refs/heads/main"


@pytest.mark.parametrize(
    ("shell", "script", "start", "words"),
    [
        ("bash", ".bash_completions/kart.sh", ".bashrc", "_kart_completion kart"),
        ("zsh", ".zfunc/_kart", ".zshrc", "compdef _kart_completion kart"),
        ("fish", ".config/fish/completions/kart.fish", None, "--command kart"),
    ],
)
def test_completion_is_put_in_place(
    tmp_path: Path,
    called_kart: None,
    monkeypatch: pytest.MonkeyPatch,
    shell: str,
    script: str,
    start: str | None,
    words: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if start is not None:
        (tmp_path / start).write_text("alias ll='ls -l'")
    for _ in range(2):
        done = succeed(invoke(["install", "tab-completion", "--shell", shell]))
        assert f"{shell} completion installed in {tmp_path / script}" in done.stdout
    assert words in (tmp_path / script).read_text()
    if start is not None:
        lines = (tmp_path / start).read_text().splitlines()
        assert lines[0] == "alias ll='ls -l'" and len(lines) == 2


def test_called_kart_a_branch_that_follows_none_pulls_that_of_its_name(
    tmp_path: Path, csv_file: Path, monkeypatch: pytest.MonkeyPatch, called_kart: None
) -> None:
    repo, clone = tmp_path / "repo", tmp_path / "clone"
    imported(repo, csv_file)
    succeed(invoke(["clone", repo, clone]))
    run_git("branch", "--unset-upstream", cwd=clone)
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=A title"]))
    succeed(invoke(["-C", clone, "pull"]))
    heads = {run_git("rev-parse", "HEAD", cwd=each) for each in (repo, clone)}
    assert len(heads) == 1
    monkeypatch.setattr(sys, "argv", ["havasu-vc"])
    assert "Already up to date" in succeed(invoke(["-C", clone, "pull"])).stdout


def test_called_kart_a_quiet_pull_does_not_tell_what_came(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo, clone = tmp_path / "repo", tmp_path / "clone"
    imported(repo, csv_file)
    succeed(invoke(["clone", repo, clone]))
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=A title"]))
    pulled = succeed(invoke(["-C", clone, "pull", "--quiet"]))
    assert pulled.stderr == "" and "Fast-forwarded to" in pulled.stdout
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=Another"]))
    assert "From " in succeed(invoke(["-C", clone, "pull"])).stderr


BOX = "POLYGON((174.45 -41.05, 174.55 -41.05, 174.55 -40.95, 174.45 -40.95, 174.45 -41.05))"
LIMIT = ("checkout", "--spatial-filter", f"EPSG:4326;{BOX}")
UPDATING, MAKING = "Updating repo.gpkg ...\n", "Creating GPKG working copy at repo.gpkg ...\n"
FEW = "(of 3 features read, wrote 1 matching features to the working copy due to spatial filter)\n"
LIMITED: list[tuple[tuple[str, ...], str | None]] = [
    (LIMIT, UPDATING + FEW),
    (LIMIT, ""),
    ((*LIMIT, "--discard-changes"), UPDATING),
    (
        ("create-workingcopy", "--delete-existing"),
        "Deleting existing working copy at repo.gpkg\n" + MAKING + FEW,
    ),
    (("checkout", "--not-dataset=table"), UPDATING),
    (("checkout", "--dataset=table"), UPDATING + FEW),
    (("checkout", "--spatial-filter", "none"), UPDATING),
    ((*LIMIT, "-b", "new"), "Creating new branch 'new'...\n" + UPDATING + FEW),
    (("data", "rm", "table", "-m", "Gone"), None),
    (("reset", "HEAD^"), UPDATING + FEW),
]
"""What Kart says on stdout of a table of which a working copy has some rows; None: not held."""


def test_called_kart_it_tells_how_much_a_spatial_filter_leaves(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    succeed(invoke(["-C", repo, "create-workingcopy", "--delete-existing"]))
    for words, told in LIMITED:
        said = succeed(invoke(["-C", repo, *words])).stdout
        assert told is None or said == told, words


def test_called_kart_an_editor_is_asked_for_the_message_of_a_merge(
    tmp_path: Path, csv_file: Path, called_kart: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file)
    succeed(invoke(["-C", repo, "switch", "-c", "side"]))
    succeed(invoke(["-C", repo, "meta", "set", "table", "description=Side"]))
    succeed(invoke(["-C", repo, "switch", "main"]))
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=Main"]))
    before = run_git("rev-parse", "HEAD", cwd=repo)

    monkeypatch.setenv("EDITOR", 'sh -c \'echo "#" > "$1"\' x')
    refused = invoke(["-C", repo, "merge", "side"])
    assert refused.exit_code == 2
    assert refused.stderr.endswith("\nError: Aborting commit due to empty commit message.\n")
    assert run_git("rev-parse", "HEAD", cwd=repo) == before
    monkeypatch.setenv("EDITOR", "false")
    for failing in (["merge", "side"], ["commit", "--allow-empty"]):
        failed = invoke(["-C", repo, *failing])
        assert failed.exit_code == 129
        asked = f"false {repo}/.kart/COMMIT_EDITMSG"
        assert failed.stderr == (
            f"Error: There was a problem with the editor 'false': Command '{asked}' returned "
            "non-zero exit status 1.\n"
        )
    assert run_git("rev-parse", "HEAD", cwd=repo) == before
    succeed(invoke(["-C", repo, "merge", "side", "--dry-run"]))

    for options, subject in (
        ((), "Mine"),
        (("--no-editor",), 'Merge branch "side" into main'),
        (("-m", "Told"), "Told"),
    ):
        monkeypatch.setenv("EDITOR", "sh -c 'echo Mine > \"$1\"' x")
        succeed(invoke(["-C", repo, "merge", "side", *options]))
        assert run_git("log", "-1", "--format=%s", cwd=repo).strip() == subject
        succeed(invoke(["-C", repo, "reset", "--discard-changes", before.strip()]))
