"""`havasu-vc show`."""

import json

import pytest

from tests.cli.conftest import Run, succeed


def test_a_commit_and_its_changes(run: Run) -> None:
    result = succeed(run("show"))

    assert result.stdout.startswith("commit ")
    assert "--- points:feature:3" in result.stdout
    assert "+++ points:feature:4" in result.stdout


def test_json_has_both(run: Run) -> None:
    shown = json.loads(succeed(run("show", "HEAD", "-o", "json", "points:feature:2")).stdout)

    assert list(shown) == ["kart.show/v1", "kart.diff/v1+hexwkb"]
    (change,) = shown["kart.diff/v1+hexwkb"]["points"]["feature"]
    assert (change["-"]["name"], change["+"]["name"]) == ("two", "TWO")


def test_the_first_commit_adds_everything(run: Run) -> None:
    shown = json.loads(succeed(run("show", "HEAD^", "-o", "json:compact")).stdout)

    assert len(shown["kart.diff/v1+hexwkb"]["points"]["feature"]) == 3


def test_without_changes_the_commit_alone(run: Run) -> None:
    shown = json.loads(succeed(run("show", "-o", "json", "--diff-format", "none")).stdout)

    assert shown["kart.diff/v1+hexwkb"] == {}


def test_no_such_commit(run: Run) -> None:
    assert run("show", "nope", "--").exit_code == 47


def test_a_row_as_it_was(run: Run) -> None:
    now = succeed(run("show", "HEAD:points:feature:2")).stdout.splitlines()
    before = json.loads(succeed(run("show", "HEAD^:points:feature:2", "-o", "json")).stdout)

    assert now[0] == "points:feature:2"
    assert f"{'name':>42} = TWO" in now
    assert before["name"] == "two"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("HEAD:points:feature:99", 40),
        ("HEAD:roads:feature:1", 49),
        ("nope:points:feature:1", 47),
    ],
)
def test_a_row_that_was_not_there(run: Run, name: str, code: int) -> None:
    result = run("show", name)

    assert (result.exit_code, result.stdout) == (code, "")


def test_a_row_has_no_geojson(run: Run) -> None:
    assert run("show", "HEAD:points:feature:2", "-o", "geojson").exit_code == 2
