"""A share of `make faults`, and each fault again that once was not survived."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import lacking
from tests.faults.postgis import POSTGIS
from tests.faults.seccomp import lacking_seam
from tests.support.examples import some

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
IN_POSTGIS = [scene.name for scene in POSTGIS][:1]


@pytest.mark.thorough
def test_a_share_of_all_faults() -> None:
    assert injected(*SHARE, *IN_POSTGIS, "--share", "0.015") >= 15


ONCE = {
    # git was gone when a commit was off its list and not made: the rest was gone on with, and it
    # was said to be through.
    "rebase": ("die:write .*/rebase-merge/done", "kill:write .*/rebase-merge/onto"),
    "cherry-pick A..B": ("die:write .*/index.lock", "kill:write .*/refs/heads/main.lock"),
    # The branch had moved when making that durable failed: it was taken for another's move,
    # and the index stayed behind.
    "revert": ("eio:fsync .*/refs/heads", "eio:openat .*/index.lock"),
    # The commit was made and its merge not forgotten yet, which then could not be concluded.
    "merge --continue": ("eio:unlink .*/merge/state.json", "kill:openat .*/index.lock"),
    # SQLite had begun to write into the copy, and who only reads may not undo that.
    "commit (file)": ("kill:pwrite64 copy.gpkg",),
    "checkout --as": ("full:pwrite64 .*/copy.exact",),
    # The edits were said to be dropped, and the table was still the edited one.
    "restore": ("eio:openat .*/points/metadata/.*tmp",),
    # A git that could not read HEAD took it for unborn, and staged that the dataset is removed.
    "merge": ("unread:read repo/.git/HEAD",),
    # The half-written document stayed in the work tree, as a file of the user's.
    "convert": ("kill:(write|fsync) .*[.]version-.*",),
    # git writes the index before it moves HEAD, and left datasets of elsewhere staged.
    "switch": ("kill:openat .*/HEAD.lock", "full:write .*/HEAD.lock"),
    "pull": ("eio:openat repo/.git/refs/heads/main.lock", "kill:openat repo/.git/HEAD.lock"),
    # The edits were back and the stash not forgotten, and they were in its way.
    "stash pop": ("kill:openat .*/packed-refs.lock",),
    # What was begun was in the way of beginning again.
    "clone": ("die:rename .*/remotes/origin/HEAD", "kill:openat new/.*/workspace-lock"),
    # git does not say that it could not write what it fetched, and no data was brought.
    "fetch": ("eio:write .*/FETCH_HEAD",),
    # What was begun was in the way of the same command.
    "export (delta)": ("kill:link out/_delta_log/.*", "kill:fchmod out/.*"),
    "export (iceberg-v3)": ("eio:fsync out/metadata", "kill:rename out/_havasu.*"),
    # Others waited an hour for the dead.
    "prune": ("kill:openat .*/logs/refs/havasu/prune/.*",),
    # What git left locked, here and there, stayed so.
    "push": ("die:write repo/.*/origin/main.lock", "kill:rename server.git/refs/heads/main"),
}


# In one of the two git's processes are stopped, in the other our own.
@pytest.mark.parametrize("scene", some(ONCE, "revert"))
def test_what_once_was_not_survived(scene: str) -> None:
    faults = [argument for fault in ONCE[scene] for argument in ("--at", fault)]
    assert injected(scene, *faults) >= len(ONCE[scene])
