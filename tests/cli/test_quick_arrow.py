"""A command does not wait for pandas; who asks for a DataFrame still gets one."""

import subprocess
import sys

import pytest

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
