"""What Spark says of columns is an edit, and what it commits by `write` the tables follow."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.model.commits import ChangeCounts
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
