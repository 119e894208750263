"""Rows that are sorted by way of runs on disk come back in order, all of them, once."""

import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets import sorting
from havasu_vc.datasets.sorting import RunReader, cut_ranges, sort_run
from havasu_vc.model.task import Task, task_of
from havasu_vc.testing.kernels import given_rows

ROWS = st.lists(
    st.tuples(st.integers(0, 30) | st.integers(-(2**62), 2**62), st.integers(0, 5)), min_size=1
)


def tasks_of(rows: list[tuple[int, int]], size: int) -> list[Task]:
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [
        task_of(given_rows, pa.record_batch({"a": [a for a, _ in part], "b": [b for _, b in part]}))
        for part in parts
    ]


@given(ROWS, st.integers(1, 7), st.integers(1, 200), st.integers(1, 60))
def test_all_rows_come_back_in_order(
    rows: list[tuple[int, int]], size: int, run_bytes: int, range_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("RUN_BYTES", run_bytes),
            ("RANGE_BYTES", range_bytes),
            ("_SAMPLE", 1),
            ("_BATCH", 2),
        ):
            patch.setattr(sorting, name, value)
        reports = list(sort_run(tasks_of(rows, size), ("a", "b"), folder))
        runs, ranges = cut_ranges(reports)
        reader = RunReader(runs, ("a", "b"))
        found = [reader.rows(each) for each in ranges]

    # The folder is gone, and what was read stays good.
    got = [
        (row["a"], row["b"]) for batch in found if batch is not None for row in batch.to_pylist()
    ]
    assert got == sorted(rows)


def test_no_run_stays_mapped(tmp_path: Path) -> None:
    rows = [(number * 7919 % 10_000, 0) for number in range(10_000)]
    reports = list(sort_run(tasks_of(rows, 5000), ("a",), str(tmp_path)))
    runs, ranges = cut_ranges(reports)
    reader = RunReader(runs, ("a",))

    batches = [reader.rows(each) for each in ranges]

    assert sum(batch.num_rows for batch in batches if batch is not None) == len(rows)
    mapped = Path("/proc/self/maps")
    if mapped.exists():
        # Arrow may let go of a file on a thread of its own, which a busy machine runs later.
        late = time.monotonic() + 10
        while runs[0] in mapped.read_text() and time.monotonic() < late:
            time.sleep(0.01)
        assert runs[0] not in mapped.read_text()
