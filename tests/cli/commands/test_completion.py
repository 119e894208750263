"""`havasu-vc completion`."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from havasu_vc.cli.main import cli
from tests.cli.conftest import Run, invoke, succeed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str) -> None:
    result = succeed(invoke(["completion", shell]))

    assert "_HAVASU_VC_COMPLETE" in result.stdout
    assert "havasu-vc" in result.stdout


def test_another_shell() -> None:
    assert invoke(["completion", "tcsh"]).exit_code == 2


def offered(arguments: list[str], incomplete: str) -> list[str]:
    found = ShellComplete(cli, {}, "havasu-vc", "_HAVASU_VC_COMPLETE")
    return [item.value for item in found.get_completions(arguments, incomplete)]


def test_names_of_the_repository_are_offered(run: Run, repo: Path) -> None:
    succeed(run("branch", "postponed"))
    here = ["-C", str(repo)]

    assert offered([*here, "switch"], "p") == ["postponed"]
    assert offered([*here, "export"], "p") == ["points"]
    assert offered([*here, "diff"], "po") == ["postponed", "points"]


def test_the_shell_offers_files_where_a_file_is_meant(repo: Path) -> None:
    found = ShellComplete(cli, {}, "havasu-vc", "_HAVASU_VC_COMPLETE")
    here = ["-C", str(repo)]
    for arguments in (["import"], ["clone"], ["validate"], ["export", "points"], ["apply"]):
        (item,) = found.get_completions([*here, *arguments], "../da")
        assert (item.type, item.value) == ("file", "../da")
    assert offered([*here, "validate"], "po") == ["points"]


def test_nothing_is_offered_where_there_is_nothing(tmp_path: Path) -> None:
    assert offered(["-C", str(tmp_path), "switch"], "") == []
