"""Cases: what a commit and a scan take through the catalog, beside the client's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.process import ROOT
from tests.bench.scratch import Scratch, Variant


def _job(scratch: Scratch, *arguments: str | Path) -> tuple[float, float]:
    found = scratch.python("-m", "tests.bench.serving_clients_jobs", *arguments).report
    return float(found["ours"]), float(found["theirs"])


@case("serving-commit")
def serving_commit(scratch: Scratch) -> Iterator[Figure]:
    """One row by PyIceberg, against a catalog in SQLite with the same rows."""
    variant = Variant("points", scratch.sizes.usual)
    repo, local = scratch.copy(scratch.repository(variant)), scratch.new_path()
    module, runs = "tests.bench.serving_clients_jobs", str(scratch.sizes.runs)
    found = scratch.python("-m", module, "append", repo, local, runs).report
    ours, theirs = float(found["ours"]), float(found["theirs"])
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
    ours, theirs = _job(scratch, "scan_pyiceberg", repo, out, runs)
    note = f"{ours:.2f} s CPU with the server's, a checkout's metadata {theirs:.2f}"
    name = f"scan of {rows} through the catalog by PyIceberg"
    yield Figure(name, ours / theirs, "x", 1.1, note)
    scratch.remove(out)
    name = f"scan of {rows} through the catalog by DuckDB, against read_parquet"
    if not (ROOT / ".engines" / ".ready").exists():
        yield Figure(name, None, "x", 1.1, "there are no engines: scripts/engines.sh .engines")
        return
    ours, theirs = _job(scratch, "scan_duckdb", repo, runs)
    note = f"{ours:.2f} s CPU with the server's, the data files {theirs:.2f}"
    yield Figure(name, ours / theirs, "x", 1.1, note)
