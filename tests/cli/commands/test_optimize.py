"""`havasu-vc optimize`."""

from tests.cli.conftest import Run, succeed


def test_no_row_changes(run: Run) -> None:
    succeed(run("optimize", "-m", "Fold"))

    assert run("diff", "HEAD^...HEAD", "-o", "quiet").exit_code in (0, 1)
    assert succeed(run("diff", "main", "main")).stdout == ""


def test_a_dry_run_commits_nothing(run: Run) -> None:
    before = run("log", "-o", "json").stdout
    succeed(run("optimize", "points", "--dry-run"))

    assert run("log", "-o", "json").stdout == before


def test_no_such_dataset(run: Run) -> None:
    assert run("optimize", "nope").exit_code == 49
