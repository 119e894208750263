"""`havasu-vc repair`."""

from tests.cli.conftest import Run, succeed


def test_nothing_to_repair(run: Run) -> None:
    before = run("log", "-o", "json").stdout

    assert "nothing to repair" in succeed(run("repair")).stderr
    assert run("log", "-o", "json").stdout == before
