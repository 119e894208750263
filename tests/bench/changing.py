"""Cases: committing edits, from patches and from rows."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.cases import Figure, case, counted
from tests.bench.process import Run, alternated, repeated
from tests.bench.scratch import Scratch, Variant


@case("commit")
def commit(scratch: Scratch) -> Iterator[Figure]:
    """A patch of 1,000 edits becomes a commit; each run commits another one on top."""
    sizes = scratch.sizes
    for variant, what in (
        (Variant("points", sizes.usual), "points"),
        (Variant("polygons", sizes.polygons), "polygons"),
        (Variant("text", sizes.usual), "points, text keys"),
        (Variant("points", sizes.usual, "hilbert"), "points, Hilbert order"),
        (Variant("points", sizes.largest), "points"),
    ):
        run = _committed(scratch, variant)
        name = f"commit {sizes.edits:,} edits (patch), {counted(variant.rows)} {what}"
        yield Figure(name, run.wall, "s", 0.5, f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB")


def _committed(scratch: Scratch, variant: Variant) -> Run:
    sizes = scratch.sizes
    folder = scratch.patches(variant, sizes.runs + 1, sizes.edits)
    repository = scratch.copy(scratch.repository(variant))

    def once(number: int) -> Run:
        return scratch.havasu("-C", repository, "apply", folder / f"patch-{number:04}.json")

    run = repeated(once, sizes.runs)
    scratch.remove(repository)
    return run


@case("upsert")
def upsert(scratch: Scratch) -> Iterator[Figure]:
    """Rows whose old values are not at hand: their row groups are read, and no others."""
    sizes = scratch.sizes
    usual, largest = Variant("points", sizes.usual), Variant("points", sizes.largest)
    rows = f"upsert {sizes.edits:,} rows"
    seconds, note = _upserted(scratch, usual, None)
    yield Figure(f"{rows} at random, {counted(usual.rows)}", seconds, "s", 0.8, note)
    seconds, note = _upserted(scratch, largest, 10)
    yield Figure(f"{rows} in 10 row groups, {counted(largest.rows)}", seconds, "s", 0.8, note)
    files = scratch.upserts(largest, sizes.runs + 1)
    pristine = scratch.repository(largest)
    repository = scratch.copy(pristine)
    ours, reading = alternated(
        lambda number: scratch.job("upsert", repository, files[number]),
        lambda number: scratch.job("read_touched", pristine, files[number]),
        sizes.runs,
    )
    scratch.remove(repository)
    seconds, read = _seconds(ours), _seconds(reading)
    note = f"{seconds:.2f} s, reading {reading.report['groups']} groups {read:.2f} s; "
    note += f"CPU {ours.report['cpu']:.2f} s against {reading.report['cpu']:.2f} s"
    name = f"{rows} at random, {counted(largest.rows)}, against reading the groups"
    yield Figure(name, seconds / read, "x", 1.3, note)


def _upserted(scratch: Scratch, variant: Variant, groups: int | None) -> tuple[float, str]:
    sizes = scratch.sizes
    files = scratch.upserts(variant, sizes.runs + 1, groups)
    repository = scratch.copy(scratch.repository(variant))
    run = repeated(lambda number: scratch.job("upsert", repository, files[number]), sizes.runs)
    scratch.remove(repository)
    return _seconds(run), f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB with Python"


def _seconds(run: Run) -> float:
    return float(run.report["seconds"])
