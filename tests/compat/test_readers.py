"""Files of ours in the programs of others: pyarrow, DuckDB, GeoPandas."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.exchange.source import SourceOptions
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import CheckedRepo, checked

duckdb = pytest.importorskip("duckdb")
geopandas = pytest.importorskip("geopandas")


@pytest.fixture
def repo(tmp_path: Path) -> CheckedRepo:
    found = checked(tmp_path / "repo")
    file = write(tmp_path / "points.parquet", points(1000))
    found.import_(file, options=BY_ID)
    return found


def data_files(repo: CheckedRepo) -> list[Path]:
    view = repo.dataset("points")
    return [Path(view.file_path(entry)) for entry in view.data_entries]


def test_data_files_are_plain_parquet(repo: CheckedRepo) -> None:
    (file,) = data_files(repo)
    assert pq.read_table(file).to_pylist() == points(1000).to_pylist()
    assert pq.ParquetFile(file).schema_arrow.field("id").metadata[b"PARQUET:field_id"] == b"1"
    found = duckdb.sql(f"select count(*), sum(id), max(name) from read_parquet('{file}')")
    assert found.fetchall() == [(1000, 499_500, "row 999")]
    assert file.stat().st_mode & 0o222 == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", ["parquet", "gpkg", "fgb", "geojson", "shp"])
def test_geopandas_reads_exports(repo: CheckedRepo, tmp_path: Path, suffix: str) -> None:
    repo.write("points", pa.table({"id": [3], "name": ["drei"]}))
    file = tmp_path / f"out.{suffix}"
    repo.export("points", file)
    read = geopandas.read_parquet if suffix == "parquet" else geopandas.read_file
    frame = read(file)
    if suffix == "gpkg":  # where an integer key is the feature id
        frame = read(file, fid_as_index=True).reset_index(names="id")
    frame = frame.sort_values("id")
    assert len(frame) == 1000
    assert frame["name"].tolist()[3] == "drei"
    assert frame.crs.to_epsg() == 4326 or "CRS84" in str(frame.crs)
    assert frame.geometry.to_wkb().tolist()[:5] == [row["geom"] for row in rows(repo, "points")][:5]


def test_duckdb_reads_exports(repo: CheckedRepo, tmp_path: Path) -> None:
    repo.export("points", tmp_path / "out.parquet")
    repo.export("points", tmp_path / "out.csv")
    for name in ("out.parquet", "out.csv"):
        found = duckdb.sql(f"select count(*), sum(number) from '{tmp_path / name}'").fetchall()
        assert found == [(1000, sum(i % 7 for i in range(1000)))]


@pytest.mark.thorough
def test_tables_become_frames_and_relations(repo: CheckedRepo) -> None:
    frame = repo.table("points").to_geopandas()
    assert len(frame) == 1000 and frame.crs is not None
    assert frame.geometry.iloc[5].x == 5 - 180
    assert repo.table("points").to_pandas()["number"].dtype == "int32"
    with duckdb.connect() as connection:
        relation = repo.table("points").to_duckdb(connection)
        assert relation.aggregate("count(*)").fetchall() == [(1000,)]
    assert len(repo.table("points").to_geopandas(["id", "name"])) == 1000
    polars = repo.table("points").to_polars(["id", "number"])
    assert polars.shape == (1000, 2) and polars["number"].sum() == sum(i % 7 for i in range(1000))


def test_a_relation_of_duckdb_reads_what_a_query_wants(repo: CheckedRepo) -> None:
    gone = pa.table({"id": pa.array([3, 4, 900])})
    repo.write("points", gone, mode="delete", message="Three are gone")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE seen (id BIGINT)")
        connection.execute("INSERT INTO seen VALUES (3), (7)")
        relation = repo.table("points").to_duckdb(connection)
        other = repo.table("points", "HEAD^").to_duckdb(connection)

        plan = relation.filter("number = 5").project("name").explain()
        assert "READ_PARQUET" in plan and "number=5" in plan.replace(" ", "")
        assert relation.order("id").to_arrow_table().to_pylist() == rows(repo, "points")
        assert relation.count("*").fetchall() == [(997,)]
        assert other.filter("id < 5").project("id").order("id").fetchall() == [
            (i,) for i in range(5)
        ]
        # As all relations of a connection, it meets the tables that are there.
        found = relation.set_alias("points").join(connection.table("seen"), "id").project("name")
        assert found.fetchall() == [("row 7",)]


def test_geometries_of_a_relation_are_bytes_whatever_files_say(
    repo: CheckedRepo, tmp_path: Path
) -> None:
    wanted = repo.table("points").to_arrow(["geom"]).column("geom")
    with duckdb.connect() as connection:
        for said in ("true", "false"):
            connection.execute(f"SET enable_geoparquet_conversion = {said}")
            found = repo.table("points").to_duckdb(connection).order("id").project("geom")
            assert [str(each) for each in found.types] == ["BLOB"]
            assert found.to_arrow_table().column("geom").to_pylist() == wanted.to_pylist()
        text = repo.table("points").to_duckdb(connection)
        text = text.filter("id = 5").project("ST_AsText(ST_GeomFromWKB(geom))")
        assert text.fetchall() == [("POINT (-175 5)",)]


def test_what_geopandas_wrote_comes_in_and_back(repo: CheckedRepo, tmp_path: Path) -> None:
    frame = repo.table("points").to_geopandas()
    frame.loc[frame["id"] == 7, "name"] = "sieben"
    frame = frame[frame["id"] != 8]
    frame.to_parquet(tmp_path / "edited.parquet", index=False)
    result = repo.commit_from(tmp_path / "edited.parquet", dataset="points")
    counts = result.changes["points"]
    assert (counts.inserts, counts.updates, counts.deletes) == (0, 1, 1)
    frame.to_file(tmp_path / "edited.gpkg", index=False)
    options = SourceOptions(leave_out=("fid",))
    again = repo.import_(tmp_path / "edited.gpkg", "points", replace=True, options=options)
    assert again.datasets["points"].total == 0
