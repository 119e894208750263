"""A crowd on one repository: every commit is in its history, or its command failed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from havasu_vc import Repo
from tests.remotes.sharing import assert_keeps_its_promise, bare, clone, share
from tests.repo.points import make, read, write
from tests.support.git import run_git
from tests.support.sound import LOCAL

ROOT = Path(__file__).parents[2]
EXPECTED = {"ConcurrentChangeError", "LockedError"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("writers", "seconds"), [(6, 6), pytest.param(16, 40, marks=pytest.mark.slow)]
)
def test_no_commit_of_a_crowd_is_lost(tmp_path: Path, writers: int, seconds: int) -> None:
    repo = make(tmp_path / "repo", {1: ("first", 1), 2: ("second", 2)})
    server = bare(tmp_path / "server.git")
    share(repo, server, data=(tmp_path / "data").as_uri())
    clone(server, tmp_path / "other", data_url=(tmp_path / "data").as_uri())
    begun = {key: tuple(row) for key, row in read(repo).items()}

    options = ("--writers", str(writers), "--seconds", str(seconds))
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.crowd", str(tmp_path), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    notes = {p.name: _lines(p) for p in (tmp_path / "notes").iterdir() if p.suffix != ".errors"}
    said = "".join(p.read_text() for p in (tmp_path / "notes").glob("*.errors"))
    assert not done.returncode, done.stderr + said
    assert "internal error" not in said and "Traceback" not in said, said
    repo = Repo.open(repo.path, settings=LOCAL)
    history = set(run_git("rev-list", "main", cwd=repo.path).split())
    expected = dict(begun)
    commits = 0
    for role, lines in notes.items():
        for line in lines:
            if role.startswith("writer"):
                if "failed" in line:
                    assert line["failed"] in EXPECTED, line
                    continue
                assert line["commit"] in history
                commits += 1
                expected[line["id"]] = (line["name"], None)
    found = read(repo)
    for key, row in expected.items():
        assert found[key] == row, f"row {key} is {found[key]}, not {row}"
    assert found.keys() == expected.keys()
    assert commits >= 2 * writers
    assert run_git("status", "--porcelain", cwd=repo.path) == ""
    assert run_git("fsck", "--strict", "--no-dangling", "--no-progress", cwd=repo.path) == ""
    for place in ("repo", "other"):
        problems = Repo.open(tmp_path / place, settings=LOCAL).fsck(full=True)
        # What was pushed for a while, and pruned, is still known to `other` as it was there.
        assert [each for each in problems if "origin/passing-" not in each.where] == []
    assert_keeps_its_promise(server, tmp_path / "data")
    repo.push()
    assert run_git("rev-parse", "main", cwd=server) == repo.head().commit
    write(repo, {1: ("after", 1)})


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
