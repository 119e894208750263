"""Optimizing: the same rows in well-sized files, without deletes, in the dataset's order.

Taken up are files with deleted rows, and small ones where there are several; large and
clean files stay. Rows are sorted on disk, in runs and ranges that fit in memory, so a
table of any size can be optimized. No row changes: the digests of what was read and of
what was written must agree, and a diff across an optimize shows nothing.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace

from havasu_vc.datasets.digest import Digests
from havasu_vc.datasets.havasu.build import parse_report, write, write_ranges
from havasu_vc.datasets.havasu.documents import past_documents
from havasu_vc.datasets.havasu.ledger import Change, change_blobs
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.havasu.writing import WrittenFile, distinct_files
from havasu_vc.datasets.placing import HILBERT, with_hilbert
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.sorting import cut_ranges, sort_run
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import CorruptDatasetError, KeyViolationError
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.history.summing import add_up
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.task import Task, task_of

__all__ = ["files_to_optimize", "optimize_dataset"]

SMALL_SHARE = 4
"""A file is small below this part of the size that files are to have."""
FILES_A_TASK = 8
"""Each task that writes makes about so many files, so that few of them end up small."""
RUN_TASKS = 4


def optimize_dataset(view: HavasuDataset, engine: Engine) -> TreeEdit | None:
    """Return the edit that leaves a dataset's rows in better files; None when they are good."""
    view.check_guard()
    chosen = files_to_optimize(view)
    if not chosen:
        return None
    tasks = [task for entry in chosen for task in view.scan_file(entry, view.schema)]
    rows, digests = add_up(tasks, view.schema, engine, description=f"Reading {view.path}")
    try:
        written = _write(view, chosen, tasks, engine)
    except KeyViolationError as error:
        raise CorruptDatasetError(view.path, error.message) from error
    leaving = {entry.file for entry in chosen}
    leaving |= {entry.file for entry in view.entries.values() if entry.content is Content.DELETES}
    storage = view.storage
    files = distinct_files(
        (replace(file, entry=replace(file.entry, origin=Origin.FOLD)) for file in written),
        view.layout,
        storage.staging,
        storage.keys,
        seen=view.entries.keys() - leaving,
    )
    _check_same(view, files, rows, digests)
    if len(chosen) == len(view.data_entries) and (
        (rows, digests) != (view.rows, dict(view.snapshot.digests))
    ):
        raise CorruptDatasetError(view.path, "its rows are not those that its deltas sum up")
    return _tree_edit(view, leaving, files)


def files_to_optimize(view: HavasuDataset) -> list[Entry]:
    """Return the data files to take up, in the dataset's order; none when all are good."""
    small = view.layout.target_bytes // SMALL_SHARE
    dirty = [entry for entry in view.data_entries if entry.file in view.deletes]
    clean = [e for e in view.data_entries if e.file not in view.deletes and e.size < small]
    if not dirty and len(clean) < 2:
        return []
    files = {entry.file for entry in (*dirty, *clean)}
    return [entry for entry in view.data_entries if entry.file in files]


def _write(
    view: HavasuDataset, chosen: Sequence[Entry], tasks: Sequence[Task], engine: Engine
) -> list[WrittenFile]:
    names = view.key.names
    curve = next((field for field in view.order.fields if field.transform == "hilbert"), None)
    column = None if curve is None else view.schema.by_id.get(curve.source_id)
    where = (str(view.storage.staging.root), str(view.storage.keys))
    if column is not None:
        extent = _extent(view, column.id)
        tasks = [task_of(with_hilbert, task, view.schema, column.name, extent) for task in tasks]
        names = (HILBERT, *names)
    if not names:
        writing = [task_of(write, tuple(tasks), view.layout, *where, False)]
        return _written(engine, writing, view)
    folder = view.storage.staging.scratch / f"runs-{uuid.uuid4().hex}"
    try:
        starts = range(0, len(tasks), RUN_TASKS)
        sorting = [
            task_of(sort_run, tuple(tasks[i : i + RUN_TASKS]), names, str(folder)) for i in starts
        ]
        reports = [
            report
            for report in engine.run(sorting, description=f"Sorting {view.path}")
            if report.num_rows
        ]
        if not reports:
            return []
        runs, ranges = cut_ranges(reports)
        size = sum(entry.size for entry in chosen)
        count = max(size // (view.layout.target_bytes * FILES_A_TASK), 1)
        step = max(-(-len(ranges) // count), 1)
        writing = [
            task_of(write_ranges, runs, ranges[i : i + step], names, view.layout, *where)
            for i in range(0, len(ranges), step)
        ]
        return _written(engine, writing, view)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _written(engine: Engine, tasks: Sequence[Task], view: HavasuDataset) -> list[WrittenFile]:
    batches = engine.run(tasks, description=f"Writing {view.path}")
    return [file for batch in batches for file in parse_report(batch).files]


def _extent(view: HavasuDataset, column: int) -> Bounds:
    """Return the bounds of a geometry column, as entries give them."""
    bounds = Bounds.of(entry.bounds.get(column) for entry in view.data_entries)
    return bounds if bounds is not None else Bounds(0, 0, 0, 0)


def _check_same(
    view: HavasuDataset, files: Sequence[WrittenFile], rows: int, digests: dict[int, Digest]
) -> None:
    written = Digests()
    for file in files:
        written.add(file.digests)
    if sum(file.entry.rows for file in files) != rows or written.of(view.schema.by_id) != digests:
        raise CorruptDatasetError(view.path, "the rows written are not the rows that were read")


def _tree_edit(view: HavasuDataset, leaving: set[str], files: Sequence[WrittenFile]) -> TreeEdit:
    coming = [written.entry for written in files]
    stays = sum(entry.rows for entry in view.entries.values() if entry.file not in leaving)
    if stays + sum(entry.rows for entry in coming) != view.rows:
        raise CorruptDatasetError(view.path, "its files do not hold as many rows as it says")
    documents = past_documents(view.folder, view.layout, {})
    return TreeEdit(view.path, change_blobs(view, Change(frozenset(leaving), coming), documents))
