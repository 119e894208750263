"""PyIceberg, Polars and DuckDB read checkouts as they are; GeoPandas reads the data files."""

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc import Repo, Settings
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.datasets.havasu import writing
from havasu_vc.datasets.havasu.statistics import block_names
from havasu_vc.exchange.source import SourceOptions
from tests.serving.conftest import engines
from tests.serving.test_engines import duckdb as duckdb_session
from tests.support.templates import empty_repo

__all__ = ["duckdb_session", "engines"]

GEO = (
    b'{"version": "1.0.0", "primary_column": "geom", "columns":'
    b' {"geom": {"encoding": "WKB", "geometry_types": ["Point"]}}}'
)
COUNT = 20_000


@pytest.fixture(params=["key", "hilbert"])
def repo(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository whose dataset has a delete file, checked out as it is by default.

    Along a Hilbert curve the data files have four columns more, of blocks' bounds.
    """
    repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
    rows = pa.table(
        {
            "id": pa.array(range(COUNT), pa.int64()),
            "name": [hashlib.sha256(b"%d" % n).hexdigest() for n in range(COUNT)],
            "geom": pa.array(
                shapely.to_wkb(shapely.points([(n / 7, -n / 11) for n in range(COUNT)])),
                pa.binary(),
            ),
        }
    )
    pq.write_table(rows.replace_schema_metadata({"geo": GEO}), tmp_path / "in.parquet")
    options = SourceOptions(primary_key=("id",))
    monkeypatch.setattr(writing, "GROUP_ROWS", 5000)
    repo.import_(tmp_path / "in.parquet", "points", options=options, order=request.param)
    repo.workspace.check_out(CheckoutRequest())
    (file,) = (repo.workspace.root / "points" / "data").iterdir()
    assert (set(pq.read_schema(file).names) > set(block_names(3))) is (request.param == "hilbert")
    changed = pa.table({"id": [5, 6, 19_000, COUNT], "name": ["five", None, "many", "new"]})
    repo.write("points", changed)
    repo.write("points", pa.table({"id": [7, 8, 9]}), mode="delete")
    return repo


def scanned(repo: Repo) -> list[dict[str, Any]]:
    return in_order(repo.table("points").to_arrow())


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.sort_by("id").to_pylist()
    return rows


@pytest.mark.few(1)
def test_pyiceberg_reads_the_table(repo: Repo) -> None:
    static = pytest.importorskip("pyiceberg.table").StaticTable
    folder = repo.workspace.root / "points"
    assert any(path.name.endswith("-deletes.parquet") for path in (folder / "data").iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = static.from_metadata(str(folder))
        found = table.scan().to_arrow()
        some = table.scan(row_filter="id > 18999", selected_fields=("id", "name")).to_arrow()
    assert in_order(found) == scanned(repo)
    assert len(some) == len([row for row in scanned(repo) if row["id"] > 18999])


@pytest.mark.few(1)
def test_polars_reads_the_table(repo: Repo) -> None:
    polars = pytest.importorskip("polars")
    folder = repo.workspace.root / "points"
    version = (folder / "metadata" / "version-hint.text").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = (
            polars.scan_iceberg(f"{folder}/metadata/v{version}.metadata.json").sort("id").collect()
        )
    assert found.to_dicts() == scanned(repo)


@pytest.mark.few(1)
def test_duckdb_reads_the_table(
    repo: Repo, duckdb_session: Callable[[list[str]], list[Any]]
) -> None:
    folder = repo.workspace.root / "points"
    tables = [str(folder), f"{folder}/metadata/duckdb.metadata.json"]
    plain, shown, kind = duckdb_session(
        [
            f"SELECT id, name FROM iceberg_scan('{tables[0]}') ORDER BY id",
            f"SELECT id, name, geom FROM iceberg_scan('{tables[1]}') ORDER BY id",
            f"SELECT DISTINCT typeof(geom) FROM iceberg_scan('{tables[1]}')",
        ]
    )
    rows = scanned(repo)
    assert plain == [[row["id"], row["name"]] for row in rows]
    assert shown == [[row["id"], row["name"], row["geom"] and row["geom"].hex()] for row in rows]
    assert kind[0][0].startswith("GEOMETRY")


@pytest.mark.few(1)
def test_duckdb_reads_the_data_files(repo: Repo) -> None:
    folder = repo.workspace.root / "points" / "data"
    files = [str(path) for path in folder.iterdir() if "deletes" not in path.name]
    with duckdb.connect() as database:
        answer = database.execute(
            "SELECT count(*), min(id), max(id) FROM read_parquet(?)", [files]
        ).fetchone()
    assert answer is not None
    assert answer[1:] == (0, COUNT)


@pytest.mark.few(1)
def test_geopandas_reads_the_data_files(repo: Repo) -> None:
    geopandas = pytest.importorskip("geopandas")
    folder = repo.workspace.root / "points" / "data"
    largest = max(folder.iterdir(), key=lambda path: path.stat().st_size)
    points = geopandas.read_parquet(largest)
    assert len(points) == COUNT
    assert points.active_geometry_name == "geom" and points.crs is None
    assert points.set_index("id").geom[14].equals(shapely.Point(2, -14 / 11))
    assert {len(geopandas.read_parquet(path)) for path in data_files(folder)} == {COUNT, 4}


def data_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if "deletes" not in path.name]
