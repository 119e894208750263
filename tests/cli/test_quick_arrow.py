"""A command does not wait for what it does not use; who asks for a DataFrame still gets one."""

import subprocess
import sys
from pathlib import Path

import pytest

from havasu_vc import Repo

SCRIPT = """
import sys
from havasu_vc.cli.quick_arrow import leave_pandas_out
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
