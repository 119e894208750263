"""What Spark says of columns is an edit, and what it commits by `write` the tables follow.

A table that it replaces as a whole, as dbt does, is the dataset's still, with the dataset's key.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from havasu_vc import Repo
from havasu_vc.model.commits import ChangeCounts
from tests.cli.conftest import invoke, succeed
from tests.repo.checkouts import assert_shows_head
from tests.repo.tables import BY_ID, points, write
from tests.support.sound import LOCAL
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_comments_are_edits_and_tables_follow_writes(
    spark: "SparkSession", iceberg: Callable[[Path], str], tmp_path: Path
) -> None:
    from havasu_vc.spark import read
    from havasu_vc.spark import write as commit_frame

    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(20)), options=BY_ID)
    repo.workspace.check_out()
    table = f"{iceberg(repo.workspace.root)}.points"
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN name COMMENT 'what it is called'")

    seen = repo.workspace.changes()
    assert seen is not None and seen.tables["points"].meta == ChangeCounts(updates=1)
    (diff,) = repo.workspace.diff()
    assert [change.name for change in diff.meta] == ["schema.json"]
    repo.workspace.commit(message="Say what it is")
    assert repo.dataset("points").schema.by_name["name"].doc == "what it is called"

    for mode in ("upsert", "overwrite"):
        frame = read(spark, repo, "points").where("id < 5").selectExpr("id", "geom", "name")
        commit_frame(frame, repo, "points", mode=mode)
        assert_shows_head(repo)
    assert spark.table(table).count() == 5


@pytest.fixture
def checked_out(tmp_path: Path) -> Repo:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(20)), options=BY_ID)
    repo.workspace.check_out()
    return repo


@pytest.mark.parametrize("way", ["CREATE OR REPLACE TABLE", "createOrReplace"])
def test_a_table_that_is_created_or_replaced_has_the_datasets_key(
    way: str, spark: "SparkSession", iceberg: Callable[[Path], str], checked_out: Repo
) -> None:
    """dbt builds its models so, and Iceberg keeps no identifier fields over it."""
    catalog, before = iceberg(checked_out.workspace.root), checked_out.dataset("points").schema
    names = [each.name for each in before.fields]
    wanted = ", ".join("IF(id = 3, 'new', name) name" if n == "name" else n for n in names)
    rows = f"SELECT {wanted} FROM {catalog}.points WHERE id > 1"
    if way == "createOrReplace":
        spark.sql(rows).cache().writeTo(f"{catalog}.points").using("iceberg").createOrReplace()
    else:
        spark.sql(f"CREATE OR REPLACE TABLE {catalog}.points USING iceberg AS {rows}")

    here = ["-C", str(checked_out.path)]
    assert "1 updates" in succeed(invoke([*here, "status"])).output
    succeed(invoke([*here, "commit", "-m", "Built anew"]))

    dataset = checked_out.dataset("points")
    assert dataset.schema.identifier_ids == before.identifier_ids
    assert [field.id for field in dataset.schema.fields] == [field.id for field in before.fields]
    assert dataset.schema.by_name["id"].required == before.by_name["id"].required
    found = {row["id"]: row["name"] for row in checked_out.table("points").to_arrow().to_pylist()}
    assert found.keys() == {key for key in range(20) if key > 1}
    assert found[3] == "new"
    assert_shows_head(checked_out)


def test_a_table_that_is_replaced_without_its_key_is_refused(
    spark: "SparkSession", iceberg: Callable[[Path], str], checked_out: Repo
) -> None:
    table, head = f"{iceberg(checked_out.workspace.root)}.points", checked_out.head().commit
    spark.sql(f"CREATE OR REPLACE TABLE {table} USING iceberg AS SELECT geom, name FROM {table}")

    result = invoke(["-C", str(checked_out.path), "commit", "-m", "m"])

    assert result.exit_code == 23
    assert "no longer the key column 'id'" in result.output
    assert checked_out.head().commit == head
    succeed(invoke(["-C", str(checked_out.path), "restore", "points"]))
    assert_shows_head(checked_out)


def test_rows_of_a_replaced_table_that_have_no_key_are_refused(
    spark: "SparkSession", iceberg: Callable[[Path], str], checked_out: Repo
) -> None:
    table, head = f"{iceberg(checked_out.workspace.root)}.points", checked_out.head().commit
    rows = f"SELECT nullif(id, 7) id, geom, name FROM {table}"
    spark.sql(f"CREATE OR REPLACE TABLE {table} USING iceberg AS {rows}")

    result = invoke(["-C", str(checked_out.path), "commit", "-m", "m"])

    assert result.exit_code and "internal error" not in result.output
    assert "a row has no value in its key column 'id'" in result.output
    assert checked_out.head().commit == head
