"""`havasu-vc init`."""

from pathlib import Path

from tests.cli.conftest import invoke, succeed


def test_it_makes_a_repository(tmp_path: Path) -> None:
    result = succeed(invoke(["init", tmp_path / "new" / "repo", "-b", "trunk"]))

    assert "Initialized repository in" in result.stderr
    assert result.stdout == ""
    status = succeed(invoke(["-C", tmp_path / "new" / "repo", "status", "-o", "json"]))
    assert '"branch": "trunk"' in status.stdout


def test_it_can_be_done_again(tmp_path: Path) -> None:
    succeed(invoke(["init", tmp_path]))
    succeed(invoke(["init", tmp_path]))

    assert invoke(["init", tmp_path, "--bare"]).exit_code == 2


def test_bare(tmp_path: Path) -> None:
    succeed(invoke(["init", "--bare", tmp_path / "repo.git"]))

    assert (tmp_path / "repo.git" / "HEAD").is_file()


def test_it_imports(tmp_path: Path, csv_file: Path) -> None:
    result = succeed(invoke(["init", tmp_path / "repo", "--import", csv_file, "-m", "Start"]))

    assert "Imported 3 rows into table" in result.stderr
    log = succeed(invoke(["-C", tmp_path / "repo", "log", "--oneline"]))
    assert log.stdout.endswith("Start\n")


def test_a_file_is_in_the_way(csv_file: Path) -> None:
    result = invoke(["init", csv_file])

    assert result.exit_code == 11
    assert "cannot be made" in result.stderr
