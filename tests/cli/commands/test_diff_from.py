"""`havasu-vc diff --from`: what was edited in a copy, before it is committed."""

import gc
import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, succeed
from tests.workspace import by_hand


def edit(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as database:
        for function in ("ST_IsEmpty", "ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"):
            database.create_function(function, 1, lambda value: 0)
        for statement in statements:
            database.execute(statement)
        database.commit()


def told(run: Run, *arguments: str | Path) -> Any:
    return json.loads(succeed(run(*arguments, "-o", "json")).stdout)["kart.diff/v1+hexwkb"]


@pytest.mark.parametrize("kind", ["havasu", "kart"])
def test_it_shows_what_a_commit_of_it_holds(kind: str, run: Run, repo: Path) -> None:
    if kind == "kart":
        succeed(run("convert", "points", "--to", "kart"))
    copy = repo.parent / "copy.gpkg"
    succeed(run("checkout", "--as", copy))
    assert succeed(run("diff", "--from", copy)).stdout == ""
    draw = random.Random(kind)
    edit(
        copy,
        f"UPDATE points SET name = 'edited {draw.random()}' WHERE id = {draw.choice([1, 2])}",
        "DELETE FROM points WHERE id = 4",
        "INSERT INTO points (id, name, height) VALUES (9, 'nine', 9.5)",
    )
    shown = told(run, "diff", "--from", copy)
    assert {tuple(sorted(each)) for each in shown["points"]["feature"]} == {
        ("+", "-"),
        ("-",),
        ("+",),
    }
    assert run("diff", "--from", copy, "--exit-code").exit_code == 1
    gc.collect()
    assert list((repo / ".git").rglob("staging/*")) == []
    chosen = told(run, "diff", "--from", copy, "points:feature:9")["points"]["feature"]
    assert [each["+"]["name"] for each in chosen] == ["nine"]
    assert "1 row inserted" in succeed(run("diff", "--from", copy, "--stat")).stdout

    succeed(run("commit", "--from", copy, "-m", "Edits"))
    assert told(run, "show") == shown
    assert succeed(run("diff", "--from", copy)).stdout == ""


def test_it_is_against_the_commit_of_the_copy(run: Run, repo: Path) -> None:
    """What others committed meanwhile, to the same cell even, does not matter."""
    copy, other = repo.parent / "copy.gpkg", repo.parent / "other.gpkg"
    for each in (copy, other):
        succeed(run("checkout", "--as", each))
    edit(copy, "UPDATE points SET name = 'mine' WHERE id = 1", "ALTER TABLE points ADD note TEXT")
    edit(other, "UPDATE points SET name = 'theirs' WHERE id = 1")
    succeed(run("commit", "--from", other, "-m", "Theirs"))

    lines = succeed(run("diff", "--from", copy)).stdout
    assert "name = one" in lines and "name = mine" in lines and "theirs" not in lines
    assert "points:meta:schema.json" in lines
    assert run("commit", "--from", copy, "-m", "Mine").exit_code == 21


def test_a_copy_that_knows_no_commit_is_against_head(run: Run, repo: Path) -> None:
    file = repo.parent / "points.csv"
    succeed(run("export", "points", file))
    file.write_text(file.read_text().replace("one", "ONE"))

    assert "name = ONE" in succeed(run("diff", "--from", file)).stdout
    assert "name = ONE" in succeed(run("diff", "--from", file, "points")).stdout


def test_a_table_elsewhere(run: Run, repo: Path) -> None:
    table = repo.parent / "points"
    succeed(run("checkout", "--to", table, "--dataset", "points"))
    assert succeed(run("diff", "--from", table)).stdout == ""
    by_hand.insert(table, [{"id": 7, "name": "seven", "height": 1.0, "geom": None}])

    (change,) = told(run, "diff", "--from", table)["points"]["feature"]
    assert change["+"]["name"] == "seven" and "-" not in change
    assert told(run, "diff", "--from", table, "points:feature:8") == {}


@pytest.mark.parametrize("kind", ["copy", "table"])
def test_against_a_revision_it_shows_what_is_still_to_be_committed(
    kind: str, run: Run, repo: Path
) -> None:
    if kind == "copy":
        place = repo.parent / "my copy.gpkg"
        succeed(run("checkout", "--as", place))
        edit(place, "UPDATE points SET name = 'edited'", "DELETE FROM points WHERE id = 4")
    else:
        place = repo.parent / "my table"
        succeed(run("checkout", "--to", place, "--dataset", "points"))
        by_hand.insert(
            place, [{"id": i, "name": "new", "height": 1.0, "geom": None} for i in (7, 8)]
        )
    all_of_it = told(run, "diff", "--from", place)["points"]["feature"]
    assert told(run, "diff", "--from", place, "HEAD")["points"]["feature"] == all_of_it
    one = {"copy": "points:feature:1", "table": "points:feature:7"}[kind]
    succeed(run("commit", "--from", place, "-m", "One", "--", one))

    (committed,) = told(run, "show")["points"]["feature"]
    left = told(run, "diff", "--from", place, "HEAD")["points"]["feature"]
    assert len(left) == len(all_of_it) - 1
    assert all(each in all_of_it and each != committed for each in left)
    before = told(run, "diff", "--from", place, "HEAD^")["points"]["feature"]
    assert sorted(map(str, before)) == sorted(map(str, all_of_it))
    if kind == "copy":
        note = run("diff", "--from", place, "--stat").stderr
        assert note.endswith(
            f"`havasu-vc diff --from '{place}' HEAD` compares with it as it is now\n"
        )
        succeed(run("commit", "--from", place, "-m", "All"))
        assert told(run, "diff", "--from", place, "HEAD") == {}


def test_what_is_refused(run: Run, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = repo.parent / "copy.gpkg"
    succeed(run("checkout", "--as", copy))

    hinted = run("diff", copy)
    assert hinted.exit_code == 2
    assert hinted.stderr.splitlines()[-1] == (
        f"Hint: `havasu-vc diff --from {copy}` shows what was edited in a copy"
    )
    monkeypatch.chdir(repo)
    assert run("diff", f"../{copy.name}").stderr.splitlines()[-1] == (
        f"Hint: `havasu-vc diff --from ../{copy.name}` shows what was edited in a copy"
    )
    assert run("diff", "HEAD^..HEAD", "--from", copy).exit_code == 2
    assert run("diff", "--from", repo.parent / "none.gpkg").exit_code == 48
    unknown = run("diff", "--from", copy, "roads")
    assert unknown.exit_code != 0 and unknown.stderr.count("Error") == 1
    copy.write_bytes(b"no GeoPackage")
    damaged = run("diff", "--from", copy)
    assert damaged.exit_code == 28 and damaged.stderr.count("Error") == 1


def test_a_dataset_at_a_revision_is_printed_by_another_command(run: Run) -> None:
    refused = run("show", "HEAD^:points")
    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[1:] == [
        "Hint: `havasu-vc cat points@HEAD^` prints its rows as they were",
        "Hint: `havasu-vc show HEAD^ points` shows what the commit changed of it",
    ]
    assert "id" in succeed(run("cat", "points@HEAD^")).stdout


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT nme FROM points", "did you mean 'name'?"),
        ("SELECT qqqq FROM points", "there is "),
        ("SELECT abss(1)", "did you mean 'abs'?"),
    ],
)
def test_names_that_a_query_has_not_are_answered(run: Run, query: str, hint: str) -> None:
    refused = run("sql", query)
    assert refused.exit_code != 0 and refused.stderr.splitlines()[-1].startswith(f"Hint: {hint}")
