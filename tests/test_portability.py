"""What only POSIX has stands in one module, and the program works where a system lacks it.

No Windows is at hand here: the modules and calls that it lacks are taken away from a process,
which then makes a repository and works in it. Files behave in it as there, too: none is removed
or gets another name while it is open or read-only, none is renamed to a name that is taken, and
only who may write makes bytes durable.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from havasu_vc.cli.main import cli
from havasu_vc.tables import table
from tests.everyday import rows

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


WORDS = re.compile(
    rf"\b({'|'.join((*MODULES, *(name for each in CALLS.values() for name in each)))})\b"
)


def test_what_posix_alone_has_stands_in_one_module() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        if WORDS.search(text := path.read_text("utf-8"))  # few have one, and parsing takes long
        for name in named(ast.parse(text))
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
shutil._USE_CP_SENDFILE = False
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

from havasu_vc.store import system

READS, SHARED = os.O_RDONLY, set()
system.WINDOWS = True
system._lives_on_windows = lambda process: os.path.exists(f"/proc/{{process}}")

def open_shared(path, flags):
    number = os.open(path, flags, 0o666)
    SHARED.add(number)
    return number

system._open_on_windows = open_shared

def held(path):
    # Whether this process has a file open, and not so that it may be removed.
    path = os.path.realpath(path)
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{{name}}") == path and int(name) not in SHARED:
                return True
        except OSError:
            pass
    with open("/proc/self/maps") as maps:
        return any(line.rstrip().endswith(path) for line in maps)

def refused(name, *paths, taken=False):
    call = getattr(os, name)

    def guarded(source, *rest, **options):
        if "dir_fd" in options and options["dir_fd"] is not None or options.get("src_dir_fd"):
            return call(source, *rest, **options)
        for path in (source, *rest):
            path = os.fsdecode(path)
            if os.path.isfile(path) and not os.path.islink(path):
                if not taken or path != os.fsdecode(source):
                    if not os.stat(path).st_mode & 0o222:
                        raise PermissionError(13, "read-only", path)
                if held(path):
                    raise PermissionError(13, "another has it open", path)
        if taken and os.path.exists(rest[0]):
            raise FileExistsError(17, "it is there", rest[0])
        return call(source, *rest, **options)

    setattr(os, name, guarded)

sync = os.fsync

def sync_written(file):
    number = file if isinstance(file, int) else file.fileno()
    with open(f"/proc/self/fdinfo/{{number}}") as told:
        flags = int(next(line for line in told if line.startswith("flags:")).split()[1], 8)
    if flags & 3 == READS:
        raise OSError(9, "Bad file descriptor")
    sync(number)

os.fsync = sync_written
refused("unlink")
refused("remove")
refused("replace")
refused("rename", taken=True)
"""

WORK = """
from tests.everyday import work

work()
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
    told = in_a_process(WITHOUT + WORK, tmp_path)
    assert "Second" in told and "By hand" in told and "havasu-vc 0." in told
    assert rows(str(tmp_path / "copy")) == {1: "uno", 2: "due", 3: "three"}


@pytest.mark.parametrize(
    "location", [r"Z:\data\t", "Z:/data/t", "file:/Z:/data/t", "file:///Z:/data/t"]
)
def test_locations_name_drives_on_windows(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "WINDOWS", True)

    assert table.local_path(location).replace("\\", "/") == "Z:/data/t"
    assert table.location_of(PureWindowsPath(location[-9:])) == "file:///Z:/data/t"  # type: ignore[arg-type]


def test_who_begins_on_windows_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit) as left:
        cli.main(["init", str(tmp_path / "repo")])

    assert not left.value.code
    assert "on Windows this is young" in capsys.readouterr().err
