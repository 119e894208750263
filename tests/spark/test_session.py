"""A session that runs gets the catalog of a checkout; another checkout has its own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.spark import session
from havasu_vc.spark.session import catalog_settings, warehouse_of
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_that_runs_is_used(spark: "SparkSession") -> None:
    assert session() is spark


def test_each_checkout_has_its_catalog(
    spark: "SparkSession", iceberg: Callable[[Path], str], tmp_path: Path
) -> None:
    first, second = (empty_repo(tmp_path / name) for name in ("one", "two"))
    for repo, value in ((first, 1), (second, 2), (first, 1)):
        own = session(repo)
        own.sql("CREATE TABLE IF NOT EXISTS havasu.nz.roads (id INT) USING iceberg")
        if not own.table("havasu.nz.roads").count():
            own.sql(f"INSERT INTO havasu.nz.roads VALUES ({value})")

        assert own.table("havasu.nz.roads").collect() == [(value,)]
        assert own.sparkContext is spark.sparkContext
    assert (tmp_path / "two" / "tables" / "nz" / "roads" / "metadata").is_dir()


def test_where_the_tables_are(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo")
    assert warehouse_of(repo) == repo.path / "tables"
    repo.config.set("havasu.workspace.path", "elsewhere")

    assert warehouse_of(repo) == repo.path / "elsewhere"
    settings = catalog_settings(warehouse_of(repo))
    assert settings["spark.sql.catalog.havasu.cache-enabled"] == "false"
