"""Spark reads what lies in a bucket, from a real S3 server, without a jar and without a copy."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow.fs import S3FileSystem
from pyspark.errors import PythonException

from havasu_vc import Repo
from havasu_vc.datasets.havasu.live import ValueRange, matching_groups
from havasu_vc.datasets.havasu.parquet import open_parquet
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.model.bounds import Bounds
from havasu_vc.spark import changes, history, read, register
from tests.conftest import lacking
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.sharing import bare, clone, files, reopened, share, store
from tests.repo.points import make
from tests.repo.tables import BY_ID, points
from tests.repo.tables import write as write_file
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 12_000


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    with moto() as url:
        yield url


@pytest.fixture(scope="module")
def far(
    endpoint: str, spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Repo]:
    """A clone without data files of a repository whose data is in a bucket."""
    folder = tmp_path_factory.mktemp("far")
    environment = {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(spark.sparkContext, "environment", dict(S3_ENVIRONMENT))
        system = S3FileSystem(
            endpoint_override=endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        system.create_dir("far")
        ours = make(folder / "ours", {1: ("one", 1), 2: ("two", 2)})
        with tiny_thresholds(most_deltas=9, group_rows=1024):
            ours.import_(write_file(folder / "big.parquet", points(ROWS)), "big", options=BY_ID)
            ours.write("big", points(3, start=500, name="new"))
        share(ours, bare(folder / "server.git"), data="s3://far/data")
        yield clone(
            folder / "server.git", folder / "theirs", data_url="s3://far/data", on_demand=True
        )


def test_a_read_brings_no_file(far: Repo, spark: "SparkSession") -> None:
    frame = read(spark, far, "big")

    assert frame.count() == ROWS
    found = {row["id"]: row["name"] for row in frame.where("id between 499 and 503").collect()}
    assert [found[number].split()[0] for number in (500, 501, 502)] == ["new"] * 3
    assert not found[499].startswith("new")
    assert files(far) == []


def test_rows_are_those_of_a_copy(far: Repo, spark: "SparkSession", tmp_path: Path) -> None:
    here = clone(
        far.config.get("remote.origin.url") or "", tmp_path / "x", data_url="s3://far/data"
    )
    for path in ("big", "points"):
        near, away = (
            sorted(map(repr, read(spark, repo, path).toArrow().to_pylist())) for repo in (here, far)
        )
        assert near == away and near
    assert files(far) == [] and files(here)


def test_changes_and_histories(far: Repo, spark: "SparkSession") -> None:
    kinds = [row["_change_type"] for row in changes(spark, far, "big").collect()]
    assert sorted(kinds) == ["UPDATE_AFTER"] * 3 + ["UPDATE_BEFORE"] * 3
    assert history(spark, far, "big").count() == ROWS + 3
    assert files(far) == []


def test_views_in_sql(far: Repo, spark: "SparkSession") -> None:
    assert register(spark, far, prefix="far_")["big"] == "far_big"
    (row,) = spark.sql("select count(*) as n, max(id) as id from far_big where id < 100").collect()
    assert (row["n"], row["id"]) == (100, 99)


def test_what_is_here_is_read_here(far: Repo, spark: "SparkSession", tmp_path: Path) -> None:
    some = clone(
        far.config.get("remote.origin.url") or "",
        tmp_path / "x",
        data_url="s3://far/data",
        on_demand=True,
    )
    view = some.dataset("big")
    assert isinstance(view, HavasuDataset)
    (entry, *_) = view.data_entries
    some.opened.storage.bring([(entry.file, entry.size)])

    assert read(spark, some, "big").count() == ROWS
    assert files(some) == [entry.file]


def test_a_range_asks_for_the_row_groups_that_may_have_it(far: Repo, tmp_path: Path) -> None:
    here = clone(
        far.config.get("remote.origin.url") or "", tmp_path / "x", data_url="s3://far/data"
    )
    view = here.dataset("big")
    assert isinstance(view, HavasuDataset)
    number = view.schema.by_name["id"].id
    chosen = []
    for entry in view.data_entries:
        with open_parquet(str(store(here).path(entry.file))) as file:
            every = range(file.num_row_groups)
            found = matching_groups(file, every, view.schema, {number: ValueRange(3000, 3001)}, [])
            nothing = matching_groups(file, every, view.schema, {number: ValueRange(-9, -8)}, [])
            unknown = matching_groups(
                file, every, view.schema, {}, [(99, Bounds(0, 0, 1, 1), True)]
            )
        assert nothing == [] and unknown == list(every)
        chosen.append((len(found), len(every)))
    assert max(all_ for _, all_ in chosen) > 5
    assert sum(some for some, _ in chosen) == 1


def test_ranges_and_windows_give_the_same_rows(far: Repo, spark: "SparkSession") -> None:
    frame = read(spark, far, "big", where={"id": (3000, 3100)})
    assert frame.count() == 101
    window = (-180.0, -90.0, 0.0, 90.0)
    some = read(spark, far, "big", intersects=window).count()
    assert 0 < some <= ROWS
    assert read(spark, far, "big", where={"id": (10**9, None)}).count() == 0


def test_an_object_that_is_gone(
    far: Repo, spark: "SparkSession", endpoint: str, tmp_path: Path
) -> None:
    lost = reopened(far)
    lost.config.set("havasu.data.url", "s3://far/nothing")
    try:
        with pytest.raises(PythonException) as caught:
            read(spark, lost, "points").collect()
        assert "is not" in str(caught.value)
    finally:
        lost.config.set("havasu.data.url", "s3://far/data")
