"""Cases: diffs that cost what the change costs, and comparisons of whole tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

from tests.bench.cases import Figure, case, counted
from tests.bench.process import Run, alternated, repeated, run
from tests.bench.scratch import Scratch, Variant


@case("diff")
def diff(scratch: Scratch) -> Iterator[Figure]:
    """1,000 edits as JSON, in tables of growing size, measured in turn."""
    sizes = scratch.sizes
    tables = [sizes.small, sizes.usual, sizes.large, sizes.largest]
    repositories = [scratch.edited_repository(Variant("points", rows)) for rows in tables]
    runs: list[list[Run]] = [[] for _ in tables]
    for turn in range(2 * sizes.runs + 1):
        for found, repository in zip(runs, repositories, strict=True):
            one = _diff(scratch, repository)
            if turn:
                found.append(one)
    seconds = [median(each.wall for each in found) for found in runs]
    for rows, found, wall in zip(tables, runs, seconds, strict=True):
        asked = rows == sizes.usual
        name = f"diff {sizes.edits:,} edits, JSON, {counted(rows)} points"
        cpu = f"{median(each.cpu for each in found):.2f} s CPU"
        yield Figure(name, wall, "s", 0.3 if asked else None, cpu)
        memory = max(each.memory for each in found)
        limit = 150 if asked else 200
        yield Figure(f"{name}, peak memory", memory, "MB", limit)
    small, usual, large, largest = seconds
    yield Figure(_against(sizes.large, sizes.small), large / small, "x", 1.3)
    yield Figure(_against(sizes.largest, sizes.usual), largest / usual, "x", 1.2)


def _against(rows: int, base: int) -> str:
    return f"diff at {counted(rows)} against {counted(base)}"


@case("diff-others")
def diff_others(scratch: Scratch) -> Iterator[Figure]:
    """The same for polygons, text keys and Hilbert order."""
    sizes = scratch.sizes
    for variant, what in (
        (Variant("polygons", sizes.polygons), "polygons"),
        (Variant("text", sizes.usual), "points, text keys"),
        (Variant("points", sizes.usual, "hilbert"), "points, Hilbert order"),
    ):
        repository = scratch.edited_repository(variant)
        run = repeated(partial(_diff, scratch, repository), sizes.runs)
        name = f"diff {sizes.edits:,} edits, JSON, {counted(variant.rows)} {what}"
        yield Figure(name, run.wall, "s", 0.3, f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB")


def _diff(scratch: Scratch, repository: Path, _: int = 0) -> Run:
    out = scratch.folder / "diff.json"
    return scratch.havasu("-C", repository, "diff", "HEAD^...HEAD", "-o", "json", "--output", out)


@case("compare")
def compare(scratch: Scratch) -> Iterator[Figure]:
    """Two versions that share no file, in key order and not, against reading both."""
    sizes = scratch.sizes
    for order, what, asked in (("key", "key order", 1.5), ("hilbert", "Hilbert order", 3.0)):
        variant = Variant("points", sizes.large, order)
        repository = two_versions(scratch, variant)
        ours, read = alternated(
            partial(_job, scratch, ("compare", repository, "release..main")),
            partial(_job, scratch, ("read_all", repository)),
            sizes.slow_runs,
        )
        seconds, reading = float(ours.report["seconds"]), float(read.report["seconds"])
        if ours.report["changes"] != sizes.edits:
            raise ValueError(f"{ours.report['changes']} changes were found, not {sizes.edits}")
        note = f"{seconds:.2f} s, reading both {reading:.2f} s; CPU {ours.report['cpu']:.2f} s "
        note += f"against {read.report['cpu']:.2f} s; {ours.memory:.0f} MB"
        name = f"full compare of two versions, {counted(variant.rows)}, {what}"
        yield Figure(name, seconds / reading, "x", asked, note)
        scratch.remove(repository)


def _job(scratch: Scratch, arguments: tuple[str | Path, ...], _: int) -> Run:
    name, *rest = arguments
    return scratch.job(str(name), *rest)


def two_versions(scratch: Scratch, variant: Variant) -> Path:
    """Return a repository with the table on main and its next version on release."""
    repository = scratch.copy(scratch.repository(variant))
    head = ["git", "-C", str(repository), "symbolic-ref", "HEAD"]
    for each in (
        ["git", "-C", str(repository), "branch", "-M", "main"],
        [*head, "refs/heads/release"],
    ):
        run(each, scratch.environment)
    scratch.import_table(repository, scratch.version(variant), variant)
    return repository
