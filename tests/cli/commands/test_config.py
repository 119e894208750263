"""`havasu-vc config`."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke


def test_arguments_are_gits(run: Run, repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("config", "havasu.test", "--not-ours").exit_code == 0
    assert run("config", "--get", "havasu.test").exit_code == 0
    assert capfd.readouterr().out == "--not-ours\n"
    assert "--not-ours" in (repo / ".git" / "config").read_text()


def test_what_is_not_set_is_gits_exit_code(run: Run) -> None:
    assert run("config", "--get", "havasu.nope").exit_code == 1


def test_without_a_repository(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert invoke(["-C", tmp_path, "config", "--get", "user.name"]).exit_code == 0
    assert capfd.readouterr().out == "Test User\n"
    assert invoke(["-C", tmp_path, "config", "--local", "a.b", "c"]).exit_code == 41
