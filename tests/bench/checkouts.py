"""Cases: tables made of a commit, and brought along when HEAD moves."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random

from havasu_vc.exchange.living_tables import add_functions
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


@case("working-copy")
def working_copy(scratch: Scratch) -> Iterator[Figure]:
    """A GeoPackage of all rows that knows its edits: made, and commands upon 1,000 edits in it."""
    for kind in ("Havasu", "Kart"):
        yield from _working_copy(scratch, kind)


def _working_copy(scratch: Scratch, kind: str) -> Iterator[Figure]:
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    repository = scratch.new_path()
    scratch.havasu("init", repository, *(["--kart"] if kind == "Kart" else []))
    layer = f"{variant.kind}:table"
    scratch.havasu("-C", repository, "import", scratch.table(variant, "gpkg"), layer)
    file = repository / "copy.gpkg"

    def run(*words: str) -> Run:
        return scratch.havasu("-C", repository, *words)

    def figure(name: str, run: Run, at_most: float | None = 0.6) -> Figure:
        what = f"{name}, {counted(variant.rows)} points, {kind}"
        return Figure(what, run.cpu, "s CPU", at_most, f"{run.memory:.0f} MB")

    yield figure("write a working copy", run("create-workingcopy", file.name), 9.0)
    rows = (seed for seed in range(1_000_000))

    def after(*words: str, back: tuple[str, ...] = ()) -> Run:
        """Measure a command upon edits of rows that were not edited before."""

        def once(_: int) -> Run:
            edit_rows(file, sizes.edits, variant.rows, next(rows))
            found = run(*words)
            if back:
                run(*back)
            return found

        return repeated(once, sizes.runs)

    edits = f"{sizes.edits:,} edits"
    yield figure(f"status of {edits}", after("status", back=("restore",)))
    yield figure(f"diff of {edits}, JSON", after("diff", "-o", "json", back=("restore",)))
    yield figure(f"restore of {edits}", after("restore"))
    yield figure(f"reset of {edits}", after("reset", "--hard", "--discard-changes"))
    yield figure(f"stash of {edits}", after("stash", back=("stash", "drop")))
    yield figure(f"commit of {edits}", after("commit", "-m", "Edit"))
    yield figure(f"reset over {edits}", _again(run, sizes.runs, ("reset", "--hard", "HEAD^")))
    edit_rows(file, sizes.edits, variant.rows, next(rows))
    run("stash")
    yield figure(f"stash apply of {edits}", _again(run, sizes.runs, ("stash", "apply"), "restore"))
    for branch in ("side", "main"):
        run("switch", *(["-c"] if branch == "side" else []), branch)
        edit_rows(file, sizes.edits, variant.rows, next(rows))
        run("commit", "-m", branch)
    ends = repeated(lambda number: run("switch", ("side", "main")[number % 2]), sizes.runs)
    yield figure(f"switch between branches 2 × {edits} apart", ends)
    run("switch", "main")
    back = ("reset", "--hard", "HEAD^")

    def merge(_: int) -> Run:
        found = run("merge", "side", "-m", "Both")
        run(*back)
        return found

    yield figure(f"merge 2 × {edits}", repeated(merge, sizes.runs))
    scratch.remove(repository)


def _again(
    run: Callable[..., Run], times: int, words: tuple[str, ...], back: str | None = None
) -> Run:
    """Measure a command a few times, put back in between where that is said."""

    def once(_: int) -> Run:
        found = run(*words)
        if back is not None:
            run(back)
        return found

    return repeated(once, times)


def edit_rows(file: Path, count: int, total: int, seed: int) -> None:
    """Edit rows at random, as an editor does."""
    with closing(sqlite3.connect(file)) as database:
        add_functions(database)
        database.executemany(
            "UPDATE \"table\" SET name = 'edited ' || name, height = height + 1.5 WHERE fid = ?",
            ((each,) for each in Random(seed).sample(range(1, total + 1), count)),
        )
        database.commit()


def _first(scratch: Scratch, repository: Path, number: int) -> Run:
    shutil.rmtree(repository / "tables", ignore_errors=True)
    (repository / ".git" / "havasu" / "workspace.json").unlink(missing_ok=True)
    return scratch.havasu("-C", repository, "checkout")


def _switch(scratch: Scratch, repository: Path, number: int) -> Run:
    return scratch.havasu("-C", repository, "switch", ("main", "side")[number % 2])
