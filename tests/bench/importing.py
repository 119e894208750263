"""Cases: starting, and taking tables in."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.cases import Figure, case, counted
from tests.bench.process import Run, repeated
from tests.bench.scratch import Scratch, Variant

LIBRARIES = "click, numpy, pyarrow.compute, pyarrow.parquet, pygit2"


@case("start")
def start(scratch: Scratch) -> Iterator[Figure]:
    """`--version` does nothing but start."""
    run = repeated(lambda _: scratch.havasu("--version"), 9)
    yield Figure("start (--version)", run.cpu, "s CPU", 0.08, f"{run.memory:.0f} MB")
    floor = repeated(lambda _: scratch.python("-c", f"import {LIBRARIES}"), 9)
    note = f"{floor.cpu:.3f} s CPU, {floor.memory:.0f} MB: below every command that opens data"
    yield Figure("Python with the libraries alone", floor.wall, "s", None, note)


def imported(scratch: Scratch, variant: Variant, suffix: str = "parquet", times: int = 0) -> Run:
    """Measure an import into an empty repository."""
    file = scratch.table(variant, suffix)

    def once(_: int) -> Run:
        repository = scratch.new_repository()
        run = scratch.import_table(repository, file, variant)
        scratch.remove(repository)
        return run

    return repeated(once, times or scratch.sizes.slow_runs)


def _figure(name: str, run: Run, asked: float | None) -> Figure:
    return Figure(name, run.wall, "s", asked, f"{run.cpu:.1f} s CPU, {run.memory:.0f} MB")


@case("import")
def import_usual(scratch: Scratch) -> Iterator[Figure]:
    """A million points, from the two formats that matter most."""
    usual = Variant("points", scratch.sizes.usual)
    rows = counted(usual.rows)
    yield _figure(f"import {rows} points, GPKG", imported(scratch, usual, "gpkg"), 3.0)
    yield _figure(f"import {rows} points, GeoParquet", imported(scratch, usual), 2.0)


@case("import-others")
def import_others(scratch: Scratch) -> Iterator[Figure]:
    """The same for polygons, text keys in no order, and Hilbert order."""
    sizes = scratch.sizes
    for variant, what in (
        (Variant("polygons", sizes.polygons), "polygons, GeoParquet"),
        (Variant("text", sizes.usual), "points, unsorted text keys"),
        (Variant("points", sizes.usual, "hilbert"), "points, Hilbert order"),
    ):
        name = f"import {counted(variant.rows)} {what}"
        yield _figure(name, imported(scratch, variant), 2.0)


@case("import-memory")
def import_memory(scratch: Scratch) -> Iterator[Figure]:
    """Peak memory does not grow with the table."""
    large = Variant("points", scratch.sizes.large)
    run = imported(scratch, large, times=1)
    note = f"{run.wall:.1f} s, {run.cpu:.1f} s CPU"
    yield Figure(f"import {counted(large.rows)} points, peak memory", run.memory, "MB", 700, note)
