"""Cases: what a commit and a scan take through the catalog, beside the client's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.process import ROOT
from tests.bench.scratch import Scratch, Variant


def _job(scratch: Scratch, *arguments: str | Path) -> dict[str, float]:
    found = scratch.python("-m", "tests.bench.serving_clients_jobs", *arguments).report
    return {name: float(value) for name, value in found.items()}


@case("serving-commit")
def serving_commit(scratch: Scratch) -> Iterator[Figure]:
    """One row by PyIceberg, against a catalog in SQLite with the same rows."""
    variant = Variant("points", scratch.sizes.usual)
    repo, local = scratch.copy(scratch.repository(variant)), scratch.new_path()
    runs = str(scratch.sizes.runs)
    found = _job(scratch, "append", repo, local, runs)
    ours, theirs = found["ours"], found["theirs"]
    waited = f"by the clock {found['wall']:.2f} and {found['their_wall']:.2f} s"
    note = f"{ours:.2f} s CPU with the server's, a local catalog {theirs:.2f}; {waited}"
    name = f"one row appended to {counted(variant.rows)} by PyIceberg, beyond its own"
    yield Figure(name, ours - theirs, "s CPU", 0.6, note)
    for each in (repo, local):
        scratch.remove(each)


@case("serving-scan")
def serving_scan(scratch: Scratch) -> Iterator[Figure]:
    """All rows through the catalog, against the same files without it."""
    variant = Variant("points", scratch.sizes.largest)
    repo, out = scratch.repository(variant), scratch.new_path()
    rows, runs = counted(variant.rows), str(scratch.sizes.slow_runs)
    scratch.havasu("-C", repo, "checkout", "HEAD", "--to", out, "--flavour", "iceberg")
    found = _job(scratch, "scan_pyiceberg", repo, out, runs)
    more = f"a checkout's metadata {found['theirs']:.2f}, pyarrow by itself {found['other']:.2f}"
    yield _scan(f"scan of {rows} through the catalog by PyIceberg", found, more)
    found = _job(scratch, "scan_spark", repo, out, runs)
    more = (
        f"`read.parquet` {found['theirs']:.2f}, an Iceberg table in a folder {found['other']:.2f}"
    )
    yield _scan(f"scan of {rows} through the catalog by Spark, against its own", found, more)
    scratch.remove(out)
    name = f"scan of {rows} through the catalog by DuckDB, against read_parquet"
    if not (ROOT / ".engines" / ".ready").exists():
        yield Figure(name, None, "x", 1.1, "there are no engines: scripts/engines.sh .engines")
        return
    found = _job(scratch, "scan_duckdb", repo, runs)
    yield _scan(name, found, f"the data files {found['theirs']:.2f}")


def _scan(name: str, found: Mapping[str, float], more: str) -> Figure:
    note = f"{found['ours']:.2f} s CPU with the server's, {more}"
    return Figure(name, found["ours"] / found["theirs"], "x", 1.1, note)
