"""Dry runs in a repository that one may only read, as on a share that others own."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git
from tests.workspace import by_hand

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders have no such modes")

Run = Callable[..., subprocess.CompletedProcess[str]]

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


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param(False, id="a GeoPackage"),
        pytest.param(True, id="tables", marks=pytest.mark.thorough),
    ],
)
def test_a_mount_may_be_read_only(tmp_path: Path, tables: bool) -> None:
    """Unlike a folder without rights, it refuses to remove even what is not there."""
    repo, run = _mounted(tmp_path, lambda repo: _edit(repo, tables=tables))
    before, out = _files(repo), str(tmp_path / "tmp/out")
    for command in (
        *DRY_RUNS,
        ("commit", "-n"),
        ("status",),
        ("diff",),
        ("diff", "main...theirs"),
        ("log", "-p"),
        ("blame", "trees"),
        ("grep", "oak"),
        ("sql", "SELECT count(*) FROM trees"),
        ("fsck", "--full"),
        ("review", "main...theirs"),
        ("export", "trees", f"{out}.parquet"),
        ("checkout", "--as", f"{out}.gpkg"),
    ):
        result = run(*command)
        # A merge says before all else that there are edits, which it would not be given.
        wanted = 29 if command[0] == "merge" else 0
        assert result.returncode == wanted, (command, result.stdout + result.stderr)
    # Tables that cannot be made are told of by themselves.
    drops: tuple[tuple[str, ...], ...] = () if tables else (("restore",),)
    for command in (("commit", "-m", "real"), ("import", "FILE", "more"), *drops):
        result = run(*command)
        assert (result.returncode, result.stdout) == (11, ""), command
        said = next(each for each in result.stderr.splitlines() if each.startswith("Error: "))
        assert "cannot be written: " in said and said.endswith(" is read-only"), command
    assert _files(repo) == before


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
) -> tuple[Path, Run]:
    """Return a repository without the right to write, and what runs a command in it."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    repo = _filled(tmp_path, edit)
    for path in (repo, *repo.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    # Root may write anywhere, if that is not taken from him.
    root = os.geteuid() == 0
    caps = ["setpriv", f"--inh-caps={CAPS}", f"--bounding-set={CAPS}"] if root else []
    return repo, lambda *command: _run(tmp_path, caps, command)


def _mounted(tmp_path: Path, edit: Callable[[Path], None]) -> tuple[Path, Run]:
    """Return a repository that commands find on a mount which is read-only."""
    repo = _filled(tmp_path, edit)
    script = f'mount --bind {repo} {repo} && mount -o remount,ro,bind {repo} && exec "$@"'
    mounted = ["unshare", "--mount", "sh", "-c", script, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*mounted, "true"]).returncode:
        pytest.skip("the system lets nobody here mount a folder")
    return repo, lambda *command: _run(tmp_path, mounted, command)


def _filled(tmp_path: Path, edit: Callable[[Path], None]) -> Path:
    repo = tmp_path / "repo"
    run_git("init", "-q", "-b", "main", str(repo), cwd=tmp_path)
    for name, rows in (("head", HEAD), ("ours", OURS), ("theirs", THEIRS)):
        (tmp_path / f"{name}.csv").write_text(rows)
    at = ("-C", repo)
    succeed(invoke([*at, "import", tmp_path / "head.csv", "trees", "--primary-key", "id"]))
    succeed(invoke([*at, "switch", "-c", "theirs"]))
    succeed(invoke([*at, "import", "--replace", tmp_path / "theirs.csv", "trees"]))
    succeed(invoke([*at, "switch", "main"]))
    succeed(invoke([*at, "import", "--replace", tmp_path / "ours.csv", "trees"]))
    edit(repo)
    (tmp_path / "tmp").mkdir()
    return repo


def _run(
    tmp_path: Path, within: Sequence[str], command: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    file = str(tmp_path / "theirs.csv")
    words = [file if word == "FILE" else word for word in command]
    return subprocess.run(
        [*within, sys.executable, "-c", PROGRAM, "-C", tmp_path / "repo", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )


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
