"""Iceberg tables whose columns others changed after their last write, taken in by every road."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from havasu_vc.exchange.source import SourceOptions
from havasu_vc.model.types import Decimal, Primitive
from havasu_vc.store.refs import list_branches, list_tags
from tests.repo.tables import rows
from tests.support.sound import CheckedRepo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["a", None, "c"],
        "lanes": pa.array([1, 2, None], pa.int32()),
        "price": pa.array([1, 2, 3], pa.decimal128(6, 2)),
        "gone": [True, False, None],
        "inner": [{"x": 1, "y": "p"}, None, {"x": 3, "y": "r"}],
    }
)
BY_ID = SourceOptions(primary_key=("id",))


class Altered:
    """A table that PyIceberg writes and alters."""

    def __init__(self, folder: Path) -> None:
        catalogs = pytest.importorskip("pyiceberg.catalog.memory")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.catalog = catalogs.InMemoryCatalog("c", warehouse=str(folder))
            self.catalog.create_namespace("n")
            self.table = self.catalog.create_table("n.t", ROWS.schema)
            self.table.append(ROWS)

    def alter(self) -> None:
        """Change columns in each way there is, and write nothing."""
        types = pytest.importorskip("pyiceberg.types")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.table.update_schema() as columns:
                columns.add_column("added", types.StringType(), doc="of late")
                columns.add_column(("inner", "z"), types.DoubleType())
                columns.rename_column("name", "title")
                columns.update_column("lanes", field_type=types.LongType())
                columns.update_column("price", field_type=types.DecimalType(12, 2))
                columns.delete_column("gone")
                columns.move_first("lanes")

    @property
    def place(self) -> str:
        return f"iceberg:{self.table.metadata_location.removeprefix('file://')}"

    def rows(self, snapshot: int | None = None) -> list[dict[str, Any]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: list[dict[str, Any]] = (
                self.table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
            )
        return sorted(found, key=lambda row: row["id"])


@pytest.fixture
def altered(tmp_path: Path) -> Altered:
    return Altered(tmp_path / "warehouse")


def assert_as_now(repo: CheckedRepo, altered: Altered) -> None:
    wanted = altered.rows()
    assert "added" in wanted[0] and "title" in wanted[0] and "gone" not in wanted[0]
    assert rows(repo, "t") == wanted
    schema = repo.dataset("t").schema
    assert set(schema.names) == set(wanted[0])
    assert schema.by_name["lanes"].type is Primitive.LONG
    assert schema.by_name["price"].type == Decimal(12, 2)
    assert all(list(row) == list(schema.names) for row in rows(repo, "t"))
    assert schema.by_name["added"].doc == "of late"


@pytest.mark.few(1)
@pytest.mark.parametrize("link", [False, True])
def test_a_table_has_the_columns_of_now(repo: CheckedRepo, altered: Altered, link: bool) -> None:
    altered.alter()

    repo.import_(altered.place, "t", options=BY_ID, link=link)

    assert_as_now(repo, altered)


@pytest.mark.few(1)
@pytest.mark.parametrize("link", [False, True])
def test_columns_alone_are_a_release(repo: CheckedRepo, altered: Altered, link: bool) -> None:
    repo.import_(altered.place, "t", options=BY_ID, link=link)
    altered.alter()

    result = repo.import_(altered.place, "t", options=BY_ID, link=link, replace=True)

    assert result.commit is not None
    assert_as_now(repo, altered)
    assert repo.import_(altered.place, "t", options=BY_ID, link=link, replace=True).commit is None


@pytest.mark.few(1)
@pytest.mark.parametrize("link", [False, True])
def test_columns_alone_are_a_version(repo: CheckedRepo, altered: Altered, link: bool) -> None:
    before = altered.rows()
    altered.alter()

    repo.import_(altered.place, "t", options=BY_ID, link=link, history=True)

    assert_as_now(repo, altered)
    assert rows(repo, "t", "HEAD~1") == before
    assert [each.message.split()[0] for each in repo.log()] == ["Columns", "Append"]
    old, new = (repo.dataset("t", r).schema.by_name for r in ("HEAD~1", "HEAD"))
    assert old["name"].id == new["title"].id  # renamed, not dropped and added


def test_a_branch_has_the_columns_of_now_and_a_tag_those_of_then(
    repo: CheckedRepo, altered: Altered
) -> None:
    before = altered.rows()
    first = altered.table.current_snapshot().snapshot_id
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        altered.table.manage_snapshots().create_branch(first, "side").create_tag(
            first, "v1"
        ).commit()
        altered.table.append(ROWS.slice(0, 1).set_column(0, "id", pa.array([9], pa.int64())))
    altered.alter()

    repo.import_(altered.place, "t", options=BY_ID, history=True, refs=True)

    assert_as_now(repo, altered)
    assert "side" in [each.name for each in list_branches(repo.repo.opened.git)]
    assert "v1" in [each.name for each in list_tags(repo.repo.opened.git)]
    assert rows(repo, "t", "v1") == before
    assert rows(repo, "t", "side") == [row for row in altered.rows() if row["id"] != 9]


def test_a_snapshot_that_is_named_has_the_columns_of_then(
    repo: CheckedRepo, altered: Altered
) -> None:
    first = altered.table.current_snapshot().snapshot_id
    altered.alter()
    options = SourceOptions(primary_key=("id",), snapshot=first)

    repo.import_(altered.place, "t", options=options)

    assert rows(repo, "t") == altered.rows(first)


@pytest.mark.slow
@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_what_spark_altered(
    repo: CheckedRepo,
    spark: "SparkSession",
    iceberg: Callable[[Path], str],
    tmp_path: Path,
    link: bool,
    version: int,
) -> None:
    table = f"{iceberg(tmp_path / 'warehouse')}.db.t"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING, lanes INT, gone BOOLEAN, "
        f"inner STRUCT<x: INT>) USING iceberg TBLPROPERTIES ('format-version'='{version}')"
    )
    spark.sql(
        f"INSERT INTO {table} SELECT id, concat('n', id), CAST(id AS INT), true, "
        "struct(CAST(id AS INT)) FROM range(20)"
    )
    place = f"iceberg:{tmp_path / 'warehouse' / 'db' / 't'}"
    repo.import_(place, "t", options=BY_ID, link=link)
    for change in (
        "ADD COLUMN added STRING COMMENT 'of late'",
        "ADD COLUMN inner.y DOUBLE",
        "RENAME COLUMN name TO title",
        "ALTER COLUMN lanes TYPE BIGINT",
        "DROP COLUMN gone",
    ):
        spark.sql(f"ALTER TABLE {table} {change}")

    repo.import_(place, "t", options=BY_ID, link=link, replace=True)
    repo.import_(place, "again", options=BY_ID, link=link)
    repo.import_(place, "past", options=BY_ID, link=link, history=True)

    wanted = [row.asDict(True) for row in spark.sql(f"SELECT * FROM {table} ORDER BY id").collect()]
    assert [rows(repo, name) for name in ("t", "again", "past")] == [wanted] * 3
    spark.sql(f"DROP TABLE {table} PURGE")
