"""Dry runs in a repository that one may only read, as on a share that others own."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git
from tests.workspace import by_hand

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders have no such modes")

PROGRAM = "from havasu_vc.cli.main import cli; cli()"
CAPS = "-dac_override,-dac_read_search,-fowner"
HEAD = "id,name,height\n1,oak,3\n2,elm,4\n3,ash,5\n"
OURS = "id,name,height\n1,oak,33\n2,elm,4\n3,ash,5\n"
THEIRS = "id,name,height\n1,oak,3\n2,elm,44\n3,ash,5\n4,fir,5\n"

DRY_RUNS = {
    ("merge", "--dry-run", "theirs"): "No conflicts: merge will succeed!",
    ("import", "--dry-run", "FILE", "more"): "Would import 4 rows into more",
    ("import", "--dry-run", "--replace", "FILE", "trees"): "1 insert, 2 updates into trees",
    ("optimize", "-n"): "trees: no rows changed",
    ("gc", "-n"): "Would remove 0 files, 0 bytes",
    ("restore", "-n", "--source", "theirs"): "trees: 1 insert, 2 updates",
    ("revert", "-n", "HEAD"): "There would be no conflicts",
    ("cherry-pick", "-n", "theirs"): "There would be no conflicts",
}


def test_dry_runs_work_where_nothing_may_be_written(tmp_path: Path) -> None:
    repo, run = _read_only(tmp_path)
    before = _files(repo)
    for command, said in DRY_RUNS.items():
        result = run(*command)
        told = result.stdout + result.stderr
        assert result.returncode == 0, (command, told)
        assert said in told and "Warning" not in told, command
    assert _files(repo) == before
    assert _files(tmp_path / "tmp") == []


@pytest.mark.parametrize("tables", [False, True], ids=["a GeoPackage", "tables"])
def test_a_dry_commit_works_where_nothing_may_be_written(tmp_path: Path, tables: bool) -> None:
    _, run = _read_only(tmp_path, lambda repo: _edit(repo, tables=tables))
    result = run("commit", "-n")
    assert (result.returncode, result.stderr) == (0, "Would commit:\n  trees: 1 update\n")
    assert _files(tmp_path / "tmp") == []
    real = run("commit", "-m", "real")
    assert real.returncode == 11
    assert real.stderr.splitlines()[0].endswith("cannot be written: permission denied")


def test_what_spares_work_may_be_read_by_whoever_reads_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("havasu_vc.datasets.havasu.soundness.MANY", 1)
    repo, _ = _read_only(tmp_path)
    kept = repo / ".git/havasu"
    for files in ([*(kept / "keys").iterdir()], [*kept.rglob("standing/*")]):
        assert {path.stat().st_mode & 0o044 for path in files} == {0o044}


def _read_only(
    tmp_path: Path, edit: Callable[[Path], None] = lambda repo: None
) -> tuple[Path, Callable[..., subprocess.CompletedProcess[str]]]:
    """Return a repository without the right to write, and what runs a command in it."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    repo, file = tmp_path / "repo", tmp_path / "theirs.csv"
    run_git("init", "-q", "-b", "main", str(repo), cwd=tmp_path)
    for name, rows in (("head", HEAD), ("ours", OURS), ("theirs", THEIRS)):
        (tmp_path / f"{name}.csv").write_text(rows)
    at = ("-C", repo)
    succeed(invoke([*at, "import", tmp_path / "head.csv", "trees", "--primary-key", "id"]))
    succeed(invoke([*at, "switch", "-c", "theirs"]))
    succeed(invoke([*at, "import", "--replace", file, "trees"]))
    succeed(invoke([*at, "switch", "main"]))
    succeed(invoke([*at, "import", "--replace", tmp_path / "ours.csv", "trees"]))
    edit(repo)
    (tmp_path / "tmp").mkdir()
    for path in (repo, *repo.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    # Root may write anywhere, if that is not taken from him.
    root = os.geteuid() == 0
    caps = ["setpriv", f"--inh-caps={CAPS}", f"--bounding-set={CAPS}"] if root else []

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        words = [str(file) if word == "FILE" else word for word in command]
        return subprocess.run(
            [*caps, sys.executable, "-c", PROGRAM, "-C", repo, *words],
            capture_output=True,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        )

    return repo, run


def _edit(repo: Path, *, tables: bool) -> None:
    """Change a row: in a table, as a foreign writer does, or in the working copy."""
    if tables:
        succeed(invoke(["-C", repo, "checkout"]))
        by_hand.delete(repo / "tables/trees", [2])
        by_hand.insert(repo / "tables/trees", [{"id": 3, "name": "ash", "height": 9}])
        return
    succeed(invoke(["-C", repo, "create-workingcopy", repo / "w.gpkg"]))
    with closing(sqlite3.connect(repo / "w.gpkg")) as database, database:
        database.execute("UPDATE trees SET height = 9 WHERE id = 3")


def _files(folder: Path) -> list[tuple[str, int]]:
    return sorted(
        (str(path.relative_to(folder)), path.stat().st_mtime_ns) for path in folder.rglob("*")
    )
