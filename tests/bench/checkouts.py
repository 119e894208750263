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


def _first(scratch: Scratch, repository: Path, number: int) -> Run:
    shutil.rmtree(repository / "tables", ignore_errors=True)
    (repository / ".git" / "havasu" / "workspace.json").unlink(missing_ok=True)
    return scratch.havasu("-C", repository, "checkout")


def _switch(scratch: Scratch, repository: Path, number: int) -> Run:
    return scratch.havasu("-C", repository, "switch", ("main", "side")[number % 2])
