"""The seam sees what every library asks the kernel for, as another program counts it."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import lacking
from tests.faults.seccomp import lacking_seam

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def seam() -> None:
    if (reason := lacking_seam()) is not None:
        lacking(reason)


def calls(folder: Path) -> list[tuple[str, str]]:
    folder.mkdir()
    command = [sys.executable, "-m", "tests.faults.seam", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [(name, path) for name, path in json.loads(done.stdout.splitlines()[-1])]


def test_every_library_is_seen(tmp_path: Path) -> None:
    found = calls(tmp_path / "work")

    assert {("write", "python"), ("write", "arrow"), ("write", "shell")} <= set(found)
    assert {("pwrite64", "sqlite"), ("unlink", "sqlite-journal")} <= set(found)
    assert ("rename", "renamed") in found or ("renameat", "renamed") in found
    objects = [path for name, path in found if name.startswith("link")]
    # One object by libgit2, one by git.
    assert len({path for path in objects if path.startswith("libgit2/objects/")}) == 2


@pytest.mark.thorough
def test_as_many_calls_are_seen_as_strace_counts(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    names = "write,pwrite64,mkdir,link,unlink,rename,fsync,fdatasync,ftruncate"
    (tmp_path / "other").mkdir()
    log = tmp_path / "log"
    command = ["strace", "-f", "-y", "-o", str(log), "-e", f"trace={names}"]
    command += [sys.executable, "-m", "tests.faults.seam", str(tmp_path / "other"), "--plain"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    lines = log.read_text(errors="replace").splitlines()
    place = re.escape(str(tmp_path / "other"))
    counted = Counter(
        found[1]
        for line in lines
        if (found := re.match(rf"\d+ +(\w+)\(.*{place}[/>]", line)) and "resumed" not in line
    )

    seen = Counter(name for name, _ in calls(tmp_path / "work"))

    assert counted.total() > 30
    for name, count in counted.items():
        # strace does not say where a path is that git gives relative to its folder.
        missed = 1 if name in ("link", "mkdir", "unlink", "rename") else 0
        assert count <= seen[name] <= count + missed, name
