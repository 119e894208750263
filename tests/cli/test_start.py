"""Ctrl-C before a command has begun ends the program without a word, as it ends git."""

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys

class Pressing:
    '''Presses Ctrl-C when a module is looked for.'''

    def find_spec(self, name, path=None, target=None):
        if name == {when!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Pressing())
sys.argv = ["havasu-vc", "--version"]
from havasu_vc.cli.start import main
main()
"""


def started(when: str, *, ignoring: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(when=when)],
        capture_output=True,
        text=True,
        env=os.environ,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignoring else None,
    )


@pytest.mark.parametrize("when", ["click", "havasu_vc.cli.main", "havasu_vc.cli.errors"])
def test_ctrl_c_while_modules_load(when: str) -> None:
    done = started(when)
    assert done.returncode == -signal.SIGINT
    assert (done.stdout, done.stderr) == ("", "")


def test_a_job_in_the_background_goes_on() -> None:
    done = started("click", ignoring=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("havasu-vc ")


def test_without_ctrl_c() -> None:
    done = started("a module that is not there")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("havasu-vc ")
