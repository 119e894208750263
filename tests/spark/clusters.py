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
import pyspark
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

__all__ = [
    "ROOT",
    "SPARK_CLASS",
    "Cluster",
    "awaited",
    "bucket_of",
    "connect_server",
    "put_table",
    "run_on",
    "shared",
    "standalone",
]

ROOT = Path(__file__).parents[2]
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
HIDE = 'mount -t tmpfs none "$0" && exec "$@"'


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is."""

    folder: Path
    """What the driver has is below `driver` there, which workers do not see."""
    master: str
    worker: int
    """The second worker's process."""
    environment: dict[str, str]

    def data(self, name: str) -> str:
        """Return where in the bucket the data of a test is."""
        return f"s3://cluster/{name}"


@contextmanager
def standalone(tmp_path: Path, *, blind: bool = False) -> Iterator[Cluster]:
    """Start a bucket, a master and two workers to which the driver's folder is empty.

    To a blind one, a machine of another name, the bucket's server is where nothing listens.
    """
    driver, hiding = _hidden(tmp_path)
    node = platform.node()
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.2 blind\n127.0.0.9 {node}\n")
    blinding = f'mount --bind "{hosts}" /etc/hosts && hostname blind && {HIDE}'
    blinded = ["unshare", "-Urmu", "sh", "-c", blinding, str(driver)]
    if blind:
        try:
            known = socket.gethostbyname(node) == "127.0.0.1"
        except OSError:
            known = False
        if not known or subprocess.run([*blinded, "true"], check=False).returncode:
            pytest.skip("this machine's name cannot stand for another here")
    started: list[subprocess.Popen[bytes]] = []

    with moto() as endpoint:
        if blind:
            endpoint = endpoint.replace("127.0.0.1", node)
        environment = _environment(endpoint)

        def start(kind: str, host: str, *arguments: str, within: Sequence[str] = ()) -> Path:
            log = tmp_path / f"{kind}{len(started)}.log"
            ports = ["--host", host, "--port", "0", "--webui-port", "0"]
            command = [SPARK_CLASS, f"org.apache.spark.deploy.{kind}", *ports, *arguments]
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
            cluster = Cluster(tmp_path, url, started[-1].pid, environment)
            bucket_of(cluster).create_dir("cluster")
            yield cluster
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(30)


@contextmanager
def connect_server(tmp_path: Path) -> Iterator[Cluster]:
    """Start a bucket, and a server of Spark Connect to which the driver's folder is empty."""
    for module in ("grpc", "grpc_status", "google.rpc"):
        pytest.importorskip(module, reason="this needs Spark Connect: pip install grpcio-status")
    _, hiding = _hidden(tmp_path)
    with moto() as endpoint, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        environment = _environment(endpoint) | {"SPARK_LOCAL_IP": "127.0.0.1"}
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
        }
        command = [*hiding, SPARK_CLASS, "org.apache.spark.deploy.SparkSubmit"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        command += ["--master", "local[2]"]
        command += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        log = tmp_path / "connect.log"
        with log.open("wb") as out:
            server = subprocess.Popen(
                [*command, "spark-internal"], stdout=out, stderr=out, env=environment, cwd=tmp_path
            )
        try:
            awaited(log, "Spark Connect server started")
            cluster = Cluster(tmp_path, f"sc://127.0.0.1:{port}", server.pid, environment)
            bucket_of(cluster).create_dir("cluster")
            yield cluster
        finally:
            server.terminate()
            server.wait(30)


def _hidden(tmp_path: Path) -> tuple[Path, list[str]]:
    """Make the driver's folder, and return it with what runs a program to which it is empty."""
    if not has_java():
        pytest.skip("there is no Java")
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    driver = tmp_path / "driver"
    driver.mkdir()
    hiding = ["unshare", "-Urm", "sh", "-c", HIDE, str(driver)]
    if shutil.which("unshare") is None or subprocess.run([*hiding, "true"], check=False).returncode:
        pytest.skip("no folder can be hidden from a process here")
    return driver, hiding


def _environment(endpoint: str) -> dict[str, str]:
    return {
        **os.environ,
        **S3_ENVIRONMENT,
        "AWS_ENDPOINT_URL": endpoint,
        "PYSPARK_PYTHON": sys.executable,
    }


def awaited(log: Path, pattern: str) -> str:
    """Return what a program said that matches, once it has."""
    for _ in range(1200):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"{pattern} is not in\n{log.read_text(errors='replace')}")


def shared(cluster: Cluster, name: str, patch: pytest.MonkeyPatch) -> Repo:
    """Return a clone without data files of a repository whose data is in the bucket."""
    folder, data = cluster.folder / "driver" / name, cluster.data(name)
    folder.mkdir()
    for name in (*S3_ENVIRONMENT, "AWS_ENDPOINT_URL"):
        patch.setenv(name, cluster.environment[name])
    ours = make(folder / "ours", {1: ("one", 1), 2: ("two", 2)})
    ours.import_(write_file(folder / "big.parquet", points(10_000)), "big", options=BY_ID)
    for start in (10_000, 20_000):
        ours.write("big", points(10_000, start=start), mode="append")
    curve = write_file(folder / "curve.parquet", points(4000))
    ours.import_(curve, "curve", options=BY_ID, order="hilbert")
    curve = write_file(folder / "curve.parquet", points(3500, start=1000, name="new"))
    ours.import_(curve, "curve", options=BY_ID, replace=True)
    share(ours, bare(folder / "server.git"), data=data)
    return clone(folder / "server.git", folder / "theirs", data_url=data, on_demand=True)


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


def run_on(cluster: Cluster, program: str, *arguments: object) -> list[list[str]]:
    """Run a program as the driver, and return the words of each line that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, cluster.master, *map(str, arguments)],
        env=cluster.environment | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)},
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split("|") for line in done.stdout.splitlines()]
