"""Cases: what a repository weighs, what commits add, and what many commits cost readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.process import Run, alternated, repeated
from tests.bench.scratch import Scratch, Variant, sizes_of


@case("size")
def size(scratch: Scratch) -> Iterator[Figure]:
    """A repository after its import, against the table as zstd GeoParquet."""
    sizes = scratch.sizes
    for variant, what in (
        (Variant("points", sizes.usual), "points"),
        (Variant("polygons", sizes.polygons), "polygons"),
        (Variant("text", sizes.usual), "points, text keys"),
        (Variant("points", sizes.usual, "hilbert"), "points, Hilbert order"),
    ):
        parquet = scratch.table(variant).stat().st_size
        found = sizes_of(scratch.repository(variant))
        note = f"data {_mb(found['data'])}, git {_mb(found['git'])}, Parquet {_mb(parquet)}"
        note += f"; key cache {_mb(found['keys'])}"
        ratio = (found["data"] + found["git"]) / parquet
        name = f"repository after import, {counted(variant.rows)} {what}, against Parquet"
        yield Figure(name, ratio, "x", 1.05, note)


def _mb(size: float) -> str:
    return f"{size / 1e6:.2f} MB"


def _stored(repository: Path) -> int:
    found = sizes_of(repository)
    return found["git"] + found["data"]


@case("added")
def added(scratch: Scratch) -> Iterator[Figure]:
    """What commits of 1,000 random edits add, one and many with their folds."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    folder = scratch.patches(variant, sizes.commits, sizes.edits)
    repository = scratch.copy(scratch.repository(variant))
    before = _stored(repository)
    scratch.havasu("-C", repository, "apply", folder / "patch-0000.json")
    name = f"added by a commit of {sizes.edits:,} random edits"
    yield Figure(name, (_stored(repository) - before) / 1e3, "kB", 250)
    scratch.remove(repository)
    repository = scratch.copy(scratch.repository(variant))
    done = scratch.job("apply_all", repository, folder).report
    average = (_stored(repository) - before) / 1e3 / done["commits"]
    note = f"{done['seconds'] / done['commits']:.2f} s a commit, slowest {done['slowest']:.2f} s"
    name = f"added by each of {done['commits']} such commits, with folds"
    yield Figure(name, average, "kB", 300, note)
    yield from _after_many(scratch, variant, repository)
    scratch.remove(repository)


def _after_many(scratch: Scratch, variant: Variant, repository: Path) -> Iterator[Figure]:
    """Measure commit and diff once more where many commits went before."""
    sizes = scratch.sizes
    after = f"after {sizes.commits} commits"
    out = scratch.folder / "diff.json"

    def shown(_: int) -> Run:
        return scratch.havasu(
            "-C", repository, "diff", "HEAD^...HEAD", "-o", "json", "--output", out
        )

    run = repeated(shown, sizes.runs)
    note = f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB"
    name = f"diff {sizes.edits:,} edits, JSON, {counted(variant.rows)} points, {after}"
    yield Figure(name, run.wall, "s", 0.3, note)


@case("scan")
def scan(scratch: Scratch) -> Iterator[Figure]:
    """After many tiny commits: reading all rows, against the same after `optimize`; blame."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    folder = scratch.patches(variant, sizes.tiny_commits, 10)
    repository = scratch.copy(scratch.repository(variant))
    done = scratch.job("apply_all", repository, folder).report
    folded = scratch.copy(repository)
    scratch.job("optimize", folded)
    many, few = alternated(
        lambda _: scratch.job("scan", repository), lambda _: scratch.job("scan", folded), sizes.runs
    )
    seconds, after = float(many.report["seconds"]), float(few.report["seconds"])
    note = f"{seconds:.2f} s, after optimize {after:.2f} s; CPU {many.report['cpu']:.2f} s against "
    note += f"{few.report['cpu']:.2f} s; {done['seconds'] / done['commits']:.2f} s a commit"
    name = f"scan after {done['commits']:,} commits of 10 edits, {counted(variant.rows)}"
    yield Figure(f"{name}, against after optimize", seconds / after, "x", 2.0, note)
    row = str(variant.rows // 2 + 1)
    run = repeated(
        lambda _: scratch.havasu("-C", repository, "blame", "table", row), sizes.slow_runs
    )
    name = f"blame of one row over {done['commits']:,} commits, {counted(variant.rows)} points"
    yield Figure(name, run.wall, "s", 2.0, f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB")
    scratch.remove(folded)
    scratch.remove(repository)
