"""A standalone cluster of two workers on this machine, which have a folder and the wheel."""

import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.repo.points import make
from tests.support.spark import has_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]

PROGRAM = """
import subprocess
import sys
import havasu_vc
from havasu_vc.engine import shipping
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.exchange.source import SourceOptions
from havasu_vc import Repo, Settings
from havasu_vc.spark import changes, functions, history, read, session, write
from pathlib import Path

master, folder, table, other, how = sys.argv[1:]
if how == "installed":
    # What was installed has to do: no code is sent.
    for module in (shipping, sys.modules["havasu_vc.spark.session"]):
        module.ship_package = lambda session: None
spark = session(
    master=master, settings={"spark.executor.memory": "512m", "spark.cores.max": "2"}
)
work = EngineSettings(session=spark, scratch=Path(folder) / "scratch")
work.scratch.mkdir()
repo = Repo.open(folder + "/repo", settings=Settings(engine="spark", engine_settings=work))
repo.import_(table, "big", options=SourceOptions(primary_key=("id",)))
rows = read(spark, repo, "big")
write(rows.where("id < 10").selectExpr("id", "'new' AS name"), repo, "big")

def found(_):
    import havasu_vc.geo.functions
    yield havasu_vc.__file__

print(Path(havasu_vc.__file__).parent)
places = spark.sparkContext.parallelize(range(8), 8).mapPartitions(found).distinct().collect()
print(*{place.rpartition("/havasu_vc/")[0] == str(Path(havasu_vc.__file__).parents[1])
    for place in places})
print(rows.count(), changes(spark, repo, "big", "HEAD^...HEAD").count())
executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
print(history(spark, repo, "points").count(), len(executors))
functions.register(spark)
near = "ST_Area(ST_Buffer(ST_Point(CAST(id AS DOUBLE), 0.0), 1.0)) > 3"
print(rows.where(near).count(), rows.count())
subprocess.run(["git", "-C", folder + "/repo", "branch", "first"], check=True)
subprocess.run(["git", "-C", folder + "/repo", "switch", "-q", "-c", "again", "HEAD~2"], check=True)
repo = Repo.open(folder + "/repo", settings=repo.settings)
repo.import_(other, "big", options=SourceOptions(primary_key=("id",)))
kinds = changes(spark, repo, "big", "first..again").groupBy("_change_type").count().collect()
print(sorted((row[0], row[1]) for row in kinds))
spark.stop()
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A Python that has what is installed here, and of this package only its wheel."""
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no wheel can be built here: {made.stderr[-300:]}")
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    site = site_of(python)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def site_of(python: str) -> Path:
    (site,) = (Path(python).parents[1] / "lib").glob("python*/site-packages")
    return site


@pytest.fixture
def cluster(tmp_path: Path, python: str) -> Iterator[str]:
    """Start a master and two workers; yield the master's URL."""
    import pyspark

    if not has_java():
        pytest.skip("there is no Java")
    home = Path(pyspark.__file__).parent
    environment = os.environ | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *arguments: str) -> Path:
        log = tmp_path / f"{kind}{len(started)}.log"
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        with log.open("wb") as out:
            started.append(
                subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=tmp_path)
            )
        return log

    try:
        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = awaited(start("master.Master", *ports), r"spark://127\.0\.0\.1:\d+")
        work = ("--cores", "1", "--memory", "1g", "--work-dir")
        folders = [str(tmp_path / f"w{number}") for number in range(2)]
        logs = [start("worker.Worker", *ports, *work, folder, url) for folder in folders]
        for log in logs:
            awaited(log, "Successfully registered with master")
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def awaited(log: Path, pattern: str) -> str:
    for _ in range(600):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"{pattern} is not in\n{log.read_text(errors='replace')}")


@pytest.mark.parametrize("how", ["sent", "installed"])
def test_two_workers_import_read_compare_and_write(
    cluster: str, python: str, tmp_path: Path, how: str
) -> None:
    make(tmp_path / "repo", {number: (f"n{number}", number) for number in range(20)})
    names = ["old"] * 20_000
    files = [tmp_path / "big.parquet", tmp_path / "other.parquet"]
    for file in files:
        table = pa.table({"id": range(len(names)), "name": names})
        pq.write_table(table, file, row_group_size=10_000)
        names = ["new"] * 10 + ["old"] * 19_989 + ["changed", "more"]

    done = subprocess.run(
        [python, "-c", PROGRAM, cluster, str(tmp_path), *map(str, files), how],
        env=os.environ | {"PYTHONPATH": "", "PYSPARK_PYTHON": python},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    kinds = [("INSERT", 1), ("UPDATE_AFTER", 1), ("UPDATE_BEFORE", 1)]
    assert done.stdout.splitlines() == [
        f"{site_of(python)}/havasu_vc",
        str(how == "installed"),
        "20000 20",
        "20 3",
        "20000 20000",
        str(kinds),
    ]
