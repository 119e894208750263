"""Cases: SQL without Spark, as a command and against DuckDB on the same files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.process import Run, alternated, repeated
from tests.bench.scratch import Scratch, Variant

FEW = "SELECT * FROM \"table\" WHERE kind = 'road' AND height > 150 LIMIT 1"
SPATIAL = {
    "ST_X by group": "SELECT kind, avg(ST_X(geom)) FROM {} GROUP BY kind",
    "ST_Within a box": "SELECT count(*) FROM {} WHERE ST_Within(geom, "
    "ST_MakeEnvelope(1500000, 5300000, 1520000, 5320000))",
}
"""Queries for DuckDB's spatial extension, which are asked where it is installed as a package."""
GROUPED = "SELECT kind, count(*), avg(height), max(fid) FROM {} GROUP BY kind"


@case("sql")
def sql(scratch: Scratch) -> Iterator[Figure]:
    """The first row of a filter, with the start of the program; an aggregate, without."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.largest)
    repository = scratch.repository(variant)
    rows = counted(variant.rows)
    first = repeated(lambda _: scratch.havasu("-C", repository, "sql", FEW), sizes.runs)
    name = f"first row of a filter of {rows} rows, havasu-vc sql"
    yield Figure(name, first.wall, "s", 0.6, f"{first.cpu:.2f} s CPU")
    ours, plain = alternated(
        lambda _: scratch.job("ask", repository, GROUPED.format('"table"')),
        lambda _: scratch.job("ask_duckdb", repository, GROUPED),
        sizes.runs,
    )
    seconds, files = (float(each.report["seconds"]) for each in (ours, plain))
    note = f"{seconds:.2f} s CPU, DuckDB on the data files {files:.2f}"
    name = f"an aggregate of {rows} rows against DuckDB alone"
    yield Figure(name, seconds / files, "x", 1.3, note)
    if find_spec("duckdb_extension_spatial") is None:
        return
    for name, query in SPATIAL.items():
        ours, plain = alternated(
            partial(_asked, scratch, "ask", repository, query.format('"table"')),
            partial(_asked, scratch, "ask_duckdb", repository, query),
            sizes.runs,
        )
        seconds, files = (float(each.report["seconds"]) for each in (ours, plain))
        note = f"{seconds:.2f} s CPU, DuckDB and its extension on the data files {files:.2f}"
        yield Figure(
            f"{name} of {rows} rows against DuckDB alone", seconds / files, "x", None, note
        )


def _asked(scratch: Scratch, job: str, repository: Path, query: str, _: int) -> Run:
    return scratch.job(job, repository, query)
