"""`havasu-vc gc`."""

import pytest

from tests.cli.conftest import Run, succeed


def test_it_tells_what_it_removed(run: Run) -> None:
    assert succeed(run("gc")).stderr.startswith("Removed 0 files, 0 bytes")
    assert succeed(run("gc", "--prune-now", "--dry-run")).stderr.startswith("Would remove ")


def test_what_is_needed_stays(run: Run) -> None:
    before = succeed(run("diff", "[EMPTY]...HEAD", "-o", "json")).stdout
    succeed(run("gc", "--prune-now"))

    assert succeed(run("diff", "[EMPTY]...HEAD", "-o", "json")).stdout == before


@pytest.mark.parametrize("days", ["-1", "soon"])
def test_bad_input(run: Run, days: str) -> None:
    assert run("gc", "--grace-days", days).exit_code == 2
