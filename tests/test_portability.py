"""What only POSIX has stands in one module, and the program works where a system lacks it.

No Windows is at hand here: the modules and calls that it lacks are taken away from a process,
which then makes a repository and works in it. How its file system behaves is not tried by that.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from havasu_vc import Repo

PACKAGE = Path(__file__).parents[1] / "havasu_vc"
HOME = "store/system.py"
MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
CALLS = {
    "os": (
        "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "chown", "fchmod", "fchown", "fork",
        "geteuid", "getgid", "getpgid", "getuid", "killpg", "lchown", "mkfifo", "posix_fadvise",
        "pread", "preadv", "pwrite", "sched_getaffinity", "sendfile", "setsid", "statvfs",
        "sysconf", "uname", "wait4",
    ),
    "signal": ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "setitimer"),
    "socket": ("AF_UNIX", "TCP_INFO"),
}  # fmt: skip
ELSEWHERE = {
    ("store/locks.py", "os.sysconf"): "follows what /proc says, which Linux alone has",
    ("store/object_systems.py", "socket.TCP_INFO"): "watches sockets by /proc, which Linux has",
    ("testing/engine_contract.py", "os.sysconf"): "counts memory by /proc, for tests",
}


def named(tree: ast.AST) -> set[str]:
    """Return the names of POSIX that a module imports or calls."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names} & set(MODULES)
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} & set(MODULES)
            taken = {each.name for each in node.names} & set(CALLS.get(node.module or "", ()))
            found |= {f"{node.module}.{name}" for name in taken}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in CALLS.get(node.value.id, ()):
                found.add(f"{node.value.id}.{node.attr}")
    return found


def test_what_posix_alone_has_stands_in_one_module() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in named(ast.parse(path.read_text("utf-8")))
    }
    assert {each for each in found if each[0] != HOME} == set(ELSEWHERE)


def test_the_scan_sees_what_it_looks_for() -> None:
    text = (
        "import fcntl\nfrom os import fork\nfrom pwd import getpwnam\nx = os.pread, signal.SIGHUP"
    )
    assert named(ast.parse(text)) == {"fcntl", "os.fork", "pwd", "os.pread", "signal.SIGHUP"}


WITHOUT = f"""
import importlib.util, sys
# What others need of it they have loaded before it goes.
import asyncio, concurrent.futures, multiprocessing, shutil, subprocess, tempfile, uuid
import click, numpy, pyarrow, pyarrow.dataset, pyarrow.parquet, pygit2, pyproj, shapely
import ctypes, fcntl, os, signal, socket, types

GONE = {MODULES!r}

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name in GONE:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Gone())
# Windows locks bytes of a file, for whoever opened it.
sys.modules["msvcrt"] = types.SimpleNamespace(get_osfhandle=lambda number: number)

class Kernel:
    def LockFileEx(self, handle, how, zero, low, high, where, lock=fcntl):
        assert where._obj[2] == 1 << 40 and (zero, low, high) == (0, 1, 0)
        kind = lock.LOCK_EX if how & 2 else lock.LOCK_SH
        try:
            lock.flock(handle.value, kind | (lock.LOCK_NB if how & 1 else 0))
        except BlockingIOError:
            return 0
        return 1

ctypes.WinDLL = lambda name: Kernel()
del fcntl
for name in GONE:
    sys.modules.pop(name, None)
for module, names in {CALLS!r}.items():
    for name in names:
        if name not in ("AF_UNIX", "statvfs"):  # Python itself was built with them
            vars(sys.modules[module]).pop(name, None)
"""

WORK = """
from havasu_vc.cli.main import cli

def run(*words):
    try:
        cli.main(list(words))
    except SystemExit as left:
        assert not left.code, (words, left.code)

run("init", "repo")
os.chdir("repo")
run("import", "../a.csv", "lots", "--primary-key", "id")
run("checkout")
run("switch", "-c", "side")
run("import", "../b.csv", "lots", "--replace", "-m", "Second")
run("create-workingcopy", "../wc.gpkg")
import sqlite3
with sqlite3.connect("../wc.gpkg") as database:
    database.execute("UPDATE lots SET name = 'due' WHERE id = 2")
database.close()
run("status")
run("diff")
run("commit", "-m", "By hand")
run("diff", "main...side")
run("switch", "main")
run("merge", "side")
run("log", "--oneline")
run("gc")
run("fsck", "--full")
run("optimize")
run("-C", "..", "clone", "repo", "copy")
run("-C", "../copy", "log", "--oneline")
run("-C", "../copy", "head", "lots")
run("init", "--kart", "../kart")
run("-C", "../kart", "import", "../b.csv", "lots", "--primary-key", "id")
run("-C", "../kart", "log", "-p")
run("--version")
"""

IMPORTS = """
import havasu_vc, importlib, pkgutil, warnings
for found in pkgutil.walk_packages(havasu_vc.__path__, "havasu_vc."):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(found.name)
    except ImportError as error:
        assert error.name not in GONE, error
print("all of", len(list(pkgutil.walk_packages(havasu_vc.__path__, "havasu_vc."))))
"""


def in_a_process(script: str, folder: Path) -> str:
    names = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME")
    mails = ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")
    who = dict.fromkeys(names, "Ana") | dict.fromkeys(mails, "ana@example.org")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=os.environ | who | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
def test_every_module_is_imported_without_posix(tmp_path: Path) -> None:
    assert "all of" in in_a_process(WITHOUT + IMPORTS, tmp_path)


def test_a_repository_is_worked_in_without_posix(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,one\n2,two\n")
    (tmp_path / "b.csv").write_text("id,name\n1,uno\n2,two\n3,three\n")
    told = in_a_process(WITHOUT + WORK, tmp_path)
    assert "Second" in told and "By hand" in told and "havasu-vc 0." in told
    rows = Repo.open(tmp_path / "copy").table("lots").to_arrow().to_pylist()
    assert {row["id"]: row["name"] for row in rows} == {1: "uno", 2: "due", 3: "three"}
