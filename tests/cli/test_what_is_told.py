"""What a command tells of what it did: no more than it did, and nothing of it in silence."""

import decimal
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.support.examples import some
from tests.support.git import run_git


def test_a_rename_and_a_new_column_in_one_save_are_no_drop(run: Run, tmp_path: Path) -> None:
    """QGIS saves both at once; rows whose values stayed are not changed by it."""
    copy = tmp_path / "copy.gpkg"
    succeed(run("checkout", "--as", copy))
    with closing(sqlite3.connect(copy)) as database, database:
        triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'rtree%'"
        for (name,) in database.execute(triggers).fetchall():  # they ask for functions of GDAL
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute("ALTER TABLE points ADD COLUMN note TEXT")
        database.execute("ALTER TABLE points RENAME COLUMN name TO label")
        database.execute("UPDATE points SET note = 'new' WHERE id = 2")
    said = run("meta", "get", "points", "schema.json", "-o", "json").stdout
    before = {each["name"]: each["id"] for each in json.loads(said)["points"]["schema.json"]}

    succeed(run("commit", "--from", copy, "-m", "Renamed and added"))

    said = run("meta", "get", "points", "schema.json", "-o", "json").stdout
    after = {each["name"]: each["id"] for each in json.loads(said)["points"]["schema.json"]}
    assert after.keys() == (before.keys() - {"name"}) | {"label", "note"}
    assert after["label"] == before["name"]
    rows = json.loads(run("show", "-o", "json").stdout)["kart.diff/v1+hexwkb"]["points"]["feature"]
    assert [row["+"]["id"] for row in rows] == [2]


@pytest.mark.parametrize("kind", some([(), ("--kart",)], ()))
def test_no_more_items_are_told_than_were_changed(kind: tuple[str, ...], tmp_path: Path) -> None:
    repo, source = tmp_path / "repo", tmp_path / "points.csv"
    source.write_text("id,name\n1,one\n")
    succeed(invoke(["init", repo, *kind]))
    here = ["-C", str(repo)]
    succeed(invoke([*here, "import", source, "--primary-key", "id"]))
    succeed(invoke([*here, "meta", "set", "points", "title=A"]))

    told = succeed(invoke([*here, "meta", "set", "points", "title=A", "description=B"])).output
    if kind:  # in Kart's words
        assert "1 inserts" in told and "updates" not in told
    else:
        assert "  points: description\n" in told
    same = invoke([*here, "meta", "set", "points", "title=A", "description=B"])
    # Kart ends with its code of nothing to commit.
    assert same.exit_code == (44 if kind else 0)
    assert "nothing changed" in same.output.lower()
    shown = succeed(invoke([*here, "show"])).output
    assert "description" in shown and "features" not in shown


def test_names_that_nothing_has_are_told(run: Run) -> None:
    for command in (["diff", "HEAD^...HEAD", "pints"], ["show", "HEAD", "pints"], ["log", "pints"]):
        refused = run(*command)
        assert refused.exit_code == 2, command
        assert "'pints'" in refused.output and "points" in refused.output, command
    branch = run("log", "mian")
    assert branch.exit_code == 2 and "did you mean 'main'?" in branch.output


@pytest.mark.parametrize("form", some(["html", "json", "markdown"], "json"))
def test_a_review_that_is_written_to_a_file_says_so(run: Run, tmp_path: Path, form: str) -> None:
    file = tmp_path / "review"
    done = succeed(run("review", "HEAD^...HEAD", "-o", form, "--output", file))

    assert done.stdout == ""
    assert f"Wrote the review of HEAD^...HEAD to {file}" in done.stderr
    assert file.stat().st_size > 100
    quiet = succeed(run("-q", "review", "HEAD^...HEAD", "-o", form, "--output", file))
    assert quiet.output == ""


def test_a_decimal_has_the_digits_of_its_column(tmp_path: Path) -> None:
    """In a dataset of Kart's, as Kart has it: whether a file or a patch brings it."""
    repo, source = tmp_path / "repo", tmp_path / "sums.parquet"
    value = pa.array([decimal.Decimal("123.456")], pa.decimal128(10, 5))
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "sum": value}), source)
    succeed(invoke(["init", repo, "--kart"]))
    here = ["-C", str(repo)]
    succeed(invoke([*here, "import", source, "--primary-key", "id"]))

    shown = json.loads(succeed(invoke([*here, "show", "-o", "json"])).stdout)
    assert shown["kart.diff/v1+hexwkb"]["sums"]["feature"] == [{"+": {"id": 1, "sum": "123.45600"}}]


def test_a_dataset_may_have_an_at_in_its_path(run: Run, csv_file: Path) -> None:
    """Before a revision stands an @, and in paths and revisions too."""
    succeed(run("import", csv_file, "points@sea", "--primary-key", "id"))
    for name in ("points@sea", "points@sea@HEAD", "points@sea@main@{0}"):
        assert succeed(run("count", name)).stdout.split()[-1] == "3", name
        assert len(succeed(run("head", name, "-n", "1", "-o", "csv")).stdout.splitlines()) == 2
        assert "3" in succeed(run("sql", f'SELECT count(*) FROM "{name}"', "-o", "csv")).stdout
        succeed(run("validate", name))
        succeed(run("describe", name))
    assert succeed(run("count", "points@HEAD^")).stdout.split()[-1] == "3"
    assert run("count", "points@lake").exit_code == 47


def test_a_listed_key_may_have_what_python_takes_for_the_end_of_a_line(
    run: Run, tmp_path: Path
) -> None:
    source, ids = tmp_path / "names.csv", tmp_path / "ids"
    source.write_text("id,n\na\u2028b,1\nc\x0bd,1\n", "utf-8")
    succeed(run("import", source, "--primary-key", "id"))
    source.write_text("id,n\na\u2028b,2\nc\x0bd,2\n", "utf-8")
    ids.write_bytes("a\u2028b\r\n".encode())

    succeed(run("import", source, "names", "--replace-ids", f"@{ids}"))

    rows = json.loads(run("show", "-o", "json").stdout)["kart.diff/v1+hexwkb"]["names"]["feature"]
    assert [row["+"] for row in rows] == [{"id": "a\u2028b", "n": 2}]


def test_a_commit_of_a_time_that_no_number_holds(run: Run, repo: Path) -> None:
    tree, parent = (run_git("rev-parse", name, cwd=repo) for name in ("HEAD^{tree}", "HEAD"))
    who = f"M <m@example.org> {'9' * 60} +0000"
    text = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\nLate\n"
    named = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
    commit = run_git(*named, cwd=repo, stdin=text)
    run_git("update-ref", "refs/heads/main", commit, cwd=repo)

    assert "Late" in succeed(run("show")).stdout
    assert succeed(run("diff", "HEAD^")).stdout == ""
    assert "points" in succeed(run("data", "ls")).stdout
    assert "Nothing to commit" in succeed(run("status")).stdout
    assert "Late" in succeed(run("log", "-1")).stdout
    assert len(json.loads(succeed(run("log", "-o", "json")).stdout)) == 3
    blamed = run("blame", "points")
    assert blamed.exit_code == 11
    assert f"git object {commit}: its history cannot be read" in blamed.stderr

    succeed(run("meta", "set", "points", "title=Later"))
    assert run_git("rev-parse", "HEAD^", cwd=repo) == commit


def test_a_title_that_a_crash_cut_short_is_in_no_other_datasets_way(
    run: Run, repo: Path, csv_file: Path
) -> None:
    succeed(run("import", csv_file, "good", "--primary-key", "id"))
    path = "points/.havasu-dataset/meta/title"
    title = run_git("hash-object", "-w", "--stdin", cwd=repo, stdin="Points of interest" * 9)
    run_git("update-index", "--add", "--cacheinfo", f"100644,{title},{path}", cwd=repo)
    run_git("commit", "--quiet", "-m", "Title", cwd=repo)
    file = repo / ".git" / "objects" / title[:2] / title[2:]
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[:12])

    listed = run("data", "ls")
    assert (listed.exit_code, listed.stdout.split()) == (0, ["good", "points"])
    assert "damaged or cut short" in listed.stderr
    diff = run("diff", "[EMPTY]...HEAD", "-o", "json")
    assert diff.exit_code == 11
    assert list(json.loads(diff.stdout)["kart.diff/v1+hexwkb"]) == ["good"]


def test_a_table_without_columns_is_not_edited(run: Run, repo: Path, csv_file: Path) -> None:
    succeed(run("import", csv_file, "rows", "--no-primary-key"))
    run_git("rm", "-rq", "--sparse", "--cached", "rows/.havasu-dataset/columns", cwd=repo)
    run_git("commit", "--quiet", "-m", "No columns", cwd=repo)

    result = run("meta", "set", "rows", "title=Rows")
    assert result.exit_code == 20, result.output
    assert "rows would have no columns" in result.stderr
    succeed(run("revert", "HEAD"))
    assert "height" in succeed(run("meta", "get", "rows", "schema.json")).stdout
