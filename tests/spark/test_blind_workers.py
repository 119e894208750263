"""What is committed is what Spark's tasks say they wrote: two workers, of which some are blind.

A worker that does not see the repository's folder runs in a mount namespace of its own,
in which an empty folder lies over it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.repo import points
from tests.support.spark import has_java

if TYPE_CHECKING:
    pass

ROWS = {number: (f"n{number}", number) for number in range(20)}

PROGRAM = """
import sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.errors import HavasuError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc import Repo, Settings
from havasu_vc.spark import session, write

spark = session(
    master="local-cluster[2,1,1024]",
    settings={
        "spark.executor.memory": "512m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.enabled": "false",
    },
)
scratch = Path(sys.argv[1] + "-scratch")
work = Settings(engine="spark", engine_settings=EngineSettings(session=spark, scratch=scratch))
repo = Repo.open(sys.argv[1], settings=work)

def imported():
    file = Path(sys.argv[1]).parent / "big.parquet"
    ids = range(100_000)
    pq.write_table(pa.table({"id": ids, "name": ["x"] * len(ids)}), file, row_group_size=10_000)
    return repo.import_(file, "big", options=SourceOptions(primary_key=("id",)))

def written(mode):
    first = 5000 if mode == "append" else 5
    rows = spark.range(first, first + 1000, 1, 8)
    rows = rows.selectExpr("id", "'new' AS name", "CAST(id AS INT) AS height")
    return write(rows, repo, "points", mode=mode)

for mode in sys.argv[2:]:
    before = repo.head().commit
    try:
        if mode == "import":
            imported()
            found = [sum(1 for _ in repo.table("big").to_arrow()["id"])]
        else:
            found = [counts.total for counts in written(mode).changes.values()]
    except HavasuError as error:
        found = [type(error).__name__, str(error), *error.hints]
    print(mode, repo.head().commit == before, *found, sep="|")
left = list((repo.git.data_folder / "staging").glob("frame-*"))
print("left", left, sep="|")
spark.stop()
"""

JAVA = """#!/bin/sh
number=
for argument in "$@"; do
    [ "$last" = --executor-id ] && number=$argument
    last=$argument
done
case " {blind} " in
*" $number "*) exec unshare -Urm sh -c \\
    'mount -t tmpfs none "$0" && exec "$@"' "{hidden}" "{java}" "$@" ;;
esac
exec "{java}" "$@"
"""


def run(tmp_path: Path, blind: str, *modes: str) -> list[list[str]]:
    """Write a frame on two workers, some of them blind, and return what came out of each mode."""
    if not has_java():
        pytest.skip("there is no Java")
    hiding = ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run(hiding, check=False).returncode:
        pytest.skip("no folder can be hidden from a process here")
    java = shutil.which("java", path=os.environ.get("JAVA_HOME", "") + "/bin") or shutil.which(
        "java"
    )
    repo = points.make(tmp_path / "repo", ROWS)
    home = tmp_path / "java" / "bin"
    home.mkdir(parents=True)
    (home / "java").write_text(JAVA.format(blind=blind, hidden=repo.path, java=java))
    (home / "java").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(repo.path), *modes],
        env=os.environ
        | {"JAVA_HOME": str(home.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
        | {"PYSPARK_PYTHON": sys.executable, "SPARK_WORKER_DIR": str(tmp_path / "work")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    points.assert_clean(repo)
    return [line.split("|") for line in done.stdout.splitlines()]


MODES = ("upsert", "append", "delete", "overwrite")


def assert_refused(folder: Path, line: list[str]) -> None:
    _, unchanged, kind, message, *hints = line
    assert (unchanged, kind) == ("True", "EngineError")
    assert "does not see the folder" in message and str(folder / "repo") in message
    assert hints[0] == "nothing was committed"


@pytest.mark.slow
@pytest.mark.spark
def test_nothing_is_committed_where_no_worker_sees(tmp_path: Path) -> None:
    *found, imported, left = run(tmp_path, "0 1", *MODES, "import")

    assert [mode for mode, *_ in found] == list(MODES)
    for line in found:
        assert_refused(tmp_path, line)
    assert imported[1] == "True"
    assert left == ["left", "[]"]


@pytest.mark.slow
@pytest.mark.spark
def test_all_rows_are_committed_or_none_where_one_worker_sees(tmp_path: Path) -> None:
    """Spark may give every task to the worker that sees; then all is there."""
    *found, imported, left = run(tmp_path, "1", "upsert", "append", "import")

    assert [mode for mode, *_ in found] == ["upsert", "append"]
    for line in found:
        if line[1:] != ["False", "1000"]:
            assert_refused(tmp_path, line)
    assert imported[1] == "True" or imported[2] == "100000"
    assert left == ["left", "[]"]


@pytest.mark.slow
@pytest.mark.spark
def test_workers_that_see_write_all(tmp_path: Path) -> None:
    *found, left = run(tmp_path, "none", *MODES)

    assert found == [
        ["upsert", "False", "1000"],
        ["append", "False", "1000"],
        ["delete", "False", "1000"],
        ["overwrite", "False", "2005"],
    ]
    assert left == ["left", "[]"]
