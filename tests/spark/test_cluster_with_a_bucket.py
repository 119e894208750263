"""A standalone cluster that shares nothing with the driver but a bucket, and loses executors.

Two workers, each with an address of its own, run in mount namespaces in which an empty folder
lies over everything that the driver has.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem

from havasu_vc import Repo
from tests.conftest import lacking
from tests.remotes.sharing import bare, clone, files, share
from tests.repo.points import make
from tests.repo.tables import BY_ID, points
from tests.repo.tables import write as write_file
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto
from tests.support.spark import has_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DATA = "s3://cluster/data"

PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
from havasu_vc import Repo
from havasu_vc.history import owned_edits
from havasu_vc.spark import read, session, write
from havasu_vc.store.object_systems import object_system
from pyarrow import fs

master, folder, worker, kill = sys.argv[1:]
owned_edits.OWNER_BYTES, owned_edits.FEW_ROWS = 1, 0  # every data file has an owner, which writes
spark = session(
    master=master, settings={"spark.executor.memory": "512m", "spark.cores.max": "2"}
)
repo = Repo.open(folder)
system, path = object_system("s3://cluster/data")

def objects():
    return {i.path for i in system.get_file_info(fs.FileSelector(path, recursive=True))}

def executor():
    for process in Path("/proc").iterdir():
        try:
            said = (process / "stat").read_text().rsplit(")", 1)[1].split()
            command = (process / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if said[1] == worker and b"CoarseGrainedExecutorBackend" in command:
            return int(process.name)

def kill_one(before):
    while objects() == before:
        time.sleep(0.05)
    os.kill(executor(), signal.SIGKILL)

def written(rows, mode):
    if kill == "yes":
        threading.Thread(target=kill_one, args=(objects(),), daemon=True).start()
    return write(rows, repo, "big", mode=mode).changes["big"].total

rows = spark.range(2000, 31_000, 2, 6)
print(written(rows.selectExpr("id", "concat('far ', id) AS name"), "upsert"))
gone = spark.range(0, 31_000, 3, 6)
print(written(gone, "delete"))
print(read(spark, repo, "big").count())
spark.stop()
"""


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is."""

    master: str
    worker: int
    """The second worker's process."""
    environment: dict[str, str]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Start a bucket, a master and two workers to which the driver's folder is empty."""
    import pyspark

    if not has_java():
        pytest.skip("there is no Java")
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    driver = tmp_path / "driver"
    driver.mkdir()
    hide = 'mount -t tmpfs none "$0" && exec "$@"'
    hiding = ["unshare", "-Urm", "sh", "-c", hide, str(driver)]
    if shutil.which("unshare") is None or subprocess.run([*hiding, "true"], check=False).returncode:
        pytest.skip("no folder can be hidden from a process here")
    started: list[subprocess.Popen[bytes]] = []
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")

    with moto() as endpoint:
        environment = {
            **os.environ,
            **S3_ENVIRONMENT,
            "AWS_ENDPOINT_URL": endpoint,
            "PYSPARK_PYTHON": sys.executable,
        }

        def start(kind: str, host: str, *arguments: str, hidden: bool) -> Path:
            log = tmp_path / f"{kind}{len(started)}.log"
            ports = ["--host", host, "--port", "0", "--webui-port", "0"]
            command = [spark_class, f"org.apache.spark.deploy.{kind}", *ports, *arguments]
            with log.open("wb") as out:
                started.append(
                    subprocess.Popen(
                        [*hiding, *command] if hidden else command,
                        stdout=out,
                        stderr=out,
                        env={**environment, "SPARK_LOCAL_IP": host},
                        cwd=tmp_path,
                    )
                )
            return log

        try:
            log = start("master.Master", "127.0.0.1", hidden=False)
            url = awaited(log, r"spark://127\.0\.0\.1:\d+")
            logs = [
                start(
                    "worker.Worker",
                    f"127.0.0.{number}",
                    *("--cores", "1", "--memory", "1g"),
                    *("--work-dir", str(tmp_path / f"w{number}"), url),
                    hidden=True,
                )
                for number in (1, 2)
            ]
            for log in logs:
                awaited(log, "Successfully registered with master")
            yield Cluster(url, started[-1].pid, environment)
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(30)


def awaited(log: Path, pattern: str) -> str:
    for _ in range(1200):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"{pattern} is not in\n{log.read_text(errors='replace')}")


def shared(cluster: Cluster, folder: Path, patch: pytest.MonkeyPatch) -> Repo:
    """Return a clone without data files of a repository whose data is in the bucket."""
    for name in (*S3_ENVIRONMENT, "AWS_ENDPOINT_URL"):
        patch.setenv(name, cluster.environment[name])
    system = S3FileSystem(
        endpoint_override=cluster.environment["AWS_ENDPOINT_URL"].removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    system.create_dir("cluster")
    ours = make(folder / "ours", {1: ("one", 1), 2: ("two", 2)})
    ours.import_(write_file(folder / "big.parquet", points(10_000)), "big", options=BY_ID)
    for start in (10_000, 20_000):
        ours.write("big", points(10_000, start=start), mode="append")
    share(ours, bare(folder / "server.git"), data=DATA)
    return clone(folder / "server.git", folder / "theirs", data_url=DATA, on_demand=True)


@pytest.mark.parametrize("kill", ["no", "yes"])
def test_what_is_written_is_right(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: str
) -> None:
    repo = shared(cluster, tmp_path / "driver", monkeypatch)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, cluster.master, str(repo.path), str(cluster.worker), kill],
        env=cluster.environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]

    model = {number: f"row {number}" for number in range(30_000)}
    upserted = range(2000, 31_000, 2)
    model |= {number: f"far {number}" for number in upserted}
    deleted = [number for number in range(0, 31_000, 3) if number in model]
    for number in deleted:
        del model[number]
    assert done.stdout.split() == [str(len(upserted)), str(len(deleted)), str(len(model))]
    repo = Repo.open(repo.path)
    assert files(repo) == []
    repo.push()
    here = clone(repo.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert list(here.fsck(full=True)) == []
    assert {row["id"]: row["name"] for row in here.table("big").to_arrow().to_pylist()} == model
