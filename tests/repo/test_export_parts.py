"""A dataset as a folder of GeoParquet files, as other programs read it."""

import errno
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import geopandas
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from havasu_vc import Repo, Settings
from havasu_vc.errors import CrsError, HavasuError, InvalidArgumentError, StorageError
from havasu_vc.exchange import delta_writer, iceberg_writer, native_tables
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.transfer import exports
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = "parquet-dataset"
CHILD = Path(__file__).with_name("child.py")


@pytest.fixture
def large(tmp_path: Path) -> Repo:
    """A dataset of some files and many row groups, from which rows were deleted."""
    file = write(tmp_path / "points.parquet", points(400))
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    with tiny_thresholds(most_deltas=9):
        repo.import_(file, "points", options=BY_ID)
        repo.write("points", points(3, start=500, name="new"))
        repo.write("points", points(2, start=30, name="again"))
        repo.write("points", pa.table({"id": list(range(100, 160))}), mode="delete")
    return repo


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def beside(folder: Path) -> list[str]:
    return [name for name in names(folder.parent) if name.startswith(f".{folder.name}.")]


def by_duckdb(folder: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT id, name, number FROM '{folder}/*.parquet' ORDER BY id")
        return found.fetchall()


@pytest.mark.thorough
def test_other_programs_read_the_rows_of_one_file(large: Repo, tmp_path: Path) -> None:
    one, many = tmp_path / "one.parquet", tmp_path / "many"
    large.export("points", one)
    result = large.export("points", many, format=PARTS, part_bytes=1)

    assert result.rows == 343 and result.path == str(many)
    assert len(names(many)) > 10 and beside(many) == []
    table = ds.dataset(many, format="parquet").to_table()
    assert table.replace_schema_metadata() == pq.read_table(one).replace_schema_metadata()
    model = rows(large, "points")
    assert by_duckdb(many) == [(row["id"], row["name"], row["number"]) for row in model]
    assert geopandas.read_parquet(many).equals(geopandas.read_parquet(one))


@pytest.mark.thorough
def test_each_file_says_what_its_geometries_are(large: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    large.export("points", folder, format=PARTS, part_bytes=1)

    for path in folder.iterdir():
        geo = json.loads(pq.read_metadata(path).metadata[b"geo"])
        found = geopandas.read_parquet(path)
        assert geo["columns"]["geom"]["bbox"] == list(found.total_bounds), path
        assert geo["columns"]["geom"]["geometry_types"] == ["Point"]
        # By this schema a reader opens the folder: it says what is true of all its files.
        (common,) = json.loads(pq.read_schema(path).metadata[b"geo"])["columns"].values()
        assert (common["geometry_types"], "bbox" in common) == ([], False)


@pytest.mark.thorough
def test_files_are_of_about_a_size(large: Repo, tmp_path: Path) -> None:
    large.export("points", tmp_path / "whole", format=PARTS)
    half = large.dataset("points").size // 2
    large.export("points", tmp_path / "halves", format=PARTS, part_bytes=half)

    assert names(tmp_path / "whole") == ["part-00000.parquet"]
    assert len(names(tmp_path / "halves")) in (2, 3)
    assert by_duckdb(tmp_path / "halves") == by_duckdb(tmp_path / "whole")


@pytest.mark.thorough
def test_what_a_file_can_be_asked_for_parts_can(large: Repo, tmp_path: Path) -> None:
    asked: dict[str, dict[str, Any]] = {
        "columns": {"columns": ["name", "id"]},
        "none": {"drop_geometry": True},
        "then": {"revision": "HEAD~3"},
    }
    for name, options in asked.items():
        large.export("points", tmp_path / f"{name}.parquet", **options)
        large.export("points", tmp_path / name, format=PARTS, part_bytes=1, **options)
        one = pq.read_table(tmp_path / f"{name}.parquet").replace_schema_metadata()
        many = ds.dataset(tmp_path / name, format="parquet").to_table()
        assert many.replace_schema_metadata() == one, name


@pytest.mark.thorough
def test_it_comes_in_again(large: Repo, tmp_path: Path) -> None:
    large.export("points", tmp_path / "many", format=PARTS, part_bytes=1)
    large.import_(tmp_path / "many", "again", options=BY_ID)

    assert rows(large, "again") == rows(large, "points")


@pytest.mark.parametrize("kart", [False, True])
def test_without_rows_there_is_a_file_with_columns(tmp_path: Path, kart: bool) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL, kart=kart)
    repo.import_(write(tmp_path / "points.parquet", points(3)), options=BY_ID)
    repo.write("points", pa.table({"id": [0, 1, 2]}), mode="delete")
    repo.export("points", tmp_path / "none", format=PARTS)

    table = ds.dataset(tmp_path / "none", format="parquet").to_table()
    assert (table.num_rows, table.schema.names) == (0, ["id", "geom", "name", "number"])


@pytest.mark.thorough
def test_a_part_without_rows_has_no_file(large: Repo, tmp_path: Path) -> None:
    first = rows(large, "points")[:30]
    large.write("points", pa.table({"id": [row["id"] for row in first]}), mode="delete")
    large.export("points", tmp_path / "many", format=PARTS, part_bytes=1)

    assert "part-00000.parquet" not in names(tmp_path / "many")
    assert len(by_duckdb(tmp_path / "many")) == 313
    assert all(pq.read_metadata(path).num_rows for path in (tmp_path / "many").iterdir())


def test_rows_that_git_keeps(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL, kart=True)
    repo.import_(write(tmp_path / "points.parquet", points(700)), options=BY_ID)
    repo.export("points", tmp_path / "one.parquet")
    repo.export("points", tmp_path / "many", format=PARTS, part_bytes=1)

    assert len(names(tmp_path / "many")) > 3
    assert by_duckdb(tmp_path / "many") == by_duckdb_file(tmp_path / "one.parquet")


def by_duckdb_file(file: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.sql(f"SELECT id, name, number FROM '{file}' ORDER BY id").fetchall()


def test_a_column_that_has_outgrown_its_type(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    table = pa.table({"id": range(200), "n": pa.array([1] * 200, pa.int8())})
    with tiny_thresholds(most_deltas=9):
        repo.import_(write(tmp_path / "t.parquet", table), "t", options=BY_ID)
        repo.write("t", pa.table({"id": [199], "n": [1000]}))
    result = repo.export("t", tmp_path / "many", format=PARTS, part_bytes=1)

    assert any("outgrown" in note for note in result.notes)
    found = ds.dataset(tmp_path / "many", format="parquet").to_table()
    assert sorted(found["n"].to_pylist()) == [1] * 199 + [1000]


@pytest.mark.few(1)
@pytest.mark.parametrize("swaps", [True, False])
def test_a_folder_that_is_there_stays_unless_told(
    large: Repo, tmp_path: Path, swaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system can, the new one takes its place at once."""
    if not swaps:
        monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: None)
    folder = tmp_path / "many"
    large.export("points", folder, format=PARTS, part_bytes=1, revision="HEAD~3")
    before = by_duckdb(folder)
    with pytest.raises(InvalidArgumentError, match="is there already") as caught:
        large.export("points", folder, format=PARTS)
    assert "--overwrite" in caught.value.hints[0] and by_duckdb(folder) == before

    (folder / "_SUCCESS").touch()
    large.export("points", folder, format=PARTS, overwrite=True)
    assert names(folder) == ["part-00000.parquet"] and beside(folder) == []
    assert len(by_duckdb(folder)) == 343


@pytest.mark.parametrize("what", ["notes.txt", "_delta_log/0.json", "more/part-00000.parquet"])
def test_what_is_something_else_is_never_replaced(large: Repo, tmp_path: Path, what: str) -> None:
    (tmp_path / "mine" / what).parent.mkdir(parents=True)
    (tmp_path / "mine" / what).touch()

    with pytest.raises(InvalidArgumentError, match="something else"):
        large.export("points", tmp_path / "mine", format=PARTS, overwrite=True)

    assert (tmp_path / "mine" / what).exists()


def test_an_empty_folder_is_filled(large: Repo, tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    large.export("points", tmp_path / "many", format=PARTS)
    assert len(by_duckdb(tmp_path / "many")) == 343


def test_what_cannot_be_done_leaves_nothing(large: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    with pytest.raises(CrsError):
        large.export("points", folder, format=PARTS, crs="EPSG:99999")
    with pytest.raises(InvalidArgumentError, match="parts of a size"):
        large.export("points", tmp_path / "one.parquet", part_bytes=1)
    with pytest.raises(StorageError):
        large.export("points", tmp_path / "no" / "many", format=PARTS)
    assert not folder.exists() and beside(folder) == []


def test_a_part_that_cannot_be_written_leaves_nothing(large: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    stored = (file for file in (large.git.data_folder / "objects").rglob("*") if file.is_file())
    victim = max(stored, key=lambda file: file.stat().st_size)
    os.chmod(victim, 0o644)
    os.truncate(victim, victim.stat().st_size // 2)
    with pytest.raises(HavasuError):
        large.export("points", folder, format=PARTS, part_bytes=1)
    assert not folder.exists() and beside(folder) == []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("place", "call"), [("os:replace", 3), ("os:fsync", 5), ("os:rename", 1), ("shutil:rmtree", 1)]
)
def test_a_process_that_dies_leaves_all_of_one_version(
    large: Repo, tmp_path: Path, place: str, call: int
) -> None:
    folder = tmp_path / "many"
    large.export("points", folder, format=PARTS, part_bytes=1, revision="HEAD~3")
    old = by_duckdb(folder)
    dying = subprocess.run(
        [sys.executable, str(CHILD), str(large.path), f"export:points:{folder}", place, str(call)],
        check=False,
    )

    assert dying.returncode == 9
    assert by_duckdb(folder) in (old, by_duckdb_after(large, tmp_path))
    large.export("points", folder, format=PARTS, overwrite=True)
    assert len(by_duckdb(folder)) == 343


def by_duckdb_after(repo: Repo, folder: Path) -> list[tuple[Any, ...]]:
    repo.export("points", folder / "after.parquet", overwrite=True)
    return by_duckdb_file(folder / "after.parquet")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables be written by many tasks."""
    monkeypatch.setattr(exports, "PART_BYTES", 1)


def by_deltalake(folder: Path) -> list[dict[str, Any]]:
    found = DeltaTable(str(folder)).to_pyarrow_table(columns=["id", "name", "number"])
    return sorted(found.to_pylist(), key=itemgetter("id"))


def by_pyiceberg(folder: Path) -> list[dict[str, Any]]:
    newest = max((folder / "metadata").glob("*.metadata.json"), key=lambda path: path.name)
    table = StaticTable.from_metadata(str(newest))
    found = table.scan(selected_fields=("id", "name", "number")).to_arrow()
    return sorted(found.to_pylist(), key=itemgetter("id"))


TABLES: dict[str, tuple[Callable[[Path], list[dict[str, Any]]], dict[str, Any], str]] = {
    "delta": (by_deltalake, {"plain": True}, "*.parquet"),
    "iceberg-v3": (by_pyiceberg, {"columns": ["id", "name", "number"]}, "data/*.parquet"),
}


@pytest.mark.few(1)
@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("format", TABLES)
def test_tables_are_written_side_by_side(large: Repo, tmp_path: Path, format: str) -> None:
    read, options, files = TABLES[format]
    for revision in ("HEAD~3", "HEAD"):
        result = large.export(
            "points", tmp_path / "t", format=format, revision=revision, overwrite=True, **options
        )
        model = rows(large, "points", revision)
        assert result.rows == len(model)
        assert read(tmp_path / "t") == [
            {name: row[name] for name in ("id", "name", "number")} for row in model
        ]
    assert len(list((tmp_path / "t").glob(files))) > 20


@pytest.mark.few(1)
@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("format", TABLES)
def test_a_table_that_cannot_be_written_keeps_its_files(
    large: Repo, tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, options, files = TABLES[format]
    large.export("points", tmp_path / "t", format=format, **options)
    before = sorted((tmp_path / "t").glob(files)), read(tmp_path / "t")
    real, calls = native_tables.write_data_file, itertools.count()

    def failing(*arguments: Any) -> Any:
        if next(calls) == 9:
            raise OSError(errno.ENOSPC, "full")
        return real(*arguments)

    module = delta_writer if format == "delta" else iceberg_writer
    monkeypatch.setattr(module, "write_data_file", failing)
    with pytest.raises(StorageError, match="the disk is full"):
        large.export("points", tmp_path / "t", format=format, overwrite=True, **options)

    assert (sorted((tmp_path / "t").glob(files)), read(tmp_path / "t")) == before


@pytest.mark.spark
def test_executors_write_the_same_files(
    large: Repo, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large.export("points", tmp_path / "here", format=PARTS, part_bytes=1)
    there = Repo.open(large.path, settings=Settings(engine="spark"))
    result = there.export("points", tmp_path / "there", format=PARTS, part_bytes=1)

    assert result.rows == 343 and beside(tmp_path / "there") == []
    assert names(tmp_path / "there") == names(tmp_path / "here")
    for name in names(tmp_path / "here"):
        both = [tmp_path.joinpath(place, name).read_bytes() for place in ("here", "there")]
        assert both[0] == both[1], name
    frame = spark.read.parquet(str(tmp_path / "there"))
    model = rows(large, "points")
    assert [row["id"] for row in frame.orderBy("id").collect()] == [row["id"] for row in model]
    assert frame.where("name like 'again%'").count() == 2

    outgrown = pa.table({"id": range(9), "n": pa.array([1] * 9, pa.int8())})
    there.import_(
        write(tmp_path / "t.parquet", outgrown), "t", options=SourceOptions(primary_key=("id",))
    )
    there.write("t", pa.table({"id": [8], "n": [1000]}))
    noted = there.export("t", tmp_path / "t", format=PARTS)
    assert any("outgrown" in note for note in noted.notes)

    monkeypatch.setattr(exports, "PART_BYTES", 1)
    for format, (read, options, _) in TABLES.items():
        there.export("points", tmp_path / format, format=format, **options)
        assert [row["id"] for row in read(tmp_path / format)] == [row["id"] for row in model]
