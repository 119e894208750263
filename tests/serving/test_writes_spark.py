"""Spark's statements through the catalog: rows compared with a model, commits counted."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.exchange.source import SourceOptions
from tests.serving.server import serving
from tests.serving.test_engines import served_to
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = Settings(engine="local")
Model = dict[int, str | None]
STATEMENTS: tuple[tuple[str, Callable[[Model], Model]], ...] = (
    ("INSERT INTO {t} VALUES (200, 'a'), (201, NULL)", lambda m: m | {200: "a", 201: None}),
    (
        "UPDATE {t} SET name = 'updated' WHERE id < 5",
        lambda m: {k: "updated" if k < 5 else v for k, v in m.items()},
    ),
    ("DELETE FROM {t} WHERE id = 7", lambda m: {k: v for k, v in m.items() if k != 7}),
    (
        "MERGE INTO {t} USING (SELECT 8L AS id, 'm' AS name UNION ALL SELECT 300L, 'n') new "
        "ON {t}.id = new.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        lambda m: m | {8: "m", 300: "n"},
    ),
    (
        "INSERT OVERWRITE {t} SELECT id, concat('o', id) FROM range(4, 9)",
        lambda m: {k: f"o{k}" for k in range(4, 9)},
    ),
)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    table = pa.table({"id": pa.array(range(20), pa.int64()), "name": [f"n{n}" for n in range(20)]})
    pq.write_table(table, tmp_path / "in.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "in.parquet", "points", options=options)
    return repo


@pytest.fixture
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path, "--write", "main") as found:
        yield found


def held(repo: Repo, path: str = "points") -> Model:
    return {row["id"]: row["name"] for row in repo.table(path).to_arrow().to_pylist()}


@pytest.mark.spark
def test_statements_are_commits(
    repo: Repo, url: str, spark: "SparkSession", iceberg: Callable[[Path], str]
) -> None:
    served = served_to(spark, url, "main", "written")
    model: Model = held(repo)
    for number, (statement, change) in enumerate(STATEMENTS, 1):
        spark.sql(statement.format(t=f"{served}.tables.points"))
        model = change(model)
        assert held(repo) == model, statement
        assert len(list(repo.log())) == 1 + number
    spark.sql(f"DELETE FROM {served}.tables.points WHERE id = -1")
    assert len(list(repo.log())) == 1 + len(STATEMENTS)

    made = f"{served}.a.made"
    spark.sql(f"CREATE NAMESPACE {served}.a")
    key = "TBLPROPERTIES ('havasu.key' = 'id')"
    spark.sql(f"CREATE TABLE {made} USING iceberg {key} AS SELECT * FROM {served}.tables.points")
    assert held(repo, "a/made") == model
    spark.sql(f"CREATE OR REPLACE TABLE {made} USING iceberg AS SELECT 9L AS id, 'r' AS name")
    with pytest.raises(Exception, match="a/made: two rows have the key id = 9"):
        spark.sql(f"INSERT INTO {made} VALUES (9, 'again')")
    spark.sql(f"ALTER TABLE {made} ADD COLUMN more STRING")
    spark.sql(f"ALTER TABLE {made} RENAME TO a.moved")
    assert repo.datasets() == ("a/moved", "points")
    assert repo.dataset("a/moved").schema.names == ("id", "name", "more")
    assert repo.dataset("a/moved").schema.key.names == ("id",)
    spark.sql(f"DROP TABLE {served}.a.moved")
    assert repo.datasets() == ("points",)
    assert len(list(repo.log())) == 1 + len(STATEMENTS) + 5
    assert list(Repo.open(repo.path, settings=LOCAL).fsck(full=True)) == []
