"""Taking in a table where machines share nothing but a bucket: its rows are dealt out by key.

Keys are cut where a sample of them says, each interval's rows go to its owner by the engine's
own means, and it sorts them and writes files to the bucket. The driver sees entries alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count

import pyarrow as pa

from havasu_vc.datasets.dealing import SortedPieces, cuts_by_sample, deal, repeated_keys
from havasu_vc.datasets.havasu.owners import OwnerReport, parse_report, report_batch
from havasu_vc.datasets.havasu.owning import store_at
from havasu_vc.datasets.havasu.partitioning import PLACE, RowPartitions, files_of_places
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.writing import WrittenFile, write_data_files
from havasu_vc.datasets.protocol import DatasetInFiles, NewTableInFiles, TreeEdit
from havasu_vc.datasets.sorting import HILBERT, along_curve, check_increasing
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import EngineError, KeyViolationError
from havasu_vc.exchange.importing import (
    Curve,
    chunks_of,
    extent_of,
    partitions_of,
    rows_placed,
)
from havasu_vc.formats.havasu.entry import Entry, Origin
from havasu_vc.formats.havasu.properties import PartitionSpec
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.task import Task, kernel, run_task, task_of

__all__ = ["files_dealt", "files_of_chunks", "import_dealt", "rows_dealt"]

PART_BYTES = 128 << 20
"""About how much of the source an owner has."""
_COPIES = 1 << 20
"""More files of equal rows than a task writes."""


def import_dealt(
    new: NewTableInFiles,
    tasks: Sequence[Task],
    keys: Sequence[Task],
    url: str,
    engine: Engine,
    *,
    input_bytes: int,
    curve: Curve | None = None,
) -> TreeEdit:
    """Return the edit that makes a new dataset, whose files are at a URL.

    `keys` yield the key columns of all rows. Along a curve rows are dealt out by their places on
    it; without a key and a curve they stay as they come.
    """
    names, layout = new.schema.key.names, new.layout
    if curve is not None:
        if names:
            _require_unique(engine, keys, names)
        extent = extent_of(tasks, curve, new.schema, engine, anywhere=True)
        how = (new.schema, curve.column, extent)
        sampled = along_curve(curve.geometries or tasks, *how)
        tasks = along_curve(tasks, *how)
        placed = (HILBERT, *names)
        files = files_dealt(placed, layout, tasks, sampled, url, engine, input_bytes=input_bytes)
    elif names:
        files = files_dealt(names, layout, tasks, keys, url, engine, input_bytes=input_bytes)
    else:
        files = files_of_chunks(chunks_of(tasks, input_bytes), layout, url, engine)
    return replace(new.edit(files), elsewhere=frozenset(file.entry.file for file in files))


def _require_unique(engine: Engine, keys: Sequence[Task], names: tuple[str, ...]) -> None:
    """Raise if a key stands twice in rows that are not dealt out by it."""
    for twice in repeated_keys(engine, keys, names, None, 1):
        key = ",".join(str(twice.column(name)[0].as_py()) for name in names)
        raise KeyViolationError(
            f"the key {key} is there twice",
            hints=("choose other columns with --primary-key, or import without a key",),
        )


def files_of_chunks(
    chunks: Sequence[Sequence[Task]],
    layout: FileLayout,
    url: str,
    engine: Engine,
    *,
    staying: frozenset[str] = frozenset(),
    description: str = "Importing",
) -> list[WrittenFile]:
    """Return the files that owners of some tasks each make of their rows and put at a URL.

    Equal rows make one file, which must stand as often as there are such rows, beside one of the
    dataset that stays, too.
    """
    found: dict[int, tuple[WrittenFile, ...]] = {}
    copies = dict.fromkeys(range(len(chunks)), 0)
    again = copies
    while again:
        owners = [
            task_of(own_chunk, (), number, tuple(chunks[number]), layout, url, copy)
            for number, copy in again.items()
        ]
        for batch in engine.run_dealt([], owners, description=description):
            report = parse_report(batch)
            found[report.number] = report.files
        seen = set(staying)
        again = {}
        for number, files in sorted(found.items()):
            names = {file.entry.file for file in files}
            if names & seen:
                copies[number] += (number + 1) * _COPIES
                again[number] = copies[number]
            seen |= names
    return [file for _, files in sorted(found.items()) for file in files]


def files_dealt(
    names: tuple[str, ...],
    layout: FileLayout,
    tasks: Sequence[Task],
    keys: Sequence[Task],
    url: str,
    engine: Engine,
    *,
    input_bytes: int,
    staying: frozenset[str] = frozenset(),
    places: RowPartitions | None = None,
    description: str = "Importing",
) -> list[WrittenFile]:
    """Return the files that owners of intervals of keys make of all rows, and put at a URL.

    None is one of the dataset that stays, which without a key may have equal rows, and none has
    rows of two partitions where there are `places`.
    """
    cuts = cuts_by_sample(engine, keys, names, -(-input_bytes // PART_BYTES))
    dealing = [task_of(deal, task, cuts) for task in tasks]
    numbers = range(len(cuts.values) + 1)
    for copy in count(step=_COPIES):
        owners = [
            task_of(own_new, (), number, names, layout, url, copy, places) for number in numbers
        ]
        batches = engine.run_dealt(dealing, owners, description=description)
        reports = sorted((parse_report(batch) for batch in batches), key=lambda each: each.number)
        files = [file for report in reports for file in report.files]
        if staying.isdisjoint(file.entry.file for file in files):
            break
    return files


def rows_dealt(
    view: DatasetInFiles,
    entries: Sequence[Entry],
    layout: FileLayout,
    url: str,
    engine: Engine,
    *,
    curve: tuple[str, Bounds] | None,
    spec: PartitionSpec | None = None,
    staying: frozenset[str] = frozenset(),
    description: str,
) -> list[WrittenFile]:
    """Return the files that owners make of the rows of some of a dataset's files, in the bucket.

    They own intervals of keys, or of the curve of a column and its extent; with a partition
    spec, of partitions, in which rows lie along the curve, or as they come. Without any of
    these each has some of the rows as they come.
    """
    schema, names = view.schema, view.key.names
    size = sum(entry.size for entry in entries)

    def reading(columns: Iterable[str] | None = None) -> list[Task]:
        chosen = schema if columns is None else schema.select(tuple(dict.fromkeys(columns)))
        return [task for entry in entries for task in view.scan_file(entry, chosen)]

    places = None
    tasks, column = reading(), () if curve is None else curve[:1]
    if spec is not None and spec.fields:
        few = reading((*(schema.by_id[each.source_id].name for each in spec.fields), *column))
        places = partitions_of(few, schema, spec, engine, along=curve, anywhere=True)
        if places is None:
            return []
        names = (PLACE, *names)
        tasks, sampled = rows_placed(tasks, places), rows_placed(few, places)
    elif curve is not None:
        names = (HILBERT, *names)
        tasks = along_curve(tasks, schema, *curve)
        sampled = along_curve(reading(column), schema, *curve)
    elif names:
        sampled = reading(names)
    else:
        chunks = chunks_of(tasks, size)
        return files_of_chunks(
            chunks, layout, url, engine, staying=staying, description=description
        )
    return files_dealt(
        names,
        layout,
        tasks,
        sampled,
        url,
        engine,
        input_bytes=size,
        staying=staying,
        places=places,
        description=description,
    )


@kernel
def own_new(
    pieces: tuple[tuple[int, Task], ...],
    number: int,
    names: tuple[str, ...],
    layout: FileLayout,
    place: str,
    copy: int = 0,
    places: RowPartitions | None = None,
) -> Iterator[pa.RecordBatch]:
    """Write the rows of an interval of keys, given what was dealt to it, and report the files."""
    given = SortedPieces([run_task(task) for _, task in pieces], names)
    placed = names[0] == HILBERT

    def rows() -> Iterator[pa.RecordBatch]:
        for _, batch in given.below(None):
            if batch is None:
                continue
            if not placed and places is None:
                check_increasing(batch.select(list(names)))
            yield batch.drop_columns([HILBERT]) if placed else batch

    with ExitStack() as stack:
        store = store_at(place, stack)
        if places is not None:
            # Without a key equal rows may be dealt to two, whose files then must differ.
            twin = copy if layout.schema.key else copy + number * _COPIES
            files = tuple(files_of_places(rows(), layout, places, store, None, copy=twin))
        else:
            written = write_data_files(rows(), layout, store, None, origin=Origin.IMPORT, copy=copy)
            files = tuple(written)
    wanted = sum(count for count, _ in pieces)
    if given.num_rows != wanted:
        raise EngineError(
            f"{given.num_rows:,} of {wanted:,} rows reached the task that was to write them",
            hints=("nothing was committed; run again",),
        )
    yield report_batch(OwnerReport(files=files, number=number))


@kernel
def own_chunk(
    pieces: tuple[()],
    number: int,
    tasks: tuple[Task, ...],
    layout: FileLayout,
    place: str,
    copy: int,
) -> Iterator[pa.RecordBatch]:
    """Write the rows of some tasks as they come, and report the files; nothing is dealt to it."""
    rows = (batch for task in tasks for batch in run_task(task))
    with ExitStack() as stack:
        store = store_at(place, stack)
        files = tuple(write_data_files(rows, layout, store, None, origin=Origin.IMPORT, copy=copy))
    yield report_batch(OwnerReport(files=files, number=number))
