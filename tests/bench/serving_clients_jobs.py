"""Jobs of the cases of the catalog's clients: what one does through it, and without it.

python -m tests.bench.serving_clients_jobs append REPO FOLDER RUNS
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.dataset import dataset

from tests.bench.process import ROOT
from tests.bench.serving_jobs import server, spent

ENGINES = ROOT / ".engines"
_TABLE = "tables.table"
_FIRST_NEW = 1 << 40
"""A key that no table has yet."""


def append(repo: str, folder: str, runs: str) -> dict[str, Any]:
    """Append one row a commit, through the catalog and to the same rows in a local catalog."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.catalog.sql import SqlCatalog

    Path(folder).mkdir()
    with server(repo, "--write", "main") as (port, process):
        through = load_catalog("served", type="rest", uri=f"http://127.0.0.1:{port}")
        served = through.load_table(_TABLE)
        local = SqlCatalog("local", uri=f"sqlite:///{folder}/catalog", warehouse=folder)
        local.create_namespace("tables")
        rows = served.scan().to_arrow()
        plain = local.create_table(_TABLE, rows.schema)
        plain.append(rows)

        def took(table: Any, number: int) -> tuple[float, float]:
            fid = pa.array([_FIRST_NEW + number], pa.int64())
            others = [pa.nulls(1, field.type) for field in rows.schema if field.name != "fid"]
            names = [name for name in rows.schema.names if name != "fid"]
            row = pa.table([fid, *others], schema=_of_rows(rows.schema, ["fid", *names]))
            begin, wall = time.process_time() + spent(process), time.perf_counter()
            table.append(row)
            cpu = time.process_time() + spent(process) - begin
            return cpu, time.perf_counter() - wall

        # The first of each imports what it needs.
        pairs = [(took(served, number), took(plain, number)) for number in range(int(runs) + 1)]
        count = through.load_table(_TABLE).scan().count()
    assert count == rows.num_rows + len(pairs)
    ours, theirs = zip(*pairs[1:], strict=True)
    walls = [min(wall for _, wall in each) for each in (ours, theirs)]
    least = {"ours": min(ours)[0], "theirs": min(theirs)[0]}
    return {**least, "wall": walls[0], "their_wall": walls[1]}


def _of_rows(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def scan_pyiceberg(repo: str, checkout: str, runs: str) -> dict[str, Any]:
    """Read all rows by PyIceberg, through the catalog and from a checkout of the same files."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.table import StaticTable

    metadata = max(Path(checkout).glob("table/metadata/v*.metadata.json"))
    with server(repo) as (port, process):

        def through() -> Any:
            catalog = load_catalog("served", type="rest", uri=f"http://127.0.0.1:{port}")
            return catalog.load_table(_TABLE)

        def took(find: Callable[[], Any]) -> tuple[float, int]:
            begin = time.process_time() + spent(process)
            rows = sum(batch.num_rows for batch in find().scan().to_arrow_batch_reader())
            return time.process_time() + spent(process) - begin, rows

        def directly() -> Any:
            return StaticTable.from_metadata(str(metadata))

        pairs = [(took(through), took(directly)) for _ in range(int(runs) + 1)]
        files = _files_of(through())
    assert len({rows for pair in pairs for _, rows in pair}) == 1
    return {**_least(pairs[1:]), "other": min(_by_pyarrow(files) for _ in pairs)}


def _files_of(table: Any) -> list[str]:
    tasks = table.scan().plan_files()
    return [task.file.file_path.removeprefix("file://") for task in tasks]


def _by_pyarrow(files: Sequence[str]) -> float:
    """Return what pyarrow takes to read the files as they are, with nothing else."""
    begin = time.process_time()
    for batch in dataset(files, format="parquet").to_batches():
        batch.num_rows  # noqa: B018
    return time.process_time() - begin


def scan_duckdb(repo: str, runs: str) -> dict[str, Any]:
    """Read all columns by DuckDB, through the catalog and from the same data files."""
    from pyiceberg.catalog import load_catalog

    with server(repo) as (port, process):
        url = f"http://127.0.0.1:{port}"
        table = load_catalog("served", type="rest", uri=url).load_table(_TABLE)
        files = _files_of(table)
        command = [str(ENGINES / "bin" / "python"), "-c", _DUCKDB, url, runs, *files]
        before = spent(process)
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        asked = (spent(process) - before) / (int(runs) + 1)
    pairs = json.loads(found.stdout)
    assert len({tuple(answer) for pair in pairs for _, answer in pair}) == 1
    least = _least(pairs[1:])
    return {"ours": least["ours"] + asked, "theirs": least["theirs"]}


_DUCKDB = """
import glob, json, os, sys, time
import duckdb, duckdb_extension_avro, duckdb_extension_httpfs, duckdb_extension_iceberg
def took(source, *before):
    begin = time.process_time()
    with duckdb.connect() as database:
        database.execute("SET threads = 2; SET enable_progress_bar = false")
        for each in (duckdb_extension_httpfs, duckdb_extension_avro, duckdb_extension_iceberg):
            folder = os.path.dirname(each.__file__)
            (path,) = glob.glob(folder + "/**/*.duckdb_extension", recursive=True)
            database.execute(f"LOAD '{path}'")
        for statement in before:
            database.execute(statement)
        columns = "count(*), sum(fid), max(name), max(kind), sum(pop), max(ts), max(note)"
        more = "sum(height) > 0, max(hash(geom))"
        answer = database.execute(f"SELECT {columns}, {more} FROM {source}").fetchone()
    return time.process_time() - begin, [str(each) for each in answer]
url, runs, *files = sys.argv[1:]
attach = f"ATTACH 'main' AS served (TYPE iceberg, ENDPOINT '{url}', AUTHORIZATION_TYPE 'none')"
pairs = [
    (took("served.tables.table", attach), took(f"read_parquet({files})"))
    for _ in range(int(runs) + 1)
]
print(json.dumps(pairs))
"""


def scan_spark(repo: str, checkout: str, runs: str) -> dict[str, Any]:
    """Read all columns by Spark: through the catalog, from the same files, from a checkout."""
    from pyiceberg.catalog import load_catalog

    from havasu_vc.serving import CatalogAddress, spark_settings
    from havasu_vc.spark import session

    spark = session(Path(repo), settings={"spark.driver.memory": "2g"})
    context: Any = spark.sparkContext
    java = context._jvm.java.lang.ProcessHandle.current().pid()

    def took(frame: Any, server: int) -> tuple[float, str]:
        begin = spent(java) + spent(server)
        answer = frame.selectExpr(*_SPARK).first()
        return spent(java) + spent(server) - begin, str(answer)

    with server(repo) as (port, process):
        url = f"http://127.0.0.1:{port}"
        for name, value in spark_settings(CatalogAddress(url), "served").items():
            spark.conf.set(name, value)
        files = _files_of(load_catalog("served", type="rest", uri=url).load_table(_TABLE))
        rounds = [
            (
                took(spark.table(f"served.{_TABLE}"), process),
                took(spark.read.parquet(*files), process),
                took(spark.read.format("iceberg").load(f"{checkout}/table"), process),
            )
            for _ in range(2 * int(runs) + 2)  # the first ones are compiled meanwhile
        ]
    assert len({answer for each in rounds for _, answer in each}) == 1
    other = min(each[2][0] for each in rounds[2:])
    return {**_least([each[:2] for each in rounds[2:]]), "other": other}


_SPARK = (
    "count(*)", "sum(fid)", "max(name)", "max(kind)", "sum(pop)", "max(ts)", "max(note)",
    "sum(height) > 0", "sum(length(geom))",
)  # fmt: skip


def _least(pairs: Sequence[Any]) -> dict[str, Any]:
    """Return the least time of each side; a pair is of times and what was read."""
    return {
        "ours": min(ours[0] for ours, _ in pairs),
        "theirs": min(theirs[0] for _, theirs in pairs),
    }


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    job.__name__: job for job in (append, scan_pyiceberg, scan_duckdb, scan_spark)
}

if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
