"""A standalone cluster that shares nothing with the driver but a bucket, and loses executors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.remotes.sharing import clone, files
from tests.spark.clusters import DATA, Cluster, run_on, shared, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow]

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


COMPARE = """
import os, signal, sys, threading, time
from pathlib import Path
from havasu_vc import Repo
from havasu_vc.datasets import matching
from havasu_vc.datasets.havasu import diff
from havasu_vc.spark import changes, session

master, folder, worker, what = sys.argv[1:]
diff.SMALL_ROWS = diff.SMALL_BYTES = 0
matching.INTERVAL_BYTES = matching.FETCH_BYTES = 20_000
spark = session(
    master=master,
    settings={
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.speculation": str(what == "slow").lower(),
        "spark.speculation.interval": "500ms",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.minTaskRuntime": "3s",
        "spark.speculation.task.duration.threshold": "5s",
    },
)
repo = Repo.open(folder)

def below(parent):
    for process in Path("/proc").iterdir():
        try:
            said = (process / "stat").read_text().rsplit(")", 1)[1].split()
            command = (process / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if said[1] == str(parent):
            yield int(process.name), command

def executor():
    for process, command in below(worker):
        if b"CoarseGrainedExecutorBackend" in command:
            return process

def pythons(parent):
    for process, _ in list(below(parent)):
        yield process
        yield from pythons(process)

def hold(stopping):
    # Its Python stands still: whatever runs there never ends.
    while not stopping.wait(0.2):
        for process in pythons(executor()):
            os.kill(process, signal.SIGSTOP)

def kill_in(stage):
    tracker = spark.sparkContext.statusTracker()
    while not any(active >= stage for active in tracker.getActiveStageIds()):
        time.sleep(0.01)
    os.kill(executor(), signal.SIGKILL)

spark.range(0, 4, 1, 4).mapInArrow(lambda batches: batches, "id long").collect()
stopping = threading.Event()
if what == "slow":
    threading.Thread(target=hold, args=(stopping,), daemon=True).start()
if what.isdigit():
    threading.Thread(target=kill_in, args=(1 + int(what),), daemon=True).start()
for row in changes(spark, repo, "curve", "HEAD^...HEAD").collect():
    print(row._change_type, row.id, row.name, sep="|")
stopping.set()
for process in pythons(executor() or 0):
    os.kill(process, signal.SIGCONT)
sys.stdout.flush()
os._exit(0) if what == "slow" else spark.stop()
"""

UPDATE = (("UPDATE_BEFORE", "row"), ("UPDATE_AFTER", "new"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with standalone(tmp_path) as found:
        yield found


@pytest.mark.parametrize("kill", ["no", "yes"])
def test_what_is_written_is_right(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: str
) -> None:
    repo = shared(cluster, tmp_path / "driver", monkeypatch)
    said = run_on(cluster, PROGRAM, tmp_path, repo.path, cluster.worker, kill)

    model = {number: f"row {number}" for number in range(30_000)}
    upserted = range(2000, 31_000, 2)
    model |= {number: f"far {number}" for number in upserted}
    deleted = [number for number in range(0, 31_000, 3) if number in model]
    for number in deleted:
        del model[number]
    assert [number for (number,) in said] == [
        str(len(upserted)),
        str(len(deleted)),
        str(len(model)),
    ]
    repo = Repo.open(repo.path)
    assert files(repo) == []
    repo.push()
    here = clone(repo.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert list(here.fsck(full=True)) == []
    assert {row["id"]: row["name"] for row in here.table("big").to_arrow().to_pylist()} == model


@pytest.mark.parametrize("what", ["nothing", "slow", "0", "3"])
def test_what_differs_is_found(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Also where a worker stands still, with speculation, or dies in a stage of the comparison."""
    repo = shared(cluster, tmp_path / "driver", monkeypatch)
    found = run_on(cluster, COMPARE, tmp_path, repo.path, cluster.worker, what)

    kept, gone, come = range(1000, 4000), range(1000), range(4000, 4500)
    wanted = [[kind, str(n), f"{name} {n}"] for n in kept for kind, name in UPDATE]
    wanted += [["DELETE", str(n), f"row {n}"] for n in gone]
    wanted += [["INSERT", str(n), f"new {n}"] for n in come]
    assert sorted(found) == sorted(wanted)
    assert files(Repo.open(repo.path)) == []
