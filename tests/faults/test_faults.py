"""A share of `make faults`, and each fault again that once was not survived."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import lacking
from tests.faults.seccomp import lacking_seam

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def seam() -> None:
    if (reason := lacking_seam()) is not None:
        lacking(reason)


def injected(*arguments: str) -> int:
    """Run the suite in a process of its own; return how many faults all were survived."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = re.split(" +", done.stdout.splitlines()[-1])
    return int(last[-3].replace(",", ""))


SHARE = ("import", "commit (Spark edit)", "merge --continue", "switch")


def test_a_share_of_all_faults() -> None:
    assert injected(*SHARE, "--share", "0.015") >= 15
