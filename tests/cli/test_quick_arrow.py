"""A command does not wait for what it does not use; who asks for a DataFrame still gets one."""

import subprocess
import sys
from pathlib import Path

import pytest

from havasu_vc import Repo

SCRIPT = """
import sys
from havasu_vc.quick_arrow import leave_pandas_out
leave_pandas_out()
import pyarrow as pa
table = pa.table({"number": pa.array([1, 2, 3])})
assert "pandas" not in sys.modules, "pandas was imported"
assert table.to_pandas()["number"].tolist() == [1, 2, 3]
assert pa.array(table.to_pandas()["number"]).to_pylist() == [1, 2, 3]
"""


def test_lists_become_arrays_without_pandas_and_frames_with_it() -> None:
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


AFTERWARDS = """
import sys
from havasu_vc.quick_arrow import without_pandas
import pyarrow as pa
with without_pandas():
    assert pa.array([1, 2]).to_pylist() == [1, 2]
    assert "pandas" not in sys.modules, "pandas was imported"
import pandas
assert pa.array(pandas.Series(["a", None])).null_count == 1, "a series is taken for a list"
with without_pandas():
    assert pa.array(pandas.Series(["a", None])).null_count == 1, "pandas was there"
"""


def test_code_of_others_in_the_same_process_finds_pandas_again() -> None:
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", AFTERWARDS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


CERTIFICATES = """
import os, sys
from havasu_vc.cli.main import cli
command, trusted = sys.argv[1:]
os.environ["SSL_CERT_FILE"] = trusted
os.environ.pop("SSL_CERT_DIR", None)
try:
    cli.main([command])
finally:
    import pygit2
    assert pygit2.settings.ssl_cert_file is None
    assert os.environ["SSL_CERT_FILE"] == trusted
    assert "SSL_CERT_DIR" not in os.environ
"""


@pytest.mark.parametrize("command", ["status", "diff"])
def test_a_command_has_libgit2_read_no_certificates(command: str, tmp_path: Path) -> None:
    """git, which talks to servers, is told of the same ones as ever."""
    Repo.init(tmp_path / "work")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text("no certificate at all\n")  # libgit2 would refuse it
    program = [sys.executable, "-c", CERTIFICATES, command, str(trusted)]
    done = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path / "work")
    assert done.returncode == 0, done.stderr


OTHERS = """
import os, sys

class Watch:
    seen = {}

    @staticmethod
    def find_spec(name, path=None, target=None):
        Watch.seen[name] = os.environ.get("SSL_CERT_FILE")

os.environ["SSL_CERT_FILE"] = "trusted.pem"
sys.meta_path.insert(0, Watch)
from havasu_vc.cli.main import run, cli
assert run(cli, ["export", "--help"]) == 0
assert Watch.seen["pygit2"] == "", Watch.seen["pygit2"]
assert Watch.seen["pyarrow._fs"] == "trusted.pem", Watch.seen["pyarrow._fs"]
"""


def test_others_than_libgit2_find_certificates() -> None:
    """Arrow notes those for its connections to buckets when it is loaded."""
    done = subprocess.run([sys.executable, "-c", OTHERS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


TEXTS = """
import sys
from havasu_vc.cli.invocation import load_libraries
load_libraries()
import numpy
assert numpy.ndarray.__doc__ is None, "numpy read its texts"
assert numpy.array([1, 2]).sum() == 3
assert "_ssl" not in sys.modules, "pygit2 read what OpenSSL has for Python"
import ssl
assert ssl.create_default_context  # whoever asks for it gets it
import numpy.typing
assert numpy.typing.NDArray[numpy.uint8], "what checkers read has something to stand for it"
assert "numpy._typing._array_like" not in sys.modules, "numpy read its types"
import numpy._typing._array_like as types
assert types is sys.modules["numpy._typing._array_like"]  # whoever asks for them gets them
from numpy._typing import NDArray
assert NDArray[numpy.uint8].__origin__ is numpy.ndarray
from numpy._core import _add_newdocs
assert _add_newdocs.add_newdoc is not None  # whoever asks for something of it gets it
assert numpy.ndarray.__doc__ is not None
"""


def test_what_no_command_uses_is_read_by_who_asks() -> None:
    done = subprocess.run([sys.executable, "-c", TEXTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


LATER = """
import sys
from havasu_vc.cli import invocation
invocation.load_libraries()
for name in (*invocation._LATER, "ctypes"):
    assert isinstance(sys.modules[name], invocation._Later), name
import ctypes.util  # as psycopg has it
assert ctypes.util.find_library and ctypes is sys.modules["ctypes"]
from csv import *
assert reader([]) is not None and DictReader is not None
import socket
assert issubclass(type("Own", (socket.socket,), {}), socket.socket)
"""


def test_modules_that_are_loaded_later_are_whole_for_who_asks() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


LOADED = """
import sys
from havasu_vc.cli.main import cli
try:
    cli.main(sys.argv[1:])
finally:
    print(*sys.modules, file=sys.stderr)
"""


def test_a_diff_loads_neither_openssl_for_python_nor_what_looks_for_intervals(
    tmp_path: Path,
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("id,name\n1,a\n2,b\n")
    Repo.init(tmp_path / "work", kart=True)
    loaded = []
    for command in (
        ("import", str(table), "table", "--primary-key", "id"),
        ("diff", "[EMPTY]...HEAD", "-o", "json"),
    ):
        program = [sys.executable, "-c", LOADED, *command]
        done = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path / "work")
        assert done.returncode == 0, done.stderr
        loaded.append(set(done.stderr.split()))
    assert '"name": "a"' in done.stdout
    imported, shown = loaded
    assert "pyarrow.lib" in imported & shown
    assert not imported & {"http.client", "numpy.ma"}
    assert not shown & {"_hashlib", "dateutil"}
    assert not shown & {"_bz2", "_csv", "_ctypes", "_lzma", "_socket"}


FRAMES = """
import resource, sys
from havasu_vc.cli import start

def called():
    pass

def most(depth):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(1000):
        called()
    here = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return max(here, most(depth - 1)) if depth else here

if sys.argv[1] == "as a command":
    start.command_line.main = lambda: print(most(250))
    start.main()
else:
    print(most(250))
"""


def test_no_call_deep_inside_takes_memory_from_the_system() -> None:
    """As Python has it, one depth of some hundred does with every call."""
    taken = []
    for how in ("as a command", "as Python has it"):
        program = [sys.executable, "-c", FRAMES, how]
        done = subprocess.run(program, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        taken.append(int(done.stdout))
    assert taken[0] < 500
    assert taken[1] >= 1000 or sys.implementation.name != "cpython"
