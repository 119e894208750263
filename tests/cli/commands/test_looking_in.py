"""`head`, `cat`, `count` and `describe`, and what to type for a command that only git has."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.cli.main import COMMANDS, GIT_VERBS
from tests.cli.conftest import Run, succeed
from tests.support.git import run_git


def test_all_rows_as_csv_and_json(run: Run) -> None:
    found = list(csv.DictReader(io.StringIO(succeed(run("cat", "points")).stdout)))
    assert {(row["id"], row["name"], row["height"]) for row in found} == {
        ("1", "one", "1.5"),
        ("2", "TWO", "2.5"),
        ("4", "four", "4.5"),
    }
    lines = succeed(run("cat", "points@HEAD^", "-o", "json-lines", "--columns", "name,id")).stdout
    rows = [json.loads(line) for line in lines.splitlines()]
    assert rows == [
        {"name": "one", "id": 1},
        {"name": "two", "id": 2},
        {"name": "three", "id": 3},
    ]


def test_features_on_lines(run: Run) -> None:
    lines = succeed(run("cat", "points@HEAD^", "-o", "geojson-lines")).stdout.splitlines()

    first = json.loads(lines[0])
    assert first["geometry"] == {"type": "Point", "coordinates": [174.5, -41.0]}
    row = {"id": 1, "name": "one", "height": 1.5, "lon": 174.5, "lat": -41.0}
    assert first["properties"] == row
    assert len(lines) == 3
    assert run("cat", "points", "-o", "geojson-lines", "--columns", "id").exit_code == 2


def test_the_first_rows(run: Run) -> None:
    text = succeed(run("head", "points@HEAD^", "-n", "2", "--columns", "id,name")).stdout
    assert text.split() == ["id", "name", "--", "----", "1", "one", "2", "two"]
    chosen = succeed(run("head", "points", "--where", "name=TWO", "-o", "json-lines")).stdout
    assert [json.loads(line)["id"] for line in chosen.splitlines()] == [2]
    assert (
        len(succeed(run("head", "points", "-n", "1", "-o", "geojson-lines")).stdout.splitlines())
        == 1
    )


def test_geometries_are_seen_as_text(run: Run, tmp_path: Path) -> None:
    line = f"LINESTRING ({', '.join(f'{n} 0.5' for n in range(30))})"
    source = tmp_path / "shapes.csv"
    source.write_text(f'id,wkt\n1,POINT (1 2)\n2,"{line}"\n3,\n')
    succeed(run("import", source, "--primary-key", "id"))

    lines = succeed(run("head", "shapes")).stdout.splitlines()[2:]

    first, second, third = (line.partition(" ")[2].strip() for line in lines)
    assert first == "POINT (1 2)" and third in ("", "null")
    assert second.endswith("…") and line.startswith(second.strip("…"))
    assert "01010000" in succeed(run("cat", "shapes")).stdout, "CSV is for programs"


def test_how_many(run: Run, repo: Path) -> None:
    assert succeed(run("count", "points")).stdout == "3\n"
    assert succeed(run("count")).stdout == "3\tpoints\n"
    assert succeed(run("count", "points", "points@HEAD^")).stdout == "3\tpoints\n3\tpoints@HEAD^\n"
    assert succeed(run("count", "points", "--where", "height=4.5")).stdout == "1\n"
    assert succeed(run("count", "points", "--where", "name=")).stdout == "0\n"


def test_what_a_dataset_is(run: Run) -> None:
    lines = succeed(run("describe", "points")).stdout.splitlines()

    assert lines[0].startswith("points: havasu, 3 rows, ")
    assert "key: id" in lines and "crs: EPSG:4326" in lines
    assert any(line.startswith("extent: 174.5, -41.3, 174.8, -41") for line in lines)
    assert "  id, long, not null, 1 to 4" in lines
    value = json.loads(succeed(run("describe", "points@HEAD^", "-o", "json")).stdout)
    (height,) = [
        each for each in value["havasu.describe/v1"]["columns"] if each["name"] == "height"
    ]
    assert (height["lower"], height["upper"], height["nulls"]) == (1.5, 3.5, 0)


def test_bounds_are_written_as_values_are(run: Run, tmp_path: Path) -> None:
    rows = {"id": [1, 2], "open": [True, False], "note": ["", "x"]}
    pq.write_table(pa.table(rows), tmp_path / "shops.parquet")
    succeed(run("import", tmp_path / "shops.parquet", "--primary-key", "id"))

    lines = succeed(run("describe", "shops")).stdout.splitlines()
    assert lines[-2:] == ["  open, boolean, false to true", "  note, string, '' to x"]


def test_without_a_dataset_it_is_gits(run: Run, repo: Path) -> None:
    run_git("tag", "-a", "v1", "-m", "One", "HEAD^", cwd=repo)

    assert succeed(run("describe")).stdout.strip() == run_git("describe", cwd=repo)
    assert succeed(run("describe", "--long", "HEAD^")).stdout.startswith("v1-0-g")
    assert run("describe", "nothing").exit_code != 0


def test_bad_input(run: Run) -> None:
    for arguments, code in (
        (("cat", "nothing"), 49),
        (("cat", "points@nothing"), 47),
        (("head", "points", "--columns", "no"), 2),
        (("head", "points", "--where", "no=1"), 2),
        (("head", "points", "--where", "height=tall"), 2),
        (("count", "points", "--where", "height"), 2),
        (("count", "nothing"), 49),
    ):
        assert run(*arguments).exit_code == code, arguments


@pytest.mark.parametrize("name", ["bisect", "add", "worktree", "format-patch"])
def test_what_only_git_has_is_told(run: Run, name: str) -> None:
    refused = run(name)

    assert refused.exit_code == 2
    assert GIT_VERBS[name] in refused.stderr
    assert not GIT_VERBS.keys() & COMMANDS.keys()


def test_a_name_that_nothing_has_is_told_before_git_is_asked(run: Run) -> None:
    gone = run("describe", "pionts")
    assert gone.exit_code != 0 and "no dataset 'pionts'" in gone.stderr
    assert "fatal" not in gone.stderr
    wrong = run("checkout", "points.gpkg")
    assert (wrong.exit_code, "checkout --as points.gpkg" in wrong.stderr) == (2, True)
    assert "revert HEAD" in run("undo").stderr
