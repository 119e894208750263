"""Cases: SQL without Spark, as a command and against DuckDB on the same files."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.cases import Figure, case, counted
from tests.bench.process import alternated, repeated
from tests.bench.scratch import Scratch, Variant

FEW = "SELECT * FROM \"table\" WHERE kind = 'road' AND height > 150 LIMIT 1"
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
