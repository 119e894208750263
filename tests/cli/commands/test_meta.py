"""`havasu-vc meta`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.conftest import Run, invoke, succeed


def get(run: Run, *names: str) -> dict[str, Any]:
    found = json.loads(succeed(run("meta", "get", "points", *names, "-o", "json")).stdout)
    return dict(found["points"])


def test_set_and_get(run: Run, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("About\npoints\n")
    result = succeed(run("meta", "set", "points", "title=A=B", f"description=@{text}", "-m", "Say"))

    assert result.stderr.splitlines()[0].endswith("] Say")
    assert "  points: description, title\n" in result.output
    assert get(run, "title", "description") == {"title": "A=B", "description": "About\npoints"}
    assert (
        succeed(run("meta", "get", "points", "title")).stdout == "points\n    title\n        A=B\n"
    )


def test_unset(run: Run) -> None:
    succeed(run("meta", "set", "points", "title=Old"))
    succeed(run("meta", "set", "points", "--unset", "title"))

    assert run("meta", "get", "points", "title").exit_code == 40


def test_a_schema_evolves(run: Run) -> None:
    columns = get(run, "schema.json")["schema.json"]
    for column in columns:
        if column["name"] == "name":
            column["name"] = "label"
    succeed(run("meta", "set", "points", f"schema.json={json.dumps(columns)}"))

    assert "label" in [column["name"] for column in get(run)["schema.json"]]
    assert "name" in [
        column["name"]
        for column in json.loads(
            run("meta", "get", "points", "schema.json", "--ref", "HEAD^", "-o", "json").stdout
        )["points"]["schema.json"]
    ]


def test_what_is_shown_cannot_control_the_terminal(run: Run) -> None:
    succeed(run("meta", "set", "points", "title=a\x1b[31mb"))

    assert "\x1b" not in succeed(run("meta", "get")).stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("points",), 2),
        (("points", "title"), 2),
        (("points", "title=a", "title=b"), 2),
        (("points", "nope=a"), 2),
        (("points", "schema.json=nope"), 2),
        (("points", "schema.json=[]"), 23),
        (("points", "title=@/nope/nope"), 11),
        (("nope", "title=a"), 49),
    ],
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    before = run("log", "-o", "json").stdout
    result = run("meta", "set", *arguments)

    assert result.exit_code == code, result.output
    assert run("log", "-o", "json").stdout == before


def test_a_key_is_chosen_by_name(run: Run, csv_file: Path) -> None:
    succeed(run("import", csv_file, "keyless"))

    unknown = run("meta", "set", "keyless", "primary-key=no")
    assert unknown.exit_code == 2
    assert (
        "there is no column 'no'" in unknown.stderr and "the columns are id, name" in unknown.stderr
    )
    both = run("meta", "set", "keyless", "primary-key=id", "schema.json=[]")
    assert "schema.json says which columns are the key" in both.stderr

    succeed(run("meta", "set", "keyless", "primary-key=id"))
    assert "key: id" in succeed(run("describe", "keyless")).stdout
    rows = csv_file.read_text().replace("two", "TWO")
    csv_file.write_text(rows)
    replaced = succeed(run("import", csv_file, "keyless", "--replace"))
    assert "1 update" in replaced.stderr
    succeed(run("meta", "set", "keyless", "primary-key=name,id"))
    assert "key: id, name" in succeed(run("describe", "keyless")).stdout


def test_a_key_that_is_not_unique_is_refused(run: Run, csv_file: Path) -> None:
    csv_file.write_text("id,name\n1,a\n1,b\n")
    succeed(run("import", csv_file, "twice"))
    refused = run("meta", "set", "twice", "primary-key=id")
    assert refused.exit_code == 23 and "Traceback" not in refused.output
    assert "key: none" in succeed(run("describe", "twice")).stdout


def test_a_definition_that_no_column_is_in_is_any_text_in_karts_repositories(
    tmp_path: Path,
) -> None:
    (tmp_path / "places.csv").write_text("id,geom\n1,POINT(1 2)\n")
    repo = tmp_path / "repo"
    succeed(invoke(["init", "--kart", repo]))
    geometry = ("--csv-wkt", "geom", "--crs", "EPSG:4326")
    source = tmp_path / "places.csv"
    succeed(invoke(["-C", repo, "import", source, "--primary-key", "id", *geometry]))

    def run(*words: str) -> Result:
        return invoke(["-C", repo, "meta", "set", "places", *words])

    succeed(run("crs/mine:1.wkt=some text"))
    found = json.loads(succeed(invoke(["-C", repo, "meta", "get", "places", "-o", "json"])).stdout)
    assert found["places"]["crs/mine:1.wkt"] == "some text\n"
    used = run("crs/EPSG:4326.wkt=some text")
    assert used.exit_code and "is not a coordinate reference system" in used.stderr
    # An item is taken away by an empty text, as in Kart.
    succeed(run("crs/mine:1.wkt=", "note=x"))
    succeed(run("note="))
    found = json.loads(succeed(invoke(["-C", repo, "meta", "get", "places", "-o", "json"])).stdout)
    assert found["places"].keys() == {"schema.json", "crs/EPSG:4326.wkt"}
