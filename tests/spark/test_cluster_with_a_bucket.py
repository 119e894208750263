"""A standalone cluster that shares nothing with the driver but a bucket, and loses executors."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from havasu_vc import Repo
from tests.remotes.sharing import clone, files
from tests.repo.points import merged_values
from tests.spark.clusters import DATA, Cluster, put_table, run_on, shared, standalone

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

TURNS = 1
"""How often both branches of a history move on and are merged."""
HISTORY = """
import json, os, signal, sys, threading, time
from pathlib import Path
from havasu_vc import Repo, Settings
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.exchange import owned_imports
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import merge_datasets, owned_edits, owned_merges
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.spark import read, session, write

master, folder, worker, steps = sys.argv[1:]
owned_edits.OWNER_BYTES = owned_imports.PART_BYTES = 50_000  # there are several owners, who write
owned_merges.LEAST_BYTES = owned_merges.MOST_BYTES = 50_000
owned_edits.FEW_ROWS, merge_datasets.LEAST_ROWS = 0, -1
spark = session(master=master, settings={"spark.executor.memory": "512m", "spark.cores.max": "2"})
work = EngineSettings(session=spark)

def opened():
    return Repo.open(folder, settings=Settings(engine="spark", engine_settings=work))

def executors():
    for process in Path("/proc").iterdir():
        try:
            said = (process / "stat").read_text().rsplit(")", 1)[1].split()
            command = (process / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if said[1] == worker and b"CoarseGrainedExecutorBackend" in command:
            yield int(process.name)

def kill_one(stage, stopping):
    # In the stage of so many that begin from now on.
    tracker, seen = spark.sparkContext.statusTracker(), set()
    while not stopping.wait(0.005):
        seen.update(tracker.getActiveStageIds())
        if len(seen) >= stage:
            for process in executors():
                os.kill(process, signal.SIGKILL)
            return

def do(what, *how):
    repo = opened()
    if what in ("import", "release"):
        options = SourceOptions(primary_key=("id",))
        repo.import_(how[0], "t", options=options, replace=what == "release")
    elif what == "merge":
        repo.merge(how[0], policy=MergePolicy(side=Side.THEIRS))
    elif what == "branch":
        repo.create_branch(how[0])
    elif what == "switch":
        repo.switch(how[0])
    elif what == "checkout":
        repo.workspace.check_out_to(how[0], dataset="t")
    else:
        there = read(spark, repo, "t").where(f"id % {how[0]} = {how[1]}")
        rows = there.selectExpr("id", f"concat('{how[2]} ', id) AS name")
        write(rows, repo, "t", mode=what)

for kill, step in json.loads(steps):
    stopping = threading.Event()
    if kill:
        threading.Thread(target=kill_one, args=(kill, stopping), daemon=True).start()
    do(*step)
    stopping.set()
repo = opened()
rows = read(spark, repo, "t")
print(*rows.selectExpr("count(*)", "sum(id)", "count(DISTINCT name)").first(), sep="|")
spark.stop()
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


BLIND = """
import sys
from havasu_vc import Repo
from havasu_vc.errors import HavasuError
from havasu_vc.history import owned_edits
from havasu_vc.spark import session, write

master, folder = sys.argv[1:]
owned_edits.OWNER_BYTES, owned_edits.FEW_ROWS = 1, 0
settings = {
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}
spark = session(master=master, settings=settings)
repo = Repo.open(folder)
head = repo.head().commit
rows = spark.range(0, 30_000, 1, 8).selectExpr("id", "concat('far ', id) AS name")
try:
    write(rows, repo, "big")
except HavasuError as error:
    print(error.message)
print(repo.head().commit == head)
spark.stop()
"""


def test_a_worker_that_does_not_reach_the_bucket_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standalone(tmp_path, blind=True) as cluster:
        repo = shared(cluster, tmp_path / "driver", monkeypatch)
        (said,), (unmoved,) = run_on(cluster, BLIND, tmp_path, repo.path)
    assert said.startswith("the worker on blind: s3://cluster/data/"), said
    assert said.count("the worker on") == 1 and " cannot be " in said
    assert unmoved == "True"


@pytest.mark.parametrize("kill", [False, True])
def test_a_history_is_made_in_the_bucket_alone(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: bool
) -> None:
    """Imports, releases, writes, merges and a checkout; each step may cost an executor its life."""
    repo = shared(cluster, tmp_path / "driver", monkeypatch)
    random_ = random.Random(7 + kill)
    model: dict[int, str] = {}
    steps: list[tuple[str, ...]] = []
    models: list[dict[int, str]] = []

    def released(what: str, rows: dict[int, str]) -> None:
        name = f"sources/{len(steps)}.parquet"
        shuffled = list(rows.items())
        random_.shuffle(shuffled)
        table = pa.table(
            {
                "id": pa.array([key for key, _ in shuffled], pa.int64()),
                "name": pa.array([text for _, text in shuffled]),
            }
        )
        put_table(cluster, name, table)
        steps.append((what, f"s3://cluster/{name}"))

    def edited(rows: dict[int, str], word: str) -> dict[int, str]:
        found = {k: f"{word} {k}" if random_.random() < 0.3 else v for k, v in rows.items()}
        found = {k: v for k, v in found.items() if random_.random() < 0.9}
        return found | {random_.randrange(40_000): word for _ in range(500)}

    model = {key: f"row {key}" for key in random_.sample(range(40_000), 6000)}
    released("import", model)
    for turn in range(TURNS):
        base = model
        steps.append(("branch", f"side-{turn}"))
        model = edited(model, f"release {turn}")
        released("release", model)
        for mode, word in (("upsert", f"written {turn}"), ("delete", "gone")):
            divisor, rest = random_.randrange(3, 9), random_.randrange(3)
            steps.append((mode, str(divisor), str(rest), word))
            chosen = {key: f"{word} {key}" for key in model if key % divisor == rest}
            model = model | chosen
            if mode == "delete":
                model = {key: text for key, text in model.items() if key not in chosen}
        steps.append(("switch", f"side-{turn}"))
        theirs = edited(base, f"theirs {turn}")
        released("release", theirs)
        steps += [("switch", "main"), ("merge", f"side-{turn}")]
        model = merged_values(base, model, theirs, otherwise=theirs)
        models.append(model)
    steps.append(("checkout", "s3://cluster/maps/t"))
    given = [(random_.randrange(1, 4) * kill, step) for step in steps]
    said = run_on(cluster, HISTORY, tmp_path, repo.path, cluster.worker, json.dumps(given))

    totals = len(model), sum(model), len(set(model.values()))
    assert said == [[str(each) for each in totals]]
    repo = Repo.open(repo.path)
    assert files(repo) == [], "no data file came to the driver"
    repo.push()
    here = clone(repo.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert list(here.fsck(full=True)) == []
    merges = here.git.git("log", "--merges", "--reverse", "--format=%H").lines
    assert len(merges) == len(models)
    for commit, wanted in zip(merges, models, strict=True):
        found = here.table("t", commit).to_arrow().to_pylist()
        assert {row["id"]: row["name"] for row in found} == wanted
    shown = StaticTable.from_metadata(
        "s3://cluster/maps/t/metadata/v1.metadata.json",
        {"s3.endpoint": cluster.environment["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"},
    )
    rows = shown.scan().to_arrow().to_pylist()
    assert {row["id"]: row["name"] for row in rows} == model
