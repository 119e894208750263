"""A standalone cluster that shares nothing with the driver but a bucket, and loses executors."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from havasu_vc import Repo
from tests.remotes.buckets import edit_rows
from tests.remotes.sharing import clone, files
from tests.repo.points import merged_values
from tests.repo.tables import points
from tests.spark.clusters import (
    ROOT,
    Cluster,
    bucket_of,
    connect_server,
    put_table,
    run_on,
    shared,
    standalone,
)
from tests.spark.driving import objects

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import sys
from havasu_vc import Repo
from havasu_vc.history import owned_edits
from havasu_vc.spark import read, write
from tests.spark.driving import in_background, kill, objects, started

master, folder, worker, dies = sys.argv[1:]
owned_edits.OWNER_BYTES, owned_edits.FEW_ROWS = 1, 0  # every data file has an owner, which writes
spark = started(master)
repo = Repo.open(folder)
place = repo.config.get("havasu.data.url")

def kill_one(stopping, before):
    while objects(place) == before:
        stopping.wait(0.05)
    kill(worker)

def written(rows, mode):
    if dies == "yes":
        in_background(kill_one, objects(place))
    return write(rows, repo, "big", mode=mode).changes["big"].total

rows = spark.range(2000, 31_000, 2, 6)
print(written(rows.selectExpr("id", "concat('far ', id) AS name"), "upsert"))
gone = spark.range(0, 31_000, 3, 6)
print(written(gone, "delete"))
print(read(spark, repo, "big").count())
spark.stop()
"""


COMPARE = """
import os, signal, sys, threading
from havasu_vc import Repo
from havasu_vc.datasets import matching
from havasu_vc.datasets.havasu import diff
from havasu_vc.engine import spark_matching
from havasu_vc.spark import changes
from tests.spark.driving import executors, in_background, kill_in_stage, pythons, started

master, folder, worker, what = sys.argv[1:]
diff.SMALL_ROWS = diff.SMALL_BYTES = 0
matching.INTERVAL_BYTES = matching.FETCH_BYTES = 20_000
spark = started(
    master,
    spark_speculation=str(what == "slow").lower(),
    spark_speculation_interval="500ms",
    spark_speculation_quantile="0.3",
    spark_speculation_minTaskRuntime="3s",
    spark_speculation_task_duration_threshold="5s",
)
repo = Repo.open(folder)

def hold(stopping):
    # Its Python stands still: whatever runs there never ends.
    while not stopping.wait(0.2):
        for executor in executors(worker):
            for process in pythons(executor):
                os.kill(process, signal.SIGSTOP)

unlike_slots = spark_matching._unlike_slots

def unlike_slots_and_kills(*sides):
    # While sums of hashes are added up, and again in the stage that comes next.
    before = set(executors(worker))
    stopping = in_background(kill_in_stage, spark, worker, 1)
    found = unlike_slots(*sides)
    stopping.set()
    assert before and not before & set(executors(worker)), "none was killed meanwhile"
    in_background(kill_in_stage, spark, worker, 1)
    return found

spark.range(0, 4, 1, 4).mapInArrow(lambda batches: batches, "id long").collect()
stopping = threading.Event()
if what == "slow":
    stopping = in_background(hold)
if what == "slots":
    spark_matching.FEW_ROWS, spark_matching._unlike_slots = 0, unlike_slots_and_kills
if what.isdigit():
    stopping = in_background(kill_in_stage, spark, worker, 1 + int(what))
for row in changes(spark, repo, "curve", "HEAD^...HEAD").collect():
    print(row._change_type, row.id, row.name, sep="|")
stopping.set()
for executor in executors(worker):
    for process in pythons(executor):
        os.kill(process, signal.SIGCONT)
sys.stdout.flush()
os._exit(0) if what == "slow" else spark.stop()
"""

TURNS = 1
"""How often both branches of a history move on and are merged."""
HISTORY = """
import json, sys
import pyarrow as pa
from havasu_vc import Repo
from havasu_vc.exchange import owned_imports
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import merge_datasets, owned_edits, owned_merges
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.spark import changes, history, read, write
from tests.spark.driving import in_background, kill_in_stage, objects, on_spark, started

master, folder, worker, steps = sys.argv[1:]
owned_edits.OWNER_BYTES = owned_imports.PART_BYTES = 50_000  # there are several owners, who write
owned_merges.LEAST_BYTES = owned_merges.MOST_BYTES = 50_000
owned_edits.FEW_ROWS, merge_datasets.LEAST_ROWS = 0, -1
spark = started(master)

def do(what, *how):
    repo = on_spark(folder, spark)
    if what in ("import", "release"):
        options = SourceOptions(primary_key=("id",))
        repo.import_(how[0], "t", options=options, replace=what == "release")
    elif what == "merge":
        policy = MergePolicy(side=Side.THEIRS)
        if how[1:]:
            place = repo.config.get("havasu.data.url")
            before = objects(place)
            tried = repo.merge(how[0], policy=policy, dry_run=True)
            assert objects(place) == before, "what is tried leaves nothing"
        made = on_spark(folder, spark).merge(how[0], policy=policy)
        assert not how[1:] or (tried.changes, tried.conflicts) == (made.changes, made.conflicts)
    elif what == "branch":
        repo.create_branch(how[0])
    elif what == "switch":
        repo.switch(how[0])
    elif what == "optimize":
        repo.optimize(datasets=["t"])
    elif what == "checkout":
        repo.workspace.check_out_to(how[0], dataset="t")
    elif what == "locally":
        here = Repo.open(folder)
        rows = here.table("t").to_arrow().sort_by("id").slice(int(how[0]), 50)
        names = [f"{how[1]} {key}" for key in rows["id"].to_pylist()]
        here.write("t", pa.table({"id": rows["id"], "name": pa.array(names)}))
    else:
        there = read(spark, repo, "t").where(f"id % {how[0]} = {how[1]}")
        rows = there.selectExpr("id", f"concat('{how[2]} ', id) AS name")
        write(rows, repo, "t", mode=what)

for stage, step in json.loads(steps):
    stopping = in_background(kill_in_stage, spark, worker, stage) if stage else None
    do(*step)
    if stopping is not None:
        stopping.set()
repo = on_spark(folder, spark)
rows = read(spark, repo, "t")
print(*rows.selectExpr("count(*)", "sum(id)", "count(DISTINCT name)").first(), sep="|")
print(changes(spark, repo, "t", "[EMPTY]...HEAD").count())
first = history(spark, repo, "t").orderBy("time").groupBy("commit").count().count()
print(first)
print(sum(batch.num_rows for batch in repo.table("t").to_batches()))
print(sum(len(batch) for each in repo.diff("[EMPTY]...HEAD", ["t"]) for batch in each.changes))
few = repo.table("t").to_arrow(["id"], keys=[(key,) for key in range(50)])
print(*sorted(few["id"].to_pylist()))
spark.stop()
"""

UPDATE = (("UPDATE_BEFORE", "row"), ("UPDATE_AFTER", "new"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.mark.parametrize("dies", ["no", "yes"])
def test_what_is_written_is_right(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    repo = shared(cluster, f"written-{dies}", monkeypatch)
    said = run_on(cluster, PROGRAM, repo.path, cluster.worker, dies)

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
    here = pushed(repo, tmp_path / "here")
    assert {row["id"]: row["name"] for row in here.table("big").to_arrow().to_pylist()} == model


def pushed(repo: Repo, path: Path) -> Repo:
    """Push, and return a clone that was checked, with all data."""
    repo.push()
    origin = repo.config.get("remote.origin.url") or ""
    here = clone(origin, path, data_url=repo.config.get("havasu.data.url"))
    assert list(here.fsck(full=True)) == []
    return here


@pytest.mark.parametrize("what", ["nothing", "slow", "slots", "3"])
def test_what_differs_is_found(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Also where a worker stands still, with speculation, or dies in stages of the comparison."""
    repo = shared(cluster, f"compared-{what}", monkeypatch)
    found = run_on(cluster, COMPARE, repo.path, cluster.worker, what)

    kept, gone, come = range(1000, 4000), range(1000), range(4000, 4500)
    wanted = [[kind, str(n), f"{name} {n}"] for n in kept for kind, name in UPDATE]
    wanted += [["DELETE", str(n), f"row {n}"] for n in gone]
    wanted += [["INSERT", str(n), f"new {n}"] for n in come]
    assert sorted(found) == sorted(wanted)
    assert files(Repo.open(repo.path)) == []


COMMIT = """
import sys
from havasu_vc.history import owned_edits
from havasu_vc.workspace import incoming
from tests.spark.driving import on_spark, started

master, folder, url, least = sys.argv[1:]
owned_edits.OWNER_BYTES, owned_edits.FEW_ROWS, incoming.SMALL_FILE = 50_000, 0, int(least)
spark = started(master)
repo = on_spark(folder, spark)
counts = repo.workspace.commit_from(url, message="By an engine").changes["big"]
print(counts.inserts, counts.updates, counts.deletes, sep="|")
spark.stop()
"""


@pytest.mark.parametrize("how", ["as files", "as rows", "deleted", "connect"])
def test_edits_of_a_table_are_committed_by_executors(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """What others wrote into a table in the bucket is read there, and comes to the driver never."""
    cluster = request.getfixturevalue("connect" if how == "connect" else "cluster")
    name = f"edited-{how.replace(' ', '-')}"
    repo, url = shared(cluster, name, monkeypatch), f"s3://cluster/tables/{name}"
    repo.workspace.check_out_to(url, dataset="big")
    kept = [n for n in range(30_000) if n % 7]
    after = points(30_500, name="row").to_pylist()
    after = [{**after[n], "name": f"far {n}" if n % 3 else f"row {n}"} for n in kept]
    after += points(500, start=30_000).to_pylist()
    random.Random(1).shuffle(after)
    if how == "deleted":
        after = points(30_000).to_pylist()
        gone = range(0, 30_000, 7)
        edit_rows(url, tmp_path / "engine", [], gone)
        after = [row for row in after if row["id"] % 7]
    else:
        edit_rows(url, tmp_path / "engine", after, anew=True)

    least = 0 if how == "as files" else 1 << 40
    (said,) = run_on(cluster, COMMIT, repo.path, url, least)

    gone_rows = 30_000 - len(kept)
    updates = sum(n % 3 > 0 for n in kept)
    wanted = [0, 0, gone_rows] if how == "deleted" else [500, updates, gone_rows]
    assert said == [str(each) for each in wanted]
    repo = Repo.open(repo.path)
    assert files(repo) == [], "no data file came to the driver"
    here = pushed(repo, tmp_path / "here")
    found = {row["id"]: row["name"] for row in here.table("big").to_arrow().to_pylist()}
    assert found == {row["id"]: row["name"] for row in after}


BLIND = """
import sys
from havasu_vc import Repo
from havasu_vc.errors import HavasuError
from havasu_vc.history import owned_edits
from havasu_vc.spark import write
from tests.spark.driving import started

master, folder = sys.argv[1:]
owned_edits.OWNER_BYTES, owned_edits.FEW_ROWS = 1, 0
spark = started(
    master,
    spark_scheduler_minRegisteredResourcesRatio="1.0",
    spark_scheduler_maxRegisteredResourcesWaitingTime="120s",
)
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
        repo = shared(cluster, "blind", monkeypatch)
        (said,), (unmoved,) = run_on(cluster, BLIND, repo.path)
    assert said.startswith("the worker on blind: s3://cluster/blind/"), said
    assert said.count("the worker on") == 1 and " cannot be " in said
    assert unmoved == "True"


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with connect_server(tmp_path_factory.mktemp("connect")) as found:
        yield found


@pytest.mark.parametrize("how", ["plain", "killed", "local", "connect"])
def test_a_history_is_made_in_the_bucket_alone(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Imports, releases, writes, merges and a checkout.

    Each step may cost an executor its life; or local commands stand between, whose files no
    executor sees, those that the bucket has as little as those that it lacks.
    """
    cluster = request.getfixturevalue("connect" if how == "connect" else "cluster")
    repo = shared(cluster, f"history-{how}", monkeypatch)
    random_ = random.Random(7 + (how == "killed"))
    model: dict[int, str] = {}
    steps: list[tuple[str, ...]] = []
    models: list[dict[int, str]] = []

    def released(what: str, rows: dict[int, str]) -> None:
        name = f"sources-{how}/{len(steps)}.parquet"
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

    def locally(rows: dict[int, str], start: int, word: str) -> dict[int, str]:
        if how != "local":
            return rows
        steps.append(("locally", str(start), word))
        return rows | {key: f"{word} {key}" for key in sorted(rows)[start : start + 50]}

    model = {key: f"row {key}" for key in random_.sample(range(40_000), 6000)}
    released("import", model)
    for turn in range(TURNS):
        model = base = locally(model, 1000, f"here {turn}")
        steps.append(("branch", f"side-{turn}"))
        model = edited(model, f"release {turn}")
        released("release", model)
        for mode, word in (("upsert", f"written {turn}"), ("delete", "gone")):
            model = locally(model, 3000, f"{mode} {turn}")
            divisor, rest = random_.randrange(3, 9), random_.randrange(3)
            steps.append((mode, str(divisor), str(rest), word))
            chosen = {key: f"{word} {key}" for key in model if key % divisor == rest}
            model = model | chosen
            if mode == "delete":
                model = {key: text for key, text in model.items() if key not in chosen}
        steps.append(("switch", f"side-{turn}"))
        theirs = edited(base, f"theirs {turn}")
        released("release", theirs)
        theirs = locally(theirs, 2000, f"theirs {turn}")
        tried = ("tried",) * (how == "plain")
        steps += [("switch", "main"), ("merge", f"side-{turn}", *tried)]
        model = merged_values(base, model, theirs, otherwise=theirs)
        models.append(model)
    model = locally(model, 100, "last")
    steps += [("optimize",), ("checkout", f"s3://cluster/maps-{how}/t")]
    killed = how == "killed"
    given = [(random_.randrange(1, 4) * killed, step) for step in steps]
    said = run_on(cluster, HISTORY, repo.path, cluster.worker, json.dumps(given))

    totals = len(model), sum(model), len(set(model.values()))
    other = ("branch", "switch", "checkout", "merge", "optimize")
    commits = sum(step[0] not in other for step in steps)
    few = " ".join(str(key) for key in sorted(model) if key < 50)
    count = str(len(model))
    assert said == [
        [str(each) for each in totals],
        [count],
        [str(commits)],
        [count],
        [count],
        [few],
    ]
    repo = Repo.open(repo.path)
    assert (files(repo) == []) == (how != "local"), "no data file came to the driver"
    here = pushed(repo, tmp_path / "here")
    merges = here.git.git("log", "--merges", "--reverse", "--format=%H").lines
    assert len(merges) == len(models)
    for commit, wanted in zip(merges, models, strict=True):
        found = here.table("t", commit).to_arrow().to_pylist()
        assert {row["id"]: row["name"] for row in found} == wanted
    shown = StaticTable.from_metadata(
        f"s3://cluster/maps-{how}/t/metadata/v1.metadata.json",
        {"s3.endpoint": cluster.environment["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"},
    )
    rows = shown.scan().to_arrow().to_pylist()
    assert {row["id"]: row["name"] for row in rows} == model


def test_commands_run_on_the_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person types them; no data file comes to the machine of that person."""
    repo = shared(cluster, "commands", monkeypatch)
    for setting in ("spark.executor.memory=512m", "spark.cores.max=2", "spark.driver.memory=1g"):
        repo.git.git("config", "--add", "havasu.spark.conf", setting)
    put_table(cluster, "commands.parquet", pa.table({"id": range(100), "name": ["x"] * 100}))

    def run(*words: str) -> str:
        done = subprocess.run(
            [Path(sys.executable).with_name("havasu-vc"), *words],
            env=cluster.environment | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)},
            cwd=repo.path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr[-3000:])
        assert "the work is done here" not in done.stderr, (words, done.stderr)
        return done.stdout

    there = ("--engine", "spark", "--master", cluster.master)
    query = "SELECT count(*) AS n, max(id) AS m FROM big"
    assert run("sql", query, *there, "--no-jar", "-o", "csv").splitlines()[-1] == "30000,29999"
    place = "s3://cluster/exported"
    run("export", "big", place, "--to", "parquet-dataset", *there)
    table = pq.read_table("cluster/exported", filesystem=bucket_of(cluster))
    assert sorted(table["id"].to_pylist()) == list(range(30_000))
    assert run("validate", "big", *there).strip() == ""
    run("validate", "s3://cluster/commands.parquet", "--primary-key", "id", *there)
    said = run(
        "import", "s3://cluster/commands.parquet", "--primary-key", "auto", "-o", "json", *there
    )
    taken = json.loads(said)["havasu.import/v1"]["understood"]["commands"]
    assert (taken["key"], taken["keyFrom"]) == (["id"], "found")

    data = cluster.data("commands")
    before = objects(data)
    run("import", "s3://cluster/commands.parquet", "big", "--replace", "--dry-run", *there)
    # An empty folder is all that stays of what was tried.
    assert objects(data) - before <= {"cluster/commands/temporary"}
    assert files(repo) == [], "no data file came to the driver"
