"""Datasets as tables of Iceberg 3, read by ourselves, by PyIceberg's model and by Spark."""

import json
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.iceberg_writer import write_iceberg_3
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.formats.iceberg.manifests import parse_manifest
from havasu_vc.formats.iceberg.metadata import parse_corner
from havasu_vc.formats.iceberg.values import Status
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.tables.snapshots import live_files, manifests_of
from havasu_vc.tables.table import read_table
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import CheckedRepo, refuses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def placed(repo: CheckedRepo, tmp_path: Path) -> CheckedRepo:
    """The dataset `points`, in EPSG:2193."""
    options = SourceOptions(primary_key=("id",), crs="EPSG:2193")
    repo.import_(write(tmp_path / "points.parquet", points(100)), options=options)
    return repo


def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_table(folder).metadata_file.read_text())
    return found


def test_a_table_of_version_3(placed: CheckedRepo, tmp_path: Path) -> None:
    result = placed.export("points", tmp_path / "t", format="iceberg-v3")

    assert result.rows == 100
    said = document(tmp_path / "t")
    assert (said["format-version"], said["next-row-id"]) == (3, 100)
    assert not [key for key in said if key.startswith("havasu")]
    (snapshot,) = said["snapshots"]
    assert (snapshot["first-row-id"], snapshot["added-rows"]) == (0, 100)
    fields = {field["name"]: field for field in said["schemas"][0]["fields"]}
    assert fields["geom"]["type"] == "geometry(EPSG:2193)"
    assert not [key for key in fields["geom"] if key.startswith("havasu")]
    assert said["schemas"][0]["identifier-field-ids"] == [fields["id"]["id"]]


def test_rows_have_ids_and_geometries_bounds(placed: CheckedRepo, tmp_path: Path) -> None:
    placed.export("points", tmp_path / "t", format="iceberg-v3")
    placed.export("points", tmp_path / "t", format="iceberg-v3", overwrite=True)

    table = read_table(tmp_path / "t")
    assert table.metadata.next_row_id == 200
    assert len(table.metadata.schemas) == 1
    lines = manifests_of(table, table.metadata.snapshot)
    assert [line.first_row_id for line in lines] == [100, 200]
    (each,) = live_files(table)
    assert each.file.first_row_id == 100
    number = table.metadata.schema.by_name["geom"].id
    lower, upper = each.file.lower_bounds or {}, each.file.upper_bounds or {}
    assert struct.unpack("<2d", lower[number]) == (-180.0, 0.0)
    assert parse_corner(upper[number]) == (-81.0, 89.0)
    gone = table.metadata.snapshots[next(iter(table.metadata.snapshots))]
    assert [each.file.first_row_id for each in live_files(table, gone.snapshot_id)] == [0]


def test_data_files_have_parquets_own_type(placed: CheckedRepo, tmp_path: Path) -> None:
    placed.export("points", tmp_path / "t", format="iceberg-v3")

    (path,) = (tmp_path / "t" / "data").iterdir()
    metadata = pq.read_metadata(path)
    column = metadata.schema.column(1)
    assert str(column.logical_type).startswith("Geometry(crs=")
    statistics = metadata.row_group(0).column(1).geo_statistics
    assert (statistics.xmin, statistics.ymax) == (-180.0, 89.0)
    ids = [field.metadata[b"PARQUET:field_id"] for field in pq.read_schema(path)]
    assert ids == [str(f.id).encode() for f in placed.dataset("points").schema.fields]


def test_it_comes_in_again(placed: CheckedRepo, tmp_path: Path) -> None:
    placed.export("points", tmp_path / "t", format="iceberg-v3")

    placed.import_(f"iceberg:{tmp_path / 't'}", "again")
    placed.import_(f"iceberg:{tmp_path / 't'}", "linked", link=True)

    for name in ("again", "linked"):
        assert rows(placed, name)[0]["id"] == 0 and len(rows(placed, name)) == 100
        field = placed.dataset(name).schema.geometries[0]
        assert field.geometry is not None and field.geometry.crs == "EPSG:2193"
    assert rows(placed, "again") == rows(placed, "points")


def test_any_revision_and_columns_and_an_empty_table(placed: CheckedRepo, tmp_path: Path) -> None:
    placed.import_(write(tmp_path / "less.parquet", points(0)), "points", replace=True)

    assert placed.export("points", tmp_path / "none", format="iceberg-v3").rows == 0
    placed.export(
        "points", tmp_path / "t", format="iceberg-v3", revision="HEAD^", columns=["id", "name"]
    )

    placed.import_(f"iceberg:{tmp_path / 't'}", "again")
    assert placed.dataset("again").schema.names == ("id", "name")
    placed.import_(f"iceberg:{tmp_path / 'none'}", "none")
    assert rows(placed, "none") == []


def test_what_is_in_the_way(placed: CheckedRepo, tmp_path: Path) -> None:
    placed.export("points", tmp_path / "two", format="iceberg")
    placed.export("points", tmp_path / "t", format="iceberg-v3")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").touch()
    before = sorted(path.name for path in tmp_path.rglob("*"))

    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("two", {"overwrite": True}),
        ("t", {}),
        ("other", {"overwrite": True}),
    )
    for folder, options in ways:
        with refuses(placed.repo, InvalidArgumentError, hint=True):
            placed.repo.export("points", tmp_path / folder, format="iceberg-v3", **options)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_types_that_a_table_cannot_become(placed: CheckedRepo, tmp_path: Path) -> None:
    placed.export("points", tmp_path / "t", format="iceberg-v3")
    options = SourceOptions(primary_key=("id",), crs="EPSG:4326")
    placed.import_(tmp_path / "points.parquet", "others", options=options)

    with refuses(placed.repo, InvalidArgumentError, match="would be geometry", hint=True):
        placed.repo.export("others", tmp_path / "t", format="iceberg-v3", overwrite=True)
    assert len(list((tmp_path / "t" / "data").iterdir())) == 1


def test_pyiceberg_takes_the_metadata(filled: CheckedRepo, tmp_path: Path) -> None:
    parser = pytest.importorskip("pyiceberg.table.metadata").TableMetadataUtil
    options = SourceOptions(primary_key=("id",), crs="OGC:CRS84")
    filled.import_(tmp_path / "points.parquet", "globe", options=options)
    filled.export("globe", tmp_path / "t", format="iceberg-v3")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = parser.parse_raw(read_table(tmp_path / "t").metadata_file.read_text())

    assert found.format_version == 3
    assert found.next_row_id == 100
    assert [str(field.field_type) for field in found.schema().fields][1] == "geometry"


@pytest.mark.slow
def test_spark_reads_and_writes_on(
    repo: CheckedRepo, spark: "SparkSession", iceberg: Callable[[Path], str], tmp_path: Path
) -> None:
    table = points(100).drop_columns(["geom"])
    repo.import_(write(tmp_path / "plain.parquet", table), options=BY_ID)
    catalog = iceberg(tmp_path / "warehouse")
    place = tmp_path / "warehouse" / "db" / "plain"
    place.parent.mkdir(parents=True)
    repo.export("plain", place, format="iceberg-v3")

    def sql(text: str) -> list[Any]:
        found: list[Any] = spark.sql(text.format(t=f"{catalog}.db.plain")).collect()
        return found

    assert sorted(row.id for row in sql("SELECT id FROM {t}")) == list(range(100))
    assert sorted(row[0] for row in sql("SELECT _row_id FROM {t}")) == list(range(100))
    sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read',"
        "'write.update.mode'='merge-on-read')")  # fmt: skip
    sql("DELETE FROM {t} WHERE id % 10 = 3")
    sql("UPDATE {t} SET name = 'x' WHERE id = 7")
    assert [each for each in live_files(read_table(place)) if each.file.is_vector]

    repo.import_(f"iceberg:{place}", "back", history=True)
    repo.import_(f"iceberg:{place}", "linked", link=True)

    wanted = [row.asDict() for row in sql("SELECT * FROM {t} ORDER BY id")]
    assert rows(repo, "back") == wanted
    assert rows(repo, "linked") == wanted
    repo.export("plain", place, format="iceberg-v3", overwrite=True)
    assert sql("SELECT count(*) AS n FROM {t}")[0].n == 100


@pytest.mark.slow
def test_spark_reads_native_geometries(
    repo: CheckedRepo, spark: "SparkSession", iceberg: Callable[[Path], str], tmp_path: Path
) -> None:
    options = SourceOptions(primary_key=("id",), crs="OGC:CRS84")
    repo.import_(write(tmp_path / "points.parquet", points(20)), options=options)
    catalog = iceberg(tmp_path / "warehouse")
    place = tmp_path / "warehouse" / "db" / "points"
    place.parent.mkdir(parents=True)
    repo.export("points", place, format="iceberg-v3")
    spark.conf.set("spark.sql.geospatial.enabled", "true")
    try:
        found = spark.sql(
            f"SELECT id, ST_AsBinary(geom) AS g FROM {catalog}.db.points ORDER BY id"
        ).collect()
    finally:
        spark.conf.unset("spark.sql.geospatial.enabled")

    plain = points(20)
    assert [bytes(row.g) for row in found] == plain["geom"].to_pylist()
    assert isinstance(plain, pa.Table)


@pytest.mark.rule("ICE-14", "ICE-19")
def test_ice_19_who_loses_the_race_writes_only_the_list_again(
    placed: CheckedRepo, tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    placed.export("points", folder, format="iceberg-v3")
    header = placed.dataset("points").header

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from placed.table("points").to_batches()
        placed.export("points", folder, format="iceberg-v3", overwrite=True)

    write_iceberg_3(folder, header, overtaken(), overwrite=True)

    table = read_table(folder)
    assert [each.sequence_number for each in table.metadata.snapshots.values()] == [1, 2, 3]
    assert table.metadata.next_row_id == 300
    (mine,) = live_files(table)
    assert mine.file.first_row_id == 200
    naming = []
    for path in (folder / "metadata").glob("*-m.avro"):
        entries = parse_manifest(path.read_bytes(), str(path)).entries
        if any(e.file.path == mine.file.path and e.status is Status.ADDED for e in entries):
            naming.append(str(path))
    assert naming == [manifests_of(table, table.metadata.snapshot)[0].path]
    lists = list((folder / "metadata").glob(f"snap-*{table.metadata.current_snapshot_id}-*"))
    assert len(lists) == 1


@pytest.mark.rule("ICE-25")
def test_ice_25_no_file_is_ever_written_into_again(placed: CheckedRepo, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    placed.export("points", folder, format="iceberg-v3")
    before = {path: path.stat().st_ino for path in folder.rglob("*") if path.is_file()}

    placed.export("points", folder, format="iceberg-v3", overwrite=True)

    after = {path: path.stat().st_ino for path in folder.rglob("*") if path.is_file()}
    changed = [path.name for path, number in before.items() if after.get(path) != number]
    assert changed == ["version-hint.text"]


@pytest.mark.rule("PQ-27")
@pytest.mark.parametrize(("x", "known"), [(10.0, True), (181.0, False)])
def test_pq_27_bounds_of_a_geography_stay_on_the_globe(
    tmp_path: Path, x: float, known: bool
) -> None:
    geometry = Geometry(Encoding.WKB, "OGC:CRS84")
    column = Field(1, "geom", Primitive.BINARY, geometry=geometry, extra=(("edges", "karney"),))
    wkb = bytes(shapely.to_wkb(shapely.Point(x, 5)))
    batch = pa.record_batch({"geom": pa.array([wkb])})
    header = DatasetHeader("places", "havasu", Schema((column,)), {})

    write_iceberg_3(tmp_path / "t", header, iter([batch]))

    table = read_table(tmp_path / "t")
    said = json.loads(table.metadata_file.read_text())["schemas"][0]["fields"][0]
    assert said["type"] == "geography(OGC:CRS84, karney)"
    (each,) = live_files(table)
    assert (each.file.lower_bounds or {}) == ({1: struct.pack("<2d", x, 5)} if known else {})
