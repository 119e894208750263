"""`havasu-vc log`."""

import json

import pytest

from tests.cli.conftest import Run, succeed


def subjects(run: Run, *arguments: str) -> list[str]:
    commits = json.loads(succeed(run("log", "-o", "json", *arguments)).stdout)
    return [commit["message"].strip() for commit in commits]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["Second", "First"]),
        (("-1",), ["Second"]),
        (("-n", "1", "--skip", "1"), ["First"]),
        (("HEAD^",), ["First"]),
        (("HEAD^..HEAD",), ["Second"]),
        (("points",), ["Second", "First"]),
        (("--", "points:meta:title"), []),
        (("--grep", "^Fir"), ["First"]),
        (("--author", "nobody"), []),
        (("--until", "2001-01-01"), []),
    ],
)
def test_which_commits(run: Run, arguments: tuple[str, ...], expected: list[str]) -> None:
    assert subjects(run, *arguments) == expected


def test_text(run: Run) -> None:
    result = succeed(run("log", "-1"))

    assert result.stdout.startswith("commit ")
    assert "\n    Second\n" in result.stdout
    assert "\x1b" not in result.stdout


def test_lines(run: Run) -> None:
    lines = succeed(run("log", "-o", "json-lines")).stdout.splitlines()

    assert [json.loads(line)["message"].strip() for line in lines] == ["Second", "First"]
    assert len(succeed(run("log", "--oneline")).stdout.splitlines()) == 2


def test_the_graph_is_gits(run: Run) -> None:
    assert succeed(run("log", "--graph", "--oneline", "-1")).stdout.endswith(" Second\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nope",), 2),
        (("nope", "--"), 47),
        (("--grep", "("), 2),
        (("-n", "-1"), 2),
        (("--graph", "-o", "json"), 2),
        (("--graph", "points:meta"), 2),
    ],
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    result = run("log", *arguments)

    assert result.exit_code == code, result.output
    assert result.stderr.startswith("Error: ")
