"""One history made by threads and by Spark, of sources and frames in 1, 2 and 8 parts.

Rows are those of a plain model, and digests and changes those of every other way.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem
from pyiceberg.table import StaticTable

from havasu_vc import Repo, Settings
from havasu_vc.datasets.havasu import diff
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine import spark as spark_engine
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.exchange import owned_imports
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import (
    merge_datasets,
    owned_changes,
    owned_deletes,
    owned_edits,
    owned_merges,
)
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.records import dataclass
from havasu_vc.spark import write
from havasu_vc.workspace import incoming
from tests.conftest import lacking
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.sharing import bare, clone, files, share
from tests.repo.points import make
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto
from tests.support.templates import empty_repo
from tests.workspace import by_hand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = pa.schema(
    [("code", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("height", pa.float64())]
)
KEYS = {"a number": ("id",), "text": ("code",), "text and a number": ("code", "id")}
DATASET = "t"

Row = tuple[str | None, float | None]
Model = dict[int, Row]
"""The rows by their number, which their code spells."""
Step = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Way:
    """How a history is made."""

    threads: int
    """Of the local engine; 0 is Spark."""
    parts: int
    """Files of a source, and partitions of a frame."""
    owners: bool
    """Whether each owner has little, or all have all."""
    bucket: bool = False
    """Whether the data is in a bucket alone."""
    shuffle: bool = False
    """Whether rows that are dealt out go through Spark's own shuffle."""


WAYS = {
    "one thread": Way(1, 1, owners=False),
    "threads": Way(4, 8, owners=True),
    "spark, one part": Way(0, 1, owners=True),
    "spark, shuffled": Way(0, 2, owners=True, shuffle=True),
    "spark, eight parts in a bucket": Way(0, 8, owners=True, bucket=True, shuffle=True),
}


def code_of(number: int) -> str:
    return f"{number % 7}-é{number}"


def table_of(rows: Mapping[int, Row]) -> pa.Table:
    columns = [
        [code_of(number) for number in rows],
        list(rows),
        [name for name, _ in rows.values()],
        [height for _, height in rows.values()],
    ]
    return pa.table(columns, schema=SCHEMA)


def drawn(seed: int) -> tuple[list[Step], list[Model]]:
    """Return the steps of a history, and the rows after each that commits."""
    random_ = random.Random(seed)

    def row(word: str) -> Row:
        name = random_.choice([None, "", f"{word} {random_.randrange(50)}", "ō \n'"])
        return name, random_.choice([None, 0.0, 1.5, random_.random()])

    def rows(count: int, word: str) -> Model:
        return {number: row(word) for number in random_.sample(range(9000), count)}

    def released(model: Model, word: str) -> Model:
        share = random_.choice([0.02, 0.4, 0.9])
        found = {k: row(word) if random_.random() < share else v for k, v in model.items()}
        found = {k: v for k, v in found.items() if random_.random() > share / 4} | rows(150, word)
        shuffled = list(found.items())
        random_.shuffle(shuffled)
        return dict(shuffled)

    now = rows(1500, "first")
    steps: list[Step] = [("import", now)]
    models = [now]

    def commit(step: str, given: Model, after: Model) -> None:
        nonlocal now
        steps.append((step, given))
        models.append(after)
        now = after

    verbs = ["release", "upsert", "append", "overwrite", "delete", "merge", "edit", "optimize"]
    random_.shuffle(verbs)
    for verb in verbs:
        match verb:
            case "release" | "overwrite" | "edit":
                after = released(now, verb)
                commit(verb, after, after)
            case "upsert":
                given = released(dict(random_.sample(sorted(now.items()), 400)), verb)
                commit(verb, given, now | given)
            case "append":
                given = {k: v for k, v in rows(400, verb).items() if k not in now}
                commit(verb, given, now | given)
            case "delete":
                given = dict(random_.sample(sorted(now.items()), 300)) | rows(20, verb)
                commit(verb, given, {k: v for k, v in now.items() if k not in given})
            case "merge":
                base, theirs = now, released(now, "theirs")
                steps.append(("branch", theirs))
                models.append(theirs)
                ours = released(now, "ours")
                commit("release", ours, ours)
                commit("merge", {}, merged(base, ours, theirs))
            case "optimize":
                steps.append(("optimize", None))
    return steps, models


def merged(base: Model, ours: Model, theirs: Model) -> Model:
    """Return rows merged cell by cell; where both sides changed one, theirs are taken."""
    found: Model = {}
    for number in base.keys() | ours.keys() | theirs.keys():
        old, one, other = base.get(number), ours.get(number), theirs.get(number)
        row: Row | None
        if one == other or other == old:
            row = one
        elif one == old or old is None or one is None or other is None:
            row = other
        else:
            name = other[0] if other[0] != old[0] else one[0]
            row = (name, other[1] if other[1] != old[1] else one[1])
        if row is not None:
            found[number] = row
    return found


@pytest.fixture(scope="module")
def endpoint(spark: "SparkSession") -> Iterator[str]:
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    with moto() as url, pytest.MonkeyPatch.context() as patch:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": url}.items():
            patch.setenv(name, value)
        patch.setattr(spark.sparkContext, "environment", dict(S3_ENVIRONMENT))
        system = S3FileSystem(
            endpoint_override=url.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        system.create_dir("same")
        yield url


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tables be dealt with as large ones."""
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    monkeypatch.setattr(merge_datasets, "LEAST_ROWS", -1)
    monkeypatch.setattr(owned_changes, "LEAST_ROWS", 0)
    monkeypatch.setattr(owned_deletes, "LEAST_ROWS", 0)
    monkeypatch.setattr(incoming, "SMALL_FILE", 1 << 40)
    for name in ("SMALL_ROWS", "SMALL_BYTES"):
        monkeypatch.setattr(diff, name, 0)


LOCAL = Settings(engine="local")
STARTED = spark_engine.SparkEngine.__init__


def apart(engine: spark_engine.SparkEngine, *how: Any, **more: Any) -> None:
    """Make an engine whose machines share no folder with this one."""
    STARTED(engine, *how, **more)
    engine.apart, engine._shared = True, False


class History:
    """A history in the making."""

    def __init__(self, folder: Path, way: Way, session: "SparkSession", key: Sequence[str]) -> None:
        folder.mkdir()
        self.folder, self.way, self.session, self.key = folder, way, session, key
        work = EngineSettings(threads=way.threads or None, session=None if way.threads else session)
        engine = "local" if way.threads else "spark"
        if way.bucket:
            ours = make(folder / "ours", {1: ("one", 1)})
            data = f"s3://same/{folder.parent.name}"
            share(ours, bare(folder / "server.git"), data=data)
            made = clone(folder / "server.git", folder / "repo", data_url=data, on_demand=True)
        else:
            made = empty_repo(folder / "repo")
        self.repo = made.with_settings(Settings(engine=engine, engine_settings=work))
        # What is looked at after each step is read by threads, where it is here.
        self.near = self.repo if way.bucket else made.with_settings(LOCAL)

    def do(self, verb: str, given: Any) -> None:
        """Take one step."""
        repo = self.repo
        match verb:
            case "import" | "release":
                self.taken_in(given, replace=verb == "release")
            case "optimize":
                repo.optimize(datasets=[DATASET])
            case "branch":
                repo.create_branch("side")
                repo.switch("side")
                self.taken_in(given, replace=True)
                repo.switch("main")
            case "merge":
                repo.merge("side", policy=MergePolicy(side=Side.THEIRS))
            case "edit":
                self.edit(given)
            case _:
                table = table_of(given)
                if verb == "delete":
                    table = table.select(list(self.key))
                if self.way.threads:
                    repo.write(DATASET, table, mode=verb)
                else:
                    frame = self.session.createDataFrame(table).repartition(self.way.parts)
                    write(frame, repo, DATASET, mode=verb)

    def taken_in(self, given: Model, *, replace: bool) -> None:
        folder = self.folder / f"source-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        table = table_of(given)
        each = -(-len(table) // self.way.parts)
        for number in range(self.way.parts):
            part = table.slice(number * each, each)
            pq.write_table(part, folder / f"{number}.parquet", row_group_size=500)
        options = SourceOptions(primary_key=tuple(self.key))
        self.repo.import_(folder, DATASET, options=options, replace=replace)

    def edit(self, after: Model) -> None:
        """Have an engine write a checked-out table anew, or what came and went, and commit."""
        if self.way.bucket:
            # Tables of a work tree are files of this machine.
            frame = self.session.createDataFrame(table_of(after)).repartition(self.way.parts)
            write(frame, self.repo, DATASET, mode="overwrite")
            return
        self.repo.workspace.check_out()
        place = self.repo.workspace.root / DATASET
        found = table_of(after).to_pylist()
        by_hand.rewrite(place, found[: len(found) // 2])
        by_hand.insert(place, found[len(found) // 2 :])
        self.repo.workspace.commit(message="Edit")


def looked_at(repo: Repo) -> tuple[Model, Any, list[dict[str, Any]]]:
    """Return rows, digests, and what differs from the commit before."""
    rows = repo.table(DATASET).to_arrow().to_pylist()
    assert all(row["code"] == code_of(row["id"]) for row in rows)
    model = {row["id"]: (row["name"], row["height"]) for row in rows}
    assert len(model) == len(rows)
    before = "HEAD^" if repo.git.git("rev-list", "--count", "HEAD").lines != ["1"] else "[EMPTY]"
    changes = [
        batch.data for each in repo.diff(f"{before}...HEAD", [DATASET]) for batch in each.changes
    ]
    told = pa.Table.from_batches(changes).to_pylist() if changes else []
    return model, require_files(repo.dataset(DATASET)).snapshot.digests, told


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(3))
def test_every_way_is_the_same(
    endpoint: str,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    seed: int,
) -> None:
    steps, models = drawn(seed)
    found: dict[str, list[tuple[Any, list[dict[str, Any]]]]] = {}
    for name, way in WAYS.items():
        size = 20_000 if way.owners else 1 << 30
        for module, setting in (
            (owned_edits, "OWNER_BYTES"),
            (owned_imports, "PART_BYTES"),
            (owned_merges, "LEAST_BYTES"),
            (owned_merges, "MOST_BYTES"),
        ):
            monkeypatch.setattr(module, setting, size)
        monkeypatch.setattr(spark_engine, "DEALS_IN_FOLDERS", not way.shuffle)
        if way.bucket:
            # As on a cluster, whose machines see no folder of this one.
            monkeypatch.setattr(spark_engine.SparkEngine, "__init__", apart)
        history = History(tmp_path / name.replace(" ", "-"), way, spark, KEYS[key])
        expected = iter(models)
        with tiny_thresholds(group_rows=128, most_deltas=9):
            for verb, given in steps:
                history.do(verb, given)
                if verb == "branch":
                    next(expected)
                elif verb != "optimize":
                    now = next(expected)
                    model, digests, changes = looked_at(history.near)
                    assert model == now, (name, verb)
                    found.setdefault(name, []).append((digests, changes))
            assert looked_at(history.repo) == (now, digests, changes), name
        assert list(history.repo.fsck(full=True)) == []
        if way.bucket:
            assert files(history.repo) == []
        place = f"s3://same/maps/{key}-{seed}-{way.parts}-{way.threads}-{way.shuffle}"
        history.repo.workspace.check_out_to(place, dataset=DATASET)
        shown = StaticTable.from_metadata(
            f"{place}/metadata/v1.metadata.json",
            {"s3.endpoint": endpoint, "s3.region": "us-east-1"},
        )
        rows = shown.scan().to_arrow().to_pylist()
        assert {row["id"]: (row["name"], row["height"]) for row in rows} == now
    first, *others = found.values()
    for each in others:
        for one, other in zip(first, each, strict=True):
            assert one == other
