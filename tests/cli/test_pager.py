"""On a terminal long output is paged; elsewhere nothing is."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from havasu_vc.cli.pager import paged_output
from havasu_vc.store.repository import GitRepository

pytestmark = pytest.mark.few(1)

ROOT = Path(__file__).parents[2]
PROGRAM = "from havasu_vc.cli.main import main; main()"


def on_terminal(repo: Path, pager: str, *arguments: str) -> str:
    """Run a command whose stdout is a terminal and return what it shows."""
    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "-C", str(repo), *arguments],
        cwd=ROOT,
        env={**os.environ, "GIT_PAGER": pager, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=slave,
        check=False,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(master)
    assert done.returncode in (0, 141)
    return shown.decode()


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["log", "show", "diff"])
def test_what_is_long_is_paged(repo: Path, command: str) -> None:
    arguments = [command, "HEAD^..HEAD" if command != "show" else "HEAD"]

    assert "<seen>" in on_terminal(repo, "sed 's/^/<seen>/'", *arguments)
    assert "<seen>" not in on_terminal(repo, "sed 's/^/<seen>/'", "--no-pager", *arguments)


def test_a_pager_that_is_left_at_once(repo: Path) -> None:
    assert "Traceback" not in on_terminal(repo, "true", "diff", "HEAD^..HEAD")


def test_elsewhere_it_is_stdout(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_PAGER", "false")

    with paged_output(GitRepository.open(repo)) as out:
        assert out is sys.stdout
