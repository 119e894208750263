"""Checked-out tables of rasters: Spark with Iceberg's jar reads and edits their pixels."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.formats.iceberg.values import Flavour
from tests.repo.tables import BY_ID
from tests.repo.test_rasters import outside, raster, tiles, write
from tests.support.templates import empty_repo
from tests.workspace.sheets import counts_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Catalog = Callable[[Path], str]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with 20 rasters, of all numbers of bands, one of another file, some null."""
    repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
    repo.import_(write(tmp_path / "in", tiles(20, r2=outside())), options=BY_ID)
    return repo


def root_of(repo: Repo, flavour: Flavour | None = None) -> Path:
    """Check everything out and return where the tables are."""
    return Path(repo.workspace.check_out(CheckoutRequest(flavour)).root)


def scanned(repo: Repo, revision: str = "HEAD") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = repo.table("tiles", revision).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def selected(spark: SparkSession, table: str) -> list[dict[str, Any]]:
    # Spark's own way to Arrow refuses nulls around required parts.
    rows = spark.sql(f"SELECT * FROM {table} ORDER BY id").collect()
    return [plain(row.asDict(recursive=True)) for row in rows]


def plain(value: Any) -> Any:
    """Return a value with bytes as such."""
    match value:
        case bytearray():
            return bytes(value)
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list():
            return [plain(part) for part in value]
        case _:
            return value


def schema_json(root: Path) -> dict[str, Any]:
    """Return the current schema in the metadata of a table."""
    folder = root / "tiles" / "metadata"
    newest = max(folder.glob("v*.metadata.json"), key=lambda p: int(p.name[1:].split(".")[0]))
    value = json.loads(newest.read_text())
    (found,) = [s for s in value["schemas"] if s["schema-id"] == value["current-schema-id"]]
    return {field["name"]: field for field in found["fields"]}


@pytest.mark.rule("HAV-81", "HAV-83")
def test_a_flavour_declares_rasters_as_its_readers_know_them(repo: Repo) -> None:
    root = root_of(repo)
    assert len(schema_json(root)["rast"]["type"]["fields"]) == 10
    root = root_of(repo, Flavour.HAVASU)
    field = schema_json(root)["rast"]
    assert field["type"] == {"type": "struct", "fields": []}
    assert field["havasu.raster-encoding"] == "v1"
    assert field["havasu-vc.raster-ids"] == "4"
    root = root_of(repo, Flavour.ICEBERG)
    assert len(schema_json(root)["rast"]["type"]["fields"]) == 10


def test_pyiceberg_reads_pixels(repo: Repo) -> None:
    static = pytest.importorskip("pyiceberg.table").StaticTable
    repo.write("tiles", pa.table({"id": [3, 50], "name": ["three", "new"]}))
    root = root_of(repo, Flavour.ICEBERG)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = static.from_metadata(str(root / "tiles")).scan().to_arrow()
    rows = found.sort_by("id").to_pylist()
    for row in rows:
        if row["rast"] is not None:
            row["rast"]["bands"] = row["rast"]["bands"] or None  # it makes null lists empty
    assert rows == scanned(repo)


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_spark_reads_and_edits_rasters(
    spark: SparkSession, iceberg: Catalog, repo: Repo, mode: str
) -> None:
    table = f"{iceberg(root_of(repo))}.tiles"
    assert selected(spark, table) == scanned(repo)
    modes = (f"'write.{what}.mode'='{mode}'" for what in ("update", "delete", "merge"))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({', '.join(modes)})")
    expected = {row["id"]: row for row in scanned(repo)}

    spark.sql(f"UPDATE {table} SET name = 'changed' WHERE id IN (1, 2, 4)")
    for number in (1, 2, 4):
        expected[number]["name"] = "changed"
    spark.sql(f"DELETE FROM {table} WHERE id = 6")
    del expected[6]
    spark.sql(f"INSERT INTO {table} SELECT id + 100, rast, name FROM {table} WHERE id < 5")
    for number in range(5):
        expected[number + 100] = {**expected[number], "id": number + 100}
    assert rows_of(repo, "tiles") == sorted(expected.values(), key=lambda row: row["id"])
    counts = counts_of(repo, "tiles")
    assert (counts.inserts, counts.updates, counts.deletes) == (5, 3, 1)
    repo.workspace.commit(message="other columns")
    assert scanned(repo) == sorted(expected.values(), key=lambda row: row["id"])
    assert list(repo.fsck(full=True)) == []

    spark.sql(f"UPDATE {table} SET rast = NULL WHERE id = 3")
    expected[3]["rast"] = None
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM {table} WHERE id IN (5, 8)) s"
        " ON t.id = s.id + 2 WHEN MATCHED THEN UPDATE SET rast = s.rast"
        " WHEN NOT MATCHED THEN INSERT (id, rast, name) VALUES (s.id + 200, s.rast, 'merged')"
    )
    expected[7]["rast"], expected[10]["rast"] = expected[5]["rast"], expected[8]["rast"]
    band = "named_struct('pixel_type', 4, 'no_data', CAST(NULL AS BINARY), 'data', X'0102',"
    band += " 'out_db_band_no', CAST(NULL AS INT), 'out_db_url', CAST(NULL AS STRING))"
    spark.sql(
        f"UPDATE {table} SET rast.band_1 = {band}, rast.width = 2, rast.height = 1,"
        " rast.num_bands = 1 WHERE id = 1"
    )
    changed = dict(expected[1]["rast"])
    changed |= {"width": 2, "height": 1, "num_bands": 1, "band_1": {**changed["band_1"]}}
    changed["band_1"] |= {"no_data": None, "data": b"\x01\x02"}
    expected[1]["rast"] = changed
    assert rows_of(repo, "tiles") == sorted(expected.values(), key=lambda row: row["id"])
    counts = counts_of(repo, "tiles")
    assert (counts.inserts, counts.updates, counts.deletes) == (0, 4, 0)
    repo.workspace.commit(message="rasters")
    assert scanned(repo) == sorted(expected.values(), key=lambda row: row["id"])
    assert selected(spark, table) == scanned(repo)
    assert list(repo.fsck(full=True)) == []
    assert repo.dataset("tiles").schema == repo.dataset("tiles", "HEAD~2").schema


@pytest.mark.spark
def test_a_bad_raster_that_spark_wrote_is_named_and_mended(
    spark: SparkSession, iceberg: Catalog, repo: Repo
) -> None:
    from havasu_vc.errors import GeometryError

    table = f"{iceberg(root_of(repo))}.tiles"
    spark.sql(f"UPDATE {table} SET rast.width = 9 WHERE id = 1")
    with pytest.raises(GeometryError, match="the raster of row 1 cannot be read: band 1 has 6"):
        repo.workspace.commit(message="bad")
    spark.sql(f"UPDATE {table} SET rast.width = 3 WHERE id = 1")
    assert scanned(repo) == rows_of(repo, "tiles")


@pytest.mark.spark
def test_flavour_havasu_leaves_other_columns_to_spark(
    spark: SparkSession, iceberg: Catalog, repo: Repo
) -> None:
    table = f"{iceberg(root_of(repo, Flavour.HAVASU))}.tiles"
    found = spark.sql(f"SELECT count(*), max(name) FROM {table}").collect()
    assert [tuple(row) for row in found] == [(20, "tile 9")]


@pytest.mark.spark
def test_without_a_jar_rasters_are_those_of_the_table(
    spark: SparkSession, iceberg: Catalog, repo: Repo
) -> None:
    from pyspark.sql import functions as F

    from havasu_vc import spark as ours
    from havasu_vc.spark import functions

    repo.write("tiles", pa.table({"id": [3, 50], "name": ["three", "new"]}))
    repo.write("tiles", pa.table({"id": [4]}), mode="delete")
    columns = repo.get_meta("tiles")["schema.json"]
    columns[1]["name"] = "photo"
    repo.set_meta("tiles", {"schema.json": [*columns, {"name": "more", "dataType": "raster"}]})
    table = f"{iceberg(root_of(repo))}.tiles"
    frame = ours.read(spark, repo, "tiles")
    assert frame.orderBy("id").toArrow().to_pylist() == selected(spark, table) == scanned(repo)
    shown = frame.where("id = 12").select(
        functions.RS_Width("photo"),
        functions.RS_NumBands("photo"),
        functions.RS_Value("photo", F.lit("POINT (12 45)"), F.lit(5)),
    )
    assert [tuple(row) for row in shown.collect()] == [(3, 5, 12.0)]
    history = ours.history(spark, repo, "tiles")
    assert history.where("new.photo.width = 3").count() > 0
    far = ours.read(spark, repo, "tiles", intersects=(100, 0, 110, 10), geometry="photo")
    assert far.count() == 0
    near = ours.read(spark, repo, "tiles", intersects=(4.6, 44, 5.4, 45), geometry="photo")
    assert sorted(row.id for row in near.select("id").collect()) == [3, 5]
    assert raster(1)["width"] == 3
