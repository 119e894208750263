"""Cases: the summary of a change, small in a large table and as large as the table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.process import Run, repeated
from tests.bench.scratch import Scratch, Variant


@case("review")
def review(scratch: Scratch) -> Iterator[Figure]:
    """Markdown and the page: of 1,000 edits, and of a whole table that is new."""
    sizes = scratch.sizes
    variant = Variant("points", sizes.usual)
    edited = scratch.edited_repository(variant)
    rows = counted(variant.rows)
    for form in ("markdown", "html"):
        run = repeated(partial(_review, scratch, edited, "HEAD^..HEAD", form), sizes.runs)
        name = f"review {sizes.edits:,} edits in {rows}, {form}"
        asked = 1.0 if form == "markdown" else None
        yield Figure(name, run.wall, "s", asked, f"{run.cpu:.2f} s CPU, {run.memory:.0f} MB")
    whole = scratch.repository(variant)
    run = repeated(partial(_review, scratch, whole, "[EMPTY]..HEAD", "markdown"), sizes.slow_runs)
    name = f"review {rows} changes, markdown"
    yield Figure(name, run.wall, "s", 15.0, f"{run.cpu:.2f} s CPU")
    yield Figure(f"{name}, peak memory", run.memory, "MB", 500)


def _review(scratch: Scratch, repository: Path, revisions: str, form: str, _: int = 0) -> Run:
    out = scratch.folder / f"review.{form}"
    return scratch.havasu("-C", repository, "review", revisions, "-o", form, "--output", out)
