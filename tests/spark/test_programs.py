"""Programs of their own: a shell on a terminal, spark-submit, a machine without a network."""

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repo.points import make

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMAND = [sys.executable, "-c", "from havasu_vc.cli.main import main; main()"]
TABLE = "havasu.points"
SCRIPT = f"""
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sql("DELETE FROM {TABLE} WHERE id = 3")
print("rows:", spark.table("{TABLE}").count())
spark.stop()
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = make(tmp_path / "repo", {number: (f"n{number}", number) for number in range(20)})
    made.workspace.check_out()
    return tmp_path / "repo"


def environment(**more: str) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }


def havasu(repo: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "-C", str(repo), *arguments],
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
    )


def test_spark_submit_with_the_settings(
    iceberg: Callable[[Path], str], repo: Path, tmp_path: Path
) -> None:
    import pyspark

    settings = havasu(repo, "spark-conf", "--arguments")
    assert settings.returncode == 0, settings.stderr
    script = tmp_path / "count.py"
    script.write_text(SCRIPT)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [str(submit), "--master", "local[1]", *shlex.split(settings.stdout), str(script)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert "rows: 19" in done.stdout, done.stderr[-3000:]
    assert "1 delete" in havasu(repo, "status").stdout


def test_a_shell_on_a_terminal(iceberg: Callable[[Path], str], repo: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "-C", str(repo), "shell", "--master", "local[1]"],
        env=environment(TERM="dumb"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as shell:
        os.close(theirs)
        said = read_until(ours, ">>> ")
        assert "tables of the checkout: points" in said
        os.write(ours, b"spark.table('points').count() * 1000\n")
        assert "20000" in read_until(ours, "20000")
        os.write(ours, b"read(spark, repo, 'points').count() * 100\n")
        assert "2000" in read_until(ours, "2000\r\n>>> ")
        os.write(ours, b"\x04")
        assert shell.wait(60) == 0
    os.close(ours)


def read_until(terminal: int, wanted: str) -> str:
    said = ""
    while wanted not in said:
        try:
            said += os.read(terminal, 4096).decode(errors="replace")
        except OSError:
            break  # the other end is closed
    return said


def test_a_jar_that_cannot_be_fetched(repo: Path, tmp_path: Path) -> None:
    nowhere = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9 -Dhttp.proxyHost=127.0.0.1"
    query = ("sql", "SELECT count(*) AS n FROM points", "--output-format", "csv")
    offline = f"{nowhere} -Dhttp.proxyPort=9 -Divy.home={tmp_path} -Duser.home={tmp_path}"
    jar = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:0.0.1"
    named = havasu(repo, *query, HAVASU_ICEBERG_JAR=jar, JDK_JAVA_OPTIONS=offline)

    assert named.returncode == 51
    assert "Error: the Iceberg runtime could not be fetched" in named.stderr
    assert f"HAVASU_ICEBERG_JAR names {jar}" in named.stderr

    done = havasu(repo, *query, HAVASU_ICEBERG_JAR="", HOME=str(tmp_path), JDK_JAVA_OPTIONS=offline)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "n\n20\n"
    (line,) = done.stderr.splitlines()
    assert "the Iceberg runtime could not be fetched" in line
    assert line.endswith("the datasets of HEAD are views instead")
