"""Iceberg tables taken in, with or without their history."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from havasu_vc.checkouts.edits_elsewhere import check_out_to
from havasu_vc.checkouts.requests import CheckoutToRequest
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.model.changes import count_changes
from havasu_vc.tables.table import read_table
from tests.exchange.test_iceberg import SCHEMA, numbered
from tests.repo.tables import BY_ID, rows
from tests.repo.test_rasters import outside, tiles, write
from tests.support.sound import CheckedRepo, refuses
from tests.tables.making import TableMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    made = TableMaker(tmp_path / "roads", SCHEMA)
    made.commit(made.data(numbered(*range(40))))
    return made


def changes(repo: CheckedRepo, revisions: str) -> tuple[int, int, int]:
    (found,) = repo.diff(revisions)
    counts = count_changes(found.changes)
    return counts.inserts, counts.updates, counts.deletes


def test_the_rows_of_the_newest_snapshot_come(repo: CheckedRepo, maker: TableMaker) -> None:
    maker.commit(maker.equal([{"id": 3}], (1,)))

    result = repo.import_(f"iceberg:{maker.location}")

    assert result.datasets["roads"].inserts == 39
    view = repo.dataset("roads")
    assert view.key.names == ("id",)
    (field,) = view.schema.geometries
    assert field.geometry is not None and field.geometry.crs == "EPSG:2193"
    assert [row["id"] for row in rows(repo, "roads")] == [n for n in range(40) if n != 3]


def test_each_snapshot_becomes_a_commit(repo: CheckedRepo, maker: TableMaker) -> None:
    maker.commit(maker.equal([{"id": 3}, {"id": 4}], (1,)))
    changed = [{**row, "name": "new"} for row in numbered(5)]
    maker.commit(maker.equal([{"id": 5}], (1,)), maker.data(changed))

    result = repo.import_(f"iceberg:{maker.location}", history=True)

    assert [len(rows(repo, "roads", f"HEAD~{n}")) for n in (2, 1, 0)] == [40, 38, 38]
    assert changes(repo, "HEAD~2...HEAD~1") == (0, 0, 2)
    assert changes(repo, "HEAD~1...HEAD") == (0, 1, 0)
    messages = [each.message for each in repo.log()]
    assert len(messages) == 3 and all("Iceberg-Snapshot: " in text for text in messages)
    counts = result.datasets["roads"]
    assert (counts.inserts, counts.updates, counts.deletes) == (40, 1, 2)


def test_a_later_snapshot_is_compared_with_the_dataset(
    repo: CheckedRepo, maker: TableMaker
) -> None:
    repo.import_(f"iceberg:{maker.location}")
    maker.commit(maker.data(numbered(50)))

    result = repo.import_(f"iceberg:{maker.location}", replace=True)

    counts = result.datasets["roads"]
    assert (counts.inserts, counts.updates, counts.deletes) == (1, 0, 0)


def test_a_file_has_no_history(repo: CheckedRepo, tmp_path: Path) -> None:
    with refuses(repo.repo, InvalidArgumentError, hint=True):
        repo.repo.import_(tmp_path / "a.parquet", history=True)


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("flavour", list(Flavour))
@pytest.mark.few(1)
def test_rasters_of_every_flavour(
    repo: CheckedRepo, tmp_path: Path, flavour: Flavour, link: bool
) -> None:
    repo.import_(write(tmp_path / "in", tiles(20, r2=outside())), options=BY_ID)
    wanted = CheckoutToRequest(tmp_path / "given", dataset="tiles", flavour=flavour, copy=True)
    check_out_to(repo.repo.opened, wanted)

    repo.import_(f"iceberg:{tmp_path / 'given'}", "again", link=link)

    assert rows(repo, "again") == rows(repo, "tiles")
    again, tiles_ = repo.dataset("again"), repo.dataset("tiles")
    assert again.schema == tiles_.schema
    assert again.snapshot.digests == tiles_.snapshot.digests
    assert [e.bounds for e in again.data_entries] == [e.bounds for e in tiles_.data_entries]
    assert not list(repo.fsck(full=True))


@pytest.mark.few(1)
@pytest.mark.parametrize("link", [False, True])
def test_rasters_that_say_nothing_of_their_parts(
    repo: CheckedRepo, tmp_path: Path, link: bool
) -> None:
    repo.import_(write(tmp_path / "in", tiles(20)), options=BY_ID)
    wanted = CheckoutToRequest(
        tmp_path / "given", dataset="tiles", flavour=Flavour.HAVASU, copy=True
    )
    check_out_to(repo.repo.opened, wanted)
    file = read_table(tmp_path / "given").metadata_file
    document = json.loads(file.read_text())
    document["properties"] = {}
    for schema in document["schemas"]:
        for field in schema["fields"]:
            field.pop("havasu-vc.raster-ids", None)
    file.write_text(json.dumps(document))

    repo.import_(f"iceberg:{tmp_path / 'given'}", "again", link=link)

    assert rows(repo, "again") == rows(repo, "tiles")
    assert not list(repo.fsck(full=True))


@pytest.mark.slow
def test_what_spark_wrote(
    repo: CheckedRepo,
    spark: "SparkSession",
    iceberg: Callable[[Path], str],
    tmp_path: Path,
) -> None:
    catalog = iceberg(tmp_path / "warehouse")

    def sql(text: str) -> list[Any]:
        found: list[Any] = spark.sql(text.format(t=f"{catalog}.db.t")).collect()
        return found

    for version, mode in ((1, "copy-on-write"), (2, "merge-on-read")):
        sql(
            "CREATE TABLE {t} (id BIGINT, name STRING, day DATE) USING iceberg "
            f"PARTITIONED BY (month(day)) TBLPROPERTIES ('format-version'='{version}', "
            f"'write.delete.mode'='{mode}', 'write.update.mode'='{mode}')"
        )
        sql("INSERT INTO {t} SELECT id, concat('n', id), DATE'2024-01-20' + CAST(id AS INT) "
            "FROM range(60)")  # fmt: skip
        sql("DELETE FROM {t} WHERE id % 10 = 3")
        sql("UPDATE {t} SET name = 'x' WHERE id = 7")
        options = SourceOptions(primary_key=("id",))
        place = tmp_path / "warehouse" / "db" / "t"

        repo.import_(f"iceberg:{place}", f"v{version}", options=options, history=True)

        wanted = [row.asDict() for row in sql("SELECT * FROM {t} ORDER BY id")]
        assert rows(repo, f"v{version}") == wanted
        assert changes(repo, "HEAD~2...HEAD~1") == (0, 0, 6)
        assert changes(repo, "HEAD~1...HEAD") == (0, 1, 0)
        sql("DROP TABLE {t} PURGE")
