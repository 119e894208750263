"""The first task of a cluster: workers that cannot run ours are told of in one line."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.engine.shipping import zipped_package
from tests.support.spark import has_java
from tests.support.templates import empty_repo

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def python_with(folder: Path, statement: str) -> str:
    """Return a program that is this Python, after a statement."""
    (folder / "started").mkdir()
    (folder / "started" / "sitecustomize.py").write_text(f"import sys; {statement}\n")
    script = folder / "python"
    path = f'PYTHONPATH="{folder / "started"}:$PYTHONPATH"'
    script.write_text(f'#!/bin/sh\n{path} exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def begin(
    folder: Path, python: str, conf: str = "spark.executor.memory=512m"
) -> subprocess.Popen[str]:
    """Begin to import a table on a cluster of one worker, whose Python is given."""
    if not has_java():
        pytest.skip("there is no Java")
    repo = empty_repo(folder / "repo")
    for name, value in {
        "master": "local-cluster[1,1,1024]",
        "scratch": str(folder / "scratch"),
        "conf": conf,
    }.items():
        repo.config.set(f"havasu.spark.{name}", value)
    pq.write_table(pa.table({"id": range(50), "name": ["x"] * 50}), folder / "t.parquet")
    program = "from havasu_vc.engine import probing; probing.PATIENCE = 3; "
    program += "from havasu_vc.cli.main import main; main()"
    given = ["import", str(folder / "t.parquet"), "--primary-key", "id", "--engine", "spark"]
    return subprocess.Popen(
        [sys.executable, "-c", program, *given],
        env=os.environ
        | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
        | {"SPARK_WORKER_DIR": str(folder / "work")},
        cwd=repo.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def imported(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    """Import the same to its end."""
    process = begin(folder, python)
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def refused(done: subprocess.CompletedProcess[str], what: str) -> None:
    error, *hints = done.stderr.strip().splitlines()
    assert done.returncode == 11, done.stderr
    assert error.startswith("Error: the executors of local-cluster[1,1,1024] cannot run tasks of")
    assert what in error
    assert "PYSPARK_PYTHON" in hints[0]
    assert "Traceback" not in done.stderr


def test_no_python_at_all(tmp_path: Path) -> None:
    refused(imported(tmp_path, "/nowhere/python"), "/nowhere/python")


def test_a_python_that_ends_at_once(tmp_path: Path) -> None:
    dying = "sys.exit('no such library')"
    refused(imported(tmp_path, python_with(tmp_path, dying)), "no such library")


def test_a_python_without_pyarrow(tmp_path: Path) -> None:
    refused(imported(tmp_path, python_with(tmp_path, "sys.modules['pyarrow'] = None")), "yarrow")


OTHER = """
class Version(tuple):
    major, minor, micro, releaselevel, serial = sys.version_info
    def __getitem__(self, at):
        asked = sys._getframe(1).f_code.co_name == "check_python_version"
        return (3, 99) if asked else super().__getitem__(at)

sys.version_info = Version(sys.version_info)
"""
"""Makes Spark take a Python for one of another version."""
MINE = f"{sys.version_info.major}.{sys.version_info.minor}"


def told_of_another_python(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 11, done.stderr
    error, *hints = done.stderr.strip().splitlines()
    assert error == f"Error: Spark's workers run Python 3.99, and this program runs Python {MINE}"
    assert f"set PYSPARK_PYTHON to a Python {MINE}" in hints[0] and sys.executable in hints[0]
    assert "Traceback" not in done.stderr and len(hints) == 2


def test_a_python_of_another_version(tmp_path: Path) -> None:
    told_of_another_python(imported(tmp_path, python_with(tmp_path, OTHER)))


SESSION = """
import sys
from pyspark.sql import SparkSession
from havasu_vc.cli.main import main
SparkSession.builder.master("local[1]").getOrCreate()
main()
"""


def test_a_local_session_whose_workers_are_of_another_version(tmp_path: Path) -> None:
    """Somebody else started it, so nobody asked its workers first."""
    repo = empty_repo(tmp_path / "repo")
    pq.write_table(pa.table({"id": range(50)}), tmp_path / "t.parquet")
    given = ["import", str(tmp_path / "t.parquet"), "--primary-key", "id", "--engine", "spark"]
    done = subprocess.run(
        [sys.executable, "-c", SESSION, *given],
        env=os.environ
        | {"PYSPARK_PYTHON": python_with(tmp_path, OTHER), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stderr.splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if line.startswith("Error: "))
    done.stderr = "".join(lines[first:])
    told_of_another_python(done)


def test_a_worker_with_a_havasu_vc_of_its_own(tmp_path: Path) -> None:
    """Python looks there before it looks into what it was sent."""
    other = tmp_path / "other"
    zipfile.ZipFile(io.BytesIO(zipped_package())).extractall(other)
    first = f"sys.path.insert(0, {str(other)!r})"
    done = imported(tmp_path, python_with(tmp_path, f"{first}; import havasu_vc"))
    assert done.returncode == 11
    assert "runs another havasu-vc" in done.stderr and str(other) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_as_it_should_be(tmp_path: Path) -> None:
    done = imported(tmp_path, sys.executable)
    assert done.returncode == 0, done.stderr
    assert "pyarrow" not in done.stderr


def test_a_cluster_that_gives_no_worker_is_told_of(tmp_path: Path) -> None:
    process = begin(tmp_path, sys.executable, "spark.executor.cores=2")  # its worker has one
    try:
        assert process.stderr is not None
        told = process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
    assert "has given no worker for 3 seconds, and is waited for" in told
