"""`havasu-vc switch`."""

import pytest

from tests.cli.conftest import Run, succeed


def test_there_and_back(run: Run) -> None:
    assert succeed(run("switch", "-c", "new", "HEAD^")).stderr == "Switched to a new branch 'new'\n"
    assert succeed(run("switch", "main")).stderr == "Switched to branch 'main'\n"
    assert succeed(run("switch", "-d", "new")).stderr.endswith(" First\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [((), 2), (("nope",), 43), (("main", "HEAD"), 2), (("-c", "-d", "x"), 2), (("-d", "nope"), 47)],
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    assert run("switch", *arguments).exit_code == code


def test_a_branch_that_is_not_there_has_a_hint(run: Run) -> None:
    assert "`havasu-vc switch -c nope` makes it" in run("switch", "nope").stderr
