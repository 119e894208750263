"""Executors or the driver are killed while a command reads a whole table: what comes out is right.

Nothing is left of what they had begun, neither here nor in the bucket.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from tests.remotes.sharing import files
from tests.spark.clusters import ROOT, Cluster, bucket_of, shared, standalone
from tests.spark.driving import below, executors, objects, pythons

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMANDS = {
    "export": ["export", "big", "PLACE", "--to", "parquet-dataset"],
    "fsck": ["fsck", "--full"],
    "validate": ["validate", "big"],
}

PROGRAM = """
from havasu_vc.cli.start import main
from havasu_vc.transfer import exports

exports.PART_BYTES = 20_000
main()
"""
"""The command, whose exports have a file for each data file of the dataset."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def repo(cluster: Cluster, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A clone without data, whose commands run on the cluster."""
    name = request.node.name.removeprefix("test_").translate({91: "-", 93: None})
    found = shared(cluster, name, monkeypatch)
    for setting in ("spark.executor.memory=512m", "spark.cores.max=2", "spark.driver.memory=1g"):
        found.git.git("config", "--add", "havasu.spark.conf", setting)
    return found


def begin(cluster: Cluster, repo: Repo, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-c", PROGRAM, *words),
            *("--engine", "spark", "--master", cluster.master),
        ],
        env=cluster.environment | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)},
        cwd=repo.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def at_work(cluster: Cluster) -> list[int]:
    """Return the executors of the second worker whose Python runs a task."""
    return [each for each in executors(str(cluster.worker)) if list(pythons(each))]


def until(process: subprocess.Popen[str], found: Callable[[], object]) -> bool:
    """Wait for something as long as a process runs; return whether it came."""
    while process.poll() is None:
        if found():
            return True
        time.sleep(0.01)
    return False


def check(cluster: Cluster, place: str, repo: Repo, what: str, before: set[str]) -> None:
    """See that a command did its work, and left nothing else."""
    if what == "export":
        table = pq.read_table(place.removeprefix("s3://"), filesystem=bucket_of(cluster))
        assert sorted(table["id"].to_pylist()) == list(range(30_000))
        written = [path.rpartition("/")[2] for path in objects(place)]
        assert len(written) > 1
        assert len({name.split("-")[-1] for name in written}) == 1, "files of one export"
    assert files(repo) == [], "no data file came to the driver"
    assert objects(repo.config.get("havasu.data.url") or "") == before
    staging = repo.git.data_folder / "staging"
    assert not staging.exists() or not list(staging.iterdir())


@pytest.mark.parametrize("what", COMMANDS)
def test_executors_are_killed(cluster: Cluster, repo: Repo, what: str) -> None:
    """Twice: as soon as Python runs in one, and in the one that takes its place."""
    place = f"s3://cluster/out-executors-{what}"
    before = objects(repo.config.get("havasu.data.url") or "")
    process = begin(cluster, repo, *(word.replace("PLACE", place) for word in COMMANDS[what]))
    killed = 0
    while killed < 2 and until(process, lambda: at_work(cluster)):
        for executor in at_work(cluster):
            os.kill(executor, signal.SIGKILL)
            killed += 1
    _, said = process.communicate(timeout=600)

    assert killed, said[-3000:]
    assert process.returncode == 0, said[-3000:]
    check(cluster, place, repo, what, before)


@pytest.mark.parametrize("what", COMMANDS)
def test_the_driver_is_killed(cluster: Cluster, repo: Repo, what: str) -> None:
    """The same command succeeds at once, though its executors may still end."""
    place = f"s3://cluster/out-driver-{what}"
    before = objects(repo.config.get("havasu.data.url") or "")
    words = [word.replace("PLACE", place) for word in COMMANDS[what]]
    process = begin(cluster, repo, *words)
    if what == "export":
        assert until(process, lambda: any(name.endswith(".parquet") for name in objects(place)))
    else:
        assert until(process, lambda: at_work(cluster))
    started = [*pythons(process.pid), *executors(str(cluster.worker))]
    assert any(b"java" in command for _, command in below(process.pid))
    process.kill()
    process.communicate()
    again = begin(cluster, repo, *words)
    _, said = again.communicate(timeout=600)

    assert again.returncode == 0, said[-3000:]
    check(cluster, place, repo, what, before)
    assert ended(started), "neither Java nor executors outlive a driver that was killed"


def ended(processes: Sequence[int]) -> bool:
    """Wait for processes to end; return whether all did."""
    for _ in range(300):
        if not any(map(is_running, processes)):
            return True
        time.sleep(0.1)
    return False


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
