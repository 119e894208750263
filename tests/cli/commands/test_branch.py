"""`havasu-vc branch`."""

import json

import pytest

from tests.cli.conftest import Run, succeed


def test_making_listing_and_deleting(run: Run) -> None:
    succeed(run("branch", "old", "HEAD^"))
    assert succeed(run("branch")).stdout == "* main\n  old\n"

    branches = json.loads(succeed(run("branch", "-o", "json")).stdout)["kart.branch/v1"]
    assert branches["current"] == "main"
    assert set(branches["branches"]) == {"main", "old"}
    assert succeed(run("branch", "--show-current")).stdout == "main\n"

    assert succeed(run("branch", "-d", "old")).stderr.startswith("Deleted branch 'old' (was ")
    assert succeed(run("branch")).stdout == "* main\n"


def test_a_branch_that_is_not_merged(run: Run) -> None:
    succeed(run("checkout", "HEAD^"))
    succeed(run("branch", "-D", "main"))

    assert run("branch").stdout.startswith("* (HEAD detached at ")


def test_other_options_are_gits(run: Run) -> None:
    assert succeed(run("branch", "--contains", "HEAD")).stdout == "* main\n"
    assert run("branch", "-m", "trunk").exit_code == 0
    assert succeed(run("branch", "--show-current")).stdout == "trunk\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("main",), 2),
        (("new", "nope"), 47),
        (("a", "b", "c"), 2),
        (("-d",), 2),
        (("-d", "no"), 43),
    ],
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    result = run("branch", *arguments)

    assert result.exit_code == code, result.output


def test_the_current_branch_stays(run: Run) -> None:
    for option in ("-d", "-D"):
        refused = run("branch", option, "main")
        assert refused.exit_code == 20
        assert refused.stderr.splitlines() == [
            "Error: HEAD is on branch 'main', which therefore stays",
            "Hint: `havasu-vc switch BRANCH` to another one first",
        ]
