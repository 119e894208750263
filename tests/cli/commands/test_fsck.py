"""`havasu-vc fsck`."""

import json
import os
from pathlib import Path

from tests.cli.conftest import Run, succeed


def test_a_sound_repository(run: Run) -> None:
    result = succeed(run("fsck", "--full"))

    assert result.stdout == ""
    assert result.stderr.endswith("Everything is sound\n")
    assert json.loads(succeed(run("fsck", "-o", "json")).stdout) == {"havasu.fsck/v1": []}


def test_a_lost_file_is_a_problem(run: Run, repo: Path) -> None:
    for path in (repo / ".git" / "havasu" / "objects").rglob("*"):
        if path.is_file():
            os.unlink(path)
    result = run("fsck")

    assert result.exit_code == 1
    assert result.stdout
    assert "found" in result.stderr
    problems = json.loads(run("fsck", "-o", "json").stdout)["havasu.fsck/v1"]
    assert all(problem["where"] and problem["message"] for problem in problems)
