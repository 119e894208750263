"""Who reads beside a command that is about to move HEAD neither waits for it nor is in its way."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed
from tests.support.git import run_git
from tests.support.signing import signing_with_ssh

READING = [
    ["status"],
    ["log", "--oneline"],
    ["diff", "HEAD^...HEAD"],
    ["show"],
    ["meta", "get"],
    ["blame", "points"],
    ["data", "ls"],
    ["export", "points", "../points.parquet", "--overwrite"],
]


@contextmanager
def waiting_commit(repo: Path, tmp_path: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command that makes a commit, and stop it where git asks for the signature."""
    began, program = tmp_path / "began", tmp_path / "sign"
    go_on = tmp_path / "go-on"
    program.write_text(
        f"#!/bin/sh\n: > {began}\nwhile [ ! -e {go_on} ]; do sleep 0.05; done\n"
        'exec ssh-keygen "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    settings = {**signing_with_ssh(tmp_path), "gpg.ssh.program": str(program)}
    for name, value in settings.items():
        run_git("config", name, value, cwd=repo)
    line = "from havasu_vc.cli.main import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", line, "-C", str(repo), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not began.exists():
            assert child.poll() is None, child.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield child
    finally:
        go_on.touch()


@pytest.mark.parametrize("what", ["checkout", "create-workingcopy"])
def test_who_reads_does_not_wait_for_a_commit(
    run: Run, repo: Path, tmp_path: Path, what: str
) -> None:
    succeed(run(what))
    before = [succeed(run(*command)).output for command in READING]

    with waiting_commit(repo, tmp_path, "meta", "set", "points", "title=Signed") as child:
        began = time.monotonic()
        found = [succeed(run(*command)).output for command in READING]
        # Far less than a command waits for a lock that another holds.
        assert time.monotonic() - began < 60
        assert child.poll() is None

    assert found == before
    said, _ = child.communicate(timeout=60)
    assert child.returncode == 0, said
    assert "Signed" in succeed(run("meta", "get", "points", "title")).output
    assert "clean" in succeed(run("status")).output


@pytest.mark.parametrize("what", ["checkout", "create-workingcopy"])
def test_what_a_killed_command_left_is_done_by_the_next(
    run: Run, repo: Path, tmp_path: Path, what: str
) -> None:
    succeed(run(what))
    marks = repo / ".git" / "havasu"
    mark = marks / ("workspace-behind" if what == "checkout" else "working-copy-behind")

    with waiting_commit(repo, tmp_path, "meta", "set", "points", "title=Signed") as child:
        assert mark.exists()
        child.kill()
        child.communicate()
    # It moved HEAD, and died before anything followed.
    run_git("-c", "commit.gpgsign=false", "reset", "--soft", "HEAD^", cwd=repo)

    assert "clean" in succeed(run("status")).output
    assert not mark.exists()
