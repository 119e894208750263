"""Cases: tables made of a commit, and brought along when HEAD moves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.process import Run, repeated
from tests.bench.scratch import Scratch, Variant


@case("checkout")
def checkout(scratch: Scratch) -> Iterator[Figure]:
    """The first checkout of tables, and switching between branches 1,000 rows apart."""
    sizes = scratch.sizes
    for variant, what in (
        (Variant("points", sizes.usual), "points"),
        (Variant("polygons", sizes.polygons), "polygons"),
        (Variant("points", sizes.largest), "points"),
    ):
        repository = scratch.copy(scratch.repository(variant))
        name = f"{counted(variant.rows)} {what}"
        run = repeated(partial(_first, scratch, repository), sizes.runs)
        note = f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB"
        yield Figure(f"checkout from nothing, {name}", run.wall, "s", 0.5, note)
        patches = sorted(scratch.patches(variant, sizes.runs + 1, sizes.edits).iterdir())
        scratch.havasu("-C", repository, "switch", "-c", "side")
        scratch.havasu("-C", repository, "apply", patches[0])
        run = repeated(partial(_switch, scratch, repository), sizes.runs)
        note = f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB"
        apart = f"switch between branches {sizes.edits:,} rows apart, {name}"
        yield Figure(apart, run.wall, "s", 0.6, note)
        scratch.remove(repository)


@case("workspace")
def workspace(scratch: Scratch) -> Iterator[Figure]:
    """What Spark updated in a table: looking at it, and committing it."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    repository = scratch.copy(scratch.repository(variant))
    scratch.havasu("-C", repository, "checkout")
    job = ("-m", "tests.bench.spark_jobs", "update", repository, str(sizes.edits))
    updated = scratch.python(*job).report["rows"]
    name = f"a Spark UPDATE of {updated:,} rows, {counted(variant.rows)} points"
    counts = repository / ".git" / "havasu" / "keys"

    def status(number: int) -> Run:
        for known in (*counts.glob("*-counted"), *counts.glob("*-measured")):
            known.unlink()
        return scratch.havasu("-C", repository, "status")

    run = repeated(status, sizes.runs)
    note = f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB"
    yield Figure(f"status after {name}", run.wall, "s", 1.0, note)
    run = repeated(lambda _: scratch.havasu("-C", repository, "diff", "-o", "json"), sizes.runs)
    yield Figure(f"diff after {name}", run.wall, "s", None, f"{run.cpu:.2f} s CPU")
    run = scratch.havasu("-C", repository, "commit", "-m", "Edit")
    yield Figure(f"commit of {name}", run.wall, "s", None, f"{run.cpu:.2f} s CPU")
    scratch.remove(repository)


def _first(scratch: Scratch, repository: Path, number: int) -> Run:
    shutil.rmtree(repository / "tables", ignore_errors=True)
    (repository / ".git" / "havasu" / "workspace.json").unlink(missing_ok=True)
    return scratch.havasu("-C", repository, "checkout")


def _switch(scratch: Scratch, repository: Path, number: int) -> Run:
    return scratch.havasu("-C", repository, "switch", ("main", "side")[number % 2])
