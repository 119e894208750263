"""`havasu-vc diff`."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, invoke, succeed

RANGE = "HEAD^...HEAD"


def features(run: Run, *arguments: str) -> list[Any]:
    diff = json.loads(succeed(run("diff", "-o", "json", *arguments)).stdout)
    found = diff["kart.diff/v1+hexwkb"].get("points", {})
    assert isinstance(found, dict)
    return list(found.get("feature", []))


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ((RANGE,), 3),
        (("HEAD^..HEAD",), 3),
        (("HEAD^", "HEAD"), 3),
        (("HEAD^",), 3),
        (("HEAD^^{tree}",), 3),
        (("HEAD^?...HEAD", "points"), 3),
        (("[EMPTY]...HEAD^",), 3),
        ((RANGE, "points:feature:2"), 1),
        ((RANGE, "po*:feature"), 3),
        ((RANGE, "points:meta"), 0),
        ((RANGE, "--", "points:feature:4"), 1),
        (("HEAD...HEAD",), 0),
        ((), 0),
    ],
)
def test_which_changes(run: Run, arguments: tuple[str, ...], count: int) -> None:
    assert len(features(run, *arguments)) == count


def test_text(run: Run) -> None:
    lines = succeed(run("diff", RANGE, "points:feature:2")).stdout.splitlines()

    assert lines[:2] == ["--- points:feature:2", "+++ points:feature:2"]
    assert [" ".join(line.split()) for line in lines[2:]] == ["- name = two", "+ name = TWO"]


@pytest.mark.parametrize("form", ["json:extracompact", "json-lines", "geojson"])
def test_other_forms(run: Run, form: str) -> None:
    result = succeed(run("diff", RANGE, "-o", form))

    assert '"TWO"' in result.stdout
    assert result.stderr == ""


def test_styles_are_one_setting(run: Run) -> None:
    apart = succeed(run("diff", RANGE, "-o", "json", "--json-style", "compact")).stdout

    assert apart == succeed(run("diff", RANGE, "-o", "json:compact")).stdout
    assert apart.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((RANGE,), 0),
        ((RANGE, "--exit-code"), 1),
        ((RANGE, "-o", "quiet"), 1),
        (("HEAD...HEAD", "-o", "quiet"), 0),
        ((RANGE, "--exit-code", "--diff-format", "none"), 1),
        ((RANGE, "--exit-code", "--diff-format", "no-data-changes"), 1),
        (("HEAD...HEAD", "--exit-code"), 0),
    ],
)
def test_exit_codes(run: Run, arguments: tuple[str, ...], code: int) -> None:
    assert run("diff", *arguments).exit_code == code


@pytest.mark.parametrize(
    "arguments",
    [("-o", "feature-count"), ("--only-feature-count",), ("--only-feature-count=fast",)],
)
def test_counts(run: Run, arguments: tuple[str, ...]) -> None:
    assert succeed(run("diff", RANGE, *arguments)).stdout == "points:\n\t3 features changed\n"


def test_counts_as_json(run: Run) -> None:
    result = succeed(run("diff", RANGE, "-o", "json", "--only-feature-count"))

    assert json.loads(result.stdout) == {"points": 3}


@pytest.mark.parametrize("accuracy", ["exact", "veryfast"])
def test_counts_at_the_end_of_json_lines(run: Run, accuracy: str) -> None:
    lines = ("diff", RANGE, "-o", "json-lines")
    plain = succeed(run(*lines)).stdout.splitlines()
    counted = succeed(run(*lines, f"--add-feature-count-estimate={accuracy}")).stdout.splitlines()

    assert counted[:-1] == plain
    assert json.loads(counted[-1]) == {
        "type": "featureCountEstimate",
        "accuracy": accuracy,
        "datasets": {"points": 3},
    }


def test_counts_of_a_commit_are_told_too(run: Run) -> None:
    option = "--add-feature-count-estimate=good"
    shown = succeed(run("show", "HEAD", "-o", "json-lines", option)).stdout.splitlines()
    rows = [line for line in shown if json.loads(line)["type"] == "feature"]

    assert sum(json.loads(shown[-1])["datasets"].values()) == len(rows)


def test_halves(run: Run) -> None:
    found = features(run, RANGE, "--delta-filter", "++")

    assert [change["++"]["name"] for change in found if change.get("++")] == ["four"]
    assert run("diff", RANGE, "--delta-filter", "x").exit_code == 2


def test_another_crs(run: Run) -> None:
    result = succeed(run("diff", RANGE, "-o", "geojson", "--crs", "EPSG:2193", "points:feature:4"))
    (feature,) = json.loads(result.stdout)["features"]

    x, y = feature["geometry"]["coordinates"]
    assert 1_700_000 < x < 1_800_000
    assert 5_400_000 < y < 5_450_000


def test_output(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "diff.json"
    result = succeed(run("diff", RANGE, "-o", "json", "--output", path))

    assert result.stdout == ""
    assert path.read_text() == succeed(run("diff", RANGE, "-o", "json")).stdout


def test_output_of_one_file_for_each_dataset(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    succeed(run("diff", RANGE, "-o", "geojson", "--output", folder))

    assert [path.suffix for path in folder.iterdir()] == [".geojson"]


def test_colours(run: Run) -> None:
    assert "\x1b[31m" in succeed(run("diff", RANGE, "--color", "always")).stdout
    assert "\x1b" not in succeed(run("diff", RANGE)).stdout


def test_without_revisions_it_says_that_there_is_no_workspace(run: Run) -> None:
    result = succeed(run("diff"))

    assert result.stdout == ""
    assert result.stderr.startswith("Note: there is no workspace")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nope",), 2),
        (("nope...HEAD",), 47),
        ((RANGE, "nope"), 2),
        ((RANGE, "points:nope"), 2),
        ((RANGE, "points:feature:x"), 2),
        ((RANGE, "--crs", "EPSG:99999"), 25),
        ((RANGE, "-o", "nope"), 2),
        ((RANGE, "-o", "geojson", "--only-feature-count"), 2),
        ((RANGE, "-o", "json:compact", "--json-style", "pretty"), 2),
        ((RANGE, "--output", "/nope/nope/x.json"), 11),
    ],
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    result = run("diff", *arguments)

    assert result.exit_code == code, result.output
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.output


def test_a_key_that_cannot_be_is_told_where_no_row_changed(run: Run) -> None:
    succeed(run("meta", "set", "points", "title=Other"))

    refused = run("diff", "HEAD^...HEAD", "points:feature:abc")

    assert refused.exit_code == 2 and "'abc' cannot be a key" in refused.stderr


@pytest.mark.parametrize(
    ("option", "lines"),
    [
        (
            "--stat",
            [
                " points | 1 row inserted, 1 updated, 1 deleted",
                " 1 dataset changed, 1 row inserted, 1 updated, 1 deleted",
            ],
        ),
        ("--shortstat", [" 1 dataset changed, 1 row inserted, 1 updated, 1 deleted"]),
        ("--name-only", ["points"]),
        ("--name-status", ["M\tpoints"]),
    ],
)
def test_git_s_options_that_print_less(run: Run, option: str, lines: list[str]) -> None:
    assert succeed(run("diff", RANGE, option)).stdout.splitlines() == lines
    assert succeed(run("show", option)).stdout.splitlines()[-len(lines) :] == lines
    assert succeed(run("diff", "HEAD...HEAD", option)).stdout == ""
    assert run("diff", RANGE, option, "--exit-code").exit_code == 1
    refused = run("diff", RANGE, option, "-o", "json")
    assert refused.exit_code == 2 and f"{option} is a form of its own" in refused.stderr


def test_datasets_and_items_that_come_change_and_go(run: Run) -> None:
    succeed(run("meta", "set", "points", "title=Places"))
    assert succeed(run("show", "--stat")).stdout.splitlines()[-2:] == [
        " points | title",
        " 1 dataset changed",
    ]
    succeed(run("mv", "points", "places"))
    assert " points => places | moved\n" in succeed(run("show", "--stat")).stdout
    succeed(run("rm", "places"))
    assert succeed(run("show", "--name-status")).stdout.splitlines()[-1] == "D\tplaces"
    succeed(run("revert", "HEAD"))
    assert succeed(run("show", "--name-status")).stdout.splitlines()[-1] == "A\tplaces"
    assert " places | added; 3 rows inserted" in succeed(run("show", "--stat")).stdout


@pytest.mark.parametrize("command", [("diff", RANGE), ("diff", "HEAD...HEAD"), ("show", "HEAD")])
@pytest.mark.parametrize(
    ("named", "note"),
    [
        ("points:feature:99", "points has no row 99"),
        ("points:99", "points has no row 99"),
        ("points:meta:schema.jsn", "no meta item 'schema.jsn'; did you mean 'schema.json'?"),
        ("points:feature:1", ""),
        ("points:feature:3", ""),
        ("points:meta:schema.json", ""),
    ],
)
def test_what_filters_name_and_no_side_has_is_told(
    run: Run, command: tuple[str, str], named: str, note: str
) -> None:
    if command[1] == "HEAD...HEAD" and named.endswith(":3"):
        note = "points has no row 3"  # which was there before
    result = succeed(run(*command, "--", named))

    assert note in result.stderr and bool(result.stderr) == bool(note)
    assert (
        run(*command, "-o", "json", "--", named).stdout
        == succeed(run("-q", *command, "-o", "json", "--", named)).stdout
    )


def test_of_many_rows_those_that_no_side_has_are_told(run: Run) -> None:
    named = [f"points:feature:{number}" for number in (98, 1, 3, 99)]
    told = succeed(run("diff", RANGE, "--", *named)).stderr.splitlines()
    assert told == ["Note: points has no row 98", "Note: points has no row 99"]


def test_keys_of_several_columns_may_hold_commas(run: Run, tmp_path: Path) -> None:
    """Values are quoted where they are shown, so that they can be typed again."""
    names = ["x, y", 'q"r', '"z"', "plain"]
    source = tmp_path / "parts.csv"
    with source.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "part", "note"])
        writer.writerows([name, number, "x"] for number, name in enumerate(names))
    succeed(run("import", source, "--primary-key", "name,part"))
    text = succeed(run("diff", RANGE, "parts")).stdout
    shown = [line[4:] for line in text.splitlines() if line.startswith("+++ parts:feature:")]
    assert sorted(shown) == [
        'parts:feature:"""z""",2',
        'parts:feature:"x, y",0',
        "parts:feature:plain,3",
        'parts:feature:q"r,1',
    ]
    for each in shown:
        found = succeed(run("diff", RANGE, "--", each))
        assert found.stdout.count("note = x") == 1 and found.stderr == ""
    told = succeed(run("blame", "parts")).stdout
    assert all(each.removeprefix("parts:feature:") in told for each in shown)
    result = run("diff", RANGE, "--", "parts:feature:\udcff,0")
    assert result.exit_code == 2 and "cannot be a key" in result.stderr
    result = run("diff", RANGE, "--", "parts:feature:x, y,0")
    assert result.exit_code == 2
    assert 'a value with a comma is quoted, as in "a, b",c' in result.stderr


@pytest.mark.parametrize("quiet", ["-q", "--quiet"])
def test_quietly_the_exit_code_tells_as_of_git(quiet: str, run: Run) -> None:
    for more in ((), ("--stat",), ("--name-only",), ("--only-feature-count=exact",)):
        differing = run("diff", quiet, "HEAD^", "HEAD", *more)
        assert (differing.exit_code, differing.output) == (1, "")
        assert run("diff", quiet, "HEAD", "HEAD", *more).exit_code == 0


@pytest.mark.parametrize("command", ["diff", "show", "log"])
def test_revisions_stand_before_filters(command: str, run: Run) -> None:
    refused = run(command, "points", "HEAD^")
    assert refused.exit_code == 2
    assert "the revision 'HEAD^' stands behind the filter 'points'" in refused.stderr
    assert "revisions come first" in refused.stderr


@pytest.mark.parametrize("command", [("show",), ("grep", "one"), ("diff", "HEAD")])
def test_one_revision_more_than_a_command_takes_is_no_dataset(
    command: tuple[str, ...], run: Run
) -> None:
    refused = run(*command, "HEAD", "HEAD^")
    assert refused.exit_code == 2
    assert "'HEAD^' is another" in refused.stderr
    assert run(*command, "HEAD", "--", "points").exit_code == 0


def test_a_repository_without_a_commit_says_how_to_begin(tmp_path: Path) -> None:
    succeed(invoke(["init", tmp_path / "new"]))
    for line in (["show"], ["revert", "HEAD"], ["blame", "points"], ["tag", "v1"], ["merge", "x"]):
        refused = invoke(["-C", tmp_path / "new", *line])
        assert refused.exit_code == 47
        assert refused.stderr.splitlines()[1:] == [
            "Hint: there is no commit yet; `havasu-vc import` makes the first"
        ]


def test_a_revision_that_is_misspelt_is_guessed(run: Run) -> None:
    succeed(run("tag", "release"))
    for wrong, meant in (("HEDA", "HEAD"), ("maim", "main"), ("relaese", "release")):
        assert f"Hint: did you mean {meant!r}?" in run("show", wrong).stderr
