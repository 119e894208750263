"""Cases: how quickly the catalog answers, and what it keeps in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.cases import Figure, case
from tests.bench.process import Run
from tests.bench.scratch import QUICK, Scratch


def _job(scratch: Scratch, *arguments: str | Path) -> Run:
    return scratch.python("-m", "tests.bench.serving_jobs", *arguments)


@case("serving")
def serving(scratch: Scratch) -> Iterator[Figure]:
    """Loads of tables of few and of many files, warm, cold and after a commit."""
    for left in scratch.folder.glob("serving-*"):  # a run that was stopped
        scratch.remove(left)
    many = 2_000 if scratch.sizes is QUICK else 20_000
    for files, most in ((4, 10), (400, 30)):
        folder = scratch.folder / f"serving-{files}"
        _job(scratch, "make", folder, str(files))
        done = _job(scratch, "loads", folder, "200", "0").report
        note = f"cold {float(done['cold']):.2f} s CPU"
        name = f"warm load of a table of {files} files"
        yield Figure(name, float(done["warm"]) * 1e3, "ms CPU", most, note)
        asked = _job(scratch, "requests", folder).report
        note = f"{int(asked['bytes']) / 1e3:.1f} kB"
        name = f"the same over HTTP, {files} files"
        yield Figure(name, float(asked["each"]) * 1e3, "ms CPU", 1, note)
        if files == 4:
            fast = _job(scratch, "rate", folder).report
            note = f"16 connections; the server's own {float(fast['cpu']) * 1e3:.2f} s CPU"
            yield Figure(
                "1,000 warm loads by the clock", float(fast["seconds"]) * 1e3, "s", 1, note
            )
        scratch.remove(folder)
    folder = scratch.folder / f"serving-{many}"
    _job(scratch, "make", folder, str(many))
    out = scratch.folder / "serving-tables"
    table = scratch.havasu("-C", folder, "checkout", "HEAD", "--to", out, "--flavour", "iceberg")
    loaded = _job(scratch, "loads", folder, "200", "5")
    cold, after = float(loaded.report["cold"]), float(loaded.report["after"])
    note = f"{cold:.2f} s CPU, checkout {table.cpu:.2f}"
    yield Figure(
        f"cold load of {many:,} files against a checkout", cold / table.cpu, "x", 1.2, note
    )
    name = f"load after a commit of one file in {many:,}"
    yield Figure(name, after * 1e3, "ms CPU", 300)
    kept = _job(scratch, "held", folder).report
    note = f"the server's process at its peak; in a probe {loaded.memory:.0f} MB"
    yield Figure(f"memory with {many:,} files", float(kept["peak"]), "MB", 300, note)
    for each in (folder, out):
        scratch.remove(each)
