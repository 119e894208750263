"""Cases: merging branches, conflicts, and resolving them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.process import Run, repeated
from tests.bench.scratch import Scratch, Variant


@case("merge")
def merge(scratch: Scratch) -> Iterator[Figure]:
    """Two branches of 1,000 edits each, of different rows."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    patches = _patches(scratch, variant)
    diverged = _diverged(scratch, variant, patches[0], patches[1])
    run = _measured(scratch, diverged, lambda repo: scratch.havasu("-C", repo, "merge", "side"))
    name = f"merge 2 × {sizes.edits:,} edits, {counted(variant.rows)} points"
    yield Figure(name, run.wall, "s", 0.6, f"{run.cpu:.2f} s CPU")
    yield Figure(f"{name}, peak memory", run.memory, "MB", 250)
    scratch.remove(diverged)


@case("merge-large")
def merge_large(scratch: Scratch) -> Iterator[Figure]:
    """Two branches that each edit a fifth of the rows, at random and none of both."""
    variant = Variant("points", scratch.sizes.usual)
    rows = variant.rows // 5
    patches = sorted(scratch.patches(variant, 2, rows).iterdir())
    diverged = _diverged(scratch, variant, patches[0], patches[1])
    run = _measured(scratch, diverged, lambda repo: scratch.havasu("-C", repo, "merge", "side"))
    name = f"merge 2 × {counted(rows)} edits, {counted(variant.rows)} points"
    yield Figure(name, run.wall, "s", 1.6, f"{run.cpu:.2f} s CPU")
    yield Figure(f"{name}, peak memory", run.memory, "MB", None)
    scratch.remove(diverged)


@case("conflicts")
def conflicts(scratch: Scratch) -> Iterator[Figure]:
    """Two branches that edit the same 1,000 rows differently; then all is resolved at once."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    (patch, *_) = _patches(scratch, variant)
    other = scratch.repositories / "other.json"
    other.write_text(patch.read_text().replace('"name": "edited ', '"name": "other '))
    repo = _diverged(scratch, variant, patch, other)
    what = f"{sizes.edits:,} conflicts, {counted(variant.rows)} points"
    steps: tuple[tuple[str, tuple[str, ...], float | None], ...] = (
        ("merge into", ("merge", "side"), 1.0),
        ("list as JSON", ("conflicts", "-o", "json"), 1.0),
        ("resolve all of", ("resolve", "--all", "--with=theirs"), 1.0),
        ("conclude after", ("merge", "--continue"), None),
    )
    for name, command, limit in steps:

        def step(copy: Path, command: tuple[str, ...] = command) -> Run:
            return scratch.havasu("-C", copy, *command)

        run = _measured(scratch, repo, step)
        note = f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB"
        yield Figure(f"{name} {what}", run.wall, "s", limit, note)
        step(repo)
    scratch.remove(repo)


def _patches(scratch: Scratch, variant: Variant) -> list[Path]:
    folder = scratch.patches(variant, scratch.sizes.runs + 1, scratch.sizes.edits)
    return sorted(folder.iterdir())


def _diverged(scratch: Scratch, variant: Variant, ours: Path, theirs: Path) -> Path:
    """Return a repository whose branches main and side have a patch each."""
    repo = scratch.copy(scratch.repository(variant))
    scratch.havasu("-C", repo, "switch", "-c", "side")
    scratch.havasu("-C", repo, "apply", theirs)
    scratch.havasu("-C", repo, "switch", "main")
    scratch.havasu("-C", repo, "apply", ours)
    return repo


def _measured(scratch: Scratch, repository: Path, step: Callable[[Path], Run]) -> Run:
    """Measure a step, each time on a copy of a repository."""

    def once(_: int) -> Run:
        copy = scratch.copy(repository)
        run = step(copy)
        scratch.remove(copy)
        return run

    return repeated(once, scratch.sizes.runs)
