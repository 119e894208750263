"""Aliases of git's configuration stand for commands, and never in the place of one."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git


@pytest.fixture
def alias(repo: Path) -> None:
    for name, text in {
        "last": "log -n 1 --format='%s of %an'",
        "latest": "last --reverse",
        "log": "status",
        "sh": "!true",
        "far": "-C elsewhere log",
        "wt": "worktree list",
        "a": "b",
        "b": "a",
        "quoted": "log 'x",
        "typo": "lgo",
    }.items():
        run_git("config", f"alias.{name}", text, cwd=repo)


@pytest.mark.usefixtures("alias")
def test_an_alias_is_written_out(run: Run) -> None:
    assert succeed(run("last")).stdout.startswith("Second of ")
    assert succeed(run("latest", "HEAD^")).stdout.startswith("First of ")
    # A command stays what it is.
    assert succeed(run("log", "-n", "1", "--oneline")).stdout.endswith(" Second\n")


@pytest.mark.usefixtures("alias")
def test_git_variables_name_the_configuration(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(repo / ".git"))
    assert succeed(invoke(["last"])).stdout.startswith("Second of ")


@pytest.mark.usefixtures("alias")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sh", "Error: 'sh' is an alias for '!true', which git alone can run: `git sh`"),
        ("far", "which git alone can run: `git far`"),
        ("wt", "there is no command 'worktree'; `git worktree`"),
        ("a", "alias.a of git's configuration leads to itself"),
        ("quoted", "alias.quoted of git's configuration: No closing quotation"),
        ("typo", "there is no command 'lgo'; did you mean log?"),
        ("none", "there is no command 'none'"),
    ],
)
def test_what_is_no_alias_of_a_command_is_told(run: Run, name: str, said: str) -> None:
    done = run(name)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.output


def test_nowhere_is_no_alias(tmp_path: Path) -> None:
    done = invoke(["-C", tmp_path / "none", "nosuch"])
    assert done.exit_code == 2
    assert "there is no command 'nosuch'" in done.stderr
