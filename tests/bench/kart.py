"""Cases: Kart datasets and their working copies, beside what Kart itself took for the same.

Kart was measured once, at commit 362ac89e, on two cores, with a table of the same columns
and size: processor time and peak memory as `facts` below. Both figures are fractions of
those, so they are meant for the whole table alone; `--quick` says how they stand to it
without asking for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.checkouts import edit_rows
from tests.bench.process import Run, repeated
from tests.bench.scratch import Scratch, Variant


@dataclass(frozen=True, slots=True)
class _Kart:
    """What Kart took for something with a million points."""

    cpu: float
    """Seconds of processor time."""
    memory: float
    """Peak resident memory, in MB of a million bytes."""


def _mib(mebibytes: int) -> float:
    return mebibytes * 1.048576


IMPORT = _Kart(35.33, _mib(479))
DUMP = _Kart(33.23, _mib(2057))
DIFF = _Kart(0.84, _mib(247))
COMMIT = _Kart(1.08, 240)
"""Of edits in a working copy. Beside other work it took 1.5 to 2.1 s."""
MERGE = _Kart(3.85, _mib(744))
CONFLICTS = _Kart(85.12, _mib(1103))
ROWS = 1_000_000
"""The rows that Kart was measured with."""


@case("kart")
def kart(scratch: Scratch) -> Iterator[Figure]:
    """Import, read, diff, commit, merge and conflicts of a Kart dataset, against Kart's figures."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    rows, edits = counted(variant.rows), f"{sizes.edits:,}"
    whole = variant.rows == ROWS
    start = _imported(scratch, variant)
    run = repeated(lambda _: _import(scratch, variant), sizes.slow_runs, warm=False)
    yield from _against(f"import {rows} as a Kart dataset", run, IMPORT, 0.4, whole)
    one = repeated(lambda _: scratch.job("scan", start, "1"), sizes.slow_runs)
    yield from _against(f"read {rows} to Arrow, one thread", one, DUMP, 1 / 3, whole)
    two = repeated(lambda _: scratch.job("scan", start, "2"), sizes.slow_runs)
    faster = two.report["seconds"] / one.report["seconds"]
    note = f"{one.report['seconds']:.2f} s and {two.report['seconds']:.2f} s"
    yield Figure(f"read {rows} on two cores against one", faster, "x", 1.0, note)
    patches = sorted(scratch.patches(variant, sizes.runs + 1, sizes.edits).iterdir())
    edited = _patched(scratch, start, patches[0])
    arguments = ("diff", "HEAD^...HEAD", "-o", "json")
    run = repeated(lambda _: scratch.havasu("-C", edited, *arguments), sizes.runs)
    yield from _against(f"diff of {edits} in {rows}, JSON", run, DIFF, 0.6, whole)
    run = _committed(scratch, start, variant)
    yield next(_against(f"commit of {edits} edits in {rows}", run, COMMIT, 0.4, whole))
    for name, theirs, asked, limit in (
        (f"merge 2 × {edits} in {rows}", patches[1], MERGE, 0.3),
        (f"{edits} conflicts in {rows}", _other(scratch, patches[0]), CONFLICTS, 0.05),
    ):
        diverged = _diverged(scratch, edited, theirs)
        run = _measured(scratch, diverged, lambda repo: scratch.havasu("-C", repo, "merge", "side"))
        yield from _against(name, run, asked, limit, whole)
        scratch.remove(diverged)


def _against(name: str, run: Run, kart: _Kart, limit: float, whole: bool) -> Iterator[Figure]:
    """Yield processor time and memory of a run as fractions of Kart's."""
    took = f"{run.cpu:.2f} s CPU, Kart {kart.cpu:g}"
    yield Figure(f"{name} / Kart", run.cpu / kart.cpu, "x", limit if whole else None, took)
    took = f"{run.memory:.0f} MB, Kart {kart.memory:.0f}"
    asked = 0.5 if whole else None
    yield Figure(f"{name} / Kart, memory", run.memory / kart.memory, "x", asked, took)


def _imported(scratch: Scratch, variant: Variant) -> Path:
    """Return a repository with a Kart dataset; it must not be changed."""
    path = scratch.repositories / f"kart-{variant.name}"
    if not path.exists():
        fresh = _new(scratch)
        _import_into(scratch, fresh, variant)
        fresh.rename(path)
    return path


def _new(scratch: Scratch) -> Path:
    path = scratch.new_path()
    scratch.havasu("init", "--kart", path)
    return path


def _import(scratch: Scratch, variant: Variant) -> Run:
    fresh = _new(scratch)
    run = _import_into(scratch, fresh, variant)
    scratch.remove(fresh)
    return run


def _import_into(scratch: Scratch, repository: Path, variant: Variant) -> Run:
    layer = f"{variant.kind}:table"
    return scratch.havasu("-C", repository, "import", scratch.table(variant, "gpkg"), layer)


def _patched(scratch: Scratch, repository: Path, patch: Path) -> Path:
    copy = scratch.copy(repository)
    scratch.havasu("-C", copy, "apply", patch)
    return copy


def _committed(scratch: Scratch, start: Path, variant: Variant) -> Run:
    """Measure a commit of what an editor changed in the working copy."""
    copy, seeds = scratch.copy(start), count()
    scratch.havasu("-C", copy, "create-workingcopy", "copy.gpkg")

    def once(_: int) -> Run:
        edit_rows(copy / "copy.gpkg", scratch.sizes.edits, variant.rows, next(seeds))
        return scratch.havasu("-C", copy, "commit", "-m", "Edit")

    run = repeated(once, scratch.sizes.runs)
    scratch.remove(copy)
    return run


def _diverged(scratch: Scratch, edited: Path, theirs: Path) -> Path:
    """Return a repository whose branches main and side have an edit each."""
    repo = scratch.copy(edited)
    scratch.havasu("-C", repo, "switch", "-c", "side", "HEAD^")
    scratch.havasu("-C", repo, "apply", theirs)
    scratch.havasu("-C", repo, "switch", "main")
    return repo


def _other(scratch: Scratch, patch: Path) -> Path:
    """Return the patch with other values for the same rows."""
    path = scratch.repositories / "other-kart.json"
    path.write_text(patch.read_text().replace('"name": "edited ', '"name": "other '))
    return path


def _measured(scratch: Scratch, repository: Path, step: Callable[[Path], Run]) -> Run:
    """Measure a step, each time on a copy of a repository."""

    def once(_: int) -> Run:
        copy = scratch.copy(repository)
        run = step(copy)
        scratch.remove(copy)
        return run

    return repeated(once, scratch.sizes.slow_runs)
