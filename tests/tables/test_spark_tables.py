"""Tables that Spark writes, read by us: the same rows after every statement.

What Spark says of a snapshot's files and rows is the oracle for live files, differences,
deletes and scans.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.formats.havasu.properties import PartitionSpec
from havasu_vc.formats.iceberg.values import (
    MAIN,
    DataFile,
    DataFileContent,
    ManifestEntry,
    Reference,
    Snapshot,
    Status,
)
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import run_task
from havasu_vc.tables.positions import write_position_deletes
from havasu_vc.tables.publishing import publish, write_manifest, write_manifest_list
from havasu_vc.tables.scanning import scan_tasks
from havasu_vc.tables.snapshots import SnapshotFile, difference, live_files, manifests_of
from havasu_vc.tables.table import Table, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = Counter[str]
COLUMNS = "id INT, name STRING, x DOUBLE, s STRUCT<a: INT, b: STRING>, tags ARRAY<STRING>"


class SparkTable:
    """A table of a catalog of Spark's, `{t}` in statements."""

    def __init__(self, spark: "SparkSession", catalog: str, folder: Path) -> None:
        self.spark = spark
        self.catalog = catalog
        self.location = folder / "db" / "t"

    def sql(self, statement: str) -> "DataFrame":
        return self.spark.sql(statement.format(t=f"{self.catalog}.db.t", c=self.catalog))

    def create(self, columns: str, *, partition: str = "", **properties: str) -> None:
        text = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        divided = f"PARTITIONED BY ({partition})" if partition else ""
        listed = f"TBLPROPERTIES ({text})" if text else ""
        self.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg {divided} {listed}")

    @property
    def table(self) -> Table:
        return read_table(self.location)

    def rows(self, at: int | None = None) -> Rows:
        """Return the rows as Spark reads them."""
        version = "" if at is None else f"VERSION AS OF {at}"
        return counted(self.sql(f"SELECT * FROM {{t}} {version}").toArrow().to_batches())

    def files(self, at: int) -> set[tuple[int, str]]:
        found = self.sql(f"SELECT content, file_path FROM {{t}}.files VERSION AS OF {at}")
        return {(row.content, row.file_path) for row in found.collect()}

    def check(self) -> None:
        assert ours(self.table) == self.rows()


@pytest.fixture
def table(spark: "SparkSession", iceberg: Callable[[Path], str], tmp_path: Path) -> SparkTable:
    return SparkTable(spark, iceberg(tmp_path), tmp_path)


def counted(batches: Iterable[pa.RecordBatch]) -> Rows:
    return Counter(repr(plain(row)) for batch in batches for row in batch.to_pylist())


def plain(value: Any) -> Any:
    match value:
        case dict():
            return [(name, plain(each)) for name, each in value.items()]
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def ours(table: Table, at: int | None = None) -> Rows:
    return counted(batch for task in scan_tasks(table, snapshot_id=at) for batch in run_task(task))


def names(files: Iterable[SnapshotFile]) -> set[tuple[int, str]]:
    return {(int(each.file.content), each.file.path) for each in files}


VALUES = ", ".join(
    f"({n}, 'n{n % 7}', {n}.5, struct({n}, 'b{n}'), array('t{n}', null))" for n in range(40)
)
STATEMENTS = (
    f"INSERT INTO {{t}} VALUES {VALUES}",
    "INSERT INTO {t} VALUES (100, null, null, null, null), (101, '', double('NaN'), null, array())",
    "UPDATE {t} SET x = x + 1 WHERE id % 10 = 3",
    "DELETE FROM {t} WHERE id % 10 = 5",
    "UPDATE {t} SET name = 'again' WHERE id % 20 = 3",
    "MERGE INTO {t} USING (SELECT 7 AS id UNION SELECT 500) n ON {t}.id = n.id "
    "WHEN MATCHED THEN UPDATE SET name = 'merged' "
    "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (n.id, 'new')",
    "CALL {c}.system.rewrite_manifests('db.t')",
    "DELETE FROM {t} WHERE id = 8",
    "CALL {c}.system.rewrite_data_files(table => 'db.t', "
    "options => map('min-input-files', '2', 'delete-file-threshold', '1'))",
    "DELETE FROM {t} WHERE name = 'n2'",
    "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id < 30",
)
EVOLUTION = (
    "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
    "ALTER TABLE {t} RENAME COLUMN name TO label",
    "ALTER TABLE {t} ADD COLUMN name INT FIRST",
    "INSERT INTO {t} (id, name, label) VALUES (3000000000, 5, 'long')",
    "ALTER TABLE {t} DROP COLUMN x",
    "ALTER TABLE {t} ADD COLUMN x STRING AFTER id",
    "ALTER TABLE {t} ADD COLUMN s.c DOUBLE",
    "ALTER TABLE {t} RENAME COLUMN s.a TO q",
    "ALTER TABLE {t} DROP COLUMN s.b",
    "UPDATE {t} SET s = named_struct('q', 1, 'c', 2.5), x = 'x' WHERE id % 2 = 0",
)


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        ("2", "merge-on-read"),
        pytest.param("2", "copy-on-write", marks=pytest.mark.slow),
        ("1", "copy-on-write"),
    ],
)
def test_every_statement(table: SparkTable, version: str, mode: str) -> None:
    properties = {f"write.{kind}.mode": mode for kind in ("update", "delete", "merge")}
    table.create(COLUMNS, **{"format-version": version}, **properties)
    table.check()
    # Rewriting files is one way however they were changed, and deletes have one in full.
    for number, statement in enumerate(STATEMENTS):
        if mode == "merge-on-read" or number in (0, 1, 2, 3, 5, 10):
            table.sql(statement)
            table.check()
    if mode == "merge-on-read":
        contents = {each.file.content for at in snapshots(table) for each in live(table, at)}
        assert {int(each) for each in contents} == {0, 1}
    compare_all(table)


@pytest.mark.rule("ICE-52")
def test_every_change_of_schema(table: SparkTable) -> None:
    table.create(COLUMNS, **{"format-version": "2", "write.update.mode": "merge-on-read"})
    table.sql(STATEMENTS[0])
    table.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(3, id)")
    for statement in EVOLUTION:
        table.sql(statement)
        table.check()
    for at in snapshots(table):
        assert ours(table.table, at) == table.rows(at)


def live(table: SparkTable, at: int) -> tuple[SnapshotFile, ...]:
    return live_files(table.table, at)


def snapshots(table: SparkTable) -> list[int]:
    return list(table.table.metadata.snapshots)


def compare_all(table: SparkTable) -> None:
    """Check the files of all snapshots, and what differs between any two."""
    found = table.table
    known = snapshots(table)
    files = {at: table.files(at) for at in known}
    for at in known:
        assert names(live_files(found, at)) == files[at]
    for old in known:
        for new in known:
            apart = difference(found, old, new)
            assert names(apart.removed) == files[old] - files[new]
            assert names(apart.added) == files[new] - files[old]


BACK = (
    "CALL {c}.system.rollback_to_snapshot('db.t', {older})",
    "CALL {c}.system.set_current_snapshot('db.t', {any})",
    "CALL {c}.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))",
    "CALL {c}.system.rewrite_manifests('db.t')",
    "INSERT INTO {t} SELECT {n} + id, 'b' FROM range(3)",
    "INSERT INTO {t} VALUES ({n}, 'c')",
    "DELETE FROM {t} WHERE id % 7 = {n} % 7",
    "DELETE FROM {t} WHERE name = 'c'",
    "UPDATE {t} SET name = concat(name, '!') WHERE id % 5 = {n} % 5",
    "TRUNCATE TABLE {t}",
)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_histories_that_go_back(table: SparkTable, seed: int) -> None:
    chance = random.Random(seed)
    modes = {f"write.{kind}.mode": "merge-on-read" for kind in ("update", "delete")}
    table.create("id INT, name STRING", **modes)
    table.sql("INSERT INTO {t} SELECT id, 'a' FROM range(20)")
    for step in range(10):
        known = snapshots(table)
        ancestors = ancestry(table)
        values = {
            "{older}": str(chance.choice(ancestors)),
            "{any}": str(chance.choice(known)),
            "{n}": str(step + 20),
        }
        statement = chance.choice(BACK[:-1] if step < 8 else BACK)
        for name, value in values.items():
            statement = statement.replace(name, value)
        table.sql(statement)
    table.check()
    compare_all(table)


def ancestry(table: SparkTable) -> list[int]:
    """Return the current snapshot and those that it came from."""
    metadata = table.table.metadata
    found = []
    at = metadata.current_snapshot_id
    while at is not None:
        found.append(at)
        at = metadata.snapshots[at].parent_id
    return found


def test_a_file_that_comes_back_is_out_of_reach_of_older_deletes(table: SparkTable) -> None:
    table.create("id INT, name STRING", **{"write.delete.mode": "merge-on-read"})
    table.sql("INSERT INTO {t} SELECT id, 'a' FROM range(4)")
    (first,) = snapshots(table)
    table.sql("INSERT INTO {t} SELECT id, 'b' FROM range(10, 14)")
    inserted = table.table.metadata.current_snapshot_id
    for statement in (
        f"CALL {{c}}.system.rollback_to_snapshot('db.t', {first})",
        "DELETE FROM {t} WHERE id = 2",
        f"CALL {{c}}.system.cherrypick_snapshot('db.t', {inserted})",
        "DELETE FROM {t} WHERE id = 12",
    ):
        table.sql(statement)
    table.check()
    # What was picked has another sequence number now.
    assert difference(table.table, inserted, snapshots(table)[-1]).renumbered
    compare_all(table)


TRANSFORMS = (
    "bucket(4, id), truncate(1, name), years(at), months(day)",
    "name, days(at), d",
    "hours(at), b, truncate(2, d), truncate(3, id), flag",
)


@pytest.mark.parametrize("partition", TRANSFORMS)
def test_partitions_by_every_transform(table: SparkTable, partition: str) -> None:
    table.create(
        "id INT, name STRING, at TIMESTAMP, day DATE, d DECIMAL(9, 2), b BINARY, flag BOOLEAN",
        partition=partition,
        **{"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"},
    )
    table.sql(
        "INSERT INTO {t} SELECT id, if(id = 5, null, concat('é', id % 3)), "
        "timestampadd(HOUR, id * 7000, timestamp'1965-01-01 00:30:00'), "
        "date_add(date'1969-11-01', cast(id * 40 AS INT)), if(id = 6, null, (id - 4) / 4), "
        "if(id = 7, null, cast(cast(id % 2 AS STRING) AS BINARY)), id % 2 = 0 FROM range(9)"
    )
    table.sql("DELETE FROM {t} WHERE id IN (2, 5, 7)")
    table.check()
    compare_all(table)


def test_every_type(table: SparkTable) -> None:
    table.create(
        "b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, d1 DECIMAL(9, 2), d2 DECIMAL(38, 10), "
        "day DATE, at TIMESTAMP, ntz TIMESTAMP_NTZ, s STRING, bin BINARY, "
        "st STRUCT<p: STRUCT<q: DATE>>, li ARRAY<STRUCT<z: DECIMAL(5, 1)>>, "
        "m MAP<STRING, ARRAY<INT>>"
    )
    table.sql(
        "INSERT INTO {t} VALUES (true, -2147483648, 9223372036854775807, float(1.5), -0.0, 1.25, "
        "-1234567890123456789012345678.0123456789, date'0001-01-01', "
        "timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'1969-12-31 23:59:59.000001', "
        "'é\U0001f600', x'00ff', struct(struct(date'2020-02-29')), "
        "array(struct(1.5), null, struct(null)), map('a', array(1, null), 'b', null)), "
        "(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)"
    )

    table.check()


def test_files_added_as_they_are(table: SparkTable, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    inner = pa.struct([("b", pa.string()), ("a", pa.int32())])
    schema = pa.schema([("s", inner), ("extra", pa.int64()), ("id", pa.int32())])
    rows = pa.Table.from_pylist([{"s": {"b": "x", "a": 1}, "extra": 1, "id": 7}], schema=schema)
    pq.write_table(rows, source / "a.parquet")
    table.create(COLUMNS)
    table.sql(
        f"CALL {{c}}.system.add_files(table => 'db.t', source_table => '`parquet`.`{source}`')"
    )
    table.sql("ALTER TABLE {t} RENAME COLUMN id TO key")

    found = read_table(table.location, allowed=[source])
    assert ours(found) == table.rows()
    assert sum(ours(found).values()) == 1


def publish_deletes(table: SparkTable, *files: DataFile, spec_id: int = 0) -> None:
    """Add delete files of our own in a snapshot of their own."""
    found = table.table
    parent = found.metadata.snapshot
    assert parent is not None
    number = found.metadata.last_sequence_number + 1
    new = Snapshot(
        random.getrandbits(62),
        number,
        max(parent.timestamp_ms, found.metadata.last_updated_ms) + 1,
        None,
        {"operation": "delete"},
        parent.snapshot_id,
        found.metadata.current_schema_id,
    )
    manifest = write_manifest(
        found.location,
        [ManifestEntry(Status.ADDED, file, new.snapshot_id) for file in files],
        found.metadata,
        spec_id=spec_id,
        snapshot=new,
    )
    path = write_manifest_list(found.location, [*manifests_of(found, parent), manifest], new)
    new = replace(new, manifest_list=str(path))
    metadata = replace(
        found.metadata,
        snapshots={**found.metadata.snapshots, new.snapshot_id: new},
        current_snapshot_id=new.snapshot_id,
        references={MAIN: Reference(new.snapshot_id)},
        last_sequence_number=number,
        last_updated_ms=new.timestamp_ms,
    )
    publish(found, found.location, metadata)


def equality_file(
    table: SparkTable, ids: tuple[int, ...], rows: list[dict[str, Any]], **partition: Any
) -> DataFile:
    """Write an equality delete file by columns at the top of the table's schema."""
    schema = table.table.metadata.schema
    path = table.location / "data" / f"equal-{random.getrandbits(60)}.parquet"
    arrow = arrow_schema(Schema(tuple(schema.by_id[number] for number in ids)))
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow), path)
    return DataFile(
        str(path),
        len(rows),
        path.stat().st_size,
        DataFileContent.EQUALITY_DELETES,
        partition={int(name[1:]): value for name, value in partition.items()},
        equality_ids=ids,
    )


@pytest.mark.rule("ICE-21", "ICE-22")
def test_equality_deletes_as_spark_applies_them(table: SparkTable) -> None:
    table.create("id INT, name STRING, d DECIMAL(9, 2), x DOUBLE", partition="truncate(1, name)")
    table.sql(
        "INSERT INTO {t} SELECT cast(id AS INT), if(id = 4, null, concat(id % 2, 'n')), "
        "if(id = 6, null, id / 4), if(id = 7, -0.0, if(id = 8, double('NaN'), 0.0)) FROM range(20)"
    )
    everywhere = PartitionSpec(spec_id=1)
    found = table.table
    specs = {**found.metadata.partition_specs, 1: everywhere}
    publish(found, found.location, replace(found.metadata, partition_specs=specs))
    table.sql("ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT")

    publish_deletes(table, equality_file(table, (1,), [{"id": 3}, {"id": 99}], f1000="1"))
    table.sql("INSERT INTO {t} VALUES (3, '1x', 0.5, 1.0), (10, '0x', 0.5, 1.0)")
    table.check()
    publish_deletes(table, equality_file(table, (2, 3), [{"name": None, "d": 1}], f1000=None))
    table.check()
    publish_deletes(table, equality_file(table, (1,), [{"id": 10}], f1000="1"))  # elsewhere
    table.check()
    publish_deletes(table, equality_file(table, (3,), [{"d": None}, {"d": 5}]), spec_id=1)
    table.check()
    publish_deletes(table, equality_file(table, (4,), [{"x": 0.0}], f1000="1"))
    table.check()
    table.sql("INSERT INTO {t} VALUES (5, '1y', 0.5, 0.0)")
    table.sql("ALTER TABLE {t} DROP COLUMN d")
    table.sql("DELETE FROM {t} WHERE id = 16")
    table.check()
    assert 0 < sum(table.rows().values()) < 20


def test_spark_reads_and_goes_on_with_position_deletes_of_ours(table: SparkTable) -> None:
    table.create("id INT, name STRING", **{"write.delete.mode": "merge-on-read"})
    for start in (0, 10):
        table.sql(
            f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ id, 'a' FROM range({start}, {start + 10})"
        )
    files = [each.file.path for each in live_files(table.table)]
    folder = table.location / "data"
    publish_deletes(
        table, write_position_deletes(folder, {path: np.array([1, 3]) for path in files})
    )
    publish_deletes(table, write_position_deletes(folder, {files[0]: np.array([5])}))

    assert sum(table.rows().values()) == 15
    table.check()
    table.sql("DELETE FROM {t} WHERE id IN (2, 12)")
    table.check()
    table.sql("CALL {c}.system.rewrite_position_delete_files('db.t', map('rewrite-all', 'true'))")
    table.check()
    compare_all(table)
