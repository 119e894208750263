"""Commands that Kart hands to git: called kart, how one is used is told by git itself."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("remote --nonsense", None),
        ("remote nosuch", None),
        ("remote add x", None),
        ("remote rename origin", None),
        ("branch a b c", None),
        ("tag -m x", None),
        ("push --nonsense", None),
        ("gc nosuch", None),
        ("remote -h", "havasu"),
    ],
)
def test_its_usage_is_what_git_prints(
    line: str, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeed(invoke(["init", "--kart", tmp_path / "repo"]))
    monkeypatch.chdir(tmp_path / "repo")
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart", *shlex.split(line)])
    found = invoke(shlex.split(line))
    if told is not None:
        assert found.exit_code == 0 and told in found.stdout
        return
    git = subprocess.run(
        ["git", "--git-dir=.kart", *shlex.split(line)], capture_output=True, text=True
    )
    assert found.exit_code == git.returncode == 129
    assert found.stderr.strip() == git.stderr.strip()
