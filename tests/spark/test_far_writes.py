"""Spark writes where the data lies: in a bucket, from a clone that has none of it."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem

from havasu_vc import Repo, Settings
from havasu_vc.datasets.havasu import parquet
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine import spark as spark_engine
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.errors import KeyViolationError, StorageError
from havasu_vc.exchange import owned_imports
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import merge_datasets, owned_edits, owned_merges
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.spark import read, write
from havasu_vc.upkeep import maintenance
from tests.conftest import lacking
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.sharing import bare, clone, files, reopened, share
from tests.repo.points import make, merged_values
from tests.repo.tables import BY_ID, points, rows
from tests.repo.tables import write as write_file
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = "s3://writes/data"


@pytest.fixture(scope="module")
def server(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, S3FileSystem]]:
    """A git server, and the bucket with the data of its repository."""
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    folder = tmp_path_factory.mktemp("far-writes")
    with moto() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
            patch.setenv(name, value)
        patch.setattr(spark.sparkContext, "environment", dict(S3_ENVIRONMENT))
        system = S3FileSystem(
            endpoint_override=endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        system.create_dir("writes")
        ours = make(folder / "ours", {1: ("one", 1), 2: ("two", 2)})
        with tiny_thresholds(most_deltas=9, group_rows=1024):
            ours.import_(write_file(folder / "big.parquet", points(9000)), "big", options=BY_ID)
            ours.write("big", points(500, start=20_000), mode="append")
            small = write_file(folder / "small.parquet", points(900))
            ours.import_(small, "curve", options=BY_ID, order="hilbert")
            ours.import_(small, "loose", order="hilbert")
            ours.write("big", points(3, start=500, name="new"))
        share(ours, bare(folder / "server.git"), data=DATA)
        yield folder / "server.git", system


@pytest.fixture
def far(server: tuple[Path, S3FileSystem], tmp_path: Path) -> Repo:
    return clone(server[0], tmp_path / "theirs", data_url=DATA, on_demand=True)


@pytest.fixture(autouse=True)
def by_its_own_shuffle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Spark deal rows out as on a cluster, whose machines share no folder."""
    monkeypatch.setattr(spark_engine, "DEALS_IN_FOLDERS", False)


@pytest.fixture(autouse=True)
def each_file_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 1)
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)


def names(spark: "SparkSession", repo: Repo) -> dict[int, str]:
    rows = read(spark, repo, "big").select("id", "name").collect()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["name"] for row in rows}


def test_every_mode_writes_to_the_bucket_and_brings_no_file(
    far: Repo, spark: "SparkSession", tmp_path: Path
) -> None:
    model = names(spark, far)
    rows = spark.range(4000, 9500, 1, 4)
    write(rows.selectExpr("id", "concat('far ', id) AS name"), far, "big")
    model |= {number: f"far {number}" for number in range(4000, 9500)}
    assert names(spark, far) == model
    write(spark.range(20_100, 20_300, 1, 2), far, "big", mode="delete")
    for number in range(20_100, 20_300):
        del model[number]
    assert names(spark, far) == model
    write(spark.range(-50, 0, 1, 3).selectExpr("id", "'low' AS name"), far, "big", mode="append")
    model |= dict.fromkeys(range(-50, 0), "low")
    assert names(spark, far) == model
    whole = read(spark, far, "big").where("id < 8000 OR id > 20400")
    write(whole.replace({"low": "lower"}), far, "big", mode="overwrite")
    model = {
        number: "lower" if name == "low" else name
        for number, name in model.items()
        if number < 8000 or number > 20400
    }
    assert names(spark, far) == model
    assert files(far) == []

    far.push()
    here = clone(far.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert list(here.fsck(full=True)) == []
    assert {row["id"]: row["name"] for row in here.table("big").to_arrow().to_pylist()} == model


@pytest.mark.parametrize("dataset", ["curve", "loose"])
def test_tables_in_no_key_order_are_written_in_the_bucket(
    far: Repo,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dataset: str,
) -> None:
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 50_000)
    release = pa.concat_tables([points(600), points(200, start=600, name="new")])
    file = write_file(tmp_path / "release.parquet", release)
    settings = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    counts = far.with_settings(settings).import_(file, dataset, replace=True).datasets[dataset]
    keyed = dataset == "curve"
    assert (counts.inserts, counts.updates) == ((0, 200) if keyed else (200, 0))
    assert counts.deletes == (100 if keyed else 300)
    more = spark.createDataFrame(points(30, start=2000, name="more"))
    write(more, far, dataset, mode="append")
    model = pa.concat_tables([release, points(30, start=2000, name="more")]).to_pylist()
    if keyed:
        write(spark.range(590, 610).selectExpr("id", "'up' AS name"), far, dataset)
        write(spark.range(0, 50), far, dataset, mode="delete")
        model = [
            row | ({"name": "up"} if 590 <= row["id"] < 610 else {})
            for row in model
            if row["id"] >= 50
        ]
    fewer = read(spark, far, dataset).where("id % 3 > 0")
    write(fewer, far, dataset, mode="overwrite")
    model = [row for row in model if row["id"] % 3]
    found = read(spark, far, dataset).select("id", "name").collect()
    assert sorted(map(tuple, found)) == sorted((row["id"], row["name"]) for row in model)
    assert files(far) == []

    far.push()
    here = clone(far.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert list(here.fsck(full=True)) == []
    held = here.table(dataset).to_arrow().to_pylist()
    assert sorted(held, key=lambda row: row["id"]) == sorted(model, key=lambda row: row["id"])


@pytest.mark.parametrize("few", [0, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_release_is_compared_and_written_in_the_bucket(
    far: Repo,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
) -> None:
    monkeypatch.setattr(owned_edits, "FEW_ROWS", few)
    kept, changed = points(7000), points(40, start=7000, name=f"new {few}")
    release = pa.concat_tables([kept, changed, points(9, start=30_000 + few)])
    file = write_file(tmp_path / "release.parquet", release)
    settings = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    result = far.with_settings(settings).import_(file, "big", replace=True)
    counts = result.datasets["big"]
    model = names(spark, far)
    assert model == dict(zip(release["id"].to_pylist(), release["name"].to_pylist(), strict=True))
    assert counts.inserts == 9
    assert files(far) == []

    far.push()
    here = clone(far.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert list(here.fsck(full=True)) == []
    assert {row["id"]: row["name"] for row in here.table("big").to_arrow().to_pylist()} == model


@pytest.mark.parametrize("key", ["id", "name"])
def test_an_import_in_any_order_goes_to_the_bucket(
    far: Repo, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(owned_imports, "PART_BYTES", 40_000)
    table = points(9000)
    order = pa.array([(number * 7919) % 9000 for number in range(9000)])
    file = write_file(tmp_path / "table.parquet", table.take(order))
    settings = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    options = SourceOptions(primary_key=(key,))
    path = f"by-{key}"
    far.with_settings(settings).import_(file, path, options=options)
    assert files(far) == []
    view = require_files(reopened(far).dataset(path))
    assert len(view.data_entries) > 2, "there were several owners"
    twice = write_file(tmp_path / "twice.parquet", pa.concat_tables([table, table.slice(70, 1)]))
    with pytest.raises(KeyViolationError, match="twice"):
        far.with_settings(settings).import_(twice, "twice", options=options)

    far.push()
    here = clone(far.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert list(here.fsck(full=True)) == []
    assert rows(here, path) == table.to_pylist()


@pytest.mark.parametrize(
    "policy", ["theirs", "nobody", pytest.param("few", marks=pytest.mark.slow)]
)
def test_a_merge_is_made_in_the_bucket(
    far: Repo,
    server: tuple[Path, S3FileSystem],
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
) -> None:
    """It brings no file, and is what threads make of the same in a clone that has them all."""
    if policy != "few":
        monkeypatch.setattr(merge_datasets, "LEAST_ROWS", -1)
        for name in ("LEAST_BYTES", "MOST_BYTES"):
            monkeypatch.setattr(owned_merges, name, 30_000)
    base = names(spark, far)
    far.create_branch("side")
    sides = []
    for branch, step in (("main", 3), ("side", 5)):
        far.switch(branch)
        changed = {key: f"{branch} {key}" for key in base if key % step == 0}
        gone = [key for key in base if key % 7 == step]
        rows_ = spark.createDataFrame(list(changed.items()), "id long, name string")
        write(rows_, far, "big")
        write(spark.createDataFrame([(key,) for key in gone], "id long"), far, "big", mode="delete")
        sides.append({key: name for key, name in (base | changed).items() if key not in gone})
    far.switch("main")
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    here = clone(server[0], tmp_path / "here", data_url=DATA, on_demand=True)
    here.git.git("fetch", "-q", str(far.path), "side:side", "main:ours")
    here.git.git("reset", "-q", "--hard", "ours")
    found = []
    for repo in (reopened(far).with_settings(there), reopened(here)):
        chosen = None if policy == "nobody" else MergePolicy(side=Side.THEIRS)
        result = repo.merge("side", policy=chosen)
        conflicts = [each.rows for each in result.conflicts]
        if policy == "nobody":
            assert conflicts
            repo.resolve_conflicts(choice="theirs")
            result = repo.continue_merge()
        view = require_files(reopened(repo).dataset("big"))
        found.append((result.changes, conflicts, view.snapshot.digests))
    assert found[0] == found[1]
    assert files(far) == []
    model = merged_values(base, sides[0], sides[1], otherwise=sides[1])
    assert names(spark, reopened(far)) == model
    assert {row["id"]: row["name"] for row in rows(reopened(here), "big")} == model


@pytest.mark.parametrize("dataset", ["curve", "loose"])
def test_tables_in_no_key_order_are_merged_in_the_bucket(
    far: Repo,
    server: tuple[Path, S3FileSystem],
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dataset: str,
) -> None:
    monkeypatch.setattr(merge_datasets, "LEAST_ROWS", -1)
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 50_000)
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    keyed = dataset == "curve"
    far.create_branch("side")
    for branch, step in (("main", 3), ("side", 5)):
        far.switch(branch)
        found = points(900).to_pylist()
        for row in found[::step]:
            row["name"] = f"{branch} {row['id']}"
        release = pa.Table.from_pylist(
            [row for row in found if row["id"] % 7 != step], schema=points(1).schema
        )
        file = write_file(tmp_path / "release.parquet", release)
        far.with_settings(there).import_(file, dataset, replace=True)
    far.switch("main")
    here = clone(server[0], tmp_path / "here", data_url=DATA, on_demand=True)
    here.git.git("fetch", "-q", str(far.path), "side:side", "main:ours")
    here.git.git("reset", "-q", "--hard", "ours")
    outcomes = []
    for repo in (reopened(far).with_settings(there), reopened(here)):
        seen = repo.merge("side")
        conflicts = sum(each.unresolved_rows for each in seen.conflicts)
        if conflicts:
            repo.resolve_conflicts(choice="theirs")
            repo.continue_merge()
        view = require_files(reopened(repo).dataset(dataset))
        outcomes.append((seen.changes, conflicts, view.snapshot.digests))
    assert outcomes[0] == outcomes[1]
    assert (outcomes[0][1] > 0) == keyed
    assert files(far) == []
    held = [row["name"] for row in rows(reopened(here), dataset)]
    both = [number for number in range(0, 900, 15) if number % 7 not in (3, 5)]
    assert all(f"side {number}" in held for number in both)
    assert all((f"main {number}" in held) == (not keyed) for number in both)


def test_few_rows_go_to_the_bucket_as_one_file(
    far: Repo, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver writes them, and has no copy, as others must see them."""
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 10_000)
    model = names(spark, far)
    before = len(require_files(far.dataset("big")).entries)
    rows = spark.createDataFrame(
        [(7, "seven"), (8000, "more"), (30_000, "new")], "id long, name string"
    )
    write(rows, far, "big")
    model |= {7: "seven", 8000: "more", 30_000: "new"}
    assert names(spark, far) == model
    assert len(require_files(far.dataset("big")).entries) == before + 2
    assert files(far) == []
    far.push()
    here = clone(far.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert list(here.fsck(full=True)) == []


def test_a_second_attempt_leaves_nothing(
    far: Repo, server: tuple[Path, S3FileSystem], spark: "SparkSession"
) -> None:
    """The same rows on the same version are the same files, which are there."""
    rows = spark.range(100, 900, 1, 3).selectExpr("id", "'again' AS name")
    head = far.head().commit
    write(rows, far, "big")
    first = set(require_files(far.dataset("big")).entries)
    far.git.git("reset", "-q", "--hard", head or "")
    again = reopened(far)
    count = len(server[1].get_file_info(_selector()))
    write(rows, again, "big")
    assert set(require_files(again.dataset("big")).entries) == first
    assert len(server[1].get_file_info(_selector())) == count


def test_a_bucket_that_cannot_be_written_commits_nothing(far: Repo, spark: "SparkSession") -> None:
    far.config.set("havasu.data.url", "s3://no-such-bucket/data")
    head = far.head().commit
    rows = spark.range(100, 900, 1, 3).selectExpr("id", "'again' AS name")
    with pytest.raises(StorageError, match="no-such-bucket"):
        write(rows, reopened(far), "big")
    assert far.head().commit == head


def _selector() -> pa.fs.FileSelector:
    return pa.fs.FileSelector("writes/data", recursive=True)


def test_files_are_optimized_in_the_bucket(
    far: Repo, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owned_imports, "PART_BYTES", 40_000)
    write(spark.range(100, 9000, 7, 4).selectExpr("id", "concat('far ', id) AS name"), far, "big")
    write(spark.range(0, 9000, 5, 2), far, "big", mode="delete")
    model = names(spark, far)
    before = require_files(reopened(far).dataset("big"))
    assert before.delete_entries
    settings = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    far.with_settings(settings).optimize(datasets=["big"])

    after = require_files(reopened(far).dataset("big"))
    assert not after.delete_entries and after.data_entries != before.data_entries
    assert after.snapshot.digests == before.snapshot.digests
    assert names(spark, far) == model
    assert files(far) == []
    far.push()
    here = clone(far.config.get("remote.origin.url") or "", tmp_path / "here", data_url=DATA)
    assert list(here.fsck(full=True)) == []
    assert {row["id"]: row["name"] for row in here.table("big").to_arrow().to_pylist()} == model


def test_files_along_a_curve_are_optimized_in_the_bucket(
    far: Repo,
    server: tuple[Path, S3FileSystem],
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By executors, who deal rows out by their places on it; this machine gets no file."""
    monkeypatch.setattr(owned_imports, "PART_BYTES", 4_000)
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 50_000)
    settings = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    new = spark.range(100, 1400, 3, 3).selectExpr("id", "concat('far ', id) AS name")
    write(new, far, "curve")
    write(spark.range(0, 900, 5, 2), far, "curve", mode="delete")
    before = require_files(reopened(far).dataset("curve"))
    assert len(before.delete_entries) > 1
    far.push(refspecs=["main:edited"])
    here = clone(server[0], tmp_path / "here", data_url=DATA, branch="edited")
    wanted = by_key(here)
    looked_at: list[str] = []
    at_url = parquet._at_url

    def noted(url: str) -> object:
        looked_at.append(url)
        return at_url(url)

    with monkeypatch.context() as patch:
        patch.setattr(parquet, "_at_url", noted)
        far.with_settings(settings).optimize(datasets=["curve"])
    # One of the data files has two delete files, which are compared before they are believed.
    deleting = {entry.file for entry in before.delete_entries}
    assert {url.rpartition("/")[2].partition("?")[0] for url in looked_at} <= deleting
    after = require_files(reopened(far).dataset("curve"))
    assert files(far) == []
    assert after.order.is_hilbert and not after.delete_entries
    assert len(after.data_entries) > 1
    # The other engine says the same of the rows, and lays them in the same order.
    here.with_settings(Settings(engine="local")).optimize(datasets=["curve"])
    local = require_files(here.dataset("curve"))
    assert after.snapshot.digests == before.snapshot.digests == local.snapshot.digests
    far.push(refspecs=["main:optimized"])
    there = clone(server[0], tmp_path / "there", data_url=DATA, branch="optimized")
    assert list(there.fsck(full=True)) == []
    assert by_key(there) == wanted == by_key(here)
    # Files come in the order of their names, and rows in each along the curve.
    (whole,) = ids_by_file(here)
    places = {number: place for place, number in enumerate(whole)}
    pieces = sorted([places[number] for number in piece] for piece in ids_by_file(there))
    assert [place for piece in pieces for place in piece] == list(range(len(whole)))


def ids_by_file(repo: Repo) -> list[list[int]]:
    view = require_files(repo.dataset("curve"))
    return [
        pq.read_table(view.file_path(entry), columns=["id"])["id"].to_pylist()
        for entry in view.data_entries
    ]


def by_key(repo: Repo) -> list[dict[str, object]]:
    found: list[dict[str, object]] = repo.table("curve").to_arrow().sort_by("id").to_pylist()
    return found


@pytest.mark.parametrize("order", ["none", "hilbert"])
def test_files_without_a_key_are_optimized_in_the_bucket(
    far: Repo,
    server: tuple[Path, S3FileSystem],
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
) -> None:
    """By executors; what they write has the rows of what threads write, file by file."""
    monkeypatch.setattr(maintenance, "CHUNK_BYTES", 6_000)
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 50_000)
    settings = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    there = far.with_settings(settings)
    path = f"heap-{order}"
    there.import_(write_file(tmp_path / "heap.parquet", points(900)), path, order=order)
    for _ in range(2):  # rows that are there twice
        write(spark.createDataFrame(points(700, start=1000)), far, path, mode="append")
    write(spark.createDataFrame(points(90, start=5000)), far, path, mode="append")
    write(read(spark, far, path).where("id % 7 > 0"), far, path, mode="overwrite")
    before = require_files(reopened(far).dataset(path))
    assert before.delete_entries and len(before.data_entries) > 3
    far.push(refspecs=[f"main:before-{order}"])
    here = clone(server[0], tmp_path / "here", data_url=DATA, branch=f"before-{order}")
    wanted = sorted(row["id"] for row in here.table(path).to_arrow().to_pylist())
    looked_at: list[str] = []
    at_url = parquet._at_url

    def noted(url: str) -> object:
        looked_at.append(url)
        return at_url(url)

    with monkeypatch.context() as patch:
        patch.setattr(parquet, "_at_url", noted)
        reopened(far).with_settings(settings).optimize(datasets=[path])
    deleting = {entry.file for entry in before.delete_entries}
    assert {url.rpartition("/")[2].partition("?")[0] for url in looked_at} <= deleting
    assert files(far) == []
    after = require_files(reopened(far).dataset(path))
    assert not after.delete_entries
    assert order == "hilbert" or len(after.data_entries) > 1
    here.with_settings(Settings(engine="local")).optimize(datasets=[path])
    local = require_files(here.dataset(path))
    assert after.snapshot.digests == before.snapshot.digests == local.snapshot.digests
    far.push(refspecs=[f"main:after-{order}"])
    other = clone(server[0], tmp_path / "other", data_url=DATA, branch=f"after-{order}")
    assert list(other.fsck(full=True)) == []
    assert held_by_files(other, path) == held_by_files(here, path)
    assert sorted(chain.from_iterable(held_by_files(other, path))) == wanted


def held_by_files(repo: Repo, path: str) -> list[list[int]]:
    """Return the ids in each data file of a dataset without deleted rows, as PyArrow reads them."""
    view = require_files(repo.dataset(path))
    tables = [pq.read_table(view.file_path(entry)) for entry in view.data_entries]
    return sorted(table["id"].to_pylist() for table in tables)


@pytest.mark.parametrize("order", ["none", "hilbert"])
def test_rows_like_those_of_a_file_that_stays_are_another_file(
    far: Repo,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
) -> None:
    monkeypatch.setattr(maintenance, "SMALL_SHARE", 1 << 30)  # no file is small
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 50_000)
    settings = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    there = far.with_settings(settings)
    path = f"twins-{order}"
    table = points(300)
    there.import_(write_file(tmp_path / "t.parquet", table), path, order=order)
    more = pa.concat_tables([table, points(9, start=9000)])
    write(spark.createDataFrame(more).coalesce(1), far, path, mode="append")
    write(read(spark, far, path).where("id < 9000"), far, path, mode="overwrite")
    before = require_files(reopened(far).dataset(path))
    assert (len(before.data_entries), len(before.delete_entries)) == (2, 1)
    reopened(far).with_settings(settings).optimize(datasets=[path])
    after = require_files(reopened(far).dataset(path))
    assert (len(after.data_entries), len(after.delete_entries)) == (2, 0)
    assert [entry.rows for entry in after.data_entries] == [300, 300]
    assert after.snapshot.digests == before.snapshot.digests
    assert files(far) == []
    far.push(refspecs=[f"main:twins-{order}"])
    here = clone(
        far.config.get("remote.origin.url") or "",
        tmp_path / "here",
        data_url=DATA,
        branch=f"twins-{order}",
    )
    assert list(here.fsck(full=True)) == []
    assert sorted(chain.from_iterable(held_by_files(here, path))) == sorted([*range(300)] * 2)
