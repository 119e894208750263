"""A standalone cluster for tests, that shares nothing with the driver but a bucket.

Two workers, each with an address of its own, run in mount namespaces in which an empty folder
lies over everything that the driver has.
"""

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem

from havasu_vc import Repo
from tests.conftest import lacking
from tests.remotes.sharing import bare, clone, share
from tests.repo.points import make
from tests.repo.tables import BY_ID, points
from tests.repo.tables import write as write_file
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto
from tests.support.spark import has_java

__all__ = ["DATA", "Cluster", "put_table", "run_on", "shared", "standalone"]

DATA = "s3://cluster/data"


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is."""

    master: str
    worker: int
    """The second worker's process."""
    environment: dict[str, str]


@contextmanager
def standalone(tmp_path: Path, *, blind: bool = False) -> Iterator[Cluster]:
    """Start a bucket, a master and two workers to which the driver's folder is empty.

    To a blind one, a machine of another name, the bucket's server is where nothing listens.
    """
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
    node = platform.node()
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.2 blind\n127.0.0.9 {node}\n")
    blinding = f'mount --bind "{hosts}" /etc/hosts && hostname blind && {hide}'
    blinded = ["unshare", "-Urmu", "sh", "-c", blinding, str(driver)]
    if blind:
        try:
            known = socket.gethostbyname(node) == "127.0.0.1"
        except OSError:
            known = False
        if not known or subprocess.run([*blinded, "true"], check=False).returncode:
            pytest.skip("this machine's name cannot stand for another here")
    started: list[subprocess.Popen[bytes]] = []
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")

    with moto() as endpoint:
        if blind:
            endpoint = endpoint.replace("127.0.0.1", node)
        environment = {
            **os.environ,
            **S3_ENVIRONMENT,
            "AWS_ENDPOINT_URL": endpoint,
            "PYSPARK_PYTHON": sys.executable,
        }

        def start(kind: str, host: str, *arguments: str, within: Sequence[str] = ()) -> Path:
            log = tmp_path / f"{kind}{len(started)}.log"
            ports = ["--host", host, "--port", "0", "--webui-port", "0"]
            command = [spark_class, f"org.apache.spark.deploy.{kind}", *ports, *arguments]
            with log.open("wb") as out:
                started.append(
                    subprocess.Popen(
                        [*within, *command],
                        stdout=out,
                        stderr=out,
                        env={**environment, "SPARK_LOCAL_IP": host},
                        cwd=tmp_path,
                    )
                )
            return log

        try:
            log = start("master.Master", "127.0.0.1")
            url = awaited(log, r"spark://127\.0\.0\.1:\d+")
            logs = [
                start(
                    "worker.Worker",
                    f"127.0.0.{number}",
                    *("--cores", "1", "--memory", "1g"),
                    *("--work-dir", str(tmp_path / f"w{number}"), url),
                    within=blinded if blind and number == 2 else hiding,
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
    bucket_of(cluster).create_dir("cluster")
    ours = make(folder / "ours", {1: ("one", 1), 2: ("two", 2)})
    ours.import_(write_file(folder / "big.parquet", points(10_000)), "big", options=BY_ID)
    for start in (10_000, 20_000):
        ours.write("big", points(10_000, start=start), mode="append")
    curve = write_file(folder / "curve.parquet", points(4000))
    ours.import_(curve, "curve", options=BY_ID, order="hilbert")
    curve = write_file(folder / "curve.parquet", points(3500, start=1000, name="new"))
    ours.import_(curve, "curve", options=BY_ID, replace=True)
    share(ours, bare(folder / "server.git"), data=DATA)
    return clone(folder / "server.git", folder / "theirs", data_url=DATA, on_demand=True)


def bucket_of(cluster: Cluster) -> S3FileSystem:
    return S3FileSystem(
        endpoint_override=cluster.environment["AWS_ENDPOINT_URL"].removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )


def put_table(cluster: Cluster, name: str, table: pa.Table) -> None:
    """Write a table as a Parquet file of the bucket."""
    pq.write_table(table, f"cluster/{name}", filesystem=bucket_of(cluster))


def run_on(cluster: Cluster, program: str, folder: Path, *arguments: object) -> list[list[str]]:
    """Run a program as the driver, and return the words of each line that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, cluster.master, *map(str, arguments)],
        env=cluster.environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split("|") for line in done.stdout.splitlines()]
