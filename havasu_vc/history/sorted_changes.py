"""Changes that parts of a comparison give, sorted by key into one stream.

Parts are dealt out by key hash, so each is in no order that the whole could follow.
Their changes, with keys in columns of their own, are sorted through runs on disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.sorting import RunReader, cut_ranges, sort_run
from havasu_vc.engine.protocol import Engine
from havasu_vc.model.task import Task, task_of

__all__ = ["sorted_changes"]


def sorted_changes(
    parts: Sequence[Task], keys: int, engine: Engine, folder: Path, *, parts_a_run: int
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of all parts in key order, as `old` and `new`.

    Parts yield these and the key in columns `key0`, `key1` and so on, `keys` of them.
    `folder` holds the runs meanwhile.
    """
    names = tuple(f"key{index}" for index in range(keys))
    try:
        tasks = [
            task_of(sort_run, parts[start : start + parts_a_run], names, str(folder))
            for start in range(0, len(parts), parts_a_run)
        ]
        reports = [report for report in engine.run(tasks) if report.num_rows]
        if not reports:
            return
        runs, ranges = cut_ranges(reports)
        reader = RunReader(runs, names)
        for each in ranges:
            rows = reader.rows(each)
            if rows is not None and rows.num_rows:
                yield rows.select(["old", "new"])
    finally:
        # Also runs of tasks that were cut short, of which there is no report.
        shutil.rmtree(folder, ignore_errors=True)
