"""Cases: what a user of Spark waits for, against Spark's own reader on the same files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.cases import Figure, case, counted
from tests.bench.comparing import two_versions
from tests.bench.scratch import Scratch, Variant


@case("spark-read")
def spark_read(scratch: Scratch) -> Iterator[Figure]:
    """Scanning all columns, and a sum of one where a thousand rows were edited."""
    variant = Variant("points", scratch.sizes.largest)
    clean = _job(scratch, "reads", scratch.repository(variant))
    yield _against(f"Spark scan, {counted(variant.rows)}", clean, "scan", 1.1)
    edited = _job(scratch, "reads", scratch.edited_repository(variant))
    name = f"Spark sum with {edited['deleted']:,} deletes, {counted(variant.rows)}"
    yield _against(name, edited, "sum", 1.6)


@case("spark-window")
def spark_window(scratch: Scratch) -> Iterator[Figure]:
    """A window of one per cent of a table in Hilbert order."""
    variant = Variant("points", scratch.sizes.large, "hilbert")
    found = _job(scratch, "window", scratch.repository(variant))
    name = f"Spark window of 1 %, {counted(variant.rows)}, Hilbert order"
    of_part, of_whole = found["bytes"]
    share = 100 * of_part / of_whole
    note = f"{of_part / 1e6:.1f} of {of_whole / 1e6:.0f} MB, {found['rows']:,} rows"
    yield Figure(f"{name}, bytes read", share, "%", 5.0, note)
    part, whole = found["seconds"]
    note = f"{part:.2f} s, the whole {whole:.2f} s"
    yield Figure(f"{name}, against the whole", part / whole, "x", 0.2, note)


@case("spark-compare")
def spark_compare(scratch: Scratch) -> Iterator[Figure]:
    """Two versions that share no file, in 2 GB of driver and executor memory."""
    variant = Variant("points", scratch.sizes.largest)
    repository = two_versions(scratch, variant)
    found = _job(scratch, "compare", repository, "release..main")
    counts = found["changes"]
    if counts.get("UPDATE_AFTER") != scratch.sizes.edits:
        raise ValueError(f"the changes that were found are {counts}")
    name = f"Spark full compare of two versions, {counted(variant.rows)}, in 2 GB"
    yield Figure(name, found["seconds"], "s", None)
    memory = found["memory"]
    note = ", ".join(f"{what} {size:.0f} MB" for what, size in sorted(memory.items()))
    yield Figure(f"{name}, memory of all processes", sum(memory.values()), "MB", 2000.0, note)
    scratch.remove(repository)


def _against(name: str, found: dict[str, Any], what: str, asked: float) -> Figure:
    ours, plain = found[what]
    note = f"{ours:.2f} s, spark.read.parquet {plain:.2f} s; {found['files']} files"
    return Figure(f"{name}, against spark.read.parquet", ours / plain, "x", asked, note)


def _job(scratch: Scratch, name: str, *arguments: str | Path) -> dict[str, Any]:
    return scratch.python("-m", "tests.bench.spark_jobs", name, *arguments).report
