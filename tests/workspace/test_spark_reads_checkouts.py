"""What Spark selects from a checked-out table is what a scan of the dataset yields."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc import Repo, Settings
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.formats.iceberg.values import Flavour
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Catalog = Callable[[Path | str], str]

EVERY_TYPE = pa.schema(
    [
        ("code", pa.string()),
        ("part", pa.int32()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("big", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("amount", pa.decimal128(20, 3)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("moment", pa.timestamp("us", "UTC")),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("four", pa.binary(4)),
        ("place", pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])),
        ("numbers", pa.list_(pa.int64())),
        ("names", pa.map_(pa.string(), pa.int32())),
        ("geom", pa.binary()),
    ]
)


def every_type(count: int) -> list[dict[str, Any]]:
    return [
        {
            "code": f"k{n % 7}",
            "part": n // 7,
            "flag": n % 3 == 0,
            "small": n,
            "big": n * 10**12,
            "single": n / 4,
            "double": n / 3,
            "amount": Decimal(n) / 8,
            "day": datetime.date(2020, 1, 1) + datetime.timedelta(days=n),
            "at": datetime.datetime(2020, 1, 1, 3, 4, 5, 678 + n),
            "moment": datetime.datetime(2020, 1, 1, 3, 4, 5, n, tzinfo=datetime.UTC),
            "text": "ü" * (n % 40),
            "raw": bytes([n % 256, 0, 255]),
            "four": bytes([1, 2, 3, n % 256]),
            "place": None if n % 5 == 0 else {"x": n / 2, "tags": ["a", None, str(n)]},
            "numbers": None if n % 4 == 0 else list(range(n % 6)),
            "names": [] if n % 2 else [("one", n), ("two", None)],
            "geom": None if n % 11 == 0 else shapely.to_wkb(shapely.Point(n, -n)),
        }
        for n in range(count)
    ]


def make(path: Path, table: pa.Table, key: tuple[str, ...], dataset: str = "things") -> Repo:
    repo = empty_repo(path / "repo", settings=Settings(engine="local"))
    file = path / "in.parquet"
    pq.write_table(table, file)
    repo.import_(file, dataset, options=SourceOptions(primary_key=key))
    return repo


def selected(spark: "SparkSession", table: str) -> list[dict[str, Any]]:
    found = spark.sql(f"SELECT * FROM {table}").toArrow()
    return in_order(found.to_pylist())


def scanned(repo: Repo, dataset: str, revision: str = "HEAD") -> list[dict[str, Any]]:
    return in_order(repo.table(dataset, revision).to_arrow().to_pylist())


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("flavour", list(Flavour))
@pytest.mark.rule("HAV-8", "ICE-90")
def test_every_type_in_every_flavour(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path, flavour: Flavour
) -> None:
    repo = make(tmp_path, pa.Table.from_pylist(every_type(90), EVERY_TYPE), ("code", "part"))
    root = repo.workspace.check_out(CheckoutRequest(flavour)).root

    assert selected(spark, f"{iceberg(root)}.things") == scanned(repo, "things")


def test_edits_deletes_and_files_that_come_back(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    table = pa.Table.from_pylist(every_type(3000), EVERY_TYPE)
    repo = make(tmp_path, table, ("code", "part"))
    name = f"{iceberg(repo.workspace.check_out().root)}.things"
    versions = [repo.head().commit]
    for step in range(4):
        some = table.slice(step * 500, 40)
        repo.write("things", some.select(["code", "part"]), mode="delete")
        changed = table.slice(step * 600 + 100, 30)
        index = changed.schema.get_field_index("small")
        changed = changed.set_column(index, "small", pa.array([-step] * 30, pa.int32()))
        repo.write("things", changed)
        assert selected(spark, name) == scanned(repo, "things")
        versions.append(repo.head().commit)
    for version in (versions[1], versions[3], versions[0], versions[4], versions[2]):
        assert version is not None
        repo.switch(version)
        assert selected(spark, name) == scanned(repo, "things")


def test_a_schema_that_evolves(spark: "SparkSession", iceberg: Catalog, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "a": [1, 2, 3], "b": ["x", "y", None], "c": [1.5, 2.5, 3.5]})
    rows = rows.set_column(1, "a", rows["a"].cast(pa.int32()))
    repo = make(tmp_path, rows, ("id",))
    name = f"{iceberg(repo.workspace.check_out().root)}.things"

    def evolve(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        columns = repo.get_meta("things", ["schema.json"])["schema.json"]
        repo.set_meta("things", {"schema.json": change(columns)})
        assert spark.table(name).columns == list(repo.dataset("things").schema.names)
        assert selected(spark, name) == scanned(repo, "things")

    def renamed(columns: list[dict[str, Any]], names: dict[str, str]) -> list[dict[str, Any]]:
        return [{**each, "name": names.get(each["name"], each["name"])} for each in columns]

    evolve(lambda columns: renamed(columns, {"a": "b", "b": "a"}))
    evolve(lambda columns: [each for each in columns if each["name"] != "c"])
    # A name that was dropped comes back as another column.
    evolve(lambda columns: [*columns, {"name": "c", "dataType": "text"}])
    repo.write("things", pa.table({"id": [2, 4], "b": [7, 8], "a": ["p", "q"], "c": ["r", "s"]}))
    assert selected(spark, name) == scanned(repo, "things")
    evolve(
        lambda columns: [{**each, "size": 64} if each["name"] == "b" else each for each in columns]
    )
    repo.write("things", pa.table({"id": [5], "b": [2**40], "a": ["t"], "c": [None]}))
    assert selected(spark, name) == scanned(repo, "things")
    evolve(lambda columns: columns[::-1])


def test_time_travel_by_snapshot_and_tag(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    repo = make(tmp_path, pa.table({"id": [1, 2], "a": ["x", "y"]}), ("id",))
    name = f"{iceberg(repo.workspace.check_out().root)}.things"
    state = repo.workspace.state()
    assert state is not None
    first = state.tables["things"].snapshot_id
    repo.write("things", pa.table({"id": [3], "a": ["z"]}))

    def count(clause: str) -> int:
        return spark.sql(f"SELECT * FROM {name} {clause}").count()

    assert count("") == count("VERSION AS OF 'havasu-base'") == 3
    assert count(f"VERSION AS OF {first}") == 2
    history = spark.sql(f"SELECT operation, summary FROM {name}.snapshots").collect()
    assert {row.summary["havasu-vc.commit"] for row in history} == {
        repo.resolve(revision).commit for revision in ("HEAD", "HEAD^")
    }


def test_what_spark_writes_stays_until_it_is_told_to_go(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    repo = make(tmp_path, pa.table({"id": [1, 2, 3], "a": ["x", "y", "z"]}), ("id",))
    name = f"{iceberg(repo.workspace.check_out().root)}.things"
    before = scanned(repo, "things")
    spark.sql(f"UPDATE {name} SET a = 'w' WHERE id = 2")
    spark.sql(f"INSERT INTO {name} VALUES (9, 'new')")
    edited = selected(spark, name)
    assert len(edited) == 4

    assert list(repo.workspace.edited()) == ["things"]
    assert repo.workspace.check_out().kept == ("things",)
    assert selected(spark, name) == edited

    repo.workspace.check_out(discard=True)
    assert selected(spark, name) == before
    assert repo.workspace.edited() == {}
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    assert [row["id"] for row in selected(spark, name)] == [2, 3]


@pytest.mark.rule("ICE-24")
def test_spark_may_remove_what_it_likes_and_the_store_stays(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    repo = make(tmp_path, pa.table({"id": [1, 2, 3], "a": ["x", "y", "z"]}), ("id",))
    catalog = iceberg(repo.workspace.check_out().root)
    repo.write("things", pa.table({"id": [1], "a": ["w"]}))
    call = f"CALL {catalog}.system"
    spark.sql(f"{call}.expire_snapshots(table => 'things', retain_last => 1)")
    spark.sql(f"{call}.rewrite_position_delete_files(table => 'things')")
    spark.sql(f"{call}.rewrite_data_files(table => 'things')")
    assert selected(spark, f"{catalog}.things") == scanned(repo, "things")
    spark.sql(f"DROP TABLE {catalog}.things PURGE")

    assert list(repo.fsck(full=True)) == []
    repo.workspace.check_out()
    assert selected(spark, f"{catalog}.things") == scanned(repo, "things")


def test_branches_and_tags_of_git_are_those_of_the_table(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    repo = make(tmp_path, pa.table({"id": [1, 2], "a": ["x", "y"]}), ("id",))
    repo.create_tag("v1")
    repo.switch("dev", create=True)
    repo.write("things", pa.table({"id": [3], "a": ["z"]}))
    repo.switch("main")
    repo.switch("wide", create=True)
    columns = repo.get_meta("things", ["schema.json"])["schema.json"]
    repo.set_meta("things", {"schema.json": [*columns, {"name": "more", "dataType": "text"}]})
    repo.switch("main")
    result = repo.workspace.check_out(CheckoutRequest(refs=True))
    name = f"{iceberg(result.root)}.things"

    assert ["wide is left out of the table of things: it has columns that HEAD has not"] == list(
        result.notes
    )
    assert spark.sql(f"SELECT * FROM {name} VERSION AS OF 'dev'").count() == 3
    assert spark.sql(f"SELECT * FROM {name} VERSION AS OF 'v1'").count() == 2

    head = repo.head().commit
    spark.sql(f"INSERT INTO {name}.branch_dev VALUES (9, 'nine')")
    spark.sql(f"UPDATE {name}.branch_dev SET a = 'changed' WHERE id = 3")
    repo.workspace.commit(message="On dev by Spark", refs=True)
    found = repo.table("things", "dev").to_arrow().sort_by("id")["a"].to_pylist()
    assert found == ["x", "y", "changed", "nine"]
    assert repo.head().commit == head and repo.workspace.edited() == {}
    assert spark.sql(f"SELECT * FROM {name} VERSION AS OF 'dev'").count() == 4

    repo.switch("wide")
    assert spark.sql(f"SELECT * FROM {name} VERSION AS OF 'wide'").count() == 2
    assert selected(spark, name) == scanned(repo, "things")


def test_edits_by_spark_move_along(spark: "SparkSession", iceberg: Catalog, tmp_path: Path) -> None:
    table = pa.Table.from_pylist(every_type(3000), EVERY_TYPE)
    repo = make(tmp_path, table, ("code", "part"))
    name = f"{iceberg(repo.workspace.check_out().root)}.things"
    repo.write("things", table.slice(70, 7).select(["code", "part"]), mode="delete")
    spark.sql(f"UPDATE {name} SET small = -1 WHERE part = 3")
    spark.sql(f"DELETE FROM {name} WHERE part = 5")
    edited = selected(spark, name)
    (tmp_path / "repo").rename(tmp_path / "moved")
    repo = Repo.open(tmp_path / "moved", settings=Settings(engine="local"))
    result = repo.workspace.relocate()
    name = f"{iceberg(result.root)}.things"

    assert result.kept == ("things",)
    assert selected(spark, name) == edited
    spark.sql(f"DELETE FROM {name} WHERE part = 6")
    assert len(selected(spark, name)) == len(edited) - 7
    repo.workspace.check_out(discard=True)
    assert selected(spark, name) == scanned(repo, "things")


def test_a_table_that_spark_partitions_stays_partitioned(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    rows = pa.table({"id": range(100), "a": [f"a{n % 3}" for n in range(100)]})
    repo = make(tmp_path, rows, ("id",))
    name = f"{iceberg(repo.workspace.check_out().root)}.things"
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD a")
    spark.sql(f"INSERT INTO {name} SELECT id + 1000, a FROM {name}")
    spark.sql(f"DELETE FROM {name} WHERE id IN (4, 1004, 1005)")
    edited = selected(spark, name)
    repo.workspace.commit(message="By Spark")

    assert scanned(repo, "things") == edited
    assert selected(spark, name) == edited
    assert repo.workspace.edited() == {}
    repo.write("things", pa.table({"id": [3, 1003, 1006], "a": ["b", "c", "d"]}))
    assert selected(spark, name) == scanned(repo, "things")
    repo.switch("before", create=True, start="HEAD^^")
    assert selected(spark, name) == scanned(repo, "things")
    repo.switch("main")
    assert selected(spark, name) == scanned(repo, "things")


def test_a_table_clustered_by_a_partition_spec(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    days = [None if n % 9 == 0 else datetime.datetime(2024, 1 + n % 3, 2) for n in range(60)]
    rows = pa.table({"id": range(60), "a": [f"a{n % 2}" for n in range(60)]})
    repo = make(tmp_path, rows.append_column("at", pa.array(days, pa.timestamp("us"))), ("id",))
    repo.workspace.check_out_to(
        tmp_path / "by" / "things",
        dataset="things",
        clustered=True,
        partition_by="months(at), bucket(2, id), truncate(1, a)",
    )
    name = f"{iceberg(tmp_path / 'by')}.things"

    assert selected(spark, name) == scanned(repo, "things")
    where = "at = timestamp_ntz'2024-02-02 00:00:00' AND id < 30"
    found = spark.sql(f"SELECT id FROM {name} WHERE {where} ORDER BY id").collect()
    assert [row.id for row in found] == [n for n in range(30) if n % 9 and n % 3 == 1]
    assert spark.sql(f"SELECT * FROM {name}.partitions").count() == 8
    spark.sql(f"DELETE FROM {name} WHERE at IS NULL")
    assert spark.table(name).count() == 60 - 7
