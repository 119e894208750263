"""Taking in a table where machines share nothing but a bucket: its rows are dealt out by key.

Keys are cut where a sample of them says, each interval's rows go to its owner by the engine's
own means, and it sorts them and writes files to the bucket. The driver sees entries alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from havasu_vc.datasets.dealing import SortedPieces, cuts_by_sample, deal
from havasu_vc.datasets.havasu.owners import OwnerReport, parse_report, report_batch
from havasu_vc.datasets.havasu.owning import store_at
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.writing import WrittenFile, write_data_files
from havasu_vc.datasets.protocol import NewTableInFiles, TreeEdit
from havasu_vc.datasets.sorting import check_increasing
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import EngineError
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.model.task import Task, kernel, run_task, task_of

__all__ = ["files_dealt", "import_dealt"]

PART_BYTES = 128 << 20
"""About how much of the source an owner has."""


def import_dealt(
    new: NewTableInFiles,
    tasks: Sequence[Task],
    keys: Sequence[Task],
    url: str,
    engine: Engine,
    *,
    input_bytes: int,
) -> TreeEdit:
    """Return the edit that makes a new dataset with a key, whose files are at a URL.

    `keys` yield the key columns of all rows.
    """
    names = new.schema.key.names
    files = files_dealt(names, new.layout, tasks, keys, url, engine, input_bytes=input_bytes)
    return replace(new.edit(files), elsewhere=frozenset(file.entry.file for file in files))


def files_dealt(
    names: tuple[str, ...],
    layout: FileLayout,
    tasks: Sequence[Task],
    keys: Sequence[Task],
    url: str,
    engine: Engine,
    *,
    input_bytes: int,
    description: str = "Importing",
) -> list[WrittenFile]:
    """Return the files that owners of intervals of keys make of all rows, and put at a URL."""
    cuts = cuts_by_sample(engine, keys, names, -(-input_bytes // PART_BYTES))
    dealing = [task_of(deal, task, cuts) for task in tasks]
    owners = [
        task_of(own_new, (), number, names, layout, url) for number in range(len(cuts.values) + 1)
    ]
    batches = engine.run_dealt(dealing, owners, description=description)
    reports = sorted((parse_report(batch) for batch in batches), key=lambda each: each.number)
    return [file for report in reports for file in report.files]


@kernel
def own_new(
    pieces: tuple[tuple[int, Task], ...],
    number: int,
    names: tuple[str, ...],
    layout: FileLayout,
    place: str,
) -> Iterator[pa.RecordBatch]:
    """Write the rows of an interval of keys, given what was dealt to it, and report the files."""
    given = SortedPieces([run_task(task) for _, task in pieces], names)

    def rows() -> Iterator[pa.RecordBatch]:
        for _, batch in given.below(None):
            if batch is not None:
                check_increasing(batch.select(list(names)))
                yield batch

    with ExitStack() as stack:
        store = store_at(place, stack)
        files = tuple(write_data_files(rows(), layout, store, None, origin=Origin.IMPORT))
    wanted = sum(count for count, _ in pieces)
    if given.num_rows != wanted:
        raise EngineError(
            f"{given.num_rows:,} of {wanted:,} rows reached the task that was to write them",
            hints=("nothing was committed; run again",),
        )
    yield report_batch(OwnerReport(files=files, number=number))
