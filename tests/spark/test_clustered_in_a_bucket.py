"""Clustered tables are made by executors that share nothing with the driver but a bucket."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from havasu_vc import Repo
from havasu_vc.formats.iceberg.transforms import parse_transform
from havasu_vc.model.types import Primitive
from tests.remotes.buckets import edit_rows
from tests.remotes.sharing import files
from tests.repo.tables import points
from tests.spark.clusters import Cluster, bucket_of, run_on, shared, standalone
from tests.spark.driving import objects

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STARTED = """
import sys
from havasu_vc.checkouts import clustered_versions
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.exchange import owned_imports
from tests.spark.driving import in_background, kill_in_stage, on_spark, started

master, folder, worker, root = sys.argv[1:]
owned_imports.PART_BYTES, clustered_versions.SMALL = 50_000, 0  # there are several owners
spark = started(master)
repo = on_spark(folder, spark)
"""
ELSEWHERE = """
for dataset, spec in (("big", "bucket(4, id)"), ("curve", None), ("big", None)):
    stopping = in_background(kill_in_stage, spark, worker, 3)
    place = f"{root}/{dataset}{'-by' if spec else ''}"
    repo.workspace.check_out_to(place, dataset=dataset, clustered=True, partition_by=spec)
    stopping.set()
repo.workspace.check_out_to(f"{folder}-here", dataset="curve", clustered=True)
spark.stop()
"""
WORKSPACE = """
repo.workspace.check_out(CheckoutRequest(clustered=True))
spark.stop()
"""
COMMIT = """
print(repo.workspace.changes().tables["curve"].rows.total)
print(repo.workspace.commit(message="By an engine").changes["curve"].total)
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("clustered")) as found:
        yield found


def shown(cluster: Cluster, place: str, version: int = 1) -> StaticTable:
    return StaticTable.from_metadata(
        f"{place}/metadata/v{version}.metadata.json",
        {"s3.endpoint": cluster.environment["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"},
    )


def names_by_id(table: StaticTable) -> dict[int, str]:
    rows = table.scan().to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))


BIG = {number: f"row {number}" for number in range(30_000)}
CURVE = {number: f"new {number}" for number in range(1000, 4500)}


def test_tables_elsewhere(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a bucket and in a folder of the driver, also where executors die meanwhile."""
    repo, root = shared(cluster, "clustered", monkeypatch), "s3://cluster/sorted"
    before = objects(cluster.data("clustered"))

    run_on(cluster, STARTED + ELSEWHERE, repo.path, cluster.worker, root)

    assert objects(cluster.data("clustered")) == before, "what was sorted is in the tables alone"
    assert files(Repo.open(repo.path)) == [], "no data file came to the driver"
    assert names_by_id(shown(cluster, f"{root}/big-by")) == BIG
    assert names_by_id(shown(cluster, f"{root}/big")) == BIG
    assert names_by_id(shown(cluster, f"{root}/curve")) == CURVE
    bucket = parse_transform("bucket[4]")
    dealt: Counter[int] = Counter()
    for place in sorted(objects(f"{root}/big-by/data")):
        ids = pq.read_table(place, filesystem=bucket_of(cluster), columns=["id"])["id"]
        (number,) = set(bucket.apply_array(ids.combine_chunks(), Primitive.LONG).to_pylist())
        dealt[number] += len(ids)
    assert sorted(dealt) == [0, 1, 2, 3] and sum(dealt.values()) == len(BIG)
    here = Path(f"{repo.path}-here", "data").iterdir()
    assert {key for file in here for key in pq.read_table(file)["id"].to_pylist()} == {*CURVE}


def test_a_workspace_in_the_bucket(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clustered tables follow commits of what engines wrote there."""
    repo, root = shared(cluster, "workspace", monkeypatch), "s3://cluster/tables"
    repo.config.set("havasu.workspace.path", root)
    run_on(cluster, STARTED + WORKSPACE, repo.path, cluster.worker, root)
    assert names_by_id(shown(cluster, f"{root}/big")) == BIG
    assert names_by_id(shown(cluster, f"{root}/curve")) == CURVE
    first = objects(f"{root}/curve/data")
    come = [{**row, "name": f"late {row['id']}"} for row in points(50, start=9000).to_pylist()]
    gone = range(1000, 1100)
    edit_rows(f"{root}/curve", tmp_path / "engine", come, gone)

    said = run_on(cluster, STARTED + COMMIT, repo.path, cluster.worker, root)

    assert said == [["150"], ["150"]]
    wanted = {key: name for key, name in CURVE.items() if key not in gone}
    wanted |= {row["id"]: row["name"] for row in come}
    assert len(files(Repo.open(repo.path))) == 1, "the driver has what says which rows are gone"
    assert names_by_id(shown(cluster, f"{root}/curve", 3)) == wanted
    assert first < objects(f"{root}/curve/data"), "the sorted files stay"
    found = Repo.open(repo.path).table("curve").to_arrow().to_pylist()
    assert {row["id"]: row["name"] for row in found} == wanted
