"""Cases: the summary of a change, small in a large table and as large as the table.

The largest are tables that are new or gone, and one of which every row is another one than
before; the last holds both versions of each row, so it takes the most memory.
The page is of points that are not kept in a repository.
"""

from __future__ import annotations

import time
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
    remade = _remade(scratch, variant)
    for what, repository, revisions in (
        ("inserts", whole, "[EMPTY]..HEAD"),
        ("deletes", whole, "HEAD..[EMPTY]"),
        ("updates", remade, "HEAD^..HEAD"),
    ):
        measure = partial(_review, scratch, repository, revisions, "markdown")
        run = repeated(measure, sizes.slow_runs)
        name = f"review {rows} {what}, markdown"
        yield Figure(name, run.wall, "s", 15.0, f"{run.cpu:.2f} s CPU")
        yield Figure(f"{name}, peak memory", run.memory, "MB", 500)


@case("page")
def page(scratch: Scratch) -> Iterator[Figure]:
    """The page of 100,000 changes: half of the points moved, two of ten attributes edited."""
    from tests.review.page.pages import many, written

    start = time.process_time()
    size = len(written([many(100_000, batches=10)]).encode())
    spent = time.process_time() - start
    yield Figure("page of 100k changes", size / 1e6, "MB", 3.0, f"{spent:.2f} s CPU to write it")


def _remade(scratch: Scratch, variant: Variant) -> Path:
    """Return a repository whose last commit updates every row of the table."""
    import pyarrow.compute as pc  # here, as what is measured begins at this process's memory
    import pyarrow.parquet as pq

    table = pq.read_table(scratch.table(variant))
    height = pc.add(table["height"], 1.5)
    table = table.set_column(table.schema.get_field_index("height"), "height", height)
    file = scratch.folder / f"{variant.name}-remade.parquet"
    pq.write_table(table, file, compression="zstd")
    copy = scratch.copy(scratch.repository(variant))
    options = ("--primary-key", "fid", "--replace")
    scratch.havasu("-C", copy, "import", file, "table", *options)
    return copy


def _review(scratch: Scratch, repository: Path, revisions: str, form: str, _: int = 0) -> Run:
    out = scratch.folder / f"review.{form}"
    return scratch.havasu("-C", repository, "review", revisions, "-o", form, "--output", out)
