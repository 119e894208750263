"""Other engines read what is served as it is: Polars, Daft, DuckDB and Spark, rows compared."""

import json
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from havasu_vc import Repo
from tests.serving.server import catalog
from tests.serving.test_reading import expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFS = ("main", "feature/x", "v1")


@pytest.mark.thorough
@pytest.mark.parametrize("ref", REFS)
def test_polars(repo: Repo, url: str, ref: str) -> None:
    polars = pytest.importorskip("polars")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = catalog(url, ref).load_table("tables.points")
        found = polars.scan_iceberg(table).sort("id").collect()
        count = polars.scan_iceberg(table).filter(polars.col("id") < 10).collect().height
    rows = expected(repo, "points", ref)
    assert found.to_dicts() == rows
    assert count == len([row for row in rows if row["id"] < 10])


_DAFT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import daft
from pyiceberg.catalog import load_catalog
catalog = load_catalog("served", type="rest", uri=sys.argv[1], warehouse="main")
found = daft.read_iceberg(catalog.load_table("tables.points")).sort("id").to_pydict()
rows = [dict(zip(found, row)) for row in zip(*found.values())]
print(json.dumps(rows, default=lambda value: value.hex()))
"""


@pytest.mark.thorough
def test_daft(repo: Repo, url: str, engines: Path) -> None:
    done = subprocess.run([engines, "-c", _DAFT, url], stdout=-1, check=True, text=True)
    rows = [{**row, "geom": row["geom"] and row["geom"].hex()} for row in expected(repo, "points")]
    assert json.loads(done.stdout) == rows


_DUCKDB = """
import glob, json, os, sys
import duckdb, duckdb_extension_avro, duckdb_extension_httpfs, duckdb_extension_iceberg
database = duckdb.connect()
database.execute("SET enable_progress_bar = false")  # it is written where answers are
for each in (duckdb_extension_httpfs, duckdb_extension_avro, duckdb_extension_iceberg):
    folder = os.path.dirname(each.__file__)
    (path,) = glob.glob(folder + "/**/*.duckdb_extension", recursive=True)
    database.execute(f"LOAD '{path}'")
answers = []
for query in json.load(sys.stdin):
    try:
        answers.append([list(row) for row in database.execute(query).fetchall()])
    except duckdb.Error as error:
        answers.append(str(error))
print(json.dumps(answers, default=lambda value: value.hex()))
"""


@pytest.fixture(scope="module")
def duckdb(engines: Path) -> Callable[[list[str]], list[Any]]:
    """Run queries in one session of DuckDB; an error is its text."""

    def run(queries: list[str]) -> list[Any]:
        found = subprocess.run(
            [engines, "-c", _DUCKDB], input=json.dumps(queries), stdout=-1, check=True, text=True
        )
        # Where a statement takes long, DuckDB draws how far it is before.
        return list(json.loads(found.stdout.splitlines()[-1]))

    return run


def attach(url: str, ref: str, more: str = "") -> str:
    kind = f"TYPE iceberg, ENDPOINT '{url}', AUTHORIZATION_TYPE 'none'{more}"
    return f"ATTACH '{ref}' AS served ({kind})"


@pytest.mark.few(1)
@pytest.mark.parametrize("ref", REFS)
def test_duckdb(repo: Repo, url: str, duckdb: Callable[[list[str]], list[Any]], ref: str) -> None:
    queries = [
        attach(url, ref),
        "SELECT id, name, geom FROM served.tables.points ORDER BY id",
        "SELECT typeof(geom) FROM served.tables.points LIMIT 1",
        'SELECT count(*) FROM served."a.b".deep',
        'SELECT count(*) FROM served.tables."points@v1"',
        "SHOW ALL TABLES",
    ]
    _, rows, kind, deep, at_v1, tables = duckdb(queries)
    wanted = [[row["id"], row["name"], (row["geom"] or b"").hex() or None]
              for row in expected(repo, "points", ref)]  # fmt: skip
    assert rows == wanted
    assert kind[0][0].startswith("GEOMETRY")
    assert (deep, at_v1) == ([[2000]], [[2000]])
    assert {(each[1], each[2]) for each in tables} >= {("tables", "points"), ("a.b", "deep")}


@pytest.mark.thorough
def test_duckdb_joins_refs(url: str, duckdb: Callable[[list[str]], list[Any]]) -> None:
    query = 'SELECT count(*) FROM served.main.points JOIN served."feature/x".points f USING (id)'
    assert duckdb([attach(url, "*", ", DEFAULT_SCHEMA 'main'"), query])[1] == [[1998]]


def served_to(session: "SparkSession", url: str, warehouse: str, name: str) -> str:
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": url,
        ".warehouse": warehouse,
        ".cache-enabled": "false",
    }
    for key, value in settings.items():
        session.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return name


@pytest.mark.spark
def test_spark(repo: Repo, url: str, spark: "SparkSession", iceberg: Callable[[Path], str]) -> None:
    for number, ref in enumerate(REFS):
        name = served_to(spark, url, ref, f"served{number}")
        found = spark.table(f"{name}.tables.points").orderBy("id").collect()
        rows = [{**row.asDict(), "geom": row["geom"] and bytes(row["geom"])} for row in found]
        assert rows == expected(repo, "points", ref)
        assert spark.table(f"{name}.a.b.deep").count() == 2000
    everywhere = served_to(spark, url, "*", "everywhere")
    joined = spark.sql(
        f"SELECT count(*) FROM {everywhere}.main.points JOIN "
        f"{everywhere}.`feature/x`.points f USING (id)"
    )
    assert joined.collect()[0][0] == 1998


@pytest.mark.spark
def test_sparks_time_travel_is_gits(
    repo: Repo, url: str, spark: "SparkSession", iceberg: Callable[[Path], str]
) -> None:
    table = f"{served_to(spark, url, 'main', 'travelled')}.tables.points"
    snapshots = spark.sql(f"SELECT snapshot_id, summary FROM {table}.snapshots").collect()
    assert len(snapshots) == 3
    for snapshot_id, summary in snapshots:
        found = spark.sql(f"SELECT id, name FROM {table} VERSION AS OF {snapshot_id} ORDER BY id")
        rows = expected(repo, "points", summary["havasu-vc.commit"])
        assert [tuple(each) for each in found.collect()] == [(r["id"], r["name"]) for r in rows]
    added = spark.sql(f"SELECT count(*) FROM {table}.entries WHERE status = 1").collect()
    assert added[0][0] == 1  # the delete file of the newest commit
