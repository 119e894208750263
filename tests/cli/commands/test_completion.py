"""`havasu-vc completion`."""

import os
import shutil
import subprocess
import sys
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
    for arguments in (
        ["import"],
        ["clone"],
        ["validate"],
        ["export", "points"],
        ["apply"],
        ["diff", "--from"],
    ):
        (item,) = found.get_completions([*here, *arguments], "../da")
        assert (item.type, item.value) == ("file", "../da")
    assert offered([*here, "validate"], "po") == ["points"]


def test_nothing_is_offered_where_there_is_nothing(tmp_path: Path) -> None:
    assert offered(["-C", str(tmp_path), "switch"], "") == []


def test_the_rest_of_a_range_and_of_a_place_is_offered(run: Run, repo: Path) -> None:
    succeed(run("branch", "postponed"))
    succeed(run("remote", "add", "origin", repo))
    here = ["-C", str(repo)]

    assert offered([*here, "diff"], "main...p") == ["main...postponed"]
    assert offered([*here, "log"], "main..m") == ["main..main"]
    assert offered([*here, "export"], "points@po") == ["points@postponed"]
    for command in ("mv", "rm", "blame", "head", "count", "describe", "cat"):
        assert offered([*here, command], "po") == ["points"]
    for command in ("fetch", "pull", "push"):
        assert offered([*here, command], "or") == ["origin"]
    assert "--stat" in offered([*here, "diff"], "--st")
    assert offered([*here, "data"], "fet") == ["fetch"]


BASH = """\
source ./script
answer() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _havasu_vc_completion havasu-vc 2>/dev/null
    echo "${COMPREPLY[@]}"
}
answer havasu-vc swi
answer havasu-vc -C repo switch postp
answer havasu-vc -C repo export p
answer havasu-vc -C repo diff main...postp
answer havasu-vc -C repo diff --st
"""
FISH = """\
source ./script
complete -C "havasu-vc swi"
complete -C "havasu-vc -C repo switch postp"
complete -C "havasu-vc -C repo export p"
complete -C "havasu-vc -C repo diff main...postp"
complete -C "havasu-vc -C repo diff --st"
"""
# Its own functions that offer words are for the line that is being edited alone.
ZSH = """\
compdef() { }
_describe() { print -r -- "${${(P)3}[1]%%:*}" }
compadd() { print -r -- "${${(P)argv[-1]}[1]}" }
source ./script
answer() { words=("$@"); CURRENT=$#; _havasu_vc_completion }
answer havasu-vc swi
answer havasu-vc -C repo switch postp
answer havasu-vc -C repo export p
answer havasu-vc -C repo diff main...postp
answer havasu-vc -C repo diff --st
"""
EXPECTED = ["switch", "postponed", "points", "main...postponed", "--stat"]


@pytest.mark.parametrize(
    ("shell", "asking"),
    [("bash", BASH), ("fish", FISH), ("zsh", ZSH)],
    ids=["bash", "fish", "zsh"],
)
@pytest.mark.thorough
def test_a_shell_completes(shell: str, asking: str, run: Run, repo: Path, tmp_path: Path) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell}")
    succeed(run("branch", "postponed"))
    (tmp_path / "script").write_text(succeed(invoke(["completion", shell])).stdout)
    program = tmp_path / "bin" / "havasu-vc"
    program.parent.mkdir()
    root = Path(__file__).parents[3]
    start = "from havasu_vc.cli.main import main; main()"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH='{root}' exec '{sys.executable}' -c '{start}' \"$@\"\n"
    )
    program.chmod(0o755)
    done = subprocess.run(
        [found, "-c", asking],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    # Fish tells of what an option does behind a tab.
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == EXPECTED
